/* POST /api/execute, in a session. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/quote.h"
#include "container/exec.h"
#include "container/session.h"

enum {
    /* Most commands are over before this, and never cost a watch for their output. */
    FIRST_LOOK_MS = 2,
    LAST_LOOK_MS = 500,
    WRAPPER_MAX = 16 * 1024 * 1024,
};

struct exec {
    struct job job;
    const char *command;
    const char *session_id;
    const char *cwd;
    const json_t *env;
    struct output out[2];
    struct fifos fifos;
    bool fed; /* out and fifos are in use */
    struct timer look;
    int look_ms;
};

/* What went wrong, as the original words it. */
static json_t *fail_context(const struct exec *exec, const char *why)
{
    return json_pack("{s:s,s:s}", "command", exec->command, "stderr", why);
}

static void fail(struct exec *exec, const char *why)
{
    job_error(&exec->job, CODE_COMMAND_EXECUTION_ERROR, NULL, fail_context(exec, why),
              "Failed to execute command '%s' in session '%s': %s", exec->command, exec->session_id,
              why);
}

/* The wrapper: text that the shell evaluates around the command when it has a directory or
 * variables of its own. */

/* Remembers the value and whether it was exported. `${x@a}` fails under `set -u` when x is unset,
 * and a plain assignment to a read-only variable would end the command, hence the detours. */
static void add_exports(struct buf *to, const json_t *env)
{
    const char *name;
    json_t *value;
    int i = 0;
    json_object_foreach((json_t *)env, name, value)
    {
        if (!json_is_string(value))
            continue;
        buf_addf(to, "__h%d=;if [[ ${%s+x} ]];then __e%d=$%s;__h%d=y${%s@a};fi\n", i, name, i, name,
                 i, name);
        buf_addf(to, "builtin export %s=", name);
        quote_word(to, json_string_value(value));
        buf_addc(to, '\n');
        i++;
    }
}

static void add_restores(struct buf *to, const json_t *env)
{
    const char *name;
    json_t *value;
    int i = 0;
    json_object_foreach((json_t *)env, name, value)
    {
        if (!json_is_string(value))
            continue;
        buf_addf(to,
                 "{ if [[ $__h%d ]];then builtin export %s=\"$__e%d\";"
                 "if [[ $__h%d != *x* ]];then builtin export -n %s;fi;"
                 "else builtin unset -v %s;fi;} 2>/dev/null;builtin unset -v __h%d __e%d\n",
                 i, name, i, i, name, name, i, i);
        i++;
    }
}

static int build_wrapper(const struct exec *exec, struct buf *to)
{
    if (exec->cwd) {
        buf_adds(to, "__d=$PWD;if CDPATH= builtin cd -- ");
        quote_word(to, exec->cwd);
        buf_adds(to, " >/dev/null 2>&1;then\n");
    }
    add_exports(to, exec->env);
    buf_adds(to, "builtin eval \"$__c\"\n__s=$?\n");
    add_restores(to, exec->env);
    if (exec->cwd) {
        buf_adds(to, "builtin cd -- \"$__d\" >/dev/null 2>&1\nelse builtin printf '%s\\n' ");
        CLEANUP_BUF struct buf text = BUF_INIT(WRAPPER_MAX);
        buf_addf(&text, "Failed to change directory to '%s'", exec->cwd);
        quote_word(to, buf_text(&text));
        buf_adds(to, " >&2;fi;builtin unset -v __d");
        if (text.error)
            return text.error;
    }
    return buf_addc(to, '\n');
}

static bool needs_wrapper(const struct exec *exec)
{
    return exec->cwd || json_object_size(exec->env) > 0;
}

/* Output. */

/* Watches what is not watched. A FIFO that was used before reports the end until the shell opens it
 * again; then, and when a command closes its own output, we look again later. */
static void look(void *arg)
{
    struct exec *exec = arg;
    output_watch(&exec->out[0]);
    output_watch(&exec->out[1]);
}

static void look_later(void *arg)
{
    struct exec *exec = arg;
    if (timer_armed(&exec->look))
        return;
    loop_arm(exec->job.container->loop, &exec->look, MS_NS(exec->look_ms));
    exec->look_ms = exec->look_ms * 2 > LAST_LOOK_MS ? LAST_LOOK_MS : exec->look_ms * 2;
}

static void open_outputs(struct exec *exec)
{
    for (int i = 0; i < 2; i++) {
        output_open(&exec->out[i], exec->job.container->loop, exec->fifos.fd[i], OUTPUT_MAX);
        exec->out[i].on_end = look_later;
        exec->out[i].arg = exec;
    }
    exec->fed = true;
    exec->look_ms = FIRST_LOOK_MS;
    exec->look = (struct timer){.fire = look, .arg = exec};
    look_later(exec);
}

/* The pair goes back to the session when nobody holds it, else on to whoever drains it. */
static void close_outputs(struct exec *exec)
{
    if (!exec->fed)
        return;
    exec->fed = false;
    struct container *container = exec->job.container;
    struct session *session = exec->job.session;
    loop_disarm(container->loop, &exec->look);
    bool reusable = session && exec->out[0].ended && exec->out[1].ended;
    for (int i = 0; i < 2; i++) {
        output_unwatch(&exec->out[i]);
        if (reusable)
            exec->out[i].fd = -1;
        output_let_go(&exec->out[i], container);
    }
    if (session)
        session_give_back(session, &exec->fifos, reusable);
    else if (!container->lost)
        agent_fifos_drop(container->agent, exec->fifos.number);
}

/* The job's life. */

static void exec_begin(struct job *job)
{
    struct exec *exec = (struct exec *)job;
    CLEANUP_BUF struct buf wrapper = BUF_INIT(WRAPPER_MAX);
    int result = needs_wrapper(exec) ? build_wrapper(exec, &wrapper) : 0;
    if (result < 0) {
        fail(exec, result == -ENOMEM ? strerror(ENOMEM) : "the variables are larger than 16 MiB");
        return;
    }
    result = session_feed(job->session, exec->command, wrapper.size ? buf_text(&wrapper) : NULL,
                              &exec->fifos);
    if (result == -EPIPE && !job->retried)
        session_requeue(job->session, job);
    else if (result < 0)
        fail(exec, strerror(-result));
    else
        open_outputs(exec);
}

static void exec_status(struct job *job, int exit_code)
{
    struct exec *exec = (struct exec *)job;
    if (!exec->fed)
        return;
    if (job->container->stopping && exit_code == 128 + SIGTERM) {
        job_interrupted(job);
        return;
    }
    output_drain(&exec->out[0]);
    output_drain(&exec->out[1]);
    json_t *body = NULL;
    if (job->call)
        body = exec_body(job, exit_code, &exec->out[0], &exec->out[1], true);
    close_outputs(exec);
    if (!job->call)
        job_end(job);
    else if (body)
        job_result(job, body);
    else
        fail(exec, EXEC_TOO_LARGE);
}

static void exec_shell_ended(struct job *job, const struct rt_exit *how)
{
    struct exec *exec = (struct exec *)job;
    if (job->container->stopping)
        job_interrupted(job);
    else
        job_error(job, CODE_SESSION_TERMINATED, NULL,
                  json_pack("{s:s,s:i}", "sessionId", exec->session_id, "exitCode", how->code),
                  "Session '%s' shell exited (exit code: %d)", exec->session_id, how->code);
}

/* The command is not ended: it keeps the shell, and those behind it wait. */
static void exec_timed_out(struct job *job)
{
    struct exec *exec = (struct exec *)job;
    char why[64];
    snprintf(why, sizeof why, "Command timeout after %lldms", (long long)job->timeout_ms);
    struct session *session = job->session;
    job_reply_error(job, CODE_COMMAND_EXECUTION_ERROR, NULL, fail_context(exec, why),
                    "Failed to execute command '%s' in session '%s': %s", exec->command,
                    exec->session_id, why);
    session_passed_on(session);
}

static void exec_refuse(struct job *job, const char *why)
{
    fail((struct exec *)job, why);
}

static void exec_release(struct job *job)
{
    close_outputs((struct exec *)job);
}

static const struct job_kind exec_kind = {
    .op = "execute",
    .size = sizeof(struct exec),
    .begin = exec_begin,
    .status = exec_status,
    .shell_ended = exec_shell_ended,
    .timed_out = exec_timed_out,
    .refuse = exec_refuse,
    .release = exec_release,
};

static void start_in_session(struct container *container, struct call *call,
                             const struct exec_args *args)
{
    struct exec *exec = job_new(container, call, &exec_kind);
    if (!exec)
        return;
    exec->command = args->command;
    exec->session_id = args->session_id ? args->session_id : SESSION_DEFAULT;
    exec->cwd = args->cwd;
    exec->env = args->env;
    exec->job.timeout_ms = args->timeout_ms;
    session_submit(&exec->job, exec->session_id, args->cwd);
}

/* Common to both forms. */

json_t *exec_body(const struct job *job, int exit_code, struct output *out, struct output *err,
                  bool session)
{
    json_t *given = json_object_get(job->args, "sessionId");
    json_t *out_text = output_json(out, session);
    json_t *err_text = output_json(err, session);
    if (!out_text || !err_text) {
        json_decref(out_text);
        json_decref(err_text);
        return NULL;
    }
    json_t *body = json_object();
    json_object_set_new(body, "success", json_boolean(exit_code == 0));
    json_object_set_new(body, "exitCode", json_integer(exit_code));
    json_object_set_new(body, "stdout", out_text);
    json_object_set_new(body, "stderr", err_text);
    json_object_set(body, "command", json_object_get(job->args, "command"));
    json_object_set_new(body, "duration", json_integer(0));
    json_object_set_new(body, "timestamp", job_timestamp(job));
    if (json_string_length(given) > 0)
        json_object_set(body, "sessionId", given);
    return body;
}

/* NULL, or the first name that no shell variable can have. */
static const char *bad_name(const json_t *env)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)env, name, value)
    {
        if (!json_is_null(value) && !environment_name_ok(name))
            return name;
    }
    return NULL;
}

static void refuse_args(struct call *call, const char *command, const char *why, const char *detail)
{
    char text[256];
    snprintf(text, sizeof text, "%s%.160s", why, detail);
    call_error(call, CODE_COMMAND_EXECUTION_ERROR, NULL,
               json_pack("{s:s,s:s}", "command", command, "stderr", text),
               "Failed to execute command '%s': %s", command, text);
}

bool exec_args_read(struct call *call, struct exec_args *args)
{
    double timeout = 0;
    if (!arg_text(call, "command", true, &args->command) ||
        !arg_text(call, "sessionId", false, &args->session_id) ||
        !arg_text(call, "cwd", false, &args->cwd) || !arg_env(call, "env", &args->env) ||
        !arg_number(call, "timeoutMs", &timeout))
        return false;
    args->timeout_ms = timeout_of(timeout);
    const char *name = bad_name(args->env);
    if (args->session_id && !*args->session_id)
        args->session_id = NULL;
    if (args->cwd && !*args->cwd)
        args->cwd = NULL;
    if (args->session_id && text_is_blank(args->session_id))
        refuse_args(call, args->command, "sessionId must not be empty or whitespace", "");
    else if (name)
        refuse_args(call, args->command, "Invalid environment variable name: ", name);
    else
        return true;
    return false;
}

void op_execute(struct container *container, struct call *call)
{
    struct exec_args args = {0};
    bool background = false;
    if (!exec_args_read(call, &args) || !arg_flag(call, "background", &background))
        return;
    if (background)
        process_start(container, call, &args, false);
    else if (args.session_id && strcmp(args.session_id, SESSION_DISABLED) == 0)
        exec_sessionless(container, call, &args);
    else
        start_in_session(container, call, &args);
}
