/* Accepts, looks at the first head of each connection without taking it from the socket, and hands
 * the socket on, or refuses it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "http/internal.h"

enum { ACCEPTS_PER_WAKE = 64, DROPS_PER_WAKE = 8, DROP_SIZE = 1024 * 1024 };

static const struct refusal too_slow = {408, "REQUEST_TIMEOUT",
                                        "the request head did not arrive in time", NULL};
static const struct refusal too_busy = {503, "TOO_MANY_CONNECTIONS",
                                        "too many connections are open", "try again"};

/* A connection that waits for its head (on server->heads), or that was refused and is read empty
 * (on server->lingers). */
struct visitor {
    struct expire_node deadline; /* first, so that the node is the visitor */
    struct http_server *server;
    struct watch watch;
    int fd;
    size_t dropped;
    struct sockaddr_in6 from;
    socklen_t from_size;
};

static int visitor_release(struct visitor *visitor)
{
    int fd = visitor->fd;
    expire_stop(&visitor->deadline);
    loop_unwatch(visitor->server->loop, &visitor->watch);
    free(visitor);
    return fd;
}

static void visitor_end(struct visitor *visitor)
{
    close(visitor_release(visitor));
}

static void visitor_refuse(struct visitor *visitor, const struct refusal *why)
{
    struct http_server *server = visitor->server;
    door_refuse(server, visitor_release(visitor), why);
}

/* Refusals. */

static int write_refusal(struct http_server *server, const struct refusal *why, struct buf *to)
{
    json_t *body =
        json_pack("{s:s, s:s, s:s*}", "error", why->error, "code", why->code, "hint", why->hint);
    CLEANUP_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return -ENOMEM;
    return buf_addf(to,
                    "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: application/json\r\n"
                    "X-Content-Type-Options: nosniff\r\nContent-Length: %zu\r\n"
                    "Connection: close\r\n%s\r\n%s",
                    why->status, MHD_get_reason_phrase_for((unsigned)why->status),
                    reply_date(server), strlen(text),
                    why->status == 401 ? "WWW-Authenticate: Bearer\r\n" : "", text);
}

/* Drops what has arrived, mostly without copying it; false when the client is done or sent too much. */
static bool drop_some(struct http_server *server, int fd, size_t *dropped)
{
    static char scratch[64 * 1024];
    for (int i = 0; i < DROPS_PER_WAKE; i++) {
        ssize_t size = recv(fd, NULL, DROP_SIZE, MSG_TRUNC | MSG_DONTWAIT);
        if (size < 0 && errno == EFAULT) /* http_welcome() brings sockets that know no MSG_TRUNC */
            size = recv(fd, scratch, sizeof scratch, MSG_DONTWAIT);
        if (size < 0)
            return errno == EAGAIN || errno == EINTR;
        *dropped += (size_t)size;
        if (size == 0 || *dropped > server->limits.linger_max)
            return false;
    }
    return true;
}

static void linger_ready(void *arg, uint32_t events)
{
    struct visitor *visitor = arg;
    if (!drop_some(visitor->server, visitor->fd, &visitor->dropped))
        visitor_end(visitor);
}

static void linger_expired(struct expire_node *node)
{
    visitor_end((struct visitor *)node);
}

void door_refuse(struct http_server *server, int fd, const struct refusal *why)
{
    CLEANUP_BUF struct buf answer = BUF_INIT(4096);
    if (write_refusal(server, why, &answer) < 0)
        close(fd);
    else
        door_answer(server, fd, &answer);
}

void door_answer(struct http_server *server, int fd, const struct buf *answer)
{
    CLEANUP_FD int owned = fd;
    /* The answer is small and the first thing on its way, so the kernel takes it whole. */
    if (send(owned, answer->data, answer->size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
    door_linger(server, steal_fd(&owned));
}

void door_linger(struct http_server *server, int fd)
{
    CLEANUP_FD int owned = fd;
    size_t dropped = 0;
    shutdown(owned, SHUT_WR);
    /* Closing with bytes unread sends a reset, which may overtake the answer. */
    if (!drop_some(server, owned, &dropped) || server->lingers.count >= server->limits.waiting_max)
        return;
    struct visitor *visitor = calloc(1, sizeof *visitor);
    if (!visitor)
        return;
    visitor->server = server;
    visitor->dropped = dropped;
    visitor->watch = (struct watch){.ready = linger_ready, .arg = visitor, .fd = -1};
    if (loop_watch(server->loop, &visitor->watch, owned, EPOLLIN | EPOLLRDHUP) < 0) {
        free(visitor);
        return;
    }
    visitor->fd = steal_fd(&owned);
    expire_start(&server->lingers, &visitor->deadline);
}

/* Heads. */

static void head_expired(struct expire_node *node)
{
    visitor_refuse((struct visitor *)node, &too_slow);
}

static void visitor_admit(struct visitor *visitor, char *data, const struct head *head)
{
    struct http_server *server = visitor->server;
    struct owner_answer answer;
    struct refusal why;
    if (!owner_find(&server->rules, head, &answer, &why)) {
        struct span path = owner_shown_path(head->path);
        log_info("%.*s %.*s %d %s", (int)(head->method.size > 32 ? 32 : head->method.size),
                 head->method.at, (int)(path.size > 200 ? 200 : path.size), path.at, why.status,
                 why.code);
        visitor_refuse(visitor, &why);
        return;
    }
    if (!server_has_room(server)) {
        visitor_refuse(visitor, &too_busy);
        return;
    }
    if (answer.owner == OWNER_PREVIEW) {
        raw_admit(server, visitor_release(visitor), data, head, &answer);
        return;
    }
    struct sockaddr_in6 from = visitor->from;
    socklen_t size = visitor->from_size;
    server_add(server, visitor_release(visitor), (struct sockaddr *)&from, size);
}

/* Looks at what has arrived. False when the visitor still waits for more. */
static bool visitor_look(struct visitor *visitor, uint32_t events)
{
    char data[HEAD_MAX + 1];
    struct head head;
    const struct refusal *why;
    ssize_t size = recv(visitor->fd, data, sizeof data, MSG_PEEK | MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (size <= 0) {
        visitor_end(visitor);
        return true;
    }
    switch (head_check(data, (size_t)size, &head, &why)) {
    case HEAD_BAD:
        log_info("refused a request: %d %s", why->status, why->code);
        visitor_refuse(visitor, why);
        return true;
    case HEAD_COMPLETE:
        visitor_admit(visitor, data, &head);
        return true;
    case HEAD_INCOMPLETE:
        break;
    }
    if (!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        return false;
    visitor_end(visitor);
    return true;
}

static void visitor_ready(void *arg, uint32_t events)
{
    visitor_look(arg, events);
}

/* Honest heads follow their connection at once, so the one that waits longest makes room. Those
 * between two requests lose nothing; they do not get more than half. */
static void make_room(struct http_server *server)
{
    unsigned heads = server->heads.count, returns = server->returns.count;
    unsigned most = server->limits.waiting_max;
    if (heads + returns < most)
        return;
    if (returns && (!heads || returns > most / 2))
        visitor_end((struct visitor *)server->returns.first);
    else if (heads)
        visitor_refuse((struct visitor *)server->heads.first, &too_busy);
}

/* Most clients have sent their head by now, and then need no watch. Edge-triggered, since what is
 * peeked at stays readable. */
static void visitor_wait(struct visitor *visitor, struct expire *list)
{
    struct http_server *server = visitor->server;
    if (visitor_look(visitor, 0))
        return;
    make_room(server);
    expire_start(list, &visitor->deadline);
    if (loop_watch(server->loop, &visitor->watch, visitor->fd, EPOLLIN | EPOLLRDHUP | EPOLLET) < 0)
        visitor_end(visitor);
}

static void visitor_new(struct http_server *server, int fd, const struct sockaddr_in6 *from,
                        socklen_t from_size, struct expire *list)
{
    struct visitor *visitor = calloc(1, sizeof *visitor);
    if (!visitor) {
        door_refuse(server, fd, &too_busy);
        return;
    }
    *visitor = (struct visitor){.server = server,
                                .watch = {.ready = visitor_ready, .arg = visitor, .fd = -1},
                                .fd = fd,
                                .from = *from,
                                .from_size = from_size};
    visitor_wait(visitor, list);
}

static void return_expired(struct expire_node *node)
{
    visitor_end((struct visitor *)node);
}

void door_again(struct http_server *server, int fd)
{
    struct sockaddr_in6 from = {0};
    socklen_t size = sizeof from;
    if (getpeername(fd, (struct sockaddr *)&from, &size) < 0)
        close(fd);
    else
        visitor_new(server, fd, &from, size, &server->returns);
}

/* Accepting. */

static void accept_again(void *arg)
{
    struct http_server *server = arg;
    for (int i = 0; i < 2; i++) {
        struct listener *listener = &server->listeners[i];
        if (listener->fd >= 0 && listener->watch.fd < 0 &&
            loop_watch(server->loop, &listener->watch, listener->fd, EPOLLIN) < 0)
            loop_arm(server->loop, &server->backoff, MS_NS(server->limits.backoff_ms));
    }
}

static void accept_later(struct http_server *server, int why)
{
    log_debug("accepting no connections for a moment: %s", strerror(why));
    for (int i = 0; i < 2; i++)
        loop_unwatch(server->loop, &server->listeners[i].watch);
    loop_arm(server->loop, &server->backoff, MS_NS(server->limits.backoff_ms));
}

static void accept_ready(void *arg, uint32_t events)
{
    struct listener *listener = arg;
    for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
        struct sockaddr_in6 from = {0};
        socklen_t size = sizeof from;
        int fd =
            accept4(listener->fd, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            visitor_new(listener->server, fd, &from, size, &listener->server->heads);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno != EINTR && errno != ECONNABORTED) {
            accept_later(listener->server, errno);
            return;
        }
    }
}

int door_open(struct http_server *server, struct error *err)
{
    expire_init(&server->heads, server->loop, server->limits.head_ms, head_expired);
    expire_init(&server->lingers, server->loop, server->limits.linger_ms, linger_expired);
    expire_init(&server->returns, server->loop, server->limits.idle_ms, return_expired);
    server->backoff = (struct timer){.fire = accept_again, .arg = server};
    for (int i = 0; i < 2; i++) {
        struct listener *listener = &server->listeners[i];
        *listener = (struct listener){
            .server = server,
            .watch = {.ready = accept_ready, .arg = listener, .fd = -1},
            .fd = -1,
        };
    }
    int result = listen_open(server, err);
    if (result < 0)
        return result;
    accept_again(server);
    return 0;
}

void door_close(struct http_server *server)
{
    listen_close(server);
    loop_disarm(server->loop, &server->backoff);
    while (server->heads.first)
        visitor_end((struct visitor *)server->heads.first);
    while (server->lingers.first)
        visitor_end((struct visitor *)server->lingers.first);
    while (server->returns.first)
        visitor_end((struct visitor *)server->returns.first);
    expire_close(&server->heads);
    expire_close(&server->lingers);
    expire_close(&server->returns);
}
