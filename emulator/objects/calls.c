/* Calls on their way through an object: they wait for a container, a session or the network, run in
 * the container, and count as in flight until they are answered and their stream is closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects/internal.h"

#define DISABLE_SESSION "__DISABLE_SESSION__"

static void pending_go(struct pending *pending);

static void list_add(struct pending_list *list, struct pending *pending)
{
    pending->next = NULL;
    *list->last = pending;
    list->last = &pending->next;
}

static struct pending *take_all(struct pending_list *list)
{
    struct pending *first = list->first;
    list->first = NULL;
    list->last = &list->first;
    return first;
}

void calls_go_on(struct object *object)
{
    struct pending *pending = take_all(&object->waiting);
    while (pending) {
        struct pending *next = pending->next;
        pending_go(pending);
        pending = next;
    }
}

void calls_fail(struct object *object, enum code code, json_t *context, const char *message,
                const char *hint)
{
    struct pending *pending = take_all(&object->waiting);
    while (pending) {
        struct pending *next = pending->next;
        struct answer answer = {
            .code = code,
            .body = json_deep_copy(context),
            .message = strdup(message),
            .hint = hint ? strdup(hint) : NULL,
        };
        call_finish(&pending->inner, &answer);
        pending = next;
    }
    json_decref(context);
}

void calls_answer(struct object *object, const struct answer *like)
{
    struct pending *pending = take_all(&object->waiting);
    while (pending) {
        struct pending *next = pending->next;
        struct answer answer = {
            .code = like->code,
            .body = json_deep_copy(like->body),
            .message = strdup(like->message),
            .hint = like->hint ? strdup(like->hint) : NULL,
            .status = like->status,
            .retry_after = like->retry_after,
        };
        call_finish(&pending->inner, &answer);
        pending = next;
    }
}

/* The end of a call. */

void object_finish_inflight(struct object *object)
{
    object->inflight--;
    if (object->inflight > 0)
        return;
    if (object->orphan)
        object_free(object);
    else
        object_renew(object, object->last_what);
}

static void stream_closed(void *arg)
{
    object_finish_inflight(arg);
}

static const char *session_of(const json_t *args)
{
    const char *session = json_string_value(json_object_get(args, "sessionId"));
    return session ? session : "";
}

/* The first call may have needed no session; the next one finds it all the same. */
static void follow_with_session(struct object *object, const struct call *call)
{
    if (object->state == OBJECT_HEALTHY && object->session == SESSION_NONE &&
        strcmp(session_of(call->args), object->session_id) == 0)
        object_create_session(object);
}

/* The container answered: hand the answer up. A stream counts as in flight until it is closed. */
static void pending_done(struct call *inner, struct answer *answer)
{
    struct pending *pending = inner->arg;
    struct object *object = pending->object;
    struct call *outer = pending->outer;
    follow_with_session(object, inner);
    egress_explain(object, answer);
    life_answered(pending, answer);
    bool streams = answer->code == CODE_OK && answer->stream;
    if (streams)
        stream_on_closed(answer->stream, stream_closed, object);
    outer->upload = inner->upload;
    json_decref(pending->own_args);
    free(pending);
    outer->done(outer, answer);
    if (!streams)
        object_finish_inflight(object); /* last, since the object may go with it */
}

/* The way of a call. */

/* Calls without a session get the object's variables with each command. */
static void merge_env(struct pending *pending)
{
    static const char *const commands[] = {"execute", "executeStream", "processStart"};
    size_t i = 0;
    while (i < sizeof commands / sizeof *commands && strcmp(commands[i], pending->op->name) != 0)
        i++;
    if (json_object_size(pending->object->env) == 0 || i == sizeof commands / sizeof *commands)
        return;
    json_t *args = json_copy((json_t *)pending->inner.args);
    object_add_env(pending->object, args);
    pending->own_args = args;
    pending->inner.args = args;
}

static void wait_for_container(struct pending *pending)
{
    struct object *object = pending->object;
    if (object->objects->closing) {
        call_error(&pending->inner, CODE_CONTAINER_UNAVAILABLE, NULL, NULL,
                   "the sandbox was removed while this waited for it");
        return;
    }
    if (pending->op == &container_connect_running) {
        call_error(&pending->inner, CODE_CONTAINER_UNAVAILABLE, NULL, NULL,
                   "the container does not run");
        return;
    }
    list_add(&object->waiting, pending);
    if (!object_has_container(object) && object->state != OBJECT_STARTING)
        object_start(object);
}

/* Whether it waits for the default session, which is made once for each container. */
static bool waits_for_session(struct pending *pending)
{
    struct object *object = pending->object;
    if (object->session == SESSION_READY ||
        strcmp(session_of(pending->inner.args), object->session_id) != 0 ||
        container_needs_no_session(pending->op, pending->inner.args))
        return false;
    if (object->session == SESSION_NONE)
        object_create_session(object);
    return object->session != SESSION_READY;
}

/* A connection from outside to a port that the image does not expose. */
static bool is_unexposed(struct pending *pending)
{
    const json_t *args = pending->inner.args;
    if ((pending->op != &container_connect && pending->op != &container_connect_running) ||
        json_is_true(json_object_get(args, "inside")))
        return false;
    int port = (int)json_integer_value(json_object_get(args, "port"));
    return expose_refuses(pending->object, port, "a request", &pending->inner);
}

/* Where a call stands decides what happens next; every change of state comes back here. */
static void pending_go(struct pending *pending)
{
    struct object *object = pending->object;
    if (object->state != OBJECT_HEALTHY) {
        wait_for_container(pending);
        return;
    }
    if (waits_for_session(pending) || egress_awaited(object, pending->op)) {
        list_add(&object->waiting, pending); /* a few milliseconds; 200 at most */
        return;
    }
    if (platform_strikes(pending) || is_unexposed(pending))
        return;
    if (strcmp(session_of(pending->inner.args), DISABLE_SESSION) == 0)
        merge_env(pending);
    life_call(pending);
    container_call(object->container, pending->op, &pending->inner);
}

void calls_resume(struct pending *pending)
{
    pending_go(pending);
}

static void pending_begin(void *arg)
{
    struct pending *pending = arg;
    struct object *object = pending->object;
    object->inflight++;
    object_renew(object, pending->op->name);
    if (!platform_is_far(pending))
        pending_go(pending);
}

void object_call(struct object *object, const struct op *op, struct call *call)
{
    struct objects *objects = object->objects;
    object_load(object);
    struct pending *pending = calloc(1, sizeof *pending);
    if (!pending || objects->closing) {
        free(pending);
        call_error(call, CODE_CONTAINER_UNAVAILABLE, NULL, NULL,
                   "the sandbox goes away: a reset is under way, or the emulator ends");
        return;
    }
    pending->object = object;
    pending->op = op;
    pending->outer = call;
    pending->inner = *call;
    pending->inner.done = pending_done;
    pending->inner.arg = pending;
    pending->task = (struct task){.run = pending_begin, .arg = pending};
    pending->distance_ms = object->platform.distance_ms;
    object->platform.distance_ms = 0;
    if (clock_advancing(objects->clock))
        clock_when_settled(objects->clock, &pending->task);
    else
        pending_begin(pending);
}

const char *object_default_session(struct object *object, int per_call)
{
    bool on = per_call >= 0 ? per_call : object->objects->config.default_session;
    return on ? object->session_id : DISABLE_SESSION;
}
