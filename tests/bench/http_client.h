/* A raw HTTP client on one kept connection. Requests are made once and sent many times, so that
 * what is measured is the server. */
#ifndef SANDPIT_BENCH_HTTP_CLIENT_H
#define SANDPIT_BENCH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

struct client {
    int fd;
    struct buf in;
    size_t head_size; /* 0 until the head is complete */
    size_t body_end;  /* where the body ends in `in`; where the next chunk begins when chunked */
    bool chunked;
    int status;
};
#define CLIENT_INIT ((struct client){.fd = -1})
#define CLEANUP_CLIENT __attribute__((cleanup(client_close)))

int client_open(struct client *client, int port, struct error *err);
void client_close(struct client *client);

/* Puts a POST with a JSON body into `request`, which it empties first. */
int client_post(struct buf *request, const char *path, const char *body, size_t size);

int client_send(struct client *client, const struct buf *request, struct error *err);
/* One recv(2). 1 when the answer is complete, 0 when there is more to come. */
int client_receive(struct client *client, struct error *err);
/* The body of a complete answer; a chunked one with its frames, which is enough to look into it. */
const char *client_body(const struct client *client);

/* Sends, and receives until the answer is complete. A status other than 200, or a body without
 * `expected` (may be NULL), is an error that quotes the body. */
int client_exchange(struct client *client, const struct buf *request, const char *expected,
                    struct error *err);

#endif
