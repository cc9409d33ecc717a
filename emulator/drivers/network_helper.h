/* The process that carries one container's packets. It is killed with the container, dies with the
 * emulator, and when it ends by itself the container goes on without.
 *
 * Nobody waits for its end: the kernel takes some 20 ms to drop its interface, and by then nothing
 * of the container can use it. */
#ifndef SANDPIT_DRIVERS_NETWORK_HELPER_H
#define SANDPIT_DRIVERS_NETWORK_HELPER_H

#include "base/error.h"
#include "base/loop.h"
#include "drivers/driver.h"

/* How long a first command waits for the interface. */
enum { NETWORK_WAIT_MS = 200 };

struct network_helper;

struct network_helper_events {
    /* NETWORK_UP once; NETWORK_LATE once when that did not come within NETWORK_WAIT_MS;
     * NETWORK_FAILED at most once, with why: then the helper is gone. */
    void (*state)(void *arg, enum network_state state, const char *why);
    void *arg;
};

struct network_helper_start {
    enum instance_network network;
    const char *program;         /* must stay until UP or FAILED, as the descriptors */
    int owner;                   /* a pidfd of this process */
    int null;                    /* /dev/null */
    struct network_helper **all; /* a list of those that are not gone yet */
};

/* 0 when the descriptor is a network namespace and not the one of this process. */
int network_helper_check(int netns, struct error *err);

/* Asks the runtime for its network namespace, so that no pid has to be guessed, and attaches the
 * program to it. */
struct network_helper *network_helper_start(struct loop *loop, struct agent *agent,
                                            const struct network_helper_start *start,
                                            struct network_helper_events events, struct error *err);
/* Kills it. There is no callback any more, and the pointer is not to be used. */
void network_helper_stop(struct network_helper *helper);
/* Waits for the processes of those that were stopped. */
void network_helpers_free(struct network_helper **all);

#endif
