#include "worker/worker_call.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/loop.h"
#include "worker/bucket_call.h"
#include "worker/container_fetch.h"
#include "worker/parts.h"

/* Room for 64 MiB of output with every byte escaped as \u00XX, and more than that in practice. */
#define REPLY_MAX ((size_t)512 << 20)

static void worker_call_free(struct worker_call *call)
{
    json_decref(call->args);
    buf_free(&call->raw);
    free(call);
}

static void client_gone(void *arg)
{
    struct worker_call *call = arg;
    call->request = NULL;
    if (call->call.left)
        call->call.left(&call->call);
}

static int write_content(void *arg, struct buf *to)
{
    const struct answer *answer = arg;
    if (answer->content_form == CONTENT_BASE64)
        return base64_encode(to, answer->content.data, answer->content.size);
    return jsonstr_escape(to, answer->content.data, answer->content.size);
}

/* A method without a result answers null, as JSON has no undefined. */
static int write_result(struct answer *answer, struct buf *to)
{
    if (!answer->body)
        return buf_adds(to, "null");
    if (answer->content_form == CONTENT_FILES)
        return json_write_member(to, answer->body, "files", &answer->content);
    bool has_content = answer->content_form != CONTENT_NONE;
    return json_write(to, answer->body, has_content ? write_content : NULL, answer);
}

static void reply_result(struct worker_call *call, struct answer *answer)
{
    CLEANUP_BUF struct buf text = BUF_INIT(REPLY_MAX);
    int result = write_result(answer, &text);
    if (result < 0) {
        problem_reply(call->request, 500, "INTERNAL_ERROR", NULL, NULL,
                      "The result is too large to answer");
        return;
    }
    size_t size = text.size;
    http_reply_bytes(call->request, answer->status ? answer->status : 200, "application/json",
                     buf_steal(&text), size);
}

/* The bytes of a file. They are a sandbox's, so a browser must not take them for a page of this
 * origin. */
static void reply_raw(struct worker_call *call, struct answer *answer)
{
    const json_t *size = json_object_get(answer->body, "size");
    const char *type = json_string_value(json_object_get(answer->body, "mimeType"));
    struct stream *stream = steal_pointer(&answer->stream);
    http_set_header(call->request, "Content-Security-Policy", "sandbox");
    if (json_is_integer(size))
        http_reply_sized(call->request, 200, type, stream, (uint64_t)json_integer_value(size));
    else
        http_reply_stream(call->request, 200, type, stream);
}

static void reply_answer(struct worker_call *call, struct answer *answer)
{
    if (answer->code != CODE_OK) {
        problem_answer(call->request, call->face, call->clock, answer);
    } else if (answer->stream && answer->raw) {
        reply_raw(call, answer);
    } else if (answer->stream) {
        http_reply_stream(call->request, 200, "text/event-stream", steal_pointer(&answer->stream));
    } else {
        int64_t passed_ms = (loop_now_ns() - call->started_ns) / 1000000;
        if (call->shape)
            answer->body = call->shape(answer->body, call->args, passed_ms);
        /* The container's own face keeps to the original's fields. */
        if (answer->hint && call->face != FACE_CONTAINER && json_is_object(answer->body))
            json_object_set_new(answer->body, "hint", json_text(answer->hint));
        reply_result(call, answer);
    }
}

static void done(struct call *inner, struct answer *answer)
{
    struct worker_call *call = inner->arg;
    if (call->request)
        reply_answer(call, answer);
    struct stream *upload = steal_pointer(&inner->upload);
    if (upload)
        stream_abort(upload);
    worker_call_free(call);
}

struct worker_call *worker_call_new(struct http_request *request, const struct clock *clock,
                                    enum face face, json_t *args, struct body *body)
{
    struct worker_call *call = calloc(1, sizeof *call);
    if (!call) {
        json_decref(args);
        problem_reply(request, 500, "INTERNAL_ERROR", NULL, NULL, "Out of memory");
        return NULL;
    }
    call->request = request;
    call->clock = clock;
    call->face = face;
    call->args = args;
    if (body->content) {
        call->raw = body->raw;
        body->raw = BUF_INIT(0);
    }
    call->call = (struct call){.args = args,
                               .content = body->content,
                               .content_size = body->content_size,
                               .done = done,
                               .arg = call};
    call->call.upload = http_take_stream(request);
    call->started_ns = loop_now_ns();
    http_on_gone(request, client_gone, call);
    return call;
}

void worker_call_op(struct worker_call *call, struct object *object, const struct op *op)
{
    object_call(object, op, &call->call);
}

void worker_call_method(struct worker_call *call, struct object *object,
                        const struct object_method *method)
{
    object_method_call(object, method, &call->call);
}

static bool is_blank(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return *text == '\0';
}

/* Settles which session an SDK call runs in; false after an error was answered. A blank id is
 * refused as the SDK does, with an Error that has no code. */
static bool choose_session(struct worker_call *call, const struct method_row *row,
                           const struct target *target, struct object *object)
{
    json_t *args = call->args;
    int per_call = target->default_session;
    const json_t *wanted = json_object_get(args, "enableDefaultSession");
    if (json_is_boolean(wanted))
        per_call = json_is_true(wanted);
    json_object_del(args, "enableDefaultSession");
    const char *session = json_string_value(json_object_get(args, "sessionId"));
    const char *chosen = NULL;
    if (!session && target->session)
        chosen = target->session;
    else if (!session && row->in_session)
        chosen = object_default_session(object, per_call);
    if (session && is_blank(session)) {
        call_error(&call->call, CODE_PLAIN_ERROR, NULL, NULL,
                   "sessionId must not be empty or whitespace");
        return false;
    }
    /* Without it the call would run somewhere else. */
    if (chosen && json_object_set_new(args, "sessionId", json_text(chosen)) < 0) {
        call_error(&call->call, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return false;
    }
    return true;
}

static bool takes_session(const struct method_row *row)
{
    for (size_t i = 0; i < PARAMS_MAX && row->params[i].name; i++) {
        if (row->params[i].type == ARG_SESSION)
            return true;
    }
    return row->in_session;
}

void worker_call_row(struct http_request *request, const struct worker_config *config,
                     enum face face, const struct method_row *row, const struct target *target,
                     json_t *args, struct body *body, shape_function *shape)
{
    struct object *object = NULL;
    if (row->kind == METHOD_BUCKET && http_whole(request)) {
        bucket_call(request, config, row, args, body);
        return;
    }
    if (http_whole(request))
        object = target_object(target, request, config->objects);
    else /* an option may be missing among the arguments */
        problem_reply(request, 500, "INTERNAL_ERROR", NULL, NULL, "Out of memory");
    if (!object) {
        json_decref(args);
        return;
    }
    struct worker_call *call = worker_call_new(request, config->clock, face, args, body);
    if (!call)
        return;
    call->shape = shape ? shape : row->shape;
    if (row->wants_host && !json_object_get(args, "hostname") && http_host(request))
        json_object_set_new(args, "hostname", json_text(http_host(request)));
    if (takes_session(row) && !choose_session(call, row, target, object))
        return;
    switch (row->kind) {
    case METHOD_OP:
        worker_call_op(call, object, worker_op(row->target));
        return;
    case METHOD_OBJECT:
        worker_call_method(call, object, object_method(row->target));
        return;
    case METHOD_FETCH:
        container_fetch(config->loop, object, &call->call);
        return;
    case METHOD_BUCKET:
    case METHOD_LOCAL:
        call_result(&call->call, json_null());
        return;
    }
}
