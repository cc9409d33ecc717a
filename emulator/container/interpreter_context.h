/* A context: a process that keeps what code left behind, and the runs that wait for it. */
#ifndef SANDPIT_CONTAINER_INTERPRETER_CONTEXT_H
#define SANDPIT_CONTAINER_INTERPRETER_CONTEXT_H

#include "container/interpreter_executor.h"

struct code_run;

struct context {
    struct container *container;
    struct context *next;
    char id[37];
    enum language language;
    char *cwd;
    struct executor *executor; /* NULL once it has ended */
    char end[200];             /* how it ended */
    struct code_run *running;
    struct code_run *head, **tail; /* waiting */
    size_t waiting;
};

struct context *context_find(const struct container *container, const char *id);

/* Gives the process to the context: from then on it runs code. */
void context_adopt(struct context *context, struct executor *executor);
/* Answers everybody who waits for the context, which is being deleted or whose process ended. */
void context_refuse_all(struct context *context, enum code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
