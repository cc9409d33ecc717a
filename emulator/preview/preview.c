#include "preview/preview.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "preview/internal.h"

/* One request, or the requests that follow each other on one connection to one port. */
struct visit {
    struct preview *preview;
    struct visit *next, *previous;
    struct http_server *http;
    struct http_request *request; /* of libmicrohttpd, until it is taken; or NULL */
    int client;                   /* of a raw one, until the proxy has it; else -1 */
    char label[HTTP_LABEL_MAX + 1];
    struct object *object;
    uint16_t port;
    unsigned life;
    struct proxy_request forward;
    struct object_hold hold;
    struct call call;
    json_t *args;
    bool calling; /* the object has not answered yet */
    bool over;    /* only its answer is waited for */
    int server;   /* connected, until the proxy has it; else -1 */
    bool reused;
    struct exchange *exchange;
    struct task settled; /* waits for the end of an advance */
    struct task again;   /* connects anew */
};

/* The end. */

static void visit_free(struct visit *visit)
{
    struct preview *preview = visit->preview;
    *(visit->previous ? &visit->previous->next : &preview->visits) = visit->next;
    if (visit->next)
        visit->next->previous = visit->previous;
    loop_cancel(preview->config.loop, &visit->again);
    object_release(&visit->hold);
    cleanup_fd(&visit->server);
    buf_free(&visit->forward.head);
    json_decref(visit->args);
    free(visit);
}

/* Frees it, now or when the object's answer is there. */
static void visit_end(struct visit *visit)
{
    visit->over = true;
    visit->request = NULL;
    if (visit->calling || visit->settled.queued)
        object_release(&visit->hold);
    else
        visit_free(visit);
}

static void client_gone(void *arg)
{
    visit_end(arg);
}

static void refuse(struct visit *visit, enum refusal_kind kind, const char *detail)
{
    struct proxy_answer answer = {.body = BUF_INIT(16 * 1024)};
    refuse_fill(kind, visit->preview->config.faithful, visit->port, detail, &answer);
    log_info("preview of port %u: %d", visit->port, answer.status);
    if (visit->request)
        http_reply_text(visit->request, answer.status, answer.type, buf_text(&answer.body));
    else if (visit->client >= 0)
        http_raw_reply(visit->http, steal_fd(&visit->client), answer.status, answer.type,
                       visit->forward.is_head ? NULL : buf_text(&answer.body), answer.body.size);
    buf_free(&answer.body);
    visit_end(visit);
}

/* What the proxy tells. */

static void on_upgraded(void *arg)
{
    struct visit *visit = arg;
    object_hold_quiet(&visit->hold);
}

static void on_active(void *arg)
{
    struct visit *visit = arg;
    object_hold_active(&visit->hold);
}

/* The object may be gone with a reset when nothing holds it any more. */
static bool same_life(const struct visit *visit)
{
    return visit->hold.object && object_is_healthy(visit->object) &&
           object_life(visit->object) == visit->life;
}

static void on_failed(void *arg, enum proxy_fault fault, const char *why,
                      struct proxy_answer *answer)
{
    static const enum refusal_kind kinds[] = {
        [PROXY_LOST] = REFUSE_LOST, [PROXY_BAD] = REFUSE_BAD, [PROXY_TIMEOUT] = REFUSE_OVERDUE};
    struct visit *visit = arg;
    bool stale = fault == PROXY_LOST && !same_life(visit);
    refuse_fill(stale ? REFUSE_STALE : kinds[fault], visit->preview->config.faithful, visit->port,
                stale ? NULL : why, answer);
    log_info("preview of port %u: %d %s", visit->port, answer->status, why);
}

static bool on_stale(void *arg)
{
    struct visit *visit = arg;
    if (!visit->hold.object)
        return false;
    loop_defer(visit->preview->config.loop, &visit->again);
    return true;
}

static void on_done(void *arg, int reusable)
{
    struct visit *visit = arg;
    struct preview *preview = visit->preview;
    visit->exchange = NULL;
    if (reusable >= 0 && !preview->closing)
        kept_put(preview->config.proxy, visit->object, visit->life, visit->port, reusable);
    else
        cleanup_fd(&reusable);
    visit_end(visit);
}

static void on_idle(void *arg)
{
    struct visit *visit = arg;
    object_release(&visit->hold);
}

static void container_gone(void *arg)
{
    struct visit *visit = arg;
    if (visit->exchange)
        exchange_gone(visit->exchange, "the container is gone");
}

/* The next request on the same connection. */

/* Whether the exchange can go on with it. */
static bool goes_on(struct visit *visit, const struct http_raw *raw)
{
    const struct preview_config *config = &visit->preview->config;
    struct object *object;
    uint16_t port;
    if (clock_advancing(config->clock) ||
        objects_preview(config->objects, raw->label, &object, &port) != PREVIEW_ACTIVE ||
        object != visit->object || port != visit->port || object_life(object) != visit->life ||
        object_port_fault(object))
        return false;
    struct source source = {
        .head = raw->head, .raw = raw, .path = raw->path, .by_path = raw->by_path};
    buf_free(&visit->forward.head);
    if (request_edit(&source, object_id(object), port, &visit->forward) < 0)
        return false;
    /* What must not be sent twice does not go to a server that may be closing. */
    return visit->forward.repeatable || exchange_is_fresh(visit->exchange);
}

static void on_next(void *arg)
{
    struct visit *visit = arg;
    struct preview *preview = visit->preview;
    struct http_server *http = visit->http;
    struct exchange *exchange = visit->exchange;
    char data[HEAD_MAX + 1];
    struct head head;
    struct http_raw raw;
    bool read = http_raw_next(http, exchange_client(exchange), data, &head, &raw);
    if (read && goes_on(visit, &raw) && object_hold(visit->object, &visit->hold, "preview") == 0) {
        memcpy(visit->label, raw.label, sizeof visit->label);
        exchange_again(exchange, &visit->forward);
        return;
    }
    int client = exchange_leave(exchange); /* the visit is over */
    raw.fd = client;
    if (read)
        preview_raw(preview, &raw);
    else
        http_give(http, client);
}

/* Connecting. */

static void start(struct visit *visit, int client, const char *rest, size_t rest_size)
{
    struct exchange_start how = {
        .http = visit->http,
        .client = client,
        .rest = rest,
        .rest_size = rest_size,
        .server = steal_fd(&visit->server),
        .reused = visit->reused,
        .request = &visit->forward,
        .events = {.upgraded = on_upgraded,
                   .active = on_active,
                   .failed = on_failed,
                   .stale = on_stale,
                   .idle = on_idle,
                   .next = on_next,
                   .done = on_done,
                   .arg = visit},
    };
    visit->exchange = exchange_new(visit->preview->config.proxy, &how);
    if (!visit->exchange)
        visit_end(visit);
    else if (!visit->hold.object)
        container_gone(visit);
}

static void on_taken(void *arg, struct http_taken_socket *socket)
{
    struct visit *visit = arg;
    visit->request = NULL;
    if (socket->fd >= 0 && visit->preview->closing) {
        http_close(visit->http, socket->fd);
        socket->fd = -1;
    }
    if (socket->fd < 0)
        visit_end(visit);
    else
        start(visit, socket->fd, socket->rest, socket->rest_size);
}

static void connected(struct visit *visit)
{
    visit->life = object_life(visit->object);
    if (!visit->hold.object && object_hold(visit->object, &visit->hold, "preview") < 0)
        refuse(visit, REFUSE_STALE, NULL);
    else if (!visit->request)
        start(visit, steal_fd(&visit->client), NULL, 0);
    else if (http_take(visit->request, on_taken, visit) < 0)
        refuse(visit, REFUSE_MEMORY, NULL);
}

static void connect_failed(struct visit *visit, const struct answer *answer)
{
    if (visit->exchange)
        exchange_gone(visit->exchange, answer->message ? answer->message : "it is gone");
    else if (answer->code == CODE_SERVICE_NOT_RESPONDING)
        refuse(visit, REFUSE_SILENT, NULL);
    else if (answer->code == CODE_PLAIN_ERROR)
        refuse(visit, REFUSE_EXPOSE, answer->hint);
    else
        refuse(visit, REFUSE_STALE, NULL);
}

static void asked(struct call *call, struct answer *answer)
{
    struct visit *visit = call->arg;
    visit->calling = false;
    if (visit->over) {
        visit_free(visit);
    } else if (answer->code != CODE_OK || !answer->has_socket) {
        connect_failed(visit, answer);
    } else {
        answer->has_socket = false;
        if (visit->exchange) {
            exchange_reconnect(visit->exchange, answer->socket);
            return;
        }
        visit->server = answer->socket;
        connected(visit);
    }
}

static void ask(struct visit *visit, const struct op *op)
{
    if (!visit->args)
        visit->args = json_pack("{s:i}", "port", (int)visit->port);
    if (!visit->args) {
        if (visit->exchange)
            exchange_gone(visit->exchange, "out of memory");
        else
            refuse(visit, REFUSE_MEMORY, NULL);
        return;
    }
    visit->calling = true;
    visit->call = (struct call){.args = visit->args, .done = asked, .arg = visit};
    object_call(visit->object, op, &visit->call);
}

static void ask_again(void *arg)
{
    ask(arg, &container_connect_running);
}

/* The beginning. */

static void go(struct visit *visit, enum preview_state state)
{
    struct proxy *proxy = visit->preview->config.proxy;
    switch (state) {
    case PREVIEW_INVALID:
        refuse(visit, REFUSE_TOKEN, NULL);
        return;
    case PREVIEW_STALE:
        refuse(visit, REFUSE_STALE, NULL);
        return;
    case PREVIEW_WAKES:
        ask(visit, &container_connect);
        return;
    case PREVIEW_ACTIVE:
        break;
    }
    if (visit->forward.repeatable && !object_port_fault(visit->object))
        visit->server = kept_take(proxy, visit->object, object_life(visit->object), visit->port);
    visit->reused = visit->server >= 0;
    if (visit->reused)
        connected(visit);
    else
        ask(visit, &container_connect_running);
}

static enum preview_state look_up(struct visit *visit)
{
    return objects_preview(visit->preview->config.objects, visit->label, &visit->object,
                           &visit->port);
}

static void advance_over(void *arg)
{
    struct visit *visit = arg;
    if (visit->over)
        visit_free(visit);
    else
        go(visit, look_up(visit));
}

/* Takes what the source has to offer; raw ones close when there is no memory for them. */
static void visit_begin(struct preview *preview, struct http_server *http,
                        const struct source *source)
{
    struct clock *clock = preview->config.clock;
    struct visit *visit = calloc(1, sizeof *visit);
    if (!visit) {
        if (source->raw)
            http_close(http, source->raw->fd);
        else
            http_reply_error(source->request, 500, "INTERNAL_ERROR", NULL, "Out of memory");
        return;
    }
    *visit = (struct visit){.preview = preview,
                            .next = preview->visits,
                            .http = http,
                            .request = source->request,
                            .client = source->raw ? source->raw->fd : -1,
                            .hold = {.gone = container_gone, .arg = visit},
                            .server = -1,
                            .settled = {.run = advance_over, .arg = visit},
                            .again = {.run = ask_again, .arg = visit}};
    memcpy(visit->label, source->label, sizeof visit->label);
    visit->forward.is_head = span_is(source->head->method, "HEAD");
    if (visit->next)
        visit->next->previous = visit;
    preview->visits = visit;
    if (visit->request)
        http_on_gone(visit->request, client_gone, visit);
    enum preview_state state = look_up(visit);
    int result = state == PREVIEW_INVALID
                     ? 0
                     : request_edit(source, object_id(visit->object), visit->port, &visit->forward);
    if (result < 0)
        refuse(visit, result == -EMSGSIZE ? REFUSE_TOO_LONG : REFUSE_MEMORY, NULL);
    else if (state != PREVIEW_INVALID && clock_advancing(clock))
        clock_when_settled(clock, &visit->settled);
    else
        go(visit, state);
}

void preview_raw(void *arg, struct http_raw *raw)
{
    struct source source = {.head = raw->head,
                            .raw = raw,
                            .label = raw->label,
                            .path = raw->path,
                            .by_path = raw->by_path};
    visit_begin(arg, raw->server, &source);
}

void preview_handle(void *arg, struct http_request *request)
{
    struct source source = {.head = http_head(request),
                            .request = request,
                            .label = http_label(request),
                            .path = http_preview_path(request),
                            .by_path = http_preview_by_path(request)};
    visit_begin(arg, http_server_of(request), &source);
}

bool preview_has_domain(void *arg, struct span domain)
{
    struct preview *preview = arg;
    return objects_preview_host(preview->config.objects, domain.at, domain.size);
}

struct preview *preview_new(const struct preview_config *config)
{
    struct preview *preview = calloc(1, sizeof *preview);
    if (preview)
        preview->config = *config;
    return preview;
}

void preview_close(struct preview *preview)
{
    if (preview)
        preview->closing = true;
}

void preview_free(struct preview *preview)
{
    if (!preview)
        return;
    while (preview->visits) {
        cleanup_fd(&preview->visits->client);
        visit_free(preview->visits);
    }
    free(preview);
}
