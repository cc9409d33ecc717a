/* A request's JSON body. The large string of a file write never reaches jansson. */
#ifndef SANDPIT_WORKER_BODY_H
#define SANDPIT_WORKER_BODY_H

#include <jansson.h>

#include "base/buf.h"
#include "http/http.h"

struct body {
    json_t *json;
    /* The bytes, taken from the request, which may end before the operation does. */
    struct buf raw;
    /* The inside of the string literal that was cut out (null in json), still escaped, or NULL. */
    const char *content;
    size_t content_size;
    json_error_t error;
};
#define BODY_INIT ((struct body){.json = NULL})
#define CLEANUP_BODY __attribute__((cleanup(body_free)))

/* Takes and parses the request's body; the value at `member` of an object, or at `index` of an
 * array, is cut out when it is a large string (NULL and -1: nothing is). 1 when there was a value,
 * 0 when the body is empty, -EINVAL with body->error set, or -ENOMEM. */
int body_read(struct body *body, struct http_request *request, const char *member, int index);
void body_free(struct body *body);

#endif
