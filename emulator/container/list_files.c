/* POST /api/list-files. The runtime lists in a process of its own and writes records into a pipe;
 * they are taken as they come and believed only within bounds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "container/errnos.h"
#include "container/files.h"

#define OPERATION "directory.list"
#define FAILED "Failed to list directory"

enum {
    PIECE = 64 * 1024,
    PATH_SIZE_MAX = 65535,
    ENTRIES_MAX = 1000000,
    MEMORY_MAX = 256 * 1024 * 1024,
};

struct list_job {
    struct file_job file;
    bool recursive, hidden;
    int fd;
    struct watch watch;
    struct buf waiting; /* bytes of a record that is not whole yet */
    struct buf files;   /* the entries as JSON */
    size_t count;
    int64_t second; /* that `day` says */
    char day[40];
};

static char piece[PIECE];

static void list_release(struct job *base)
{
    struct list_job *job = (struct list_job *)base;
    loop_unwatch(base->container->loop, &job->watch);
    if (job->fd >= 0)
        close(job->fd);
    buf_free(&job->waiting);
    buf_free(&job->files);
}

/* One entry. */

static const char *type_of(uint32_t mode)
{
    return S_ISREG(mode)   ? "file"
           : S_ISDIR(mode) ? "directory"
           : S_ISLNK(mode) ? "symlink"
                           : "other";
}

/* printf would take most of the time of a listing. */
static void add_number(struct buf *to, uint64_t number, int digits)
{
    char text[24];
    char *at = text + sizeof text;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
        digits--;
    } while (number || digits > 0);
    buf_add(to, at, (size_t)(text + sizeof text - at));
}

/* File names need not be UTF-8; JSON must. */
static void add_name(struct buf *to, const char *key, const char *prefix, const char *name,
                     size_t size)
{
    size_t prefix_size = strlen(prefix);
    buf_adds(to, key);
    jsonstr_escape(to, prefix, prefix_size);
    if (prefix_size && prefix[prefix_size - 1] != '/')
        buf_addc(to, '/');
    jsonstr_escape(to, name, size);
    buf_addc(to, '"');
}

/* Local time, which is UTC, with ten digits as find prints them. Most files of a directory are as
 * old as others. */
static void add_modified(struct list_job *job, const struct rt_stat *st)
{
    time_t seconds = st->mtime_s;
    struct tm tm;
    if (!*job->day || job->second != st->mtime_s) {
        if (!gmtime_r(&seconds, &tm) ||
            strftime(job->day, sizeof job->day, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
            snprintf(job->day, sizeof job->day, "1970-01-01T00:00:00");
        job->second = st->mtime_s;
    }
    buf_adds(&job->files, ",\"modifiedAt\":\"");
    buf_adds(&job->files, job->day);
    buf_addc(&job->files, '.');
    add_number(&job->files, st->mtime_ns % 1000000000, 9);
    buf_adds(&job->files, "0\"");
}

static void add_mode(struct buf *to, uint32_t mode)
{
    char text[] = "rwxrwxrwx";
    for (int i = 0; i < 9; i++) {
        if (!(mode & (0400u >> i)))
            text[i] = '-';
    }
    buf_adds(to, ",\"mode\":\"");
    buf_adds(to, text);
    buf_adds(to, "\",\"permissions\":{\"readable\":");
    buf_adds(to, mode & 0400 ? "true" : "false");
    buf_adds(to, ",\"writable\":");
    buf_adds(to, mode & 0200 ? "true" : "false");
    buf_adds(to, ",\"executable\":");
    buf_adds(to, mode & 0100 ? "true}}" : "false}}");
}

/* Written as it is sent: as objects, a thousand entries take three times as long. */
static int add_entry(struct list_job *job, const struct rt_stat *st, const char *path, size_t size)
{
    const char *slash = memrchr(path, '/', size);
    const char *name = slash ? slash + 1 : path;
    struct buf *to = &job->files;
    if ((name[0] == '.' && !job->hidden) || memchr(path, '\t', size) || memchr(path, '\n', size))
        return 0;
    buf_adds(to, job->count++ ? ",{" : "{");
    add_name(to, "\"name\":\"", "", name, (size_t)(path + size - name));
    add_name(to, ",\"absolutePath\":\"", job->file.path, path, size);
    add_name(to, ",\"relativePath\":\"", "", path, size);
    buf_adds(to, ",\"type\":\"");
    buf_adds(to, type_of(st->mode));
    buf_adds(to, "\",\"size\":");
    add_number(to, st->size > 0 ? (uint64_t)st->size : 0, 1);
    add_modified(job, st);
    add_mode(to, st->mode);
    return to->error;
}

/* The stream of records. */

static void finish(struct list_job *job, int error)
{
    struct job *base = &job->file.job;
    if (error) {
        file_failed(&job->file, OPERATION, FAILED, "scandir", error);
        return;
    }
    struct answer answer = {
        .code = CODE_OK,
        .body = json_pack("{s:b,s:s,s:n,s:I,s:o}", "success", 1, "path", job->file.path, "files",
                          "count", (json_int_t)job->count, "timestamp", job_timestamp(base)),
        .content_form = CONTENT_FILES,
    };
    if (!answer.body || buf_addc(&job->files, ']') < 0) {
        json_decref(answer.body);
        job_error(base, CODE_INTERNAL_ERROR, OPERATION, NULL, "Out of memory");
        return;
    }
    answer.content = job->files;
    job->files = BUF_INIT(0);
    job_finish(base, &answer);
}

/* Takes one whole record off the front: its size, 0 when there is none, -1 when the job has ended.
 */
static long take_record(struct list_job *job, const char *at, size_t left)
{
    struct rt_entry entry;
    if (left < sizeof entry)
        return 0;
    memcpy(&entry, at, sizeof entry);
    if (entry.path_size == 0) {
        finish(job, entry.error);
        return -1;
    }
    if (entry.path_size > PATH_SIZE_MAX) {
        file_wrong(&job->file, OPERATION, FAILED, "the listing cannot be read");
        return -1;
    }
    if (left < sizeof entry + entry.path_size)
        return 0;
    if (add_entry(job, &entry.stat, at + sizeof entry, entry.path_size) < 0 ||
        job->count > ENTRIES_MAX) {
        file_wrong(&job->file, OPERATION, FAILED,
                   "the listing is larger than 256 MiB; list its directories one by one");
        return -1;
    }
    return (long)(sizeof entry + entry.path_size);
}

/* False when the job has ended. */
static bool take_records(struct list_job *job)
{
    size_t taken = 0;
    long size;
    while ((size = take_record(job, buf_text(&job->waiting) + taken, job->waiting.size - taken)) >
           0)
        taken += (size_t)size;
    if (size < 0)
        return false;
    buf_drop(&job->waiting, taken);
    return true;
}

static void readable(void *arg, uint32_t events)
{
    struct list_job *job = arg;
    ssize_t got = read(job->fd, piece, sizeof piece);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 && job->file.job.container->stopping)
        job_interrupted(&job->file.job);
    else if (got <= 0)
        file_wrong(&job->file, OPERATION, FAILED, "the listing broke off");
    else if (buf_add(&job->waiting, piece, (size_t)got) < 0)
        file_wrong(&job->file, OPERATION, FAILED, "out of memory");
    else
        take_records(job);
}

static void listing_opened(void *arg, struct agent_answer *answer)
{
    struct list_job *job = arg;
    struct job *base = &job->file.job;
    if (job_lost(base, answer))
        return;
    if (answer->value == -ENOENT) {
        file_missing(&job->file, OPERATION, "Directory not found");
        return;
    }
    if (answer->value == -ENOTDIR) {
        job_error(base, CODE_NOT_DIRECTORY, OPERATION,
                  json_pack("{s:s,s:s}", "path", job->file.path, "operation", OPERATION),
                  "Path is not a directory: %s", job->file.path);
        return;
    }
    if (answer->value < 0) {
        finish(job, -answer->value);
        return;
    }
    buf_addc(&job->files, '[');
    job->fd = steal_fd(&answer->fds[0]);
    job->watch = (struct watch){.ready = readable, .arg = job, .fd = -1};
    int result = loop_watch(base->container->loop, &job->watch, job->fd, EPOLLIN);
    if (result < 0)
        finish(job, -result);
}

static void list_begin(struct job *base)
{
    struct list_job *job = (struct list_job *)base;
    file_ask(&job->file, RT_LIST, (struct rt_path){.flags = job->recursive ? RT_RECURSIVE : 0},
             listing_opened);
}

static const struct job_kind list_kind = {
    .op = "listFiles",
    .size = sizeof(struct list_job),
    .begin = list_begin,
    .refuse = file_refuse,
    .release = list_release,
};

void op_list_files(struct container *container, struct call *call)
{
    json_t *options = json_object_get(call->args, "options");
    if (options && !json_is_null(options) && !json_is_object(options)) {
        arg_invalid(call, "options", "INVALID_TYPE", "'options' must be an object");
        return;
    }
    struct list_job *job = file_job_new(container, call, &list_kind, "path", NULL);
    if (!job)
        return;
    job->fd = -1;
    job->watch = WATCH_INIT;
    job->waiting = BUF_INIT(PIECE + PATH_SIZE_MAX + sizeof(struct rt_entry));
    job->files = BUF_INIT(MEMORY_MAX);
    job->recursive = json_is_true(json_object_get(options, "recursive"));
    job->hidden = json_is_true(json_object_get(options, "includeHidden"));
    file_submit(&job->file);
}
