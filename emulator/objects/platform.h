/* What the platform does around an object's containers: it has no room for one, starts it slowly,
 * is far away, or breaks something. The touch points are few, and all are named here; transitions.c
 * and calls.c know no more of it. */
#ifndef SANDPIT_OBJECTS_PLATFORM_H
#define SANDPIT_OBJECTS_PLATFORM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "clock/clock.h"
#include "objects/faults.h"
#include "objects/placement.h"

struct object;
struct pending;

/* Of getSandbox's containerTimeouts, in milliseconds. */
struct container_timeouts {
    long instance_get, port_ready, wait_interval;
};

/* The same for all objects. */
struct platform_config {
    int64_t cold_start_ms;   /* --cold-start */
    bool sdk_retries;        /* --sdk-retries */
    bool geo_latency;        /* --geo-latency */
    const struct colo *colo; /* --colo; NULL = requests come from nowhere in particular */
    struct container_timeouts timeouts; /* of the Worker's variables, or the SDK's own */
};

/* Of one object. */
struct platform {
    /* Stored. */
    const struct colo *colo; /* where it is; NULL = not pinned yet */
    json_t *labels;          /* or NULL */
    struct container_timeouts timeouts;
    bool timeouts_stored;
    json_t *placement_id; /* of the last session that was made: a string, null; or NULL */

    /* Of the current container. */
    json_t *labels_now; /* those it started with, or NULL */
    json_t *placement_now;
    struct fault_shot start; /* what is to happen to its start */
    int64_t started_ms;
    struct virtual_timer ready, overdue;

    /* The SDK's tries after a refusal. */
    struct virtual_timer retry;
    int tries;
    int64_t since_ms;

    /* Of calls. */
    struct virtual_timer strike_later;
    struct task strike;
    struct fault_shot shot;
    int strike_life;         /* the container that it is meant for */
    struct pending *delayed; /* those that wait for the clock */
    int distance_ms;         /* of the request that is being handled */
    bool far_told;
};

/* The SDK's own defaults and ranges. */
extern const struct container_timeouts platform_timeouts_default;
/* A value for the variables SANDBOX_INSTANCE_TIMEOUT_MS…; what is not a number or out of range is
 * warned about and not taken. `get` gives a variable of the Worker, or NULL. */
void platform_timeouts_from(struct container_timeouts *timeouts,
                            const char *(*get)(void *arg, const char *name), void *arg);

/* Touch points: of object.c. */
/* Reads what is stored; false when that failed. Sets the timers up. */
bool platform_load(struct object *object);
void platform_free(struct object *object);
/* A session was made: the placement id is known. */
void platform_handshake(struct object *object);

/* Of transitions.c. */
/* object_start() asks first: true when there is no room. Whoever waits was answered, or is tried
 * again later as the SDK does. */
bool platform_refuses(struct object *object);
/* The container is being started; adds to the event's data. */
void platform_starting(struct object *object, json_t *data);
/* The container answers: true when it counts as healthy only later, through object_ready(), or not
 * at all. */
bool platform_delays(struct object *object);
/* It is healthy: what the SDK finds out about it then. */
void platform_healthy(struct object *object);
void platform_gone(struct object *object);

/* Of calls.c. */
/* A request reaches the object: true when it has a long way, and goes on later. */
bool platform_is_far(struct pending *pending);
/* The call is about to go to the container: true when a fault answered it, or holds it up. */
bool platform_strikes(struct pending *pending);

/* Of objects.c: the end of everything. Nothing waits for the clock any more. */
void platform_end(struct object *object);
void platform_describe(const struct object *object, json_t *described);

/* options.c and methods.c. */
int platform_set_labels(struct object *object, const json_t *labels, struct error *err);
int platform_set_timeouts(struct object *object, const json_t *timeouts, struct error *err);
/* A request came from this colo (NULL = the default one): the first pins the object. */
int platform_asked_from(struct object *object, const char *colo, struct error *err);

/* Inside: answers all who wait, or lets the SDK's tries go on. */
struct answer;
void admission_fail(struct object *object, const struct answer *like);
void admission_init(struct object *object);
void strikes_init(struct object *object);

#endif
