#include "cli/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static int write_text(int fd, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t wrote = write(fd, text, left);
        if (wrote < 0 && errno != EINTR)
            return -errno;
        if (wrote > 0) {
            text += wrote;
            left -= (size_t)wrote;
        }
    }
    return 0;
}

int whole_file_write(const char *path, const char *text, struct error *err)
{
    char fresh[PATH_MAX];
    if (snprintf(fresh, sizeof fresh, "%s.%d.new", path, (int)getpid()) >= (int)sizeof fresh)
        return error_errno(err, ENAMETOOLONG, "write '%s'", path);
    unlink(fresh);
    CLEANUP_FD int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int result = fd < 0 ? -errno : write_text(fd, text);
    if (result == 0 && rename(fresh, path) < 0)
        result = -errno;
    if (result < 0 && fd >= 0)
        unlink(fresh);
    return result < 0 ? error_errno(err, -result, "write '%s'", path) : 0;
}

int ready_file_prepare(const struct ready_file *file, struct error *err)
{
    if (file->path && unlink(file->path) < 0 && errno != ENOENT)
        return error_errno(err, errno, "--ready-file: remove '%s'", file->path);
    return 0;
}

int ready_file_write(struct ready_file *file, const char *url, int port, const char *token,
                     struct error *err)
{
    if (!file->path)
        return 0;
    CLEANUP_JSON json_t *root =
        json_pack("{s:s, s:i, s:i}", "url", url, "port", port, "pid", (int)getpid());
    if (root && *token)
        json_object_set_new(root, "token", json_string(token));
    CLEANUP_FREE char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    if (!text)
        return error_errno(err, ENOMEM, "--ready-file");
    int result = whole_file_write(file->path, text, err);
    struct stat status;
    if (result == 0 && stat(file->path, &status) == 0) {
        file->device = status.st_dev;
        file->inode = status.st_ino;
    }
    return result < 0 ? error_wrap(err, "--ready-file") : 0;
}

void ready_file_remove(struct ready_file *file)
{
    struct stat status;
    if (file->inode && stat(file->path, &status) == 0 && status.st_dev == file->device &&
        status.st_ino == file->inode)
        unlink(file->path);
    file->inode = 0;
}
