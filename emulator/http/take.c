/* Taking a connection away from libmicrohttpd, and giving it back to the door.
 *
 * libmicrohttpd hands a socket out only as an upgrade, after it has sent a 101 that nobody may see,
 * but then with all it has read beyond the head, which is what there is no other way to get. So the
 * socket is first moved to another descriptor, and a socket of ours that leads nowhere takes its
 * place and swallows the 101. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "http/internal.h"

/* What is on its way from http_take() to its callback. */
struct take {
    struct http_server *server;
    struct take *next, *previous;
    http_taken *taken;
    void *arg;
    int fd;      /* the socket; -1 until it was moved */
    int swallow; /* the other end of what took its place */
    struct buf body;
};

static void take_free(struct take *take)
{
    *(take->previous ? &take->previous->next : &take->server->takes) = take->next;
    if (take->next)
        take->next->previous = take->previous;
    cleanup_fd(&take->fd);
    cleanup_fd(&take->swallow);
    buf_free(&take->body);
    free(take);
}

/* Calls back with the socket, or without one when that failed. */
static void take_finish(struct take *take, const void *rest, size_t size)
{
    struct http_taken_socket socket = {.fd = steal_fd(&take->fd), .rest = rest, .rest_size = size};
    if (socket.fd >= 0)
        take->server->raw++;
    take->taken(take->arg, &socket);
    take_free(take);
}

/* Replaces what the connection's descriptor means, in libmicrohttpd's epoll too: its data is the
 * connection, and its events are these, as in every version so far. */
static int swap(struct take *take, struct http_request *request)
{
    CLEANUP_FD int ours = -1;
    CLEANUP_FD int theirs = -1;
    int pair[2], fd = request->connection->fd;
    int epoll = MHD_get_daemon_info(take->server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLET,
                                .data.ptr = request->mhd};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    theirs = pair[1];
    take->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (take->fd < 0)
        return -errno;
    loop_unwatch(take->server->loop, &request->connection->watch);
    bool watched = epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL) == 0;
    if (dup3(theirs, fd, O_CLOEXEC) < 0 ||
        (watched && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0))
        log_debug("a connection could not be taken: %s", strerror(errno)); /* it closes by itself */
    take->swallow = steal_fd(&ours);
    return 0;
}

static void upgraded(void *arg, struct MHD_Connection *mhd, void *context, const char *extra,
                     size_t size, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    struct take *take = arg;
    struct http_request *request = context;
    struct http_server *server = take->server;
    request->take = NULL;
    take_finish(take, extra, size);
    MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    server_run_soon(server); /* for the rest of the close */
}

/* HTTP/1.0 knows no upgrade, and nothing can follow its request: the body was read before. */
static enum MHD_Result take_whole(struct take *take, struct http_request *request)
{
    request->take = NULL;
    take_finish(take, take->body.data, take->body.size);
    return MHD_NO;
}

enum MHD_Result take_queue(struct http_request *request)
{
    struct take *take = request->take;
    struct MHD_Response *response = NULL;
    request->phase = PHASE_ANSWERED;
    if (swap(take, request) < 0)
        return MHD_NO; /* completed() tells the taker */
    if (request->head.minor == 0)
        return take_whole(take, request);
    response = MHD_create_response_for_upgrade(upgraded, take);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_UPGRADE, "raw");
    enum MHD_Result result =
        MHD_queue_response(request->mhd, MHD_HTTP_SWITCHING_PROTOCOLS, response);
    MHD_destroy_response(response);
    return result;
}

void take_failed(struct http_request *request)
{
    struct take *take = request->take;
    request->take = NULL;
    cleanup_fd(&take->fd);
    take->fd = -1;
    take_finish(take, NULL, 0);
}

int http_take(struct http_request *request, http_taken *taken, void *arg)
{
    struct http_server *server = request->server;
    struct take *take = calloc(1, sizeof *take);
    if (!take)
        return -ENOMEM;
    *take = (struct take){.server = server,
                          .taken = taken,
                          .arg = arg,
                          .fd = -1,
                          .swallow = -1,
                          .next = server->takes};
    if (request->head.minor == 0)
        take->body = http_take_body(request);
    if (take->next)
        take->next->previous = take;
    server->takes = take;
    request->take = take;
    request->gone = NULL;
    if (!request->handling)
        server_resume(request);
    return 0;
}

void http_close(struct http_server *server, int fd)
{
    server->raw--;
    close(fd);
}

void http_shut(struct http_server *server, int fd)
{
    server->raw--;
    door_linger(server, fd);
}

void http_give(struct http_server *server, int fd)
{
    server->raw--;
    door_again(server, fd);
}

void http_welcome(struct http_server *server, int fd)
{
    door_again(server, fd);
}

const char *http_token(const struct http_request *request)
{
    return request->server->config.token;
}

const char *http_reason(int status)
{
    return MHD_get_reason_phrase_for((unsigned)status);
}

struct http_server *http_server_of(const struct http_request *request)
{
    return request->server;
}

const struct head *http_head(const struct http_request *request)
{
    return &request->head;
}

struct each {
    http_field *field;
    void *arg;
};

static enum MHD_Result each_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    const struct each *each = arg;
    each->field(each->arg, span_of(name), span_of(value ? value : ""));
    return MHD_YES;
}

void http_each_field(struct http_request *request, http_field *field, void *arg)
{
    struct each each = {field, arg};
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, each_field, &each);
}
