/* Previews beside the same server without one. */
#ifndef SANDPIT_BENCH_PREVIEW_H
#define SANDPIT_BENCH_PREVIEW_H

#include "measure.h"

int measure_preview(struct bench *bench, struct error *err);

#endif
