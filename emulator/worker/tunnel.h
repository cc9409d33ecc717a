/* One request that is forwarded to a port of a sandbox: the container is started when needed, the
 * port connected to, the client's connection taken, and both handed to the proxy. */
#ifndef SANDPIT_WORKER_TUNNEL_H
#define SANDPIT_WORKER_TUNNEL_H

#include "proxy/edit.h"
#include "worker/parts.h"
#include "worker/problem.h"

struct tunnel_spec {
    struct object *object;
    uint16_t port;
    enum face face; /* of errors */
    struct span path, query;
    /* Text of header lines that answers get, or NULL. */
    const char *answer_fields;
};

/* Answers the request, or takes it. */
void tunnel_start(struct worker *worker, struct http_request *request,
                  const struct tunnel_spec *spec);

#endif
