#include "worker/problem.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"

enum { RETRY_AFTER_S = 10 }; /* with a 503 that does not say */

/* What helps beyond the SDK's own suggestion, mostly because this is an emulator. */
static const struct {
    enum code code;
    const char *hint;
} hints[] = {
    {CODE_FILE_TOO_LARGE, "Read files over 32 MiB with readFileStream, or with the encoding `none`"},
    {CODE_IS_DIRECTORY, "Delete a directory with exec and rm -r"},
    {CODE_OPERATION_INTERRUPTED, "GET /cdn-cgi/local/events says what happened to the container"},
    {CODE_INTERNAL_ERROR, "The emulator's log may say more"},
};

static const char *hint_of(const struct answer *answer)
{
    for (size_t i = 0; !answer->hint && i < sizeof hints / sizeof *hints; i++) {
        if (hints[i].code == answer->code)
            return hints[i].hint;
    }
    return answer->hint;
}

json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string)
        return string;
    CLEANUP_BUF struct buf clean = BUF_INIT(1 << 20);
    if (jsonstr_clean(&clean, text, strlen(text), true) < 0)
        return json_string("");
    return json_stringn(buf_text(&clean), clean.size);
}

static void set_text(json_t *object, const char *key, const char *text)
{
    if (text)
        json_object_set_new(object, key, json_text(text));
}

static bool faithful;

void problem_set_faithful(bool on)
{
    faithful = on;
}

static void set_hint(json_t *object, const char *hint)
{
    set_text(object, "hint", faithful ? NULL : hint);
}

static void set_docs(json_t *object, const char *code)
{
    if (faithful)
        return;
    char docs[96];
    int length = snprintf(docs, sizeof docs, "docs/errors.md#%s", code);
    for (int i = 0; i < length && docs[i]; i++)
        docs[i] = (char)tolower((unsigned char)docs[i]);
    set_text(object, "docs", docs);
}

/* The SDK waits and tries again on 503; the header tells others to do the same. */
static void reply_after(struct http_request *request, int status, int retry_after, json_t *body)
{
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", retry_after ? retry_after : RETRY_AFTER_S);
    if (status == 503)
        http_set_header(request, "Retry-After", seconds);
    http_reply_json(request, status, body);
}

static void reply(struct http_request *request, int status, json_t *body)
{
    reply_after(request, status, 0, body);
}

/* The status of the code, unless the answer knows better. */
static void reply_as(struct http_request *request, const struct answer *answer, int status,
                     json_t *body)
{
    reply_after(request, answer->status ? answer->status : status, answer->retry_after, body);
}

static json_t *take_context(struct answer *answer)
{
    if (json_is_object(answer->body))
        return steal_pointer(&answer->body);
    return json_object();
}

static const char *message_of(const struct answer *answer)
{
    return answer->message ? answer->message : code_row(answer->code)->name;
}

static void reply_method(struct http_request *request, struct answer *answer)
{
    const struct code_row *row = code_row(answer->code);
    bool plain = answer->code == CODE_PLAIN_ERROR;
    json_t *body = json_object();
    set_text(body, "error", message_of(answer));
    if (!plain) {
        set_text(body, "code", row->name);
        json_object_set_new(body, "context", take_context(answer));
    }
    set_text(body, "suggestion", row->suggestion);
    set_hint(body, hint_of(answer));
    if (!plain)
        set_docs(body, row->name);
    reply_as(request, answer, row->status, body);
}

/* Behind a real Durable Object only the class name and the message of an error arrive; codes that
 * share a class are one code here. An interrupted operation keeps its context, which
 * says whether to try again. */
static void reply_api(struct http_request *request, struct answer *answer)
{
    const struct code_row *row = code_row(answer->code);
    const char *hint = hint_of(answer);
    json_t *body = json_object();
    set_text(body, "error", message_of(answer));
    set_text(body, "code", row->worker_code);
    if (answer->code == CODE_OPERATION_INTERRUPTED) {
        json_object_set_new(body, "context", take_context(answer));
        set_text(body, "suggestion", row->suggestion);
    }
    set_hint(body, hint ? hint : row->suggestion);
    if (answer->code != CODE_PLAIN_ERROR)
        set_docs(body, row->worker_code ? row->worker_code : row->name);
    reply_as(request, answer, row->worker_status, body);
}

/* The key order is the original's; golden samples compare bytes. */
static void reply_container(struct http_request *request, const struct clock *clock, enum code code,
                            int status, int retry_after, const char *message, json_t *context,
                            const char *operation)
{
    const struct code_row *row = code_row(code);
    json_t *body = json_object();
    set_text(body, "code", row->name);
    set_text(body, "message", message);
    json_object_set_new(body, "context", context);
    set_text(body, "operation", operation);
    json_object_set_new(body, "httpStatus", json_integer(status));
    json_object_set_new(body, "timestamp", clock_timestamp(clock));
    set_text(body, "suggestion", row->suggestion);
    reply_after(request, status, retry_after, body);
}

/* The SDK reads `message`, which the original does not send here. */
static void reply_code(struct http_request *request, struct answer *answer)
{
    const struct code_row *row = code_row(answer->code);
    json_t *body = json_object();
    set_text(body, "error", message_of(answer));
    set_text(body, "code", row->name);
    json_object_set_new(body, "details", take_context(answer));
    set_text(body, "message", message_of(answer));
    reply_as(request, answer, row->status, body);
}

/* As containers of older SDKs said it. */
static void reply_proxy(struct http_request *request, struct answer *answer)
{
    json_t *body = json_object();
    set_text(body, "error", "Proxy error");
    set_text(body, "message", message_of(answer));
    json_object_set(body, "port", json_object_get(answer->body, "port"));
    reply(request, answer->code == CODE_SERVICE_NOT_RESPONDING ? 502 : code_row(answer->code)->status,
          body);
}

void problem_answer(struct http_request *request, enum face face, const struct clock *clock,
                    struct answer *answer)
{
    switch (face) {
    case FACE_METHOD:
        reply_method(request, answer);
        return;
    case FACE_API:
        reply_api(request, answer);
        return;
    case FACE_CODE:
        reply_code(request, answer);
        return;
    case FACE_PROXY:
        reply_proxy(request, answer);
        return;
    case FACE_CONTAINER:
        break;
    }
    /* An Error without a code exists only in the SDK; a container has none. */
    enum code code = answer->code == CODE_PLAIN_ERROR ? CODE_INTERNAL_ERROR : answer->code;
    reply_container(request, clock, code, answer->status ? answer->status : code_row(code)->status,
                    answer->retry_after, message_of(answer), take_context(answer),
                    answer->operation);
}

void problem_text(struct buf *to, const char *code, json_t *context, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    CLEANUP_JSON json_t *body = json_object();
    set_text(body, "error", text);
    set_text(body, "code", code);
    if (context)
        json_object_set_new(body, "context", context);
    set_docs(body, code);
    json_write(to, body, NULL, NULL);
}

void problem_reply(struct http_request *request, int status, const char *code, json_t *context,
                   const char *hint, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    json_t *body = json_object();
    set_text(body, "error", text);
    set_text(body, "code", code);
    if (context)
        json_object_set_new(body, "context", context);
    set_hint(body, hint);
    set_docs(body, code);
    reply(request, status, body);
}

void problem_container(struct http_request *request, const struct clock *clock, enum code code,
                       int status, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    reply_container(request, clock, code, status ? status : code_row(code)->status, 0, text,
                    json_object(), NULL);
}
