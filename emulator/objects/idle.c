/* When an object sleeps. Its idle time begins anew at a start, at the beginning of each call, when
 * the last one in flight ends, with each message of a WebSocket, and when its options are set.
 * While something is in flight, or with keepAlive, no timer runs at all. */
#include <stdio.h>

#include "base/log.h"
#include "objects/internal.h"

static void describe_span(int64_t ms, char *to, size_t size)
{
    if (ms % 3600000 == 0 && ms)
        snprintf(to, size, "%lldh", (long long)(ms / 3600000));
    else if (ms % 60000 == 0 && ms)
        snprintf(to, size, "%lldm", (long long)(ms / 60000));
    else if (ms % 1000 == 0)
        snprintf(to, size, "%llds", (long long)(ms / 1000));
    else
        snprintf(to, size, "%lldms", (long long)ms);
}

void idle_arm(struct object *object)
{
    struct clock *clock = object->objects->clock;
    if (object->state != OBJECT_HEALTHY || object->inflight > 0 || object->keep_alive)
        clock_disarm(clock, &object->idle);
    else if (clock_arm(clock, &object->idle, object->last_ms + object->sleep_after_ms) < 0)
        log_error("sandbox %s: out of memory: it does not sleep until it is used again",
                  object->id);
}

void object_renew(struct object *object, const char *what)
{
    object->last_ms = clock_now_ms(object->objects->clock);
    object->last_what = what;
    idle_arm(object);
}

static void idle_fire(void *arg)
{
    struct object *object = arg;
    char span[32], why[160];
    describe_span(object->sleep_after_ms, span, sizeof span);
    snprintf(why, sizeof why, "slept: idle for %s after %s", span, object->last_what);
    object_stop(object, LIFE_SLEPT, why);
}

void idle_init(struct object *object)
{
    object->idle = (struct virtual_timer){
        .fire = idle_fire, .arg = object, .kind = "sleep", .sandbox = object->id};
}
