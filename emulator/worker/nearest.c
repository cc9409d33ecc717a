#include "worker/nearest.h"

#include <ctype.h>
#include <string.h>

/* Names and routes are short; anything longer is nobody's typing error. */
#define LENGTH_MAX 64

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance with one row of the matrix. */
static size_t distance(const char *a, const char *b)
{
    size_t row[LENGTH_MAX + 1];
    size_t columns = strlen(b);
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < columns; j++) {
            size_t above = row[j + 1];
            int same = tolower((unsigned char)a[i]) == tolower((unsigned char)b[j]);
            row[j + 1] = least(diagonal + !same, least(above, row[j]) + 1);
            diagonal = above;
        }
    }
    return row[columns];
}

struct nearest nearest_to(const char *wanted)
{
    /* A third of the letters may differ, and at least two. */
    size_t allowed = strlen(wanted) / 3;
    return (struct nearest){.wanted = wanted, .distance = (allowed < 2 ? 2 : allowed) + 1};
}

void nearest_try(struct nearest *nearest, const char *candidate)
{
    if (strlen(nearest->wanted) > LENGTH_MAX || strlen(candidate) > LENGTH_MAX)
        return;
    size_t found = distance(nearest->wanted, candidate);
    if (found < nearest->distance) {
        nearest->distance = found;
        nearest->best = candidate;
    }
}
