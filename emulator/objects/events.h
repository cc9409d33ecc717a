/* What happened, in order: a ring of the last 10,000 events, seq without gaps from 1. */
#ifndef SANDPIT_OBJECTS_EVENTS_H
#define SANDPIT_OBJECTS_EVENTS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "clock/clock.h"

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
/* The same as text, each with a newline. */
int events_write(const struct events *events, uint64_t after, struct buf *to);

#endif
