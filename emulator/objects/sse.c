#include "objects/sse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "base/jsonstr.h"

enum {
    PIECE = 64 * 1024,
    TURN_PIECES = 4,
    LARGE = 64 * 1024, /* strings from here on are not shown to jansson */
};

int sse_fill(struct sse *sse, struct stream *stream)
{
    buf_drop(&sse->text, sse->at);
    sse->at = 0;
    for (int i = 0; i < TURN_PIECES; i++) {
        int error = 0;
        char *to = buf_reserve(&sse->text, PIECE, &error);
        if (!to)
            return error;
        long got = stream_take(stream, to, PIECE);
        if (got <= 0)
            return got < 0 ? -EPIPE : 0;
        buf_commit(&sse->text, (size_t)got);
    }
    return 1;
}

/* An event whose member "data" is large: unescaped by our own code, beside what jansson reads. */
static json_t *load_large(const char *text, size_t size)
{
    const char *inside = NULL;
    size_t inside_size = 0;
    CLEANUP_FREE char *rest = NULL;
    if (jsonstr_cut(text, size, "data", -1, LARGE, &inside, &inside_size, &rest) != 1)
        return NULL;
    CLEANUP_FREE char *plain = malloc(inside_size + 16);
    const char *from = inside, *end = inside + inside_size;
    size_t used = 0;
    long got = 0;
    while (plain && (got = jsonstr_unescape(&from, end, plain + used, inside_size + 16 - used)) > 0)
        used += (size_t)got;
    json_t *event =
        plain && got == 0 ? heap_load_json(rest, strlen(rest), JSON_ALLOW_NUL, NULL) : NULL;
    if (!event || json_object_set_new(event, "data", json_stringn_nocheck(plain, used)) == 0)
        return event;
    json_decref(event);
    return NULL;
}

static json_t *load(const char *text, size_t size)
{
    json_t *event = size >= LARGE ? load_large(text, size) : NULL;
    return event ? event : heap_load_json(text, size, JSON_ALLOW_NUL, NULL);
}

json_t *sse_next(struct sse *sse)
{
    for (;;) {
        const char *line = buf_text(&sse->text) + sse->at;
        const char *newline = memchr(line, '\n', sse->text.size - sse->at);
        if (!newline)
            return NULL;
        size_t size = (size_t)(newline - line);
        sse->at += size + 1;
        if (size <= 6 || memcmp(line, "data: ", 6) != 0)
            continue;
        json_t *event = load(line + 6, size - 6);
        sse->lost = !event; /* our own events are well-formed */
        return event;
    }
}

void sse_free(struct sse *sse)
{
    buf_free(&sse->text);
}
