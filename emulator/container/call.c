#include "container/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void answer_free(struct answer *answer)
{
    json_decref(answer->body);
    answer->body = NULL;
    free(answer->message);
    answer->message = NULL;
    free(answer->hint);
    answer->hint = NULL;
    buf_free(&answer->content);
    if (answer->stream)
        stream_abort(answer->stream);
    answer->stream = NULL;
    if (answer->has_socket)
        close(answer->socket);
    answer->has_socket = false;
}

void call_finish(struct call *call, struct answer *answer)
{
    call->done(call, answer);
    answer_free(answer);
}

void call_result(struct call *call, json_t *body)
{
    if (!body) {
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    struct answer answer = {.code = CODE_OK, .body = body};
    call_finish(call, &answer);
}

void call_error(struct call *call, enum code code, const char *operation, json_t *context,
                const char *format, ...)
{
    struct answer answer = {.code = code, .body = context, .operation = operation};
    va_list args;
    va_start(args, format);
    if (vasprintf(&answer.message, format, args) < 0)
        answer.message = NULL;
    va_end(args);
    call_finish(call, &answer);
}
