/* Who asks a port of a sandbox that did not run starts its container and waits for the port, as the
 * SDK does. Of a container that ran already, a port without a server is answered at once. */
#ifndef SANDPIT_WORKER_PORT_WAIT_H
#define SANDPIT_WORKER_PORT_WAIT_H

#include "objects/objects.h"

struct port_wait {
    struct loop *loop;
    struct object *object;
    struct object_hold *hold; /* so that the container stays while the timer runs */
    struct timer again;       /* tries once more */
    int64_t until_ns;         /* 0 = not at all */
};

/* Before the first try; the caller has filled in the rest. */
void port_wait_begin(struct port_wait *wait);
/* After one that failed: true when another comes, and the container is held. */
bool port_wait_more(struct port_wait *wait, const struct answer *answer, const char *what);

#endif
