/* The front door as the layers behind it see it: a request with its whole body, and ways to answer.
 * Accepting, the strict head check, the owner table and libmicrohttpd are behind this header. */
#ifndef SANDPIT_HTTP_HTTP_H
#define SANDPIT_HTTP_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/stream.h"
#include "http/head.h"

struct http_server;
struct http_request;

/* Who answers, decided from Host and path before the request is read (owner.h). */
enum http_owner {
    OWNER_WORKER,    /* localhost, 127.0.0.1, [::1]: everything but /cdn-cgi/local */
    OWNER_CONTROL,   /* the same hosts: /cdn-cgi/local and below */
    OWNER_CONTAINER, /* 3000-{id}-{secret}.localhost: the container's own API */
    OWNER_PREVIEW,   /* {port}-{id}-{token}, below localhost, a domain or /cdn-cgi/local/preview */
    OWNER_COUNT
};

/* Of the part of a Host or path that names a preview: port, id and token with their hyphens. */
enum { HTTP_LABEL_MAX = 5 + 1 + 63 + 1 + 63 };

/* A request for a preview that never was libmicrohttpd's. Its head was read from the socket, its
 * body was not. All but the socket lives as long as the call. */
struct http_raw {
    struct http_server *server;
    int fd; /* as from http_take(): the callee's */
    const struct head *head;
    const char *data; /* of the head; head->size bytes */
    char label[HTTP_LABEL_MAX + 1];
    struct span path; /* as the server behind the preview sees it */
    bool by_path;     /* the label was in the path */
};

struct http_config {
    const char *ip;    /* NULL: 127.0.0.1 and ::1; else the one address to listen on */
    uint16_t port;     /* 0 = any */
    int probe;         /* when the port is taken, how many following ones are tried before any */
    const char *token; /* when not NULL, every request must bring "Authorization: Bearer token" */
    int64_t (*now_ms)(void *arg); /* virtual time, for Date */
    void *now_arg;
    void (*handle[OWNER_COUNT])(void *arg, struct http_request *request);
    /* Whether handle() is called before the body is read and takes it as a stream, which may be of
     * any size. Decided from method and path alone. NULL = never. */
    bool (*streams[OWNER_COUNT])(void *arg, const struct http_request *request);
    /* Whether the request is handled when its head has arrived, without its body, so that it can be
     * taken (http_take) or refused; or NULL. Not asked for HTTP/1.0, which has nothing to stream. */
    bool (*early)(void *arg, enum http_owner owner, const struct http_request *request);
    /* Gets the requests for previews; those that follow others on a connection come to
     * handle[OWNER_PREVIEW]. NULL: there are no previews. */
    void (*raw)(void *arg, struct http_raw *raw);
    /* Whether previews are found below this domain; or NULL. */
    bool (*has_domain)(void *arg, struct span domain);
    void *arg;
    int head_ms, body_ms, idle_ms; /* deadlines for slow clients; 0 = the usual ones */
};

struct http_server *http_new(struct loop *loop, const struct http_config *config,
                             struct error *err);
/* Ends what is open: gone() and the streams' aborted() are called, so those behind them must still
 * be there. */
void http_free(struct http_server *server);
uint16_t http_port(const struct http_server *server);

/* The request. Everything returned lives as long as the request, which ends with the answer or with
 * gone(). */
const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request); /* as sent, without the query */
const char *http_header(const struct http_request *request, const char *name);
const char *http_query(const struct http_request *request, const char *name); /* decoded, or NULL */
/* First label of the Host, lower case: "3000-my-box-secret"; "localhost" for the plain hosts. */
const char *http_label(const struct http_request *request);
const char *http_host(const struct http_request *request); /* Host as sent */
/* The body, NUL-terminated beyond its size. */
const struct buf *http_body(const struct http_request *request);
/* The same, handed over: http_body() is empty afterwards. */
struct buf http_take_body(struct http_request *request);
/* The body of a request that streams: the sink's side, once; else NULL. It fails when the client
 * leaves before its end; the client waits while it is full. What nobody takes is dropped. */
struct stream *http_take_stream(struct http_request *request);
/* Whether the head announces a body, be it an empty one. */
bool http_has_body(const struct http_request *request);
bool http_wants_html(const struct http_request *request); /* Accept names text/html */
/* False when memory was refused since the request began, so that what was made of it may lack
 * parts. A good answer is then replaced by an error. */
bool http_whole(const struct http_request *request);

/* Tells the handler when the client leaves before the answer; the request must then not be used. */
void http_on_gone(struct http_request *request, void (*gone)(void *arg), void *arg);

/* One answer for each request. http_set_header before it; Content-Type, Content-Length, Date, and
 * `X-Content-Type-Options: nosniff` are added. Never adds Access-Control-Allow-Origin. */
void http_set_header(struct http_request *request, const char *name, const char *value);
void http_reply_json(struct http_request *request, int status, json_t *body); /* takes body */
/* Takes the malloc'd bytes. */
void http_reply_bytes(struct http_request *request, int status, const char *type, char *data,
                      size_t size);
void http_reply_text(struct http_request *request, int status, const char *type,
                     const char *text); /* copies */
/* Takes the sink's side of the stream; chunked, until it ends or the client leaves. */
void http_reply_stream(struct http_request *request, int status, const char *type,
                       struct stream *stream);
/* The same with Content-Length. A stream that ends early, or fails, breaks the connection. */
void http_reply_sized(struct http_request *request, int status, const char *type,
                      struct stream *stream, uint64_t size);
/* Raw connections. A request that is forwarded byte by byte is not answered with the functions
 * above: its connection is taken, with what was read of it beyond the head. */
struct http_taken_socket {
    int fd;           /* the callee's; -1 when the client left or it could not be done */
    const char *rest; /* what follows the head and is not in the socket any more */
    size_t rest_size;
};
typedef void http_taken(void *arg, struct http_taken_socket *socket);
/* Calls back once, later or from http_free(); the request ends with that. -ENOMEM: nothing was
 * done, and the request wants an answer. */
int http_take(struct http_request *request, http_taken *taken, void *arg);
/* Afterwards one of these, each of which takes the descriptor: it is closed at once; or slowly, so
 * that the client sees what was sent last; or its next request is anybody's again. */
void http_close(struct http_server *server, int fd);
void http_shut(struct http_server *server, int fd);
void http_give(struct http_server *server, int fd);
/* Looks for the next request of a connection. True when it is one for a preview: it was read into
 * data, and raw is filled in. Else nothing happened, and http_give() is the way on. */
bool http_raw_next(struct http_server *server, int fd, char data[HEAD_MAX + 1], struct head *head,
                   struct http_raw *raw);
/* Answers a raw request and ends its connection; takes fd. The body may be NULL. */
void http_raw_reply(struct http_server *server, int fd, int status, const char *type,
                    const char *body, size_t size);
/* What of a preview's request came through libmicrohttpd: as in http_raw. */
struct span http_preview_path(const struct http_request *request);
bool http_preview_by_path(const struct http_request *request);
/* Serves a connection that was never the door's. Takes fd. */
void http_welcome(struct http_server *server, int fd);
struct http_server *http_server_of(const struct http_request *request);
/* What clients must send as Authorization, or NULL. */
const char *http_token(const struct http_request *request);
const char *http_server_token(const struct http_server *server);
const char *http_reason(int status); /* "Not Found" */
/* The checked head. Its target ends at the query, if there is one. */
const struct head *http_head(const struct http_request *request);
typedef void http_field(void *arg, struct span name, struct span value);
void http_each_field(struct http_request *request, http_field *field, void *arg);

/* {"error", "code", "hint"} as the faces that are not the container's answer; hint may be NULL. */
void http_reply_error(struct http_request *request, int status, const char *code, const char *hint,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
