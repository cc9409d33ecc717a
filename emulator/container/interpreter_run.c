/* Running code: the runs of a context take turns in its process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/interpreter.h"
#include "container/interpreter_context.h"
#include "container/interpreter_events.h"

enum { WAITING_MAX = 10000 };

struct code_run {
    struct job job;
    struct context *context; /* which it waits for or holds, or NULL */
    struct code_run *next;
    const char *code;
    struct code_events events;
};

static json_t *about(const struct context *context)
{
    return json_pack("{s:s}", "contextId", context->id);
}

/* The queue. */

static void enqueue(struct context *context, struct code_run *run)
{
    run->context = context;
    *context->tail = run;
    context->tail = &run->next;
    context->waiting++;
}

static struct code_run *dequeue(struct context *context)
{
    struct code_run *run = context->head;
    if (!run)
        return NULL;
    context->head = run->next;
    if (!context->head)
        context->tail = &context->head;
    run->next = NULL;
    context->waiting--;
    return run;
}

/* It is neither waiting nor running any more. */
static void forget(struct code_run *run)
{
    struct context *context = run->context;
    run->context = NULL;
    if (context->running == run) {
        context->running = NULL;
        return;
    }
    for (struct code_run **at = &context->head; *at; at = &(*at)->next) {
        if (*at != run)
            continue;
        *at = run->next;
        if (context->tail == &run->next)
            context->tail = at;
        context->waiting--;
        return;
    }
}

/* The interpreter goes on with the code, as the original's does, and the next run waits for it. */
static void timed_out(void *arg)
{
    struct code_run *run = arg;
    job_reply_error(&run->job, CODE_CODE_EXECUTION_ERROR, NULL, about(run->context),
                    "Code execution timeout after %lldms", (long long)run->job.timeout_ms);
}

static void pump(struct context *context)
{
    struct executor *executor = context->executor;
    if (context->running || !executor || executor->busy)
        return;
    struct code_run *run = dequeue(context);
    if (!run)
        return;
    context->running = run;
    if (run->job.timeout_ms) {
        run->job.timer = (struct timer){.fire = timed_out, .arg = run};
        loop_arm(run->job.container->loop, &run->job.timer, MS_NS(run->job.timeout_ms));
    }
    executor_send(executor, "run", run->code, strlen(run->code));
}

/* Results. */

static void over(void *arg)
{
    job_end(arg);
}

/* What the process gave becomes the run's; false when it is too much. */
static bool collect(struct code_run *run, struct executor *executor, struct buf *lines)
{
    loop_disarm(run->job.container->loop, &run->job.timer);
    if (executor->out[0].overflow || executor->out[1].overflow)
        return false;
    for (int i = 0; i < 2; i++) {
        run->events.printed[i] = executor->out[i].data;
        executor->out[i].data = BUF_INIT(OUTPUT_MAX);
    }
    run->events.lines = *lines;
    *lines = BUF_INIT(0);
    run->events.over = over;
    run->events.arg = run;
    return true;
}

static void deliver(struct code_run *run, bool complete)
{
    struct job *job = &run->job;
    if (!job->call) {
        job_end(job); /* it timed out */
        return;
    }
    if (!complete) {
        job_error(job, CODE_CODE_EXECUTION_ERROR, NULL, NULL, "The code printed more than %d MiB",
                  OUTPUT_MAX >> 20);
        return;
    }
    struct stream *stream = code_events_open(&run->events, job->container->loop);
    if (!stream) {
        job_error(job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    struct answer answer = {.code = CODE_OK, .stream = stream};
    call_finish(steal_pointer(&job->call), &answer);
}

static void answered(struct executor *executor, struct buf *lines)
{
    struct context *context = executor->owner;
    struct code_run *run = context->running;
    if (!run)
        return;
    forget(run);
    bool complete = collect(run, executor, lines);
    pump(context);
    deliver(run, complete);
}

/* Ends. */

void context_refuse_all(struct context *context, enum code code, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct code_run *run;
    while ((run = context->running ? context->running : context->head)) {
        forget(run);
        job_error(&run->job, code, NULL, about(context), "%s", text);
    }
}

static void refuse_dead(struct context *context)
{
    context_refuse_all(context, CODE_INTERNAL_ERROR,
                       "The %s process of context %s has terminated (%s); create a new context",
                       language_row(context->language)->name, context->id, context->end);
}

static void ended(struct executor *executor, int error)
{
    struct context *context = executor->owner;
    struct container *container = context->container;
    context->executor = NULL;
    executor_describe_end(executor, context->end, sizeof context->end);
    if (container->stopping || container->lost)
        return; /* the jobs are interrupted with the container */
    container_note(container, "interpreter.exited",
                   json_pack("{s:s,s:s,s:i,s:s}", "contextId", context->id, "language",
                             language_row(context->language)->name, "exitCode", executor->how.code,
                             "why", context->end));
    refuse_dead(context);
}

void context_adopt(struct context *context, struct executor *executor)
{
    static const struct executor_events events = {answered, ended};
    context->executor = executor;
    executor->events = &events;
    executor->owner = context;
}

/* The operation. */

static void release(struct job *job)
{
    struct code_run *run = (struct code_run *)job;
    if (run->context)
        forget(run);
    code_events_close(&run->events);
}

static const struct job_kind run_kind = {
    .op = "executeCode",
    .size = sizeof(struct code_run),
    .release = release,
};

/* False after an error was answered. */
static bool fits(struct context *context, struct call *call, const char *name)
{
    enum language language;
    language_find(name, &language);
    if (name && *name && language != context->language) {
        call_error(call, CODE_CODE_EXECUTION_ERROR, NULL, about(context),
                   "Context %s runs %s, not %s", context->id, language_row(context->language)->name,
                   language_row(language)->name);
        return false;
    }
    if (context->waiting >= WAITING_MAX) {
        call_error(call, CODE_CODE_EXECUTION_ERROR, NULL, about(context),
                   "More than %d runs wait for context %s", WAITING_MAX, context->id);
        return false;
    }
    return true;
}

void op_execute_code(struct container *container, struct call *call)
{
    const char *id = NULL, *code = NULL, *language = NULL;
    if (!arg_text(call, "context_id", true, &id) || !arg_text(call, "code", true, &code) ||
        !arg_text(call, "language", false, &language))
        return;
    struct context *context = context_find(container, id);
    if (!context) {
        call_error(call, CODE_CONTEXT_NOT_FOUND, NULL, json_pack("{s:s}", "contextId", id),
                   "Context %s not found", id);
        return;
    }
    if (!fits(context, call, language))
        return;
    struct code_run *run = job_new(container, call, &run_kind);
    if (!run)
        return;
    run->code = code;
    run->job.timeout_ms = interpreter_setting(container, "INTERPRETER_EXECUTION_TIMEOUT_MS", 0);
    enqueue(context, run);
    if (context->executor)
        pump(context);
    else
        refuse_dead(context);
}
