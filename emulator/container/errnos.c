#include "container/errnos.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct row {
    int number;
    const char *text;
    enum code code;
} rows[] = {
    {ENOENT, "no such file or directory", CODE_FILESYSTEM_ERROR},
    {EISDIR, "illegal operation on a directory", CODE_FILESYSTEM_ERROR},
    {ENOTDIR, "not a directory", CODE_FILESYSTEM_ERROR},
    {EEXIST, "file already exists", CODE_FILESYSTEM_ERROR},
    {ENOTEMPTY, "directory not empty", CODE_FILESYSTEM_ERROR},
    {EXDEV, "cross-device link not permitted", CODE_FILESYSTEM_ERROR},
    {EACCES, "permission denied", CODE_PERMISSION_DENIED},
    {EPERM, "operation not permitted", CODE_PERMISSION_DENIED},
    {ENOSPC, "no space left on device", CODE_NO_SPACE},
    {EDQUOT, "disk quota exceeded", CODE_NO_SPACE},
    {EMFILE, "too many open files", CODE_TOO_MANY_FILES},
    {ENFILE, "file table overflow", CODE_TOO_MANY_FILES},
    {ELOOP, "too many symbolic links encountered", CODE_TOO_MANY_LINKS},
    {EMLINK, "too many links", CODE_TOO_MANY_LINKS},
    {EBUSY, "resource busy or locked", CODE_RESOURCE_BUSY},
    {ETXTBSY, "text file is busy", CODE_RESOURCE_BUSY},
    {EROFS, "read-only file system", CODE_READ_ONLY},
    {ENAMETOOLONG, "name too long", CODE_NAME_TOO_LONG},
};

static const struct row *find(int number)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].number == number)
            return &rows[i];
    }
    return NULL;
}

const char *errno_name(int number)
{
    const char *name = strerrorname_np(number);
    return name ? name : "EUNKNOWN";
}

const char *errno_text(int number)
{
    const struct row *row = find(number);
    return row ? row->text : strerror(number);
}

enum code errno_code(int number)
{
    const struct row *row = find(number);
    return row ? row->code : CODE_FILESYSTEM_ERROR;
}
