/* What the files of the front door share: the server, its limits, and a request. */
#ifndef SANDPIT_HTTP_INTERNAL_H
#define SANDPIT_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>

#include "http/expire.h"
#include "http/head.h"
#include "http/http.h"
#include "http/owner.h"

struct http_limits {
    int head_ms;    /* from the connection to the end of its first head */
    int idle_ms;    /* from an answer to the end of the next head */
    int body_ms;    /* for each piece of body_step bytes, and for what is left */
    int linger_ms;  /* for reading and dropping after a refusal */
    int backoff_ms; /* without accepting, when there are no descriptors left */
    unsigned
        waiting_max; /* connections whose first head is not there yet; RLIMIT_NOFILE may lower it */
    unsigned connections_max; /* connections that libmicrohttpd has; 0 = from RLIMIT_NOFILE */
    size_t body_max;
    size_t body_step;  /* bytes that renew body_ms, so that single bytes do not */
    size_t linger_max; /* bytes dropped after a refusal */
};
extern const struct http_limits http_limits_default;

struct http_server *http_new_limited(struct loop *loop, const struct http_config *config,
                                     const struct http_limits *limits, struct error *err);

/* A listening socket; fd -1 = none. */
struct listener {
    struct http_server *server;
    struct watch watch;
    int fd;
};

struct http_server {
    struct loop *loop;
    struct http_config config; /* ip and token are copies of ours */
    struct http_limits limits;
    struct owner_rules rules;

    /* The door. */
    struct listener listeners[2];
    uint16_t port;
    struct timer backoff;
    struct expire heads, lingers;
    struct expire returns; /* connections that were given back, until their next head */

    /* libmicrohttpd. */
    struct MHD_Daemon *daemon;
    struct watch ready;
    struct timer timeout;
    struct task pump;
    bool running, again;
    struct expire idle, bodies;
    unsigned connections;
    unsigned raw; /* connections that were taken */
    struct take *takes;
    struct http_request *requests;

    char date[96]; /* the text for date_second */
    int64_t date_second;
};

/* A connection of libmicrohttpd's; its deadline is on server->idle or server->bodies. */
struct connection {
    struct expire_node deadline;
    struct http_server *server;
    struct http_request *suspended; /* or NULL */
    struct watch watch;             /* for the client leaving meanwhile; stays for the next one */
    int fd;
};

enum phase {
    PHASE_HEAD,
    PHASE_BODY,
    PHASE_UPLOAD, /* handed to its handler; the body comes as a stream */
    PHASE_HANDLED,
    PHASE_DRAIN,
    PHASE_ANSWERED,
    PHASE_REFUSED,
};

struct pair {
    char *name, *value;
};

struct http_request {
    struct http_server *server;
    struct http_request *next, *previous;
    struct MHD_Connection *mhd;
    struct connection *connection;
    enum phase phase;
    bool handling;  /* inside config.handle() */
    bool suspended; /* libmicrohttpd does not look at the connection */
    bool left;      /* the client is gone */
    bool early;     /* handled before its body, which is then dropped when it is answered */
    struct head head;
    struct owner_answer owner;
    size_t counted; /* bytes of the head, as its parts add up */
    const struct refusal *fault;
    struct buf body;
    size_t renewed; /* size of the body when its deadline was last renewed */
    struct stream *upload, *upload_sink; /* our side, and that which nobody took yet; or NULL */
    size_t uploaded;
    bool upload_room; /* the sink took some meanwhile */
    int64_t started_ns;
    unsigned long refusals; /* heap_refusals() then */
    void (*gone)(void *arg);
    void *gone_arg;
    struct pair *headers; /* of the answer */
    unsigned header_count;
    struct MHD_Response *response; /* until it is queued */
    int status;
    struct stream *stream;
    struct take *take; /* the connection is being taken, or NULL */
    struct pair *query; /* decoded; names and values point into query_text */
    unsigned query_count;
    char *query_text;
    char *host; /* Host as a string */
    char target[];
};

/* listen.c: fills server->listeners and server->port. */
int listen_open(struct http_server *server, struct error *err);
void listen_close(struct http_server *server);

/* door.c */
int door_open(struct http_server *server, struct error *err);
void door_close(struct http_server *server);
/* Answers with the refusal, then reads and drops for a while so that the client sees it. Takes fd.
 */
void door_refuse(struct http_server *server, int fd, const struct refusal *why);
/* The same with an answer that is already written, and says that the connection closes. */
void door_answer(struct http_server *server, int fd, const struct buf *answer);
/* Ends our side of the connection, and reads and drops for a while. Takes fd. */
void door_linger(struct http_server *server, int fd);
/* Waits for the next head of a connection that was taken. Takes fd. */
void door_again(struct http_server *server, int fd);

/* raw.c: a request for a preview. Takes fd, whose head is at data but not yet read. */
void raw_admit(struct http_server *server, int fd, char *data, const struct head *head,
               const struct owner_answer *owner);

/* take.c */
/* Takes the connection, now that libmicrohttpd asks what to do with the request. */
enum MHD_Result take_queue(struct http_request *request);
/* The connection ended meanwhile. */
void take_failed(struct http_request *request);

/* server.c */
void server_add(struct http_server *server, int fd, const struct sockaddr *from, socklen_t size);
/* Whether another connection may be added; when it is tight, one that is idle is ended for it. */
bool server_has_room(struct http_server *server);
/* Lets libmicrohttpd look at what changed, once it is not running. */
void server_run_soon(struct http_server *server);
void server_suspend(struct http_request *request);
/* The same in the middle of a body: libmicrohttpd finds out by itself whether the client left. */
void server_pause(struct http_request *request);
/* Lets libmicrohttpd look at the request's connection again, soon. */
void server_resume(struct http_request *request);

/* Whoever waits for the request's answer learns that nobody will read it. */
void server_client_left(struct http_request *request);

/* serve.c: called by libmicrohttpd, the last one with the head, with each piece of the body, with
 * its end, and after each resume. */
void *serve_begin(void *arg, const char *target, struct MHD_Connection *mhd);
void serve_end(void *arg, struct MHD_Connection *mhd, void **context,
               enum MHD_RequestTerminationCode code);
enum MHD_Result serve_access(void *arg, struct MHD_Connection *mhd, const char *url,
                             const char *method, const char *version, const char *data,
                             size_t *size, void **context);

/* upload.c: bodies as streams. */
bool upload_wanted(const struct http_request *request);
/* Calls the handler with the head. MHD_NO when it was answered and the connection must close. */
enum MHD_Result upload_begin(struct http_request *request);
enum MHD_Result upload_data(struct http_request *request, const char *data, size_t *size);
void upload_end(struct http_request *request);
/* Lets go of the stream before its end: the client left, or it was answered. */
void upload_cut(struct http_request *request);
/* Answers at once instead of after the rest of the body, when that may be long; takes data. */
bool upload_answer(struct http_request *request, int status, const char *type, char *data,
                   size_t size);

/* request.c */
struct http_request *request_new(struct http_server *server, const char *target);
void request_free(struct http_request *request);
/* Checks the head of a request from what libmicrohttpd made of it, and finds its owner. */
bool request_check(struct http_request *request, const char *method, const char *version,
                   struct refusal *why);

/* The path as logs show it: without the token of a preview. */
const char *request_shown_path(const struct http_request *request);

/* Whether this libmicrohttpd takes heads that are not well-formed, which is so before 1.0. */
bool request_parser_is_lenient(void);

/* reply.c */
const char *reply_date(struct http_server *server);
void reply_log(const struct http_request *request, int status);

#endif
