/* Faults that a test orders: what the platform, the disk or a server does wrong, so that a client's
 * answer to it can be tried. One list for all sandboxes; the first fault that fits is the one that
 * strikes. docs/faults.md tells what clients see of each. */
#ifndef SANDPIT_OBJECTS_FAULTS_H
#define SANDPIT_OBJECTS_FAULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct object;
struct objects;
struct op;

/* What it strikes. */
enum fault_on { FAULT_START, FAULT_EXEC, FAULT_PORT, FAULT_WRITE, FAULT_ONS };

enum fault_do {
    FAULT_NONE,
    FAULT_NO_INSTANCE,
    FAULT_MAX_INSTANCES,
    FAULT_CRASH,
    FAULT_OOM,
    FAULT_REPLACE,
    FAULT_DELAY,
    FAULT_REFUSE,
    FAULT_ENOSPC,
    FAULT_DOES
};

/* One strike of a fault. */
struct fault_shot {
    enum fault_do what;
    int64_t ms;
    int exit_code;
};

enum { FAULTS_MAX = 1000, FAULT_ID_SIZE = 24 };

struct fault {
    unsigned number; /* its id is "fault-{number}" */
    enum fault_on on;
    struct fault_shot shot;
    long left; /* how often it strikes; -1 = until it is removed */
    unsigned fired;
    char *sandbox; /* NULL = all */
    struct fault *next;
};

struct faults {
    struct fault *first;
    size_t count;
    unsigned numbers; /* of all that there were */
};

/* For the control API. */
/* {on, do, times?, sandbox?, ms?, exitCode?}; -EINVAL with the values that are allowed, or -E2BIG.
 */
int faults_add(struct objects *objects, const json_t *wanted, char id[FAULT_ID_SIZE],
               struct error *err);
json_t *faults_list(const struct objects *objects);         /* new reference to an array */
int faults_remove(struct objects *objects, const char *id); /* -ENOENT */
/* How many there were. */
size_t faults_clear(struct objects *objects);

/* What a fault may do where, as a table of docs/faults.md is printed from it. */
bool fault_allowed(enum fault_on on, enum fault_do what);
const char *fault_on_name(enum fault_on on);
const char *fault_do_name(enum fault_do what);

/* Inside the layer. */
/* The first fault that fits strikes: it is counted, told as an event, and removed when it was its
 * last time. False when there is none. */
bool fault_draw(struct object *object, enum fault_on on, struct fault_shot *shot);
/* What a call counts as; FAULT_ONS = nothing that a fault strikes. */
enum fault_on fault_kind(const struct op *op);

#endif
