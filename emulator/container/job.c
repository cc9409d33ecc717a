#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "container/internal.h"
#include "container/session.h"

static const char interrupted_text[] = "The container went away before the operation was over";

void *job_new(struct container *container, struct call *call, const struct job_kind *kind)
{
    struct job *job = calloc(1, kind->size);
    if (!job) {
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return NULL;
    }
    job->kind = kind;
    job->container = container;
    job->kills = container->kills;
    job->call = call;
    job->args = json_incref((json_t *)call->args);
    job->link = container->jobs_last;
    *job->link = job;
    container->jobs_last = &job->next;
    return job;
}

void job_end(struct job *job)
{
    struct container *container = job->container;
    loop_disarm(container->loop, &job->timer);
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
    else
        container->jobs_last = job->link;
    struct session *session = job->session;
    if (session)
        session_forget(session, job);
    if (job->kind->release)
        job->kind->release(job);
    json_decref(job->args);
    free(job);
    if (session)
        session_pump(session);
}

void job_leave_session(struct job *job)
{
    struct session *session = job->session;
    if (!session)
        return;
    session_forget(session, job);
    session_pump(session);
}

/* What may look like a process that ended by itself. The count is read anew only where something
 * failed; a command that succeeded in spite of a kill is told when the kernel already told us. */
static bool has_failed(const struct answer *answer)
{
    const json_t *exit_code = json_object_get(answer->body, "exitCode");
    return answer->code != CODE_OK || json_integer_value(exit_code) != 0;
}

static void blame_memory(struct job *job, struct answer *answer)
{
    struct container *container = job->container;
    unsigned kills = has_failed(answer) ? container_kills(container) : container->kills;
    bool is_command = answer->code != CODE_OK || json_object_get(answer->body, "exitCode");
    if (kills == job->kills || answer->hint || !is_command)
        return;
    if (asprintf(&answer->hint,
                 "the container ran out of its %llu MiB of memory: the kernel ended %u process%s "
                 "during this call",
                 (unsigned long long)(container->memory_bytes >> 20), kills - job->kills,
                 kills - job->kills == 1 ? "" : "es") < 0)
        answer->hint = NULL;
}

void job_finish(struct job *job, struct answer *answer)
{
    if (job->call)
        blame_memory(job, answer);
    struct call *call = steal_pointer(&job->call);
    job_end(job);
    if (call)
        call_finish(call, answer);
    else
        answer_free(answer);
}

void job_result(struct job *job, json_t *body)
{
    if (!body) {
        job_error(job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    struct answer answer = {.code = CODE_OK, .body = body};
    job_finish(job, &answer);
}

static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    return vasprintf(&text, format, args) < 0 ? NULL : text;
}

void job_error(struct job *job, enum code code, const char *operation, json_t *context,
               const char *format, ...)
{
    struct answer answer = {.code = code, .body = context, .operation = operation};
    va_list args;
    va_start(args, format);
    answer.message = format_text(format, args);
    va_end(args);
    job_finish(job, &answer);
}

void job_reply_error(struct job *job, enum code code, const char *operation, json_t *context,
                     const char *format, ...)
{
    struct answer answer = {.code = code, .body = context, .operation = operation};
    va_list args;
    va_start(args, format);
    answer.message = format_text(format, args);
    va_end(args);
    struct call *call = steal_pointer(&job->call);
    if (call)
        call_finish(call, &answer);
    else
        answer_free(&answer);
}

json_t *job_interrupted_context(const struct container *container, const char *op)
{
    const char *reason =
        container->interrupt_reason ? container->interrupt_reason : "runtime_replaced";
    return json_pack("{s:s,s:s,s:b}", "reason", reason, "operation", op, "retryable", 0);
}

void job_interrupted(struct job *job)
{
    struct container *container = job->container;
    char memory[64] = "";
    if (!container->stopping && container_kills(container) > job->kills)
        snprintf(memory, sizeof memory, ": it ran out of its %llu MiB of memory",
                 (unsigned long long)(container->memory_bytes >> 20));
    job_error(job, CODE_OPERATION_INTERRUPTED, NULL,
              job_interrupted_context(container, job->kind->op), "%s%s", interrupted_text, memory);
}

bool job_lost(struct job *job, const struct agent_answer *answer)
{
    if (answer->value != -EPIPE)
        return false;
    job_interrupted(job);
    return true;
}
