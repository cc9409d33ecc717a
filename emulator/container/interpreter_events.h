/* The outcome of a run as server-sent events, written as fast as the client takes them. */
#ifndef SANDPIT_CONTAINER_INTERPRETER_EVENTS_H
#define SANDPIT_CONTAINER_INTERPRETER_EVENTS_H

#include "base/buf.h"
#include "base/loop.h"
#include "base/stream.h"

struct code_events {
    struct buf printed[2];   /* standard output and error */
    struct buf lines;        /* the driver's: an event each, or "!NAME" */
    void (*over)(void *arg); /* all is written, or the client has left; it may be closed here */
    void *arg;

    struct loop *loop;
    struct stream *stream;
    struct task task;
    int stage; /* 0, 1: what was printed; then the lines */
    size_t at; /* in the lines */
    struct {
        const char *data; /* what is left of the current event; NULL = none is begun */
        size_t size;
        bool escaped; /* it goes into a JSON string */
        const char *tail;
    } part;
    bool writing; /* the sink may leave inside a write */
    bool left;    /* it did */
};

/* NULL without memory. The first event is written from the loop, when the taker has made itself the
 * sink. */
struct stream *code_events_open(struct code_events *events, struct loop *loop);
void code_events_close(struct code_events *events);

#endif
