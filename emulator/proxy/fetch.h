/* A request of our own to a server inside a container, with its whole answer in memory. */
#ifndef SANDPIT_PROXY_FETCH_H
#define SANDPIT_PROXY_FETCH_H

#include "proxy/proxy.h"
#include "proxy/response.h"

struct fetch;

struct fetch_result {
    const char *error; /* NULL, or why there is no answer */
    enum proxy_fault fault;
    const struct response *response;
    const char *head;       /* what the response was read from */
    const struct buf *body; /* without chunks */
};

/* Takes the socket and the request's bytes. done() comes once, later, unless the fetch is dropped
 * before; what the result points to lives as long as the call. NULL: no memory, nothing was taken.
 */
struct fetch *fetch_new(struct loop *loop, int server, struct buf *request, bool is_head,
                        size_t body_max, int timeout_ms,
                        void (*done)(void *arg, const struct fetch_result *result), void *arg);
void fetch_drop(struct fetch *fetch);

#endif
