/* Deadlines that are all equally long: a list in order of arrival and one timer for its first. */
#ifndef SANDPIT_HTTP_EXPIRE_H
#define SANDPIT_HTTP_EXPIRE_H

#include "base/loop.h"

struct expire;

/* Belongs to the caller; zeroed = not waiting. */
struct expire_node {
    struct expire *list;
    struct expire_node *next, *previous;
    int64_t due_ns;
};

struct expire {
    struct loop *loop;
    struct timer timer;
    struct expire_node *first, *last;
    int64_t after_ns;
    unsigned count;
    /* The node is off the list when this is called, and may be freed. */
    void (*expired)(struct expire_node *node);
};

void expire_init(struct expire *expire, struct loop *loop, int64_t after_ms,
                 void (*expired)(struct expire_node *node));
/* Starts the node's time anew, on this list. */
void expire_start(struct expire *expire, struct expire_node *node);
void expire_stop(struct expire_node *node);
/* Stops the timer; the nodes stay where they are. */
void expire_close(struct expire *expire);

#endif
