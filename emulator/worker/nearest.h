/* "Did you mean …?": the candidate with the fewest single-letter changes, case aside. */
#ifndef SANDPIT_WORKER_NEAREST_H
#define SANDPIT_WORKER_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *wanted;
    const char *best; /* NULL while nothing is near enough */
    size_t distance;  /* of the best; a candidate must be under it */
};

struct nearest nearest_to(const char *wanted);
void nearest_try(struct nearest *nearest, const char *candidate);

#endif
