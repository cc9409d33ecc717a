/* What runs a container. A driver starts a process tree on a fresh root with our runtime as PID 1
 * and gives the agent that talks to it; everything else (exec, files, ports) goes through the agent
 * and is the same for every driver. */
#ifndef SANDPIT_DRIVERS_DRIVER_H
#define SANDPIT_DRIVERS_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "drivers/agent.h"

struct driver;   /* one for the process */
struct instance; /* one container */

/* 0 = no limit. Kept by control groups; where there are none, by limits of each process. */
struct instance_limits {
    uint64_t memory_bytes;
    unsigned pids;
    unsigned cpu_millis; /* 1000 = one CPU */
};

/* How a container reaches beyond itself. */
enum instance_network { NETWORK_NONE, NETWORK_PASTA, NETWORK_SLIRP4NETNS };

/* How that goes: it can be used, it took longer than a first command waits (one of the others may
 * follow), or the container goes on without. */
enum network_state { NETWORK_UP, NETWORK_LATE, NETWORK_FAILED };

struct instance_spec {
    const char *hostname;
    bool python;          /* false: a lean image, where python3 does not exist */
    uint64_t upper_bytes; /* size of the throw-away layer */
    struct instance_limits limits;
    enum instance_network network;
};

struct instance_events {
    /* The runtime said hello: the agent can be used. */
    void (*ready)(void *arg, struct agent *agent);
    /* A process spawned through the agent ended. */
    void (*exited)(void *arg, int pid, const struct rt_exit *how);
    /* The kernel ended a process for lack of memory; `kills` counts since the start. May be NULL.
     */
    void (*out_of_memory)(void *arg, unsigned kills);
    /* Only for a container with a network; `why` with NETWORK_FAILED. May be NULL. */
    void (*network)(void *arg, enum network_state state, const char *why);
    /* The whole tree is gone and its layer dropped. Called exactly once, also when it never became
     * ready; `why` says what happened ("killed", "runtime exited with 1: …"). The instance is freed
     * after this callback. */
    void (*gone)(void *arg, const char *why);
    void *arg;
};

/* Prepares what every container shares (the runtime in a sealed memfd, the filtered /etc, mount
 * points under `run_dir`, which exists and is private to this process). */
struct driver *driver_bwrap_new(struct loop *loop, const char *run_dir, struct error *err);
void driver_free(struct driver *driver);
/* One line on tools that the emulated image has and this host lacks, or NULL. */
const char *driver_missing_tools(const struct driver *driver);
/* One line on a boundary that is weaker than it should be, for a banner in red; or NULL. */
const char *driver_warning(const struct driver *driver);
/* One line on what containers of an ordinary user cannot do, or NULL. */
const char *driver_limited(const struct driver *driver);
/* One line on limits that cannot be kept here, or NULL. */
const char *driver_limits_note(const struct driver *driver);
/* NULL-terminated "K=V" list that every process in a container starts from: PATH, HOME, LANG … */
const char *const *driver_environment(const struct driver *driver);

/* Returns at once; ready() or gone() follow from the loop. */
struct instance *driver_start(struct driver *driver, const struct instance_spec *spec,
                              struct instance_events events, struct error *err);
/* How many of its processes the kernel ended for lack of memory, as of now. */
unsigned instance_kills(struct instance *instance);
/* In gone(): of PID 1, or 128 + the signal that ended it. */
int instance_exit_code(const struct instance *instance);
/* Kills the tree; gone() follows. Idempotent. */
void instance_kill(struct instance *instance);

#endif
