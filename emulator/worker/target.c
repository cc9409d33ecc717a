#include "worker/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/percent.h"
#include "worker/problem.h"

static bool is_utf8(const char *text)
{
    CLEANUP_JSON json_t *string = json_string(text);
    return string != NULL;
}

char *target_decode(const char *from, size_t size)
{
    CLEANUP_FREE char *to = malloc(size + 1);
    if (!to || percent_decode(from, size, to, size + 1) < 0)
        return NULL;
    return is_utf8(to) ? steal_pointer(&to) : NULL;
}

/* 1, 0 or, with an answer, -EINVAL; *to stays when there is no text. */
static int parse_switch(struct http_request *request, const char *name, const char *text, int *to)
{
    if (!text)
        return 0;
    if (strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0) {
        *to = 1;
    } else if (strcmp(text, "0") == 0 || strcasecmp(text, "false") == 0) {
        *to = 0;
    } else {
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, "Use 1, 0, true or false",
                      "%s must be a boolean, not '%.100s'", name, text);
        return -EINVAL;
    }
    return 0;
}

/* A header, or the query parameter that stands for it. */
static const char *either(const struct target *target, struct http_request *request,
                          const char *header, const char *query)
{
    const char *value = http_header(request, header);
    if (target->headers_only)
        return value;
    return value && *value ? value : http_query(request, query);
}

static int normalize(struct target *target, struct http_request *request)
{
    int wanted = 0;
    if (target->headers_only)
        return 0;
    if (parse_switch(request, "normalizeId", http_query(request, "normalizeId"), &wanted) < 0)
        return -EINVAL;
    for (char *c = target->id; wanted && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return 0;
}

/* The options that both faces take, by header or query. */
static int read_options(struct target *target, struct http_request *request)
{
    const char *keep = either(target, request, "X-Sandbox-KeepAlive", "keepAlive");
    if (parse_switch(request, "keepAlive", keep, &target->options.keep_alive) < 0)
        return -EINVAL;
    const char *session =
        either(target, request, "X-Sandbox-Enable-Default-Session", "enableDefaultSession");
    if (parse_switch(request, "enableDefaultSession", session, &target->default_session) < 0)
        return -EINVAL;
    target->options.sleep_after = either(target, request, "X-Sandbox-Sleep-After", "sleepAfter");
    target->options.colo = http_header(request, "X-Sandpit-Colo");
    target->class_name = either(target, request, "X-Sandbox-Class", "class");
    target->type = http_header(request, "X-Sandbox-Type");
    return normalize(target, request);
}

int target_from_path(struct target *target, struct http_request *request, const char *segment,
                     size_t size)
{
    target->id = target_decode(segment, size);
    if (!target->id) {
        problem_reply(request, 400, "VALIDATION_FAILED", NULL,
                      "Percent-encode the id as UTF-8, for example with encodeURIComponent",
                      "The sandbox id in the path is not percent-encoded text");
        return -EINVAL;
    }
    return read_options(target, request);
}

/* The blank X-Session-Id of a client that fills all headers is the same as none. */
static int read_session(struct target *target, struct http_request *request)
{
    const char *session = http_header(request, "X-Session-Id");
    if (!session || session[strspn(session, " \t")] == '\0')
        return 0;
    if (!is_utf8(session)) {
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, NULL, "X-Session-Id is not UTF-8");
        return -EINVAL;
    }
    target->session = session;
    return 0;
}

int target_from_headers(struct target *target, struct http_request *request,
                        const struct objects *objects)
{
    const char *id = either(target, request, "X-Sandbox-Id", "sandboxId");
    if (!id || !*id)
        id = "default";
    if (!is_utf8(id)) {
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, NULL, "The sandbox id is not UTF-8");
        return -EINVAL;
    }
    target->id = strdup(id);
    if (!target->id) {
        problem_reply(request, 500, "INTERNAL_ERROR", NULL, NULL, "Out of memory");
        return -ENOMEM;
    }
    if (read_session(target, request) < 0 || read_options(target, request) < 0)
        return -EINVAL;
    return 0;
}

int target_check(const struct target *target, struct http_request *request)
{
    const char *code = NULL;
    struct error err = {0};
    if (object_id_check(target->id, &code, &err) == 0)
        return 0;
    problem_reply(request, 400, "SECURITY_ERROR", json_pack("{s:s*}", "code", code),
                  "Ids have 1 to 63 characters, no hyphen at either end, and are not a reserved "
                  "word such as api or admin",
                  "%s", err.text);
    return -EINVAL;
}

/* What the state directory refused. 503 makes the SDK try again by itself. */
static void reply_storage(struct http_request *request, const struct error *err)
{
    if (err->code == EBUSY)
        problem_reply(request, 503, "CONTAINER_UNAVAILABLE", NULL,
                      "Another program writes to this database; end it", "%s", err->text);
    else
        problem_reply(request, 500, "INTERNAL_ERROR", NULL,
                      err->code == ENOSPC ? "Free space where the state directory is" : NULL, "%s",
                      err->text);
}

static void reply_no_object(const struct target *target, struct http_request *request,
                            const struct error *err)
{
    if (err->code == ENOENT)
        problem_reply(request, 404, "CLASS_NOT_FOUND", NULL,
                      "Classes come from containers[].class_name in the Wrangler configuration",
                      "Class '%.100s' not found", target->class_name ? target->class_name : "");
    else
        reply_storage(request, err);
}

/* "python" is SandboxPython, when the project has such a class; else the default counts. */
static const char *class_of(const struct target *target, const struct objects *objects)
{
    char name[sizeof((struct object_class *)0)->name];
    const char *type = target->type;
    if ((target->class_name && *target->class_name) || !type || !*type)
        return target->class_name;
    snprintf(name, sizeof name, "Sandbox%c%.40s", toupper((unsigned char)*type), type + 1);
    const struct object_class *class = objects_class(objects, name);
    return class ? class->name : NULL;
}

struct object *target_object(const struct target *target, struct http_request *request,
                             struct objects *objects)
{
    if (target_check(target, request) < 0)
        return NULL;
    struct error err = {0};
    struct object *object = objects_get(objects, class_of(target, objects), target->id, &err);
    if (!object) {
        reply_no_object(target, request, &err);
        return NULL;
    }
    int result = object_configure(object, &target->options, &err);
    if (result == -EINVAL)
        problem_reply(request, 400, "VALIDATION_FAILED", NULL,
                      "sleepAfter is 30s, 10m, 1h or a number of seconds; X-Sandpit-Colo is a place",
                      "%s", err.text);
    else if (result < 0)
        reply_storage(request, &err);
    return result < 0 ? NULL : object;
}

void target_free(struct target *target)
{
    free(target->id);
    target->id = NULL;
}
