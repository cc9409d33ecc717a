/* What the files of the objects layer share. */
#ifndef SANDPIT_OBJECTS_INTERNAL_H
#define SANDPIT_OBJECTS_INTERNAL_H

#include "container/interpreter_language.h"
#include "objects/objects.h"

struct relay;

enum object_state {
    OBJECT_NOT_CREATED, /* known, but its container never ran in this process */
    OBJECT_STARTING,
    OBJECT_HEALTHY,
    OBJECT_STOPPING,
    OBJECT_STOPPED,
    OBJECT_DESTROYED,
};

/* Where the default session of the current container is. */
enum default_session { SESSION_NONE, SESSION_CREATING, SESSION_READY };

/* What is known of the current container's network. */
enum egress { EGRESS_NONE, EGRESS_STARTING, EGRESS_LATE, EGRESS_UP, EGRESS_FAILED };

enum { SECRET_LENGTH = 16 };

/* A call that waits for, or runs in, the container. */
struct pending {
    struct object *object;
    const struct op *op;
    struct call *outer;
    struct call inner;
    json_t *own_args; /* when the caller's args had to be changed */
    struct task task; /* for waiting until an advance is over */
    struct pending *next;
};

struct pending_list {
    struct pending *first, **last;
};

/* Someone who waits until the container is gone. */
struct gone_waiter {
    void (*gone)(void *arg);
    void *arg;
    struct gone_waiter *next;
};

struct object {
    struct objects *objects;
    struct object *next_in_bucket, *next;
    const struct object_class *class;
    char *id;
    char secret[SECRET_LENGTH + 1];
    int64_t row;
    bool loaded; /* the stored options were read */

    enum object_state state;
    int64_t since_ms;
    char why[160];
    int lives;         /* containers started in this process */
    char slept_at[25]; /* when the last one went to sleep, or "" */
    struct container *container;
    unsigned kills; /* for lack of memory, in the current or last container */
    char runtime[37];
    struct pending_list waiting;
    struct gone_waiter *gone_waiters;
    bool held; /* a transition holds the clock */

    enum egress egress;
    char egress_why[200]; /* there is none */

    enum default_session session;
    char *session_id;
    bool session_seen; /* a session was created once: the placement id is then known */
    json_t *env;       /* of setEnvVars */

    json_t *contexts; /* of the code interpreter: [{id, language}], oldest first; or NULL */
    struct relay *code_waiting[LANGUAGE_COUNT]; /* for a default context that is being made */

    int64_t sleep_after_ms;
    bool keep_alive;
    struct virtual_timer idle;
    int inflight;
    bool orphan; /* forgotten by a reset while something was in flight */
    const char *last_what;
    int64_t last_ms;
};

struct objects {
    struct loop *loop;
    struct clock *clock;
    struct driver *driver;
    struct store *store;
    struct objects_config config;
    struct events *events;
    struct object **buckets;
    size_t bucket_count, count;
    struct object *first, **last;
    char *origin; /* "localhost:8787" */
    bool closing;
    void (*empty)(void *arg); /* told when the last container is gone */
    void *empty_arg;
};

/* object.c */
void object_load(struct object *object);
void object_start(struct object *object);
void object_stop(struct object *object, const char *why);
void object_destroy(struct object *object, const char *why);
/* Calls back when no container is left; at once when there is none. -ENOMEM: it never will. */
int object_when_gone(struct object *object, void (*gone)(void *arg), void *arg);
bool object_has_container(const struct object *object);
/* Activity outside of calls: arms the idle timer anew. */
void object_renew(struct object *object, const char *what);
void object_note(struct object *object, const char *type, const char *reason, json_t *data);
void object_free(struct object *object);
/* Puts the object's variables under args.env; what is there already wins. */
void object_add_env(const struct object *object, json_t *args);

/* options.c */
int object_set_sleep_after(struct object *object, const json_t *value, struct error *err);
int object_set_keep_alive(struct object *object, bool on, struct error *err);

/* egress.c */
void egress_begin(struct object *object);
void egress_told(struct object *object, enum network_state state, const char *why);
/* Whether this operation waits for the network, which is about to come. */
bool egress_awaited(const struct object *object, const struct op *op);
/* "none", "failed", or the program that carries the packets. */
const char *egress_name(const struct object *object);
/* Adds a hint to the answer of a command that failed because there is no network, and an event. */
void egress_explain(struct object *object, struct answer *answer);

/* interpreter.c */
void interpreter_create(struct object *object, struct call *call);
void interpreter_list(struct object *object, struct call *call);
void interpreter_delete(struct object *object, struct call *call);
void interpreter_run(struct object *object, struct call *call);
void interpreter_run_stream(struct object *object, struct call *call);
/* The contexts are gone with their container. */
void interpreter_forget(struct object *object);

/* objects.c */
void objects_container_gone(struct objects *objects);

#endif
