/* Layer 3: one running container and its API. Operations are rows of a table;
 * both the container's own HTTP face and the layers above call them by row. */
#ifndef SANDPIT_CONTAINER_CONTAINER_H
#define SANDPIT_CONTAINER_CONTAINER_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/loop.h"
#include "clock/clock.h"
#include "container/call.h"
#include "drivers/driver.h"

struct container;
struct git_settings;
struct written;

struct container_spec {
    const char *hostname;
    const char *version; /* SANDBOX_VERSION, answered by /api/version */
    const json_t *image_env; /* ENV of the image, where ${PATH} is the driver's; or NULL */
    const json_t *env;       /* of setEnvVars, for every process; or NULL */
    bool python;
    uint64_t upper_bytes;
    enum instance_network network;
    const struct git_settings *git; /* outlives the container; NULL = no clones */
    struct instance_limits limits;
};

struct container_events {
    /* The first call may be made. */
    void (*ready)(void *arg);
    /* The tree is gone. Calls in flight were answered with OPERATION_INTERRUPTED before. Called
     * exactly once; the container is freed afterwards. */
    void (*gone)(void *arg, const char *why);
    /* Something worth an event: "session.created", "session.exited", "container.oom"…; data may be
     * NULL (taken). */
    void (*note)(void *arg, const char *type, json_t *data);
    /* Only for a container with a network, as the driver tells it; may be NULL. */
    void (*network)(void *arg, enum network_state state, const char *why);
    /* What a background process wrote, for `sandpit logs`: `source` is its id, `stream` "stdout",
     * "stderr" or "info" (one line on the process itself). Pieces may end anywhere; size 0 is the
     * end of that stream. May be NULL. */
    void (*output)(void *arg, const char *source, const char *stream, const char *data,
                   size_t size);
    /* Once, just before gone(): what was written in this life (written.h). May be NULL. */
    void (*left)(void *arg, struct written *written);
    void *arg;
};

struct container *container_start(struct loop *loop, struct clock *clock, struct driver *driver,
                                  const struct container_spec *spec, struct container_events events,
                                  struct error *err);
/* Ends every process with SIGTERM, and the tree after `grace_ms` of real time or when all are gone;
 * gone() follows. */
void container_stop(struct container *container, int grace_ms);
/* Ends the tree at once; gone() follows. */
void container_kill(struct container *container);
/* What calls in flight are told as the `reason` when they are interrupted; static. Without it the
 * container was replaced. */
void container_interrupt_reason(struct container *container, const char *reason);
/* In gone(): 0 after a stop within its grace, else that of PID 1, or 128 + its signal. */
int container_exit_code(const struct container *container);

/* One row of the API. Paths are the original's; `{id}` stands for one segment. */
struct op {
    const char *name;   /* "execute" */
    const char *method; /* "POST" */
    const char *path;   /* "/api/execute" */
    void (*run)(struct container *container, struct call *call);
    bool takes_content; /* args.content may be large: see struct call */
};
extern const struct op container_ops[]; /* ends with a NULL name */
const struct op *container_op(const char *name);

void container_call(struct container *container, const struct op *op, struct call *call);
/* A call on files by absolute paths, which depends on no session. */
bool container_needs_no_session(const struct op *op, const json_t *args);
/* {port}: the answer has a socket that is connected to it. No route leads here. */
extern const struct op container_connect;
/* The same, which never makes an object start its container. */
extern const struct op container_connect_running;
/* Whether the port is in the registry that older SDKs fill. */
bool container_has_port(const struct container *container, int port);

/* For the control API: {"sessions": [ids], "processes": n}. New reference. */
json_t *container_describe(const struct container *container);
/* {"processes": [{id, command}], "ports": [numbers]}: what runs in the background, and what is in the
 * registry of ports. New reference. */
json_t *container_leftovers(const struct container *container);

#endif
