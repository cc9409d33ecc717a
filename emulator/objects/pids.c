/* Older documents name a process by its pid: isProcessRunning(pid), killProcess(pid). The container
 * knows ids, so the list is asked first. An id is taken too. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "objects/internal.h"

struct pid_relay {
    struct call call;
    struct call *outer;
    struct object *object;
    json_t *args; /* of the container's operation */
    json_t *wanted;
};

static void relay_free(struct pid_relay *relay)
{
    json_decref(relay->args);
    json_decref(relay->wanted);
    free(relay);
}

/* Takes args. */
static void ask(struct pid_relay *relay, const char *op, json_t *args,
                void (*done)(struct call *call, struct answer *answer))
{
    json_decref(relay->args);
    relay->args = args;
    relay->call = (struct call){.args = args, .done = done, .arg = relay};
    object_call(relay->object, container_op(op), &relay->call);
}

static void ask_list(struct object *object, struct call *call,
                     void (*done)(struct call *call, struct answer *answer))
{
    struct pid_relay *relay = calloc(1, sizeof *relay);
    if (!relay) {
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "out of memory");
        return;
    }
    relay->outer = call;
    relay->object = object;
    relay->wanted = json_incref(json_object_get(call->args, "processId"));
    ask(relay, "processList", json_object(), done);
}

/* The running process of the list that is meant, or NULL. A pid may have been used before. */
static const json_t *find_running(const json_t *list, const json_t *wanted)
{
    size_t i;
    json_t *process;
    json_array_foreach(json_object_get(list, "processes"), i, process)
    {
        const char *status = json_string_value(json_object_get(process, "status"));
        const json_t *name = json_object_get(process, json_is_string(wanted) ? "id" : "pid");
        bool same = json_is_string(wanted) ? json_equal(name, wanted)
                                           : json_is_integer(name) && json_number_value(name) ==
                                                                          json_number_value(wanted);
        if (same && status && strcmp(status, "running") == 0)
            return process;
    }
    return NULL;
}

static void listed(struct call *call, struct answer *answer)
{
    struct pid_relay *relay = call->arg;
    struct call *outer = relay->outer;
    bool running = find_running(answer->body, relay->wanted) != NULL;
    relay_free(relay);
    if (answer->code != CODE_OK)
        outer->done(outer, answer);
    else
        call_result(outer, json_boolean(running));
}

void process_is_running(struct object *object, struct call *call)
{
    ask_list(object, call, listed);
}

static void killed(struct call *call, struct answer *answer)
{
    struct pid_relay *relay = call->arg;
    struct call *outer = relay->outer;
    relay_free(relay);
    outer->done(outer, answer);
}

static void listed_to_kill(struct call *call, struct answer *answer)
{
    struct pid_relay *relay = call->arg;
    struct call *outer = relay->outer;
    const json_t *process = find_running(answer->body, relay->wanted);
    if (answer->code == CODE_OK && process) {
        ask(relay, "processKill", json_pack("{s:O}", "processId", json_object_get(process, "id")),
            killed);
        return;
    }
    if (answer->code != CODE_OK) {
        relay_free(relay);
        outer->done(outer, answer);
        return;
    }
    json_t *context = json_pack("{s:O}", "processId", relay->wanted);
    double pid = json_number_value(relay->wanted);
    relay_free(relay);
    call_error(outer, CODE_PROCESS_NOT_FOUND, "process.kill", context,
               "Process not found: no process with the pid %.0f runs", pid);
}

void process_kill(struct object *object, struct call *call)
{
    if (json_is_number(json_object_get(call->args, "processId")))
        ask_list(object, call, listed_to_kill);
    else
        object_call(object, container_op("processKill"), call);
}
