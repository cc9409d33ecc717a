/* mkdir, delete, exists, rename and move: one or two requests to the runtime each. The errors read
 * like those of the tools that the original runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/files.h"
#include "container/run.h"

/* mkdir. */

struct mkdir_job {
    struct file_job file;
    bool recursive;
};

static void made(void *arg, struct agent_answer *answer)
{
    struct mkdir_job *job = arg;
    struct job *base = &job->file.job;
    if (job_lost(base, answer))
        return;
    if (answer->value >= 0) {
        job_result(base, json_pack("{s:b,s:s,s:b,s:o}", "success", 1, "path", job->file.path,
                                   "recursive", job->recursive, "timestamp", job_timestamp(base)));
        return;
    }
    CLEANUP_FREE char *said = NULL;
    if (asprintf(&said, "mkdir: cannot create directory ‘%s’: %s", job->file.path,
                 strerror(-answer->value)) < 0)
        said = NULL;
    json_t *given = json_object_get(base->args, "recursive");
    json_t *options = given ? json_pack("{s:O}", "recursive", given) : json_object();
    job_error(base, CODE_FILESYSTEM_ERROR, NULL,
              json_pack("{s:s,s:o,s:i,s:s}", "path", job->file.path, "options", options, "exitCode",
                        1, "stderr", said ? said : ""),
              "mkdir operation failed with exit code 1");
}

static void mkdir_begin(struct job *job)
{
    bool recursive = ((struct mkdir_job *)job)->recursive;
    file_ask((struct file_job *)job, RT_MKDIR,
             (struct rt_path){.flags = recursive ? RT_PARENTS : 0}, made);
}

static const struct job_kind mkdir_kind = {
    .op = "mkdir",
    .size = sizeof(struct mkdir_job),
    .begin = mkdir_begin,
    .refuse = file_refuse,
};

void op_mkdir(struct container *container, struct call *call)
{
    bool recursive = false;
    if (!arg_flag(call, "recursive", &recursive))
        return;
    struct mkdir_job *job = file_job_new(container, call, &mkdir_kind, "path", NULL);
    if (!job)
        return;
    job->recursive = recursive;
    file_submit(&job->file);
}

/* delete. */

static void removed(void *arg, struct agent_answer *answer)
{
    struct file_job *file = arg;
    struct job *base = &file->job;
    static const char operation[] = "file.delete";
    if (job_lost(base, answer))
        return;
    if (answer->value >= 0) {
        job_result(base, json_pack("{s:b,s:s,s:o}", "success", 1, "path", file->path, "timestamp",
                                   job_timestamp(base)));
    } else if (answer->value == -ENOENT || answer->value == -ENOTDIR) {
        file_missing(file, operation, "File not found");
    } else if (answer->value == -EISDIR) {
        job_error(base, CODE_IS_DIRECTORY, operation,
                  json_pack("{s:s,s:s}", "path", file->path, "operation", operation),
                  "Cannot delete directory with deleteFile(): %s", file->path);
    } else {
        CLEANUP_FREE char *said = NULL;
        if (asprintf(&said, "rm: cannot remove ‘%s’: %s", file->path, strerror(-answer->value)) < 0)
            said = NULL;
        job_error(base, CODE_FILESYSTEM_ERROR, operation,
                  json_pack("{s:s,s:s,s:i,s:s}", "path", file->path, "operation", operation,
                            "exitCode", 1, "stderr", said ? said : ""),
                  "delete operation failed with exit code 1");
    }
}

static void delete_begin(struct job *job)
{
    file_ask((struct file_job *)job, RT_REMOVE, (struct rt_path){0}, removed);
}

static const struct job_kind delete_kind = {
    .op = "delete",
    .size = sizeof(struct file_job),
    .begin = delete_begin,
    .refuse = file_refuse,
};

void op_delete(struct container *container, struct call *call)
{
    struct file_job *file = file_job_new(container, call, &delete_kind, "path", NULL);
    if (file)
        file_submit(file);
}

/* exists: whatever goes wrong in the container means that it does not. */

static void looked(void *arg, struct agent_answer *answer)
{
    struct file_job *file = arg;
    if (job_lost(&file->job, answer))
        return;
    if (answer->value == -ENOMEM || answer->value == -ENOBUFS) { /* it was not even asked */
        job_error(&file->job, CODE_INTERNAL_ERROR, NULL, NULL, "%s", strerror(-answer->value));
        return;
    }
    job_result(&file->job,
               json_pack("{s:b,s:s,s:b,s:o}", "success", 1, "path", file->path, "exists",
                         answer->value >= 0, "timestamp", job_timestamp(&file->job)));
}

static void exists_begin(struct job *job)
{
    file_ask((struct file_job *)job, RT_STAT, (struct rt_path){0}, looked);
}

static const struct job_kind exists_kind = {
    .op = "exists",
    .size = sizeof(struct file_job),
    .begin = exists_begin,
    .refuse = file_refuse,
};

void op_exists(struct container *container, struct call *call)
{
    struct file_job *file = file_job_new(container, call, &exists_kind, "path", NULL);
    if (file)
        file_submit(file);
}

/* rename and move: both are mv. */

struct move_job {
    struct file_job file;
    struct run run; /* mv itself, when a rename is not possible */
};

static const char *move_operation(const struct move_job *job)
{
    return strcmp(job->file.job.kind->op, "move") == 0 ? "file.move" : "file.rename";
}

static void move_release(struct job *job)
{
    run_close(&((struct move_job *)job)->run);
}

static void move_succeeded(struct move_job *job)
{
    struct job *base = &job->file.job;
    job_result(base, json_pack("{s:b,s:s,s:s,s:o}", "success", 1, "path", job->file.path, "newPath",
                               job->file.second, "timestamp", job_timestamp(base)));
}

/* Takes what mv said, which may be NULL. */
static void move_failed(struct move_job *job, int exit_code, json_t *said)
{
    job_error(&job->file.job, CODE_FILESYSTEM_ERROR, NULL,
              json_pack("{s:s,s:s,s:i,s:o}", "oldPath", job->file.path, "newPath", job->file.second,
                        "exitCode", exit_code, "stderr", said ? said : json_string("")),
              "%s operation failed with exit code %d", job->file.job.kind->op, exit_code);
}

static void move_failed_errno(struct move_job *job, int number)
{
    CLEANUP_FREE char *said = NULL;
    int size = number == EINVAL
                   ? asprintf(&said, "mv: cannot move ‘%s’ to itself or below itself, ‘%s’",
                              job->file.path, job->file.second)
                   : asprintf(&said, "mv: cannot move ‘%s’ to ‘%s’: %s", job->file.path,
                              job->file.second, strerror(number));
    move_failed(job, 1, size < 0 ? NULL : json_string(said));
}

/* The source may be missing, or the directory that it should go to. */
static void source_looked(void *arg, struct agent_answer *answer)
{
    struct move_job *job = arg;
    if (job_lost(&job->file.job, answer))
        return;
    if (answer->value < 0)
        file_missing(&job->file, move_operation(job), "Source file not found");
    else
        move_failed_errno(job, ENOENT);
}

static void mv_ended(struct run *run, int error, const struct rt_exit *how)
{
    struct move_job *job = run->arg;
    if (error == -EPIPE || (how && how->signal && job->file.job.container->stopping))
        job_interrupted(&job->file.job);
    else if (error < 0)
        move_failed_errno(job, -error);
    else if (how->code == 0)
        move_succeeded(job);
    else
        move_failed(job, how->code, output_json(&run->out[1], true));
}

/* Another file system, or a directory that is not in the upper layer: mv copies. */
static void run_mv(struct move_job *job)
{
    enum { MV_OUTPUT_MAX = 64 * 1024 };
    job->run.arg = job;
    job->run.done = mv_ended;
    job->run.output_max = MV_OUTPUT_MAX;
    const char *argv[] = {"mv", "--", job->file.path, job->file.second, NULL};
    run_start_beside(&job->run, job->file.job.container, argv, file_base(&job->file));
}

static void renamed(void *arg, struct agent_answer *answer)
{
    struct move_job *job = arg;
    if (job_lost(&job->file.job, answer))
        return;
    if (answer->value >= 0) {
        move_succeeded(job);
    } else if (answer->value == -EXDEV) {
        run_mv(job);
    } else if (answer->value == -ENOENT || answer->value == -ENOTDIR) {
        struct rt_path how = {.base_pid = file_base(&job->file), .flags = RT_NOFOLLOW};
        ask_path(job->file.job.container, RT_STAT, how, job->file.path, NULL, source_looked, job);
    } else {
        move_failed_errno(job, -answer->value);
    }
}

static void move_begin(struct job *job)
{
    file_ask((struct file_job *)job, RT_RENAME, (struct rt_path){0}, renamed);
}

static const struct job_kind rename_kind = {
    .op = "rename",
    .size = sizeof(struct move_job),
    .begin = move_begin,
    .refuse = file_refuse,
    .release = move_release,
};
static const struct job_kind move_kind = {
    .op = "move",
    .size = sizeof(struct move_job),
    .begin = move_begin,
    .refuse = file_refuse,
    .release = move_release,
};

void op_rename(struct container *container, struct call *call)
{
    struct file_job *file = file_job_new(container, call, &rename_kind, "oldPath", "newPath");
    if (file)
        file_submit(file);
}

void op_move(struct container *container, struct call *call)
{
    struct file_job *file =
        file_job_new(container, call, &move_kind, "sourcePath", "destinationPath");
    if (file)
        file_submit(file);
}
