#include "worker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "proxy/proxy.h"
#include "worker/bucket_call.h"
#include "worker/methods.h"
#include "worker/parts.h"
#include "worker/problem.h"

const struct op *worker_op(const char *route)
{
    for (const struct op *op = container_ops; op->name; op++) {
        size_t length = strlen(op->method);
        if (strncmp(route, op->method, length) == 0 && route[length] == ' ' &&
            strcmp(route + length + 1, op->path) == 0)
            return op;
    }
    return NULL;
}

static int check_rows(struct error *err)
{
    for (const struct method_row *row = method_rows; row->name; row++) {
        bool found = row->kind == METHOD_LOCAL || row->kind == METHOD_FETCH ||
                     (row->kind == METHOD_BUCKET && bucket_call_known(row->target)) ||
                     (row->kind == METHOD_OP && worker_op(row->target)) ||
                     (row->kind == METHOD_OBJECT && object_method(row->target));
        if (!found)
            return error_set(err, ENOENT, "method '%s' leads to '%s', which does not exist",
                             row->name, row->target);
    }
    return 0;
}

struct worker *worker_new(const struct worker_config *config, struct error *err)
{
    if (check_rows(err) < 0)
        return NULL;
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        error_errno(err, ENOMEM, "worker");
        return NULL;
    }
    worker->config = *config;
    worker->proxy = proxy_new(config->loop, &proxy_limits_default);
    if (!worker->proxy) {
        error_errno(err, ENOMEM, "proxy");
        free(worker);
        return NULL;
    }
    problem_set_faithful(config->faithful);
    return worker;
}

void worker_disconnect(struct worker *worker)
{
    if (!worker)
        return;
    proxy_free(worker->proxy);
    worker->proxy = NULL;
}

struct proxy *worker_proxy(struct worker *worker)
{
    return worker->proxy;
}

void worker_free(struct worker *worker)
{
    worker_disconnect(worker);
    free(worker);
}

/* A request that waits until the clock has been advanced. */
struct waiting {
    struct task task;
    struct worker *worker;
    struct http_request *request; /* NULL once the client has gone */
    void (*route)(struct worker *worker, struct http_request *request);
};

static void waiting_gone(void *arg)
{
    struct waiting *waiting = arg;
    waiting->request = NULL;
}

static void waiting_over(void *arg)
{
    CLEANUP_FREE struct waiting *waiting = arg;
    if (waiting->request)
        waiting->route(waiting->worker, waiting->request);
}

/* Nothing may reach a sandbox between the timers of one advance, or tests that move the clock would
 * not repeat. */
static void when_settled(struct worker *worker, struct http_request *request,
                         void (*route)(struct worker *, struct http_request *))
{
    if (!clock_advancing(worker->config.clock)) {
        route(worker, request);
        return;
    }
    struct waiting *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        problem_reply(request, 500, "INTERNAL_ERROR", NULL, NULL, "Out of memory");
        return;
    }
    waiting->task = (struct task){.run = waiting_over, .arg = waiting};
    waiting->worker = worker;
    waiting->request = request;
    waiting->route = route;
    http_on_gone(request, waiting_gone, waiting);
    clock_when_settled(worker->config.clock, &waiting->task);
}

static void reply_welcome(struct http_request *request)
{
    CLEANUP_BUF struct buf text = BUF_INIT(4096);
    const char *host = http_host(request);
    if (!host)
        host = "localhost";
    buf_adds(&text, "sandpit: a local emulator for Cloudflare Sandboxes\n\n");
    buf_addf(&text, "curl http://%.255s/sandbox/my-box/exec -d '[\"ls -la\"]'\n", host);
    buf_addf(&text,
             "curl http://%.255s/sandbox/my-box/writeFile -d '[\"/workspace/a.txt\", \"hi\"]'\n",
             host);
    buf_addf(&text, "curl http://%.255s/cdn-cgi/local/clock/advance -d '{\"by\": \"10m\"}'\n",
             host);
    http_reply_text(request, 200, "text/plain; charset=utf-8", buf_text(&text));
}

static void root_route(struct worker *worker, struct http_request *request)
{
    const char *method = http_method(request);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        http_set_header(request, "Allow", "GET, HEAD");
        problem_reply(request, 405, "METHOD_NOT_ALLOWED", NULL, "See docs/api.md",
                      "%.20s / is not allowed", method);
    } else if (worker->config.page && http_wants_html(request)) {
        worker->config.page(worker->config.page_arg, request);
    } else {
        reply_welcome(request);
    }
}

void worker_handle(void *arg, struct http_request *request)
{
    struct worker *worker = arg;
    const char *path = http_path(request);
    if (strcmp(path, "/") == 0)
        root_route(worker, request);
    else if (strcmp(path, "/health") == 0)
        http_reply_json(request, 200, json_pack("{s:s}", "status", "ok"));
    else if (worker_forwards(OWNER_WORKER, path))
        when_settled(worker, request, forward_route);
    else if (strncmp(path, "/sandbox/", 9) == 0)
        when_settled(worker, request, method_route);
    else
        when_settled(worker, request, api_route);
}

void face_handle(void *arg, struct http_request *request)
{
    when_settled(arg, request, face_route);
}
