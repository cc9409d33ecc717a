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
    /* About what one entry takes as a JSON object, without its names. */
    ENTRY_MEMORY = 1200,
};

struct list_job {
    struct file_job file;
    bool recursive, hidden;
    int fd;
    struct watch watch;
    struct buf waiting; /* bytes of a record that is not whole yet */
    json_t *files;
    json_t *permissions[8]; /* by owner's bits, shared by the entries */
    size_t memory;
};

static char piece[PIECE];

static void list_release(struct job *base)
{
    struct list_job *job = (struct list_job *)base;
    loop_unwatch(base->container->loop, &job->watch);
    if (job->fd >= 0)
        close(job->fd);
    buf_free(&job->waiting);
    json_decref(job->files);
    for (size_t i = 0; i < sizeof job->permissions / sizeof *job->permissions; i++)
        json_decref(job->permissions[i]);
}

/* One entry. */

static const char *type_of(uint32_t mode)
{
    return S_ISREG(mode)   ? "file"
           : S_ISDIR(mode) ? "directory"
           : S_ISLNK(mode) ? "symlink"
                           : "other";
}

static json_t *mode_text(uint32_t mode)
{
    char text[] = "rwxrwxrwx";
    for (int i = 0; i < 9; i++) {
        if (!(mode & (0400u >> i)))
            text[i] = '-';
    }
    return json_string(text);
}

static json_t *permissions(struct list_job *job, uint32_t mode)
{
    unsigned owner = mode >> 6 & 7;
    if (!job->permissions[owner])
        job->permissions[owner] =
            json_pack("{s:b,s:b,s:b}", "readable", (owner & 4) != 0, "writable", (owner & 2) != 0,
                      "executable", (owner & 1) != 0);
    return json_incref(job->permissions[owner]);
}

/* Local time, which is UTC, with ten digits as find prints them. */
static json_t *modified_at(const struct rt_stat *st)
{
    time_t seconds = st->mtime_s;
    struct tm tm;
    char text[64];
    char day[40];
    if (!gmtime_r(&seconds, &tm) || strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        return json_string("1970-01-01T00:00:00.0000000000");
    snprintf(text, sizeof text, "%s.%09u0", day, st->mtime_ns % 1000000000);
    return json_string(text);
}

/* File names need not be UTF-8; JSON must. */
static json_t *name_text(const char *prefix, const char *name, size_t size)
{
    CLEANUP_BUF struct buf text = BUF_INIT(4 * PATH_SIZE_MAX + 8 * 4096);
    size_t prefix_size = strlen(prefix);
    if (buf_add(&text, prefix, prefix_size) < 0 ||
        (prefix_size && prefix[prefix_size - 1] != '/' && buf_addc(&text, '/') < 0) ||
        jsonstr_clean(&text, name, size, false) < 0)
        return NULL;
    return json_stringn_nocheck(buf_text(&text), text.size);
}

static int add_entry(struct list_job *job, const struct rt_stat *st, const char *path, size_t size)
{
    const char *slash = memrchr(path, '/', size);
    const char *name = slash ? slash + 1 : path;
    if ((name[0] == '.' && !job->hidden) || memchr(path, '\t', size) || memchr(path, '\n', size))
        return 0;
    json_t *entry = json_object();
    json_object_set_new(entry, "name", name_text("", name, (size_t)(path + size - name)));
    json_object_set_new(entry, "absolutePath", name_text(job->file.path, path, size));
    json_object_set_new(entry, "relativePath", name_text("", path, size));
    json_object_set_new(entry, "type", json_string(type_of(st->mode)));
    json_object_set_new(entry, "size", json_integer(st->size));
    json_object_set_new(entry, "modifiedAt", modified_at(st));
    json_object_set_new(entry, "mode", mode_text(st->mode));
    json_object_set_new(entry, "permissions", permissions(job, st->mode));
    job->memory += ENTRY_MEMORY + 3 * size + strlen(job->file.path);
    return json_array_append_new(job->files, entry) < 0 ? -ENOMEM : 0;
}

/* The stream of records. */

static void finish(struct list_job *job, int error)
{
    struct job *base = &job->file.job;
    if (error) {
        file_failed(&job->file, OPERATION, FAILED, "scandir", error);
        return;
    }
    json_int_t count = (json_int_t)json_array_size(job->files);
    job_result(base, json_pack("{s:b,s:s,s:o,s:I,s:o}", "success", 1, "path", job->file.path,
                               "files", steal_pointer(&job->files), "count", count, "timestamp",
                               job_timestamp(base)));
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
        job->memory > MEMORY_MAX || json_array_size(job->files) > ENTRIES_MAX) {
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
    job->files = json_array();
    if (answer->value < 0 || !job->files) {
        finish(job, answer->value < 0 ? -answer->value : ENOMEM);
        return;
    }
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
    job->recursive = json_is_true(json_object_get(options, "recursive"));
    job->hidden = json_is_true(json_object_get(options, "includeHidden"));
    file_submit(&job->file);
}
