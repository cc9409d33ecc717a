/* Where something stands in a text, and the way to a value in a tree of JSON.
 */
#ifndef SANDPIT_CONFIG_PLACE_H
#define SANDPIT_CONFIG_PLACE_H

#include <stddef.h>

struct place {
    int line; /* 1-based; 0 = nowhere */
    int column;
};

/* One step on the way to a value: a member's name, or an index when name is
 * NULL. */
struct place_step {
    const char *name;
    size_t index;
};

/* A UTF-8 sequence is one column, as jansson counts. */
struct place place_at(const char *text, size_t offset);

#endif
