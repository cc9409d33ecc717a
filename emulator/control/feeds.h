/* Events and logs over HTTP: lines of JSON, or with ?follow=1 server-sent events that go on. */
#ifndef SANDPIT_CONTROL_FEEDS_H
#define SANDPIT_CONTROL_FEEDS_H

#include "clock/clock.h"
#include "http/http.h"
#include "objects/objects.h"

/* ?after=SEQ, ?follow=1, ?sandbox=ID, ?type=PREFIX, ?since=DURATION */
void feeds_events(struct http_request *request, struct objects *objects, const struct clock *clock);
/* ?after=SEQ, ?follow=1, ?source=NAME, ?since=DURATION */
void feeds_logs(struct http_request *request, struct object *object, const struct clock *clock);

#endif
