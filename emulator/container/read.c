/* POST /api/read. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "container/detect.h"
#include "container/mime.h"
#include "container/read.h"

#define OPERATION "file.read"
#define FAILED "Failed to read file"

enum {
    SIZE_MAX_READ = 32 * 1024 * 1024,
    PIECE = 256 * 1024,
    /* Read in one turn of the loop. */
    TURN_MAX = 4 * 1024 * 1024,
};

const char READ_MISSING[] = "File not found";
const char READ_SPECIAL[] = "not a regular file";

struct read_job {
    struct file_job file;
    int fd;
    struct buf data;
    struct detect detect;
    struct task task;
};

static void read_release(struct job *job)
{
    struct read_job *read_job = (struct read_job *)job;
    loop_cancel(job->container->loop, &read_job->task);
    detect_close(&read_job->detect);
    if (read_job->fd >= 0)
        close(read_job->fd);
    buf_free(&read_job->data);
}

const char *read_refusal(const struct agent_answer *answer, int *error)
{
    *error = 0;
    if (answer->value == -ENOENT || answer->value == -ENOTDIR)
        return READ_MISSING;
    if (answer->value == -ENXIO)
        return READ_SPECIAL;
    if (answer->value < 0) {
        *error = -answer->value;
        return "";
    }
    const struct rt_stat *st = answer->payload;
    if (S_ISDIR(st->mode))
        return READ_MISSING;
    return S_ISREG(st->mode) ? NULL : READ_SPECIAL;
}

bool read_opened(struct file_job *file, const struct agent_answer *answer)
{
    int error;
    if (job_lost(&file->job, answer))
        return false;
    const char *why = read_refusal(answer, &error);
    if (error)
        file_failed(file, OPERATION, FAILED, "open", error);
    else if (why == READ_MISSING)
        file_missing(file, OPERATION, READ_MISSING);
    else if (why)
        file_wrong(file, OPERATION, FAILED, why);
    return !why;
}

static void too_large(struct read_job *job, int64_t size)
{
    job_error(&job->file.job, CODE_FILE_TOO_LARGE, OPERATION,
              json_pack("{s:s,s:s,s:I,s:I}", "path", job->file.path, "operation", OPERATION,
                        "actualSize", (json_int_t)size, "maxSize", (json_int_t)SIZE_MAX_READ),
              "File '%s' is too large to read at once: %lld bytes, at most %d; use a stream",
              job->file.path, (long long)size, SIZE_MAX_READ);
}

/* The encoding that was asked for, else what suits the type. */
static bool as_base64(const struct read_job *job, const char *type)
{
    const char *wanted = json_string_value(json_object_get(job->file.job.args, "encoding"));
    if (wanted && strcmp(wanted, "base64") == 0)
        return true;
    if (wanted && (strcmp(wanted, "utf-8") == 0 || strcmp(wanted, "utf8") == 0))
        return false;
    return !mime_is_text(type);
}

static void answer_with(void *arg, const char *type)
{
    struct read_job *job = arg;
    bool base64 = as_base64(job, type);
    struct answer answer = {
        .code = CODE_OK,
        .body = json_pack("{s:b,s:s,s:n,s:o,s:s,s:b,s:s,s:I}", "success", 1, "path", job->file.path,
                          "content", "timestamp", job_timestamp(&job->file.job), "encoding",
                          base64 ? "base64" : "utf-8", "isBinary", base64, "mimeType", type, "size",
                          (json_int_t)job->data.size),
        .content_form = base64 ? CONTENT_BASE64 : CONTENT_TEXT,
        .content = job->data,
    };
    job->data = (struct buf){0};
    job_finish(&job->file.job, &answer);
}

/* 1 = more may come, 0 = the end, or a negative errno. */
static int read_piece(struct read_job *job)
{
    size_t room = SIZE_MAX_READ + 1 - job->data.size;
    int error = 0;
    char *to = buf_reserve(&job->data, room < PIECE ? room : PIECE, &error);
    if (!to)
        return error;
    ssize_t got = read(job->fd, to, room < PIECE ? room : PIECE);
    if (got < 0)
        return errno == EINTR ? 1 : -errno;
    buf_commit(&job->data, (size_t)got);
    return got > 0;
}

static void read_some(void *arg)
{
    struct read_job *job = arg;
    size_t goal = job->data.size + TURN_MAX;
    int result = 1;
    while (result > 0 && job->data.size < goal && job->data.size <= SIZE_MAX_READ)
        result = read_piece(job);
    if (result < 0)
        file_failed(&job->file, OPERATION, FAILED, "read", -result);
    else if (job->data.size > SIZE_MAX_READ)
        too_large(job, (int64_t)job->data.size);
    else if (result > 0)
        loop_defer(job->file.job.container->loop, &job->task);
    else
        detect_start(&job->detect, &job->file, buf_text(&job->data), job->data.size, answer_with,
                     job);
}

static void opened(void *arg, struct agent_answer *answer)
{
    struct read_job *job = arg;
    int error;
    if (!read_opened(&job->file, answer))
        return;
    const struct rt_stat *st = answer->payload;
    if (st->size > SIZE_MAX_READ) {
        too_large(job, st->size);
        return;
    }
    job->fd = steal_fd(&answer->fds[0]);
    /* One byte more than there should be, so that the end is seen without growing. */
    if (st->size > 0 && !buf_reserve(&job->data, (size_t)st->size + 1, &error)) {
        file_failed(&job->file, OPERATION, FAILED, "read", -error);
        return;
    }
    read_some(job);
}

static void read_begin(struct job *job)
{
    file_ask((struct file_job *)job, RT_OPEN, (struct rt_path){.open_flags = O_RDONLY}, opened);
}

static const struct job_kind read_kind = {
    .op = "read",
    .size = sizeof(struct read_job),
    .begin = read_begin,
    .refuse = file_refuse,
    .release = read_release,
};

void op_read(struct container *container, struct call *call)
{
    const char *encoding;
    if (!arg_text(call, "encoding", false, &encoding))
        return;
    struct read_job *job = file_job_new(container, call, &read_kind, "path", NULL);
    if (!job)
        return;
    job->fd = -1;
    job->data = BUF_INIT(SIZE_MAX_READ + 1);
    job->task = (struct task){.run = read_some, .arg = job};
    file_submit(&job->file);
}
