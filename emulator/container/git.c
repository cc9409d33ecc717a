/* POST /api/git/checkout: a clone made by the helper (git/clone.h). Only where a relative path
 * starts is the session's business; the clone itself does not wait for its turn there. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "container/files.h"
#include "container/git_failure.h"
#include "container/session.h"
#include "git/clone.h"
#include "git/url.h"

enum { TIMEOUT_MS = 600000 };

struct git_job {
    struct job job;
    const char *url, *branch, *session_id;
    char *redacted; /* the URL for messages */
    char *target;   /* the directory as answers name it */
    char *dir;      /* absolute */
    char *said;     /* standard error of a git that failed */
    char *on;       /* the branch that is checked out */
    char *hint;
    json_t *request;
    int depth, exit_code;
    struct git_clone *clone;
    struct timer overdue;
    int64_t started_ns;
    bool done, timed_out, created;
};

/* --- Answers ---------------------------------------------------------------------------------- */

static json_t *context_of(const struct git_job *git, int exit_code, const char *said)
{
    return json_pack("{s:s,s:s,s:i,s:s}", "repository", git->redacted, "targetDir", git->target,
                     "exitCode", exit_code, "stderr", said);
}

static void fail(struct git_job *git, int exit_code, const char *said)
{
    CLEANUP_FREE char *clean = git_redact(said);
    const char *words = clean ? clean : "";
    struct answer answer = {.code = git_failure_code(exit_code, words),
                            .body = context_of(git, exit_code, words),
                            .hint = steal_pointer(&git->hint)};
    log_debug("git: %s: %s", git->redacted, words);
    if (asprintf(&answer.message, "Failed to clone repository '%s': %s", git->redacted, words) < 0)
        answer.message = NULL;
    job_finish(&git->job, &answer);
}

static void fail_timeout(struct git_job *git)
{
    long long seconds = (git->job.timeout_ms + 999) / 1000;
    job_error(&git->job, CODE_GIT_NETWORK_ERROR, NULL, context_of(git, GIT_EXIT_TIMEOUT, ""),
              "Git clone timed out after %lld seconds: %s", seconds, git->redacted);
}

static void succeed(struct git_job *git)
{
    struct container *container = git->job.container;
    const char *branch = git->on ? git->on : git->branch ? git->branch : "unknown";
    container_note(container, "git.cloned",
                   json_pack("{s:s,s:s,s:s,s:I}", "repository", git->redacted, "targetDir",
                             git->target, "branch", branch, "ms",
                             (json_int_t)((loop_now_ns() - git->started_ns) / 1000000)));
    job_result(&git->job,
               json_pack("{s:b,s:s,s:s,s:s,s:o}", "success", 1, "repoUrl", git->url, "branch",
                         branch, "targetDir", git->target, "timestamp", job_timestamp(&git->job)));
}

/* --- The helper ------------------------------------------------------------------------------- */

static void progressed(struct git_job *git, const json_t *line)
{
    const char *step = json_string_value(json_object_get(line, "step"));
    json_int_t done = json_integer_value(json_object_get(line, "done"));
    json_int_t total = json_integer_value(json_object_get(line, "total"));
    json_int_t bytes = json_integer_value(json_object_get(line, "bytes"));
    if (!step)
        return;
    log_debug("git: %s: %s %lld of %lld", git->redacted, step, (long long)done, (long long)total);
    container_note(git->job.container, "git.progress",
                   json_pack("{s:s,s:s,s:s,s:I,s:I,s:I}", "repository", git->redacted, "targetDir",
                             git->target, "step", step, "done", done, "total", total, "bytes",
                             bytes));
}

static void line(void *arg, const json_t *said)
{
    struct git_job *git = arg;
    const char *type = json_string_value(json_object_get(said, "type"));
    if (!type)
        return;
    if (strcmp(type, "progress") == 0) {
        progressed(git, said);
    } else if (strcmp(type, "created") == 0) {
        git->created = !json_is_true(json_object_get(said, "existed"));
    } else if (strcmp(type, "done") == 0) {
        const char *on = json_string_value(json_object_get(said, "branch"));
        git->done = true;
        free(git->on);
        git->on = on ? strdup(on) : NULL;
    } else if (strcmp(type, "error") == 0 && !git->said) {
        const char *text = json_string_value(json_object_get(said, "stderr"));
        git->exit_code = (int)json_integer_value(json_object_get(said, "exit"));
        git->said = strdup(text ? text : "");
    }
}

static void cleaned(void *arg, struct agent_answer *answer)
{
    struct git_job *git = arg;
    if (!job_lost(&git->job, answer))
        fail_timeout(git);
}

static void ended(void *arg, const char *why)
{
    struct git_job *git = arg;
    struct container *container = git->job.container;
    git->clone = NULL;
    loop_disarm(container->loop, &git->overdue);
    if (git->timed_out && git->created)
        ask_path(container, RT_REMOVE, (struct rt_path){.flags = RT_RECURSIVE}, git->dir, NULL,
                 cleaned, git);
    else if (git->timed_out)
        fail_timeout(git);
    else if (git->done && !git->said)
        succeed(git);
    else if (git->said)
        fail(git, git->exit_code, git->said);
    else
        fail(git, GIT_EXIT_FATAL, why ? why : "the git helper ended without a word");
}

static void overdue(void *arg)
{
    struct git_job *git = arg;
    git->timed_out = true;
    git_clone_kill(git->clone, "timeout");
}

/* --- What it is asked ------------------------------------------------------------------------- */

/* True when it answered: a prefix stands for this URL, but has no such repository. */
static bool find_mirror(struct git_job *git)
{
    struct container *container = git->job.container;
    char path[PATH_MAX];
    switch (git_mirror_find(&container->git->mirrors, git->url, path)) {
    case GIT_MIRROR_NONE:
        if (git_url_kind(git->url) == GIT_URL_REMOTE &&
            asprintf(&git->hint, "without a network, a mirror serves: sandpit git mirror %s",
                     git->redacted) < 0)
            git->hint = NULL;
        return false;
    case GIT_MIRROR_THERE:
        json_object_set_new(git->request, "mirror", json_string(path));
        log_plain("git: %s comes from the mirror %s", git->redacted, path);
        container_note(container, "git.mirror",
                       json_pack("{s:s,s:s,s:s}", "repository", git->redacted, "targetDir",
                                 git->target, "mirror", path));
        return false;
    case GIT_MIRROR_LACKING:
        if (asprintf(&git->hint, "the mirror has no repository %s; fill it: sandpit git mirror %s",
                     path, git->redacted) < 0)
            git->hint = NULL;
        break;
    }
    CLEANUP_FREE char *said = NULL;
    if (asprintf(&said, "fatal: repository '%s/' not found", git->redacted) < 0)
        said = NULL;
    fail(git, GIT_EXIT_FATAL, said ? said : "");
    return true;
}

static char *absolute(const char *cwd, const char *path)
{
    char *result = NULL;
    bool relative = *path != '/';
    if (asprintf(&result, "%s%s%s", relative ? cwd : "", relative ? "/" : "", path) < 0)
        return NULL;
    for (size_t size = strlen(result); size > 1 && result[size - 1] == '/';)
        result[--size] = '\0';
    return result;
}

static json_t *make_request(struct git_job *git, const char *cwd)
{
    json_t *request =
        json_pack("{s:s,s:s,s:s,s:s*,s:i,s:s}", "url", git->url, "dir", git->dir, "shown",
                  git->target, "branch", git->branch, "depth", git->depth, "stored", git->url);
    if (git_url_kind(git->url) == GIT_URL_REMOTE)
        return request;
    CLEANUP_FREE char *path = absolute(cwd, git_url_path(git->url));
    json_object_set_new(request, "local", json_string(path ? path : ""));
    if (git_url_kind(git->url) == GIT_URL_PATH)
        json_object_set_new(request, "stored", json_string(path ? path : ""));
    return request;
}

static void mounts_given(void *arg, struct agent_answer *answer)
{
    struct git_job *git = arg;
    struct container *container = git->job.container;
    struct git_clone_events events = {.line = line, .ended = ended, .arg = git};
    struct error err = {0};
    if (job_lost(&git->job, answer))
        return;
    if (answer->value < 0)
        error_errno(&err, -answer->value, "mounts of the container");
    else
        git->clone = git_clone_start(container->loop, container->git, git->request, answer->fds[0],
                                     events, &err);
    if (!git->clone) {
        fail(git, GIT_EXIT_FATAL, err.text);
        return;
    }
    git->overdue = (struct timer){.fire = overdue, .arg = git};
    loop_arm(container->loop, &git->overdue, MS_NS(git->job.timeout_ms));
}

static void start_in(struct git_job *git, const char *cwd)
{
    struct container *container = git->job.container;
    git->started_ns = loop_now_ns();
    git->dir = absolute(cwd, git->target);
    git->request = git->dir ? make_request(git, cwd) : NULL;
    if (!git->request)
        job_error(&git->job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
    else if (git->depth < 0)
        fail(git, GIT_EXIT_FATAL, "fatal: depth is not a positive number");
    else if (!find_mirror(git))
        ask_path(container, RT_OPEN, (struct rt_path){.open_flags = O_RDONLY}, "/proc/self/ns/mnt",
                 NULL, mounts_given, git);
}

static void directory_known(void *arg, struct agent_answer *answer)
{
    struct git_job *git = arg;
    if (job_lost(&git->job, answer))
        return;
    if (answer->value < 0 || !memchr(answer->payload, '\0', answer->size)) {
        fail(git, GIT_EXIT_FATAL, "fatal: Unable to read current working directory");
        return;
    }
    CLEANUP_FREE char *cwd = strdup(answer->payload);
    job_leave_session(&git->job);
    start_in(git, cwd ? cwd : RT_DEFAULT_DIR);
}

/* In the session's turn, or without one. */
static void begin(struct job *job)
{
    struct git_job *git = (struct git_job *)job;
    char link[32];
    if (!job->session) {
        start_in(git, RT_DEFAULT_DIR);
        return;
    }
    snprintf(link, sizeof link, "/proc/%d/cwd", job->session->shell.pid);
    ask_path(job->container, RT_READLINK, (struct rt_path){0}, link, NULL, directory_known, git);
}

static void refuse(struct job *job, const char *why)
{
    fail((struct git_job *)job, GIT_EXIT_FATAL, why);
}

static void release(struct job *job)
{
    struct git_job *git = (struct git_job *)job;
    loop_disarm(job->container->loop, &git->overdue);
    if (git->clone)
        git_clone_stop(git->clone);
    json_decref(git->request);
    free(git->redacted);
    free(git->target);
    free(git->dir);
    free(git->said);
    free(git->on);
    free(git->hint);
}

static const struct job_kind git_kind = {
    .op = "gitCheckout",
    .size = sizeof(struct git_job),
    .begin = begin,
    .refuse = refuse,
    .release = release,
};

/* --- Arguments -------------------------------------------------------------------------------- */

static bool take_url(struct call *call, const char **url)
{
    const json_t *value = json_object_get(call->args, "repoUrl");
    const char *text = json_string_value(value), *why = NULL;
    if (!text || text_is_blank(text))
        why = "Git URL must be a string that is not empty";
    else if (json_string_length(value) > GIT_URL_MAX)
        why = "Git URL must not be longer than 2048 characters";
    else if (strlen(text) != json_string_length(value))
        why = "Git URL must not contain a NUL character";
    *url = text;
    if (why)
        call_error(call, CODE_INVALID_GIT_URL, NULL,
                   arg_invalid_context("repoUrl", why, "INVALID_GIT_URL"), "%s", why);
    return !why;
}

static bool take_timeout(struct call *call, int64_t *timeout_ms)
{
    const json_t *value = json_object_get(call->args, "timeoutMs");
    *timeout_ms = TIMEOUT_MS;
    if (!value || json_is_null(value))
        return true;
    double ms = json_number_value(value);
    if (json_is_number(value) && ms >= 1 && ms == floor(ms)) {
        *timeout_ms = timeout_of(ms);
        return true;
    }
    CLEANUP_FREE char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    arg_invalid(call, "timeoutMs", "INVALID_TIMEOUT",
                "Invalid timeout value: %.40s. Must be a positive integer (milliseconds)",
                shown ? shown : "");
    return false;
}

static bool take_target(struct call *call, const char *url, char **target)
{
    const char *given = NULL;
    char name[256];
    if (!arg_text(call, "targetDir", false, &given))
        return false;
    const char *why = given && *given ? path_problem(given, strlen(given)) : NULL;
    if (why) {
        arg_invalid(call, "targetDir", "INVALID_PATH", "Invalid path format for targetDir: %s",
                    why);
        return false;
    }
    git_url_name(url, name, sizeof name);
    if (asprintf(target, "%s%s", given && *given ? "" : RT_DEFAULT_DIR "/",
                 given && *given ? given : name) < 0)
        *target = NULL;
    return true;
}

void op_git_checkout(struct container *container, struct call *call)
{
    const char *url, *branch = NULL, *session = SESSION_DEFAULT;
    double depth = 0;
    int64_t timeout_ms;
    CLEANUP_FREE char *target = NULL;
    if (!take_url(call, &url) || !arg_text(call, "branch", false, &branch) ||
        !arg_text(call, "sessionId", false, &session) || !arg_number(call, "depth", &depth) ||
        !take_timeout(call, &timeout_ms) || !take_target(call, url, &target))
        return;
    CLEANUP_FREE char *redacted = git_redact(url);
    struct git_job *git = job_new(container, call, &git_kind);
    if (!git)
        return;
    git->job.timeout_ms = timeout_ms;
    git->url = url;
    git->branch = branch && *branch ? branch : NULL;
    git->session_id = session;
    git->target = steal_pointer(&target);
    git->redacted = steal_pointer(&redacted);
    git->depth = depth > INT_MAX                         ? INT_MAX
                 : depth < 0 || (depth > 0 && depth < 1) ? -1
                                                         : (int)depth;
    if (!git->target || !git->redacted || !container->git) {
        job_error(&git->job, CODE_INTERNAL_ERROR, NULL, NULL,
                  container->git ? "Out of memory" : "This container has no git helper");
        return;
    }
    bool relative =
        *git->target != '/' || (git_url_kind(url) != GIT_URL_REMOTE && *git_url_path(url) != '/');
    if (relative && strcmp(session, SESSION_DISABLED) != 0 && !text_is_blank(session))
        session_submit(&git->job, session, NULL);
    else
        begin(&git->job);
}
