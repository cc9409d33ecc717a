/* What it costs a command that events are kept in a file and followed. */
#ifndef SANDPIT_BENCH_EVENTS_H
#define SANDPIT_BENCH_EVENTS_H

#include "measure.h"

int measure_events(struct bench *bench, struct error *err);

#endif
