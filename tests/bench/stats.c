#include "stats.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

double stats_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int samples_add(struct samples *samples, double value)
{
    if (samples->count == samples->capacity) {
        size_t capacity = samples->capacity ? samples->capacity * 2 : 64;
        double *values = realloc(samples->values, capacity * sizeof *values);
        if (!values)
            return -ENOMEM;
        samples->values = values;
        samples->capacity = capacity;
    }
    samples->values[samples->count++] = value;
    return 0;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double samples_percentile(struct samples *samples, double percent)
{
    if (!samples->count)
        return 0;
    qsort(samples->values, samples->count, sizeof *samples->values, compare);
    double rank = percent / 100 * (double)samples->count;
    size_t index = (size_t)rank;
    if (index > 0 && (double)index == rank)
        index--;
    return samples->values[index < samples->count ? index : samples->count - 1];
}

double samples_median(struct samples *samples)
{
    return samples_percentile(samples, 50);
}

double samples_min(struct samples *samples)
{
    return samples_percentile(samples, 0);
}

void samples_free(struct samples *samples)
{
    free(samples->values);
    *samples = (struct samples){0};
}
