/* What happened, in order: a ring of the last 10,000 events, seq without gaps from 1.
 * docs/events.md lists the types; a test compares it with the table in event_types.c. */
#ifndef SANDPIT_OBJECTS_EVENTS_H
#define SANDPIT_OBJECTS_EVENTS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "clock/clock.h"
#include "objects/feed.h"

struct events;

struct events *events_new(struct clock *clock);
void events_free(struct events *events);
/* {v:1, seq, at, real, sandbox, runtime, type, reason, data}; sandbox, runtime, reason may be NULL
 * and data (taken) too. */
void events_add(struct events *events, const char *sandbox, const char *runtime, const char *type,
                const char *reason, json_t *data);
uint64_t events_last(const struct events *events);
/* Those with seq > after, oldest first; new reference to an array, or NULL without memory. */
json_t *events_after(const struct events *events, uint64_t after);
/* Lines, or a stream of server-sent events; subject = sandbox. See feed.h. */
int events_write(const struct events *events, const struct feed_filter *filter, struct buf *to);
struct stream *events_follow(struct events *events, const struct feed_filter *filter);
/* The emulator ends: followers' streams do too. How many there were. */
size_t events_let_go(struct events *events);
/* Appends each event to this file as a line as it happens. When that fails later, one warning is
 * logged and no more is written. */
int events_to_file(struct events *events, const char *path, struct error *err);

/* One row for each type there is; ends with a NULL type. */
struct event_type {
    const char *type;
    const char *what; /* for docs/events.md */
    const char *data; /* the members of data, "" without any */
};
extern const struct event_type event_types[];
const struct event_type *event_type(const char *type);
/* Appends the table of docs/events.md. */
int event_types_markdown(struct buf *to);

#endif
