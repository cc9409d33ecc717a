/* The two directions of an exchange, and its end. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "proxy/internal.h"

enum { READS_PER_WAKE = 8, FRESH_MS = 1000 };

/* The end. */

static void unlink_exchange(struct exchange *exchange)
{
    struct proxy *proxy = exchange->proxy;
    *(exchange->previous ? &exchange->previous->next : &proxy->exchanges) = exchange->next;
    if (exchange->next)
        exchange->next->previous = exchange->previous;
    proxy->count--;
    expire_stop(&exchange->stall);
    loop_unwatch(proxy->loop, &exchange->client.watch);
    loop_unwatch(proxy->loop, &exchange->server.watch);
}

/* Whether the server's connection may serve another request. */
static bool is_reusable(const struct exchange *exchange)
{
    return exchange->reusable && !exchange->dirty && !exchange->server.ended &&
           exchange->asked.done && !side_waits(&exchange->server);
}

/* The client's socket was let go of. */
static bool end(struct exchange *exchange)
{
    int server = is_reusable(exchange) ? steal_fd(&exchange->server.fd) : -1;
    /* Unwatched before it is closed: the runtime may still hold the socket that it handed out, and
     * then epoll would go on reporting it. */
    unlink_exchange(exchange);
    cleanup_fd(&exchange->server.fd);
    loop_cancel(exchange->proxy->loop, &exchange->begin);
    buf_free(&exchange->client.out);
    buf_free(&exchange->server.out);
    buf_free(&exchange->request.head);
    buf_free(&exchange->rest);
    buf_free(&exchange->head);
    if (exchange->events.done)
        exchange->events.done(exchange->events.arg, server);
    else
        cleanup_fd(&server);
    free(exchange);
    return false;
}

bool exchange_abort(struct exchange *exchange)
{
    loop_unwatch(exchange->proxy->loop, &exchange->client.watch);
    http_close(exchange->http, exchange->client.fd);
    exchange->reusable = false;
    return end(exchange);
}

/* Both connections stay for the next request. */
static bool rest_here(struct exchange *exchange)
{
    exchange->state = EXCHANGE_IDLE;
    exchange->idle_ns = loop_now_ns();
    exchange->events.idle(exchange->events.arg);
    return true;
}

/* Everything was sent to the client. */
static bool finish(struct exchange *exchange)
{
    if (exchange->events.next && exchange->request.keep && exchange->asked.done &&
        !exchange->rest.size && is_reusable(exchange))
        return rest_here(exchange);
    loop_unwatch(exchange->proxy->loop, &exchange->client.watch);
    if (!exchange->request.keep || !exchange->asked.done)
        http_shut(exchange->http, exchange->client.fd);
    else if (exchange->rest.size)
        relay_rest(exchange, exchange->client.fd);
    else
        http_give(exchange->http, exchange->client.fd);
    return end(exchange);
}

bool exchange_answered(struct exchange *exchange)
{
    struct side *client = &exchange->client;
    exchange->state = EXCHANGE_LAST;
    if (side_waits(client) && !client->blocked && side_flush(client) < 0)
        return exchange_abort(exchange);
    return side_waits(client) ? true : finish(exchange);
}

static int write_answer(struct exchange *exchange, const struct proxy_answer *answer)
{
    CLEANUP_BUF struct buf text = BUF_INIT(64 * 1024);
    buf_addf(&text,
             "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nX-Content-Type-Options: nosniff\r\n"
             "Content-Length: %zu\r\nConnection: close\r\n\r\n",
             answer->status, http_reason(answer->status), answer->type, answer->body.size);
    if (!exchange->request.is_head)
        buf_add(&text, answer->body.data, answer->body.size);
    return text.error ? text.error : side_send(&exchange->client, text.data, text.size);
}

bool exchange_fail(struct exchange *exchange, enum proxy_fault fault, const char *why)
{
    struct proxy_answer answer = {.status = 502, .type = "text/plain", .body = BUF_INIT(32 * 1024)};
    bool early = exchange->state == EXCHANGE_HEAD || exchange->state == EXCHANGE_STALE;
    if (!early)
        return exchange_abort(exchange);
    if (fault == PROXY_LOST && exchange->reused && exchange->request.repeatable &&
        exchange->head.size == 0 && exchange->state == EXCHANGE_HEAD && exchange->events.stale) {
        exchange->state = EXCHANGE_STALE;
        loop_unwatch(exchange->proxy->loop, &exchange->server.watch);
        exchange->server.watched = 0;
        close(steal_fd(&exchange->server.fd));
        buf_free(&exchange->server.out);
        exchange->server.sent = 0;
        exchange->server.blocked = false;
        if (exchange->events.stale(exchange->events.arg))
            return true;
    }
    exchange->request.keep = exchange->reusable = false;
    if (exchange->events.failed)
        exchange->events.failed(exchange->events.arg, fault, why, &answer);
    int result = write_answer(exchange, &answer);
    buf_free(&answer.body);
    return result < 0 ? exchange_abort(exchange) : exchange_answered(exchange);
}

/* From the client to the server. */

/* A server may answer and not read on: then its answer is on its way. After another error nobody
 * knows what it got, and nothing may follow that. */
static bool only_unread(int result)
{
    return result == -EPIPE || result == -ECONNRESET;
}

static bool unsent(struct exchange *exchange)
{
    return exchange_fail(exchange, PROXY_LOST, "the request could not be sent");
}

/* Passes bytes on; false when the exchange is gone. */
static bool pass_on(struct exchange *exchange, const char *data, size_t size, size_t *passed)
{
    long taken = frame_take(&exchange->asked, data, size, NULL);
    *passed = taken > 0 ? (size_t)taken : 0;
    if (taken < 0) /* the client's chunks are wrong: the server must not see an end */
        return exchange_abort(exchange);
    if (exchange->state == EXCHANGE_TUNNEL && taken && exchange->events.active)
        exchange->events.active(exchange->events.arg);
    int result = side_send(&exchange->server, data, *passed);
    if (result < 0 && exchange->state == EXCHANGE_TUNNEL)
        return exchange_abort(exchange);
    return result == 0 || only_unread(result) || unsent(exchange);
}

/* A piece of what was read before. */
static bool pass_rest(struct exchange *exchange)
{
    struct buf *rest = &exchange->rest;
    size_t size = rest->size - exchange->rest_at, passed;
    if (!pass_on(exchange, rest->data + exchange->rest_at,
                 size < SCRATCH_SIZE ? size : SCRATCH_SIZE, &passed))
        return false;
    exchange->rest_at += passed;
    if (exchange->rest_at == rest->size) {
        buf_free(rest);
        exchange->rest_at = 0;
    }
    return true;
}

/* How much may be read: what follows the request is not ours. */
static ssize_t read_client(struct exchange *exchange)
{
    char *scratch = exchange->proxy->scratch;
    size_t most = SCRATCH_SIZE;
    int flags = MSG_DONTWAIT;
    if (exchange->asked.kind == FRAME_LENGTH && exchange->asked.left < most)
        most = (size_t)exchange->asked.left;
    if (exchange->asked.kind == FRAME_CHUNKED)
        flags |= MSG_PEEK;
    return recv(exchange->client.fd, scratch, most, flags);
}

static bool client_ended(struct exchange *exchange)
{
    exchange->client.ended = true;
    if (exchange->state != EXCHANGE_TUNNEL)
        return exchange_abort(exchange); /* in the middle of its request */
    side_shut(&exchange->server);
    return true;
}

static bool client_readable(struct exchange *exchange)
{
    for (int i = 0; i < READS_PER_WAKE; i++) {
        size_t passed;
        if (exchange->asked.done || exchange->client.ended || side_waits(&exchange->server))
            return true;
        if (exchange->rest.size && !pass_rest(exchange))
            return false;
        if (exchange->rest.size || exchange->asked.done || side_waits(&exchange->server))
            continue;
        ssize_t size = read_client(exchange);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (size < 0)
            return exchange_abort(exchange);
        if (size == 0)
            return client_ended(exchange);
        if (!pass_on(exchange, exchange->proxy->scratch, (size_t)size, &passed))
            return false;
        /* Not by MSG_TRUNC: behind relay_rest() the client is no TCP socket, and knows none. */
        if (exchange->asked.kind == FRAME_CHUNKED)
            recv(exchange->client.fd, exchange->proxy->scratch, passed, MSG_DONTWAIT);
        if (size < SCRATCH_SIZE)
            return true;
    }
    return true;
}

/* From the server to the client. */

static bool server_readable(struct exchange *exchange)
{
    char *scratch = exchange->proxy->scratch;
    for (int i = 0; i < READS_PER_WAKE; i++) {
        if (exchange->server.ended || side_waits(&exchange->client))
            return true;
        ssize_t size = recv(exchange->server.fd, scratch, SCRATCH_SIZE, MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (size < 0 && exchange->state == EXCHANGE_TUNNEL)
            return exchange_abort(exchange);
        if (size <= 0)
            return answer_ended(exchange);
        if (!answer_take(exchange, scratch, (size_t)size))
            return false;
        if (size < SCRATCH_SIZE || exchange->state == EXCHANGE_LAST ||
            exchange->state == EXCHANGE_IDLE)
            return true;
    }
    return true;
}

/* What is waited for. */

static bool want(struct exchange *exchange, struct side *side, uint32_t events)
{
    struct loop *loop = exchange->proxy->loop;
    int result = 0;
    side->wanted = events;
    /* What is watched for without need saves two calls when it never happens. */
    bool idle = (side->watched & ~events & EPOLLOUT) == 0 && !side->needless;
    if (side->fd < 0 || events == side->watched || (idle && (events & ~side->watched) == 0))
        return true;
    side->needless = false;
    /* A socket that hung up is always ready: it is not looked at while nothing can be done. */
    if (events == 0)
        loop_unwatch(loop, &side->watch);
    else if (side->watched == 0)
        result = loop_watch(loop, &side->watch, side->fd, events);
    else
        result = loop_rewatch(loop, &side->watch, events);
    side->watched = events;
    return result == 0;
}

/* Whether somebody must do something soon. An open answer or tunnel may be silent for ever. */
static bool must_move(const struct exchange *exchange)
{
    if (side_waits(&exchange->client) || side_waits(&exchange->server))
        return true;
    if (exchange->state == EXCHANGE_TUNNEL)
        return exchange->client.ended || exchange->server.ended;
    return exchange->state != EXCHANGE_BODY || !exchange->asked.done;
}

static void settle(struct exchange *exchange)
{
    uint32_t client = 0, server = 0;
    bool tunnel = exchange->state == EXCHANGE_TUNNEL, last = exchange->state == EXCHANGE_LAST;
    bool idle = exchange->state == EXCHANGE_IDLE;
    if (idle)
        client |= EPOLLIN;
    if (!exchange->asked.done && !exchange->client.ended && !last &&
        exchange->state != EXCHANGE_STALE && !side_waits(&exchange->server))
        client |= EPOLLIN;
    if (exchange->asked.done && !tunnel)
        client |= EPOLLRDHUP;
    if (side_waits(&exchange->client))
        client |= EPOLLOUT;
    if (!exchange->server.ended && !last && !side_waits(&exchange->client))
        server |= EPOLLIN;
    if (side_waits(&exchange->server) && !last)
        server |= EPOLLOUT;
    if (!want(exchange, &exchange->client, client) || !want(exchange, &exchange->server, server))
        exchange_abort(exchange);
    else if (idle)
        expire_start(&exchange->proxy->rests, &exchange->stall);
    else if (must_move(exchange))
        expire_start(&exchange->proxy->stalls, &exchange->stall);
    else
        expire_stop(&exchange->stall);
}

/* Both sides said their last. */
static bool tunnel_over(const struct exchange *exchange)
{
    return exchange->state == EXCHANGE_TUNNEL && exchange->client.ended && exchange->server.ended &&
           !side_waits(&exchange->client) && !side_waits(&exchange->server);
}

/* Sends what waits, and the end that waited behind it. */
static bool flush(struct exchange *exchange)
{
    if (side_flush(&exchange->client) < 0)
        return exchange_abort(exchange);
    if (exchange->state == EXCHANGE_LAST)
        return side_waits(&exchange->client) ? true : finish(exchange);
    int result = exchange->server.fd >= 0 ? side_flush(&exchange->server) : 0;
    if (result < 0) {
        if (exchange->state == EXCHANGE_TUNNEL)
            return exchange_abort(exchange);
        if (!only_unread(result))
            return unsent(exchange);
        buf_free(&exchange->server.out);
        exchange->server.sent = 0;
        exchange->server.blocked = false;
    }
    if (exchange->state == EXCHANGE_TUNNEL && exchange->client.ended)
        side_shut(&exchange->server);
    if (exchange->state == EXCHANGE_TUNNEL && exchange->server.ended)
        side_shut(&exchange->client);
    return true;
}

static void client_ready(void *arg, uint32_t events)
{
    struct exchange *exchange = arg;
    /* A tunnel may end in one direction. */
    uint32_t end = exchange->state == EXCHANGE_TUNNEL ? 0 : EPOLLHUP;
    if (end && exchange->asked.done)
        end |= EPOLLRDHUP;
    exchange->client.needless = !(events & exchange->client.wanted);
    if (exchange->state == EXCHANGE_IDLE) {
        exchange->events.next(exchange->events.arg);
        return;
    }
    if (events & (end | EPOLLERR)) {
        exchange_abort(exchange);
        return;
    }
    if (!flush(exchange) || !client_readable(exchange))
        return;
    if (tunnel_over(exchange))
        exchange_abort(exchange);
    else
        settle(exchange);
}

static void server_ready(void *arg, uint32_t events)
{
    struct exchange *exchange = arg;
    exchange->server.needless = !(events & exchange->server.wanted);
    if (exchange->state == EXCHANGE_IDLE) { /* it closed, or said something unasked */
        exchange_rested(exchange);
        return;
    }
    if (!flush(exchange) || !server_readable(exchange))
        return;
    /* What waited for the server to take something. */
    if (exchange->state != EXCHANGE_LAST && exchange->rest.size && !client_readable(exchange))
        return;
    if (tunnel_over(exchange))
        exchange_abort(exchange);
    else
        settle(exchange);
}

void exchange_stalled(struct exchange *exchange)
{
    /* Else it is the client who does not go on. */
    bool servers = exchange->asked.done || side_waits(&exchange->server);
    if (exchange->state != EXCHANGE_HEAD || !servers) {
        exchange_abort(exchange);
        return;
    }
    if (exchange_fail(exchange, PROXY_TIMEOUT, "the server did not answer in time"))
        settle(exchange);
}

void exchange_rested(struct exchange *exchange)
{
    loop_unwatch(exchange->proxy->loop, &exchange->client.watch);
    http_give(exchange->http, exchange->client.fd);
    exchange->reusable = false;
    end(exchange);
}

/* The start. */

static void begin(void *arg)
{
    struct exchange *exchange = arg;
    if (exchange->state == EXCHANGE_HEAD &&
        side_send(&exchange->server, exchange->request.head.data, exchange->request.head.size) <
            0) {
        if (exchange_fail(exchange, PROXY_LOST, "the server closed the connection"))
            settle(exchange);
        return;
    }
    if (client_readable(exchange))
        settle(exchange);
}

void exchange_wake(struct exchange *exchange)
{
    loop_defer(exchange->proxy->loop, &exchange->begin);
}

struct exchange *exchange_make(struct proxy *proxy, struct http_server *http, int client,
                               int server, struct proxy_events events)
{
    int on = 1;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) {
        http_close(http, client);
        close(server);
        return NULL;
    }
    *exchange = (struct exchange){
        .proxy = proxy,
        .next = proxy->exchanges,
        .http = http,
        .client = {.watch = {client_ready, exchange, -1}, .fd = client, .out = BUF_INIT(OUT_MAX)},
        .server = {.watch = {server_ready, exchange, -1}, .fd = server, .out = BUF_INIT(OUT_MAX)},
        .head = BUF_INIT(RESPONSE_HEAD_MAX + SCRATCH_SIZE),
        .begin = {.run = begin, .arg = exchange},
        .events = events,
    };
    if (exchange->next)
        exchange->next->previous = exchange;
    proxy->exchanges = exchange;
    proxy->count++;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return exchange;
}

static struct frame frame_asked(const struct proxy_request *request)
{
    if (request->chunked)
        return (struct frame){.kind = FRAME_CHUNKED};
    if (request->length > 0)
        return (struct frame){.kind = FRAME_LENGTH, .left = (uint64_t)request->length};
    return (struct frame){.kind = FRAME_NONE, .done = true};
}

struct exchange *exchange_new(struct proxy *proxy, const struct exchange_start *start)
{
    CLEANUP_BUF struct buf rest = BUF_INIT(start->rest_size);
    if (start->rest_size && buf_add(&rest, start->rest, start->rest_size) < 0) {
        http_close(start->http, start->client);
        close(start->server);
        buf_free(&start->request->head);
        return NULL;
    }
    struct exchange *exchange =
        exchange_make(proxy, start->http, start->client, start->server, start->events);
    if (!exchange) {
        buf_free(&start->request->head);
        return NULL;
    }
    exchange->request = *start->request;
    start->request->head = BUF_INIT(0);
    exchange->rest = rest;
    rest = BUF_INIT(0);
    exchange->reused = start->reused;
    exchange->asked = frame_asked(&exchange->request);
    exchange_wake(exchange);
    return exchange;
}

int exchange_client(const struct exchange *exchange)
{
    return exchange->client.fd;
}

bool exchange_is_fresh(const struct exchange *exchange)
{
    char byte;
    return loop_now_ns() - exchange->idle_ns < MS_NS(FRESH_MS) &&
           recv(exchange->server.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void exchange_again(struct exchange *exchange, struct proxy_request *request)
{
    buf_free(&exchange->request.head);
    exchange->request = *request;
    request->head = BUF_INIT(0);
    exchange->asked = frame_asked(&exchange->request);
    exchange->answer = (struct frame){0};
    exchange->state = EXCHANGE_HEAD;
    exchange->informational = 0;
    exchange->reused = true;
    exchange->reusable = exchange->dirty = exchange->plain = false;
    begin(exchange);
}

int exchange_leave(struct exchange *exchange)
{
    int client = exchange->client.fd;
    loop_unwatch(exchange->proxy->loop, &exchange->client.watch);
    end(exchange);
    return client;
}

void exchange_reconnect(struct exchange *exchange, int server)
{
    int on = 1;
    exchange->reused = false;
    exchange->state = EXCHANGE_HEAD;
    exchange->server.fd = server;
    exchange->server.ended = exchange->server.needless = false;
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    exchange_wake(exchange);
}

void exchange_gone(struct exchange *exchange, const char *why)
{
    exchange->reused = false;
    if (exchange_fail(exchange, PROXY_LOST, why))
        settle(exchange);
}
