/* GET /api/process/{id}/logs. In the original a start takes so long that a quick command has
 * printed before its client can ask, and clients rely on it; here the answer to the start is there
 * first. So who asks for the logs of a process that has just been started and is silent waits a
 * moment: until it prints or ends, or the moment is over. */
#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "container/process.h"

enum { MOMENT_MS = 250, LOOK_MS = 2 };

struct logs {
    struct job job;
    struct process *process;
};

static void release(struct job *job)
{
    ((struct logs *)job)->process->asked--;
}

static const struct job_kind logs_kind = {
    .op = "process.logs", .size = sizeof(struct logs), .release = release};

/* NULL without memory. */
static json_t *log_json(const struct transcript *log)
{
    CLEANUP_BUF struct buf text = BUF_INIT((size_t)TRANSCRIPT_LINE_MAX * 7);
    size_t size;
    const char *from = transcript_at(log, log->base, &size);
    if (log->base > 0)
        transcript_gap(&text, log->base);
    jsonstr_clean(&text, from, size, false);
    return text.error ? NULL : json_stringn_nocheck(buf_text(&text), text.size);
}

/* NULL without memory. */
static json_t *describe(const struct process *process)
{
    json_t *out = log_json(&process->out[0]);
    json_t *err = log_json(&process->out[1]);
    if (!out || !err) {
        json_decref(out);
        json_decref(err);
        return NULL;
    }
    return json_pack("{s:b,s:s,s:o,s:o,s:o}", "success", 1, "processId", process->id, "stdout", out,
                     "stderr", err, "timestamp", clock_timestamp(process->container->clock));
}

static bool is_settled(const struct process *process)
{
    return process_is_over(process) || process->out[0].ready || process->out[1].ready ||
           loop_now_ns() - process->born_ns > MS_NS(MOMENT_MS);
}

static void look(void *arg)
{
    struct logs *logs = arg;
    struct container *container = logs->job.container;
    if (!is_settled(logs->process) &&
        loop_arm(container->loop, &logs->job.timer, MS_NS(LOOK_MS)) == 0)
        return;
    json_t *body = describe(logs->process);
    if (body)
        job_result(&logs->job, body);
    else
        job_error(&logs->job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
}

void op_process_logs(struct container *container, struct call *call)
{
    struct process *process = process_of_call(container, call);
    struct logs *logs = process ? job_new(container, call, &logs_kind) : NULL;
    if (!logs)
        return;
    logs->process = process;
    process->asked++;
    logs->job.timer = (struct timer){.fire = look, .arg = logs};
    look(logs);
}
