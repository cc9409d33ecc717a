/* The chunked coding, as it passes by: how far the body goes, and whether it is well-formed.
 * Strict, since what the next reader would take for the end must be what we take for it. */
#ifndef SANDPIT_PROXY_CHUNKED_H
#define SANDPIT_PROXY_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { CHUNK_LINE_MAX = 4096, CHUNK_TRAILERS_MAX = 16 * 1024 };

/* Zeroed = at the start of a body. */
struct chunked {
    int state;
    unsigned digits; /* of the current size */
    size_t line;     /* bytes of the current line, or of all trailers */
    uint64_t left;   /* of the current chunk */
    bool done;
};

/* Looks at the next bytes of the connection. Returns how many of them belong to the body, which is
 * all of them until it is done; -EBADMSG when they are not well-formed. When `plain` is not NULL,
 * what the chunks hold is added to it; -ENOMEM or -EMSGSIZE when that fails. */
long chunked_scan(struct chunked *chunked, const char *data, size_t size, struct buf *plain);

#endif
