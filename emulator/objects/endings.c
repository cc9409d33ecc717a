/* Ends that begin during one advance of the clock overlap, but are told in the order in which they
 * began, whichever tree is gone first: the same calls give the same events. Nothing is held up by
 * it, because an advance, and every call behind it, waits for the last of them anyway. */
#include <stdlib.h>
#include <string.h>

#include "objects/internal.h"

void endings_begin(struct object *object)
{
    struct objects *objects = object->objects;
    if (object->ending || objects->closing || !clock_advancing(objects->clock))
        return;
    object->ending = true;
    object->next_ending = NULL;
    struct object **last = &objects->endings;
    if (objects->endings)
        last = &objects->last_ending->next_ending;
    *last = object;
    objects->last_ending = object;
}

/* The first whose container is gone; without `any` only the first of all. */
static struct object *take(struct objects *objects, bool any)
{
    struct object *previous = NULL, *object = objects->endings;
    while (object && !object->gone_early && any) {
        previous = object;
        object = object->next_ending;
    }
    if (!object || !object->gone_early)
        return NULL;
    *(previous ? &previous->next_ending : &objects->endings) = object->next_ending;
    if (objects->last_ending == object)
        objects->last_ending = previous;
    object->ending = object->gone_early = false;
    return object;
}

static void tell(struct objects *objects, bool any)
{
    for (struct object *object; (object = take(objects, any));) {
        char *why = object->gone_why;
        object->gone_why = NULL;
        object_ended(object, why ? why : "gone");
        free(why);
    }
}

/* The advance has ended without waiting for all. */
static void tell_all(void *arg)
{
    tell(arg, true);
}

bool endings_defer(struct object *object, const char *why)
{
    struct objects *objects = object->objects;
    if (!object->ending)
        return false;
    object->gone_early = true;
    object->gone_why = strdup(why);
    if (!objects->endings_task.queued) {
        objects->endings_task = (struct task){.run = tell_all, .arg = objects};
        clock_when_settled(objects->clock, &objects->endings_task);
    }
    tell(objects, objects->closing);
    return true;
}
