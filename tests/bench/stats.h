/* Samples of one quantity, and what is told about them. */
#ifndef SANDPIT_BENCH_STATS_H
#define SANDPIT_BENCH_STATS_H

#include <stddef.h>

struct samples {
    double *values;
    size_t count, capacity;
};

/* Milliseconds of the monotonic clock. */
double stats_now_ms(void);
/* 0 or -ENOMEM. */
int samples_add(struct samples *samples, double value);
/* The smallest value that `percent` of all samples do not exceed; 0 without samples. */
double samples_percentile(struct samples *samples, double percent);
double samples_median(struct samples *samples);
double samples_min(struct samples *samples);
void samples_free(struct samples *samples);

#endif
