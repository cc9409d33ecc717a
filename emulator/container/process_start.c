/* POST /api/process/start and /api/execute/stream: how a process starts and tells its end.
 *
 * In a session it is a copy of the shell, so it has its directory, variables and functions, and
 * changes none of them. A wrapper around it tells its pid and later the exit code on a FIFO that
 * only it holds; the end of that FIFO alone means that somebody ended the wrapper. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "base/quote.h"
#include "container/errnos.h"
#include "container/exec.h"
#include "container/process.h"
#include "container/session.h"

enum {
    WRAPPER_MAX = 16 * 1024 * 1024,
    START_MS = 10000, /* from when the shell has forked until the wrapper says its pid */
    TERM_GRACE_MS = 5000,
};

#define NO_WRAPPER "the shell could not start it"

struct start {
    struct job job;
    struct process *process;
    const char *command, *cwd;
    const json_t *env;
    bool begun;  /* it has its turn in the session */
    bool forked; /* and the shell is done with it */
    bool lost;   /* but started nothing */
};

/* Answers. */

static json_t *start_body(const struct process *process)
{
    json_t *body = json_object();
    json_object_set_new(body, "success", json_true());
    json_object_set_new(body, "processId", json_string(process->id));
    if (process->pid)
        json_object_set_new(body, "pid", json_integer(process->pid));
    json_object_set_new(body, "command", json_string(process->command));
    json_object_set_new(body, "timestamp", clock_timestamp(process->container->clock));
    return body;
}

static void answer(struct process *process)
{
    struct job *job = steal_pointer(&process->start);
    loop_disarm(process->container->loop, &process->timer);
    if (process->streamed)
        process_answer_stream(process, job);
    else
        job_result(job, start_body(process));
}

/* The record stays, as `error`. */
static void fail(struct process *process, enum code code, json_t *context, const char *why)
{
    struct job *job = steal_pointer(&process->start);
    process_fail(process, why);
    if (job)
        job_error(job, code, NULL, context, "%s", why);
    else
        json_decref(context);
}

static void fail_start(struct process *process, const char *why)
{
    CLEANUP_FREE char *text = NULL;
    if (asprintf(&text, "Failed to start '%s': %s", process->command, why) < 0)
        text = NULL;
    fail(process, CODE_STREAM_START_ERROR, json_pack("{s:s}", "command", process->command),
         text ? text : why);
}

static void overdue(void *arg)
{
    fail_start(arg, "the shell did not say that it runs");
}

/* The FIFO of the wrapper. */

static void answer_when_started(struct process *process)
{
    const struct start *start = (struct start *)process->start;
    if (start && start->forked && process->pid)
        answer(process);
}

/* The first line is the pid, the second the exit code. */
static void take_line(struct process *process)
{
    char *end;
    process->line[process->line_size] = '\0';
    long value = strtol(process->line, &end, 10);
    bool number = process->line_size > 0 && *end == '\0';
    process->line_size = 0;
    if (!number || value < 0 || value > INT32_MAX)
        return;
    if (!process->pid && value > 1) {
        process->pid = (int)value;
        answer_when_started(process);
        process_end_started(process);
    } else if (process->pid && value <= 255) {
        if (!process->ending)
            process_exited(process, (int)value);
    }
}

static void vanished(struct process *process)
{
    struct start *start = (struct start *)process->start;
    loop_unwatch(process->container->loop, &process->status_watch);
    if (process->pid) {
        if (!process->ending)
            process_end_rest(process);
    } else if (start && !start->forked) {
        start->lost = true; /* the shell is about to say that it is done */
    } else {
        fail_start(process, NO_WRAPPER);
    }
}

static void told(void *arg, uint32_t events)
{
    struct process *process = arg;
    char bytes[64];
    long got = read(process->status_fd, bytes, sizeof bytes);
    process->asked++; /* an answer may bring calls, and these forget records */
    if (got == 0)
        vanished(process);
    for (long i = 0; i < got && !process_is_over(process); i++) {
        if (bytes[i] == '\n')
            take_line(process);
        else if (process->line_size < sizeof process->line - 1)
            process->line[process->line_size++] = bytes[i];
    }
    process->asked--;
}

/* In a session. */

/* The status must be told also under `set -e`, which the command itself keeps. */
static int build_wrapper(const struct start *start, struct buf *to)
{
    int number = start->process->fifos;
    const char *name;
    json_t *value;
    buf_adds(to, "{ (builtin echo $BASHPID>&7\n__s=$-\nbuiltin set +e\n(");
    buf_adds(to, "if [[ $__s == *e* ]];then builtin set -e;fi\n");
    if (start->cwd) {
        CLEANUP_BUF struct buf text = BUF_INIT(WRAPPER_MAX);
        buf_addf(&text, "Failed to change directory to '%s'", start->cwd);
        buf_adds(to, "CDPATH= builtin cd -- ");
        quote_word(to, start->cwd);
        buf_adds(to, " >/dev/null 2>&1||{ builtin printf '%s\\n' ");
        quote_word(to, buf_text(&text));
        buf_adds(to, " >&2;builtin exit 1;}\n");
    }
    json_object_foreach((json_t *)start->env, name, value)
    {
        if (!json_is_string(value))
            continue;
        buf_addf(to, "builtin export %s=", name);
        quote_word(to, json_string_value(value));
        buf_addc(to, '\n');
    }
    return buf_addf(to,
                    "builtin eval \"$__c\")</dev/null >" RT_FIFO_DIR "/%d.1 2>" RT_FIFO_DIR
                    "/%d.2 7>&-\nbuiltin echo $?>&7)&} 7>" RT_FIFO_DIR
                    "/%d.3&&{ builtin disown $!;__s=0;}\n",
                    number, number, number);
}

/* Its turn has come, and its FIFOs are there. */
static void feed(struct start *start)
{
    struct job *job = &start->job;
    CLEANUP_BUF struct buf wrapper = BUF_INIT(WRAPPER_MAX);
    int result = build_wrapper(start, &wrapper);
    if (result == 0)
        result = session_feed_background(job->session, start->command, buf_text(&wrapper));
    if (result == -EPIPE && !job->retried)
        session_requeue(job->session, job);
    else if (result < 0)
        fail_start(start->process, result == -EMSGSIZE ? "the variables are larger than 16 MiB"
                                                       : strerror(-result));
    else
        start->process->fed = true;
}

static void begin(struct job *job)
{
    struct start *start = (struct start *)job;
    start->begun = true;
    if (start->process->fifos)
        feed(start);
}

static void forked(struct job *job, int status)
{
    struct start *start = (struct start *)job;
    struct process *process = start->process;
    if (status != 0) {
        fail_start(process, "the shell could not open its pipes");
        return;
    }
    start->forked = true;
    job_leave_session(job);
    if (start->lost) {
        fail_start(process, NO_WRAPPER);
        return;
    }
    if (process->pid) {
        answer_when_started(process);
        return;
    }
    process->timer = (struct timer){.fire = overdue, .arg = process};
    loop_arm(process->container->loop, &process->timer, MS_NS(START_MS));
}

static void shell_ended(struct job *job, const struct rt_exit *how)
{
    struct start *start = (struct start *)job;
    struct process *process = start->process;
    start->forked = true;
    if (process->pid) {
        answer_when_started(process);
        return;
    }
    if (job->container->stopping) {
        job_interrupted(job);
        return;
    }
    char why[320];
    snprintf(why, sizeof why, "Session '%.250s' shell exited (exit code: %d)", process->session_id,
             how->code);
    fail(process, CODE_SESSION_TERMINATED,
         json_pack("{s:s,s:i}", "sessionId", process->session_id, "exitCode", how->code), why);
}

static void refuse(struct job *job, const char *why)
{
    fail_start(((struct start *)job)->process, why);
}

/* A shell that died gives the job back with its call, to be begun again in another one. */
static void release(struct job *job)
{
    struct start *start = (struct start *)job;
    struct process *process = start->process;
    start->begun = false;
    if (process)
        process->fed = false;
    if (job->call || !process || process->start != job)
        return;
    process->start = NULL;
    if (!process->container->closed)
        process_fail(process, "It was not started");
}

static const struct job_kind start_kind = {
    .op = "processStart",
    .size = sizeof(struct start),
    .begin = begin,
    .status = forked,
    .shell_ended = shell_ended,
    .refuse = refuse,
    .release = release,
};

static void fifos_made(void *arg, struct agent_answer *made)
{
    struct process *process = arg;
    struct start *start = (struct start *)process->start;
    process->asked--;
    if (!start) { /* refused or killed before */
        if (made->value > 0)
            agent_fifos_drop(process->container->agent, made->value);
        return;
    }
    if (made->value < 0) {
        if (made->value != -EPIPE) /* else the container is going, with everybody in it */
            fail_start(process, strerror(-made->value));
        return;
    }
    struct loop *loop = process->container->loop;
    process->fifos = made->value;
    process->status_fd = steal_fd(&made->fds[2]);
    process->status_watch = (struct watch){.ready = told, .arg = process, .fd = -1};
    int result = loop_watch(loop, &process->status_watch, process->status_fd, EPOLLIN);
    for (int i = 0; i < 2 && result == 0; i++)
        result = process_read(process, i, steal_fd(&made->fds[i]));
    if (result < 0)
        fail_start(process, strerror(-result));
    else if (start->begun)
        feed(start);
}

/* Without a session. */

static void timed_out(void *arg)
{
    struct process *process = arg;
    process->timed_out = true;
    process_end(process, PROCESS_FAILED, TERM_GRACE_MS, NULL);
}

static void exited(struct proc *proc, const struct rt_exit *how)
{
    struct process *process = (struct process *)((char *)proc - offsetof(struct process, proc));
    if (!process->ending)
        process_exited(process, how->code);
}

static void spawned(void *arg, struct agent_answer *made)
{
    struct process *process = arg;
    struct container *container = process->container;
    process->asked--;
    if (made->value < 0) {
        char why[96];
        if (made->value == -EPIPE)
            return; /* the container is going, with everybody in it */
        snprintf(why, sizeof why, "%s: %s, spawn '/bin/bash'", errno_name(-made->value),
                 errno_text(-made->value));
        fail_start(process, why);
        return;
    }
    process->pid = process->proc.pid = made->value;
    container_add_proc(container, &process->proc);
    for (int i = 0; i < 2; i++)
        process_read(process, i, steal_fd(&made->fds[i]));
    answer(process);
    if (process->timeout_ms) {
        process->timer = (struct timer){.fire = timed_out, .arg = process};
        loop_arm(container->loop, &process->timer, MS_NS(process->timeout_ms));
    }
    process_end_started(process);
}

static void spawn(struct process *process, const struct exec_args *args)
{
    static const struct rt_slot slots[] = {{0, RT_SLOT_NULL}, {1, RT_SLOT_OUT}, {2, RT_SLOT_OUT}};
    struct container *container = process->container;
    CLEANUP_ENVIRONMENT struct environment env = {0};
    if (environment_add_list(&env, environment_list(&container->env)) < 0 ||
        environment_add_json(&env, args->env, false) < 0) {
        fail_start(process, strerror(ENOMEM));
        return;
    }
    const char *argv[] = {"/bin/bash", "-c", args->command, NULL};
    struct agent_spawn how = {.cwd = args->cwd ? args->cwd : RT_DEFAULT_DIR,
                              .argv = argv,
                              .env = environment_list(&env),
                              .slots = slots,
                              .slot_count = sizeof slots / sizeof *slots,
                              .flags = RT_SPAWN_GROUP};
    process->proc.ended = exited;
    process->asked++;
    ask_spawn(container, &how, spawned, process);
}

/* The operations. */

void process_start(struct container *container, struct call *call, const struct exec_args *args,
                   bool stream)
{
    const char *id = NULL;
    const char *session = args->session_id ? args->session_id : SESSION_DEFAULT;
    if (!stream && !arg_text(call, "processId", false, &id))
        return;
    if (text_is_blank(args->command)) {
        call_error(call, CODE_INVALID_COMMAND, NULL, NULL,
                   "Invalid command: empty command provided");
        return;
    }
    struct process *process = process_new(container, call, id, args->command, session);
    struct start *start = process ? job_new(container, call, &start_kind) : NULL;
    if (!start) {
        if (process)
            process_fail(process, "Out of memory");
        return;
    }
    start->process = process;
    start->command = args->command;
    start->cwd = args->cwd;
    start->env = args->env;
    process->start = &start->job;
    process->streamed = stream;
    if (strcmp(session, SESSION_DISABLED) == 0) {
        process->timeout_ms = stream ? 0 : args->timeout_ms;
        spawn(process, args);
        return;
    }
    process->asked += 2; /* once for us: a failure may come at once, and its answer bring calls */
    ask_fifos_three(container, fifos_made, process);
    process->asked--;
    if (process->start)
        session_submit(process->start, session, args->cwd);
}

/* A command that is missing is one that is empty; the original does not tell the two apart. */
static void start_by_call(struct container *container, struct call *call, bool stream)
{
    struct exec_args args = {0};
    json_t *command = json_object_get(call->args, "command");
    if (!command || json_is_null(command)) {
        call_error(call, CODE_INVALID_COMMAND, NULL, NULL,
                   "Invalid command: empty command provided");
        return;
    }
    if (exec_args_read(call, &args))
        process_start(container, call, &args, stream);
}

void op_process_start(struct container *container, struct call *call)
{
    start_by_call(container, call, false);
}

void op_execute_stream(struct container *container, struct call *call)
{
    start_by_call(container, call, true);
}
