/* What the files of the objects layer share. */
#ifndef SANDPIT_OBJECTS_INTERNAL_H
#define SANDPIT_OBJECTS_INTERNAL_H

#include "container/interpreter_language.h"
#include "objects/lives.h"
#include "objects/objects.h"
#include "objects/report.h"
#include "objects/platform.h"
#include "objects/ports.h"

struct relay;
struct logs;

enum object_state {
    OBJECT_NOT_CREATED, /* known, but its container never ran in this process */
    OBJECT_STARTING,
    OBJECT_HEALTHY,
    OBJECT_STOPPING,
    OBJECT_STOPPED,
    OBJECT_DESTROYED,
};

/* What getState tells. The SDK's words change at other moments than ours: it does not know that a
 * container is being stopped, and tells its exit code until the next alarm. */
enum status { STATUS_STOPPED, STATUS_RUNNING, STATUS_HEALTHY, STATUS_STOPPED_WITH_CODE };

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
    int64_t started_ns; /* real time at which the container got it */
    int distance_ms;           /* it comes from so far away */
    bool struck;               /* faults had their turn */
    struct virtual_timer late; /* for waiting on the clock */
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
    enum status status;
    int64_t status_ms;
    int exit_code;     /* of the last container */
    enum life_end end; /* how the current container is being ended; LIFE_RUNS = it is not */
    int crash_code;    /* its exit code, with LIFE_CRASHED */
    int lives;         /* containers started in this process */
    struct lives *life; /* lives.h; NULL until the first */
    struct logs *logs;  /* NULL until there is something */
    struct container *container;
    unsigned kills; /* for lack of memory, in the current or last container */
    bool active;    /* its container costs something (report.c) */
    int64_t active_from_ms;
    char runtime[37];
    struct pending_list waiting;
    struct gone_waiter *gone_waiters;
    struct object_hold *holds;
    bool held; /* a transition holds the clock */
    bool ending, gone_early; /* endings.c: its end is told in order; its container is gone already */
    char *gone_why;
    struct object *next_ending;

    enum egress egress;
    char egress_why[200]; /* there is none */

    enum default_session session;
    char *session_id;
    json_t *env;       /* of setEnvVars */

    json_t *contexts; /* of the code interpreter: [{id, language}], oldest first; or NULL */
    struct relay *code_waiting[LANGUAGE_COUNT]; /* for a default context that is being made */

    int64_t sleep_after_ms;
    bool keep_alive;
    unsigned keep_alive_changes; /* in this process */
    struct virtual_timer idle;
    int inflight;
    bool orphan; /* forgotten by a reset while something was in flight */
    const char *last_what;
    int64_t last_ms;
    struct platform platform;
    struct ports ports;
};

struct objects {
    struct loop *loop;
    struct clock *clock;
    struct driver *driver;
    struct store *store;
    struct objects_config config;
    struct events *events;
    struct faults faults;
    struct object **buckets;
    size_t bucket_count, count;
    struct object *first, **last;
    char *origin; /* "localhost:8787" */
    struct preview_hosts hosts;
    bool told_rules, told_nested; /* warnings of ports.c */
    struct usage *usage; /* one for each class */
    json_t *expose_told; /* expose_check.c */
    bool closing;
    struct reset *resets; /* objects.c */
    struct task reset_task;
    struct object *endings, *last_ending; /* endings.c */
    struct task endings_task;
    void (*empty)(void *arg); /* told when the last container is gone */
    void *empty_arg;
};

/* classes.c */
bool class_is(const struct object *object, const struct object_class *class);
/* Takes over the class as the project has it now. */
void class_adopt(struct object *object);
struct usage *class_usage(const struct objects *objects, const struct object_class *class);
void classes_free(struct objects *objects);

/* object.c */
void object_load(struct object *object);
void object_note(struct object *object, const char *type, const char *reason, json_t *data);
void object_free(struct object *object);
/* Puts the object's variables under args.env; what is there already wins. */
void object_add_env(const struct object *object, json_t *args);
/* Makes the default session of the container. */
void object_create_session(struct object *object);

/* transitions.c: every change of state, with its cause. */
/* The one place where a start may be delayed or refused. Calls wait in object->waiting. */
void object_start(struct object *object);
/* The container answers, and nothing delays it: calls go on. */
void object_ready(struct object *object);
/* How SIGTERM, then the grace, then SIGKILL end it: LIFE_SLEPT or LIFE_STOPPED. */
void object_stop(struct object *object, enum life_end end, const char *why);
void object_destroy(struct object *object, const char *why);
/* The platform takes the container away; who waits gets the next one. False without a container. */
bool object_replace(struct object *object, const char *why);
/* The container ends at once, as if by itself. False without one. */
bool object_crash(struct object *object, int exit_code, const char *why);
/* Calls back when no container is left; at once when there is none. -ENOMEM: it never will. */
int object_when_gone(struct object *object, void (*gone)(void *arg), void *arg);
bool object_has_container(const struct object *object);

/* The container is gone, and this is the moment to tell. */
void object_ended(struct object *object, const char *why);

/* endings.c */
/* An end begins. */
void endings_begin(struct object *object);
/* The container is gone. False when that may be told at once; else object_ended() is called. */
bool endings_defer(struct object *object, const char *why);

/* status.c */
void status_set(struct object *object, enum status status);
/* The result of getState. */
json_t *status_describe(const struct object *object);

/* idle.c: the time of sleep. */
void idle_init(struct object *object);
/* Arms or disarms the timer by what the object does now. */
void idle_arm(struct object *object);
/* Activity: the idle time starts anew. */
void object_renew(struct object *object, const char *what);

/* calls.c */
/* Everything that waits goes on: to run, or to wait again if the state changed meanwhile. */
void calls_go_on(struct object *object);
/* Everything that waits is answered with this error; takes the context, and copies the rest. */
void calls_fail(struct object *object, enum code code, json_t *context, const char *message,
                const char *hint);
/* The same with an answer like this one, of which everything is copied. */
void calls_answer(struct object *object, const struct answer *like);
/* A call that was held up goes on from where it stood. */
void calls_resume(struct pending *pending);

/* options.c */
int object_set_sleep_after(struct object *object, const json_t *value, struct error *err);
int object_set_keep_alive(struct object *object, bool on, struct error *err);

/* A call, or what held the container, is over. May free the object. */
void object_finish_inflight(struct object *object);

/* servers.c */
void servers_start(struct object *object, struct call *call);

/* hold.c */
/* The container is gone. */
void holds_gone(struct object *object);

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

/* console.c */
void console_tell(const struct object *object, const char *type, const char *reason);

/* lives.c; lives.h has the rest. NULL without memory. */
struct logs *object_logs(struct object *object);

/* exec.c */
void exec_run(struct object *object, struct call *call);

/* pids.c */
void process_is_running(struct object *object, struct call *call);
void process_kill(struct object *object, struct call *call);

/* processes.c */
void process_get(struct object *object, struct call *call);

/* wait_kinds.c */
void wait_for_log(struct object *object, struct call *call);
void wait_for_port(struct object *object, struct call *call);
void wait_for_exit(struct object *object, struct call *call);

/* objects.c */
void objects_container_gone(struct objects *objects);
const char *object_state_name(enum object_state state);

#endif
