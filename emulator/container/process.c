/* The records of background processes, and what is read from them. */
#include "container/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/random.h"

static const char *const status_names[] = {
    [PROCESS_RUNNING] = "running", [PROCESS_COMPLETED] = "completed", [PROCESS_FAILED] = "failed",
    [PROCESS_KILLED] = "killed",   [PROCESS_ERROR] = "error",
};

const char *process_status_name(enum process_status status)
{
    return status_names[status];
}

struct process *process_find(const struct container *container, const char *id)
{
    for (struct process *process = container->processes; process; process = process->next) {
        if (!process->replaced && strcmp(process->id, id) == 0)
            return process;
    }
    return NULL;
}

void process_unknown(struct call *call, const char *id)
{
    call_error(call, CODE_PROCESS_NOT_FOUND, NULL, json_pack("{s:s}", "processId", id),
               "Process %s not found", id);
}

/* The process that a call names; NULL after an error was answered. */
struct process *process_of_call(struct container *container, struct call *call)
{
    const char *id = NULL;
    if (!arg_text(call, "processId", true, &id))
        return NULL;
    struct process *process = process_find(container, id);
    if (!process)
        process_unknown(call, id);
    return process;
}

/* Reading. */

static json_t *time_json(int64_t ms)
{
    char text[25];
    clock_format(ms, text);
    return json_string(text);
}

/* The list has no end times. */
static json_t *describe(const struct process *process, bool with_end)
{
    json_t *body = json_object();
    json_object_set_new(body, "id", json_string(process->id));
    if (process->pid)
        json_object_set_new(body, "pid", json_integer(process->pid));
    json_object_set_new(body, "command", json_string(process->command));
    json_object_set_new(body, "status", json_string(process_status_name(process->status)));
    json_object_set_new(body, "startTime", time_json(process->started_ms));
    if (with_end && process_is_over(process))
        json_object_set_new(body, "endTime", time_json(process->ended_ms));
    if (process_is_over(process) && process->exit_code >= 0)
        json_object_set_new(body, "exitCode", json_integer(process->exit_code));
    return body;
}

static void add_listed(const struct container *container, json_t *list, const char *status,
                       bool over)
{
    for (const struct process *process = container->processes; process; process = process->next) {
        if (process->replaced || process_is_over(process) != over)
            continue;
        if (!status || strcmp(status, process_status_name(process->status)) == 0)
            json_array_append_new(list, describe(process, false));
    }
}

/* Those that run come first, as in the original, which keeps the others on its disk. */
void op_process_list(struct container *container, struct call *call)
{
    const char *status = NULL;
    if (!arg_text(call, "status", false, &status))
        return;
    json_t *list = json_array();
    add_listed(container, list, status && *status ? status : NULL, false);
    add_listed(container, list, status && *status ? status : NULL, true);
    call_result(call, json_pack("{s:b,s:o,s:o}", "success", 1, "processes", list, "timestamp",
                                clock_timestamp(container->clock)));
}

void op_process_get(struct container *container, struct call *call)
{
    const struct process *process = process_of_call(container, call);
    if (process)
        call_result(call,
                    json_pack("{s:b,s:o,s:o}", "success", 1, "process", describe(process, true),
                              "timestamp", clock_timestamp(container->clock)));
}

/* The life of a record. */

enum {
    PROCESSES_MAX = 1000,
    FORGOTTEN_TOLD = 100, /* one event for so many; the first comes at once */
    ID_MAX = 1024,
    COMMANDS_MAX = 64 * 1024 * 1024, /* bytes of all commands; one may have as many */
};

static void process_free(struct process *process)
{
    process->container->log_bytes -= process->counted;
    process->container->command_bytes -= process->command ? strlen(process->command) : 0;
    for (int i = 0; i < 2; i++)
        buf_free(&process->out[i].text);
    free(process->id);
    free(process->command);
    free(process->session_id);
    free(process);
}

static bool can_go(const struct process *process)
{
    return process_is_over(process) && !process->followers && !process->asked && !process->start;
}

static void tell_forgotten(struct container *container, const char *id)
{
    if (container->processes_forgotten++ % FORGOTTEN_TOLD == 0)
        container_note(container, "process.forgotten",
                       json_pack("{s:s,s:i,s:I}", "processId", id, "kept", PROCESSES_MAX, "count",
                                 (json_int_t)container->processes_forgotten));
}

static void unlink_process(struct process **at)
{
    struct process *process = *at;
    *at = process->next;
    process->container->process_count--;
    process_free(process);
}

static bool is_full(const struct container *container)
{
    return container->process_count >= PROCESSES_MAX || container->command_bytes > COMMANDS_MAX;
}

/* Room for one more: false when all that there are run. */
static bool make_room(struct container *container)
{
    struct process **at = &container->processes;
    while (is_full(container) && *at) {
        if (!can_go(*at)) {
            at = &(*at)->next;
            continue;
        }
        tell_forgotten(container, (*at)->id);
        unlink_process(at);
    }
    return !is_full(container);
}

/* The original forgets the one that had the id; here it can still be killed with all others. */
static void replace(struct container *container, const char *id)
{
    for (struct process **at = &container->processes; *at; at = &(*at)->next) {
        if ((*at)->replaced || strcmp((*at)->id, id) != 0)
            continue;
        (*at)->replaced = true;
        if (can_go(*at))
            unlink_process(at);
        return;
    }
}

/* "proc_<ms>_<6 base36>" */
static char *make_id(const struct container *container)
{
    char tail[7], *id = NULL;
    random_text(tail, 6, "0123456789abcdefghijklmnopqrstuvwxyz");
    if (asprintf(&id, "proc_%lld_%s", (long long)clock_now_ms(container->clock), tail) < 0)
        return NULL;
    return id;
}

static struct process *allocate(struct container *container, const char *id, const char *command,
                                const char *session_id)
{
    struct process *process = calloc(1, sizeof *process);
    if (!process)
        return NULL;
    process->container = container;
    process->id = id && *id ? strdup(id) : make_id(container);
    process->command = strdup(command);
    container->command_bytes += process->command ? strlen(command) : 0;
    process->session_id = strdup(session_id);
    if (!process->id || !process->command || !process->session_id) {
        process_free(process);
        return NULL;
    }
    return process;
}

struct process *process_new(struct container *container, struct call *call, const char *id,
                            const char *command, const char *session_id)
{
    if (id && strlen(id) > ID_MAX) {
        arg_invalid(call, "processId", "INVALID_PROCESS_ID", "'processId' is longer than %d bytes",
                    ID_MAX);
        return NULL;
    }
    if (!make_room(container)) {
        call_error(call, CODE_STREAM_START_ERROR, NULL, json_pack("{s:s}", "command", command),
                   "%zu processes run already", container->process_count);
        return NULL;
    }
    struct process *process = allocate(container, id, command, session_id);
    if (!process) {
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return NULL;
    }
    if (id && *id)
        replace(container, id);
    bool by_line = strcmp(session_id, SESSION_DISABLED) != 0;
    for (int i = 0; i < 2; i++) {
        process->out[i] = TRANSCRIPT_INIT(by_line);
        process->pipes[i] = (struct process_pipe){process, -1, WATCH_INIT, false};
    }
    process->status_fd = -1;
    process->status_watch = WATCH_INIT;
    process->exit_code = -1;
    process->started_ms = clock_now_ms(container->clock);
    process->born_ns = loop_now_ns();
    struct process **at = &container->processes;
    while (*at)
        at = &(*at)->next;
    *at = process;
    container->process_count++;
    return process;
}

/* Everything that only a running process has. */
static void let_go(struct process *process)
{
    struct container *container = process->container;
    loop_disarm(container->loop, &process->timer);
    loop_unwatch(container->loop, &process->status_watch);
    if (process->status_fd >= 0)
        close(process->status_fd);
    process->status_fd = -1;
    if (process->proc.pid)
        container_drop_proc(container, &process->proc);
    if (process->fifos && !container->lost)
        agent_fifos_drop(container->agent, process->fifos);
    process->fifos = 0;
}

void process_tell_waiters(struct process *process)
{
    process->asked++; /* an answer may bring calls, and these forget records */
    while (process->waiters) {
        struct process_waiter *waiter = process->waiters;
        process->waiters = waiter->next;
        waiter->process = NULL;
        waiter->over(waiter);
    }
    process->asked--;
}

/* A streamed command is over when its client hears so; that needs no event. */
static void tell_end(const struct process *process)
{
    if (process->streamed)
        return;
    json_t *data = json_pack("{s:s,s:s}", "processId", process->id, "status",
                             process_status_name(process->status));
    if (process->exit_code >= 0)
        json_object_set_new(data, "exitCode", json_integer(process->exit_code));
    container_note(process->container, "process.exited", data);
}

void process_finish(struct process *process, enum process_status status, int exit_code)
{
    process_read_rest(process);
    let_go(process);
    process->status = status;
    process->exit_code = exit_code;
    process->ended_ms = clock_now_ms(process->container->clock);
    process->ending = false;
    tell_end(process);
    process_wake(process);
    process_tell_waiters(process);
}

void process_exited(struct process *process, int exit_code)
{
    enum process_status status = exit_code == 0 ? PROCESS_COMPLETED : PROCESS_FAILED;
    if (exit_code == 128 + SIGKILL || exit_code == 128 + SIGTERM)
        status = PROCESS_KILLED;
    process_finish(process, status, exit_code);
}

void process_fail(struct process *process, const char *why)
{
    process_add_line(process, why);
    process_finish(process, PROCESS_ERROR, -1);
}

size_t processes_running(const struct container *container)
{
    size_t count = 0;
    for (const struct process *process = container->processes; process; process = process->next)
        count += !process_is_over(process);
    return count;
}

size_t processes_in_sessions(const struct container *container)
{
    size_t count = 0;
    for (const struct process *process = container->processes; process; process = process->next)
        count += !process_is_over(process) && !process->proc.pid;
    return count;
}

/* The jobs are gone already, and with them followers and starts. */
void processes_close(struct container *container)
{
    while (container->processes) {
        struct process *process = container->processes;
        process->waiters = NULL;
        for (int i = 0; i < 2; i++) {
            loop_unwatch(container->loop, &process->pipes[i].watch);
            if (process->pipes[i].fd >= 0)
                close(process->pipes[i].fd);
        }
        let_go(process);
        unlink_process(&container->processes);
    }
}
