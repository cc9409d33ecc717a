#include "worker/process_shapes.h"

#include <string.h>

#include "base/cleanup.h"

/* The session that the call ran in; the token for "none" is an internal of the SDK. */
static json_t *session_of(const json_t *args)
{
    json_t *session = json_object_get(args, "sessionId");
    const char *text = json_string_value(session);
    return text && strcmp(text, "__DISABLE_SESSION__") != 0 ? session : NULL;
}

/* The SDK takes its own clock for the start; ours is the same one. */
json_t *shape_process_started(json_t *result, const json_t *args, int64_t duration_ms)
{
    CLEANUP_JSON json_t *started = result;
    return json_pack("{s:O*,s:O*,s:O*,s:s,s:O*,s:O*}", "id", json_object_get(started, "processId"),
                     "pid", json_object_get(started, "pid"), "command",
                     json_object_get(started, "command"), "status", "running", "startTime",
                     json_object_get(started, "timestamp"), "sessionId", session_of(args));
}

/* Its members are those of the container, in the same order. */
static json_t *with_session(json_t *process, const json_t *args)
{
    json_t *session = session_of(args);
    if (session)
        json_object_set(process, "sessionId", session);
    return process;
}

/* null stands for a process that there is not. */
json_t *shape_process(json_t *result, const json_t *args, int64_t duration_ms)
{
    CLEANUP_JSON json_t *found = result;
    json_t *process = json_object_get(found, "process");
    return process ? with_session(json_incref(process), args) : json_null();
}

json_t *shape_process_list(json_t *result, const json_t *args, int64_t duration_ms)
{
    CLEANUP_JSON json_t *found = result;
    json_t *list = json_incref(json_object_get(found, "processes"));
    size_t i;
    json_t *process;
    json_array_foreach(list, i, process) with_session(process, args);
    return list;
}

json_t *shape_process_logs(json_t *result, const json_t *args, int64_t duration_ms)
{
    CLEANUP_JSON json_t *logs = result;
    return json_pack("{s:O*,s:O*,s:O*}", "stdout", json_object_get(logs, "stdout"), "stderr",
                     json_object_get(logs, "stderr"), "processId",
                     json_object_get(logs, "processId"));
}

json_t *shape_killed_count(json_t *result, const json_t *args, int64_t duration_ms)
{
    CLEANUP_JSON json_t *killed = result;
    return json_incref(json_object_get(killed, "cleanedCount"));
}

/* The original has nothing to clean up either. */
json_t *shape_cleaned_count(json_t *result, const json_t *args, int64_t duration_ms)
{
    json_decref(result);
    return json_integer(0);
}
