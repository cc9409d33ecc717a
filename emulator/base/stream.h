/* A bounded, pausable, abortable stream of bytes from one source to one sink. The source writes and
 * is told to pause when more than `limit` bytes wait; the sink takes what is there and the source
 * is told to go on. Either side may end it: the source with stream_end(), the sink with
 * stream_abort(). Encoders (SSE, NDJSON, …) sit on the source side and write finished frames.
 *
 * A source of bytes that are always there, such as a file, need not write: it sets fill(), and the
 * sink's buffer is the only one. */
#ifndef SANDPIT_BASE_STREAM_H
#define SANDPIT_BASE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

struct stream;

struct stream_source {
    /* Room again after a write that returned 1. May write at once. */
    void (*resume)(void *arg);
    /* The sink is gone: the source must not write again and lets go with stream_end(), in this call or
     * later. Called at most once, never after stream_end(). */
    void (*aborted)(void *arg);
    void *arg;
    /* Puts at most `size` bytes there and says how many. 0 only after stream_end() or
     * stream_fail(). Or NULL. */
    long (*fill)(void *arg, void *to, size_t size);
};
struct stream_sink {
    /* Bytes (or the end) can be taken. Called when an empty stream gets its first byte or ends. */
    void (*readable)(void *arg);
    void *arg;
};

/* Starts with one reference for each side. */
struct stream *stream_new(size_t limit, struct stream_source source);
void stream_set_source(struct stream *stream, struct stream_source source);
void stream_set_sink(struct stream *stream, struct stream_sink sink);
/* Called once, when both sides have let go and just before the stream is freed. */
void stream_on_closed(struct stream *stream, void (*closed)(void *arg), void *arg);

/* Source side. Bytes are always taken; the result says whether to go on (0) or pause (1) until
 * resume(); -EPIPE after an abort, -ENOMEM. */
int stream_write(struct stream *stream, const void *data, size_t size);
/* No more bytes will come; gives up the source's reference. */
void stream_end(struct stream *stream);
/* The same, when bytes are missing: the sink must not take what it has for the whole. */
void stream_fail(struct stream *stream);

/* Sink side. Copies at most `size` bytes out; 0 = nothing now, -1 = ended and empty. */
long stream_take(struct stream *stream, void *to, size_t size);
/* Whether the end that stream_take() told came by stream_fail(). */
bool stream_failed(const struct stream *stream);
/* The sink is done, early or not; gives up the sink's reference. */
void stream_abort(struct stream *stream);

#endif
