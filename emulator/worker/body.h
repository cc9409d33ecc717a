/* A request's JSON body. The large string of a file write never reaches jansson. */
#ifndef SANDPIT_WORKER_BODY_H
#define SANDPIT_WORKER_BODY_H

#include <jansson.h>

#include "base/buf.h"

struct body {
    json_t *json;
    /* The inside of the string literal that was cut out (null in json), still escaped, or NULL. It
     * is a copy: the request, and its body with it, may end before the operation does. */
    char *content;
    size_t content_size;
    json_error_t error;
};
#define BODY_INIT ((struct body){.json = NULL})
#define CLEANUP_BODY __attribute__((cleanup(body_free)))

/* Parses `raw`; the value at `member` of an object, or at `index` of an array, is cut out when it
 * is a large string (NULL and -1: nothing is). 1 when there was a value, 0 when the body is empty,
 * -EINVAL with body->error set, or -ENOMEM. */
int body_read(struct body *body, const struct buf *raw, const char *member, int index);
void body_free(struct body *body);

#endif
