#include "drivers/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* As in linux/mount.h, which cannot be included beside sys/mount.h of every C library. */
enum {
    CLONE_TREE = 1,
    RECURSIVE = 0x8000,
    FROM_DESCRIPTOR = 4,
    SET_READ_ONLY = 0x1,
    SET_NO_SETUID = 0x2,
    SET_NO_DEVICES = 0x4,
    SET_IDS = 0x00100000,
};
struct attributes {
    uint64_t set, clear, propagation, userns;
};
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

/* Kernels before 5.12. There a user namespace cannot have overlays either, so only root comes here
 * and no flag of the source is locked. */
static int bind_as_before(const char *source, const char *target, unsigned flags)
{
    unsigned long also =
        MS_NOSUID | (flags & TREE_WRITABLE ? 0 : MS_RDONLY) | (flags & TREE_DEVICES ? 0 : MS_NODEV);
    if (mount(source, target, NULL, MS_BIND | (flags & TREE_RECURSIVE ? MS_REC : 0), NULL) < 0)
        return -1;
    return mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | also, NULL);
}

int tree_attach(const char *source, const char *target, int ids, unsigned flags)
{
    unsigned recursive = flags & TREE_RECURSIVE ? RECURSIVE : 0;
    struct attributes attributes = {.set = SET_NO_SETUID |
                                           (flags & TREE_WRITABLE ? 0 : SET_READ_ONLY) |
                                           (flags & TREE_DEVICES ? 0 : SET_NO_DEVICES)};
    if (ids >= 0) {
        attributes.set |= SET_IDS;
        attributes.userns = (uint64_t)ids;
    }
    CLEANUP_FD int tree =
        (int)syscall(SYS_open_tree, AT_FDCWD, source, CLONE_TREE | O_CLOEXEC | recursive);
    if (tree < 0 && errno != ENOSYS)
        return -1;
    if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | recursive, &attributes,
                            sizeof(attributes)) < 0)
        return errno == ENOSYS && ids < 0 ? bind_as_before(source, target, flags) : -1;
    return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, target, FROM_DESCRIPTOR);
}
