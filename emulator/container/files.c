#include "container/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "container/errnos.h"
#include "container/session.h"

enum { PATH_CHARACTERS_MAX = 4096 };

const char *path_problem(const char *path, size_t size)
{
    if (size == 0)
        return "Path cannot be empty";
    if (memchr(path, '\0', size))
        return "Path cannot contain NUL characters";
    size_t characters = 0;
    for (size_t i = 0; i < size; i++)
        characters += ((unsigned char)path[i] & 0xc0) != 0x80;
    return characters > PATH_CHARACTERS_MAX ? "Path is longer than 4096 characters" : NULL;
}

/* Rename and move are the two that answer with a code of their own. */
static void refuse_path(struct call *call, const char *field, const char *path, const char *why,
                        bool pair)
{
    CLEANUP_FREE char *message = NULL;
    if (asprintf(&message, "Invalid path format for '%s': %s", path, why) < 0)
        message = NULL;
    call_error(call, pair ? CODE_SECURITY_VALIDATION_FAILED : CODE_VALIDATION_FAILED, NULL,
               arg_invalid_context(field, why, "INVALID_PATH"), "%s", message ? message : why);
}

static bool take_path(struct call *call, const char *field, bool pair, const char **path)
{
    json_t *value = json_object_get(call->args, field);
    if (!json_is_string(value)) {
        arg_invalid(call, field, json_is_null(value) || !value ? "REQUIRED" : "INVALID_TYPE",
                    "'%s' is required and must be a string", field);
        return false;
    }
    *path = json_string_value(value);
    const char *why = path_problem(*path, json_string_length(value));
    if (why)
        refuse_path(call, field, *path, why, pair);
    return !why;
}

static bool take_session(struct call *call, const char *path, const char **id)
{
    if (!arg_text(call, "sessionId", false, id))
        return false;
    if (!text_is_blank(*id))
        return true;
    static const char why[] = "sessionId must not be empty or whitespace";
    call_error(call, CODE_FILESYSTEM_ERROR, NULL,
               json_pack("{s:s,s:s}", "path", path, "stderr", why), "%s", why);
    return false;
}

void *file_job_new(struct container *container, struct call *call, const struct job_kind *kind,
                   const char *path_field, const char *second_field)
{
    const char *path = NULL;
    const char *second = NULL;
    const char *session = SESSION_DEFAULT;
    if (!take_path(call, path_field, second_field != NULL, &path) ||
        (second_field && !take_path(call, second_field, true, &second)) ||
        !take_session(call, path, &session))
        return NULL;
    struct file_job *file = job_new(container, call, kind);
    if (!file)
        return NULL;
    file->path = path;
    file->second = second;
    file->session_id = session;
    return file;
}

void file_submit(struct file_job *file)
{
    bool relative = file->path[0] != '/' || (file->second && file->second[0] != '/');
    if (!relative || strcmp(file->session_id, SESSION_DISABLED) == 0)
        file->job.kind->begin(&file->job);
    else
        session_submit(&file->job, file->session_id, NULL);
}

static bool is_absolute(const json_t *args, const char *field)
{
    const char *path = json_string_value(json_object_get(args, field));
    return path && path[0] == '/';
}

bool container_needs_no_session(const struct op *op, const json_t *args)
{
    static const struct {
        const char *op, *path, *second;
    } of_files[] = {
        {"read", "path", NULL},
        {"readStream", "path", NULL},
        {"write", "path", NULL},
        {"delete", "path", NULL},
        {"mkdir", "path", NULL},
        {"listFiles", "path", NULL},
        {"exists", "path", NULL},
        {"readRaw", "path", NULL},
        {"writeStream", "path", NULL},
        {"rename", "oldPath", "newPath"},
        {"move", "sourcePath", "destinationPath"},
    };
    for (size_t i = 0; i < sizeof of_files / sizeof *of_files; i++) {
        if (strcmp(of_files[i].op, op->name) == 0)
            return is_absolute(args, of_files[i].path) &&
                   (!of_files[i].second || is_absolute(args, of_files[i].second));
    }
    return false;
}

int file_base(const struct file_job *file)
{
    return file->job.session ? file->job.session->shell.pid : 0;
}

void file_ask(struct file_job *file, enum rt_op op, struct rt_path how, agent_done *done)
{
    how.base_pid = file_base(file);
    ask_path(file->job.container, op, how, file->path, file->second, done, file);
}

/* Errors. */

void file_missing(struct file_job *file, const char *operation, const char *what)
{
    job_error(&file->job, CODE_FILE_NOT_FOUND, operation,
              json_pack("{s:s,s:s}", "path", file->path, "operation", operation), "%s: %s", what,
              file->path);
}

static void fail(struct file_job *file, enum code code, const char *operation, const char *what,
                 const char *why)
{
    job_error(&file->job, code, operation,
              json_pack("{s:s,s:s,s:s}", "path", file->path, "operation", operation, "stderr", why),
              "%s '%s': %s", what, file->path, why);
}

void file_failed(struct file_job *file, const char *operation, const char *what,
                 const char *system_call, int number)
{
    CLEANUP_FREE char *why = NULL;
    if (asprintf(&why, "%s: %s, %s '%s'", errno_name(number), errno_text(number), system_call,
                 file->path) < 0)
        why = NULL;
    fail(file, errno_code(number), operation, what, why ? why : errno_name(number));
}

void file_wrong(struct file_job *file, const char *operation, const char *what, const char *why)
{
    fail(file, CODE_FILESYSTEM_ERROR, operation, what, why);
}

void file_refuse(struct job *job, const char *why)
{
    struct file_job *file = (struct file_job *)job;
    job_error(job, CODE_FILESYSTEM_ERROR, NULL,
              json_pack("{s:s,s:s}", "path", file->path, "stderr", why),
              "Session '%s' cannot be used: %s", file->session_id, why);
}

int file_write(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, bytes, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        bytes += put;
        size -= (size_t)put;
    }
    return 0;
}
