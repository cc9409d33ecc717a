/* containerFetch(url, init?, port): a request to a server in the sandbox, with its answer as JSON.
 * What is large or streams goes through /sandbox/{id}/proxy/{port}/ instead. */
#include "worker/container_fetch.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "proxy/fetch.h"
#include "worker/port_wait.h"
#include "worker/problem.h"

enum { REQUEST_MAX = 64 * 1024 * 1024, BODY_MAX = 32 * 1024 * 1024, TIMEOUT_MS = 300000 };
enum { REDIRECTS_MAX = 20 };

#define OPERATION "containerFetch"

struct asking {
    struct call *outer;
    struct object *object;
    struct loop *loop;
    struct call call;
    json_t *args; /* of the connect */
    struct port_wait wait;
    struct object_hold hold;
    struct fetch *fetch;
    uint16_t port;
    int redirects;
    bool is_head, follow;
    bool left;    /* nobody wants the answer */
    char *target; /* "/path?query" */
    char *method;
};

static void asking_free(struct asking *asking)
{
    asking->outer->left = NULL;
    loop_disarm(asking->loop, &asking->wait.again);
    object_release(&asking->hold);
    if (asking->fetch)
        fetch_drop(asking->fetch);
    json_decref(asking->args);
    free(asking->target);
    free(asking->method);
    free(asking);
}

static void fail(struct asking *asking, enum code code, const char *why)
{
    struct call *outer = asking->outer;
    json_t *context = json_pack("{s:i, s:s}", "port", asking->port, "reason", why);
    asking_free(asking);
    if (code == CODE_PLAIN_ERROR)
        call_error(outer, code, NULL, context, "Container suddenly disconnected, try again");
    else
        call_error(outer, code, NULL, context, "The server in the container gave no answer: %s",
                   why);
}

/* The answer. */

static json_t *headers_of(const struct fetch_result *result)
{
    json_t *headers = json_object();
    struct span name, value, line;
    const char *at = NULL;
    while (response_field(result->head, result->response, &at, &name, &value, &line)) {
        CLEANUP_BUF struct buf key = BUF_INIT(RESPONSE_HEAD_MAX);
        CLEANUP_BUF struct buf text = BUF_INIT(RESPONSE_HEAD_MAX * 4);
        for (size_t i = 0; i < name.size; i++)
            buf_addc(&key, (char)(name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] | 0x20
                                                                         : name.at[i]));
        const char *before = json_string_value(json_object_get(headers, buf_text(&key)));
        if (before)
            buf_addf(&text, "%s, ", before);
        jsonstr_clean(&text, value.at, value.size, true);
        json_object_set_new(headers, buf_text(&key), json_string(buf_text(&text)));
    }
    return headers;
}

static json_t *result_of(const struct fetch_result *result)
{
    const struct buf *body = result->body;
    const struct response *response = result->response;
    CLEANUP_BUF struct buf encoded = BUF_INIT((size_t)BODY_MAX * 2);
    json_t *text = json_stringn(buf_text(body), body->size); /* NULL when it is not UTF-8 */
    bool binary = !text;
    if (binary && base64_encode(&encoded, body->data, body->size) == 0)
        text = json_stringn(buf_text(&encoded), encoded.size);
    json_t *answer = json_pack("{s:i, s:o, s:o}", "status", response->status, "headers",
                               headers_of(result), "body", text);
    if (answer && binary)
        json_object_set_new(answer, "encoding", json_string("base64"));
    return answer;
}

/* Redirects. */

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* The path of a Location on the same server, malloc'd; or NULL. */
static char *redirect_target(const struct asking *asking, const struct fetch_result *result)
{
    struct span name, value, line;
    const char *at = NULL;
    char here[32];
    int size = snprintf(here, sizeof here, "http://localhost:%u/", asking->port);
    while (response_field(result->head, result->response, &at, &name, &value, &line)) {
        if (!span_is(name, "location") || value.size == 0)
            continue;
        if (value.size >= (size_t)size && strncasecmp(value.at, here, (size_t)size) == 0)
            value = (struct span){value.at + size - 1, value.size - (size_t)size + 1};
        if (value.at[0] != '/' || (value.size > 1 && value.at[1] == '/'))
            return NULL;
        const char *fragment = memchr(value.at, '#', value.size);
        return strndup(value.at, fragment ? (size_t)(fragment - value.at) : value.size);
    }
    return NULL;
}

static void ask_connect(void *arg);

/* As fetch() does it; true when another request is on its way. */
static bool redirected(struct asking *asking, const struct fetch_result *result)
{
    int status = result->response->status;
    bool safe = strcmp(asking->method, "GET") == 0 || asking->is_head;
    if (!asking->follow || !is_redirect(status) || asking->redirects == REDIRECTS_MAX ||
        !(safe || status == 303))
        return false;
    char *target = redirect_target(asking, result);
    char *method = safe ? strdup(asking->method) : strdup("GET");
    if (!target || !method || !container_fetch_is_target(target)) {
        free(target);
        free(method);
        return false;
    }
    free(asking->target);
    free(asking->method);
    asking->target = target;
    asking->method = method;
    asking->redirects++;
    ask_connect(asking);
    return true;
}

static void answered(void *arg, const struct fetch_result *result)
{
    struct asking *asking = arg;
    asking->fetch = NULL; /* frees itself after this */
    object_release(&asking->hold);
    if (result->error) {
        fail(asking, result->fault == PROXY_LOST ? CODE_PLAIN_ERROR : CODE_SERVICE_NOT_RESPONDING,
             result->error);
        return;
    }
    if (redirected(asking, result))
        return;
    struct call *outer = asking->outer;
    json_t *answer = result_of(result);
    asking_free(asking);
    call_result(outer, answer);
}

/* The request. */

static bool is_ours(const char *name)
{
    static const char *const ours[] = {
        "host",    "connection", "content-length", "transfer-encoding",
        "upgrade", "keep-alive", "expect"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strcasecmp(ours[i], name) == 0)
            return true;
    }
    return false;
}

static int add_headers(struct buf *to, const json_t *headers)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)headers, name, value)
    {
        const char *text = json_string_value(value);
        if (!text || !*name || !span_is_token(span_of(name)) || !span_is_value(span_of(text)))
            return -1;
        if (!is_ours(name))
            buf_addf(to, "%s: %s\r\n", name, text);
    }
    return 0;
}

/* 0, or -1 with the answer given. */
static int write_request(const struct asking *asking, struct buf *to)
{
    const json_t *init = json_object_get(asking->outer->args, "init");
    const json_t *body = json_object_get(init, "body");
    bool with_body = json_is_string(body) && asking->redirects == 0;
    buf_addf(to, "%s %s HTTP/1.1\r\nHost: localhost:%u\r\nConnection: close\r\n", asking->method,
             asking->target, asking->port);
    int result = add_headers(to, json_object_get(init, "headers"));
    if (with_body)
        buf_addf(to, "Content-Length: %zu\r\n", json_string_length(body));
    buf_adds(to, "\r\n");
    if (with_body)
        buf_add(to, json_string_value(body), json_string_length(body));
    return result < 0 || to->error ? -1 : 0;
}

/* A connect that is going on is answered first. */
static void stop(struct asking *asking, const char *why)
{
    if (asking->fetch || timer_armed(&asking->wait.again))
        fail(asking, CODE_PLAIN_ERROR, why);
}

static void client_left(struct call *outer)
{
    struct asking *asking = outer->left_arg;
    asking->left = true;
    stop(asking, "the client left");
}

static void container_gone(void *arg)
{
    stop(arg, "the container is gone");
}

static void not_connected(struct asking *asking, struct answer *answer)
{
    struct call *outer = asking->outer;
    if (port_wait_more(&asking->wait, answer, OPERATION))
        return;
    asking_free(asking);
    outer->done(outer, answer);
}

static void connected(struct call *call, struct answer *answer)
{
    struct asking *asking = call->arg;
    struct call *outer = asking->outer;
    CLEANUP_BUF struct buf request = BUF_INIT(REQUEST_MAX);
    if (asking->left) {
        fail(asking, CODE_PLAIN_ERROR, "the client left");
    } else if (answer->code != CODE_OK || !answer->has_socket) {
        not_connected(asking, answer);
    } else if (write_request(asking, &request) < 0) {
        asking_free(asking);
        call_error(outer, CODE_VALIDATION_FAILED, NULL, NULL,
                   "init must have headers of strings, and a body of at most 64 MiB");
    } else if (!asking->hold.object && object_hold(asking->object, &asking->hold, OPERATION) < 0) {
        fail(asking, CODE_PLAIN_ERROR, "the container is gone");
    } else {
        asking->fetch = fetch_new(asking->loop, answer->socket, &request, asking->is_head, BODY_MAX,
                                  TIMEOUT_MS, answered, asking);
        answer->has_socket = !asking->fetch;
        if (!asking->fetch)
            fail(asking, CODE_SERVICE_NOT_RESPONDING, "out of memory");
    }
}

static void ask_connect(void *arg)
{
    struct asking *asking = arg;
    asking->call = (struct call){.args = asking->args, .done = connected, .arg = asking};
    object_call(asking->object, &container_connect, &asking->call);
}

bool container_fetch_is_target(const char *path)
{
    if (*path != '/' || strlen(path) > HEAD_TARGET_MAX)
        return false;
    for (const char *c = path; *c; c++) {
        if (*c <= ' ' || *c >= 127 || *c == '#')
            return false;
    }
    return true;
}

/* "http://any-host/path" or "/path", without what follows '#'; malloc'd, or NULL. */
static char *target_of(const char *url)
{
    if (strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0) {
        url = strchr(url, ':') + 3;
        url += strcspn(url, "/?#");
    }
    size_t size = strcspn(url, "#");
    char *target = NULL;
    if (asprintf(&target, "%s%.*s", *url == '/' ? "" : "/", (int)size, url) < 0)
        return NULL;
    if (container_fetch_is_target(target))
        return target;
    free(target);
    return NULL;
}

/* containerFetch(url, port) or (url, init, port). */
static int64_t port_of(const json_t *args)
{
    const json_t *port = json_object_get(args, "port");
    if (!port && json_is_number(json_object_get(args, "init")))
        port = json_object_get(args, "init");
    double value = port ? json_number_value(port) : 3000;
    return value == (double)(int64_t)value ? (int64_t)value : -1;
}

void container_fetch(struct loop *loop, struct object *object, struct call *call)
{
    const char *url = json_string_value(json_object_get(call->args, "url"));
    const json_t *init = json_object_get(call->args, "init");
    const char *method = json_string_value(json_object_get(init, "method"));
    const char *redirect = json_string_value(json_object_get(init, "redirect"));
    int64_t port = port_of(call->args);
    if (port < 1024 || port > 65535 || port == 3000) {
        call_error(call, CODE_SECURITY_ERROR, NULL, NULL,
                   port == 3000 ? "Invalid port number: %lld. Port 3000 is reserved; name the port "
                                  "of your server"
                                : "Invalid port number: %lld. Must be 1024-65535 and not reserved",
                   (long long)port);
        return;
    }
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking) {
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    *asking = (struct asking){.outer = call,
                              .object = object,
                              .loop = loop,
                              .port = (uint16_t)port,
                              .wait = {.loop = loop,
                                       .object = object,
                                       .hold = &asking->hold,
                                       .again = {.fire = ask_connect, .arg = asking}},
                              .hold = {.gone = container_gone, .arg = asking},
                              .follow = !redirect || strcmp(redirect, "follow") == 0,
                              .target = target_of(url),
                              .method = strdup(method ? method : "GET"),
                              .args = json_pack("{s:i}", "port", (int)port)};
    if (!asking->target || !asking->method || !asking->args || !*asking->method ||
        !span_is_token(span_of(asking->method)) || strcasecmp(asking->method, "CONNECT") == 0) {
        asking_free(asking);
        call_error(call, CODE_VALIDATION_FAILED, NULL, NULL,
                   "url must be an http URL or a path, and init.method a method");
        return;
    }
    asking->is_head = strcmp(asking->method, "HEAD") == 0;
    call->left = client_left;
    call->left_arg = asking;
    port_wait_begin(&asking->wait);
    ask_connect(asking);
}
