/* Code and clones. */
#ifndef SANDPIT_BENCH_CODE_H
#define SANDPIT_BENCH_CODE_H

#include "measure.h"

int measure_code(struct bench *bench, struct error *err);
int measure_clone(struct bench *bench, struct error *err);

#endif
