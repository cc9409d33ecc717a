/* What a readiness check needs of URLs and HTTP/1.1: the request target, the head of an answer, and
 * where a redirect leads. The server is whatever runs in the container: nothing of it is trusted.
 */
#ifndef SANDPIT_CONTAINER_PORT_HTTP_H
#define SANDPIT_CONTAINER_PORT_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    PORT_TARGET_MAX = 8 * 1024,
    PORT_HEAD_MAX = 32 * 1024, /* with the interim answers before it */
};

struct port_head {
    int status;
    const char *location; /* points into the bytes; NULL when there is none */
    size_t location_size;
};

/* The head of the final answer: 1 when it is whole, 0 when more bytes are needed, -EBADMSG when
 * this is no HTTP/1 answer. */
int port_head_parse(const char *data, size_t size, struct port_head *head);

/* Appends a path and query as URL parsers write them: escaped, without dots and fragment. */
int port_target(struct buf *to, const char *path, size_t size);

/* Where a Location leads that came as the answer to `target`: 1 with the port and the new target, 0
 * when that is not in this container (another host or scheme), or a negative errno. */
int port_redirect(const char *target, const char *location, size_t size, uint16_t *port,
                  struct buf *to);

#endif
