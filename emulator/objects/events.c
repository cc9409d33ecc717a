#include "objects/events.h"

#include <stdlib.h>
#include <time.h>

enum { RING = 10000 };

struct events {
    struct clock *clock;
    json_t *ring[RING]; /* event n is at n % RING */
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
        json_decref(events->ring[i]);
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
    if (!event)
        return;
    events->last = seq;
    json_decref(events->ring[seq % RING]);
    events->ring[seq % RING] = event;
}

uint64_t events_last(const struct events *events)
{
    return events->last;
}

json_t *events_after(const struct events *events, uint64_t after)
{
    json_t *list = json_array();
    uint64_t first = events->last >= RING ? events->last - RING + 1 : 1;
    for (uint64_t seq = after + 1 > first ? after + 1 : first; seq <= events->last; seq++)
        json_array_append(list, events->ring[seq % RING]);
    return list;
}
