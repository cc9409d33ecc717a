#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/locator.h"

enum { DEPTH_MAX = 256 };

/* RESOLVE_NO_XDEV also stops at bind mounts of the same file system, which st_dev would not show.
 */
static int open_same_mount(int dir_fd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
    };
    long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

static int remove_below(int dir_fd, const char *name, int depth)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (depth == DEPTH_MAX)
        return -ELOOP;
    CLEANUP_FD int fd = open_same_mount(dir_fd, name);
    if (fd < 0)
        return fd;
    /* A sandbox may have taken the owner's own permissions away. */
    fchmod(fd, 0700);
    CLEANUP_DIR DIR *list = fdopendir(fd);
    if (!list)
        return -errno;
    int below = steal_fd(&fd);
    int result = 0;
    for (struct dirent *item; (item = readdir(list));) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        int removed = remove_below(below, item->d_name, depth + 1);
        result = result < 0 ? result : removed;
    }
    if (result == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
        return -errno;
    return result;
}

int locator_remove_tree(int dir_fd, const char *name)
{
    return remove_below(dir_fd, name, 0);
}
