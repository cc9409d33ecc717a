/* Reads the container's server-sent events back into JSON. */
#ifndef SANDPIT_OBJECTS_SSE_H
#define SANDPIT_OBJECTS_SSE_H

#include <jansson.h>

#include "base/buf.h"
#include "base/stream.h"

struct sse {
    struct buf text;
    size_t at; /* what was read lies before this */
    bool lost; /* there was no memory for an event */
};
#define SSE_INIT ((struct sse){.text = BUF_INIT((size_t)256 << 20)})

/* Takes what the stream has, at most some 256 KiB: 1 when there may be more, 0 when not now, -EPIPE
 * at the end, or -EMSGSIZE, -ENOMEM. */
int sse_fill(struct sse *sse, struct stream *stream);
/* The next event that is there whole, a new reference; NULL when there is none, or it was lost. */
json_t *sse_next(struct sse *sse);
void sse_free(struct sse *sse);

#endif
