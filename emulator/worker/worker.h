/* Layer 1: the built-in Worker. It has no state: a request becomes one call of an SDK method on a
 * sandbox's object, and the result one answer. Three faces share the code: the method route
 * (method_route.c), the /api routes (api.c) and the container's own API (face.c). */
#ifndef SANDPIT_WORKER_WORKER_H
#define SANDPIT_WORKER_WORKER_H

#include "base/error.h"
#include "clock/clock.h"
#include "buckets/buckets.h"
#include "http/http.h"
#include "objects/objects.h"

struct worker;
struct proxy;

struct worker_config {
    struct loop *loop; /* for forwarded requests */
    struct objects *objects;
    struct clock *clock;
    /* Answers GET and HEAD of "/" for clients that take text/html; NULL = plain text for all. */
    void (*page)(void *arg, struct http_request *request);
    void *page_arg;
    struct buckets *buckets; /* NULL = none */
    bool faithful; /* errors hold neither "hint" nor "docs" */
};

/* Fails when a row of the method table names an operation that no layer below has. */
struct worker *worker_new(const struct worker_config *config, struct error *err);
/* What forwards its requests; previews share it. */
struct proxy *worker_proxy(struct worker *worker);
/* After objects_shutdown() is done: no call may be in flight. */
void worker_free(struct worker *worker);

/* The handlers for OWNER_WORKER and OWNER_CONTAINER; arg is the struct worker. While the clock is
 * being advanced, requests to a sandbox wait. */
void worker_handle(void *arg, struct http_request *request);
void face_handle(void *arg, struct http_request *request);
/* Whether the request is forwarded to a port of a sandbox, and so taken raw. */
bool worker_forwards(enum http_owner owner, const char *path);
/* Appends the section of docs/api.md on them. */
int forward_markdown(struct buf *to);
/* Ends what is being forwarded. Before the http server is freed. */
void worker_disconnect(struct worker *worker);
/* For OWNER_WORKER: whether the body is the bytes of a file, and so a stream. */
bool worker_streams(const struct http_request *request);

#endif
