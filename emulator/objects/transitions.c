/* The changes of an object's state: its container starts on first use, is shared by all who call at
 * once, ends by sleep, stop, destroy, the platform or itself, and is followed by a fresh one on the
 * next call. Each change has a cause, a virtual time and an event. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/random.h"
#include "objects/internal.h"

static void set_state(struct object *object, enum object_state state, const char *why)
{
    object->state = state;
    object->since_ms = clock_now_ms(object->objects->clock);
    if (why)
        snprintf(object->why, sizeof object->why, "%s", why);
    idle_arm(object);
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

/* The end of a container. */

/* A container did not start: `hint` may be NULL. One that was ended while it started is
 * unavailable, which callers try again. */
static void fail_waiting(struct object *object, enum code code, const char *why, const char *hint)
{
    CLEANUP_FREE char *message = NULL;
    if (asprintf(&message, "Container failed to start: %s", why) < 0)
        message = NULL;
    calls_fail(object, code, json_pack("{s:s, s:s}", "phase", "startup", "error", why),
               message ? message : "Container failed to start", hint);
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

/* What the end makes of the state. */
static void settle_state(struct object *object, const char *why)
{
    if (object->state == OBJECT_STARTING || object->state == OBJECT_HEALTHY) {
        object->end = object->state == OBJECT_STARTING ? LIFE_FAILED : LIFE_CRASHED;
        log_warn("sandbox %s: the container ended by itself: %s", object->id, why);
        set_state(object, OBJECT_STOPPED, why);
    } else if (object->state == OBJECT_STOPPING) {
        set_state(object, OBJECT_STOPPED, NULL);
    }
}

void object_ended(struct object *object, const char *why)
{
    bool starting = object->state == OBJECT_STARTING;
    settle_state(object, why);
    status_set(object, STATUS_STOPPED_WITH_CODE);
    object_note(object,
                object->state == OBJECT_DESTROYED ? "container.destroyed" : "container.stopped",
                object->why, json_pack("{s:i}", "exitCode", object->exit_code));
    life_over(object, object->end);
    report_end(object);
    object->end = LIFE_RUNS;
    object->runtime[0] = '\0';
    release(object);
    if (starting)
        start_failed(object, why);
    holds_gone(object);
    tell_gone(object);
    objects_container_gone(object->objects);
    calls_go_on(object);
}

static void container_gone(void *arg, const char *why)
{
    struct object *object = arg;
    bool forced = object->end == LIFE_CRASHED;
    object->exit_code = object->container ? container_exit_code(object->container) : 1;
    if (forced)
        object->exit_code = object->crash_code;
    object->container = NULL;
    object->session = SESSION_NONE;
    interpreter_forget(object);
    ports_gone(object);
    platform_gone(object);
    if (!endings_defer(object, why))
        object_ended(object, why);
}

/* What the container tells. */

void object_ready(struct object *object)
{
    set_state(object, OBJECT_HEALTHY, NULL);
    status_set(object, STATUS_HEALTHY);
    object_note(object, "container.healthy", object->why, NULL);
    platform_healthy(object);
    release(object);
    object_renew(object, object->last_what);
    calls_go_on(object);
}

static void container_ready(void *arg)
{
    struct object *object = arg;
    if (object->state != OBJECT_STARTING)
        return;
    if (!platform_delays(object))
        object_ready(object);
    else if (object->state == OBJECT_STARTING)
        release(object); /* an advance does not wait for what waits for the clock */
}

/* What ends because its container does is no event of its own: the end of the container tells it,
 * and the order in which processes die is the kernel's. */
static bool ends_with_container(const struct object *object, const char *type)
{
    static const char *const types[] = {"session.exited", "interpreter.exited", "process.exited"};
    if (object->end == LIFE_RUNS)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i], type) == 0)
            return true;
    }
    return false;
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
    json_incref(data);
    if (ends_with_container(object, type))
        json_decref(data);
    else
        object_note(object, type, NULL, data);
    life_note(object, type, data);
    json_decref(data);
}

static void container_output(void *arg, const char *source, const char *stream, const char *data,
                             size_t size)
{
    life_output(arg, source, stream, data, size);
}

static void container_left(void *arg, struct written *written)
{
    life_left(arg, written);
}

/* Commands that waited for the network go on, with or without it. */
static void container_network(void *arg, enum network_state state, const char *why)
{
    struct object *object = arg;
    egress_told(object, state, why);
    if (object->state == OBJECT_HEALTHY)
        calls_go_on(object);
}

/* The start. */

void object_start(struct object *object)
{
    struct objects *objects = object->objects;
    struct error err = {0};
    class_adopt(object);
    struct container_spec spec = {
        .hostname = object->id,
        .version = object->class->version,
        .image_env = object->class->env,
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
                                      .output = container_output,
                                      .left = container_left,
                                      .arg = object};
    char why[160];
    if (platform_refuses(object))
        return;
    snprintf(why, sizeof why, "started for %s", object->last_what);
    random_uuid(object->runtime);
    object->lives++;
    object->kills = 0;
    object->end = LIFE_RUNS;
    set_state(object, OBJECT_STARTING, why);
    status_set(object, STATUS_RUNNING);
    egress_begin(object);
    life_begin(object);
    report_begin(object);
    json_t *data = json_pack("{s:s}", "network", egress_name(object));
    platform_starting(object, data);
    object_note(object, "container.starting", why, data);
    hold(object);
    object->container =
        container_start(objects->loop, objects->clock, objects->driver, &spec, events, &err);
    if (!object->container)
        container_gone(object, err.text);
}

/* Ends that are asked for. */

static bool runs(const struct object *object)
{
    return object->state == OBJECT_STARTING || object->state == OBJECT_HEALTHY;
}

static void begin_end(struct object *object, enum object_state state, enum life_end end,
                      const char *why)
{
    object->end = end;
    set_state(object, state, why);
    if (state == OBJECT_STOPPING)
        object_note(object, "container.stopping", why, NULL);
    hold(object);
    endings_begin(object);
}

void object_stop(struct object *object, enum life_end end, const char *why)
{
    if (!runs(object))
        return;
    if (object->state == OBJECT_STARTING)
        fail_waiting(object, CODE_CONTAINER_UNAVAILABLE, "stopped while it started", NULL);
    begin_end(object, OBJECT_STOPPING, end, why);
    if (object->container)
        container_stop(object->container, object->objects->config.stop_grace_ms);
    else
        container_gone(object, why);
}

void object_destroy(struct object *object, const char *why)
{
    bool running = object_has_container(object) || object->state == OBJECT_STARTING;
    if (running && object->state == OBJECT_DESTROYED)
        return; /* it is under way */
    if (object->state == OBJECT_STARTING)
        fail_waiting(object, CODE_CONTAINER_UNAVAILABLE, "destroyed while it started", NULL);
    if (!running) {
        set_state(object, OBJECT_DESTROYED, why);
        object_note(object, "container.destroyed", why, NULL);
        return;
    }
    begin_end(object, OBJECT_DESTROYED, LIFE_DESTROYED, why);
    if (object->gone_early)
        return;
    if (!object->container) {
        container_gone(object, why);
        return;
    }
    container_interrupt_reason(object->container, "sandbox_lifetime_changed");
    container_kill(object->container);
}

bool object_replace(struct object *object, const char *why)
{
    if (!runs(object) || !object->container)
        return false;
    begin_end(object, OBJECT_STOPPING, LIFE_REPLACED, why);
    container_kill(object->container);
    return true;
}

bool object_crash(struct object *object, int exit_code, const char *why)
{
    if (!runs(object) || !object->container)
        return false;
    object->crash_code = exit_code;
    begin_end(object, OBJECT_STOPPING, LIFE_CRASHED, why);
    container_kill(object->container);
    return true;
}

bool object_has_container(const struct object *object)
{
    return object->container || object->gone_early;
}

int object_when_gone(struct object *object, void (*gone)(void *arg), void *arg)
{
    if (!object_has_container(object)) {
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
