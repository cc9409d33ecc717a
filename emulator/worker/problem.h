/* Error answers of the Worker's faces. */
#ifndef SANDPIT_WORKER_PROBLEM_H
#define SANDPIT_WORKER_PROBLEM_H

#include <jansson.h>

#include "clock/clock.h"
#include "container/call.h"
#include "http/http.h"

/* Which conventions an answer follows. */
enum face {
    FACE_METHOD,    /* /sandbox/{id}/{method}: the container's status, all there is to say */
    FACE_API,       /* /api/…: status and code by the SDK's error class */
    FACE_CONTAINER, /* the container's own error object */
    FACE_PROXY,     /* the container's, for /proxy/{port} */
    FACE_CODE,      /* the container's, for /api/execute/code, whose errors look different */
};

/* What an operation answered, when that is an error. May take answer->body. */
void problem_answer(struct http_request *request, enum face face, const struct clock *clock,
                    struct answer *answer);

/* Errors of the Worker itself: {error, code, context?, hint?, docs}. The context is taken; context
 * and hint may be NULL. */
void problem_reply(struct http_request *request, int status, const char *code, json_t *context,
                   const char *hint, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* The same as the text of a body, for whoever answers without a request. Takes the context. */
void problem_text(struct buf *to, const char *code, json_t *context, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The container's error object for what is found wrong before a container is asked; `status` 0 =
 * that of the code. */
void problem_container(struct http_request *request, const struct clock *clock, enum code code,
                       int status, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. New reference. */
json_t *json_text(const char *text);

/* Leaves out what only an emulator says: "hint" and "docs". For the whole process. */
void problem_set_faithful(bool on);

#endif
