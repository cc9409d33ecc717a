/* What a process writes to a pipe, collected while it runs: bounded, and drained to nowhere when it
 * goes on after the operation is over. */
#ifndef SANDPIT_CONTAINER_OUTPUT_H
#define SANDPIT_CONTAINER_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/loop.h"

struct container;

enum { OUTPUT_MAX = 64 * 1024 * 1024 };

struct output {
    struct loop *loop;
    int fd;
    struct watch watch;
    /* Every writer let go while it was watched. May be NULL. */
    void (*on_end)(void *arg);
    void *arg;
    struct buf data;
    bool overflow; /* more than the maximum came; `data` is empty */
    bool broken;   /* it could not be read; so `data` may lack something */
    bool ended;    /* no process holds the other end any more */
};
#define OUTPUT_INIT ((struct output){.fd = -1, .watch = {.fd = -1}})

/* Takes the descriptor, which is non-blocking. */
void output_open(struct output *output, struct loop *loop, int fd, size_t max);
/* Reads whenever something comes. A FIFO whose writers are gone ends the watch. */
int output_watch(struct output *output);
void output_unwatch(struct output *output);
/* Reads what was written before this call, and learns whether a process still holds the other end.
 * Bounded by what is in the pipe now, so that a background job that never stops writing cannot keep
 * us here. */
void output_drain(struct output *output);
/* Stops and frees; a pipe that is still held goes on being drained to nowhere, so that a background
 * job neither blocks nor gets SIGPIPE. */
void output_let_go(struct output *output, struct container *container);
void output_close(struct output *output);
/* The text as a JSON string, the buffer freed. In a session NUL bytes and one final newline are
 * dropped. NULL when it is too large, could not be read or memory is short. */
json_t *output_json(struct output *output, bool session);

void drains_close(struct container *container);

#endif
