/* Methods that wait for something that a process does. They read one of the container's event
 * streams until they know, or until a timeout of real time: they wait for real processes. */
#ifndef SANDPIT_OBJECTS_WAIT_H
#define SANDPIT_OBJECTS_WAIT_H

#include "objects/internal.h"
#include "objects/sse.h"

struct waiter;

/* What a waiter does next. */
enum wait_next {
    WAIT_ON,    /* for more events */
    WAIT_AGAIN, /* for another turn, before more events are read */
    WAIT_OVER,  /* it has answered and is gone */
};

struct wait_kind {
    const char *op; /* whose events are read */
    size_t size;    /* of the struct whose first member is the struct waiter */
    enum wait_next (*event)(struct waiter *waiter, const char *type, const json_t *event);
    /* Looks at what the events brought; NULL = they say it all. */
    enum wait_next (*look)(struct waiter *waiter);
    /* What helps when it was in vain, or NULL; may itself be NULL. */
    const char *(*hint)(const struct waiter *waiter);
    void (*release)(struct waiter *waiter);
};

struct waiter {
    const struct wait_kind *kind;
    struct object *object;
    struct call *outer; /* NULL once answered */
    struct call call;
    json_t *args;    /* of the container's operation */
    bool asked;      /* which has not answered yet */
    json_t *process; /* its id */
    json_t *command;
    char *condition; /* what is waited for, for people */
    json_t *timeout; /* or NULL */
    struct timer timer;
    bool expired; /* it fired; what is there already is looked at first */
    int64_t expired_ns;
    bool began;   /* some event was there */
    struct stream *stream;
    struct sse sse;
    struct task task;
};

/* NULL after an error was answered; takes the condition. */
void *waiter_new(const struct wait_kind *kind, struct object *object, struct call *call,
                 char *condition);
/* Calls an operation of the container; takes args. done() begins with waiter_answered(). */
void waiter_call(struct waiter *waiter, const char *op, json_t *args,
                 void (*done)(struct call *call, struct answer *answer));
/* The waiter of this call, or NULL when nobody waits any more or an error was handed on. */
struct waiter *waiter_answered(struct call *call, struct answer *answer);
/* Reads the events of the kind's operation from here on; takes args. */
void waiter_read(struct waiter *waiter, json_t *args);

/* Each answers and ends the waiter. */
enum wait_next waiter_result(struct waiter *waiter, json_t *result);
enum wait_next waiter_error(struct waiter *waiter, enum code code, json_t *context,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
enum wait_next waiter_exited(struct waiter *waiter, const json_t *exit_code);

#endif
