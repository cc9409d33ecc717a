#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "raw.h"

enum { CONNECTION_MEMORY = 64 * 1024 }; /* as in the emulator: it bounds what one read takes */

struct answers {
    struct MHD_Response *small, *big;
};

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **context)
{
    struct answers *answers = arg;
    if (!*context) {
        *context = answers;
        return MHD_YES;
    }
    if (*size) {
        *size = 0;
        return MHD_YES;
    }
    bool big = strcmp(url, RAW_HTTP_BIG) == 0;
    return MHD_queue_response(connection, 200, big ? answers->big : answers->small);
}

static struct MHD_Response *make_response(const char *data, size_t size)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, (void *)data, MHD_RESPMEM_PERSISTENT);
    if (response)
        MHD_add_response_header(response, "Content-Type", "application/json");
    return response;
}

/* For one connection all of libmicrohttpd's ways take the same time; with a thread of its own,
 * large bodies are a little faster in epoll than in poll or select. */
static struct MHD_Daemon *start_daemon(struct answers *answers)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, answers,
                            MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)CONNECTION_MEMORY, MHD_OPTION_END);
}

__attribute__((noreturn)) static void serve(int report)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char *block = malloc(RAW_BLOCK);
    if (!block)
        _exit(1);
    memset(block, 'x', RAW_BLOCK);
    struct answers answers = {make_response("{}", 2), make_response(block, RAW_BLOCK)};
    struct MHD_Daemon *daemon = start_daemon(&answers);
    if (!daemon || !answers.small || !answers.big)
        _exit(1);
    int port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    if (write(report, &port, sizeof port) != sizeof port)
        _exit(1);
    for (;;)
        pause();
}

int raw_http_start(struct raw_http *http, struct error *err)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int reading = pair[0];
    CLEANUP_FD int writing = pair[1];
    http->pid = fork();
    if (http->pid < 0)
        return error_errno(err, errno, "fork");
    if (http->pid == 0)
        serve(writing);
    close(steal_fd(&writing));
    if (read(reading, &http->port, sizeof http->port) == sizeof http->port)
        return 0;
    raw_http_stop(http);
    return error_set(err, EPIPE, "libmicrohttpd did not start");
}

void raw_http_stop(struct raw_http *http)
{
    if (http->pid <= 0)
        return;
    kill(http->pid, SIGKILL);
    waitpid(http->pid, NULL, 0);
    *http = (struct raw_http){0};
}
