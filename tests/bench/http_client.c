#include "http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { ANSWER_MAX = 8 * 1024 * 1024, RECEIVE = 256 * 1024, QUOTED = 300, ANSWER_S = 30 };

int client_open(struct client *client, int port, struct error *err)
{
    *client = CLIENT_INIT;
    client->in = BUF_INIT(ANSWER_MAX);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&to, sizeof to) < 0)
        return error_errno(err, errno, "connect to port %d", port);
    int one = 1;
    struct timeval patience = {.tv_sec = ANSWER_S};
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return 0;
}

void client_close(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    buf_free(&client->in);
    *client = CLIENT_INIT;
}

int client_post(struct buf *request, const char *path, const char *body, size_t size)
{
    buf_clear(request);
    int result = buf_addf(request,
                          "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                          "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                          path, size);
    return result < 0 ? result : buf_add(request, body, size);
}

int client_send(struct client *client, const struct buf *request, struct error *err)
{
    buf_clear(&client->in);
    client->head_size = client->body_end = 0;
    client->chunked = false;
    client->status = 0;
    for (size_t done = 0; done < request->size;) {
        ssize_t sent = send(client->fd, request->data + done, request->size - done, MSG_NOSIGNAL);
        if (sent < 0)
            return error_errno(err, errno, "send a request");
        done += (size_t)sent;
    }
    return 0;
}

static const char *header(const char *head, const char *name)
{
    const char *line = strcasestr(head, name);
    return line ? line + strlen(name) : NULL;
}

/* 1 when the head is complete, 0 when not, or a negative errno. */
static int read_head(struct client *client, struct error *err)
{
    char *end = memmem(client->in.data, client->in.size, "\r\n\r\n", 4);
    if (!end)
        return 0;
    *end = '\0'; /* the search for headers must not run into the body */
    const char *head = client->in.data;
    if (sscanf(head, "HTTP/1.1 %d", &client->status) != 1)
        return error_set(err, EPROTO, "no HTTP answer: %.80s", head);
    client->head_size = (size_t)(end - head) + 4;
    client->body_end = client->head_size;
    const char *length = header(head, "\r\nContent-Length:");
    client->chunked = header(head, "\r\nTransfer-Encoding: chunked") != NULL;
    if (length)
        client->body_end += strtoul(length, NULL, 10);
    return 1;
}

/* Goes from chunk to chunk as far as they have come; 1 after the last one. */
static int pass_chunks(struct client *client)
{
    while (client->body_end < client->in.size) {
        const char *text = buf_text(&client->in), *line = text + client->body_end;
        const char *end = memmem(line, client->in.size - client->body_end, "\r\n", 2);
        if (!end)
            return 0;
        size_t size = strtoul(line, NULL, 16);
        size_t next = (size_t)(end - text) + 2 + size + 2;
        if (next > client->in.size)
            return 0;
        client->body_end = next;
        if (size == 0)
            return 1;
    }
    return 0;
}

int client_receive(struct client *client, struct error *err)
{
    int failed = 0;
    char *to = buf_reserve(&client->in, RECEIVE, &failed);
    if (!to)
        return error_errno(err, -failed, "receive an answer");
    ssize_t got = recv(client->fd, to, RECEIVE, 0);
    if (got < 0)
        return error_errno(err, errno, "receive an answer");
    if (got == 0)
        return error_set(err, EPIPE, "the server closed the connection");
    buf_commit(&client->in, (size_t)got);
    if (!client->head_size) {
        int result = read_head(client, err);
        if (result <= 0)
            return result;
    }
    return client->chunked ? pass_chunks(client) : client->in.size >= client->body_end;
}

const char *client_body(const struct client *client)
{
    return client->in.data + client->head_size;
}

int client_exchange(struct client *client, const struct buf *request, const char *expected,
                    struct error *err)
{
    int result = client_send(client, request, err);
    if (result < 0)
        return result;
    do {
        result = client_receive(client, err);
    } while (result == 0);
    if (result < 0)
        return result;
    if (client->status != 200 || (expected && !strstr(client_body(client), expected)))
        return error_set(err, EPROTO, "answer %d: %.*s", client->status, QUOTED,
                         client_body(client));
    return 0;
}
