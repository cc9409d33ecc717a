/* One process that runs code, and what is said to it: a request at a time, which it answers with a
 * text. Its standard output and error belong to the request that runs; between requests they are
 * read and dropped. */
#ifndef SANDPIT_CONTAINER_INTERPRETER_EXECUTOR_H
#define SANDPIT_CONTAINER_INTERPRETER_EXECUTOR_H

#include "container/internal.h"
#include "container/interpreter_language.h"
#include "container/output.h"

struct executor;

struct executor_events {
    /* The first answer says that it is ready, each other one ends a request. The text and what was
     * printed, in executor->out, may be taken. */
    void (*answered)(struct executor *executor, struct buf *text);
    /* It has ended, or never started: a negative errno. It is freed afterwards. */
    void (*ended)(struct executor *executor, int error);
};

struct executor {
    struct container *container;
    enum language language;
    struct executor *next; /* in the list of all of its container */
    const struct executor_events *events;
    void *owner; /* whoever set the events knows */
    struct proc proc;
    int requests, answers, shared; /* descriptors */
    struct watch watch;
    struct output out[2];
    struct timer timer; /* for its start, then for its end */
    char line[24];      /* of an answer, up to its newline */
    size_t line_size;
    bool ready;    /* it has answered once */
    bool busy;     /* an answer is to come */
    bool released; /* nobody wants it any more */
    struct rt_exit how;
    char why[200]; /* what it did wrong, or "" */
};

/* NULL without memory. */
struct executor *executor_new(struct container *container, enum language language,
                              const struct executor_events *events, void *owner);
/* Starts the process; ended() tells when that failed, perhaps before this returns. */
void executor_start(struct executor *executor);
/* Only when it is ready and not busy. When it cannot be told, its end follows. */
void executor_send(struct executor *executor, const char *kind, const char *text, size_t size);
/* Ends the process; no event follows. */
void executor_release(struct executor *executor);
/* How it ended, in words: "exit code 3", "signal 9". */
void executor_describe_end(const struct executor *executor, char *to, size_t size);
/* For a container that is gone. */
void executor_free(struct executor *executor);

#endif
