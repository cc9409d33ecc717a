/* A front door and objects for test_worker.c: they keep what the Worker did, and answer as told.
 * They stand in for sandpit_http and sandpit_objects at link time. */
#ifndef SANDPIT_TESTS_WORKER_FAKES_H
#define SANDPIT_TESTS_WORKER_FAKES_H

#include <errno.h>
#include <greatest.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "worker/worker.h"

static struct loop *loop;
static struct clock *virtual_clock;
static bool stop_on_reply;

/* The front door. */

struct pair {
    const char *name, *value;
};

struct http_request {
    const char *method, *path, *label;
    struct pair headers[4], query[4];
    bool html;
    struct buf body;
    int status; /* of the answer; 0 = none yet */
    char *reply;
    char type[64];
    char allow[32];
    char retry[8];
    void (*gone)(void *arg);
    void *gone_arg;
};

static const char *look_up(const struct pair *pairs, const char *name)
{
    for (size_t i = 0; i < 4 && pairs[i].name; i++) {
        if (strcasecmp(pairs[i].name, name) == 0)
            return pairs[i].value;
    }
    return NULL;
}

const char *http_method(const struct http_request *request)
{
    return request->method;
}
const char *http_path(const struct http_request *request)
{
    return request->path;
}
const char *http_header(const struct http_request *request, const char *name)
{
    return look_up(request->headers, name);
}
const char *http_query(const struct http_request *request, const char *name)
{
    return look_up(request->query, name);
}
const char *http_label(const struct http_request *request)
{
    return request->label;
}
const char *http_host(const struct http_request *request)
{
    return "localhost:8787";
}
struct buf http_take_body(struct http_request *request)
{
    struct buf body = request->body;
    request->body = BUF_INIT(body.max);
    return body;
}
const struct buf *http_body(const struct http_request *request)
{
    return &request->body;
}
bool http_whole(const struct http_request *request)
{
    return true;
}

bool http_wants_html(const struct http_request *request)
{
    return request->html;
}
void http_on_gone(struct http_request *request, void (*gone)(void *arg), void *arg)
{
    request->gone = gone;
    request->gone_arg = arg;
}
void http_set_header(struct http_request *request, const char *name, const char *value)
{
    if (strcmp(name, "Allow") == 0)
        snprintf(request->allow, sizeof request->allow, "%s", value);
    if (strcmp(name, "Retry-After") == 0)
        snprintf(request->retry, sizeof request->retry, "%s", value);
}
void http_reply_bytes(struct http_request *request, int status, const char *type, char *data,
                      size_t size)
{
    if (request->status != 0)
        abort(); /* one answer for each request */
    request->status = status;
    request->reply = data;
    snprintf(request->type, sizeof request->type, "%s", type);
    if (stop_on_reply)
        loop_stop(loop);
}
void http_reply_text(struct http_request *request, int status, const char *type, const char *text)
{
    http_reply_bytes(request, status, type, strdup(text), strlen(text));
}
void http_reply_json(struct http_request *request, int status, json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    http_reply_bytes(request, status, "application/json", text, strlen(text));
}
void http_reply_stream(struct http_request *request, int status, const char *type,
                       struct stream *stream)
{
    stream_abort(stream);
    http_reply_text(request, status, type, "a stream");
}

void http_reply_sized(struct http_request *request, int status, const char *type,
                      struct stream *stream, uint64_t size)
{
    stream_abort(stream);
    http_reply_text(request, status, type, "a sized stream");
}

struct stream *http_take_stream(struct http_request *request)
{
    return NULL;
}

bool http_has_body(const struct http_request *request)
{
    return true;
}

/* The objects. */

static struct {
    char id[300], class_name[64], target[64];
    json_t *args;
    char *content;
    int keep_alive, calls;
    char sleep_after[16];
    struct call *held;
    /* What to answer. */
    enum code code;
    const char *result;
    struct answer answer;
    bool hold;
} below;

static const struct object_class python_class = {.name = "SandboxPython"};
static bool has_python_class;

/* Forwarding is tested with real sockets; nothing here reaches these. */

int http_take(struct http_request *request, http_taken *taken, void *arg)
{
    return -ENOMEM;
}

void http_close(struct http_server *server, int fd)
{
}

void http_shut(struct http_server *server, int fd)
{
}

void http_give(struct http_server *server, int fd)
{
}

void http_welcome(struct http_server *server, int fd)
{
}

struct http_server *http_server_of(const struct http_request *request)
{
    return NULL;
}

const char *http_token(const struct http_request *request)
{
    return NULL;
}

const char *http_reason(int status)
{
    return "";
}

const struct head *http_head(const struct http_request *request)
{
    static const struct head head;
    return &head;
}

void http_each_field(struct http_request *request, http_field *field, void *arg)
{
}

const struct op container_connect = {.name = "connect"};

int object_hold(struct object *object, struct object_hold *hold, const char *what)
{
    return -EPIPE;
}

void object_hold_quiet(struct object_hold *hold)
{
}

void object_hold_active(struct object_hold *hold)
{
}

void object_release(struct object_hold *hold)
{
}

bool object_is_healthy(const struct object *object)
{
    return false;
}

struct object_port_wait object_port_wait(struct object *object)
{
    return (struct object_port_wait){0};
}
unsigned object_life(const struct object *object)
{
    return 0;
}

bool object_has_port(const struct object *object, int port)
{
    return false;
}

bool object_port_fault(const struct object *object)
{
    return false;
}

const char *object_id(const struct object *object)
{
    return "";
}

const struct object_class *objects_class(const struct objects *objects, const char *name)
{
    return has_python_class && strcmp(name, python_class.name) == 0 ? &python_class : NULL;
}
int object_id_check(const char *id, const char **code, struct error *err)
{
    if (strlen(id) <= 63)
        return 0;
    *code = "INVALID_SANDBOX_ID_LENGTH";
    return error_set(err, EINVAL, "the id is too long");
}
struct object *objects_get(struct objects *objects, const char *class_name, const char *id,
                           struct error *err)
{
    if (class_name && strcmp(class_name, "Nope") == 0) {
        error_set(err, ENOENT, "no such class");
        return NULL;
    }
    snprintf(below.id, sizeof below.id, "%s", id);
    snprintf(below.class_name, sizeof below.class_name, "%s", class_name ? class_name : "");
    return (struct object *)&below;
}
struct object *objects_by_label(struct objects *objects, const char *label)
{
    return strcmp(label, "3000-box-secret") == 0 ? (struct object *)&below : NULL;
}
int object_configure(struct object *object, const struct object_options *options, struct error *err)
{
    below.keep_alive = options->keep_alive;
    const char *sleep = options->sleep_after ? options->sleep_after : "";
    snprintf(below.sleep_after, sizeof below.sleep_after, "%s", sleep);
    if (strcmp(sleep, "soon") == 0)
        return error_set(err, EINVAL, "invalid time expression soon");
    return 0;
}
const char *object_default_session(struct object *object, int per_call)
{
    return per_call == 0 ? "__DISABLE_SESSION__" : "sandbox-box";
}

static void answer_now(struct call *call)
{
    if (below.code != CODE_OK) {
        call_error(call, below.code, "file.read", json_pack("{s:s}", "path", "/x"), "it failed");
        return;
    }
    struct answer answer = below.answer;
    below.answer = (struct answer){0};
    answer.body = json_loads(below.result ? below.result : "{}", 0, NULL);
    call_finish(call, &answer);
}

static void take_call(const char *target, struct call *call)
{
    snprintf(below.target, sizeof below.target, "%s", target);
    below.calls++;
    json_decref(below.args);
    below.args = json_deep_copy(call->args);
    free(below.content);
    below.content = call->content ? strndup(call->content, call->content_size) : NULL;
    if (below.hold)
        below.held = call;
    else
        answer_now(call);
}
void object_call(struct object *object, const struct op *op, struct call *call)
{
    take_call(op->path, call);
}
static struct object_method any_method;
const struct object_method *object_method(const char *name)
{
    any_method.name = name;
    return &any_method;
}
void object_method_call(struct object *object, const struct object_method *method,
                        struct call *call)
{
    take_call(method->name, call);
}

#define FILE_OP(path)                                                                              \
    {                                                                                              \
        path, "POST", path, NULL, false                                                            \
    }
const struct op container_ops[] = {{"ping", "GET", "/api/ping", NULL, false},
                                   {"version", "GET", "/api/version", NULL, false},
                                   {"write", "POST", "/api/write", NULL, true},
                                   FILE_OP("/api/session/create"),
                                   FILE_OP("/api/session/delete"),
                                   FILE_OP("/api/execute"),
                                   FILE_OP("/api/read"),
                                   FILE_OP("/api/read/stream"),
                                   FILE_OP("/api/delete"),
                                   FILE_OP("/api/rename"),
                                   FILE_OP("/api/move"),
                                   FILE_OP("/api/mkdir"),
                                   FILE_OP("/api/list-files"),
                                   FILE_OP("/api/exists"),
                                   {"writeStream", "RPC", "files.writeFileStream", NULL, false},
                                   FILE_OP("/api/execute/stream"),
                                   FILE_OP("/api/process/start"),
                                   {"processList", "GET", "/api/process/list", NULL, false},
                                   {"processKillAll", "DELETE", "/api/process/kill-all", NULL,
                                    false},
                                   {"processLogs", "GET", "/api/process/{processId}/logs", NULL,
                                    false},
                                   {"processStream", "GET", "/api/process/{processId}/stream", NULL,
                                    false},
                                   {0}};

/* Asking. */

static struct worker *worker;
static struct http_request asked;
static json_t *reply;

static void forget(void)
{
    buf_free(&asked.body);
    free(asked.reply);
    json_decref(reply);
    reply = NULL;
    asked = (struct http_request){0};
}

static void deliver(void (*handle)(void *, struct http_request *), const char *body)
{
    asked.body = BUF_INIT(1 << 20);
    buf_adds(&asked.body, body);
    handle(worker, &asked);
    reply = asked.reply ? json_loads(asked.reply, JSON_DECODE_ANY, NULL) : NULL;
}

/* Asks the Worker; what was asked before is forgotten. */
static void ask(const char *method, const char *path, const char *body)
{
    forget();
    asked.method = method;
    asked.path = path;
    deliver(worker_handle, body);
}

static void ask_face(const char *method, const char *path, const char *body)
{
    forget();
    asked.method = method;
    asked.path = path;
    asked.label = "3000-box-secret";
    deliver(face_handle, body);
}

static const char *text_of(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    return text ? text : "";
}

static void reset(void *arg)
{
    forget();
    json_decref(below.args);
    free(below.content);
    memset(&below, 0, sizeof below);
    has_python_class = false;
}

#define ASSERT_ARGS(wanted)                                                                        \
    do {                                                                                           \
        CLEANUP_FREE char *shown = json_dumps(below.args, JSON_COMPACT | JSON_SORT_KEYS);          \
        ASSERT_STR_EQ(wanted, shown);                                                              \
    } while (0)
#define ASSERT_PROBLEM(wanted_status, wanted_code)                                                 \
    do {                                                                                           \
        ASSERT_EQ(wanted_status, asked.status);                                                    \
        ASSERT_STR_EQ(wanted_code, text_of(reply, "code"));                                        \
        ASSERT(*text_of(reply, "error"));                                                          \
    } while (0)

#endif
