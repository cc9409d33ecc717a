/* What uses an object's container without being a call: forwarded requests and tunnels. */
#include <errno.h>

#include "objects/internal.h"

int object_hold(struct object *object, struct object_hold *hold, const char *what)
{
    if (object->state != OBJECT_HEALTHY)
        return -EPIPE;
    hold->object = object;
    hold->counts = true;
    hold->next = object->holds;
    hold->previous = NULL;
    if (hold->next)
        hold->next->previous = hold;
    object->holds = hold;
    object->inflight++;
    object_renew(object, what);
    return 0;
}

void object_hold_quiet(struct object_hold *hold)
{
    if (!hold->object || !hold->counts)
        return;
    hold->counts = false;
    object_finish_inflight(hold->object);
}

void object_hold_active(struct object_hold *hold)
{
    if (hold->object)
        object_renew(hold->object, hold->object->last_what);
}

void object_release(struct object_hold *hold)
{
    struct object *object = hold->object;
    if (!object)
        return;
    *(hold->previous ? &hold->previous->next : &object->holds) = hold->next;
    if (hold->next)
        hold->next->previous = hold->previous;
    object_hold_quiet(hold);
    hold->object = NULL;
}

void holds_gone(struct object *object)
{
    while (object->holds) {
        struct object_hold *hold = object->holds;
        object_release(hold);
        hold->gone(hold->arg);
    }
}

bool object_is_healthy(const struct object *object)
{
    return object->state == OBJECT_HEALTHY;
}

struct object_port_wait object_port_wait(struct object *object)
{
    object_load(object);
    const struct container_timeouts *timeouts = &object->platform.timeouts;
    return (struct object_port_wait){timeouts->port_ready, timeouts->wait_interval};
}

unsigned object_life(const struct object *object)
{
    return (unsigned)object->lives;
}

bool object_has_port(const struct object *object, int port)
{
    return object->container && container_has_port(object->container, port);
}
