#include "objects/report.h"

#include "objects/hints.h"
#include "objects/internal.h"

static struct usage *usage_of(const struct object *object)
{
    const struct objects *objects = object->objects;
    return class_usage(objects, object->class);
}

void report_begin(struct object *object)
{
    object->active = true;
    object->active_from_ms = clock_now_ms(object->objects->clock);
    usage_of(object)->containers++;
}

static int64_t active_now(const struct object *object)
{
    return object->active ? clock_now_ms(object->objects->clock) - object->active_from_ms : 0;
}

void report_end(struct object *object)
{
    usage_of(object)->active_ms += active_now(object);
    object->active = false;
}

/* It had a container in this process, and nobody has destroyed it since. */
static bool is_leak(const struct object *object)
{
    return object->lives > 0 && object->state != OBJECT_DESTROYED;
}

static json_t *describe_leak(struct object *object)
{
    char since[25];
    clock_format(object->since_ms, since);
    json_t *left = object->container ? container_leftovers(object->container)
                                     : json_pack("{s:[], s:[]}", "processes", "ports");
    json_t *leak =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:b}", "id", object->id, "class", object->class->name,
                  "state", object_state_name(object->state), "since", since, "why",
                  hints_text(object->why), "keepAlive", object->keep_alive);
    ports_numbers(object, json_object_get(left, "ports"));
    json_object_update_missing(leak, left);
    json_decref(left);
    return leak;
}

/* The lists of one leak, counted. */
static size_t count_of(const json_t *leak, const char *list)
{
    return json_array_size(json_object_get(leak, list));
}

static json_t *describe_class(const struct object_class *class, const struct usage *usage,
                              struct cost *total)
{
    struct cost cost = prices_cost(&class->billed, usage->active_ms);
    prices_add(total, &cost);
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:i, s:I, s:o}", "class", class->name,
                     "instanceType", class->billed_as, "vcpus", class->billed.vcpus, "memoryGiB",
                     class->billed.memory_gib, "diskGB", class->billed.disk_gb, "containers",
                     (int)usage->containers, "activeMs", (json_int_t)usage->active_ms, "costUsd",
                     prices_cost_json(&cost));
}

static json_t *describe_usage(const struct objects *objects)
{
    struct cost total = {0};
    json_t *classes = json_array();
    unsigned containers = 0;
    int64_t active_ms = 0;
    for (size_t i = 0; i < objects->config.class_count; i++) {
        const struct object_class *class = &objects->config.classes[i];
        struct usage usage = *class_usage(objects, class);
        for (const struct object *object = objects->first; object; object = object->next)
            usage.active_ms += class_is(object, class) ? active_now(object) : 0;
        containers += usage.containers;
        active_ms += usage.active_ms;
        json_array_append_new(classes, describe_class(class, &usage, &total));
    }
    return json_pack("{s:i, s:I, s:o, s:o}", "containers", (int)containers, "activeMs",
                     (json_int_t)active_ms, "costUsd", prices_cost_json(&total), "classes",
                     classes);
}

json_t *objects_report(struct objects *objects)
{
    json_t *leaks = json_array();
    size_t processes = 0, ports = 0, sandboxes = 0;
    for (struct object *object = objects->first; object; object = object->next) {
        sandboxes += object->lives > 0;
        if (!is_leak(object))
            continue;
        json_t *leak = describe_leak(object);
        processes += count_of(leak, "processes");
        ports += count_of(leak, "ports");
        json_array_append_new(leaks, leak);
    }
    return json_pack("{s:o, s:b, s:i, s:i, s:i, s:o, s:o, s:o}", "now",
                     clock_timestamp(objects->clock), "clean", json_array_size(leaks) == 0,
                     "sandboxes", (int)sandboxes, "processes", (int)processes, "ports", (int)ports,
                     "leaks", leaks, "usage", describe_usage(objects), "prices", prices_describe());
}
