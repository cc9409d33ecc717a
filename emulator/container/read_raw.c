/* files.readFile with the encoding "none": the bytes as they are, of any size. They go from the
 * file into the buffer of whoever sends them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "container/files.h"
#include "container/mime.h"
#include "container/read.h"

#define OPERATION "file.read"

struct raw_job {
    struct file_job file;
    int fd;
    int64_t left;          /* bytes; -1 = until the end */
    struct stream *stream; /* NULL until the call is answered */
};

static void raw_release(struct job *job)
{
    struct raw_job *raw = (struct raw_job *)job;
    if (raw->fd >= 0)
        close(raw->fd);
    struct stream *stream = steal_pointer(&raw->stream);
    if (stream)
        stream_fail(stream);
}

/* A file that shrank is a failure: its size has been told. One that grew ends where it ended. */
static long raw_fill(void *arg, void *to, size_t size)
{
    struct raw_job *job = arg;
    if (job->left >= 0 && size > (size_t)job->left)
        size = (size_t)job->left;
    ssize_t got;
    do
        got = size ? read(job->fd, to, size) : 0;
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        job->left -= job->left > 0 ? got : 0;
        return got;
    }
    bool whole = got == 0 && job->left <= 0;
    struct stream *stream = steal_pointer(&job->stream);
    job_end(&job->file.job);
    if (whole)
        stream_end(stream);
    else
        stream_fail(stream);
    return 0;
}

static void raw_aborted(void *arg)
{
    struct raw_job *job = arg;
    job_end(&job->file.job);
}

static void raw_answer(struct raw_job *job)
{
    struct stream_source source = {NULL, raw_aborted, job, raw_fill};
    struct job *base = &job->file.job;
    /* As the original: by the name alone. */
    const char *type = mime_with_charset(mime_by_name(job->file.path));
    json_t *size = job->left < 0 ? json_null() : json_integer((json_int_t)job->left);
    json_t *body = json_pack("{s:b,s:s,s:o,s:s,s:o}", "success", 1, "path", job->file.path, "size",
                             size, "mimeType", type, "timestamp", job_timestamp(base));
    struct stream *stream = body ? stream_new(0, source) : NULL;
    if (!stream) {
        json_decref(body);
        job_error(base, CODE_INTERNAL_ERROR, OPERATION, NULL, "Out of memory");
        return;
    }
    struct answer answer = {.code = CODE_OK, .body = body, .stream = stream, .raw = true};
    job->stream = stream;
    job_leave_session(base);
    call_finish(steal_pointer(&base->call), &answer);
}

static void opened(void *arg, struct agent_answer *answer)
{
    struct raw_job *job = arg;
    if (!read_opened(&job->file, answer))
        return;
    job->left = ((const struct rt_stat *)answer->payload)->size;
    job->fd = steal_fd(&answer->fds[0]);
    /* Files of /proc say that they are empty and are not. */
    char first;
    if (job->left == 0 && pread(job->fd, &first, 1, 0) == 1)
        job->left = -1;
    raw_answer(job);
}

static void raw_begin(struct job *job)
{
    file_ask((struct file_job *)job, RT_OPEN, (struct rt_path){.open_flags = O_RDONLY}, opened);
}

static const struct job_kind raw_kind = {
    .op = "readRaw",
    .size = sizeof(struct raw_job),
    .begin = raw_begin,
    .refuse = file_refuse,
    .release = raw_release,
};

void op_read_raw(struct container *container, struct call *call)
{
    struct raw_job *job = file_job_new(container, call, &raw_kind, "path", NULL);
    if (!job)
        return;
    job->fd = -1;
    file_submit(&job->file);
}
