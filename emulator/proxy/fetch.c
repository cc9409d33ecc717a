#include "proxy/fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "proxy/internal.h"

enum { READ_SIZE = 64 * 1024 };

struct fetch {
    struct loop *loop;
    struct side server;
    struct timer timer;
    struct task start;
    struct buf head; /* as far as it came; with a response, exactly its bytes */
    struct buf body;
    struct response response;
    struct frame frame;
    bool is_head, answered;
    void (*done)(void *arg, const struct fetch_result *result);
    void *arg;
};

void fetch_drop(struct fetch *fetch)
{
    loop_unwatch(fetch->loop, &fetch->server.watch);
    loop_disarm(fetch->loop, &fetch->timer);
    loop_cancel(fetch->loop, &fetch->start);
    cleanup_fd(&fetch->server.fd);
    buf_free(&fetch->server.out);
    buf_free(&fetch->head);
    buf_free(&fetch->body);
    free(fetch);
}

static bool finish(struct fetch *fetch, enum proxy_fault fault, const char *error)
{
    struct fetch_result result = {.error = error,
                                  .fault = fault,
                                  .response = &fetch->response,
                                  .head = fetch->head.data,
                                  .body = &fetch->body};
    fetch->done(fetch->arg, &result);
    fetch_drop(fetch);
    return false;
}

static bool take_body(struct fetch *fetch, const char *data, size_t size)
{
    bool chunked = fetch->frame.kind == FRAME_CHUNKED;
    long taken = frame_take(&fetch->frame, data, size, chunked ? &fetch->body : NULL);
    if (taken >= 0 && !chunked)
        taken = buf_add(&fetch->body, data, (size_t)taken);
    if (taken == -EMSGSIZE)
        return finish(fetch, PROXY_BAD, "the answer is too large");
    if (taken < 0)
        return finish(fetch, PROXY_BAD, "its body is not well-formed");
    return fetch->frame.done ? finish(fetch, PROXY_BAD, NULL) : true;
}

/* Everything that came so far is in fetch->head. */
static bool take_head(struct fetch *fetch)
{
    const char *why;
    enum head_state state;
    while ((state = response_check(fetch->head.data, fetch->head.size, &fetch->response, &why)) ==
           HEAD_COMPLETE) {
        if (fetch->response.status >= 200)
            break;
        if (fetch->response.status == 101)
            return finish(fetch, PROXY_BAD, "it switched protocols without being asked to");
        buf_drop(&fetch->head, fetch->response.size);
    }
    if (state == HEAD_BAD)
        return finish(fetch, PROXY_BAD, why);
    if (state == HEAD_INCOMPLETE)
        return true;
    fetch->answered = true;
    fetch->frame = frame_of(&fetch->response, fetch->is_head);
    size_t size = fetch->response.size;
    return take_body(fetch, fetch->head.data + size, fetch->head.size - size);
}

static bool ended(struct fetch *fetch)
{
    if (fetch->answered && fetch->frame.kind == FRAME_CLOSE)
        return finish(fetch, PROXY_BAD, NULL);
    return finish(fetch, PROXY_LOST, "the server closed the connection");
}

static bool readable(struct fetch *fetch)
{
    char data[READ_SIZE];
    ssize_t size = recv(fetch->server.fd, data, sizeof data, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (size <= 0)
        return ended(fetch);
    if (fetch->answered)
        return take_body(fetch, data, (size_t)size);
    if (buf_add(&fetch->head, data, (size_t)size) < 0)
        return finish(fetch, PROXY_BAD, "its head is too large");
    return take_head(fetch);
}

static void ready(void *arg, uint32_t events)
{
    struct fetch *fetch = arg;
    int result = side_flush(&fetch->server);
    if (result < 0 && result != -EPIPE && result != -ECONNRESET) {
        finish(fetch, PROXY_LOST, "the request could not be sent");
        return;
    }
    if (result < 0)
        buf_clear(&fetch->server.out); /* it may have answered all the same */
    if (readable(fetch))
        loop_rewatch(fetch->loop, &fetch->server.watch,
                     EPOLLIN | (side_waits(&fetch->server) ? EPOLLOUT : 0));
}

static void overdue(void *arg)
{
    finish(arg, PROXY_TIMEOUT, "the server did not answer in time");
}

static void start(void *arg)
{
    struct fetch *fetch = arg;
    if (loop_watch(fetch->loop, &fetch->server.watch, fetch->server.fd, EPOLLIN | EPOLLOUT) < 0)
        finish(fetch, PROXY_LOST, "out of memory");
}

struct fetch *fetch_new(struct loop *loop, int server, struct buf *request, bool is_head,
                        size_t body_max, int timeout_ms,
                        void (*done)(void *arg, const struct fetch_result *result), void *arg)
{
    struct fetch *fetch = calloc(1, sizeof *fetch);
    if (!fetch)
        return NULL;
    *fetch = (struct fetch){
        .loop = loop,
        .server = {.watch = {ready, fetch, -1}, .fd = server, .out = *request},
        .timer = {.fire = overdue, .arg = fetch},
        .start = {.run = start, .arg = fetch},
        .head = BUF_INIT(RESPONSE_HEAD_MAX + READ_SIZE),
        .body = BUF_INIT(body_max),
        .is_head = is_head,
        .done = done,
        .arg = arg,
    };
    if (loop_arm(loop, &fetch->timer, MS_NS(timeout_ms)) < 0) {
        free(fetch);
        return NULL;
    }
    *request = BUF_INIT(0);
    loop_defer(loop, &fetch->start);
    return fetch;
}
