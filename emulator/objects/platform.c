/* What the platform keeps of an object: its place, labels, timeouts and placement id. */
#include "objects/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "objects/internal.h"

enum { LABELS_MAX = 64, LABEL_BYTES_MAX = 1024 };

/* Timeouts. */

const struct container_timeouts platform_timeouts_default = {30000, 90000, 300};

static const struct timeout_row {
    const char *name, *variable;
    long least, most;
    size_t offset;
} timeout_rows[] = {
    {"instanceGetTimeoutMS", "SANDBOX_INSTANCE_TIMEOUT_MS", 5000, 300000,
     offsetof(struct container_timeouts, instance_get)},
    {"portReadyTimeoutMS", "SANDBOX_PORT_TIMEOUT_MS", 10000, 600000,
     offsetof(struct container_timeouts, port_ready)},
    {"waitIntervalMS", "SANDBOX_POLL_INTERVAL_MS", 100, 5000,
     offsetof(struct container_timeouts, wait_interval)},
};
enum { TIMEOUT_ROWS = sizeof timeout_rows / sizeof *timeout_rows };

static long *timeout_at(struct container_timeouts *timeouts, const struct timeout_row *row)
{
    return (long *)((char *)timeouts + row->offset);
}

void platform_timeouts_from(struct container_timeouts *timeouts,
                            const char *(*get)(void *arg, const char *name), void *arg)
{
    for (size_t i = 0; i < TIMEOUT_ROWS; i++) {
        const struct timeout_row *row = &timeout_rows[i];
        const char *text = get(arg, row->variable);
        long *to = timeout_at(timeouts, row);
        char *end = NULL;
        long number = text ? strtol(text, &end, 10) : 0;
        if (!text)
            continue;
        if (end == text)
            log_warn("%s: \"%.40s\" is not a number; %s stays %ldms", row->variable, text,
                     row->name, *to);
        else if (number < row->least || number > row->most)
            log_warn("%s: %ldms is not within %ld-%ldms; %s stays %ldms", row->variable, number,
                     row->least, row->most, row->name, *to);
        else
            *to = number;
    }
}

static int take_timeout(struct container_timeouts *timeouts, const struct timeout_row *row,
                        const json_t *value, struct error *err)
{
    if (!json_is_number(value)) {
        CLEANUP_FREE char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        return error_set(err, EINVAL, "%s must be a valid finite number, got %.40s", row->name,
                         shown ? shown : "");
    }
    double number = json_number_value(value);
    if (!(number >= (double)row->least && number <= (double)row->most))
        return error_set(err, EINVAL, "%s must be between %ld-%ldms, got %.15gms", row->name,
                         row->least, row->most, number);
    *timeout_at(timeouts, row) = (long)number;
    return 0;
}

static int take_timeouts(struct container_timeouts *timeouts, const json_t *from, struct error *err)
{
    if (!json_is_object(from))
        return error_set(err, EINVAL, "containerTimeouts must be an object");
    for (size_t i = 0; i < TIMEOUT_ROWS; i++) {
        const json_t *value = json_object_get(from, timeout_rows[i].name);
        if (value && take_timeout(timeouts, &timeout_rows[i], value, err) < 0)
            return -EINVAL;
    }
    return 0;
}

static json_t *describe_timeouts(const struct container_timeouts *timeouts)
{
    json_t *described = json_object();
    for (size_t i = 0; i < TIMEOUT_ROWS; i++)
        json_object_set_new(
            described, timeout_rows[i].name,
            json_integer(*timeout_at((struct container_timeouts *)timeouts, &timeout_rows[i])));
    return described;
}

int platform_set_timeouts(struct object *object, const json_t *timeouts, struct error *err)
{
    struct platform *platform = &object->platform;
    object_load(object);
    struct container_timeouts wanted = platform->timeouts;
    int result = take_timeouts(&wanted, timeouts, err);
    if (result < 0 ||
        (platform->timeouts_stored && memcmp(&wanted, &platform->timeouts, sizeof wanted) == 0))
        return result;
    CLEANUP_JSON json_t *stored = describe_timeouts(&wanted);
    result = store_put(object->objects->store, object->row, "containerTimeouts", stored, err);
    if (result < 0)
        return result;
    platform->timeouts = wanted;
    platform->timeouts_stored = true;
    return 0;
}

/* Labels. */

static int check_labels(const json_t *labels, struct error *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(labels) || json_object_size(labels) > LABELS_MAX)
        return error_set(err, EINVAL, "labels must be an object of at most %d strings", LABELS_MAX);
    json_object_foreach((json_t *)labels, name, value)
    {
        if (!json_is_string(value) || strlen(name) > LABEL_BYTES_MAX ||
            json_string_length(value) > LABEL_BYTES_MAX)
            return error_set(err, EINVAL, "label '%.40s' must be a string of at most %d bytes",
                             name, LABEL_BYTES_MAX);
    }
    return 0;
}

int platform_set_labels(struct object *object, const json_t *labels, struct error *err)
{
    struct platform *platform = &object->platform;
    int result = check_labels(labels, err);
    if (result < 0)
        return result;
    object_load(object);
    if (json_equal(platform->labels, labels) ||
        (!platform->labels && json_object_size(labels) == 0))
        return 0;
    json_t *copy = json_deep_copy(labels);
    result = copy ? store_put(object->objects->store, object->row, "labels", copy, err)
                  : error_errno(err, ENOMEM, "labels");
    if (result < 0) {
        json_decref(copy);
        return result;
    }
    json_decref(platform->labels);
    platform->labels = copy;
    bool later = object_has_container(object);
    object_note(object, "labels.set", later ? "they count from the next start on" : NULL,
                json_pack("{s:O}", "labels", copy));
    if (later)
        log_warn("sandbox %s: its container runs; the new labels count from its next start on",
                 object->id);
    return 0;
}

/* The placement id. */

void platform_handshake(struct object *object)
{
    struct platform *platform = &object->platform;
    json_t *seen = json_is_string(platform->placement_now) ? json_incref(platform->placement_now)
                                                           : json_null();
    struct error err = {0};
    if (platform->placement_id && json_equal(platform->placement_id, seen)) {
        json_decref(seen);
        return;
    }
    if (store_put(object->objects->store, object->row, "containerPlacementId", seen, &err) < 0)
        log_debug("sandbox %s: its placement id is not stored: %s", object->id, err.text);
    json_decref(platform->placement_id);
    platform->placement_id = seen;
}

/* The place. */

static int pin(struct object *object, const struct colo *colo, struct error *err)
{
    CLEANUP_JSON json_t *name = json_string(colo->name);
    int result = store_put(object->objects->store, object->row, "location", name, err);
    if (result < 0)
        return result;
    object->platform.colo = colo;
    object_note(object, "location.pinned", "its first request came from there",
                json_pack("{s:s, s:s, s:s}", "colo", colo->name, "region",
                          region_name(colo->region), "city", colo->city));
    return 0;
}

static void tell_far(struct object *object, const struct colo *from, int ms)
{
    const struct colo *at = object->platform.colo;
    char text[256];
    if (object->platform.far_told)
        return;
    object->platform.far_told = true;
    snprintf(text, sizeof text,
             "a request came from %s (%s), but it stays in %s (%s), where its first one came from: "
             "about %d ms there and back; ids that name the region, such as user-1-%s, avoid that",
             from->name, from->city, at->name, at->city, ms, region_name(from->region));
    object_note(object, "hint.location", text,
                json_pack("{s:s, s:s, s:i}", "from", from->name, "colo", at->name, "ms", ms));
    log_warn("sandbox %s: %s", object->id, text);
}

int platform_asked_from(struct object *object, const char *colo, struct error *err)
{
    const struct colo *from = colo ? colo_find(colo, err) : object->objects->config.platform.colo;
    object->platform.distance_ms = 0;
    if (!from)
        return colo ? -EINVAL : 0;
    object_load(object);
    if (!object->platform.colo)
        return pin(object, from, err);
    int ms = colo_distance_ms(from, object->platform.colo);
    if (from->region != object->platform.colo->region)
        tell_far(object, from, ms);
    object->platform.distance_ms = ms;
    return 0;
}

/* Loading, showing. */

static bool read_stored(struct object *object)
{
    struct store *store = object->objects->store;
    struct platform *platform = &object->platform;
    struct error err = {0};
    CLEANUP_JSON json_t *labels = store_get(store, object->row, "labels", &err);
    CLEANUP_JSON json_t *timeouts =
        err.code ? NULL : store_get(store, object->row, "containerTimeouts", &err);
    CLEANUP_JSON json_t *place = err.code ? NULL : store_get(store, object->row, "location", &err);
    CLEANUP_JSON json_t *id =
        err.code ? NULL : store_get(store, object->row, "containerPlacementId", &err);
    if (err.code)
        return false;
    json_decref(platform->labels);
    json_decref(platform->placement_id);
    platform->labels = steal_pointer(&labels);
    platform->placement_id = steal_pointer(&id);
    if (timeouts && take_timeouts(&platform->timeouts, timeouts, &err) == 0)
        platform->timeouts_stored = true;
    if (json_is_string(place))
        platform->colo = colo_find(json_string_value(place), &err);
    return true;
}

bool platform_load(struct object *object)
{
    if (!object->env) { /* the first time */
        object->platform.timeouts = object->objects->config.platform.timeouts;
        if (object->platform.timeouts.port_ready == 0)
            object->platform.timeouts = platform_timeouts_default;
        admission_init(object);
        strikes_init(object);
    }
    return read_stored(object);
}

void platform_free(struct object *object)
{
    struct platform *platform = &object->platform;
    struct clock *clock = object->objects->clock;
    struct virtual_timer *timers[] = {&platform->ready, &platform->overdue, &platform->retry,
                                      &platform->strike_later};
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++)
        clock_disarm(clock, timers[i]);
    loop_cancel(object->objects->loop, &platform->strike);
    json_decref(platform->labels);
    json_decref(platform->labels_now);
    json_decref(platform->placement_id);
    json_decref(platform->placement_now);
}

void platform_describe(const struct object *object, json_t *described)
{
    const struct platform *platform = &object->platform;
    const struct colo *colo = platform->colo;
    json_object_set_new(described, "location",
                        colo ? json_pack("{s:s, s:s, s:s}", "colo", colo->name, "region",
                                         region_name(colo->region), "city", colo->city)
                             : json_null());
    json_object_set_new(described, "labels",
                        platform->labels ? json_incref(platform->labels) : json_object());
    json_object_set_new(described, "containerTimeouts", describe_timeouts(&platform->timeouts));
}
