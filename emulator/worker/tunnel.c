#include "worker/tunnel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "worker/port_wait.h"

static const char disconnected[] = "Container suddenly disconnected, try again";

struct tunnel {
    struct worker *worker;
    struct http_request *request; /* until it is taken; NULL once the client has gone */
    struct object *object;
    uint16_t port;
    enum face face;
    struct proxy_request forward;
    struct call call;
    json_t *args;
    bool calling; /* the object has not answered yet */
    struct port_wait wait;
    struct object_hold hold;
    unsigned life;
    int server; /* connected, until the proxy has it; else -1 */
    bool reused;
    struct exchange *exchange;
    bool over; /* only the object's answer is waited for */
};

static void tunnel_free(struct tunnel *tunnel)
{
    loop_disarm(tunnel->worker->config.loop, &tunnel->wait.again);
    object_release(&tunnel->hold);
    cleanup_fd(&tunnel->server);
    buf_free(&tunnel->forward.head);
    json_decref(tunnel->args);
    free(tunnel);
}

/* Frees it, now or when the object's answer is there. */
static void tunnel_end(struct tunnel *tunnel)
{
    tunnel->over = true;
    if (tunnel->calling)
        object_release(&tunnel->hold);
    else
        tunnel_free(tunnel);
}

static void client_gone(void *arg)
{
    struct tunnel *tunnel = arg;
    tunnel->request = NULL;
    tunnel_end(tunnel);
}

/* What the proxy tells. */

static void on_upgraded(void *arg)
{
    struct tunnel *tunnel = arg;
    object_hold_quiet(&tunnel->hold);
}

static void on_active(void *arg)
{
    struct tunnel *tunnel = arg;
    object_hold_active(&tunnel->hold);
}

static void on_failed(void *arg, enum proxy_fault fault, const char *why,
                      struct proxy_answer *answer)
{
    static const struct {
        int status;
        const char *code, *error;
    } rows[] = {
        [PROXY_LOST] = {500, "CONTAINER_DISCONNECTED", disconnected},
        [PROXY_BAD] = {502, "BAD_SERVER_ANSWER", "The server's answer is not HTTP/1.1"},
        [PROXY_TIMEOUT] = {504, "SERVER_TIMEOUT", "The server did not answer in time"},
    };
    struct tunnel *tunnel = arg;
    answer->status = rows[fault].status;
    answer->type = "application/json";
    problem_text(&answer->body, rows[fault].code,
                 json_pack("{s:i, s:s}", "port", tunnel->port, "reason", why), "%s",
                 rows[fault].error);
    log_info("port %u of sandbox %s: %d %s", tunnel->port, object_id(tunnel->object),
             answer->status, why);
}

static bool on_stale(void *arg)
{
    struct tunnel *tunnel = arg;
    return tunnel->hold.object &&
           loop_arm(tunnel->worker->config.loop, &tunnel->wait.again, 0) == 0;
}

static void on_done(void *arg, int reusable)
{
    struct tunnel *tunnel = arg;
    tunnel->exchange = NULL;
    if (reusable >= 0 && tunnel->hold.object)
        kept_put(tunnel->worker->proxy, tunnel->object, tunnel->life, tunnel->port, reusable);
    else
        cleanup_fd(&reusable);
    tunnel_end(tunnel);
}

static void container_gone(void *arg)
{
    struct tunnel *tunnel = arg;
    if (tunnel->exchange) {
        exchange_gone(tunnel->exchange, "the container is gone");
    } else if (timer_armed(&tunnel->wait.again)) {
        problem_reply(tunnel->request, 500, "CONTAINER_DISCONNECTED", NULL, NULL, "%s",
                      disconnected);
        tunnel->request = NULL;
        tunnel_end(tunnel);
    }
}

/* Taking over. */

static void on_taken(void *arg, struct http_taken_socket *socket)
{
    struct tunnel *tunnel = arg;
    struct http_server *http = tunnel->worker->http;
    tunnel->request = NULL;
    if (socket->fd >= 0 && !tunnel->worker->proxy) { /* the emulator ends */
        http_close(http, socket->fd);
        socket->fd = -1;
    }
    if (socket->fd < 0) {
        tunnel_end(tunnel);
        return;
    }
    struct exchange_start start = {
        .http = http,
        .client = socket->fd,
        .rest = socket->rest,
        .rest_size = socket->rest_size,
        .server = steal_fd(&tunnel->server),
        .reused = tunnel->reused,
        .request = &tunnel->forward,
        .events = {.upgraded = on_upgraded,
                   .active = on_active,
                   .failed = on_failed,
                   .stale = on_stale,
                   .done = on_done,
                   .arg = tunnel},
    };
    tunnel->exchange = exchange_new(tunnel->worker->proxy, &start);
    if (!tunnel->exchange)
        tunnel_end(tunnel);
    else if (!tunnel->hold.object)
        container_gone(tunnel);
}

/* The port is connected. */
static void take(struct tunnel *tunnel)
{
    struct http_request *request = tunnel->request;
    tunnel->life = object_life(tunnel->object);
    tunnel->worker->http = http_server_of(request);
    log_info("%.32s %.200s to port %u", http_method(request), http_path(request), tunnel->port);
    if (http_take(request, on_taken, tunnel) == 0)
        return;
    problem_reply(request, 500, "INTERNAL_ERROR", NULL, NULL, "Out of memory");
    tunnel->request = NULL;
    tunnel_end(tunnel);
}

static void connect_failed(struct tunnel *tunnel, struct answer *answer)
{
    if (tunnel->exchange) {
        exchange_gone(tunnel->exchange, answer->message ? answer->message : "it is gone");
        return;
    }
    if (port_wait_more(&tunnel->wait, answer, "proxy"))
        return;
    problem_answer(tunnel->request, tunnel->face, tunnel->worker->config.clock, answer);
    tunnel->request = NULL;
    tunnel_end(tunnel);
}

static void connected(struct call *call, struct answer *answer)
{
    struct tunnel *tunnel = call->arg;
    tunnel->calling = false;
    if (tunnel->over) {
        tunnel_free(tunnel);
        return;
    }
    if (answer->code != CODE_OK || !answer->has_socket) {
        connect_failed(tunnel, answer);
        return;
    }
    answer->has_socket = false;
    if (tunnel->exchange) {
        exchange_reconnect(tunnel->exchange, answer->socket);
        return;
    }
    tunnel->server = answer->socket;
    if (!tunnel->hold.object)
        object_hold(tunnel->object, &tunnel->hold, "proxy");
    take(tunnel);
}

static void ask_connect(void *arg)
{
    struct tunnel *tunnel = arg;
    tunnel->calling = true;
    tunnel->call = (struct call){.args = tunnel->args, .done = connected, .arg = tunnel};
    object_call(tunnel->object, &container_connect, &tunnel->call);
}

/* A connection that an earlier request left. */
static bool take_kept(struct tunnel *tunnel)
{
    struct object *object = tunnel->object;
    if (!tunnel->forward.repeatable || !object_is_healthy(object) || object_port_fault(object))
        return false;
    tunnel->server = kept_take(tunnel->worker->proxy, object, object_life(object), tunnel->port);
    if (tunnel->server < 0)
        return false;
    tunnel->reused = true;
    object_hold(object, &tunnel->hold, "proxy");
    take(tunnel);
    return true;
}

static int fill(struct tunnel *tunnel, const struct tunnel_spec *spec)
{
    char host[32];
    snprintf(host, sizeof host, "localhost:%u", spec->port);
    struct edit edit = {.path = spec->path,
                        .query = spec->query,
                        .host = host,
                        .token = http_token(tunnel->request),
                        .answer_fields = spec->answer_fields};
    int result = edit_request(tunnel->request, &edit, &tunnel->forward);
    /* What the container forwards itself comes from the inside. */
    tunnel->args = json_pack("{s:i, s:b}", "port", (int)spec->port, "inside",
                             spec->face == FACE_PROXY);
    return result < 0 ? result : tunnel->args ? 0 : -ENOMEM;
}

void tunnel_start(struct worker *worker, struct http_request *request,
                  const struct tunnel_spec *spec)
{
    struct tunnel *tunnel = calloc(1, sizeof *tunnel);
    if (!tunnel) {
        problem_reply(request, 500, "INTERNAL_ERROR", NULL, NULL, "Out of memory");
        return;
    }
    *tunnel = (struct tunnel){.worker = worker,
                              .request = request,
                              .object = spec->object,
                              .port = spec->port,
                              .face = spec->face,
                              .wait = {.loop = worker->config.loop,
                                       .object = spec->object,
                                       .hold = &tunnel->hold,
                                       .again = {.fire = ask_connect, .arg = tunnel}},
                              .hold = {.gone = container_gone, .arg = tunnel},
                              .server = -1};
    int result = fill(tunnel, spec);
    if (result < 0) {
        if (result == -EMSGSIZE)
            problem_reply(request, 431, "HEAD_TOO_LARGE", NULL, NULL,
                          "The request head is too large to be forwarded");
        else
            problem_reply(request, 500, "INTERNAL_ERROR", NULL, NULL, "Out of memory");
        tunnel_free(tunnel);
        return;
    }
    port_wait_begin(&tunnel->wait);
    http_on_gone(request, client_gone, tunnel);
    if (!take_kept(tunnel))
        ask_connect(tunnel);
}
