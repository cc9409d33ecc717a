/* The code interpreter of a container: contexts, each with a process of its own, and processes that
 * wait for contexts to come. */
#ifndef SANDPIT_CONTAINER_INTERPRETER_H
#define SANDPIT_CONTAINER_INTERPRETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "container/interpreter_language.h"

struct container;
struct context;
struct executor;

struct interpreter {
    struct executor *executors; /* all, newest first */
    struct context *contexts;   /* in the order they were made */
    size_t context_count;
    bool used[LANGUAGE_COUNT]; /* a context was asked for */
    bool lean; /* the image has no Python, even where this machine's could be reached */
};

/* The container has started: as many processes as its variables ask for. */
void interpreter_open(struct container *container);
/* The container is gone, and every job with it. */
void interpreter_close(struct container *container);
/* How many processes it has, for those who count the others. */
size_t interpreter_processes(const struct container *container);

/* A number of 0 or more from the container's variables. */
int64_t interpreter_setting(const struct container *container, const char *name, int64_t fallback);

#endif
