/* One operation on its way down the layers, and its answer on the way up. The maker of a call owns
 * it and may drop it only after done(), which is called exactly once, perhaps before the
 * operation's function returns. A client that leaves does not end the operation. */
#ifndef SANDPIT_CONTAINER_CALL_H
#define SANDPIT_CONTAINER_CALL_H

#include <jansson.h>

#include "base/buf.h"
#include "base/stream.h"
#include "container/codes.h"

enum content_form {
    CONTENT_NONE,
    CONTENT_TEXT,
    CONTENT_BASE64,
    CONTENT_FILES, /* JSON already, and for the member "files" */
};

struct answer {
    enum code code;        /* CODE_OK, or what went wrong */
    json_t *body;          /* OK: the result, keys in wire order; else the context; may be NULL */
    char *message;         /* what went wrong, for people; malloc'd */
    const char *operation; /* "file.read" …, or NULL; static */
    char *hint;            /* what an emulator can say about it, or NULL; malloc'd */
    /* OK: the bytes that stand for the member "content" (null in body) and how they are written. */
    enum content_form content_form;
    struct buf content;
    struct stream *stream; /* OK: server-sent events instead of a body; the taker is its sink */
    bool raw; /* these are the bytes of a file, whose `size` (or null) and `mimeType` body tells */
    int status;      /* of the HTTP answer; 0 = 200, or what the code says */
    int retry_after; /* with 503: seconds; 0 = 10 */
    bool has_socket; /* OK: a connection comes with it; the taker sets this to false */
    int socket;
};

struct call {
    /* What the container's route takes as its JSON body; borrowed. */
    const json_t *args;
    /* The inside of a large JSON string literal (still escaped) that stands for args.content, which
     * is then null; else NULL. Stays valid until done(). */
    const char *content;
    size_t content_size;
    /* Bytes that come with the call, or NULL. An operation that wants them takes them (sets it to
     * NULL) and is their sink; the maker aborts what is left after done(). */
    struct stream *upload;
    /* Takes over what it wants from the answer (sets it to NULL); the rest is freed by the caller.
     */
    void (*done)(struct call *call, struct answer *answer);
    void *arg;
    /* Set by an operation that only waits, and NULL otherwise: called when nobody wants the answer
     * any more. done() is still called. */
    void (*left)(struct call *call);
    void *left_arg;
};

/* Calls done() with the answer and frees what is left of it. */
void call_finish(struct call *call, struct answer *answer);
/* Finishes with a result; takes the reference. */
void call_result(struct call *call, json_t *body);
/* Finishes with an error; takes the context, which may be NULL. */
void call_error(struct call *call, enum code code, const char *operation, json_t *context,
                const char *format, ...) __attribute__((format(printf, 5, 6)));
void answer_free(struct answer *answer);

#endif
