#include "container/interpreter_events.h"

#include <stdio.h>
#include <string.h>

#include "base/jsonstr.h"

enum {
    STREAM_LIMIT = 256 * 1024,
    PIECE = 64 * 1024,
    TURN_PIECES = 16, /* written in one turn of the loop */
};

/* The end of a piece, not inside a character. */
static size_t piece_end(const char *data, size_t size)
{
    if (size <= PIECE)
        return size;
    size_t end = PIECE;
    for (int back = 0; back < 3 && ((unsigned char)data[end] & 0xc0) == 0x80; back++)
        end--;
    return end;
}

/* As stream_write(). */
static int write_piece(struct code_events *events)
{
    size_t size = piece_end(events->part.data, events->part.size);
    struct buf frame = BUF_INIT(8 * PIECE);
    int result = events->part.escaped ? jsonstr_escape(&frame, events->part.data, size)
                                      : buf_add(&frame, events->part.data, size);
    events->part.data += size;
    events->part.size -= size;
    if (result == 0 && events->part.size == 0) {
        result = buf_adds(&frame, events->part.tail);
        events->part.data = NULL;
    }
    if (result == 0)
        result = stream_write(events->stream, frame.data, frame.size);
    buf_free(&frame);
    return result;
}

static void begin_text(struct code_events *events, const struct buf *text, const char *tail)
{
    events->part.data = buf_text(text);
    events->part.size = text->size;
    events->part.escaped = true;
    events->part.tail = tail;
}

/* An error whose text is all that was written to standard error. */
static int begin_error(struct code_events *events, const char *name, size_t size)
{
    char head[160];
    snprintf(
        head, sizeof head, "data: {\"type\":\"error\",\"ename\":\"%.*s\",\"evalue\":\"",
        (int)(size < 64 ? strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") : 0),
        name);
    begin_text(events, &events->printed[1], "\",\"traceback\":[]}\n\n");
    return stream_write(events->stream, head, strlen(head));
}

static int begin_line(struct code_events *events)
{
    const char *line = events->lines.data + events->at;
    size_t size = strcspn(line, "\n");
    events->at += size + (line[size] == '\n');
    if (size == 0)
        return 0;
    if (*line == '!')
        return begin_error(events, line + 1, size - 1);
    events->part.data = line;
    events->part.size = size;
    events->part.escaped = false;
    events->part.tail = "\n\n";
    return stream_write(events->stream, "data: ", 6);
}

/* The next piece: as stream_write(), or 2 when nothing is left. */
static int step(struct code_events *events)
{
    static const char *const heads[] = {"data: {\"type\":\"stdout\",\"text\":\"",
                                        "data: {\"type\":\"stderr\",\"text\":\""};
    if (events->part.data)
        return write_piece(events);
    if (events->stage < 2) {
        int stage = events->stage++;
        if (events->printed[stage].size == 0)
            return 0;
        begin_text(events, &events->printed[stage], "\"}\n\n");
        return stream_write(events->stream, heads[stage], strlen(heads[stage]));
    }
    return events->at < events->lines.size ? begin_line(events) : 2;
}

static void pump(void *arg)
{
    struct code_events *events = arg;
    int result = 0;
    events->writing = true;
    for (int i = 0; i < TURN_PIECES && result == 0 && !events->left; i++)
        result = step(events);
    events->writing = false;
    if (events->left || result == 2 || result < 0)
        events->over(events->arg);
    else if (result == 0)
        loop_defer(events->loop, &events->task);
    /* Else it is 1, and resume() comes. */
}

static void resume(void *arg)
{
    struct code_events *events = arg;
    loop_defer(events->loop, &events->task);
}

static void aborted(void *arg)
{
    struct code_events *events = arg;
    events->left = true;
    if (!events->writing)
        events->over(events->arg);
}

struct stream *code_events_open(struct code_events *events, struct loop *loop)
{
    events->stream = stream_new(
        STREAM_LIMIT, (struct stream_source){.resume = resume, .aborted = aborted, .arg = events});
    if (!events->stream)
        return NULL;
    events->loop = loop;
    events->task = (struct task){.run = pump, .arg = events};
    loop_defer(loop, &events->task);
    return events->stream;
}

void code_events_close(struct code_events *events)
{
    if (events->loop)
        loop_cancel(events->loop, &events->task);
    events->writing = true;
    if (events->stream)
        stream_end(events->stream);
    events->stream = NULL;
    buf_free(&events->printed[0]);
    buf_free(&events->printed[1]);
    buf_free(&events->lines);
}
