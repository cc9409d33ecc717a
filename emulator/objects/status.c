/* getState: the state of a container in the words of the SDK. */
#include "objects/internal.h"

/* The original tells the exit code until its next alarm. How long that is was not measured; a
 * second of the clock is our choice, long enough to be seen. */
enum { ALARM_MS = 1000 };

static const char *const names[] = {
    [STATUS_STOPPED] = "stopped",
    [STATUS_RUNNING] = "running",
    [STATUS_HEALTHY] = "healthy",
    [STATUS_STOPPED_WITH_CODE] = "stopped_with_code",
};

void status_set(struct object *object, enum status status)
{
    object->status = status;
    object->status_ms = clock_now_ms(object->objects->clock);
}

json_t *status_describe(const struct object *object)
{
    enum status status = object->status;
    int64_t since = object->status_ms ? object->status_ms : object->since_ms;
    if (status == STATUS_STOPPED_WITH_CODE &&
        clock_now_ms(object->objects->clock) >= since + ALARM_MS) {
        status = STATUS_STOPPED;
        since += ALARM_MS;
    }
    json_t *described =
        json_pack("{s:s, s:I}", "status", names[status], "lastChange", (json_int_t)since);
    if (described && status == STATUS_STOPPED_WITH_CODE)
        json_object_set_new(described, "exitCode", json_integer(object->exit_code));
    return described;
}
