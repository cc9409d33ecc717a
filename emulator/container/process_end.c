/* Ending processes. The runtime does it; here is who asked, and what becomes of the record. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "container/process.h"

enum { TERM_GRACE_MS = 5000, TRIES_MAX = 3, TIMEOUT_EXIT_CODE = 124 };

static void ask(struct process *process, uint32_t grace_ms, bool with_root);

/* Waiting. */

void process_wait_no_more(struct process_waiter *waiter)
{
    if (!waiter->process)
        return;
    for (struct process_waiter **at = &waiter->process->waiters; *at; at = &(*at)->next) {
        if (*at == waiter) {
            *at = waiter->next;
            break;
        }
    }
    waiter->process = NULL;
}

static void wait_for(struct process *process, struct process_waiter *waiter)
{
    waiter->process = process;
    waiter->next = process->waiters;
    process->waiters = waiter;
}

/* What the runtime says. */

static void finish(struct process *process, int exit_code)
{
    if (process->timed_out) {
        char line[64];
        process_read_rest(process);
        snprintf(line, sizeof line, "Command timed out after %lldms",
                 (long long)process->timeout_ms);
        process_add_line(process, line);
        exit_code = TIMEOUT_EXIT_CODE;
    }
    process_finish(process, process->end_as, process->end_as == PROCESS_ERROR ? -1 : exit_code);
}

static void ended(void *arg, struct agent_answer *answer)
{
    struct process *process = arg;
    process->asked--;
    if (answer->value == -EPIPE)
        return; /* the container is going, with everybody in it */
    switch (answer->value) {
    case 0:
    case -ESRCH:
        finish(process, 128 + SIGTERM);
        return;
    case -ETIME:
    case -ETIMEDOUT:
        finish(process, 128 + SIGKILL);
        return;
    default:
        break;
    }
    /* Memory was short, or the worker itself was ended by somebody who ends everything. A pid that
     * is not the wrapper's, whoever said so, is left alone. */
    if (++process->end_tries < TRIES_MAX) {
        ask(process, 0, answer->value != -EPERM && answer->value != -EINVAL);
        return;
    }
    process->ending = false;
    process->end_tries = 0;
    process_tell_waiters(process);
}

static uint64_t inode_of(int fd, uint64_t *device)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    *device = st.st_dev;
    return st.st_ino;
}

static void ask(struct process *process, uint32_t grace_ms, bool with_root)
{
    struct rt_end what = {.grace_ms = grace_ms};
    for (int i = 0; i < 2; i++)
        what.pipes[i] = inode_of(process->pipes[i].fd, &what.device);
    if (process->proc.pid) {
        what.pid = process->proc.pid;
    } else if (with_root && process->status_fd >= 0) {
        what.pid = process->pid;
        what.proof = inode_of(process->status_fd, &what.device);
    }
    process->ending = true;
    process->asked++;
    ask_end(process->container, &what, ended, process);
}

/* It waits for its session, or for the FIFOs: it never runs. */
static void cancel(struct process *process)
{
    struct job *start = steal_pointer(&process->start);
    process->asked++;
    process_finish(process, process->end_as, -1);
    process->asked--;
    job_error(start, CODE_STREAM_START_ERROR, NULL, json_pack("{s:s}", "command", process->command),
              "Process %s was ended before it started", process->id);
}

void process_end(struct process *process, enum process_status as, uint32_t grace_ms,
                 struct process_waiter *waiter)
{
    if (waiter)
        wait_for(process, waiter);
    if (process->ending)
        return;
    process->end_as = as;
    process->end_grace_ms = grace_ms;
    if (process->pid)
        ask(process, grace_ms, true);
    else if (process->start && process->start->session && !process->fed)
        cancel(process);
}

void process_end_started(struct process *process)
{
    if (process->waiters && !process->ending && !process_is_over(process))
        ask(process, process->end_grace_ms, true);
}

void process_end_rest(struct process *process)
{
    process->end_as = PROCESS_KILLED;
    ask(process, TERM_GRACE_MS, false);
}

/* Several at once. */

static void one_over(struct process_waiter *waiter)
{
    struct process_ends *ends = waiter->arg;
    if (--ends->left == 0)
        ends->over(ends->arg);
}

static bool concerns(const struct process *process, const char *session_id)
{
    return !process_is_over(process) &&
           (!session_id || strcmp(process->session_id, session_id) == 0);
}

long process_end_all(struct process_ends *ends, struct container *container, const char *session_id,
                     enum process_status as, uint32_t grace_ms)
{
    size_t room = processes_running(container), count = 0;
    if (room == 0)
        return 0;
    struct process **targets = calloc(room, sizeof *targets);
    ends->waiters = targets ? calloc(room, sizeof *ends->waiters) : NULL;
    if (!ends->waiters) {
        free(targets);
        return -ENOMEM;
    }
    for (struct process *at = container->processes; at; at = at->next) {
        if (!concerns(at, session_id))
            continue;
        at->asked++;
        targets[count++] = at;
    }
    /* One more, so that what is over at once is not taken for all. */
    ends->count = count;
    ends->left = count + 1;
    for (size_t i = 0; i < count; i++) {
        ends->waiters[i] = (struct process_waiter){.over = one_over, .arg = ends};
        targets[i]->asked--;
        process_end(targets[i], as, grace_ms, &ends->waiters[i]);
    }
    free(targets);
    return --ends->left > 0 ? (long)count : 0;
}

void process_ends_close(struct process_ends *ends)
{
    for (size_t i = 0; i < ends->count; i++)
        process_wait_no_more(&ends->waiters[i]);
    free(ends->waiters);
    *ends = (struct process_ends){0};
}

/* DELETE /api/process/{id} */

struct kill {
    struct job job;
    struct process_waiter waiter;
    struct process *process;
};

static void kill_over(struct process_waiter *waiter)
{
    struct kill *kill = waiter->arg;
    const struct process *process = kill->process;
    if (process_is_over(process))
        job_result(&kill->job, json_pack("{s:b,s:s,s:o}", "success", 1, "processId", process->id,
                                         "timestamp", job_timestamp(&kill->job)));
    else
        job_error(&kill->job, CODE_INTERNAL_ERROR, NULL,
                  json_pack("{s:s}", "processId", process->id),
                  "Process %s could not be ended; try again", process->id);
}

static void kill_release(struct job *job)
{
    process_wait_no_more(&((struct kill *)job)->waiter);
}

static const struct job_kind kill_kind = {
    .op = "processKill",
    .size = sizeof(struct kill),
    .release = kill_release,
};

/* Records outlive their session, which the original then looks for. */
static void refuse_kill(const struct process *process, struct call *call)
{
    if (process->status == PROCESS_ERROR)
        call_error(
            call, CODE_INTERNAL_ERROR, NULL,
            json_pack("{s:s,s:s}", "processId", process->id, "sessionId", process->session_id),
            "Failed to kill process %s: Session '%s' not found", process->id, process->session_id);
    else
        call_error(call, CODE_COMMAND_NOT_FOUND, NULL, json_pack("{s:s}", "command", process->id),
                   "Command '%s' not found or already completed in session '%s'", process->id,
                   process->session_id);
}

void op_process_kill(struct container *container, struct call *call)
{
    struct process *process = process_of_call(container, call);
    if (!process)
        return;
    if (process_is_over(process)) {
        refuse_kill(process, call);
        return;
    }
    struct kill *kill = job_new(container, call, &kill_kind);
    if (!kill)
        return;
    kill->process = process;
    kill->waiter = (struct process_waiter){.over = kill_over, .arg = kill};
    process_end(process, PROCESS_KILLED, TERM_GRACE_MS, &kill->waiter);
}

/* DELETE /api/process/kill-all */

struct kill_all {
    struct job job;
    struct process_ends ends;
};

static void kill_all_over(void *arg)
{
    struct kill_all *all = arg;
    job_result(&all->job,
               json_pack("{s:b,s:I,s:o}", "success", 1, "cleanedCount", (json_int_t)all->ends.count,
                         "timestamp", job_timestamp(&all->job)));
}

static void kill_all_release(struct job *job)
{
    process_ends_close(&((struct kill_all *)job)->ends);
}

static const struct job_kind kill_all_kind = {
    .op = "processKillAll",
    .size = sizeof(struct kill_all),
    .release = kill_all_release,
};

void op_process_kill_all(struct container *container, struct call *call)
{
    struct kill_all *all = job_new(container, call, &kill_all_kind);
    if (!all)
        return;
    all->ends.over = kill_all_over;
    all->ends.arg = all;
    long count = process_end_all(&all->ends, container, NULL, PROCESS_KILLED, TERM_GRACE_MS);
    if (count < 0)
        job_error(&all->job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
    else if (count == 0)
        kill_all_over(all);
}
