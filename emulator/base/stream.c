#include "base/stream.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Sources pause at `limit`, but a single frame may be larger; this bounds the sum. */
enum { STREAM_MAX = 256 * 1024 * 1024 };

struct stream {
    struct buf waiting;
    size_t taken; /* bytes at the front of `waiting` that the sink already has */
    size_t limit;
    struct stream_source source;
    struct stream_sink sink;
    void (*closed)(void *arg);
    void *closed_arg;
    bool paused;
    bool ended;   /* the source let go */
    bool failed;  /* before all was written */
    bool aborted; /* the sink let go */
};

struct stream *stream_new(size_t limit, struct stream_source source)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->waiting = BUF_INIT(STREAM_MAX);
    stream->limit = limit;
    stream->source = source;
    return stream;
}

void stream_set_source(struct stream *stream, struct stream_source source)
{
    stream->source = source;
}

void stream_set_sink(struct stream *stream, struct stream_sink sink)
{
    stream->sink = sink;
}

void stream_on_closed(struct stream *stream, void (*closed)(void *arg), void *arg)
{
    stream->closed = closed;
    stream->closed_arg = arg;
}

static void free_when_unused(struct stream *stream)
{
    if (!stream->ended || !stream->aborted)
        return;
    if (stream->closed)
        stream->closed(stream->closed_arg);
    buf_free(&stream->waiting);
    free(stream);
}

static void tell_sink(struct stream *stream)
{
    if (!stream->aborted && stream->sink.readable)
        stream->sink.readable(stream->sink.arg);
}

int stream_write(struct stream *stream, const void *data, size_t size)
{
    if (stream->aborted)
        return -EPIPE;
    bool was_empty = stream->waiting.size == stream->taken;
    int result = buf_add(&stream->waiting, data, size);
    if (result < 0)
        return result;
    stream->paused = stream->waiting.size - stream->taken > stream->limit;
    int pause = stream->paused;
    if (was_empty && size)
        tell_sink(stream);
    return pause;
}

void stream_end(struct stream *stream)
{
    if (stream->ended)
        return;
    stream->ended = true;
    if (!stream->aborted)
        tell_sink(stream);
    else
        free_when_unused(stream);
}

void stream_fail(struct stream *stream)
{
    if (!stream->ended)
        stream->failed = true;
    stream_end(stream);
}

bool stream_failed(const struct stream *stream)
{
    return stream->failed;
}

long stream_take(struct stream *stream, void *to, size_t size)
{
    size_t there = stream->waiting.size - stream->taken;
    if (there == 0 && !stream->ended && stream->source.fill) {
        long filled = stream->source.fill(stream->source.arg, to, size);
        if (filled > 0)
            return filled;
    }
    if (there == 0)
        return stream->ended ? -1 : 0;
    if (size > there)
        size = there;
    memcpy(to, stream->waiting.data + stream->taken, size);
    stream->taken += size;
    if (stream->taken == stream->waiting.size) {
        buf_clear(&stream->waiting);
        stream->taken = 0;
    } else if (stream->taken > stream->waiting.size / 2) {
        buf_drop(&stream->waiting, stream->taken);
        stream->taken = 0;
    }
    if (stream->paused && !stream->ended &&
        stream->waiting.size - stream->taken <= stream->limit / 2) {
        stream->paused = false;
        if (stream->source.resume)
            stream->source.resume(stream->source.arg);
    }
    return (long)size;
}

void stream_abort(struct stream *stream)
{
    if (stream->aborted)
        return;
    stream->aborted = true;
    if (stream->ended)
        free_when_unused(stream);
    else if (stream->source.aborted)
        stream->source.aborted(stream->source.arg); /* may end and so free the stream */
}
