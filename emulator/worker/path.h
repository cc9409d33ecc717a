/* Paths of routes with segments that vary. */
#ifndef SANDPIT_WORKER_PATH_H
#define SANDPIT_WORKER_PATH_H

#include <jansson.h>
#include <stdbool.h>

/* Whether the path fits the pattern, in which "{name}" stands for one segment that is not empty.
 * When it does, each such segment, percent-decoded, becomes a member of `values`, which may be
 * NULL. */
bool path_fits(const char *pattern, const char *path, json_t *values);
/* The same with segments as they stand, percent signs and all: how the container takes ids. */
bool path_fits_raw(const char *pattern, const char *path, json_t *values);

#endif
