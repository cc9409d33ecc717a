/* What the files of this folder know of each other. */
#ifndef SANDPIT_WORKER_PARTS_H
#define SANDPIT_WORKER_PARTS_H

#include "worker/worker.h"

struct worker {
    struct worker_config config;
    struct proxy *proxy;      /* NULL when the emulator ends */
    struct http_server *http; /* that requests were taken from; NULL before the first */
};

/* POST /sandbox/{id}/{method}: method_route.c. */
void method_route(struct worker *worker, struct http_request *request);
/* /api/… and all that is left: api.c. */
void api_route(struct worker *worker, struct http_request *request);
/* What is forwarded to a port: forward.c. */
void forward_route(struct worker *worker, struct http_request *request);
/* The same on the container's host, below /proxy/. */
void forward_face(struct worker *worker, struct http_request *request, struct object *object);
/* The container's own API: face.c. */
void face_route(struct worker *worker, struct http_request *request);

/* The operation of the container that a route such as "POST /api/execute" names, or NULL. */
const struct op *worker_op(const char *route);

#endif
