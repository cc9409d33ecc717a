/* Options of getSandbox and the setters that change them later. What is set is stored before it
 * counts and survives sleep, destroy and restarts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "objects/hints.h"
#include "objects/internal.h"

/* "30s", "10m", "2h" or a number of seconds, as in the original; -EINVAL otherwise. */
static int64_t parse_sleep_after(const json_t *value)
{
    const int64_t most = (int64_t)366 * 24 * 3600 * 1000;
    if (json_is_number(value)) {
        double seconds = json_number_value(value);
        return seconds >= 0 && seconds * 1000 <= (double)most ? (int64_t)(seconds * 1000) : -EINVAL;
    }
    const char *text = json_string_value(value);
    size_t digits = text ? strspn(text, "0123456789") : 0;
    if (digits == 0 || digits > 9)
        return -EINVAL;
    int64_t number = strtoll(text, NULL, 10);
    int64_t unit = 0;
    if (strcmp(text + digits, "s") == 0)
        unit = 1000;
    else if (strcmp(text + digits, "m") == 0)
        unit = 60000;
    else if (strcmp(text + digits, "h") == 0)
        unit = 3600000;
    return unit && number * unit <= most ? number * unit : -EINVAL;
}

int object_set_sleep_after(struct object *object, const json_t *value, struct error *err)
{
    int64_t ms = parse_sleep_after(value);
    if (ms < 0) {
        CLEANUP_FREE char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        return error_set(err, EINVAL,
                         "invalid time expression %s (\"30s\", \"10m\", \"2h\" or seconds)",
                         shown ? shown : "");
    }
    object_load(object);
    if (ms == object->sleep_after_ms)
        return 0;
    CLEANUP_JSON json_t *stored = json_integer(ms);
    int result = store_put(object->objects->store, object->row, "sleepAfterMs", stored, err);
    if (result < 0)
        return result;
    object->sleep_after_ms = ms;
    object_renew(object, "setSleepAfter");
    return 0;
}

int object_set_keep_alive(struct object *object, bool on, struct error *err)
{
    object_load(object);
    if (on == object->keep_alive)
        return 0;
    int result = store_put(object->objects->store, object->row, "keepAliveEnabled",
                           on ? json_true() : json_false(), err);
    if (result < 0)
        return result;
    object->keep_alive = on;
    idle_arm(object);
    object_note(object, on ? "keepAlive.on" : "keepAlive.off", NULL, NULL);
    hints_keep_alive(object, on);
    if (!on)
        object_renew(object, "setKeepAlive");
    return 0;
}

int object_configure(struct object *object, const struct object_options *options, struct error *err)
{
    int placed = platform_asked_from(object, options->colo, err);
    if (placed < 0)
        return placed;
    if (options->sleep_after) {
        /* A query knows no numbers: there, digits alone are seconds. */
        const char *text = options->sleep_after;
        size_t digits = strspn(text, "0123456789");
        bool number = digits > 0 && digits <= 9 && !text[digits];
        CLEANUP_JSON json_t *value =
            number ? json_integer(strtoll(text, NULL, 10)) : json_string(text);
        int result = object_set_sleep_after(object, value, err);
        if (result < 0)
            return result;
    }
    return options->keep_alive >= 0 ? object_set_keep_alive(object, options->keep_alive, err) : 0;
}
