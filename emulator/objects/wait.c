#include "objects/wait.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* After the timeout: more than the longest log takes, so that all of it is looked at, and not for
 * ever, since a process may print faster than anybody reads. */
enum { LAST_LOOK_MS = 2000 };

static struct loop *loop_of(const struct waiter *waiter)
{
    return waiter->object->objects->loop;
}

static void waiter_free(struct waiter *waiter)
{
    if (waiter->kind->release)
        waiter->kind->release(waiter);
    json_decref(waiter->args);
    json_decref(waiter->process);
    json_decref(waiter->command);
    json_decref(waiter->timeout);
    free(waiter->condition);
    sse_free(&waiter->sse);
    free(waiter);
}

/* Ends the waiting and gives the call that is to be answered. The object may go with the stream, so
 * it is not looked at afterwards. */
static struct call *let_go(struct waiter *waiter)
{
    struct call *outer = steal_pointer(&waiter->outer);
    struct stream *stream = steal_pointer(&waiter->stream);
    outer->left = NULL;
    loop_disarm(loop_of(waiter), &waiter->timer);
    loop_cancel(loop_of(waiter), &waiter->task);
    if (!waiter->asked)
        waiter_free(waiter);
    if (stream)
        stream_abort(stream);
    return outer;
}

enum wait_next waiter_result(struct waiter *waiter, json_t *result)
{
    call_result(let_go(waiter), result);
    return WAIT_OVER;
}

static enum wait_next fail(struct waiter *waiter, enum code code, json_t *context, const char *hint,
                           const char *format, va_list args)
{
    struct answer answer = {.code = code, .body = context, .hint = hint ? strdup(hint) : NULL};
    if (vasprintf(&answer.message, format, args) < 0)
        answer.message = NULL;
    call_finish(let_go(waiter), &answer);
    return WAIT_OVER;
}

enum wait_next waiter_error(struct waiter *waiter, enum code code, json_t *context,
                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(waiter, code, context, NULL, format, args);
    va_end(args);
    return WAIT_OVER;
}

/* In vain: with the SDK's context, {processId, command, condition} and one more. */
static enum wait_next in_vain(struct waiter *waiter, enum code code, const char *key, json_t *value,
                              const char *format, ...) __attribute__((format(printf, 5, 6)));
static enum wait_next in_vain(struct waiter *waiter, enum code code, const char *key, json_t *value,
                              const char *format, ...)
{
    json_t *context = json_pack("{s:O?,s:O?,s:s,s:o}", "processId", waiter->process, "command",
                                waiter->command, "condition", waiter->condition, key, value);
    const char *hint = waiter->kind->hint ? waiter->kind->hint(waiter) : NULL;
    va_list args;
    va_start(args, format);
    fail(waiter, code, context, hint, format, args);
    va_end(args);
    return WAIT_OVER;
}

enum wait_next waiter_exited(struct waiter *waiter, const json_t *exit_code)
{
    int code = json_is_integer(exit_code) ? (int)json_integer_value(exit_code) : 1;
    return in_vain(waiter, CODE_PROCESS_EXITED_BEFORE_READY, "exitCode", json_integer(code),
                   "Process exited with code %d before it became ready; waited for: %s", code,
                   waiter->condition);
}

static enum wait_next timed_out(struct waiter *waiter)
{
    return in_vain(waiter, CODE_PROCESS_READY_TIMEOUT, "timeout", json_incref(waiter->timeout),
                   "Process did not become ready within %.0fms; waited for: %s",
                   json_number_value(waiter->timeout), waiter->condition);
}

/* The client closed its connection: the container is not kept awake for it. */
static void client_left(struct call *outer)
{
    waiter_error(outer->left_arg, CODE_OPERATION_INTERRUPTED, NULL, "The client left");
}

void *waiter_new(const struct wait_kind *kind, struct object *object, struct call *call,
                 char *condition)
{
    struct waiter *waiter = condition ? calloc(1, kind->size) : NULL;
    if (!waiter) {
        free(condition);
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "out of memory");
        return NULL;
    }
    waiter->kind = kind;
    waiter->object = object;
    waiter->outer = call;
    waiter->condition = condition;
    waiter->sse = SSE_INIT;
    waiter->process = json_incref(json_object_get(call->args, "processId"));
    waiter->timeout = json_incref(json_object_get(call->args, "timeout"));
    call->left = client_left;
    call->left_arg = waiter;
    return waiter;
}

void waiter_call(struct waiter *waiter, const char *op, json_t *args,
                 void (*done)(struct call *call, struct answer *answer))
{
    json_decref(waiter->args);
    waiter->args = args;
    waiter->call = (struct call){.args = args, .done = done, .arg = waiter};
    waiter->asked = true;
    object_call(waiter->object, container_op(op), &waiter->call);
}

struct waiter *waiter_answered(struct call *call, struct answer *answer)
{
    struct waiter *waiter = call->arg;
    waiter->asked = false;
    if (!waiter->outer) {
        waiter_free(waiter);
        return NULL;
    }
    if (answer->code == CODE_OK)
        return waiter;
    if (answer->code == CODE_PROCESS_NOT_FOUND) {
        /* The text that the public suite's Worker answers. */
        free(answer->message);
        answer->message = strdup("Process not found");
    }
    struct call *outer = let_go(waiter);
    outer->done(outer, answer);
    return NULL;
}

/* Reading. */

static enum wait_next take_events(struct waiter *waiter)
{
    for (;;) {
        CLEANUP_JSON json_t *event = sse_next(&waiter->sse);
        if (waiter->sse.lost)
            return waiter_error(waiter, CODE_INTERNAL_ERROR, NULL, "out of memory");
        if (!event)
            return WAIT_ON;
        const char *type = json_string_value(json_object_get(event, "type"));
        waiter->began = true;
        if (type && waiter->kind->event(waiter, type, event) == WAIT_OVER)
            return WAIT_OVER;
    }
}

static enum wait_next look(struct waiter *waiter)
{
    return waiter->kind->look ? waiter->kind->look(waiter) : WAIT_ON;
}

/* What the container has not said by the end of its stream it never will. */
static void ended(struct waiter *waiter, int error)
{
    if (error == -EPIPE)
        waiter_error(waiter, CODE_OPERATION_INTERRUPTED,
                     json_pack("{s:s,s:s,s:b}", "reason", "runtime_replaced", "operation",
                               waiter->kind->op, "retryable", 0),
                     "The container went away; waited for: %s", waiter->condition);
    else
        waiter_error(waiter, CODE_INTERNAL_ERROR, NULL, "An event is too large");
}

static void turn(void *arg)
{
    struct waiter *waiter = arg;
    int more = 1;
    enum wait_next next = look(waiter);
    if (next == WAIT_ON) {
        more = sse_fill(&waiter->sse, waiter->stream);
        next = take_events(waiter);
        if (next == WAIT_ON)
            next = look(waiter);
    }
    if (next == WAIT_OVER)
        return;
    bool late = waiter->expired && waiter->began &&
                loop_now_ns() - waiter->expired_ns > MS_NS(LAST_LOOK_MS);
    if (next == WAIT_AGAIN || (more == 1 && !late))
        loop_defer(loop_of(waiter), &waiter->task);
    else if (more < 0)
        ended(waiter, more);
    else if (late || (waiter->expired && waiter->began))
        timed_out(waiter);
}

static void readable(void *arg)
{
    struct waiter *waiter = arg;
    loop_defer(loop_of(waiter), &waiter->task);
}

static void expire(void *arg)
{
    struct waiter *waiter = arg;
    waiter->expired = true;
    waiter->expired_ns = loop_now_ns();
    loop_defer(loop_of(waiter), &waiter->task);
}

static void opened(struct call *call, struct answer *answer)
{
    struct waiter *waiter = waiter_answered(call, answer);
    if (!waiter)
        return;
    struct loop *loop = loop_of(waiter);
    waiter->stream = steal_pointer(&answer->stream);
    waiter->task = (struct task){.run = turn, .arg = waiter};
    waiter->timer = (struct timer){.fire = expire, .arg = waiter};
    stream_set_sink(waiter->stream, (struct stream_sink){.readable = readable, .arg = waiter});
    loop_defer(loop, &waiter->task);
    const double year_ms = 365 * 24 * 3600e3;
    double ms = json_is_number(waiter->timeout) ? json_number_value(waiter->timeout) : year_ms;
    if (ms < year_ms && loop_arm(loop, &waiter->timer, ms > 0 ? (int64_t)(ms * 1e6) : 0) < 0)
        waiter_error(waiter, CODE_INTERNAL_ERROR, NULL, "out of memory");
}

void waiter_read(struct waiter *waiter, json_t *args)
{
    waiter_call(waiter, waiter->kind->op, args, opened);
}
