/* How long an advance of the clock takes. */
#ifndef SANDPIT_BENCH_CLOCK_H
#define SANDPIT_BENCH_CLOCK_H

#include "measure.h"

int measure_clock(struct bench *bench, struct error *err);

#endif
