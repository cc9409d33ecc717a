/* The measurements, in groups that share a fresh emulator. */
#ifndef SANDPIT_BENCH_MEASURE_H
#define SANDPIT_BENCH_MEASURE_H

#include "base/error.h"
#include "rows.h"

struct bench {
    int rounds;
    int count; /* of the quickest measurement in one round; slower ones do a part of it */
    bool pin;  /* to one CPU, but for what is measured on two */
    const char *scratch;
    const char *peer; /* a command that starts a container another way, or NULL */
    struct rows *rows;
};

struct measure_group {
    const char *name;
    int (*run)(struct bench *bench, struct error *err);
};

/* Ends with a row without name. */
extern const struct measure_group measure_groups[];

#endif
