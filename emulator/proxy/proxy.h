/* One request that is forwarded byte by byte to a server inside a container, and its answer back;
 * or, after an upgrade, a plain tunnel. The head of the answer is the only thing that is read;
 * bodies pass through one buffer that all share, and what the other side does not take at once
 * makes the first side wait. Knows nothing of sandboxes: whoever starts an exchange brings both
 * sockets. */
#ifndef SANDPIT_PROXY_PROXY_H
#define SANDPIT_PROXY_PROXY_H

#include "base/buf.h"
#include "base/loop.h"
#include "http/http.h"

struct proxy;    /* one for the process */
struct exchange; /* one request */

struct proxy_limits {
    int stall_ms; /* for a side that must send or take something and does not */
    int idle_ms;  /* how long a server's connection is kept for the next request */
};
extern const struct proxy_limits proxy_limits_default;

struct proxy *proxy_new(struct loop *loop, const struct proxy_limits *limits);
/* Closes all that is open; done() of each is called. Before or after the http server's end. */
void proxy_free(struct proxy *proxy);
unsigned proxy_count(const struct proxy *proxy);

struct proxy_request {
    struct buf head; /* what the server gets, from edit.h; taken */
    int64_t length;  /* of the body, -1 = none said */
    bool chunked;
    bool is_head;              /* the method is HEAD */
    bool repeatable;           /* has no body and changes nothing, so that it may be sent twice */
    bool upgrade;              /* asks for one */
    bool keep;                 /* the client may send another request afterwards */
    int minor;                 /* the client's HTTP/1.minor */
    const char *answer_fields; /* header lines that the answer gets, static; or NULL */
};

/* Why there is no answer. */
enum proxy_fault {
    PROXY_LOST,    /* the server closed the connection, or it broke */
    PROXY_BAD,     /* what it said is no answer */
    PROXY_TIMEOUT, /* it said nothing for too long */
};

struct proxy_answer {
    int status;
    const char *type;
    struct buf body;
};

struct proxy_events {
    /* The answer was 101: from now on it is a tunnel. */
    void (*upgraded)(void *arg);
    /* Bytes went through the tunnel. */
    void (*active)(void *arg);
    /* There is no answer: fills one in. */
    void (*failed)(void *arg, enum proxy_fault fault, const char *why, struct proxy_answer *answer);
    /* A kept connection was closed just before it was used. True: exchange_reconnect() or
     * exchange_gone() follows. May be NULL. */
    bool (*stale)(void *arg);
    /* Only when set does the client's connection stay with the exchange after an answer, together
     * with that to the server. idle(): the answer is complete. next(): the client sent something;
     * exchange_again() or exchange_leave() follows at once. */
    void (*idle)(void *arg);
    void (*next)(void *arg);
    /* It is over; the exchange must not be used any more. `reusable` is the server's connection
     * when it can serve another request, else -1; the callee takes it. */
    void (*done)(void *arg, int reusable);
    void *arg;
};

struct exchange_start {
    struct http_server *http;
    int client; /* from http_take() */
    const char *rest;
    size_t rest_size; /* what came with it */
    int server;       /* connected */
    bool reused;      /* it served another request before */
    struct proxy_request *request;
    struct proxy_events events;
};
/* Takes both sockets and the request's head, whatever the result is. NULL: no memory, both are
 * closed and no event comes. Events come from the loop, later. */
struct exchange *exchange_new(struct proxy *proxy, const struct exchange_start *start);
/* Takes fd. */
void exchange_reconnect(struct exchange *exchange, int server);
/* Of an exchange that is idle: */
int exchange_client(const struct exchange *exchange);
/* Whether the server's connection was used so recently that a server does not close it yet, and is
 * open. */
bool exchange_is_fresh(const struct exchange *exchange);
/* Goes on with the next request, which was read from the client, and takes its head. */
void exchange_again(struct exchange *exchange, struct proxy_request *request);
/* The client's connection, which is the caller's; done() is called. */
int exchange_leave(struct exchange *exchange);
/* The server is gone: closes at once, with an answer when there was none yet. */
void exchange_gone(struct exchange *exchange, const char *why);

/* Connections of servers that wait for another request. The key is anything that differs between
 * two servers with the same port. */
void kept_put(struct proxy *proxy, const void *key, unsigned life, uint16_t port, int fd);
/* -1 when there is none. */
int kept_take(struct proxy *proxy, const void *key, unsigned life, uint16_t port);

#endif
