/* Three WebSocket servers in the sandbox, as the SDK's own test Worker starts them: echo, code and
 * terminal. Those that run already stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "objects/internal.h"

enum { SERVERS = 3, WAIT_MS = 30000, INTERVAL_MS = 50 };

extern const char servers_javascript[], servers_python[];

static const struct {
    const char *name, *process;
    uint16_t port;
} rows[SERVERS] = {
    {"echo", "ws-echo", 8080},
    {"code", "ws-code", 8081},
    {"terminal", "ws-terminal", 8082},
};

static const struct {
    const char *path, *text;
} scripts[] = {
    {"/tmp/ws-servers.js", servers_javascript},
    {"/tmp/ws-servers.py", servers_python},
};

struct servers {
    struct object *object;
    struct call *outer;
    struct call call; /* the step that is going on */
    json_t *args;
    void (*next)(struct servers *servers, const struct answer *answer);
    size_t at;             /* which script or server */
    bool running[SERVERS]; /* before this call */
    struct timer timer;
    int64_t until_ns;
    int started;
    json_t *errors;
    struct object_hold hold; /* so that the object stays while a timer runs */
};

static void servers_end(struct servers *servers)
{
    loop_disarm(servers->object->objects->loop, &servers->timer);
    object_release(&servers->hold);
    json_decref(servers->args);
    json_decref(servers->errors);
    free(servers);
}

static void give_up(struct servers *servers, struct answer *answer)
{
    struct call *outer = servers->outer;
    servers_end(servers);
    outer->done(outer, answer);
}

static void container_gone(void *arg)
{
    struct servers *servers = arg;
    struct call *outer = servers->outer;
    if (!timer_armed(&servers->timer))
        return; /* the step will be answered with an error */
    servers_end(servers);
    call_error(outer, CODE_OPERATION_INTERRUPTED, NULL, NULL,
               "The container went away before the servers were there");
}

static void stepped(struct call *call, struct answer *answer)
{
    struct servers *servers = call->arg;
    json_decref(servers->args);
    servers->args = NULL;
    if (answer->code == CODE_OPERATION_INTERRUPTED || answer->code == CODE_CONTAINER_UNAVAILABLE)
        give_up(servers, answer);
    else
        servers->next(servers, answer);
}

/* Takes args. */
static void step(struct servers *servers, const struct op *op, json_t *args,
                 void (*next)(struct servers *servers, const struct answer *answer))
{
    servers->args = args;
    servers->next = next;
    servers->call = (struct call){.args = args, .done = stepped, .arg = servers};
    object_call(servers->object, op, &servers->call);
}

static void report(struct servers *servers)
{
    int failed = (int)json_array_size(servers->errors);
    struct call *outer = servers->outer;
    struct answer answer = {.code = CODE_OK, .status = failed ? 500 : 200};
    answer.body = json_pack("{s:b, s:i, s:i}", "success", !failed, "serversStarted",
                            servers->started, "serversFailed", failed);
    if (failed)
        json_object_set(answer.body, "errors", servers->errors);
    servers_end(servers);
    call_finish(outer, &answer);
}

static void start_next(struct servers *servers);

static void failed(struct servers *servers, const char *why)
{
    char text[256];
    snprintf(text, sizeof text, "%s server on port %u: %s", rows[servers->at].name,
             rows[servers->at].port, why ? why : "no reason was given");
    json_array_append_new(servers->errors, json_string(text));
    servers->at++;
    start_next(servers);
}

/* Waiting for a port. */

static void look(void *arg);

static void looked(struct servers *servers, const struct answer *answer)
{
    struct loop *loop = servers->object->objects->loop;
    if (answer->code == CODE_OK) {
        servers->started++;
        servers->at++;
        start_next(servers);
    } else if (loop_now_ns() >= servers->until_ns ||
               loop_arm(loop, &servers->timer, MS_NS(INTERVAL_MS)) < 0) {
        failed(servers, answer->message);
    }
}

/* A server that ended will not come any more. */
static void checked(struct servers *servers, const struct answer *answer)
{
    const json_t *process = json_object_get(answer->body, "process");
    const char *status = json_string_value(json_object_get(process, "status"));
    if (answer->code == CODE_OK && status && strcmp(status, "running") != 0)
        failed(servers, "it ended; a sandbox needs node or python3 for it");
    else
        step(servers, &container_connect, json_pack("{s:i, s:b}", "port", (int)rows[servers->at].port, "inside", 1),
             looked);
}

static void look(void *arg)
{
    struct servers *servers = arg;
    step(servers, container_op("processGet"),
         json_pack("{s:s}", "processId", rows[servers->at].process), checked);
}

/* Starting. */

static void started(struct servers *servers, const struct answer *answer)
{
    if (answer->code != CODE_OK) {
        failed(servers, answer->message);
        return;
    }
    servers->until_ns = loop_now_ns() + MS_NS(WAIT_MS);
    look(servers);
}

static void start_next(struct servers *servers)
{
    while (servers->at < SERVERS && servers->running[servers->at])
        servers->at++;
    if (servers->at == SERVERS) {
        report(servers);
        return;
    }
    char command[256];
    const char *name = rows[servers->at].name;
    unsigned port = rows[servers->at].port;
    snprintf(
        command, sizeof command,
        "if command -v node >/dev/null; then exec node %s %s %u; else exec python3 %s %s %u; fi",
        scripts[0].path, name, port, scripts[1].path, name, port);
    step(servers, container_op("processStart"),
         json_pack("{s:s, s:s, s:s}", "command", command, "processId", rows[servers->at].process,
                   "sessionId", object_default_session(servers->object, 0)),
         started);
}

static void written(struct servers *servers, const struct answer *answer)
{
    size_t count = sizeof scripts / sizeof *scripts;
    if (answer->code != CODE_OK) {
        struct call *outer = servers->outer;
        servers_end(servers);
        call_error(outer, CODE_PLAIN_ERROR, NULL, NULL, "The servers could not be written: %s",
                   answer->message ? answer->message : "no reason was given");
        return;
    }
    if (servers->at == 0)
        object_hold(servers->object, &servers->hold, "init");
    if (servers->at == count) {
        servers->at = 0;
        start_next(servers);
        return;
    }
    size_t at = servers->at++;
    step(servers, container_op("write"),
         json_pack("{s:s, s:s, s:s}", "path", scripts[at].path, "content", scripts[at].text,
                   "sessionId", object_default_session(servers->object, 0)),
         written);
}

static void listed(struct servers *servers, const struct answer *answer)
{
    json_t *process;
    size_t index;
    json_array_foreach(json_object_get(answer->body, "processes"), index, process)
    {
        const char *id = json_string_value(json_object_get(process, "id"));
        const char *status = json_string_value(json_object_get(process, "status"));
        for (size_t i = 0; id && status && i < SERVERS; i++)
            servers->running[i] |=
                strcmp(id, rows[i].process) == 0 && strcmp(status, "running") == 0;
    }
    written(servers, answer);
}

void servers_start(struct object *object, struct call *call)
{
    struct servers *servers = calloc(1, sizeof *servers);
    json_t *errors = json_array();
    if (!servers || !errors) {
        free(servers);
        json_decref(errors);
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "out of memory");
        return;
    }
    *servers = (struct servers){.object = object,
                                .outer = call,
                                .errors = errors,
                                .timer = {.fire = look, .arg = servers},
                                .hold = {.gone = container_gone, .arg = servers}};
    step(servers, container_op("processList"), json_object(), listed);
}
