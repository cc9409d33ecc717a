/* What happens to calls on their way to the container: a long way, and faults. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/errnos.h"
#include "objects/internal.h"

enum { OOM_EXIT_CODE = 137 };

/* Calls that wait for the clock. */

static void late_fire(void *arg)
{
    struct pending *pending = arg;
    struct pending **at = &pending->object->platform.delayed;
    while (*at != pending)
        at = &(*at)->next;
    *at = pending->next;
    calls_resume(pending);
}

/* False when it cannot wait. */
static bool hold_up(struct pending *pending, int64_t ms, const char *kind)
{
    struct object *object = pending->object;
    struct clock *clock = object->objects->clock;
    pending->late = (struct virtual_timer){
        .fire = late_fire, .arg = pending, .kind = kind, .sandbox = object->id};
    if (ms <= 0 || clock_arm(clock, &pending->late, clock_now_ms(clock) + ms) < 0)
        return false;
    pending->next = object->platform.delayed;
    object->platform.delayed = pending;
    return true;
}

bool platform_is_far(struct pending *pending)
{
    const struct objects *objects = pending->object->objects;
    if (!objects->config.platform.geo_latency || clock_frozen(objects->clock))
        return false;
    return hold_up(pending, pending->distance_ms, "distance");
}

/* What ends the container under a call. */

static void strike_run(void *arg)
{
    struct object *object = arg;
    struct fault_shot shot = object->platform.shot;
    char why[96];
    if (object->lives != object->platform.strike_life || object->end != LIFE_RUNS)
        return; /* another one runs, or this one ends already */
    if (shot.what == FAULT_REPLACE) {
        object_replace(object, "replaced by the platform, as a fault wanted it");
    } else if (shot.what == FAULT_CRASH) {
        snprintf(why, sizeof why, "crashed with exit code %d, as a fault wanted it",
                 shot.exit_code);
        object_crash(object, shot.exit_code, why);
    } else {
        object->kills++;
        object_note(object, "container.oom", "a fault wanted it",
                    json_pack("{s:i, s:I}", "kills", (int)object->kills, "memoryMiB",
                              (json_int_t)(object->class->limits.memory_bytes >> 20)));
        object_crash(object, OOM_EXIT_CODE, "ran out of memory, as a fault wanted it");
    }
}

/* In the loop's next turn the container has the call. */
static void order_strike(struct object *object, const struct fault_shot *shot)
{
    struct platform *platform = &object->platform;
    struct clock *clock = object->objects->clock;
    platform->shot = *shot;
    platform->strike_life = object->lives;
    if (shot->ms > 0)
        clock_arm(clock, &platform->strike_later, clock_now_ms(clock) + shot->ms);
    else if (!platform->strike.queued)
        loop_defer(object->objects->loop, &platform->strike);
}

/* What is answered in the container's place. */

/* As write.c says it. */
static void disk_full(struct pending *pending)
{
    const char *operation = "file.write";
    const char *path = json_string_value(json_object_get(pending->inner.args, "path"));
    CLEANUP_FREE char *why = NULL;
    if (!path)
        path = "";
    if (asprintf(&why, "%s: %s, write '%s'", errno_name(ENOSPC), errno_text(ENOSPC), path) < 0)
        why = NULL;
    const char *text = why ? why : errno_name(ENOSPC);
    call_error(&pending->inner, errno_code(ENOSPC), operation,
               json_pack("{s:s, s:s, s:s}", "path", path, "operation", operation, "stderr", text),
               "Failed to write file '%s': %s", path, text);
}

static void port_refused(struct pending *pending)
{
    int port = (int)json_integer_value(json_object_get(pending->inner.args, "port"));
    call_error(&pending->inner, CODE_SERVICE_NOT_RESPONDING, NULL,
               json_pack("{s:i, s:s}", "port", port, "error", strerror(ECONNREFUSED)),
               "Connection refused: the container is not listening on port %d", port);
}

bool platform_strikes(struct pending *pending)
{
    struct object *object = pending->object;
    struct fault_shot shot = {0};
    if (pending->struck || !object->objects->faults.first)
        return false;
    pending->struck = true;
    enum fault_on on = fault_kind(pending->op);
    if (on == FAULT_ONS || !fault_draw(object, on, &shot))
        return false;
    switch (shot.what) {
    case FAULT_DELAY:
        return hold_up(pending, shot.ms, "delay");
    case FAULT_ENOSPC:
        disk_full(pending);
        return true;
    case FAULT_REFUSE:
        port_refused(pending);
        return true;
    case FAULT_CRASH:
    case FAULT_OOM:
    case FAULT_REPLACE:
        order_strike(object, &shot);
        break;
    case FAULT_NONE:
    case FAULT_NO_INSTANCE:
    case FAULT_MAX_INSTANCES:
    case FAULT_DOES:
        break;
    }
    return false;
}

void platform_end(struct object *object)
{
    struct platform *platform = &object->platform;
    struct clock *clock = object->objects->clock;
    if (!object->env)
        return; /* never used: nothing is set up */
    clock_disarm(clock, &platform->retry);
    clock_disarm(clock, &platform->strike_later);
    loop_cancel(object->objects->loop, &platform->strike);
    while (platform->delayed) {
        struct pending *pending = platform->delayed;
        clock_disarm(clock, &pending->late);
        late_fire(pending);
    }
    if (!object->container)
        calls_go_on(object);
}

void strikes_init(struct object *object)
{
    object->platform.strike = (struct task){.run = strike_run, .arg = object};
    object->platform.strike_later = (struct virtual_timer){
        .fire = strike_run, .arg = object, .kind = "fault", .sandbox = object->id};
}
