#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "container/process.h"
#include "container/session.h"

static json_t *placement(const struct container *container)
{
    const char *id = environment_get(&container->env, "CLOUDFLARE_PLACEMENT_ID");
    return id ? json_string(id) : json_null();
}

/* Creation. */

struct creation {
    struct job job;
    char id[256];
};

static void creation_begin(struct job *job)
{
    struct creation *creation = (struct creation *)job;
    job_result(job, json_pack("{s:b,s:{s:s},s:o,s:o}", "success", 1, "data", "id", creation->id,
                              "containerPlacementId", placement(job->container), "timestamp",
                              job_timestamp(job)));
}

static void creation_refuse(struct job *job, const char *why)
{
    struct creation *creation = (struct creation *)job;
    job_error(job, CODE_INTERNAL_ERROR, NULL,
              json_pack("{s:s,s:s}", "sessionId", creation->id, "originalError", why),
              "Failed to create session '%s': %s", creation->id, why);
}

static const struct job_kind session_creation = {
    .op = "sessionCreate",
    .size = sizeof(struct creation),
    .begin = creation_begin,
    .refuse = creation_refuse,
};

/* "session_<ms>_<12 hex>" */
static void make_id(const struct container *container, char *to, size_t room)
{
    char tail[13];
    random_text(tail, 12, "0123456789abcdef");
    snprintf(to, room, "session_%lld_%s", (long long)clock_now_ms(container->clock), tail);
}

static bool id_ok(struct call *call, const char *id)
{
    if (strlen(id) >= sizeof((struct creation *)0)->id)
        arg_invalid(call, "id", "INVALID_SESSION_ID", "'id' is longer than 255 bytes");
    else if (text_is_blank(id) || strcmp(id, SESSION_DISABLED) == 0)
        arg_invalid(call, "id", "INVALID_SESSION_ID", "'id' must not be blank or reserved");
    else
        return true;
    return false;
}

void op_session_create(struct container *container, struct call *call)
{
    char made[64];
    const char *id = NULL;
    const char *cwd = NULL;
    const json_t *env = NULL;
    double timeout = 0;
    if (!arg_text(call, "id", false, &id) || !arg_text(call, "cwd", false, &cwd) ||
        !arg_env(call, "env", &env) || !arg_number(call, "commandTimeoutMs", &timeout))
        return;
    if (!id || !*id) {
        make_id(container, made, sizeof made);
        id = made;
    }
    if (!id_ok(call, id))
        return;
    if (session_find(container, id)) {
        call_error(
            call, CODE_SESSION_ALREADY_EXISTS, NULL,
            json_pack("{s:s,s:o}", "sessionId", id, "containerPlacementId", placement(container)),
            "Session '%s' already exists", id);
        return;
    }
    struct creation *creation = job_new(container, call, &session_creation);
    if (!creation)
        return;
    snprintf(creation->id, sizeof creation->id, "%s", id);
    int error = 0;
    if (!session_new(container, creation->id, cwd, env, timeout_of(timeout), &creation->job,
                     &error))
        session_refuse(&creation->job, error);
}

void op_session_list(struct container *container, struct call *call)
{
    call_result(call, json_pack("{s:b,s:o,s:o}", "success", 1, "data", sessions_ids(container),
                                "timestamp", clock_timestamp(container->clock)));
}

/* Deletion. */

static const char *deleted_id(const struct job *job)
{
    return json_string_value(json_object_get(job->args, "sessionId"));
}

struct deletion {
    struct job job;
    struct process_ends ends;
};

static void processes_over(void *arg)
{
    session_destroy(((struct job *)arg)->session);
}

/* Its background processes go first, the hard way, as in the original. */
static void deletion_begin(struct job *job)
{
    struct deletion *deletion = (struct deletion *)job;
    deletion->ends.over = processes_over;
    deletion->ends.arg = deletion;
    if (process_end_all(&deletion->ends, job->container, job->session->id, PROCESS_ERROR, 0) <= 0)
        processes_over(deletion);
}

static void deletion_release(struct job *job)
{
    process_ends_close(&((struct deletion *)job)->ends);
}

static void deletion_over(struct job *job, const struct rt_exit *how)
{
    job_result(job, json_pack("{s:b,s:s,s:o}", "success", 1, "sessionId", deleted_id(job),
                              "timestamp", job_timestamp(job)));
}

static json_t *unknown_context(const char *id, const char *why)
{
    return json_pack("{s:s,s:s}", "sessionId", id, "originalError", why);
}

static void deletion_refuse(struct job *job, const char *why)
{
    job_error(job, CODE_INTERNAL_ERROR, NULL, unknown_context(deleted_id(job), why),
              "Failed to delete session '%s': %s", deleted_id(job), why);
}

const struct job_kind session_deletion = {
    .op = "sessionDelete",
    .size = sizeof(struct deletion),
    .begin = deletion_begin,
    .shell_ended = deletion_over,
    .refuse = deletion_refuse,
    .release = deletion_release,
};

void op_session_delete(struct container *container, struct call *call)
{
    const char *id = "";
    if (!arg_text(call, "sessionId", true, &id))
        return;
    if (!*id) {
        arg_invalid(call, "sessionId", "REQUIRED", "'sessionId' is required");
        return;
    }
    struct session *session = session_find(container, id);
    if (!session) {
        CLEANUP_FREE char *why = NULL;
        if (asprintf(&why, "Session '%s' not found", id) < 0)
            why = NULL;
        call_error(call, CODE_INTERNAL_ERROR, NULL, unknown_context(id, why ? why : "not found"),
                   "Failed to delete session '%s': Session '%s' not found", id, id);
        return;
    }
    struct job *job = job_new(container, call, &session_deletion);
    if (job)
        session_enqueue(session, job);
}
