/* A socket to a server inside the container: 127.0.0.1, then ::1, in the
 * container's own network namespace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "container/internal.h"

enum { CONNECT_MS = 5000 }; /* a server that does not accept fills its queue, and then this waits */

struct connecting {
    struct job job;
    uint16_t port;
    bool ipv6;
    int fd; /* -1 while there is none */
    struct watch watch;
};

static void release(struct job *job)
{
    struct connecting *connecting = (struct connecting *)job;
    loop_unwatch(job->container->loop, &connecting->watch);
    cleanup_fd(&connecting->fd);
}

static const struct job_kind kind = {
    .op = "connect", .size = sizeof(struct connecting), .release = release};

static void ask(struct connecting *connecting);

static void refused(struct connecting *connecting, int error)
{
    struct job *job = &connecting->job;
    if (error == ECONNREFUSED && !connecting->ipv6) {
        connecting->ipv6 = true;
        ask(connecting);
        return;
    }
    json_t *context = json_pack("{s:i, s:s}", "port", connecting->port, "error", strerror(error));
    if (error == ECONNREFUSED)
        job_error(job, CODE_SERVICE_NOT_RESPONDING, NULL, context,
                  "Connection refused: the container is not listening on port %u",
                  connecting->port);
    else
        job_error(job, CODE_SERVICE_NOT_RESPONDING, NULL, context,
                  "Cannot connect to port %u of the container: %s", connecting->port,
                  strerror(error));
}

static void connected(struct connecting *connecting)
{
    struct answer answer = {
        .code = CODE_OK, .has_socket = true, .socket = steal_fd(&connecting->fd)};
    job_finish(&connecting->job, &answer);
}

static void ready(void *arg, uint32_t events)
{
    struct connecting *connecting = arg;
    int error = 0;
    socklen_t size = sizeof error;
    loop_unwatch(connecting->job.container->loop, &connecting->watch);
    loop_disarm(connecting->job.container->loop, &connecting->job.timer);
    if (getsockopt(connecting->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == 0) {
        connected(connecting);
        return;
    }
    cleanup_fd(&connecting->fd);
    connecting->fd = -1;
    refused(connecting, error);
}

static void overdue(void *arg)
{
    struct connecting *connecting = arg;
    connecting->ipv6 = true; /* nothing else is tried */
    refused(connecting, ETIMEDOUT);
}

static void answered(void *arg, struct agent_answer *answer)
{
    struct connecting *connecting = arg;
    struct loop *loop = connecting->job.container->loop;
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (job_lost(&connecting->job, answer))
        return;
    if (answer->value < 0 || answer->fd_count < 1) {
        refused(connecting, answer->value < 0 ? -answer->value : EPROTO);
        return;
    }
    connecting->fd = steal_fd(&answer->fds[0]);
    if (getpeername(connecting->fd, (struct sockaddr *)&peer, &size) == 0) {
        connected(connecting); /* loopback takes no time */
        return;
    }
    connecting->watch = (struct watch){.ready = ready, .arg = connecting, .fd = -1};
    connecting->job.timer = (struct timer){.fire = overdue, .arg = connecting};
    if (loop_watch(loop, &connecting->watch, connecting->fd, EPOLLOUT) < 0 ||
        loop_arm(loop, &connecting->job.timer, MS_NS(CONNECT_MS)) < 0)
        refused(connecting, ENOMEM);
}

static void ask(struct connecting *connecting)
{
    ask_connect(connecting->job.container, connecting->port, connecting->ipv6, answered,
                connecting);
}

static void op_connect(struct container *container, struct call *call)
{
    struct connecting *connecting = job_new(container, call, &kind);
    if (!connecting)
        return;
    connecting->fd = -1;
    connecting->watch = WATCH_INIT;
    connecting->port = (uint16_t)json_integer_value(json_object_get(call->args, "port"));
    ask(connecting);
}

const struct op container_connect = {.name = "connect", .run = op_connect};
const struct op container_connect_running = {.name = "connect", .run = op_connect};
