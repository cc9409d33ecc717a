#include "control/feeds.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { LINES_MAX = 64 * 1024 * 1024 };

/* What was asked for; false after an error was answered. */
struct asked {
    struct feed_filter filter;
    bool follow;
};

/* A browser that connects again says where it was. */
static bool read_after(struct http_request *request, struct asked *asked)
{
    const char *text = http_header(request, "Last-Event-ID");
    if (!asked->follow || !text || !*text)
        text = http_query(request, "after");
    if (!text)
        return true;
    char *end = NULL;
    errno = 0;
    asked->filter.after = strtoull(text, &end, 10);
    if (isdigit((unsigned char)*text) && !*end && errno == 0)
        return true;
    http_reply_error(request, 400, "INVALID_QUERY", "?after=17", "after must be a number");
    return false;
}

static bool read_since(struct http_request *request, const struct clock *clock, struct asked *asked)
{
    const char *text = http_query(request, "since");
    int64_t ms = text ? clock_parse_duration(text) : 0;
    if (text && ms >= 0)
        asked->filter.since_ms = clock_now_ms(clock) - ms;
    if (ms < 0)
        http_reply_error(request, 400, "INVALID_QUERY", "?since=10m with units d, h, m, s, ms",
                         "since must be a duration");
    return ms >= 0;
}

static bool read_query(struct http_request *request, const struct clock *clock, const char *subject,
                       struct asked *asked)
{
    const char *follow = http_query(request, "follow");
    if (follow && strcmp(follow, "1") != 0 && strcmp(follow, "0") != 0) {
        http_reply_error(request, 400, "INVALID_QUERY", "?follow=1", "follow must be 1 or 0");
        return false;
    }
    *asked = (struct asked){.follow = follow && *follow == '1'};
    asked->filter.subject = http_query(request, subject);
    asked->filter.type = http_query(request, "type");
    return read_after(request, asked) && read_since(request, clock, asked);
}

static void reply_stream(struct http_request *request, struct stream *stream)
{
    if (stream)
        http_reply_stream(request, 200, "text/event-stream", stream);
    else
        http_reply_error(request, 503, "TOO_MANY_FOLLOWERS", "end one of those that follow",
                         "no more can follow");
}

static void reply_lines(struct http_request *request, struct buf *text, int result)
{
    if (result < 0) {
        http_reply_error(request, 500, "INTERNAL_ERROR", NULL, "out of memory");
        return;
    }
    size_t size = text->size;
    char *data = size ? buf_steal(text) : strdup("");
    http_reply_bytes(request, 200, "application/x-ndjson", data, size);
}

void feeds_events(struct http_request *request, struct objects *objects, const struct clock *clock)
{
    struct events *events = objects_events(objects);
    struct asked asked;
    if (!read_query(request, clock, "sandbox", &asked))
        return;
    if (asked.follow) {
        reply_stream(request, events_follow(events, &asked.filter));
        return;
    }
    CLEANUP_BUF struct buf text = BUF_INIT(LINES_MAX);
    int result = events_write(events, &asked.filter, &text);
    reply_lines(request, &text, result);
}

void feeds_logs(struct http_request *request, struct object *object, const struct clock *clock)
{
    struct asked asked;
    if (!read_query(request, clock, "source", &asked))
        return;
    asked.filter.type = NULL;
    if (asked.follow) {
        reply_stream(request, object_logs_follow(object, &asked.filter));
        return;
    }
    CLEANUP_BUF struct buf text = BUF_INIT(LINES_MAX);
    int result = object_logs_write(object, &asked.filter, &text);
    reply_lines(request, &text, result);
}
