#include "container/port_check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "container/internal.h"
#include "container/port_http.h"

enum {
    CHECK_MS = 5000, /* for one check, redirects and all */
    REDIRECTS_MAX = 20,
};

struct port_check {
    struct port_check **slot; /* NULL once dropped */
    struct container *container;
    struct port_wish wish;
    void (*done)(void *arg, const struct port_result *result);
    void *arg;
    uint16_t port; /* a redirect may lead to another */
    bool ipv6;
    bool asking; /* the runtime has not answered yet: the struct must stay */
    int redirects;
    int fd;
    struct watch watch;
    struct timer timer;
    struct buf target;
    struct buf request; /* what is left to send */
    struct buf answer;
};

bool port_wish_read(struct call *call, struct port_wish *wish)
{
    const json_t *port = json_object_get(call->args, "port");
    const char *mode = json_string_value(json_object_get(call->args, "mode"));
    *wish = (struct port_wish){.path = "/", .status_min = 200, .status_max = 399};
    double number = json_is_number(port) ? json_number_value(port) : 0;
    if (number >= 1 && number <= UINT16_MAX && number == (int)number)
        wish->port = (int)number;
    wish->tcp = mode && strcmp(mode, "tcp") == 0;
    return arg_text(call, "path", false, &wish->path) &&
           arg_number(call, "statusMin", &wish->status_min) &&
           arg_number(call, "statusMax", &wish->status_max);
}

static void close_socket(struct port_check *check)
{
    loop_unwatch(check->container->loop, &check->watch);
    if (check->fd >= 0)
        close(steal_fd(&check->fd));
}

static void check_free(struct port_check *check)
{
    buf_free(&check->target);
    buf_free(&check->request);
    buf_free(&check->answer);
    free(check);
}

/* Everything but the memory, which an answer of the runtime may still need. */
static void check_close(struct port_check *check)
{
    close_socket(check);
    loop_disarm(check->container->loop, &check->timer);
    *check->slot = NULL;
    check->slot = NULL;
}

static void finish(struct port_check *check, const struct port_result *result)
{
    void (*done)(void *arg, const struct port_result *result) = check->done;
    void *arg = check->arg;
    check_close(check);
    if (!check->asking)
        check_free(check);
    done(arg, result);
}

void port_check_drop(struct port_check **slot)
{
    struct port_check *check = *slot;
    if (!check)
        return;
    check_close(check);
    if (!check->asking)
        check_free(check);
}

static void fail(struct port_check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void fail(struct port_check *check, const char *format, ...)
{
    struct port_result result = {.ready = false};
    va_list args;
    va_start(args, format);
    vsnprintf(result.error, sizeof result.error, format, args);
    va_end(args);
    finish(check, &result);
}

static void finish_status(struct port_check *check, int status)
{
    const struct port_wish *wish = &check->wish;
    struct port_result result = {.status = status};
    result.ready = status >= wish->status_min && status <= wish->status_max;
    if (!result.ready)
        snprintf(result.error, sizeof result.error, "HTTP status %d is not in %g-%g", status,
                 wish->status_min, wish->status_max);
    finish(check, &result);
}

static void timed_out(void *arg)
{
    struct port_check *check = arg;
    fail(check, "no answer within %d ms", CHECK_MS);
}

static void go(struct port_check *check);

/* 127.0.0.1 did not answer the knock: what listens may do so on ::1 only. */
static void refused(struct port_check *check, int error)
{
    close_socket(check);
    if (check->ipv6 || error == EPIPE) {
        fail(check, "connect to port %d: %s", check->port, strerror(error));
        return;
    }
    check->ipv6 = true;
    go(check);
}

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* A redirect that leaves the container is the answer itself: the port serves. */
static void got_head(struct port_check *check, const struct port_head *head)
{
    CLEANUP_BUF struct buf target = BUF_INIT(PORT_TARGET_MAX);
    uint16_t port = check->port;
    int leads = 0;
    if (is_redirect(head->status) && head->location)
        leads = port_redirect(buf_text(&check->target), head->location, head->location_size, &port,
                              &target);
    if (leads == 0) {
        finish_status(check, head->status);
        return;
    }
    if (leads < 0) {
        fail(check, "a redirect to nowhere");
        return;
    }
    if (++check->redirects > REDIRECTS_MAX) {
        fail(check, "more than %d redirects", REDIRECTS_MAX);
        return;
    }
    close_socket(check);
    buf_free(&check->target);
    check->target = target;
    target = BUF_INIT(0);
    check->port = port;
    check->ipv6 = false;
    go(check);
}

static void receive(struct port_check *check)
{
    struct port_head head;
    char piece[4096];
    ssize_t got = recv(check->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        fail(check, "the server closed the connection");
        return;
    }
    if (buf_add(&check->answer, piece, (size_t)got) < 0) {
        fail(check, "the head of the answer is larger than %d bytes", PORT_HEAD_MAX);
        return;
    }
    int result = port_head_parse(check->answer.data, check->answer.size, &head);
    if (result < 0)
        fail(check, "the answer is not HTTP");
    else if (result > 0)
        got_head(check, &head);
}

static void transmit(struct port_check *check)
{
    ssize_t sent = send(check->fd, check->request.data, check->request.size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        fail(check, "send: %s", strerror(errno));
        return;
    }
    if (sent > 0)
        buf_drop(&check->request, (size_t)sent);
    if (check->request.size == 0 &&
        loop_rewatch(check->container->loop, &check->watch, EPOLLIN) < 0)
        fail(check, "out of memory");
}

static void socket_ready(void *arg, uint32_t events)
{
    struct port_check *check = arg;
    int error = 0;
    socklen_t size = sizeof error;
    if (check->request.size == 0 && !check->wish.tcp) {
        receive(check);
        return;
    }
    if (getsockopt(check->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error)
        refused(check, error);
    else if (check->wish.tcp)
        finish(check, &(struct port_result){.ready = true});
    else
        transmit(check);
}

static void connected(void *arg, struct agent_answer *answer)
{
    struct port_check *check = arg;
    check->asking = false;
    if (!check->slot) {
        check_free(check);
        return;
    }
    if (answer->value < 0 || answer->fd_count == 0) {
        refused(check, answer->value < 0 ? -answer->value : EPROTO);
        return;
    }
    check->fd = steal_fd(&answer->fds[0]);
    check->watch.ready = socket_ready;
    check->watch.arg = check;
    if (loop_watch(check->container->loop, &check->watch, check->fd, EPOLLOUT) < 0)
        fail(check, "out of memory");
}

static void go(struct port_check *check)
{
    buf_clear(&check->answer);
    buf_clear(&check->request);
    if (buf_addf(
            &check->request,
            "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            buf_text(&check->target), check->port) < 0) {
        fail(check, "the path is too long");
        return;
    }
    check->asking = true;
    ask_connect(check->container, check->port, check->ipv6, connected, check);
}

/* The control port is ours: the runtime only holds it, so we say what its server would. */
static int control_status(const struct port_check *check)
{
    const char *target = buf_text(&check->target);
    if (strcmp(target, "/") == 0)
        return 200;
    for (const struct op *op = container_ops; op->name; op++) {
        if (strcmp(op->method, "GET") == 0 && strcmp(op->path, target) == 0)
            return 200;
    }
    return 404;
}

void port_check_start(struct port_check **slot, struct container *container,
                      const struct port_wish *wish,
                      void (*done)(void *arg, const struct port_result *result), void *arg)
{
    struct port_check *check = calloc(1, sizeof *check);
    if (!check) {
        done(arg, &(struct port_result){.error = "out of memory"});
        return;
    }
    *check = (struct port_check){.slot = slot,
                                 .container = container,
                                 .wish = *wish,
                                 .done = done,
                                 .arg = arg,
                                 .port = (uint16_t)wish->port,
                                 .fd = -1,
                                 .watch = WATCH_INIT,
                                 .timer = {.fire = timed_out, .arg = check},
                                 .target = BUF_INIT(PORT_TARGET_MAX),
                                 .request = BUF_INIT(PORT_TARGET_MAX + 256),
                                 .answer = BUF_INIT(PORT_HEAD_MAX)};
    *slot = check;
    if (!wish->port)
        fail(check, "a port is a whole number from 1 to 65535");
    else if (port_target(&check->target, wish->path, strlen(wish->path)) < 0)
        fail(check, "the path is too long");
    else if (wish->port == RT_CONTROL_PORT && !wish->tcp)
        finish_status(check, control_status(check));
    else if (loop_arm(container->loop, &check->timer, MS_NS(CHECK_MS)) < 0)
        fail(check, "out of memory");
    else
        go(check);
}
