/* Files by name and as plain bytes. */
#ifndef SANDPIT_BENCH_STREAMS_H
#define SANDPIT_BENCH_STREAMS_H

#include "measure.h"

int measure_listing(struct bench *bench, struct error *err);
int measure_streams(struct bench *bench, struct error *err);

#endif
