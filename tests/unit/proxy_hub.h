/* Exchanges between a real front door and servers that say whatever a test wants. */
#ifndef SANDPIT_TESTS_PROXY_HUB_H
#define SANDPIT_TESTS_PROXY_HUB_H

#include "base/cleanup.h"
#include "http_client.h"
#include "proxy/edit.h"
#include "proxy/internal.h"

/* The server's side of each exchange, in the order they were made. */
enum { SERVERS = 64 };
static struct {
    struct proxy *proxy;
    struct client *servers[SERVERS];
    int count;
    struct proxy_request forward;
    int socket; /* for the exchange that is being taken */
    struct exchange *exchange;
    int upgraded, active, failed, stale, done, reusable;
    bool retry;  /* what stale() says */
    bool reused; /* what the exchange is told */
    const char *token;
    char why[128];
} hub;

static void on_upgraded(void *arg)
{
    hub.upgraded++;
}

static void on_active(void *arg)
{
    hub.active++;
}

static void on_failed(void *arg, enum proxy_fault fault, const char *why,
                      struct proxy_answer *answer)
{
    static const int statuses[] = {[PROXY_LOST] = 500, [PROXY_BAD] = 502, [PROXY_TIMEOUT] = 504};
    hub.failed++;
    snprintf(hub.why, sizeof hub.why, "%s", why);
    answer->status = statuses[fault];
    buf_adds(&answer->body, "no answer");
}

static bool on_stale(void *arg)
{
    hub.stale++;
    return hub.retry;
}

static void on_done(void *arg, int reusable)
{
    hub.done++;
    hub.reusable += reusable >= 0;
    cleanup_fd(&reusable);
}

/* A new server; its other end. */
static int new_server(void)
{
    int pair[2];
    struct client *server = calloc(1, sizeof *server);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    server->in = BUF_INIT(64 * BIG);
    server->fd = pair[0];
    server->watch = (struct watch){.ready = client_ready, .arg = server, .fd = -1};
    loop_watch(seen.loop, &server->watch, server->fd, EPOLLIN);
    hub.servers[hub.count++] = server;
    return pair[1];
}

static void on_taken(void *arg, struct http_taken_socket *socket)
{
    if (socket->fd < 0) {
        close(hub.socket);
        buf_free(&hub.forward.head);
        return;
    }
    struct exchange_start start = {
        .http = seen.server,
        .client = socket->fd,
        .rest = socket->rest,
        .rest_size = socket->rest_size,
        .server = hub.socket,
        .reused = hub.reused,
        .request = &hub.forward,
        .events = {.upgraded = on_upgraded,
                   .active = on_active,
                   .failed = on_failed,
                   .stale = on_stale,
                   .done = on_done},
    };
    hub.exchange = exchange_new(hub.proxy, &start);
}

static bool early(void *arg, enum http_owner owner, const struct http_request *request)
{
    return strncmp(http_path(request), "/p/", 3) == 0;
}

static void handle_some(void *arg, struct http_request *request)
{
    if (strncmp(http_path(request), "/p/", 3) != 0) {
        handle(OWNER_WORKER, request);
        return;
    }
    struct edit_field add[] = {{"X-Added", "yes"}, {NULL, NULL}};
    struct edit edit = {.path = span_of(http_path(request) + 2),
                        .query = http_head(request)->query,
                        .host = "localhost:8080",
                        .token = hub.token,
                        .add = add};
    if (edit_request(request, &edit, &hub.forward) < 0) {
        http_reply_text(request, 431, "text/plain", "too large");
        return;
    }
    hub.socket = new_server();
    http_take(request, on_taken, NULL);
}

static bool set_up_limited(const struct proxy_limits *limits)
{
    struct http_config with = config;
    with.early = early;
    with.handle[OWNER_WORKER] = handle_some;
    memset(&hub, 0, sizeof hub);
    if (!set_up_with(&http_limits_default, &with))
        return false;
    hub.proxy = proxy_new(seen.loop, limits);
    return hub.proxy != NULL;
}

static bool set_up_proxy(void)
{
    return set_up_limited(&proxy_limits_default);
}

static void tear_down_proxy(void)
{
    proxy_free(hub.proxy);
    for (int i = 0; i < hub.count; i++)
        client_free(hub.servers[i]);
    tear_down();
}

static bool has_server(void *arg)
{
    return hub.count >= *(int *)arg;
}

/* Waits for the n-th server, from 1, and for what it gets. */
static struct client *server_gets(int n, const char *text)
{
    if (!run_until(has_server, &n))
        return NULL;
    return gets(hub.servers[n - 1], text, 1) ? hub.servers[n - 1] : NULL;
}

static void says(struct client *client, const char *text)
{
    client_send(client, text, strlen(text));
}

static bool is_done(void *arg)
{
    return hub.done >= *(int *)arg;
}

static void server_close(struct client *server)
{
    loop_unwatch(seen.loop, &server->watch);
    close(server->fd);
    server->fd = -1;
}

/* One request, this answer, and whether it comes through exactly. */
static const char *answer_of(const char *request, const char *answer, bool closes)
{
    static char text[4096];
    int n = hub.count + 1, done = hub.done + 1;
    struct client *client = client_with(request);
    struct client *server = server_gets(n, "\r\n\r\n");
    if (!server)
        return "the server got nothing";
    says(server, answer);
    if (closes)
        server_close(server);
    if (!run_until(is_done, &done))
        return "it was not done";
    if (!closes)
        client_send(client, GET("/html"), strlen(GET("/html")));
    if (closes ? !run_until(is_closed, client) : !gets(client, "<p>hi</p>", 1))
        return "the client's connection is not as it should be";
    const char *next = closes ? NULL
                              : strstr(buf_text(&client->in), "HTTP/1.1 200 OK\r\nContent-Type: "
                                                              "text/html");
    snprintf(text, sizeof text, "%s", buf_text(&client->in));
    if (next)
        text[next - client->in.data] = '\0';
    client_free(client);
    return text;
}

#endif
