/* One object's life: its container starts on first use, is shared by all who call at once, sleeps
 * when idle, and is replaced by a fresh one on the next call. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/random.h"
#include "objects/internal.h"

#define DISABLE_SESSION "__DISABLE_SESSION__"

static void pending_go(struct pending *pending);

void object_note(struct object *object, const char *type, const char *reason, json_t *data)
{
    events_add(object->objects->events, object->id, *object->runtime ? object->runtime : NULL, type,
               reason, data);
}

static void set_state(struct object *object, enum object_state state, const char *why)
{
    object->state = state;
    object->since_ms = clock_now_ms(object->objects->clock);
    if (why)
        snprintf(object->why, sizeof object->why, "%s", why);
}

/* An advance of the clock waits for transitions; one hold for each object at most. */
static void hold(struct object *object)
{
    if (!object->held)
        clock_hold(object->objects->clock);
    object->held = true;
}

static void release(struct object *object)
{
    if (object->held)
        clock_release(object->objects->clock);
    object->held = false;
}

/* Idle time. */

static void describe_span(int64_t ms, char *to, size_t size)
{
    if (ms % 3600000 == 0 && ms)
        snprintf(to, size, "%lldh", (long long)(ms / 3600000));
    else if (ms % 60000 == 0 && ms)
        snprintf(to, size, "%lldm", (long long)(ms / 60000));
    else
        snprintf(to, size, "%llds", (long long)(ms / 1000));
}

static void arm_idle(struct object *object)
{
    struct clock *clock = object->objects->clock;
    if (object->state == OBJECT_HEALTHY && object->inflight == 0)
        clock_arm(clock, &object->idle, object->last_ms + object->sleep_after_ms);
    else
        clock_disarm(clock, &object->idle);
}

void object_renew(struct object *object, const char *what)
{
    object->last_ms = clock_now_ms(object->objects->clock);
    object->last_what = what;
    arm_idle(object);
}

static void idle_fire(void *arg)
{
    struct object *object = arg;
    if (object->keep_alive) {
        object_renew(object, "keepAlive");
        return;
    }
    char span[32], why[160];
    describe_span(object->sleep_after_ms, span, sizeof span);
    snprintf(why, sizeof why, "slept: idle for %s after %s", span, object->last_what);
    clock_format(clock_now_ms(object->objects->clock), object->slept_at);
    object_stop(object, why);
}

/* Waiting calls. */

static void list_add(struct pending_list *list, struct pending *pending)
{
    pending->next = NULL;
    *list->last = pending;
    list->last = &pending->next;
}

/* Everything that waits goes on: to run, or to wait again if the state changed meanwhile. */
static void run_waiting(struct object *object)
{
    struct pending *pending = object->waiting.first;
    object->waiting.first = NULL;
    object->waiting.last = &object->waiting.first;
    while (pending) {
        struct pending *next = pending->next;
        pending_go(pending);
        pending = next;
    }
}

static void finish_inflight(struct object *object)
{
    object->inflight--;
    if (!object->orphan)
        object_renew(object, object->last_what);
    else if (object->inflight == 0)
        object_free(object);
}

static void stream_closed(void *arg)
{
    finish_inflight(arg);
}

/* The gotcha that an emulator can explain: the file was written in an earlier life. */
static void explain(const struct object *object, struct answer *answer)
{
    if (answer->code != CODE_FILE_NOT_FOUND || !*object->slept_at)
        return;
    if (asprintf(&answer->hint,
                 "the previous container slept at %s; what was written before then is gone",
                 object->slept_at) < 0)
        answer->hint = NULL;
}

/* The container answered: hand the answer up. A stream counts as in flight until it is closed. */
static void pending_done(struct call *inner, struct answer *answer)
{
    struct pending *pending = inner->arg;
    struct object *object = pending->object;
    struct call *outer = pending->outer;
    explain(object, answer);
    egress_explain(object, answer);
    if (answer->code == CODE_OK && answer->stream)
        stream_on_closed(answer->stream, stream_closed, object);
    else
        finish_inflight(object);
    json_decref(pending->own_args);
    free(pending);
    outer->done(outer, answer);
}

/* A container did not start: `hint` may be NULL. One that was ended while it started is unavailable,
 * which callers try again. */
static void fail_waiting(struct object *object, enum code code, const char *why, const char *hint)
{
    struct pending *pending = object->waiting.first;
    object->waiting.first = NULL;
    object->waiting.last = &object->waiting.first;
    while (pending) {
        struct pending *next = pending->next;
        struct answer answer = {
            .code = code,
            .body = json_pack("{s:s, s:s}", "phase", "startup", "error", why),
            .hint = hint ? strdup(hint) : NULL,
        };
        if (asprintf(&answer.message, "Container failed to start: %s", why) < 0)
            answer.message = NULL;
        call_finish(&pending->inner, &answer);
        pending = next;
    }
}

/* By itself: somebody may know what this machine lacks. */
static void start_failed(struct object *object, const char *why)
{
    const struct objects_config *config = &object->objects->config;
    CLEANUP_FREE char *hint =
        config->start_hint ? config->start_hint(config->start_hint_arg, why) : NULL;
    if (hint)
        log_warn("sandbox %s: %s", object->id, hint);
    fail_waiting(object, CODE_INTERNAL_ERROR, why, hint);
}

/* The container. */

static void container_ready(void *arg)
{
    struct object *object = arg;
    if (object->state != OBJECT_STARTING)
        return;
    set_state(object, OBJECT_HEALTHY, NULL);
    object_note(object, "container.healthy", NULL, NULL);
    release(object);
    object_renew(object, object->last_what);
    run_waiting(object);
}

static void tell_gone(struct object *object)
{
    struct gone_waiter *waiter = object->gone_waiters;
    object->gone_waiters = NULL;
    while (waiter) {
        struct gone_waiter *next = waiter->next;
        waiter->gone(waiter->arg);
        free(waiter);
        waiter = next;
    }
}

static void container_gone(void *arg, const char *why)
{
    struct object *object = arg;
    enum object_state was = object->state;
    object->container = NULL;
    object->session = SESSION_NONE;
    interpreter_forget(object);
    if (was == OBJECT_STARTING || was == OBJECT_HEALTHY) {
        set_state(object, OBJECT_STOPPED, why);
        log_warn("sandbox %s: the container ended by itself: %s", object->id, why);
    } else if (was == OBJECT_STOPPING) {
        set_state(object, OBJECT_STOPPED, NULL);
    }
    object_note(object, was == OBJECT_DESTROYED ? "container.destroyed" : "container.stopped",
                object->why, NULL);
    object->runtime[0] = '\0';
    arm_idle(object);
    release(object);
    if (was == OBJECT_STARTING)
        start_failed(object, why);
    tell_gone(object);
    objects_container_gone(object->objects);
    run_waiting(object);
}

static void container_note(void *arg, const char *type, json_t *data)
{
    struct object *object = arg;
    if (strcmp(type, "container.oom") == 0) {
        object->kills = (unsigned)json_integer_value(json_object_get(data, "kills"));
        log_warn("sandbox %s: out of memory (limit %llu MiB), %u ended by the kernel so far",
                 object->id, (unsigned long long)(object->class->limits.memory_bytes >> 20),
                 object->kills);
    }
    object_note(object, type, NULL, data);
}

/* Commands that waited for the network go on, with or without it. */
static void container_network(void *arg, enum network_state state, const char *why)
{
    struct object *object = arg;
    egress_told(object, state, why);
    if (object->state == OBJECT_HEALTHY)
        run_waiting(object);
}

void object_start(struct object *object)
{
    struct objects *objects = object->objects;
    struct error err = {0};
    struct container_spec spec = {
        .hostname = object->id,
        .version = object->class->version,
        .env = object->env,
        .python = object->class->python,
        .network = object->class->network,
        .git = object->objects->config.git,
        .upper_bytes = object->class->upper_bytes,
        .limits = object->class->limits,
    };
    struct container_events events = {.ready = container_ready,
                                      .gone = container_gone,
                                      .note = container_note,
                                      .network = container_network,
                                      .arg = object};
    random_uuid(object->runtime);
    object->lives++;
    object->kills = 0;
    set_state(object, OBJECT_STARTING, "started by a request");
    egress_begin(object);
    object_note(object, "container.starting", NULL,
                json_pack("{s:s}", "network", egress_name(object)));
    hold(object);
    object->container =
        container_start(objects->loop, objects->clock, objects->driver, &spec, events, &err);
    if (!object->container)
        container_gone(object, err.text);
}

bool object_has_container(const struct object *object)
{
    return object->container != NULL;
}

void object_stop(struct object *object, const char *why)
{
    if (object->state != OBJECT_STARTING && object->state != OBJECT_HEALTHY)
        return;
    log_info("sandbox %s %s", object->id, why);
    if (object->state == OBJECT_STARTING)
        fail_waiting(object, CODE_CONTAINER_UNAVAILABLE, "stopped while it started", NULL);
    set_state(object, OBJECT_STOPPING, why);
    arm_idle(object);
    object_note(object, "container.stopping", why, NULL);
    hold(object);
    container_stop(object->container, object->objects->config.stop_grace_ms);
}

void object_destroy(struct object *object, const char *why)
{
    bool running = object->container != NULL;
    if (running && object->state == OBJECT_STARTING)
        fail_waiting(object, CODE_CONTAINER_UNAVAILABLE, "destroyed while it started", NULL);
    set_state(object, OBJECT_DESTROYED, why);
    object->slept_at[0] = '\0';
    arm_idle(object);
    if (!running) {
        object_note(object, "container.destroyed", why, NULL);
        return;
    }
    hold(object);
    container_kill(object->container);
}

int object_when_gone(struct object *object, void (*gone)(void *arg), void *arg)
{
    if (!object->container) {
        gone(arg);
        return 0;
    }
    struct gone_waiter *waiter = malloc(sizeof *waiter);
    if (!waiter)
        return -ENOMEM;
    *waiter = (struct gone_waiter){gone, arg, object->gone_waiters};
    object->gone_waiters = waiter;
    return 0;
}

/* The default session is made once for each container, with the object's variables. */

static void session_created(struct call *call, struct answer *answer)
{
    struct object *object = call->arg;
    json_decref((json_t *)call->args);
    free(call);
    if (object->session != SESSION_CREATING)
        return; /* the container went away: its calls were answered */
    object->session = SESSION_READY;
    object->session_seen = true;
    run_waiting(object);
}

static void create_session(struct object *object)
{
    struct call *call = calloc(1, sizeof *call);
    json_t *args = json_pack("{s:s, s:s, s:O}", "id", object->session_id, "cwd", "/workspace",
                             "env", object->env);
    if (!call || !args) {
        free(call);
        json_decref(args);
        object->session = SESSION_READY; /* the container makes sessions it does not know */
        return;
    }
    object->session = SESSION_CREATING;
    *call = (struct call){.args = args, .done = session_created, .arg = object};
    container_call(object->container, container_op("sessionCreate"), call);
}

const char *object_default_session(struct object *object, int per_call)
{
    bool on = per_call >= 0 ? per_call : object->objects->config.default_session;
    return on ? object->session_id : DISABLE_SESSION;
}

static const char *session_of(const json_t *args)
{
    const char *session = json_string_value(json_object_get(args, "sessionId"));
    return session ? session : "";
}

void object_add_env(const struct object *object, json_t *args)
{
    json_t *given = json_object_get(args, "env");
    if (given && !json_is_object(given))
        return; /* the container says what is wrong with it */
    json_t *env = json_copy(object->env);
    if (given)
        json_object_update(env, given);
    json_object_set_new(args, "env", env);
}

/* Calls without a session get the object's variables with each command. */
static void merge_env(struct pending *pending)
{
    if (json_object_size(pending->object->env) == 0 || strcmp(pending->op->name, "execute") != 0)
        return;
    json_t *args = json_copy((json_t *)pending->inner.args);
    object_add_env(pending->object, args);
    pending->own_args = args;
    pending->inner.args = args;
}

/* Where a call stands decides what happens next; every change of state comes back here. */
static void pending_go(struct pending *pending)
{
    struct object *object = pending->object;
    if (object->state != OBJECT_HEALTHY) {
        if (object->objects->closing) {
            call_error(&pending->inner, CODE_CONTAINER_UNAVAILABLE, NULL, NULL,
                       "the sandbox was removed while this waited for it");
            return;
        }
        list_add(&object->waiting, pending);
        if (!object->container)
            object_start(object);
        return;
    }
    const char *session = session_of(pending->inner.args);
    if (object->session != SESSION_READY && strcmp(session, object->session_id) == 0) {
        if (object->session == SESSION_NONE)
            create_session(object);
        if (object->session != SESSION_READY) {
            list_add(&object->waiting, pending);
            return;
        }
    }
    if (egress_awaited(object, pending->op)) {
        list_add(&object->waiting, pending); /* a few milliseconds; 200 at most */
        return;
    }
    if (strcmp(session, DISABLE_SESSION) == 0)
        merge_env(pending);
    container_call(object->container, pending->op, &pending->inner);
}

static void pending_begin(void *arg)
{
    struct pending *pending = arg;
    struct object *object = pending->object;
    object->inflight++;
    object->last_what = pending->op->name;
    object->last_ms = clock_now_ms(object->objects->clock);
    arm_idle(object);
    pending_go(pending);
}

void object_call(struct object *object, const struct op *op, struct call *call)
{
    struct objects *objects = object->objects;
    object_load(object);
    struct pending *pending = calloc(1, sizeof *pending);
    if (!pending || objects->closing) {
        free(pending);
        call_error(call, CODE_CONTAINER_UNAVAILABLE, NULL, NULL, "the emulator is shutting down");
        return;
    }
    pending->object = object;
    pending->op = op;
    pending->outer = call;
    pending->inner = *call;
    pending->inner.done = pending_done;
    pending->inner.arg = pending;
    pending->task = (struct task){.run = pending_begin, .arg = pending};
    if (clock_advancing(objects->clock))
        clock_when_settled(objects->clock, &pending->task);
    else
        pending_begin(pending);
}

/* Loading. */

/* True when what is stored was read; a failure is not taken for "nothing is stored". */
static bool read_options(struct object *object)
{
    struct store *store = object->objects->store;
    struct error err = {0};
    CLEANUP_JSON json_t *keep = store_get(store, object->row, "keepAliveEnabled", &err);
    CLEANUP_JSON json_t *sleep =
        err.code ? NULL : store_get(store, object->row, "sleepAfterMs", &err);
    if (err.code) {
        log_error("sandbox %s: its options could not be read: %s", object->id, err.text);
        return false;
    }
    object->keep_alive = json_is_true(keep);
    if (json_is_integer(sleep))
        object->sleep_after_ms = json_integer_value(sleep);
    return true;
}

void object_load(struct object *object)
{
    if (object->loaded)
        return;
    object->loaded = read_options(object); /* else the next call tries again */
    if (object->env)
        return;
    object->waiting.last = &object->waiting.first;
    object->idle = (struct virtual_timer){
        .fire = idle_fire, .arg = object, .kind = "sleep", .sandbox = object->id};
    object->env = json_object();
}

void object_free(struct object *object)
{
    clock_disarm(object->objects->clock, &object->idle);
    json_decref(object->env);
    json_decref(object->contexts);
    free(object->session_id);
    free(object->id);
    free(object);
}
