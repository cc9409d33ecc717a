/* Whether the platform has room for a container, how long it takes to start one, and how often the
 * SDK tries again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "objects/internal.h"

/* The SDK's tries after a 503: waits of 3, 6, 12, 24, 30, 30… seconds, and none that would leave
 * less than 15 s of the budget. */
enum {
    FIRST_RETRY_MS = 3000,
    LONGEST_RETRY_MS = 30000,
    DOUBLINGS = 4,
    LEAST_BUDGET_MS = 120000,
    MARGIN_MS = 30000,
    LAST_TRY_MS = 15000,
};
enum { OOM_EXIT_CODE = 137, CANDIDATES = 3, RETRY_TRANSIENT_S = 3, RETRY_UNAVAILABLE_S = 10 };

static int64_t now_of(const struct object *object)
{
    return clock_now_ms(object->objects->clock);
}

/* The SDK's tries. */

static bool try_later(struct object *object)
{
    struct platform *platform = &object->platform;
    int64_t now = now_of(object);
    if (platform->retry.slot)
        return true;
    if (platform->tries == 0)
        platform->since_ms = now;
    int64_t budget = platform->timeouts.instance_get + platform->timeouts.port_ready + MARGIN_MS;
    if (budget < LEAST_BUDGET_MS)
        budget = LEAST_BUDGET_MS;
    int64_t available = budget - (now - platform->since_ms) - LAST_TRY_MS;
    int doublings = platform->tries < DOUBLINGS ? platform->tries : DOUBLINGS;
    int64_t wait = (int64_t)FIRST_RETRY_MS << doublings;
    if (wait > LONGEST_RETRY_MS)
        wait = LONGEST_RETRY_MS;
    if (wait > available)
        wait = available;
    if (wait <= 0 || clock_arm(object->objects->clock, &platform->retry, now + wait) < 0) {
        platform->tries = 0;
        return false;
    }
    platform->tries++;
    object_note(object, "sdk.retry", NULL,
                json_pack("{s:i, s:I}", "attempt", platform->tries, "delayMs", (json_int_t)wait));
    return true;
}

static void retry_fire(void *arg)
{
    struct object *object = arg;
    if (!object->waiting.first)
        object->platform.tries = 0;
    else if (!object_has_container(object) && object->state != OBJECT_STARTING)
        object_start(object);
}

void admission_fail(struct object *object, const struct answer *like)
{
    int status = like->status ? like->status : code_row(like->code)->status;
    if (status == 503 && object->objects->config.platform.sdk_retries && try_later(object))
        return;
    calls_answer(object, like);
}

/* No room. */

static void refuse(struct object *object, const char *reason, const char *original,
                   const char *message, const char *hint, json_t *data)
{
    json_object_set_new(data, "reason", json_string(reason));
    object_note(object, "container.refused", message, data);
    struct answer like = {
        .code = CODE_CONTAINER_UNAVAILABLE,
        .body = json_pack("{s:s, s:b, s:s}", "reason", reason, "retryable", 1, "originalMessage",
                          original),
        .message = (char *)message,
        .hint = (char *)hint,
        .retry_after = RETRY_UNAVAILABLE_S,
    };
    admission_fail(object, &like);
    json_decref(like.body);
}

static void refuse_no_instance(struct object *object)
{
    const char *text = "There is no container instance that can be provided to this Durable Object";
    refuse(object, "no_container_instance_available", text, text, NULL, json_object());
}

#define TOO_MANY "Maximum number of running container instances exceeded"

/* The idle ones of the class, the one that was used least recently first. */
static size_t find_idle(const struct object *object, const struct object *idle[CANDIDATES])
{
    size_t count = 0;
    for (struct object *other = object->objects->first; other; other = other->next) {
        if (!class_is(other, object->class) || other->state != OBJECT_HEALTHY || other->inflight)
            continue;
        size_t at = count;
        while (at > 0 && idle[at - 1]->last_ms > other->last_ms)
            at--;
        if (at == CANDIDATES)
            continue;
        if (count < CANDIDATES)
            count++;
        memmove(idle + at + 1, idle + at, (count - at - 1) * sizeof *idle);
        idle[at] = other;
    }
    return count;
}

static char *advise(const struct object *object)
{
    const struct object *idle[CANDIDATES];
    size_t count = find_idle(object, idle);
    CLEANUP_BUF struct buf text = BUF_INIT(1024);
    for (size_t i = 0; i < count; i++)
        buf_addf(&text, "%s%s (%llds)", i ? ", " : "Idle and could be stopped: ", idle[i]->id,
                 (long long)((now_of(object) - idle[i]->last_ms) / 1000));
    if (count)
        buf_addf(&text, ". `sandpit stop %s` makes room, as destroy() or sleep does", idle[0]->id);
    else
        buf_adds(&text, "All of them are in use");
    buf_addf(&text, "; max_instances of %s is set in the Wrangler configuration",
             object->class->name);
    return buf_steal(&text);
}

static int count_running(const struct object *object)
{
    int count = 0;
    for (struct object *other = object->objects->first; other; other = other->next)
        count += class_is(other, object->class) && object_has_container(other);
    return count;
}

static void refuse_too_many(struct object *object, int running)
{
    int most = object->class->max_instances;
    char message[256];
    if (most)
        snprintf(message, sizeof message, TOO_MANY ": %d of class %s run, and max_instances is %d",
                 running, object->class->name, most);
    else
        snprintf(message, sizeof message, TOO_MANY ": %d of class %s run", running,
                 object->class->name);
    CLEANUP_FREE char *hint = advise(object);
    refuse(object, "max_container_instances_exceeded", TOO_MANY, message, hint,
           json_pack("{s:i, s:i}", "running", running, "maxInstances", most));
}

bool platform_refuses(struct object *object)
{
    struct platform *platform = &object->platform;
    if (platform->retry.slot)
        return true; /* who waits is tried together */
    struct fault_shot shot = {0};
    fault_draw(object, FAULT_START, &shot);
    platform->start = shot;
    int most = object->class->max_instances;
    int running = most || shot.what == FAULT_MAX_INSTANCES ? count_running(object) : 0;
    if (shot.what == FAULT_NO_INSTANCE)
        refuse_no_instance(object);
    else if (shot.what == FAULT_MAX_INSTANCES || (most && running >= most))
        refuse_too_many(object, running);
    else
        return false;
    return true;
}

/* The start itself. */

/* 503 for what may pass, 500 for what will not, as the original sorts the platform's messages. */
static void fail_start(struct object *object, bool passes, const char *error)
{
    struct answer like = {
        .code = CODE_INTERNAL_ERROR,
        .body = json_pack("{s:s, s:s}", "phase", "startup", "error", error),
        .message = passes ? "Container not ready: it is starting, try again in a moment"
                          : "Container failed to start, and trying again will not help",
        .hint = (char *)error,
        .status = passes ? 503 : 500,
        .retry_after = passes ? RETRY_TRANSIENT_S : 0,
    };
    admission_fail(object, &like);
    json_decref(like.body);
}

/* What a fault does to a container that has started; true when it does not become healthy. */
static bool spoil(struct object *object)
{
    struct fault_shot shot = object->platform.start;
    char text[128];
    object->platform.start.what = FAULT_NONE;
    switch (shot.what) {
    case FAULT_CRASH:
        snprintf(text, sizeof text, "Container exited with unexpected exit code: %d",
                 shot.exit_code);
        fail_start(object, true, text);
        object_crash(object, shot.exit_code, text);
        return true;
    case FAULT_OOM:
        fail_start(object, false, "The container ran out of memory");
        object_crash(object, OOM_EXIT_CODE, "The container ran out of memory");
        return true;
    case FAULT_REFUSE:
        fail_start(object, true,
                   "Connection refused: container port not found. Port 3000 did not answer");
        return false;
    case FAULT_NONE:
    case FAULT_NO_INSTANCE:
    case FAULT_MAX_INSTANCES:
    case FAULT_REPLACE:
    case FAULT_DELAY:
    case FAULT_ENOSPC:
    case FAULT_DOES:
        break;
    }
    return false;
}

static void ready_fire(void *arg)
{
    struct object *object = arg;
    clock_disarm(object->objects->clock, &object->platform.overdue);
    if (object->state == OBJECT_STARTING && !spoil(object))
        object_ready(object);
}

/* The SDK does not wait for the port for ever, but the container goes on. */
static void overdue_fire(void *arg)
{
    struct object *object = arg;
    struct platform *platform = &object->platform;
    char text[128];
    if (object->state != OBJECT_STARTING)
        return;
    snprintf(text, sizeof text,
             "Container startup timeout: port 3000 was not ready within %ld ms (timed out)",
             platform->timeouts.port_ready);
    fail_start(object, true, text);
    clock_arm(object->objects->clock, &platform->overdue,
              now_of(object) + platform->timeouts.port_ready);
}

/* A clock that stands still would never let it become healthy. */
static int64_t cold_start_ms(struct object *object)
{
    int64_t ms = object->objects->config.platform.cold_start_ms;
    bool skipped = clock_frozen(object->objects->clock);
    if (ms == 0)
        return 0;
    if (skipped)
        log_about(LOG_INFO, object->id, "the cold start of %lld ms is skipped: the clock is frozen",
                  (long long)ms);
    object_note(object, "container.coldStart", skipped ? "skipped: the clock is frozen" : NULL,
                json_pack("{s:I, s:b}", "ms", (json_int_t)ms, "skipped", skipped));
    return skipped ? 0 : ms;
}

bool platform_delays(struct object *object)
{
    struct platform *platform = &object->platform;
    struct clock *clock = object->objects->clock;
    int64_t due = platform->started_ms + cold_start_ms(object) + platform->start.ms;
    if (due <= now_of(object) || clock_arm(clock, &platform->ready, due) < 0)
        return spoil(object);
    int64_t overdue = platform->started_ms + platform->timeouts.port_ready;
    if (overdue < due)
        clock_arm(clock, &platform->overdue, overdue);
    return true;
}

void platform_starting(struct object *object, json_t *data)
{
    struct platform *platform = &object->platform;
    platform->started_ms = now_of(object);
    json_decref(platform->labels_now);
    platform->labels_now = json_incref(platform->labels);
    json_decref(platform->placement_now);
    platform->placement_now = json_incref(json_object_get(object->env, "CLOUDFLARE_PLACEMENT_ID"));
    if (platform->labels_now)
        json_object_set(data, "labels", platform->labels_now);
    if (platform->colo)
        json_object_set_new(data, "location", json_string(platform->colo->name));
}

void platform_healthy(struct object *object)
{
    const struct object_class *class = object->class;
    clock_disarm(object->objects->clock, &object->platform.retry);
    object->platform.tries = 0;
    if (!*class->sdk_mismatch)
        return;
    char text[160];
    snprintf(text, sizeof text, "the SDK is %s, the image %s", class->sdk_mismatch, class->version);
    object_note(object, "version.mismatch", text,
                json_pack("{s:s, s:s}", "sdkVersion", class->sdk_mismatch, "containerVersion",
                          class->version));
}

void platform_gone(struct object *object)
{
    struct platform *platform = &object->platform;
    clock_disarm(object->objects->clock, &platform->ready);
    clock_disarm(object->objects->clock, &platform->overdue);
    clock_disarm(object->objects->clock, &platform->strike_later);
    json_decref(platform->labels_now);
    platform->labels_now = NULL;
}

void admission_init(struct object *object)
{
    static const struct {
        size_t offset;
        void (*fire)(void *arg);
        const char *kind;
    } rows[] = {
        {offsetof(struct platform, ready), ready_fire, "ready"},
        {offsetof(struct platform, overdue), overdue_fire, "port-timeout"},
        {offsetof(struct platform, retry), retry_fire, "sdk-retry"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct virtual_timer *timer = (void *)((char *)&object->platform + rows[i].offset);
        *timer = (struct virtual_timer){
            .fire = rows[i].fire, .arg = object, .kind = rows[i].kind, .sandbox = object->id};
    }
}
