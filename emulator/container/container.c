#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/internal.h"
#include "container/output.h"
#include "container/process.h"
#include "container/session.h"

/* The original's routes. Those that are not served are not listed. */
const struct op container_ops[] = {
    {"ping", "GET", "/api/ping", op_ping, false},
    {"version", "GET", "/api/version", op_version, false},
    {"sessionCreate", "POST", "/api/session/create", op_session_create, false},
    {"sessionList", "GET", "/api/session/list", op_session_list, false},
    {"sessionDelete", "POST", "/api/session/delete", op_session_delete, false},
    {"execute", "POST", "/api/execute", op_execute, false},
    {"read", "POST", "/api/read", op_read, false},
    {"readStream", "POST", "/api/read/stream", op_read_stream, false},
    {"write", "POST", "/api/write", op_write, true},
    {"delete", "POST", "/api/delete", op_delete, false},
    {"rename", "POST", "/api/rename", op_rename, false},
    {"move", "POST", "/api/move", op_move, false},
    {"mkdir", "POST", "/api/mkdir", op_mkdir, false},
    {"listFiles", "POST", "/api/list-files", op_list_files, false},
    {"exists", "POST", "/api/exists", op_exists, false},
    {"interpreterHealth", "GET", "/api/interpreter/health", op_ping, false},
    {"createContext", "POST", "/api/contexts", op_context_create, false},
    {"listContexts", "GET", "/api/contexts", op_context_list, false},
    {"deleteContext", "DELETE", "/api/contexts/{id}", op_context_delete, false},
    {"executeCode", "POST", "/api/execute/code", op_execute_code, false},
    {"gitCheckout", "POST", "/api/git/checkout", op_git_checkout, false},
    {"portWatch", "POST", "/api/port-watch", op_port_watch, false},
    {"portCheck", "POST", "/api/port-check", op_port_check, false},
    {"executeStream", "POST", "/api/execute/stream", op_execute_stream, false},
    {"processStart", "POST", "/api/process/start", op_process_start, false},
    {"processList", "GET", "/api/process/list", op_process_list, false},
    {"processKillAll", "DELETE", "/api/process/kill-all", op_process_kill_all, false},
    {"processKill", "DELETE", "/api/process/{processId}", op_process_kill, false},
    {"processGet", "GET", "/api/process/{processId}", op_process_get, false},
    {"processLogs", "GET", "/api/process/{processId}/logs", op_process_logs, false},
    {"processStream", "GET", "/api/process/{processId}/stream", op_process_stream, false},
    /* What the original has only as RPC, by its names there. No request has such a path. */
    {"readRaw", "RPC", "files.readFile", op_read_raw, false},
    {"writeStream", "RPC", "files.writeFileStream", op_write_stream, false},
    {"exposePort", "POST", "/api/expose-port", op_expose_port, false},
    {"exposedPorts", "GET", "/api/exposed-ports", op_exposed_ports, false},
    {"unexposePort", "DELETE", "/api/exposed-ports/{port}", op_unexpose_port, false},
    {NULL, NULL, NULL, NULL, false},
};

const struct op *container_op(const char *name)
{
    for (const struct op *op = container_ops; op->name; op++) {
        if (strcmp(op->name, name) == 0)
            return op;
    }
    return NULL;
}

void container_call(struct container *container, const struct op *op, struct call *call)
{
    if (container->closed || container->stopping || !container->agent) {
        call_error(call, CODE_OPERATION_INTERRUPTED, NULL, job_interrupted_context(container, op->name),
                   "The container is not running");
        return;
    }
    op->run(container, call);
}

static void container_free(struct container *container)
{
    environment_free(&container->env);
    json_decref(container->exposed);
    free(container->hostname);
    free(container->version);
    free(container->gone_why);
    cleanup_fd(&container->root);
    written_free(&container->written);
    free(container);
}

/* Remembers what was written, before the layer goes. The descriptor that keeps the layer is closed
 * before the tree ends whenever the end is ours, so that the kernel frees it there and not here. */
static void look_back(struct container *container)
{
    if (container->root < 0)
        return;
    written_collect(container->root, &container->written);
    cleanup_fd(&container->root);
    container->root = -1;
}

void container_settle(struct container *container)
{
    if (!container->gone || container->asked || container->closed)
        return;
    container->closed = container->lost = true;
    loop_disarm(container->loop, &container->stop_timer);
    while (container->jobs)
        job_interrupted(container->jobs);
    sessions_close(container);
    interpreter_close(container);
    processes_close(container);
    drains_close(container);
    look_back(container);
    if (container->events.left)
        container->events.left(container->events.arg, &container->written);
    if (container->events.gone)
        container->events.gone(container->events.arg,
                               container->gone_why ? container->gone_why : "gone");
    container_free(container);
}

/* What the driver tells. */

static void root_opened(void *arg, struct agent_answer *answer)
{
    struct container *container = arg;
    if (answer->value == 0 && answer->fd_count == 1 && !container->stopping &&
        written_root_ok(answer->fds[0]))
        container->root = steal_fd(&answer->fds[0]);
}

static void on_ready(void *arg, struct agent *agent)
{
    struct container *container = arg;
    container->agent = agent;
    struct rt_path how = {.open_flags = O_RDONLY | O_DIRECTORY};
    ask_path(container, RT_OPEN, how, "/", NULL, root_opened, container);
    interpreter_open(container);
    if (container->events.ready)
        container->events.ready(container->events.arg);
}

static void on_exited(void *arg, int pid, const struct rt_exit *how)
{
    struct container *container = arg;
    for (struct proc *proc = container->procs; proc; proc = proc->next) {
        if (proc->pid != pid)
            continue;
        container_drop_proc(container, proc);
        proc->ended(proc, how);
        return;
    }
}

static void on_out_of_memory(void *arg, unsigned kills)
{
    struct container *container = arg;
    if (kills <= container->kills)
        return;
    container->kills = kills;
    container_note(container, "container.oom",
                   json_pack("{s:i,s:I}", "kills", (int)kills, "memoryMiB",
                             (json_int_t)(container->memory_bytes >> 20)));
}

unsigned container_kills(struct container *container)
{
    if (container->instance)
        on_out_of_memory(container, instance_kills(container->instance));
    return container->kills;
}

static void on_network(void *arg, enum network_state state, const char *why)
{
    struct container *container = arg;
    if (container->events.network)
        container->events.network(container->events.arg, state, why);
}

/* The agent may answer what it was asked only after this, with -EPIPE; container_settle() waits. */
static void on_gone(void *arg, const char *why)
{
    struct container *container = arg;
    container->lost = true;
    container->exit_code = instance_exit_code(container->instance);
    container->instance = NULL;
    container->gone = true;
    container->gone_why = why ? strdup(why) : NULL;
    container_settle(container);
}

static int prepare(struct container *container, const struct container_spec *spec,
                   struct driver *driver)
{
    container->hostname = strdup(spec->hostname ? spec->hostname : "");
    container->version = strdup(spec->version ? spec->version : "unknown");
    if (!container->hostname || !container->version)
        return -ENOMEM;
    int result = environment_add_list(&container->env, driver_environment(driver));
    if (result == 0)
        result = environment_set(&container->env, "SANDBOX_VERSION", container->version);
    if (result == 0)
        result = environment_add_image(&container->env, spec->image_env);
    if (result == 0)
        result = environment_add_json(&container->env, spec->env, true);
    return result;
}

struct container *container_start(struct loop *loop, struct clock *clock, struct driver *driver,
                                  const struct container_spec *spec, struct container_events events,
                                  struct error *err)
{
    struct container *container = calloc(1, sizeof *container);
    if (!container) {
        error_errno(err, ENOMEM, "start container");
        return NULL;
    }
    /* A shell's input is a pipe, where nothing else guards a write. PID 1 of a container starts
     * with all signals at their defaults again. */
    signal(SIGPIPE, SIG_IGN);
    container->loop = loop;
    container->root = -1;
    container->jobs_last = &container->jobs;
    container->clock = clock;
    container->events = events;
    container->git = spec->git;
    container->memory_bytes = spec->limits.memory_bytes;
    container->interpreter.lean = !spec->python;
    if (prepare(container, spec, driver) < 0) {
        error_errno(err, ENOMEM, "start container");
        container_free(container);
        return NULL;
    }
    struct instance_spec instance = {
        .hostname = spec->hostname,
        .python = spec->python,
        .upper_bytes = spec->upper_bytes,
        .network = spec->network,
        .limits = spec->limits,
    };
    struct instance_events tell = {
        .ready = on_ready,
        .exited = on_exited,
        .out_of_memory = on_out_of_memory,
        .network = on_network,
        .gone = on_gone,
        .arg = container,
    };
    container->instance = driver_start(driver, &instance, tell, err);
    if (!container->instance) {
        error_wrap(err, "start container");
        container_free(container);
        return NULL;
    }
    return container;
}

void container_kill(struct container *container)
{
    container->stopping = true;
    look_back(container);
    if (container->instance)
        instance_kill(container->instance);
}

void container_interrupt_reason(struct container *container, const char *reason)
{
    container->interrupt_reason = reason;
}

int container_exit_code(const struct container *container)
{
    return container->in_time ? 0 : container->exit_code;
}

static void stop_answered(void *arg, struct agent_answer *answer)
{
    struct container *container = arg;
    container->in_time = answer->value >= 0 && !container->overdue;
    container_kill(container);
}

static void stop_overdue(void *arg)
{
    struct container *container = arg;
    container->overdue = true;
    container_kill(container);
}

void container_stop(struct container *container, int grace_ms)
{
    if (container->stopping)
        return;
    container->stopping = true;
    if (!container->agent || grace_ms <= 0) {
        container_kill(container);
        return;
    }
    container->stop_timer = (struct timer){.fire = stop_overdue, .arg = container};
    if (loop_arm(container->loop, &container->stop_timer, MS_NS(grace_ms)) < 0) {
        container_kill(container);
        return;
    }
    ask_signal(container, 0, SIGTERM, RT_SIGNAL_ALL, stop_answered, container);
}

/* Processes. */

void container_add_proc(struct container *container, struct proc *proc)
{
    proc->next = container->procs;
    container->procs = proc;
}

void container_drop_proc(struct container *container, struct proc *proc)
{
    for (struct proc **at = &container->procs; *at; at = &(*at)->next) {
        if (*at == proc) {
            *at = proc->next;
            break;
        }
    }
    proc->pid = 0;
}

void container_note(struct container *container, const char *type, json_t *data)
{
    if (container->events.note)
        container->events.note(container->events.arg, type, data);
    else
        json_decref(data);
}

void container_output(struct container *container, const char *source, const char *stream,
                      const char *data, size_t size)
{
    if (container->events.output)
        container->events.output(container->events.arg, source, stream, data, size);
}

json_t *container_describe(const struct container *container)
{
    json_int_t processes = 0;
    for (const struct proc *proc = container->procs; proc; proc = proc->next)
        processes++;
    json_t *ids = sessions_ids(container);
    processes -= (json_int_t)(json_array_size(ids) + interpreter_processes(container));
    /* Those of a session are its shell's children, which the runtime does not tell of. */
    processes += (json_int_t)processes_in_sessions(container);
    return json_pack("{s:o,s:I}", "sessions", ids, "processes", processes > 0 ? processes : 0);
}

/* Small operations. */

void op_ping(struct container *container, struct call *call)
{
    call_result(call, json_pack("{s:b,s:s,s:o}", "success", 1, "status", "healthy", "timestamp",
                                clock_timestamp(container->clock)));
}

void op_version(struct container *container, struct call *call)
{
    const char *version = environment_get(&container->env, "SANDBOX_VERSION");
    call_result(call,
                json_pack("{s:b,s:s,s:o}", "success", 1, "version", version ? version : "unknown",
                          "timestamp", clock_timestamp(container->clock)));
}
