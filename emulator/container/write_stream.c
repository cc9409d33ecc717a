/* files.writeFileStream: bytes of any size into a file beside the target, which then takes the
 * target's place. Until then nothing of the target has changed, whatever goes wrong. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "container/files.h"

#define OPERATION "file.write"
#define FAILED "Failed to write file"
#define TEMP ".tmp."

enum {
    PIECE = 64 * 1024,
    NAME_ROOM = 255, /* of one component */
    UUID_ROOM = 37,
    TRIES = 4,
};

struct upload_job {
    struct file_job file;
    char *target; /* absolute, so that a session's `cd` meanwhile does not matter */
    char *temp;
    struct stream *upload;
    int fd; /* of temp */
    int tries;
    mode_t mode; /* of what there was; 0 = nothing */
    int64_t written;
    int error;   /* to tell when temp has been removed; 0 = the client left */
    bool ending; /* nothing is taken from the stream any more */
};

static char piece[PIECE];

static void upload_release(struct job *base)
{
    struct upload_job *job = (struct upload_job *)base;
    if (job->fd >= 0)
        close(job->fd);
    struct stream *upload = steal_pointer(&job->upload);
    if (upload)
        stream_abort(upload);
    free(job->target);
    free(job->temp);
}

/* Ends. */

static void tell(struct upload_job *job, const char *system_call)
{
    if (job->error)
        file_failed(&job->file, OPERATION, FAILED, system_call, job->error);
    else
        file_wrong(&job->file, OPERATION, FAILED, "the client left before the end of the content");
}

static void removed(void *arg, struct agent_answer *answer)
{
    struct upload_job *job = arg;
    if (!job_lost(&job->file.job, answer))
        tell(job, "write");
}

/* Gives the temporary file up. It is emptied first: a name that cannot be removed holds nothing. */
static void abandon(struct upload_job *job, int error)
{
    job->ending = true;
    job->error = error;
    if (ftruncate(job->fd, 0) == 0)
        close(steal_fd(&job->fd));
    struct stream *upload = steal_pointer(&job->upload);
    if (upload)
        stream_abort(upload);
    ask_path(job->file.job.container, RT_REMOVE, (struct rt_path){0}, job->temp, NULL, removed,
             job);
}

static void renamed(void *arg, struct agent_answer *answer)
{
    struct upload_job *job = arg;
    struct job *base = &job->file.job;
    if (job_lost(base, answer))
        return;
    if (answer->value < 0) {
        abandon(job, -answer->value);
        return;
    }
    job_result(base,
               json_pack("{s:b,s:s,s:I,s:o}", "success", 1, "path", job->file.path, "bytesWritten",
                         (json_int_t)job->written, "timestamp", job_timestamp(base)));
}

static void finish(struct upload_job *job)
{
    job->ending = true;
    /* Again, since writing may have dropped bits; where that is not allowed they stay as they are.
     */
    if (job->mode && fchmod(job->fd, job->mode & 07777) < 0)
        job->mode = 0;
    ask_path(job->file.job.container, RT_RENAME, (struct rt_path){.flags = RT_EXACT}, job->temp,
             job->target, renamed, job);
}

/* The bytes. The stream holds few of them, so that one turn of the loop is short. */

static void pump(void *arg)
{
    struct upload_job *job = arg;
    while (!job->ending) {
        long size = stream_take(job->upload, piece, sizeof piece);
        if (size == 0)
            return; /* readable() comes */
        int result = size > 0 ? file_write(job->fd, piece, (size_t)size) : 0;
        if (result < 0)
            abandon(job, -result);
        else if (size < 0 && stream_failed(job->upload))
            abandon(job, 0);
        else if (size < 0)
            finish(job);
        if (result < 0 || size < 0)
            return; /* the job may be gone */
        job->written += size;
    }
}

/* The beginning. */

/* Beside the target, and in a name that fits: a long one is left out. */
static char *temp_name(const char *target)
{
    char uuid[UUID_ROOM];
    char *temp = NULL;
    const char *slash = strrchr(target, '/');
    size_t directory = slash ? (size_t)(slash + 1 - target) : 0;
    size_t name = strlen(target + directory);
    random_uuid(uuid);
    if (name + strlen(TEMP) + strlen(uuid) > NAME_ROOM)
        name = 0;
    if (asprintf(&temp, "%.*s" TEMP "%s", (int)(directory + name), target, uuid) < 0)
        return NULL;
    return temp;
}

static void open_temp(struct upload_job *job);

static void opened(void *arg, struct agent_answer *answer)
{
    struct upload_job *job = arg;
    if (job_lost(&job->file.job, answer))
        return;
    if (answer->value == -EEXIST && ++job->tries < TRIES) {
        open_temp(job);
        return;
    }
    if (answer->value < 0) {
        file_failed(&job->file, OPERATION, FAILED, "open", -answer->value);
        return;
    }
    job->fd = steal_fd(&answer->fds[0]);
    stream_set_sink(job->upload, (struct stream_sink){pump, job});
    pump(job);
}

static void open_temp(struct upload_job *job)
{
    struct rt_path how = {
        .flags = RT_PARENTS,
        .open_flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
        .mode = job->mode & 07777 ? job->mode & 07777 : 0644,
    };
    free(job->temp);
    job->temp = temp_name(job->target);
    if (job->temp)
        ask_path(job->file.job.container, RT_OPEN, how, job->temp, NULL, opened, job);
    else
        file_wrong(&job->file, OPERATION, FAILED, "out of memory");
}

static void looked(void *arg, struct agent_answer *answer)
{
    struct upload_job *job = arg;
    if (job_lost(&job->file.job, answer))
        return;
    const struct rt_stat *st = answer->value < 0 ? NULL : answer->payload;
    if (st && S_ISDIR(st->mode)) {
        file_failed(&job->file, OPERATION, FAILED, "open", EISDIR);
        return;
    }
    if (st && !S_ISREG(st->mode)) {
        file_wrong(&job->file, OPERATION, FAILED, "not a regular file");
        return;
    }
    job->mode = st ? st->mode : 0;
    open_temp(job);
}

/* Takes the target. */
static void begin_at(struct upload_job *job, char *target)
{
    job->target = target;
    job_leave_session(&job->file.job);
    if (target)
        ask_path(job->file.job.container, RT_STAT, (struct rt_path){0}, target, NULL, looked, job);
    else
        file_wrong(&job->file, OPERATION, FAILED, "out of memory");
}

static char *join(const char *directory, const char *path)
{
    char *joined = NULL;
    return asprintf(&joined, "%s/%s", directory, path) < 0 ? NULL : joined;
}

/* The directory of the session's shell. */
static void located(void *arg, struct agent_answer *answer)
{
    static const char gone[] = " (deleted)"; /* as the kernel says it */
    struct upload_job *job = arg;
    if (job_lost(&job->file.job, answer))
        return;
    const char *directory = answer->value < 0 ? NULL : answer->payload;
    size_t size = directory ? strnlen(directory, answer->size) : 0;
    bool known = directory && size < answer->size && *directory == '/' &&
                 (size < strlen(gone) || strcmp(directory + size - strlen(gone), gone) != 0);
    if (known)
        begin_at(job, join(directory, job->file.path));
    else
        file_failed(&job->file, OPERATION, FAILED, "open", ENOENT);
}

static void upload_begin(struct job *base)
{
    struct upload_job *job = (struct upload_job *)base;
    int pid = file_base(&job->file);
    char link[64];
    if (job->file.path[0] == '/') {
        begin_at(job, strdup(job->file.path));
    } else if (pid == 0) {
        begin_at(job, join(RT_DEFAULT_DIR, job->file.path));
    } else {
        snprintf(link, sizeof link, "/proc/%d/cwd", pid);
        ask_path(base->container, RT_READLINK, (struct rt_path){0}, link, NULL, located, job);
    }
}

static const struct job_kind upload_kind = {
    .op = "writeStream",
    .size = sizeof(struct upload_job),
    .begin = upload_begin,
    .refuse = file_refuse,
    .release = upload_release,
};

void op_write_stream(struct container *container, struct call *call)
{
    if (!call->upload) {
        arg_invalid(call, "content", "REQUIRED", "the content must come as a stream");
        return;
    }
    struct upload_job *job = file_job_new(container, call, &upload_kind, "path", NULL);
    if (!job)
        return;
    job->fd = -1;
    job->upload = steal_pointer(&call->upload);
    size_t size = strlen(job->file.path);
    if (job->file.path[size - 1] == '/')
        file_failed(&job->file, OPERATION, FAILED, "open", EISDIR);
    else
        file_submit(&job->file);
}
