/* One object: what it keeps while its containers come and go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "objects/internal.h"

void object_note(struct object *object, const char *type, const char *reason, json_t *data)
{
    events_add(object->objects->events, object->id, *object->runtime ? object->runtime : NULL, type,
               reason, data);
    console_tell(object, type, reason);
}

/* The default session is made once for each container, with the object's variables. */

static void session_created(struct call *call, struct answer *answer)
{
    struct object *object = call->arg;
    json_decref((json_t *)call->args);
    free(call);
    if (object->session != SESSION_CREATING)
        return; /* the container went away: its calls were answered */
    object->session = SESSION_READY;
    platform_handshake(object);
    calls_go_on(object);
}

void object_create_session(struct object *object)
{
    struct call *call = calloc(1, sizeof *call);
    json_t *args = json_pack("{s:s, s:s, s:O}", "id", object->session_id, "cwd", "/workspace",
                             "env", object->env);
    if (!call || !args) {
        free(call);
        json_decref(args);
        object->session = SESSION_READY; /* the container makes sessions it does not know */
        return;
    }
    object->session = SESSION_CREATING;
    *call = (struct call){.args = args, .done = session_created, .arg = object};
    container_call(object->container, container_op("sessionCreate"), call);
}

void object_add_env(const struct object *object, json_t *args)
{
    json_t *given = json_object_get(args, "env");
    if (given && !json_is_object(given))
        return; /* the container says what is wrong with it */
    json_t *env = json_copy(object->env);
    if (given)
        json_object_update(env, given);
    json_object_set_new(args, "env", env);
}

/* Loading. */

/* True when what is stored was read; a failure is not taken for "nothing is stored". */
static bool read_options(struct object *object)
{
    struct store *store = object->objects->store;
    struct error err = {0};
    CLEANUP_JSON json_t *keep = store_get(store, object->row, "keepAliveEnabled", &err);
    CLEANUP_JSON json_t *sleep =
        err.code ? NULL : store_get(store, object->row, "sleepAfterMs", &err);
    if (err.code) {
        log_error("sandbox %s: its options could not be read: %s", object->id, err.text);
        return false;
    }
    object->keep_alive = json_is_true(keep);
    if (json_is_integer(sleep))
        object->sleep_after_ms = json_integer_value(sleep);
    return true;
}

void object_load(struct object *object)
{
    if (object->loaded)
        return;
    bool placed = platform_load(object);
    bool ports = ports_load(object);
    object->loaded = read_options(object) && placed && ports; /* else the next call tries again */
    if (object->env)
        return;
    object->waiting.last = &object->waiting.first;
    idle_init(object);
    object->env = json_object();
}

void object_free(struct object *object)
{
    clock_disarm(object->objects->clock, &object->idle);
    json_decref(object->env);
    json_decref(object->contexts);
    lives_free(object);
    ports_free(object);
    platform_free(object);
    free(object->session_id);
    free(object->gone_why);
    free(object->id);
    free(object);
}
