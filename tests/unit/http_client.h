/* A real server and its clients in one loop. The clients are raw sockets, so that the tests decide
 * which bytes are sent and when. */
#ifndef SANDPIT_TESTS_HTTP_CLIENT_H
#define SANDPIT_TESTS_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "greatest.h"
#include "http/internal.h"

#define HOST "Host: localhost:8787\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

enum { WAIT_MS = 10000, BIG = 1024 * 1024 };

/* What the handler saw, and what it holds. */
static struct {
    struct loop *loop;
    struct http_server *server;
    struct http_request *held; /* of the path /later */
    struct stream *stream;     /* of the path /stream */
    int handled[OWNER_COUNT];
    int gone, aborted, resumed;
    char last[512];
} seen;

static int64_t now_ms(void *arg)
{
    return 784111777000; /* Sun, 06 Nov 1994 08:49:37 GMT */
}

static void on_gone(void *arg)
{
    seen.gone++;
    seen.held = NULL;
}

static void on_resume(void *arg)
{
    seen.resumed++;
}

static void on_aborted(void *arg)
{
    seen.aborted++;
    stream_end(seen.stream);
    seen.stream = NULL;
}

static void start_stream(struct http_request *request)
{
    struct stream_source source = {.resume = on_resume, .aborted = on_aborted};
    seen.stream = stream_new(256 * 1024, source);
    http_reply_stream(request, 200, "text/event-stream", seen.stream);
}

static void handle(enum http_owner owner, struct http_request *request)
{
    const char *path = http_path(request), *word = http_query(request, "word");
    const char *sent = http_header(request, "X-Sent");
    seen.handled[owner]++;
    snprintf(seen.last, sizeof seen.last, "%s %s %s %s %s %zu", http_method(request), path,
             http_label(request), word ? word : "-", sent ? sent : "-", http_body(request)->size);
    if (strcmp(path, "/later") == 0) {
        seen.held = request;
        http_on_gone(request, on_gone, NULL);
    } else if (strcmp(path, "/stream") == 0) {
        start_stream(request);
    } else if (strcmp(path, "/html") == 0) {
        http_reply_text(request, 200, "text/html; charset=utf-8", "<p>hi</p>");
    } else if (strcmp(path, "/release") == 0) {
        http_reply_text(seen.held, 200, "text/plain", "released");
        seen.held = NULL;
        http_reply_text(request, 200, "text/plain", path);
    } else if (strcmp(path, "/error") == 0) {
        http_reply_error(request, 409, "CONFLICT", "wait", "no %s", "luck");
    } else if (strcmp(path, "/bytes") == 0) {
        http_set_header(request, "X-More", "yes");
        http_reply_bytes(request, 200, "application/octet-stream", calloc(1, 8 * BIG), 8 * BIG);
    } else {
        http_reply_json(
            request, 200,
            json_pack("{s:i, s:s}", "size", (int)http_body(request)->size, "path", path));
    }
}

static void handle_worker(void *arg, struct http_request *request)
{
    handle(OWNER_WORKER, request);
}

static void handle_control(void *arg, struct http_request *request)
{
    handle(OWNER_CONTROL, request);
}

static void handle_container(void *arg, struct http_request *request)
{
    handle(OWNER_CONTAINER, request);
}

/* Running the loop until something is so. */

struct wait {
    bool (*done)(void *arg);
    void *arg;
    int64_t until_ns;
    bool was_done;
    struct timer timer;
};

static void wait_fired(void *arg)
{
    struct wait *wait = arg;
    wait->was_done = wait->done && wait->done(wait->arg);
    if (wait->was_done || loop_now_ns() >= wait->until_ns)
        loop_stop(seen.loop);
    else
        loop_arm(seen.loop, &wait->timer, MS_NS(1));
}

static bool run_until(bool (*done)(void *arg), void *arg)
{
    struct wait wait = {.done = done,
                        .arg = arg,
                        .until_ns = loop_now_ns() + MS_NS(WAIT_MS),
                        .timer = {.fire = wait_fired, .arg = &wait}};
    loop_arm(seen.loop, &wait.timer, 0);
    loop_run(seen.loop, NULL);
    loop_disarm(seen.loop, &wait.timer);
    return wait.was_done;
}

/* Clients. */

struct client {
    struct watch watch;
    int fd;
    struct buf in;
    const char *out;
    size_t out_size;
    bool closed, deaf;
    const char *want; /* for has_wanted() */
    int times;
};

static void client_write(struct client *client)
{
    while (client->out_size) {
        ssize_t size = send(client->fd, client->out, client->out_size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size <= 0) {
            if (errno != EAGAIN)
                client->out_size = 0;
            return;
        }
        client->out += size;
        client->out_size -= (size_t)size;
    }
}

static void client_ready(void *arg, uint32_t events)
{
    struct client *client = arg;
    static char data[65536];
    client_write(client);
    if (client->deaf)
        return;
    ssize_t size = recv(client->fd, data, sizeof data, MSG_DONTWAIT);
    if (size > 0)
        buf_add(&client->in, data, (size_t)size);
    else if (size == 0 || errno != EAGAIN)
        client->closed = true;
    if (client->closed)
        loop_unwatch(seen.loop, &client->watch);
    else
        loop_rewatch(seen.loop, &client->watch, EPOLLIN | (client->out_size ? EPOLLOUT : 0));
}

static struct client *client_at(const struct sockaddr *to, socklen_t size)
{
    struct client *client = calloc(1, sizeof *client);
    client->in = BUF_INIT(64 * BIG);
    client->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    client->watch = (struct watch){.ready = client_ready, .arg = client, .fd = -1};
    if (client->fd < 0 || connect(client->fd, to, size) < 0)
        client->closed = true;
    else
        loop_watch(seen.loop, &client->watch, client->fd, EPOLLIN);
    return client;
}

static struct client *client_new(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(http_port(seen.server))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return client_at((struct sockaddr *)&to, sizeof to);
}

static void client_send(struct client *client, const char *data, size_t size)
{
    client->out = data;
    client->out_size = size;
    client_write(client);
    if (client->out_size && client->watch.fd >= 0)
        loop_rewatch(seen.loop, &client->watch, EPOLLIN | EPOLLOUT);
}

static struct client *client_with(const char *text)
{
    struct client *client = client_new();
    client_send(client, text, strlen(text));
    return client;
}

static void client_free(struct client *client)
{
    loop_unwatch(seen.loop, &client->watch);
    if (client->fd >= 0)
        close(client->fd);
    buf_free(&client->in);
    free(client);
}

static bool has_wanted(void *arg)
{
    struct client *client = arg;
    const char *at = buf_text(&client->in);
    int found = 0;
    while ((at = strstr(at, client->want))) {
        found++;
        at++;
    }
    return found >= client->times;
}

static bool is_closed(void *arg)
{
    return ((struct client *)arg)->closed;
}

/* Waits until the text has come so many times. */
static bool gets(struct client *client, const char *text, int times)
{
    client->want = text;
    client->times = times;
    return run_until(has_wanted, client);
}

static bool starts(const struct client *client, const char *text)
{
    return strncmp(buf_text(&client->in), text, strlen(text)) == 0;
}

/* Sends the text on a new connection and waits for its end: the answer starts so and has this. */
static inline bool refused(const char *text, const char *start, const char *part)
{
    struct client *client = client_with(text);
    bool result = run_until(is_closed, client) && starts(client, start) &&
                  strstr(buf_text(&client->in), part) &&
                  strstr(buf_text(&client->in), "Connection: close\r\n");
    if (!result)
        fprintf(stderr, "%s\n", buf_text(&client->in));
    client_free(client);
    return result;
}

/* Set up and tear down. */

static const struct http_config config = {
    .now_ms = now_ms, .handle = {handle_worker, handle_control, handle_container}};

static bool set_up_with(const struct http_limits *limits, const struct http_config *with)
{
    struct error err = {0};
    memset(&seen, 0, sizeof seen);
    seen.loop = loop_new(&err);
    seen.server = http_new_limited(seen.loop, with, limits, &err);
    if (!seen.server)
        fprintf(stderr, "%s\n", err.text);
    return seen.server != NULL;
}

static inline bool set_up(void)
{
    return set_up_with(&http_limits_default, &config);
}

static void tear_down(void)
{
    http_free(seen.server);
    loop_free(seen.loop);
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static inline bool descriptors_are(void *arg)
{
    return open_descriptors() == *(int *)arg;
}

#endif
