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
#include "objects/expose_check.h"
#include "objects/faults.h"
#include "objects/platform.h"
#include "objects/port_rules.h"
#include "objects/prices.h"
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
    char billed_as[32];     /* the type whose price counts */
    struct billed_size billed;
    struct instance_limits limits;
    uint64_t upper_bytes; /* size of the throw-away layer */
    int max_instances;     /* containers that may run at once; 0 = any number */
    char sdk_mismatch[32]; /* the version of the project's SDK when the image's is another one */
    struct expose expose;
    const json_t *env; /* ENV of the image; or NULL */
};

/* How previews are exposed. */
struct ports_config {
    const struct port_rules *rules; /* of the SDK's line; NULL = the newest */
    bool production;                /* --rules production */
};

struct objects_config {
    const struct object_class *classes; /* the first is the default */
    size_t class_count;
    int64_t sleep_after_ms; /* 600,000 */
    bool default_session;   /* --default-session */
    int stop_grace_ms;
    bool faithful; /* --faithful: answers hold no hints */
    const struct git_settings *git; /* for clones; NULL = none */
    /* What may be the cause of a start that failed, malloc'd, or NULL; may itself be NULL. */
    char *(*start_hint)(void *arg, const char *why);
    void *start_hint_arg;
    struct platform_config platform;
    struct ports_config ports;
};

struct objects *objects_new(struct loop *loop, struct clock *clock, struct driver *driver,
                            struct store *store, const struct objects_config *config,
                            struct error *err);
/* Kills every container; done() is called when all are gone. */
void objects_shutdown(struct objects *objects, void (*done)(void *arg), void *arg);
void objects_free(struct objects *objects);
struct events *objects_events(struct objects *objects);
const struct object_class *objects_class(const struct objects *objects, const char *name);
/* The project was read again. Containers that run keep their class as it was, so the old ones must
 * stay where they are. */
int objects_set_classes(struct objects *objects, const struct object_class *classes, size_t count);

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

/* What the label "{port}-{id}-{token}" of a preview leads to. */
enum preview_state {
    PREVIEW_INVALID, /* nothing has this token */
    PREVIEW_STALE,   /* the container that it was exposed in is gone */
    PREVIEW_ACTIVE,
    PREVIEW_WAKES, /* likewise gone, but of an SDK line whose previews start another */
};
/* Never starts a container and is no activity. The object is set unless it is invalid. */
enum preview_state objects_preview(struct objects *objects, const char *label,
                                   struct object **object, uint16_t *port);
/* Whether exposePort was given this domain. */
bool objects_preview_host(const struct objects *objects, const char *name, size_t size);

const char *object_id(const struct object *object);

/* Options of getSandbox that came with a request; NULL or -1 = unchanged. Equal
 * values are a no-op. */
struct object_options {
    const char *sleep_after; /* "10m", or seconds as digits */
    int keep_alive;          /* -1, 0, 1 */
    const char *colo;        /* where the request comes from */
};
int object_configure(struct object *object, const struct object_options *options,
                     struct error *err);

/* Runs a container operation: starts the container when needed, counts as activity and as in flight
 * until it is answered (and its stream closed). The args must name their session. */
void object_call(struct object *object, const struct op *op, struct call *call);
/* What uses the container without being a call, such as a forwarded request. Belongs to the caller,
 * who fills in the first two. */
struct object_hold {
    void (*gone)(void *arg); /* the container is gone; the hold is released */
    void *arg;
    struct object *object; /* NULL while it holds nothing */
    struct object_hold *next, *previous;
    bool counts;
};
/* Counts as in flight until it is released or quiet. -EPIPE when the container does not run. */
int object_hold(struct object *object, struct object_hold *hold, const char *what);
/* Does not keep the container awake any more, as an open WebSocket does not; gone() still comes. */
void object_hold_quiet(struct object_hold *hold);
/* Something happened that counts as activity. */
void object_hold_active(struct object_hold *hold);
void object_release(struct object_hold *hold);
bool object_is_healthy(const struct object *object);
/* Of containerTimeouts: for how long a port of a container that just started is waited for, and how
 * often it is tried. */
struct object_port_wait {
    long timeout_ms, interval_ms;
};
struct object_port_wait object_port_wait(struct object *object);
/* Differs between two containers of the object. */
unsigned object_life(const struct object *object);
/* Whether the container's registry of older SDKs has the port. */
bool object_has_port(const struct object *object, int port);
/* Whether a fault waits for a connection to one of its ports: then none that is kept will do. */
bool object_port_fault(const struct object *object);
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
/* {id, class, why, last, now, wouldHaveKept}: the life before this one, and this one. */
json_t *object_why(struct object *object);
/* What its commands and processes wrote, as events are read (feed.h); the subject is the source. */
int object_logs_write(struct object *object, const struct feed_filter *filter, struct buf *to);
struct stream *object_logs_follow(struct object *object, const struct feed_filter *filter);
json_t *object_describe(struct object *object); /* one element of GET /sandboxes; new reference */
json_t *objects_describe(struct objects *objects); /* array of them */
/* What was not cleaned up, and what it all would have cost; see report.h. */
json_t *objects_report(struct objects *objects);
/* base URL such as "http://localhost:8787", for containerUrl in object_describe. */
void objects_set_origin(struct objects *objects, const char *host_and_port);
/* How many containers there are. */
int objects_running(const struct objects *objects);
/* Destroys every sandbox and all storage; err is NULL, or says why what is stored was kept. */
void objects_reset(struct objects *objects, void (*done)(void *arg, const struct error *err),
                   void *arg);

#endif
