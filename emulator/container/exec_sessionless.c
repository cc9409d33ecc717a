/* POST /api/execute without a session: `bash -c` in a process group of its own. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/errnos.h"
#include "container/exec.h"
#include "container/run.h"

enum { TIMEOUT_EXIT_CODE = 124 };

struct sessionless {
    struct job job;
    const char *command;
    struct run run;
};

static void fail(struct sessionless *job, const char *why)
{
    job_error(&job->job, CODE_COMMAND_EXECUTION_ERROR, NULL,
              json_pack("{s:s,s:s}", "command", job->command, "stderr", why),
              "Failed to execute command '%s': %s", job->command, why);
}

/* The last line of standard error says so, after a newline when one is missing. */
static void add_timeout_line(struct run *run)
{
    struct buf *text = &run->out[1].data;
    if (text->size > 0 && text->data[text->size - 1] != '\n')
        buf_addc(text, '\n');
    buf_addf(text, "Command timed out after %lldms", (long long)run->timeout_ms);
}

static void ended(struct run *run, int error, const struct rt_exit *how)
{
    struct sessionless *job = run->arg;
    if (error == -EPIPE || (job->job.container->stopping && (!how || how->signal))) {
        job_interrupted(&job->job);
        return;
    }
    if (error < 0) {
        char why[96];
        snprintf(why, sizeof why, "%s: %s, spawn '/bin/bash'", errno_name(-error),
                 errno_text(-error));
        fail(job, why);
        return;
    }
    int code = how->code;
    if (run_timed_out(run)) {
        code = TIMEOUT_EXIT_CODE;
        add_timeout_line(run);
    }
    json_t *body = exec_body(&job->job, code, &run->out[0], &run->out[1], false);
    if (body)
        job_result(&job->job, body);
    else
        fail(job, EXEC_TOO_LARGE);
}

static void sessionless_release(struct job *job)
{
    run_close(&((struct sessionless *)job)->run);
}

static const struct job_kind sessionless_kind = {
    .op = "execute",
    .size = sizeof(struct sessionless),
    .release = sessionless_release,
};

void exec_sessionless(struct container *container, struct call *call, const struct exec_args *args)
{
    CLEANUP_ENVIRONMENT struct environment env = {0};
    if (environment_add_list(&env, environment_list(&container->env)) < 0 ||
        environment_add_json(&env, args->env, false) < 0) {
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    struct sessionless *job = job_new(container, call, &sessionless_kind);
    if (!job)
        return;
    job->command = args->command;
    job->run.arg = job;
    job->run.done = ended;
    job->run.output_max = OUTPUT_MAX;
    job->run.timeout_ms = args->timeout_ms;
    const char *argv[] = {"/bin/bash", "-c", args->command, NULL};
    run_start(&job->run, container, argv, args->cwd, environment_list(&env));
}
