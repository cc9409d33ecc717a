/* libmicrohttpd, driven from our loop: it parses and writes; the sockets come from the door. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/log.h"
#include "http/internal.h"

enum {
    RUNS_PER_WAKE = 64,
    CONNECTION_MEMORY = 64 * 1024, /* half of it is what one read can take */
    WRITE_STALL_S = 255,           /* a client that takes no byte for so long is dropped */
};

const struct http_limits http_limits_default = {
    .head_ms = 10000,
    .idle_ms = 60000,
    .body_ms = 30000,
    .linger_ms = 2000,
    .backoff_ms = 100,
    .waiting_max = 1024,
    .body_max = 64 * 1024 * 1024,
    .body_step = 1024,
    .linger_max = 96 * 1024 * 1024,
};

/* Running. */

static void arm_timeout(struct http_server *server, MHD_UNSIGNED_LONG_LONG ms)
{
    int64_t in_ns = MS_NS(ms > 3600000 ? 3600000 : (int64_t)ms);
    /* An earlier timer stays: it costs one run too many now and then, and saves work each time. */
    if (!timer_armed(&server->timeout) || server->timeout.due_ns > loop_now_ns() + in_ns)
        loop_arm(server->loop, &server->timeout, in_ns);
}

/* Runs libmicrohttpd until it is quiet; a resume is only seen by the run after it. */
static void pump(void *arg)
{
    struct http_server *server = arg;
    if (server->running) {
        server->again = true;
        return;
    }
    server->running = true;
    MHD_UNSIGNED_LONG_LONG timeout = 0;
    for (int i = 0; i < RUNS_PER_WAKE; i++) {
        server->again = false;
        MHD_run(server->daemon);
        bool waits = MHD_get_timeout(server->daemon, &timeout) == MHD_YES;
        if (server->again || (waits && timeout == 0))
            continue;
        if (waits)
            arm_timeout(server, timeout);
        server->running = false;
        return;
    }
    server->running = false;
    loop_defer(server->loop, &server->pump);
}

static void pump_ready(void *arg, uint32_t events)
{
    pump(arg);
}

void server_run_soon(struct http_server *server)
{
    if (server->running)
        server->again = true;
    else
        loop_defer(server->loop, &server->pump);
}

void server_add(struct http_server *server, int fd, const struct sockaddr *from, socklen_t size)
{
    if (MHD_add_connection(server->daemon, fd, from, size) != MHD_YES)
        log_debug("connection not taken: %s", strerror(errno));
    server_run_soon(server);
}

/* Suspending, and noticing that the client left meanwhile. */

void server_client_left(struct http_request *request)
{
    request->left = true;
    upload_cut(request);
    bool handled = request->phase == PHASE_HANDLED || request->phase == PHASE_UPLOAD;
    if (handled && !request->response && request->gone) {
        void (*gone)(void *arg) = request->gone;
        request->gone = NULL;
        gone(request->gone_arg);
    }
    if (request->stream) {
        struct stream *stream = request->stream;
        request->stream = NULL;
        stream_abort(stream);
    }
}

/* Without a suspended request libmicrohttpd finds out by itself. */
static void watch_ready(void *arg, uint32_t events)
{
    struct connection *connection = arg;
    struct http_request *request = connection->suspended;
    loop_unwatch(connection->server->loop, &connection->watch);
    if (!request)
        return;
    server_client_left(request);
    server_resume(request);
}

void server_suspend(struct http_request *request)
{
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
    struct connection *connection = request->connection;
    connection->suspended = request;
    if (connection->watch.fd >= 0)
        return;
    int result = loop_watch(request->server->loop, &connection->watch, connection->fd, EPOLLRDHUP);
    if (result < 0)
        log_debug("a client that leaves will not be noticed: %s", strerror(-result));
}

void server_pause(struct http_request *request)
{
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
}

void server_resume(struct http_request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    request->connection->suspended = NULL;
    MHD_resume_connection(request->mhd);
    server_run_soon(request->server);
}

/* Connections and their deadlines. */

static void connection_expired(struct expire_node *node)
{
    struct connection *connection = (struct connection *)node;
    /* libmicrohttpd owns the socket and closes it when it reads the end. */
    shutdown(connection->fd, SHUT_RDWR);
}

/* Connections that are about to end, beyond the limit. */
static unsigned ending_max(const struct http_server *server)
{
    return server->limits.connections_max / 8;
}

bool server_has_room(struct http_server *server)
{
    unsigned most = server->limits.connections_max, all = server->connections + server->raw;
    if (all < most)
        return true;
    struct expire_node *oldest = server->idle.first;
    if (!oldest || all >= most + ending_max(server))
        return false;
    expire_stop(oldest);
    connection_expired(oldest);
    return true;
}

static void connection_notify(void *arg, struct MHD_Connection *mhd, void **context,
                              enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = arg;
    struct connection *connection = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        server->connections++;
        *context = connection = calloc(1, sizeof *connection);
        if (!connection)
            return;
        connection->server = server;
        connection->watch = (struct watch){.ready = watch_ready, .arg = connection, .fd = -1};
        connection->fd =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        expire_start(&server->idle, &connection->deadline);
        return;
    }
    server->connections--;
    if (connection) {
        expire_stop(&connection->deadline);
        loop_unwatch(server->loop, &connection->watch);
    }
    free(connection);
}

/* Starting and stopping. */

static size_t keep_escapes(void *arg, struct MHD_Connection *mhd, char *text)
{
    return strlen(text);
}

static void log_line(void *arg, const char *format, va_list args)
{
    char line[256];
    if (!log_enabled(LOG_DEBUG))
        return;
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    log_debug("libmicrohttpd: %s", line);
}

/* Leaves descriptors for sandboxes, storage and streams: half are for connections, an eighth each
 * for those without a head yet and for those being refused. */
static void limit_descriptors(struct http_limits *limits)
{
    struct rlimit files;
    unsigned all = 512;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        all = files.rlim_cur > 32768 ? 32768 : (unsigned)files.rlim_cur;
    if (!limits->connections_max)
        limits->connections_max = all / 2 < 16 ? 16 : all / 2;
    if (limits->waiting_max > all / 8)
        limits->waiting_max = all / 8;
}

static int start_daemon(struct http_server *server, struct error *err)
{
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_SUPPRESS_DATE_NO_CLOCK | MHD_USE_ERROR_LOG | MHD_ALLOW_UPGRADE;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)log_line, server},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, server->limits.connections_max + ending_max(server), NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, WRITE_STALL_S, NULL},
        /* Before 1.0 this only adds answers that are not JSON; request_check() says the same. */
        {MHD_OPTION_STRICT_FOR_CLIENT, request_parser_is_lenient() ? 0 : 1, NULL},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)keep_escapes, server},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)serve_begin, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)serve_end, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_notify, server},
        {MHD_OPTION_END, 0, NULL},
    };
    server->daemon = MHD_start_daemon(flags, 0, NULL, NULL, serve_access, server, MHD_OPTION_ARRAY,
                                      options, MHD_OPTION_END);
    if (!server->daemon)
        return error_errno(err, errno, "start libmicrohttpd");
    int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    int result = loop_watch(server->loop, &server->ready, fd, EPOLLIN);
    return result < 0 ? error_errno(err, -result, "watch libmicrohttpd") : 0;
}

static int start(struct http_server *server, struct error *err)
{
    limit_descriptors(&server->limits);
    expire_init(&server->idle, server->loop, server->limits.idle_ms, connection_expired);
    expire_init(&server->bodies, server->loop, server->limits.body_ms, connection_expired);
    server->ready = (struct watch){.ready = pump_ready, .arg = server, .fd = -1};
    server->timeout = (struct timer){.fire = pump, .arg = server};
    server->pump = (struct task){.run = pump, .arg = server};
    int result = door_open(server, err);
    return result < 0 ? result : start_daemon(server, err);
}

static char *copy(const char *text, bool *failed)
{
    char *result = text ? strdup(text) : NULL;
    *failed |= text && !result;
    return result;
}

struct http_server *http_new_limited(struct loop *loop, const struct http_config *config,
                                     const struct http_limits *limits, struct error *err)
{
    struct http_server *server = calloc(1, sizeof *server);
    if (!server) {
        error_errno(err, ENOMEM, "http server");
        return NULL;
    }
    bool failed = false;
    server->loop = loop;
    server->config = *config;
    server->limits = *limits;
    server->date_second = -1;
    server->config.ip = copy(config->ip, &failed);
    server->config.token = copy(config->token, &failed);
    owner_rules_init(&server->rules, server->config.ip, server->config.token);
    server->rules.previews = config->raw != NULL;
    server->rules.has_domain = config->has_domain;
    server->rules.arg = config->arg;
    if (failed)
        error_errno(err, ENOMEM, "http server");
    if (failed || start(server, err) < 0) {
        http_free(server);
        return NULL;
    }
    return server;
}

struct http_server *http_new(struct loop *loop, const struct http_config *config, struct error *err)
{
    struct http_limits limits = http_limits_default;
    limits.head_ms = config->head_ms ? config->head_ms : limits.head_ms;
    limits.body_ms = config->body_ms ? config->body_ms : limits.body_ms;
    limits.idle_ms = config->idle_ms ? config->idle_ms : limits.idle_ms;
    return http_new_limited(loop, config, &limits, err);
}

static void stop_daemon(struct http_server *server)
{
    loop_unwatch(server->loop, &server->ready);
    loop_cancel(server->loop, &server->pump);
    loop_disarm(server->loop, &server->timeout);
    if (!server->daemon)
        return;
    /* libmicrohttpd aborts the process when it is stopped with a suspended connection. */
    for (struct http_request *request = server->requests; request; request = request->next) {
        if (request->suspended)
            MHD_resume_connection(request->mhd);
        request->suspended = false;
    }
    server->running = true; /* a gone() that resumes others must not start a run */
    MHD_stop_daemon(server->daemon);
}

void http_free(struct http_server *server)
{
    if (!server)
        return;
    if (server->heads.loop)
        door_close(server);
    stop_daemon(server);
    if (server->idle.loop) {
        expire_close(&server->idle);
        expire_close(&server->bodies);
    }
    free((char *)server->config.ip);
    free((char *)server->config.token);
    free(server);
}

uint16_t http_port(const struct http_server *server)
{
    return server->port;
}
