#include "runtime/runtime.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

enum { UMASK = 022 };

/* Where a relative path starts. */
static int open_base(pid_t pid)
{
    char path[64] = RT_DEFAULT_DIR;
    int fd;

    if (pid) {
        if (!reap_knows(pid))
            return -ESRCH;
        snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    }
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return pid && errno == ENOENT ? -ESRCH : -errno; /* it ended, but was not reaped yet */
    return fd;
}

int paths_parse(const struct request *request, uint32_t flags, struct rt_path *how, char **path,
                char **second, int *base)
{
    struct reader in = reader_of(request);
    bool relative;

    if (!reader_take(&in, how, sizeof *how) || !(*path = reader_string(&in)))
        return -EBADMSG;
    if (second && !(*second = reader_string(&in)))
        return -EBADMSG;
    if (in.left || (how->flags & ~flags) || how->mode > 07777)
        return -EBADMSG;
    if (strlen(*path) >= PATH_MAX || (second && strlen(*second) >= PATH_MAX))
        return -ENAMETOOLONG;
    if (!**path || (second && !**second))
        return -ENOENT;
    relative = **path != '/' || (second && **second != '/');
    *base = relative ? open_base(how->base_pid) : AT_FDCWD;
    return *base < 0 && *base != AT_FDCWD ? *base : 0;
}

void paths_fill_stat(struct rt_stat *out, const struct stat *st)
{
    *out = (struct rt_stat){
        .mode = st->st_mode,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .size = st->st_size,
        .mtime_s = st->st_mtim.tv_sec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
    };
}

static void answer_stat(struct answer *answer, const struct stat *st, bool created)
{
    struct rt_stat out;

    paths_fill_stat(&out, st);
    out.created = created;
    memcpy(answer->payload, &out, sizeof out);
    answer->size = sizeof out;
}

/* A mode that was asked for is meant exactly; 0 stands for the usual one less the umask. */
static int mkdir_mode(int base, const char *path, mode_t mode)
{
    int result;

    umask(mode ? 0 : UMASK);
    result = mkdirat(base, path, mode ? mode : 0777) < 0 ? -errno : 0;
    umask(UMASK);
    return result;
}

static int open_mode(int base, const char *path, int flags, mode_t mode)
{
    int fd;

    umask(mode ? 0 : UMASK);
    fd = openat(base, path, flags, mode ? mode : 0666);
    umask(UMASK);
    return fd < 0 ? -errno : fd;
}

/* Every directory above the last component. One that exists, also by way of a link, is fine; if it
 * is something else the next step says so. */
static int make_parents(int base, const char *path)
{
    char prefix[PATH_MAX];
    size_t size = strlen(path);

    while (size > 0 && path[size - 1] == '/')
        size--;
    for (size_t i = 1; i < size; i++) {
        int error;

        if (path[i] != '/' || path[i - 1] == '/')
            continue;
        memcpy(prefix, path, i);
        prefix[i] = '\0';
        error = mkdir_mode(base, prefix, 0755);
        if (error && error != -EEXIST)
            return error;
    }
    return 0;
}

/* Writing through /proc could reach the runtime's own memory as /proc/self/mem. */
static int check_writable(int fd, const struct stat *st)
{
    struct statfs fs;

    if (!S_ISREG(st->st_mode))
        return S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
    if (fstatfs(fd, &fs) < 0)
        return -errno;
    return fs.f_type == PROC_SUPER_MAGIC ? -EACCES : 0;
}

/* With O_CREAT, whether it made the file: first what is there, then a new one. A name that comes and
 * goes meanwhile, or a link to nothing, is left to the kernel. */
static int open_or_create(int base, const char *path, int flags, mode_t mode, bool *created)
{
    int fd = -ENOENT;

    *created = false;
    if (!(flags & O_EXCL))
        fd = open_mode(base, path, flags & ~O_CREAT, mode);
    if (fd != -ENOENT || !(flags & O_CREAT))
        return fd;
    fd = open_mode(base, path, flags | O_EXCL, mode);
    *created = fd >= 0;
    if (fd == -EEXIST && !(flags & O_EXCL))
        fd = open_mode(base, path, flags, mode);
    return fd;
}

/* O_TRUNC waits until the file is known to be a regular one: devices and FIFOs stay as they are. */
static int open_checked(int base, const char *path, const struct rt_path *how, struct stat *st,
                        bool *created)
{
    int flags = (int)how->open_flags;
    bool writes = (flags & O_ACCMODE) != O_RDONLY;
    int always = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    CLEANUP_FD int fd = open_or_create(base, path, (flags & ~O_TRUNC) | always, how->mode, created);
    int error;
    int opened;

    if (fd == -ENOENT && (how->flags & RT_PARENTS) && (flags & O_CREAT)) {
        error = make_parents(base, path);
        if (error)
            return error;
        fd = open_or_create(base, path, (flags & ~O_TRUNC) | always, how->mode, created);
    }
    if (fd < 0)
        return fd;
    if (fstat(fd, st) < 0)
        return -errno;
    error = writes ? check_writable(fd, st) : 0;
    if (error)
        return error;
    if (flags & O_TRUNC) {
        if (ftruncate(fd, 0) < 0)
            return -errno;
        st->st_size = 0;
    }
    opened = fd;
    fd = -1;
    return opened;
}

int paths_open(const struct request *request, struct answer *answer)
{
    const uint32_t allowed = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DIRECTORY |
                             O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    struct rt_path how;
    CLEANUP_FD int base = -1;
    struct stat st;
    char *path;
    int result = paths_parse(request, RT_PARENTS, &how, &path, NULL, &base);
    uint32_t access;
    bool created;

    if (result)
        return result;
    access = how.open_flags & O_ACCMODE;
    if ((how.open_flags & ~allowed) || access == O_ACCMODE ||
        ((how.open_flags & O_TRUNC) && access == O_RDONLY))
        return -EINVAL;
    result = open_checked(base, path, &how, &st, &created);
    if (result < 0)
        return result;
    answer_stat(answer, &st, created);
    answer_fd(answer, result);
    return 0;
}

int paths_stat(const struct request *request, struct answer *answer)
{
    struct rt_path how;
    CLEANUP_FD int base = -1;
    struct stat st;
    char *path;
    int error = paths_parse(request, RT_NOFOLLOW, &how, &path, NULL, &base);

    if (error)
        return error;
    if (fstatat(base, path, &st, how.flags & RT_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) < 0)
        return -errno;
    answer_stat(answer, &st, false);
    return 0;
}

int paths_mkdir(const struct request *request, struct answer *answer)
{
    struct rt_path how;
    CLEANUP_FD int base = -1;
    struct stat st;
    char *path;
    int error = paths_parse(request, RT_PARENTS, &how, &path, NULL, &base);

    if (error)
        return error;
    error = mkdir_mode(base, path, how.mode);
    if (!(how.flags & RT_PARENTS))
        return error;
    if (error == -ENOENT) {
        error = make_parents(base, path);
        if (!error)
            error = mkdir_mode(base, path, how.mode);
    }
    if (error == -EEXIST && fstatat(base, path, &st, 0) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return error;
}

/* The last component of path, without trailing slashes, put behind the directory `into`. */
static int path_inside(char out[PATH_MAX], const char *into, const char *path)
{
    size_t end = strlen(path);
    size_t start;
    int size;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    if (start == end)
        return -EINVAL; /* the root itself */
    size = snprintf(out, PATH_MAX, "%s/%.*s", into, (int)(end - start), path + start);
    return size < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int rename_as_mv(int base, const char *old, const char *target)
{
    struct stat from;
    struct stat to;

    if (fstatat(base, old, &from, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (fstatat(base, target, &to, AT_SYMLINK_NOFOLLOW) == 0 && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino) {
        /* Either one name, which mv refuses, or two links to one file, where rename does nothing
         * and mv drops the old name. -EXDEV leaves the second case to mv itself. */
        return S_ISDIR(from.st_mode) || from.st_nlink == 1 ? -EINVAL : -EXDEV;
    }
    return renameat(base, old, base, target) < 0 ? -errno : 0;
}

int paths_rename(const struct request *request, struct answer *answer)
{
    struct rt_path how;
    CLEANUP_FD int base = -1;
    char inside[PATH_MAX];
    struct stat st;
    char *old;
    char *target;
    int error = paths_parse(request, RT_EXACT, &how, &old, &target, &base);

    if (error)
        return error;
    if (how.flags & RT_EXACT)
        return renameat(base, old, base, target) < 0 ? -errno : 0;
    if (fstatat(base, old, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (fstatat(base, target, &st, 0) == 0 && S_ISDIR(st.st_mode)) {
        error = path_inside(inside, target, old);
        if (error)
            return error;
        target = inside;
    }
    return rename_as_mv(base, old, target);
}

int paths_readlink(const struct request *request, struct answer *answer)
{
    struct rt_path how;
    CLEANUP_FD int base = -1;
    char *path;
    ssize_t size;
    int error = paths_parse(request, 0, &how, &path, NULL, &base);

    if (error)
        return error;
    size = readlinkat(base, path, answer->payload, sizeof answer->payload - 1);
    if (size < 0)
        return -errno;
    answer->payload[size] = '\0';
    answer->size = (size_t)size + 1;
    return (int)size;
}
