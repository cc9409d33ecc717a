/* What the kernel allows, found out by doing it: in a child, in namespaces that end with it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/machine_internal.h"

/* Not every C library that we build with knows these. The names differ from the kernel's, so that
 * one that does is no trouble. */
enum {
    TREE_CLONE = 1,
    TREE_CLOEXEC = O_CLOEXEC,
    MOVE_FROM_EMPTY = 4,
    ATTR_RDONLY = 1,
    ATTR_IDMAP = 0x100000,
};
struct tree_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};

/* What an image's ids become; only for trying. */
#define OUTSIDE_ID 100000
#define MAPPING "0 100000 65536"

static int write_file(const char *path, const char *text)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
}

/* Root inside is this user outside: the one mapping that anybody may make. */
static int map_self(uid_t uid, gid_t gid)
{
    char text[32];
    write_file("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "0 %u 1", uid);
    int result = write_file("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "0 %u 1", gid);
    return result ? result : write_file("/proc/self/gid_map", text);
}

/* A mount namespace of our own with an empty tmpfs as the current directory. Everybody has a /tmp;
 * what is mounted there is seen by this process alone. */
static int enter_scratch(bool user_namespace)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWNS | (user_namespace ? CLONE_NEWUSER : 0)) < 0)
        return -errno;
    int result = user_namespace ? map_self(uid, gid) : 0;
    if (result)
        return result;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/tmp", "tmpfs", MS_NODEV | MS_NOSUID, "size=1m,mode=755") < 0 ||
        chdir("/tmp") < 0)
        return -errno;
    return 0;
}

static int user_namespace(const struct machine *machine)
{
    return enter_scratch(true);
}

int machine_try_user_namespace(const struct machine *machine)
{
    return machine_in_child(user_namespace, machine);
}

static int mount_overlay(const char *options)
{
    return mount("overlay", "m", "overlay", MS_NODEV | MS_NOSUID, options) < 0 ? -errno : 0;
}

static int make_layers(void)
{
    return mkdir("u", 0755) < 0 || mkdir("w", 0755) < 0 || mkdir("m", 0755) < 0 ? -errno : 0;
}

static int overlay(const struct machine *machine)
{
    bool user = machine->uid != 0;
    int result = enter_scratch(user);
    if (result == 0)
        result = make_layers();
    if (result == 0)
        result = mount_overlay(user ? "lowerdir=/usr,upperdir=u,workdir=w,userxattr"
                                    : "lowerdir=/usr,upperdir=u,workdir=w");
    return result;
}

int machine_try_overlay(const struct machine *machine)
{
    return machine_in_child(overlay, machine);
}

/* A descriptor of a user namespace with MAPPING. A process has to be in it while it is made. */
static int mapped_namespace(void)
{
    char path[64], byte;
    int ready[2], go[2];
    if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        byte = unshare(CLONE_NEWUSER) < 0 ? (char)errno : 0;
        if (write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) >= 0)
            _exit(0);
        _exit(1);
    }
    if (pid < 0)
        return -errno;
    int result = read(ready[0], &byte, 1) == 1 ? -byte : -EPIPE;
    snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    if (result == 0)
        result = write_file(path, MAPPING);
    snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    if (result == 0)
        result = write_file(path, MAPPING);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    if (result == 0) {
        result = open(path, O_RDONLY | O_CLOEXEC);
        result = result < 0 ? -errno : result;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return result;
}

static int move_mapped(int userns, const char *from, const char *to)
{
    struct tree_attr attr = {.attr_set = ATTR_IDMAP | ATTR_RDONLY, .userns_fd = (uint64_t)userns};
    CLEANUP_FD int tree = (int)syscall(SYS_open_tree, AT_FDCWD, from, TREE_CLONE | TREE_CLOEXEC);
    if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ||
        syscall(SYS_move_mount, tree, "", AT_FDCWD, to, MOVE_FROM_EMPTY) < 0)
        return -errno;
    return 0;
}

static int idmapped(const struct machine *machine)
{
    CLEANUP_FD int userns = mapped_namespace();
    if (userns < 0)
        return userns;
    int result = enter_scratch(false);
    if (result == 0)
        result = make_layers();
    if (result == 0 && (mkdir("l", 0755) < 0 || chown("u", OUTSIDE_ID, OUTSIDE_ID) < 0 ||
                        chown("w", OUTSIDE_ID, OUTSIDE_ID) < 0))
        result = -errno;
    if (result == 0)
        result = move_mapped(userns, "/usr", "l");
    return result == 0 ? mount_overlay("lowerdir=l,upperdir=u,workdir=w") : result;
}

int machine_try_idmapped(const struct machine *machine)
{
    return machine_in_child(idmapped, machine);
}

/* Asked with arguments that no kernel takes: only the error is of interest. A seccomp filter of an
 * old Docker says EPERM for what it does not know. */
const char *machine_try_calls(const struct machine *machine)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how);
    if (fd < 0)
        return "openat2 (5.6)";
    close(fd);
    if (syscall(SYS_close_range, 1, 0, 0) < 0 && errno != EINVAL)
        return "close_range (5.9)";
    fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        return "pidfd_open (5.3)";
    close(fd);
    return NULL;
}
