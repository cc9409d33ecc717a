#include "objects/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/log.h"

enum { RING = 10000, FOLLOWERS = 256, EVENT_MAX = 16 * 1024 * 1024 };

struct events {
    struct clock *clock;
    struct feed *feed;
    int file; /* -1 = none */
    char *file_name;
};

static void real_time(char to[25])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_format((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, to);
}

/* A member with a text, or null. */
static void add_text(struct buf *to, const char *name, const char *text)
{
    buf_addf(to, ",\"%s\":", name);
    if (!text) {
        buf_adds(to, "null");
        return;
    }
    buf_addc(to, '"');
    jsonstr_escape(to, text, strlen(text));
    buf_addc(to, '"');
}

static int write_event(const struct events *events, uint64_t seq, const char *const texts[4],
                       const json_t *data, struct buf *to)
{
    static const char *const names[] = {"sandbox", "runtime", "type", "reason"};
    char at[25], real[25];
    clock_format(clock_now_ms(events->clock), at);
    real_time(real);
    buf_addf(to, "{\"v\":1,\"seq\":%llu,\"at\":\"%s\",\"real\":\"%s\"", (unsigned long long)seq, at,
             real);
    for (int i = 0; i < 4; i++)
        add_text(to, names[i], texts[i]);
    buf_adds(to, ",\"data\":");
    int result = data ? json_write(to, data, NULL, NULL) : buf_adds(to, "{}");
    return result < 0 ? result : buf_addc(to, '}');
}

/* It has the number of the last one that is lost, so that the numbers go on behind it. */
static int write_lost(void *arg, uint64_t last, uint64_t count, struct buf *to)
{
    const char *const texts[] = {NULL, NULL, "lost", "older than what is kept"};
    CLEANUP_JSON json_t *data = json_pack("{s:I}", "count", (json_int_t)count);
    return write_event(arg, last, texts, data, to);
}

struct events *events_new(struct clock *clock)
{
    struct events *events = calloc(1, sizeof *events);
    if (!events)
        return NULL;
    struct feed_limits limits = {
        .count = RING, .followers = FOLLOWERS, .lost = write_lost, .arg = events};
    events->clock = clock;
    events->file = -1;
    events->feed = feed_new(&limits);
    if (!events->feed) {
        free(events);
        return NULL;
    }
    return events;
}

void events_free(struct events *events)
{
    if (!events)
        return;
    feed_free(events->feed);
    cleanup_fd(&events->file);
    free(events->file_name);
    free(events);
}

/* The file. */

int events_to_file(struct events *events, const char *path, struct error *err)
{
    /* Without O_NONBLOCK a FIFO that nobody reads would stop everything. */
    CLEANUP_FD int fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fd < 0)
        return error_errno(err, errno, "open events file '%s'", path);
    char *name = strdup(path);
    if (!name)
        return error_errno(err, ENOMEM, "events file '%s'", path);
    free(events->file_name);
    cleanup_fd(&events->file);
    events->file_name = name;
    events->file = steal_fd(&fd);
    return 0;
}

static void append(struct events *events, const char *line, size_t size)
{
    ssize_t wrote;
    do {
        wrote = write(events->file, line, size);
    } while (wrote < 0 && errno == EINTR);
    if (wrote == (ssize_t)size)
        return;
    log_warn("no more events go to '%s': %s", events->file_name,
             wrote < 0 ? strerror(errno) : "only a part of a line could be written");
    close(steal_fd(&events->file));
}

void events_add(struct events *events, const char *sandbox, const char *runtime, const char *type,
                const char *reason, json_t *data)
{
    CLEANUP_BUF struct buf line = BUF_INIT(EVENT_MAX);
    const char *const texts[] = {sandbox, runtime, type, reason};
    int result = write_event(events, feed_next(events->feed), texts, data, &line);
    json_decref(data);
    struct feed_entry entry = {.text = buf_text(&line),
                               .subject = sandbox,
                               .type = type,
                               .at_ms = clock_now_ms(events->clock)};
    if (result < 0 || feed_add(events->feed, &entry) < 0)
        return;
    if (events->file >= 0 && buf_addc(&line, '\n') == 0)
        append(events, line.data, line.size);
}

uint64_t events_last(const struct events *events)
{
    return feed_next(events->feed) - 1;
}

int events_write(const struct events *events, const struct feed_filter *filter, struct buf *to)
{
    return feed_write(events->feed, filter, to);
}

struct stream *events_follow(struct events *events, const struct feed_filter *filter)
{
    return feed_follow(events->feed, filter);
}

size_t events_let_go(struct events *events)
{
    return feed_let_go(events->feed);
}

json_t *events_after(const struct events *events, uint64_t after)
{
    json_t *list = json_array();
    for (uint64_t seq = after + 1; seq <= events_last(events); seq++) {
        const char *text = feed_text(events->feed, seq);
        if (text && json_array_append_new(list, json_loads(text, 0, NULL)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
