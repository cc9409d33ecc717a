/* Layer 2: Durable Objects. A class and an id name exactly one object however many requests arrive
 * at once. The object owns its container's life, its storage and its idle timer. */
#ifndef SANDPIT_OBJECTS_OBJECTS_H
#define SANDPIT_OBJECTS_OBJECTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "clock/clock.h"
#include "container/container.h"
#include "drivers/driver.h"
#include "objects/events.h"
#include "objects/store.h"

struct objects;
struct object;

/* A container class of the project. */
struct object_class {
    char name[64];
    char version[32];       /* of the image tag; SANDBOX_VERSION */
    bool python;            /* whether the image has Python */
    enum instance_network network;
    char network_why[96]; /* why it has none */
    char instance_type[32]; /* as configured; "" without one */
    struct instance_limits limits;
    uint64_t upper_bytes; /* size of the throw-away layer */
};

struct objects_config {
    const struct object_class *classes; /* the first is the default */
    size_t class_count;
    int64_t sleep_after_ms; /* 600,000 */
    bool default_session;   /* --default-session */
    int stop_grace_ms;
    const struct git_settings *git; /* for clones; NULL = none */
    /* What may be the cause of a start that failed, malloc'd, or NULL; may itself be NULL. */
    char *(*start_hint)(void *arg, const char *why);
    void *start_hint_arg;
};

struct objects *objects_new(struct loop *loop, struct clock *clock, struct driver *driver,
                            struct store *store, const struct objects_config *config,
                            struct error *err);
/* Kills every container; done() is called when all are gone. */
void objects_shutdown(struct objects *objects, void (*done)(void *arg), void *arg);
void objects_free(struct objects *objects);
struct events *objects_events(struct objects *objects);
const struct object_class *objects_class(const struct objects *objects, const char *name);

/* Checks the SDK's id rules: 0, or -EINVAL with the SDK's code in *code
 * ("INVALID_SANDBOX_ID_LENGTH"…) and a text in err. */
int object_id_check(const char *id, const char **code, struct error *err);

/* The object of (class, id), made when it does not exist; class NULL = the default class. The id
 * must have passed object_id_check. NULL with err for an unknown class (-ENOENT) or a storage
 * failure. */
struct object *objects_get(struct objects *objects, const char *class_name, const char *id,
                           struct error *err);
/* Only when it exists. */
struct object *objects_find(struct objects *objects, const char *class_name, const char *id);
/* The object that the host label "3000-{id}-{secret}" names, compared in constant time; or NULL. */
struct object *objects_by_label(struct objects *objects, const char *label);

const char *object_id(const struct object *object);

/* Options of getSandbox that came with a request; NULL or -1 = unchanged. Equal
 * values are a no-op. */
struct object_options {
    const char *sleep_after; /* "10m", or seconds as digits */
    int keep_alive;          /* -1, 0, 1 */
};
int object_configure(struct object *object, const struct object_options *options,
                     struct error *err);

/* Runs a container operation: starts the container when needed, counts as activity and as in flight
 * until it is answered (and its stream closed). The args must name their session. */
void object_call(struct object *object, const struct op *op, struct call *call);
/* The session id for calls that name none: "sandbox-{id}", made on first use with the object's
 * variables; or "__DISABLE_SESSION__" when default sessions are off (`per_call` 0 or 1 overrides
 * the configuration, -1 leaves it). */
const char *object_default_session(struct object *object, int per_call);

/* The object's own methods: args is the SDK method's argument object (rows of object_methods). */
struct object_method {
    const char *name; /* "getState", "stop", "destroy", "setEnvVars", "createSession"… */
    void (*run)(struct object *object, struct call *call);
};
const struct object_method *object_method(const char *name);
void object_method_call(struct object *object, const struct object_method *method,
                        struct call *call);

/* For the control API. */
json_t *object_describe(struct object *object); /* one element of GET /sandboxes; new reference */
json_t *objects_describe(struct objects *objects); /* array of them */
/* base URL such as "http://localhost:8787", for containerUrl in object_describe. */
void objects_set_origin(struct objects *objects, const char *host_and_port);
/* Destroys every sandbox and all storage; err is NULL, or says why what is stored was kept. */
void objects_reset(struct objects *objects, void (*done)(void *arg, const struct error *err),
                   void *arg);

#endif
