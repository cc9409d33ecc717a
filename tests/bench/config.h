/* How long reading a project takes. */
#ifndef SANDPIT_BENCH_CONFIG_H
#define SANDPIT_BENCH_CONFIG_H

#include "measure.h"

int measure_config(struct bench *bench, struct error *err);

#endif
