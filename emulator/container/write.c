/* POST /api/write. The content is unescaped and checked as a whole before the file is opened, and
 * room is made for all of it before the first byte is written over the old content, so that neither
 * bad input nor a full disk loses anything. The file stays the same one, with its mode and links.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "container/files.h"

#define OPERATION "file.write"
#define FAILED "Failed to write file"

enum {
    PIECE = 64 * 1024,
    /* Reserved and written in one turn of the loop. */
    RESERVE_MAX = 4 * 1024 * 1024,
    TURN_MAX = 2 * 1024 * 1024,
    PAGE = 4096,
};

struct write_job {
    struct file_job file;
    const char *from, *end; /* what is still to be written */
    bool base64;            /* `from` is base64 in whole groups of four */
    char tail[2];           /* the last one or two bytes of base64, decoded */
    size_t tail_size;
    struct buf unescaped; /* what stood in the JSON string literal */
    int64_t size;         /* of the whole content */
    int64_t reserved;
    int64_t old_size;
    bool created; /* the file was not there before */
    int error;    /* to tell when it has been removed again */
    const char *failed_call;
    int fd;
    struct task task;
};

static char piece[PIECE];

static void write_release(struct job *job)
{
    struct write_job *write_job = (struct write_job *)job;
    loop_cancel(job->container->loop, &write_job->task);
    if (write_job->fd >= 0)
        close(write_job->fd);
    buf_free(&write_job->unescaped);
}

/* The next bytes of the file; 0 at the end. */
static long next_piece(struct write_job *job, const char **bytes)
{
    *bytes = piece;
    if (!job->base64) {
        size_t left = (size_t)(job->end - job->from);
        *bytes = job->from;
        size_t size = left < TURN_MAX ? left : TURN_MAX;
        job->from += size;
        return (long)size;
    }
    long size =
        job->from < job->end ? base64_decode(&job->from, job->end, piece, sizeof piece / 3 * 3) : 0;
    if (size == 0 && job->tail_size) {
        size = (long)job->tail_size;
        *bytes = job->tail;
        job->tail_size = 0;
    }
    return size;
}

static void removed(void *arg, struct agent_answer *answer)
{
    struct write_job *job = arg;
    if (!job_lost(&job->file.job, answer))
        file_failed(&job->file, OPERATION, FAILED, job->failed_call, job->error);
}

/* A file that was there keeps what it has; a new one goes again. */
static void fail(struct write_job *job, const char *system_call, int error)
{
    job->failed_call = system_call;
    job->error = error;
    if (ftruncate(job->fd, job->created ? 0 : job->old_size) < 0)
        job->failed_call = "ftruncate";
    if (job->created)
        file_ask(&job->file, RT_REMOVE, (struct rt_path){0}, removed);
    else
        file_failed(&job->file, OPERATION, FAILED, job->failed_call, error);
}

static void write_some(void *arg)
{
    struct write_job *job = arg;
    size_t written = 0;
    const char *bytes;
    long size = 0;
    int result = 0;
    while (result == 0 && written < TURN_MAX && (size = next_piece(job, &bytes)) > 0) {
        result = file_write(job->fd, bytes, (size_t)size);
        written += (size_t)size;
    }
    if (result == 0 && size <= 0 && job->old_size > job->size && ftruncate(job->fd, job->size) < 0)
        result = -errno;
    if (result < 0) {
        fail(job, "write", -result);
    } else if (size > 0) {
        loop_defer(job->file.job.container->loop, &job->task);
    } else {
        struct job *base = &job->file.job;
        job_result(base, json_pack("{s:b,s:s,s:o}", "success", 1, "path", job->file.path,
                                   "timestamp", job_timestamp(base)));
    }
}

/* A file system that cannot reserve finds out while it writes. */
static int reserve_piece(struct write_job *job)
{
    int64_t left = job->size - job->reserved;
    int64_t size = left < RESERVE_MAX ? left : RESERVE_MAX;
    if (fallocate(job->fd, FALLOC_FL_KEEP_SIZE, job->reserved, size) == 0)
        job->reserved += size;
    else if (errno == EOPNOTSUPP || errno == ENOSYS)
        job->reserved = job->size;
    else if (errno != EINTR)
        return -errno;
    return 0;
}

/* One page is either written or not, without this. */
static void reserve_some(void *arg)
{
    struct write_job *job = arg;
    int result = job->size > PAGE ? reserve_piece(job) : 0;
    if (result < 0) {
        fail(job, "write", -result);
        return;
    }
    bool done = job->size <= PAGE || job->reserved == job->size;
    job->task.run = done ? write_some : reserve_some;
    if (done && job->size <= RESERVE_MAX)
        write_some(job);
    else
        loop_defer(job->file.job.container->loop, &job->task);
}

static void opened(void *arg, struct agent_answer *answer)
{
    struct write_job *job = arg;
    if (job_lost(&job->file.job, answer))
        return;
    /* What the runtime says of FIFOs, sockets and devices. */
    if (answer->value == -EINVAL || answer->value == -ENXIO) {
        file_wrong(&job->file, OPERATION, FAILED, "not a regular file");
        return;
    }
    if (answer->value < 0) {
        file_failed(&job->file, OPERATION, FAILED, "open", -answer->value);
        return;
    }
    const struct rt_stat *st = answer->payload;
    job->created = st->created;
    job->old_size = st->size;
    job->fd = steal_fd(&answer->fds[0]);
    reserve_some(job);
}

static void write_begin(struct job *job)
{
    struct rt_path how = {.flags = RT_PARENTS, .open_flags = O_WRONLY | O_CREAT, .mode = 0644};
    file_ask((struct file_job *)job, RT_OPEN, how, opened);
}

static const struct job_kind write_kind = {
    .op = "write",
    .size = sizeof(struct write_job),
    .begin = write_begin,
    .refuse = file_refuse,
    .release = write_release,
};

/* Content. */

static bool is_base64(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
}

/* As lenient as the original: padding may be missing, and a lone last character is dropped. */
static bool check_base64(struct write_job *job)
{
    while (job->end > job->from && job->end[-1] == '=')
        job->end--;
    for (const char *c = job->from; c < job->end; c++) {
        if (!is_base64(*c))
            return false;
    }
    size_t rest = (size_t)(job->end - job->from) % 4;
    job->end -= rest;
    if (rest < 2)
        return true;
    /* Filled up to a whole group, so that surplus bits of the last character do not matter. */
    char group[4] = {'A', 'A', 'A', 'A'};
    memcpy(group, job->end, rest);
    const char *at = group;
    char bytes[4];
    if (base64_decode(&at, group + 4, bytes, sizeof bytes) != 3)
        return false;
    memcpy(job->tail, bytes, rest - 1);
    job->tail_size = rest - 1;
    return true;
}

/* 0, or -1 when the literal is not valid JSON, or -ENOMEM. */
static int check_literal(struct write_job *job)
{
    const char *from = job->from;
    size_t room = (size_t)(job->end - from) + 16;
    char *to = buf_reserve(&job->unescaped, room, NULL);
    if (!to)
        return -ENOMEM;
    long size = jsonstr_unescape(&from, job->end, to, room);
    if (size < 0)
        return -1;
    buf_commit(&job->unescaped, (size_t)size);
    return 0;
}

static bool refuse_content(struct write_job *job, const char *code, const char *why)
{
    job_error(&job->file.job, CODE_VALIDATION_FAILED, NULL,
              arg_invalid_context("content", why, code), "Invalid content for '%s': %s",
              job->file.path, why);
    return false;
}

static bool unescape(struct write_job *job)
{
    size_t size = (size_t)(job->end - job->from);
    /* Base64 has nothing to escape but slashes, which few do: then it is used where it lies. */
    if (job->base64 && !memchr(job->from, '\\', size))
        return true;
    job->unescaped = BUF_INIT(size + 16);
    int result = check_literal(job);
    if (result == -ENOMEM) {
        file_wrong(&job->file, OPERATION, FAILED, "out of memory");
        return false;
    }
    if (result < 0)
        return refuse_content(job, "INVALID_STRING", "not a valid JSON string");
    job->from = buf_text(&job->unescaped);
    job->end = job->from + job->unescaped.size;
    return true;
}

static bool prepare_content(struct write_job *job, const struct call *call)
{
    json_t *content = json_object_get(call->args, "content");
    if (call->content) {
        job->from = call->content;
        job->end = call->content + call->content_size;
        if (!unescape(job))
            return false;
    } else if (json_is_string(content)) {
        job->from = json_string_value(content);
        job->end = job->from + json_string_length(content);
    } else if (!content || json_is_null(content)) {
        file_wrong(&job->file, OPERATION, FAILED, "no content given");
        return false;
    } else {
        return refuse_content(job, "INVALID_TYPE", "'content' must be a string");
    }
    if (job->base64 && !check_base64(job))
        return refuse_content(job, "INVALID_BASE64", "Invalid base64 characters");
    int64_t given = job->end - job->from;
    job->size = job->base64 ? given / 4 * 3 + (int64_t)job->tail_size : given;
    return true;
}

void op_write(struct container *container, struct call *call)
{
    const char *encoding = "";
    if (!arg_text(call, "encoding", false, &encoding))
        return;
    struct write_job *job = file_job_new(container, call, &write_kind, "path", NULL);
    if (!job)
        return;
    job->fd = -1;
    job->task = (struct task){.run = write_some, .arg = job};
    job->base64 = strcmp(encoding, "base64") == 0;
    if (prepare_content(job, call))
        file_submit(&job->file);
}
