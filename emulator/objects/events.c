#include "objects/events.h"

#include <stdlib.h>
#include <time.h>

enum { RING = 10000 };

struct events {
    struct clock *clock;
    char *ring[RING]; /* event n is at n % RING, as JSON text: a seventh of what jansson takes */
    uint64_t last;
};

struct events *events_new(struct clock *clock)
{
    struct events *events = calloc(1, sizeof *events);
    if (events)
        events->clock = clock;
    return events;
}

void events_free(struct events *events)
{
    if (!events)
        return;
    for (int i = 0; i < RING; i++)
        free(events->ring[i]);
    free(events);
}

static json_t *real_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char text[25];
    clock_format((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, text);
    return json_string(text);
}

void events_add(struct events *events, const char *sandbox, const char *runtime, const char *type,
                const char *reason, json_t *data)
{
    uint64_t seq = events->last + 1;
    json_t *event = json_pack("{s:i, s:I, s:o, s:o, s:s?, s:s?, s:s, s:s?, s:o}", "v", 1, "seq",
                              (json_int_t)seq, "at", clock_timestamp(events->clock), "real",
                              real_time(), "sandbox", sandbox, "runtime", runtime, "type", type,
                              "reason", reason, "data", data ? data : json_object());
    char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
    json_decref(event);
    if (!text)
        return;
    events->last = seq;
    free(events->ring[seq % RING]);
    events->ring[seq % RING] = text;
}

uint64_t events_last(const struct events *events)
{
    return events->last;
}

/* The seq of the first one that is there, or one after the last. */
static uint64_t first_after(const struct events *events, uint64_t after)
{
    uint64_t first = events->last >= RING ? events->last - RING + 1 : 1;
    return after >= events->last ? events->last + 1 : after + 1 > first ? after + 1 : first;
}

int events_write(const struct events *events, uint64_t after, struct buf *to)
{
    for (uint64_t seq = first_after(events, after); seq <= events->last; seq++) {
        int result = buf_adds(to, events->ring[seq % RING]);
        if (result == 0)
            result = buf_addc(to, '\n');
        if (result < 0)
            return result;
    }
    return 0;
}

json_t *events_after(const struct events *events, uint64_t after)
{
    json_t *list = json_array();
    for (uint64_t seq = first_after(events, after); seq <= events->last; seq++) {
        if (json_array_append_new(list, json_loads(events->ring[seq % RING], 0, NULL)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
