/* The /api routes as a table over the SDK methods. */
#ifndef SANDPIT_WORKER_API_H
#define SANDPIT_WORKER_API_H

#include <jansson.h>

#include "base/buf.h"
#include "worker/methods.h"

struct api_row {
    const char *method;
    const char *path;
    const char *name;    /* of the SDK method */
    const char *example; /* a JSON object, or "" when the route takes no body */
    const char *result;
    const char *query;   /* arguments that may come with the query, parted by spaces; or NULL */
    shape_function *shape;         /* NULL = as the method's */
    bool no_session;               /* refuses X-Session-Id */
    void (*prepare)(json_t *body); /* changes the body before it is checked; or NULL */
};
extern const struct api_row api_rows[]; /* ends with a NULL method */

/* Whether the route takes the bytes of a file as its body. */
bool api_uploads(const char *method, const char *path);

/* Appends the /api section of docs/api.md. */
int api_markdown(struct buf *to);

#endif
