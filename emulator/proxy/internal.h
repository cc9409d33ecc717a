/* What the files of this layer share. */
#ifndef SANDPIT_PROXY_INTERNAL_H
#define SANDPIT_PROXY_INTERNAL_H

#include "http/expire.h"
#include "proxy/chunked.h"
#include "proxy/proxy.h"
#include "proxy/response.h"

/* What a side has not taken is at most one read, a head and what came with the request. */
enum { SCRATCH_SIZE = 256 * 1024, OUT_MAX = 1024 * 1024, KEPT_MAX = 256 };
/* Socket pairs that requests of one client go through, one behind the other (relay.c). */
enum { RELAYS_MAX = 32 };

struct kept;

struct proxy {
    struct loop *loop;
    struct proxy_limits limits;
    struct expire stalls, idle;
    struct expire rests; /* exchanges between two requests */
    struct exchange *exchanges;
    unsigned count;
    struct kept *kept; /* newest first */
    unsigned kept_count;
    char scratch[SCRATCH_SIZE]; /* what is being read; nothing stays here */
};

/* kept.c */
void kept_init(struct proxy *proxy);
void kept_close(struct proxy *proxy);

/* Where a body ends. */
enum framing { FRAME_NONE, FRAME_LENGTH, FRAME_CHUNKED, FRAME_CLOSE };
struct frame {
    enum framing kind;
    uint64_t left; /* of FRAME_LENGTH */
    struct chunked chunked;
    bool done;
};

/* One of the two sockets. */
struct side {
    struct watch watch;
    int fd;
    uint32_t watched; /* what for */
    uint32_t wanted;  /* of it; the rest does no harm until it happens */
    bool needless;    /* which it just did */
    struct buf out;   /* what it has not taken yet */
    size_t sent;      /* of it */
    bool blocked;     /* it takes no more; else what waits only waits for company */
    bool ended;       /* it sends no more */
    bool shut;        /* we send no more */
};

enum exchange_state {
    EXCHANGE_HEAD,   /* waits for the head of the answer */
    EXCHANGE_BODY,   /* passes the body on */
    EXCHANGE_TUNNEL, /* passes everything on */
    EXCHANGE_LAST,   /* what is left goes to the client */
    EXCHANGE_STALE,  /* waits for another connection */
    EXCHANGE_IDLE,   /* waits for the next request */
};

struct exchange {
    struct expire_node stall; /* first, so that the node is the exchange */
    struct proxy *proxy;
    struct exchange *next, *previous;
    struct http_server *http;
    struct side client, server;
    enum exchange_state state;
    struct proxy_request request;
    struct frame asked, answer; /* the two bodies */
    struct buf rest;            /* read from the client with the head */
    size_t rest_at;             /* how much of it was passed on */
    struct buf head;            /* of the answer, as far as it came in pieces */
    unsigned informational;     /* answers 1xx so far */
    int64_t idle_ns;            /* since when */
    unsigned relays;            /* of a relay: how many there are up to it; else 0 */
    uint64_t door;              /* and the socket that leads from it to the door */
    bool reused;
    bool reusable; /* the server said that it would serve another request */
    bool dirty;    /* but sent more than its answer */
    bool plain;    /* chunks are undone for the client */
    struct task begin;
    struct proxy_events events;
};

/* side.c */
/* Sends, and keeps what is not taken. 0 or a negative errno. */
int side_send(struct side *side, const void *data, size_t size);
int side_flush(struct side *side);
static inline bool side_waits(const struct side *side)
{
    return side->out.size > side->sent;
}
/* No more will be sent. */
void side_shut(struct side *side);
/* Of an answer; `is_head`: to a request with the method HEAD. */
struct frame frame_of(const struct response *response, bool is_head);
long frame_take(struct frame *frame, const char *data, size_t size, struct buf *plain);

/* answer.c */
/* What came from the server. False when the exchange is over and freed. */
bool answer_take(struct exchange *exchange, const char *data, size_t size);
/* The server sends no more. */
bool answer_ended(struct exchange *exchange);

/* relay.c */
/* Serves what else was read from the client, whose socket is taken. */
void relay_rest(struct exchange *exchange, int client);

/* exchange.c */
/* Takes both sockets; NULL: no memory, and they are closed. */
struct exchange *exchange_make(struct proxy *proxy, struct http_server *http, int client,
                               int server, struct proxy_events events);
/* There is no answer, or no more of it. */
bool exchange_fail(struct exchange *exchange, enum proxy_fault fault, const char *why);
/* Ends at once. */
bool exchange_abort(struct exchange *exchange);
/* The answer is complete; the rest goes to the client, then it is over. */
bool exchange_answered(struct exchange *exchange);
/* Lets it go on from the loop. */
void exchange_wake(struct exchange *exchange);
/* No next request came. */
void exchange_rested(struct exchange *exchange);
/* Nothing moved for too long. */
void exchange_stalled(struct exchange *exchange);

#endif
