#include "http/expire.h"

#include <stddef.h>

/* The timer is armed for the first node of some earlier moment, so it may fire before anything is
 * due: it is then armed again. That saves touching it on each start and stop. */
static void fire(void *arg)
{
    struct expire *expire = arg;
    int64_t now = loop_now_ns();
    while (expire->first && expire->first->due_ns <= now) {
        struct expire_node *node = expire->first;
        expire_stop(node);
        expire->expired(node);
    }
    if (expire->first)
        loop_arm(expire->loop, &expire->timer, expire->first->due_ns - now);
}

void expire_init(struct expire *expire, struct loop *loop, int64_t after_ms,
                 void (*expired)(struct expire_node *node))
{
    *expire = (struct expire){.loop = loop,
                              .timer = {.fire = fire, .arg = expire},
                              .after_ns = MS_NS(after_ms),
                              .expired = expired};
}

void expire_stop(struct expire_node *node)
{
    struct expire *expire = node->list;
    if (!expire)
        return;
    *(node->previous ? &node->previous->next : &expire->first) = node->next;
    *(node->next ? &node->next->previous : &expire->last) = node->previous;
    *node = (struct expire_node){0};
    expire->count--;
}

void expire_start(struct expire *expire, struct expire_node *node)
{
    expire_stop(node);
    *node = (struct expire_node){
        .list = expire, .previous = expire->last, .due_ns = loop_now_ns() + expire->after_ns};
    *(expire->last ? &expire->last->next : &expire->first) = node;
    expire->last = node;
    expire->count++;
    if (!timer_armed(&expire->timer))
        loop_arm(expire->loop, &expire->timer, expire->after_ns);
}

void expire_close(struct expire *expire)
{
    loop_disarm(expire->loop, &expire->timer);
}
