/* The table of SDK methods. It is the routing of POST /sandbox/{id}/{method}, the check of its
 * arguments, and the source of the method section of docs/api.md. */
#ifndef SANDPIT_WORKER_METHODS_H
#define SANDPIT_WORKER_METHODS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum arg_type {
    ARG_STRING,
    ARG_NUMBER,
    ARG_BOOLEAN,
    ARG_STRING_OR_NUMBER,
    ARG_STRING_OR_OBJECT,
    ARG_NUMBER_OR_OBJECT,
    ARG_OBJECT,
    ARG_VARIABLES, /* an object of strings and nulls */
    ARG_CONTENT,   /* a string that may be large and may have been cut out of the body */
    ARG_OPTIONS,   /* an object with the members of `options` */
    ARG_SESSION,   /* a session id, or an object with the members of `options` */
};

/* A member of an options object. `field` is its name in the argument object of the layer below,
 * with one dot for a nested one; NULL = the same name. */
struct option_row {
    const char *name;
    enum arg_type type;
    const char *field;
    const char *what;
};

struct param_row {
    const char *name;
    enum arg_type type;
    bool required;
    const char *what;
    const char *field;
    const struct option_row *options; /* ends with a NULL name */
};

enum method_kind {
    METHOD_OP,     /* target is a route of the container's API */
    METHOD_OBJECT, /* target is the name of an object method */
    METHOD_LOCAL,  /* answered here, from the arguments */
    METHOD_FETCH,  /* a request to a server in the sandbox */
    METHOD_BUCKET, /* target is what is done with a bucket; no sandbox is asked */
};

#define PARAMS_MAX 4
#define ALIASES_MAX 2

/* Makes the SDK's result from that of the layer below; takes `result`, which may be NULL. */
typedef json_t *shape_function(json_t *result, const json_t *args, int64_t duration_ms);

struct method_row {
    const char *name;
    const char *aliases[ALIASES_MAX]; /* names of older SDKs */
    enum method_kind kind;
    const char *target;
    bool in_session; /* runs in a session: the default one when the call names none */
    bool upload;     /* the body is not JSON but the bytes of a file: see upload.h */
    bool wants_host;       /* `hostname` is that of the request when the call names none */
    bool events_on_accept; /* `Accept: text/event-stream` stands for the option `onOutput` */
    struct param_row params[PARAMS_MAX];
    shape_function *shape; /* NULL = as it comes */
    const char *what;
    const char *result;
    const char *example; /* a JSON array of arguments */
};

extern const struct method_row method_rows[]; /* ends with a NULL name */

/* By name or older name; or NULL. */
const struct method_row *method_find(const char *name);
/* The name most like this one, for hints; or NULL. */
const char *method_nearest(const char *name);
/* The index of the ARG_CONTENT parameter, or -1. */
int method_content_index(const struct method_row *row);
const char *arg_type_name(enum arg_type type);

/* Appends the method section of docs/api.md. */
int methods_markdown(struct buf *to);

#endif
