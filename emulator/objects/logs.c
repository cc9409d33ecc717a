#include "objects/logs.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"

enum {
    LOG_BYTES = 256 * 1024,
    LOG_LINES = 8192,
    FOLLOWERS = 64,
    LINE_BYTES = 4096, /* longer ones are cut into several */
    LINE_JSON_MAX = 64 * 1024,
    PARTS_MAX = 256,
};

/* A line whose end has not come yet. */
struct part {
    struct part *next;
    char *source, *stream;
    struct buf text;
};

struct logs {
    struct clock *clock;
    struct feed *feed;
    struct part *parts;
    size_t part_count;
    uint64_t last_begin; /* the last line before the current life */
    int64_t at_ms;       /* of at_text: many lines come in one millisecond */
    char at_text[25];
    struct buf line; /* the one that is being made */
};

static int write_line(struct logs *logs, uint64_t seq, const char *const parts[2], const char *text,
                      size_t size, struct buf *to)
{
    int64_t now = clock_now_ms(logs->clock);
    if (now != logs->at_ms || !*logs->at_text)
        clock_format(now, logs->at_text);
    logs->at_ms = now;
    buf_addf(to, "{\"seq\":%llu,\"at\":\"", (unsigned long long)seq);
    buf_adds(to, logs->at_text);
    buf_adds(to, "\",\"source\":\"");
    jsonstr_escape(to, parts[0], strlen(parts[0]));
    buf_adds(to, "\",\"stream\":\"");
    buf_adds(to, parts[1]);
    buf_adds(to, "\",\"text\":\"");
    jsonstr_escape(to, text, size);
    return buf_adds(to, "\"}");
}

static int write_lost(void *arg, uint64_t last, uint64_t count, struct buf *to)
{
    char text[64];
    int size = snprintf(text, sizeof text, "%llu older lines are not kept any more",
                        (unsigned long long)count);
    const char *const parts[] = {"sandpit", "lost"};
    return write_line(arg, last, parts, text, (size_t)size, to);
}

struct logs *logs_new(struct clock *clock)
{
    struct logs *logs = calloc(1, sizeof *logs);
    if (!logs)
        return NULL;
    struct feed_limits limits = {.count = LOG_LINES,
                                 .bytes = LOG_BYTES,
                                 .followers = FOLLOWERS,
                                 .lost = write_lost,
                                 .arg = logs};
    logs->clock = clock;
    logs->line = BUF_INIT(LINE_JSON_MAX);
    logs->feed = feed_new(&limits);
    if (!logs->feed) {
        free(logs);
        return NULL;
    }
    return logs;
}

static void drop_part(struct logs *logs, struct part **at)
{
    struct part *part = *at;
    *at = part->next;
    logs->part_count--;
    free(part->source);
    free(part->stream);
    buf_free(&part->text);
    free(part);
}

void logs_free(struct logs *logs)
{
    if (!logs)
        return;
    while (logs->parts)
        drop_part(logs, &logs->parts);
    feed_free(logs->feed);
    buf_free(&logs->line);
    free(logs);
}

void logs_begin(struct logs *logs)
{
    while (logs->parts)
        drop_part(logs, &logs->parts);
    feed_forget(logs->feed, logs->last_begin);
    logs->last_begin = feed_next(logs->feed) - 1;
}

void logs_line(struct logs *logs, const char *source, const char *stream, const char *text,
               size_t size)
{
    const char *const parts[] = {source, stream};
    buf_clear(&logs->line);
    if (write_line(logs, feed_next(logs->feed), parts, text, size, &logs->line) < 0)
        return;
    struct feed_entry entry = {
        .text = buf_text(&logs->line), .subject = source, .type = stream, .at_ms = logs->at_ms};
    feed_add(logs->feed, &entry);
}

/* Where the part of this stream is, or where it would be put. */
static struct part **find_part(struct logs *logs, const char *source, const char *stream)
{
    struct part **at = &logs->parts;
    while (*at && (strcmp((*at)->source, source) != 0 || strcmp((*at)->stream, stream) != 0))
        at = &(*at)->next;
    return at;
}

static void keep_part(struct logs *logs, struct part **at, const char *source, const char *stream,
                      const char *text, size_t size)
{
    if (!*at && logs->part_count < PARTS_MAX) {
        struct part *part = calloc(1, sizeof *part);
        if (!part)
            return;
        *at = part;
        logs->part_count++;
        *part = (struct part){.source = strdup(source), .stream = strdup(stream)};
        part->text = BUF_INIT(LINE_BYTES);
        if (!part->source || !part->stream) {
            drop_part(logs, at);
            return;
        }
    }
    if (*at)
        buf_add(&(*at)->text, text, size);
    else
        logs_line(logs, source, stream, text, size);
}

/* The end of a line, put behind what was there of it. */
static void finish_line(struct logs *logs, struct part **at, const char *source, const char *stream,
                        const char *text, size_t size)
{
    if (!*at) {
        logs_line(logs, source, stream, text, size);
        return;
    }
    buf_add(&(*at)->text, text, size);
    logs_line(logs, source, stream, buf_text(&(*at)->text), (*at)->text.size);
    drop_part(logs, at);
}

void logs_output(struct logs *logs, const char *source, const char *stream, const char *data,
                 size_t size)
{
    struct part **at = find_part(logs, source, stream);
    if (size == 0 && *at)
        finish_line(logs, at, source, stream, "", 0);
    while (size > 0) {
        size_t room = LINE_BYTES - (*at ? (*at)->text.size : 0);
        size_t look = size < room ? size : room;
        const char *newline = memchr(data, '\n', look);
        size_t taken = newline ? (size_t)(newline - data) : look;
        if (newline || taken == room)
            finish_line(logs, at, source, stream, data, taken);
        else
            keep_part(logs, at, source, stream, data, taken);
        taken += newline ? 1 : 0;
        data += taken;
        size -= taken;
        at = find_part(logs, source, stream);
    }
}

int logs_write(const struct logs *logs, const struct feed_filter *filter, struct buf *to)
{
    return feed_write(logs->feed, filter, to);
}

struct stream *logs_follow(struct logs *logs, const struct feed_filter *filter)
{
    return feed_follow(logs->feed, filter);
}
