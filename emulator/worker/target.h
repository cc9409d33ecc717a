/* Which sandbox a request means, and the getSandbox options that came with it. */
#ifndef SANDPIT_WORKER_TARGET_H
#define SANDPIT_WORKER_TARGET_H

#include "http/http.h"
#include "objects/objects.h"

struct target {
    bool headers_only; /* the query is not ours to read */
    char *id; /* malloc'd */
    const char *class_name, *type; /* the type is a short name for a class */
    struct object_options options;
    int default_session; /* -1 = as configured, 0 = off, 1 = on */
    const char *session; /* X-Session-Id, or NULL */
};
#define TARGET_INIT ((struct target){.options.keep_alive = -1, .default_session = -1})
#define CLEANUP_TARGET __attribute__((cleanup(target_free)))

/* Decodes %XX once. A malloc'd text, or NULL for a bad escape, a NUL byte or what is not UTF-8. */
char *target_decode(const char *from, size_t size);

/* From the path's id and the query: the method route. -EINVAL after an error was answered. */
int target_from_path(struct target *target, struct http_request *request, const char *segment,
                     size_t size);
/* From the X-Sandbox headers, with the query in their place when they are absent. */
int target_from_headers(struct target *target, struct http_request *request,
                        const struct objects *objects);
/* The object, with the options set; or NULL after an error was answered. */
struct object *target_object(const struct target *target, struct http_request *request,
                             struct objects *objects);
/* Only checks the id; -EINVAL after an error was answered. */
int target_check(const struct target *target, struct http_request *request);
void target_free(struct target *target);

#endif
