/* exec. With `stream` it is the container's stream of events put together again, as the SDK does
 * for callbacks: output keeps its last newline, and what the command changes in its shell is not
 * kept. With `onOutput` the events themselves are the answer, and one more that has the result. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "objects/internal.h"
#include "objects/sse.h"

enum {
    OUTPUT_MAX = 64 << 20, /* each of the two, as without a stream */
    STREAM_LIMIT = 256 * 1024,
    FRAME_MAX = 1 << 30,
};

struct exec_relay {
    struct call call;
    struct call *outer; /* NULL once answered */
    struct object *object;
    json_t *args, *timestamp;
    int64_t started_ns;
    struct stream *from;
    struct sse sse;
    struct buf output[2];
    struct stream *to; /* with `onOutput` */
    struct task task;
    bool paused; /* the taker is behind */
    bool writing, left;
};

static void relay_free(struct exec_relay *relay)
{
    loop_cancel(relay->object->objects->loop, &relay->task);
    json_decref(relay->args);
    json_decref(relay->timestamp);
    sse_free(&relay->sse);
    buf_free(&relay->output[0]);
    buf_free(&relay->output[1]);
    struct stream *from = relay->from, *to = relay->to;
    bool left = relay->left;
    free(relay);
    if (from)
        stream_abort(from); /* the object may go with it */
    if (to && left)
        stream_fail(to);
    else if (to)
        stream_end(to);
}

/* The end. */

static json_t *output_of(struct buf *output)
{
    return json_stringn_nocheck(buf_text(output), output->size);
}

/* The keys in the order of exec without a stream. */
static json_t *result_of(struct exec_relay *relay, const json_t *event)
{
    json_int_t exit_code = json_integer_value(json_object_get(event, "exitCode"));
    json_int_t passed_ms = (loop_now_ns() - relay->started_ns) / 1000000;
    return json_pack("{s:b,s:I,s:o,s:o,s:O?,s:I,s:O,s:O*}", "success", exit_code == 0, "exitCode",
                     exit_code, "stdout", output_of(&relay->output[0]), "stderr",
                     output_of(&relay->output[1]), "command",
                     json_object_get(relay->args, "command"), "duration", passed_ms, "timestamp",
                     relay->timestamp, "sessionId", json_object_get(relay->args, "sessionId"));
}

/* Takes the event. */
static void write_event(struct exec_relay *relay, json_t *event)
{
    CLEANUP_BUF struct buf frame = BUF_INIT(FRAME_MAX);
    buf_adds(&frame, "data: ");
    if (event && json_write(&frame, event, NULL, NULL) == 0 && buf_adds(&frame, "\n\n") == 0)
        stream_write(relay->to, frame.data, frame.size);
    json_decref(event);
}

static void fail(struct exec_relay *relay, enum code code, json_t *context, const char *text)
{
    if (relay->to) {
        json_decref(context);
        relay->writing = true;
        write_event(relay, json_pack("{s:s,s:s}", "type", "error", "error", text));
        relay_free(relay);
        return;
    }
    struct call *outer = relay->outer;
    relay_free(relay);
    call_error(outer, code, NULL, context, "%s", text);
}

/* The container went away. Who reads the events was told by the container's own. */
static void lost(struct exec_relay *relay)
{
    if (relay->to)
        relay_free(relay);
    else
        fail(relay, CODE_OPERATION_INTERRUPTED,
             json_pack("{s:s,s:s,s:b}", "reason", "runtime_replaced", "operation", "executeStream",
                       "retryable", 0),
             "The container went away before the command was over");
}

static void succeed(struct exec_relay *relay, const json_t *event)
{
    if (relay->output[0].error || relay->output[1].error) {
        fail(relay, CODE_COMMAND_EXECUTION_ERROR, NULL, "The output is larger than 64 MiB");
        return;
    }
    json_t *result = result_of(relay, event);
    if (relay->to) {
        const char *session = json_string_value(json_object_get(result, "sessionId"));
        if (session && strcmp(session, "__DISABLE_SESSION__") == 0)
            json_object_del(result, "sessionId");
        relay->writing = true;
        write_event(relay, json_pack("{s:s,s:o}", "type", "result", "result", result));
        relay_free(relay);
        return;
    }
    struct call *outer = relay->outer;
    relay_free(relay);
    call_result(outer, result);
}

/* The events. */

/* True when this was the last one, and the relay is gone. */
static bool take_event(struct exec_relay *relay, const json_t *event)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    const json_t *data = json_object_get(event, "data");
    if (!type)
        return false;
    if (strcmp(type, "complete") == 0) {
        succeed(relay, event);
        return true;
    }
    if (strcmp(type, "error") == 0) {
        lost(relay);
        return true;
    }
    if (json_is_string(data) && (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0))
        buf_add(&relay->output[strcmp(type, "stderr") == 0], json_string_value(data),
                json_string_length(data));
    return false;
}

static bool take_events(struct exec_relay *relay)
{
    for (;;) {
        CLEANUP_JSON json_t *event = sse_next(&relay->sse);
        if (relay->sse.lost) {
            fail(relay, CODE_INTERNAL_ERROR, NULL, "out of memory");
            return true;
        }
        if (!event)
            return false;
        if (take_event(relay, event))
            return true;
    }
}

/* Hands on the bytes that were added behind the first `before`. */
static void pass_on(struct exec_relay *relay, size_t before)
{
    const struct buf *text = &relay->sse.text;
    if (!relay->to || text->size == before)
        return;
    /* The taker may have taken all of it before the write returns. */
    relay->writing = relay->paused = true;
    int result = stream_write(relay->to, text->data + before, text->size - before);
    relay->writing = false;
    if (result != 1)
        relay->paused = false;
    if (result < 0)
        relay->left = true; /* events are missing, so the rest is of no use */
}

static void turn(void *arg)
{
    struct exec_relay *relay = arg;
    if (relay->paused)
        return;
    size_t before = relay->sse.text.size - relay->sse.at;
    int more = sse_fill(&relay->sse, relay->from);
    pass_on(relay, before);
    if (relay->left) {
        relay_free(relay);
        return;
    }
    if (take_events(relay))
        return;
    if (more == 1)
        loop_defer(relay->object->objects->loop, &relay->task);
    else if (more == -EPIPE)
        lost(relay);
    else if (more < 0)
        fail(relay, CODE_COMMAND_EXECUTION_ERROR, NULL, "An event of the output is too large");
}

static void wake(void *arg)
{
    struct exec_relay *relay = arg;
    loop_defer(relay->object->objects->loop, &relay->task);
}

static void resumed(void *arg)
{
    struct exec_relay *relay = arg;
    relay->paused = false;
    wake(relay);
}

/* The command goes on. */
static void aborted(void *arg)
{
    struct exec_relay *relay = arg;
    relay->left = true;
    if (!relay->writing)
        relay_free(relay);
}

static void opened(struct call *call, struct answer *answer)
{
    struct exec_relay *relay = call->arg;
    struct call *outer = relay->outer;
    if (answer->code != CODE_OK) {
        relay_free(relay);
        outer->done(outer, answer);
        return;
    }
    relay->from = steal_pointer(&answer->stream);
    stream_set_sink(relay->from, (struct stream_sink){.readable = wake, .arg = relay});
    wake(relay);
    if (!json_is_true(json_object_get(relay->args, "onOutput")))
        return;
    relay->to = stream_new(
        STREAM_LIMIT, (struct stream_source){.resume = resumed, .aborted = aborted, .arg = relay});
    if (!relay->to) {
        fail(relay, CODE_INTERNAL_ERROR, NULL, "out of memory");
        return;
    }
    struct answer events = {.code = CODE_OK, .stream = relay->to};
    call_finish(outer, &events);
}

void exec_run(struct object *object, struct call *call)
{
    bool events = json_is_true(json_object_get(call->args, "onOutput"));
    if (!events && !json_is_true(json_object_get(call->args, "stream"))) {
        object_call(object, container_op("execute"), call);
        return;
    }
    struct exec_relay *relay = calloc(1, sizeof *relay);
    if (!relay) {
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "out of memory");
        return;
    }
    relay->outer = call;
    relay->object = object;
    relay->args = json_incref((json_t *)call->args);
    relay->timestamp = clock_timestamp(object->objects->clock);
    relay->started_ns = loop_now_ns();
    relay->sse = SSE_INIT;
    relay->output[0] = relay->output[1] = BUF_INIT(OUTPUT_MAX);
    relay->task = (struct task){.run = turn, .arg = relay};
    relay->call = (struct call){.args = relay->args, .done = opened, .arg = relay};
    object_call(object, container_op("executeStream"), &relay->call);
}
