/* The answer of a server inside a container: its head is read and edited, its body passed on. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "proxy/internal.h"

enum { INFORMATIONAL_MAX = 32, HEAD_USUAL = 1024 };

/* Bodies. */

/* All that can still be said to the client is that the answer is not complete: it ends before its
 * end. */
static bool broken(struct exchange *exchange)
{
    exchange->request.keep = exchange->reusable = false;
    return exchange_answered(exchange);
}

static bool body_take(struct exchange *exchange, const char *data, size_t size)
{
    CLEANUP_BUF struct buf plain = BUF_INIT(SCRATCH_SIZE);
    if (exchange->answer.done) { /* bytes after the answer: nobody asked for them */
        exchange->dirty = exchange->dirty || size;
        return true;
    }
    long taken = frame_take(&exchange->answer, data, size, exchange->plain ? &plain : NULL);
    if (taken < 0)
        return broken(exchange);
    int result = exchange->plain ? side_send(&exchange->client, plain.data, plain.size)
                                 : side_send(&exchange->client, data, (size_t)taken);
    if (result < 0)
        return exchange_abort(exchange);
    exchange->dirty = (size_t)taken < size;
    return exchange->answer.done ? exchange_answered(exchange) : true;
}

static bool tunnel_take(struct exchange *exchange, const char *data, size_t size)
{
    if (size && exchange->events.active)
        exchange->events.active(exchange->events.arg);
    return side_send(&exchange->client, data, size) < 0 ? exchange_abort(exchange) : true;
}

/* Heads. */

static bool is_nominated(const struct response *response, const char *data, struct span wanted)
{
    const char *at = NULL;
    struct span name, value, line;
    while (response_field(data, response, &at, &name, &value, &line)) {
        if (span_is(name, "connection") && list_has(value, wanted))
            return true;
    }
    return false;
}

/* What belongs to the server's connection. */
static bool is_dropped(const struct exchange *exchange, const struct response *response,
                       const char *data, struct span name)
{
    if (span_is(name, "connection") || span_is(name, "keep-alive") ||
        span_is(name, "proxy-connection"))
        return true;
    if (span_is(name, "content-length"))
        return response->status == 204;
    if (span_is(name, "transfer-encoding"))
        return exchange->plain;
    return response->nominates && is_nominated(response, data, name);
}

static int write_head(const struct exchange *exchange, const struct response *response,
                      const char *data, struct buf *to)
{
    const char *at = NULL;
    struct span name, value, line;
    buf_adds(to, "HTTP/1.1 ");
    buf_add(to, response->reason.at, response->reason.size);
    buf_adds(to, response->reason.size == 3 ? " \r\n" : "\r\n");
    while (response_field(data, response, &at, &name, &value, &line)) {
        if (is_dropped(exchange, response, data, name))
            continue;
        buf_add(to, line.at, line.size);
        buf_adds(to, "\r\n");
    }
    if (exchange->request.answer_fields)
        buf_adds(to, exchange->request.answer_fields);
    if (!exchange->request.keep)
        buf_adds(to, "Connection: close\r\n");
    else if (exchange->request.minor == 0)
        buf_adds(to, "Connection: keep-alive\r\n");
    return buf_adds(to, "\r\n");
}

/* 100 and its like go to the client as they are, if it can know them. */
static bool informational(struct exchange *exchange, const struct response *response,
                          const char *data)
{
    if (++exchange->informational > INFORMATIONAL_MAX)
        return exchange_fail(exchange, PROXY_BAD, "it sent too many answers 1xx");
    if (exchange->request.minor == 0)
        return true;
    return side_send(&exchange->client, data, response->size) < 0 ? exchange_abort(exchange) : true;
}

static bool switched(struct exchange *exchange, const struct response *response, const char *data)
{
    if (!exchange->request.upgrade || !response->upgrade.at || !response->upgrades)
        return exchange_fail(exchange, PROXY_BAD, "it switched protocols without being asked to");
    if (side_send(&exchange->client, data, response->size) < 0)
        return exchange_abort(exchange);
    exchange->state = EXCHANGE_TUNNEL;
    exchange->asked = exchange->answer = (struct frame){.kind = FRAME_CLOSE};
    if (exchange->events.upgraded)
        exchange->events.upgraded(exchange->events.arg);
    return true;
}

static bool final(struct exchange *exchange, const struct response *response, const char *data)
{
    exchange->answer = frame_of(response, exchange->request.is_head);
    exchange->plain = response->chunked && exchange->request.minor == 0;
    exchange->reusable = !response->close && exchange->answer.kind != FRAME_CLOSE;
    /* The client's connection goes on only when both bodies have an end that it knows. */
    if (exchange->answer.kind == FRAME_CLOSE || exchange->plain || !exchange->asked.done)
        exchange->request.keep = false;
    exchange->state = EXCHANGE_BODY;
    /* The head goes out together with the first bytes behind it. */
    buf_reserve(&exchange->client.out, HEAD_USUAL, NULL);
    if (write_head(exchange, response, data, &exchange->client.out) < 0)
        return exchange_abort(exchange);
    return exchange->answer.done ? exchange_answered(exchange) : true;
}

static bool head_done(struct exchange *exchange, const struct response *response, const char *data)
{
    if (response->status == 101)
        return switched(exchange, response, data);
    if (response->status < 200)
        return informational(exchange, response, data);
    return final(exchange, response, data);
}

/* Takes one head from the front; *used says how much of the bytes that was, 0 = more must come. */
static bool head_take(struct exchange *exchange, const char *data, size_t size, size_t *used)
{
    struct response response;
    const char *why;
    *used = 0;
    switch (response_check(data, size, &response, &why)) {
    case HEAD_INCOMPLETE:
        return true;
    case HEAD_BAD:
        return exchange_fail(exchange, PROXY_BAD, why);
    case HEAD_COMPLETE:
        break;
    }
    *used = response.size;
    exchange->dirty = size > response.size; /* unless these are of the body */
    return head_done(exchange, &response, data);
}

static bool dispatch(struct exchange *exchange, const char *data, size_t size)
{
    size_t used = 1;
    while (exchange->state == EXCHANGE_HEAD && size && used) {
        if (!head_take(exchange, data, size, &used))
            return false;
        data += used;
        size -= used;
    }
    switch (exchange->state) {
    case EXCHANGE_HEAD:
        return size && buf_add(&exchange->head, data, size) < 0 ? exchange_abort(exchange) : true;
    case EXCHANGE_BODY:
        return body_take(exchange, data, size);
    case EXCHANGE_TUNNEL:
        return tunnel_take(exchange, data, size);
    case EXCHANGE_LAST:
    case EXCHANGE_STALE:
    case EXCHANGE_IDLE:
        exchange->dirty = exchange->dirty || size;
        break;
    }
    return true;
}

/* Sends a head that nothing came after. */
static bool dispatch_all(struct exchange *exchange, const char *data, size_t size)
{
    if (!dispatch(exchange, data, size))
        return false;
    if (!side_waits(&exchange->client) || exchange->client.blocked)
        return true;
    return side_flush(&exchange->client) < 0 ? exchange_abort(exchange) : true;
}

bool answer_take(struct exchange *exchange, const char *data, size_t size)
{
    if (exchange->head.size == 0)
        return dispatch_all(exchange, data, size);
    /* A head that comes in pieces. */
    if (buf_add(&exchange->head, data, size) < 0)
        return exchange_abort(exchange);
    CLEANUP_BUF struct buf whole = exchange->head;
    exchange->head = BUF_INIT(whole.max);
    return dispatch_all(exchange, whole.data, whole.size);
}

bool answer_ended(struct exchange *exchange)
{
    exchange->server.ended = true;
    switch (exchange->state) {
    case EXCHANGE_HEAD:
        return exchange_fail(exchange, PROXY_LOST, "the server closed the connection");
    case EXCHANGE_BODY:
        return broken(exchange);
    case EXCHANGE_TUNNEL:
        side_shut(&exchange->client);
        break;
    case EXCHANGE_LAST:
    case EXCHANGE_STALE:
    case EXCHANGE_IDLE:
        break;
    }
    return true;
}
