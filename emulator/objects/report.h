/* What tests should clean up, and what their containers would have cost. */
#ifndef SANDPIT_OBJECTS_REPORT_H
#define SANDPIT_OBJECTS_REPORT_H

#include <jansson.h>
#include <stdint.h>

struct object;
struct objects;

/* How long the containers of one class were there, in virtual time; a reset does not forget it. */
struct usage {
    struct usage *next;
    char class_name[64];
    unsigned containers;
    int64_t active_ms; /* of those that are gone */
};

/* A container is started, and gone. */
void report_begin(struct object *object);
void report_end(struct object *object);

/* {now, clean, sandboxes, processes, ports, leaks: […], usage, prices}; new reference. */
json_t *objects_report(struct objects *objects);

#endif
