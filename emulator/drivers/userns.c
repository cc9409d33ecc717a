#include "drivers/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "drivers/subids.h"

/* --- Maps ------------------------------------------------------------------------------------- */

/* "/proc" is that of this host, "proc" that of the child's own pid namespace. */
static int write_proc(const char *proc, int pid, const char *name, const char *text)
{
    char path[64];
    if (pid)
        snprintf(path, sizeof(path), "%s/%d/%s", proc, pid, name);
    else
        snprintf(path, sizeof(path), "%s/self/%s", proc, name);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

static int write_maps(const struct userns *userns, const char *proc, int pid)
{
    if (write_proc(proc, pid, "uid_map", userns->uid_map) < 0)
        return -1;
    return write_proc(proc, pid, "gid_map", userns->gid_map);
}

int userns_last(void)
{
    CLEANUP_FD int fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, "0", 1) < 0 ? -1 : 0;
}

/* --- A namespace of its own ------------------------------------------------------------------- */

static int hold(void *arg)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
    return 0;
}

/* A process that does nothing but be in a new user namespace. It shares our memory, so that nothing
 * is copied, and has a stack of its own. */
static int clone_holder(void)
{
    static char stack[16384] __attribute__((aligned(16)));
    return clone(hold, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
}

static int namespace_of(const char *proc, int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/%d/ns/user", proc, pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void end_process(int pid)
{
    int saved = errno;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, __WALL);
    errno = saved;
}

int userns_make(const struct userns *userns)
{
    /* Only a process outside of a namespace may map ids that are not its own, so the namespace is
     * made around another process. */
    int holder = clone_holder();
    if (holder < 0)
        return -1;
    int fd = write_maps(userns, "proc", holder) < 0 ? -1 : namespace_of("proc", holder);
    end_process(holder);
    return fd;
}

int userns_enter(int fd)
{
    /* By bare system calls: libc's own would keep the ids of all threads in step. */
    if (setns(fd, CLONE_NEWUSER) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return -1;
    return 0;
}

/* --- For the process -------------------------------------------------------------------------- */

/* The first range of ids that /etc/subuid and /etc/subgid give to nobody: processes of a user who
 * owns an id could meddle with those of containers. */
static int find_base(struct userns *userns, struct error *err)
{
    for (uid_t base = USERNS_FIRST; base < 0x70000000; base += USERNS_IDS) {
        if (subids_overlap(SUBIDS_UID, base, USERNS_IDS) ||
            subids_overlap(SUBIDS_GID, base, USERNS_IDS))
            continue;
        userns->base = base;
        snprintf(userns->uid_map, sizeof(userns->uid_map), "0 %u %d", base, USERNS_IDS);
        memcpy(userns->gid_map, userns->uid_map, sizeof(userns->gid_map));
        return 0;
    }
    return error_set(err, ENOSPC, "no range of ids is free in /etc/subuid and /etc/subgid");
}

/* Every container's namespace is inside one that the two helpers mapped: they are slow. */
static int open_outer(struct userns *userns, struct error *err)
{
    struct subids uids, gids;
    int error = subids_find(SUBIDS_UID, &uids, err);
    if (!error)
        error = subids_find(SUBIDS_GID, &gids, err);
    if (error)
        return error;
    int holder = clone_holder();
    if (holder < 0)
        return error_errno(err, errno, "user namespace");
    error = subids_map("newuidmap", holder, getuid(), &uids, err);
    if (!error)
        error = subids_map("newgidmap", holder, getgid(), &gids, err);
    if (!error)
        userns->outer = namespace_of("/proc", holder);
    if (!error && userns->outer < 0)
        error = error_errno(err, errno, "user namespace");
    end_process(holder);
    /* A line may not span two lines of the namespace around it. */
    snprintf(userns->uid_map, sizeof(userns->uid_map), "0 0 1\n1 1 %u\n", uids.count);
    snprintf(userns->gid_map, sizeof(userns->gid_map), "0 0 1\n1 1 %u\n", gids.count);
    return error;
}

int userns_open(struct userns *userns, enum userns_kind kind, struct error *err)
{
    *userns = (struct userns){.kind = kind, .outer = -1};
    switch (kind) {
    case USERNS_MAPPED:
        return find_base(userns, err);
    case USERNS_NONE:
        return 0;
    case USERNS_FULL:
        return open_outer(userns, err);
    case USERNS_SINGLE:
        snprintf(userns->uid_map, sizeof(userns->uid_map), "0 %u 1", geteuid());
        snprintf(userns->gid_map, sizeof(userns->gid_map), "0 %u 1", getegid());
        return 0;
    }
    return 0;
}

void userns_close(struct userns *userns)
{
    cleanup_fd(&userns->outer);
    userns->outer = -1;
}

/* --- Clones ----------------------------------------------------------------------------------- */

/* Not fork(): the pid namespace must begin with this child, and the C library has no call for that
 * which returns twice. */
static long clone_child(int flags)
{
    return syscall(SYS_clone, flags | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
}

/* One id may be mapped by the process itself, once it can no longer drop groups. */
int userns_begin(const struct userns *userns)
{
    if (userns->kind != USERNS_SINGLE)
        return 0;
    prctl(PR_SET_DUMPABLE, 1); /* else /proc/self belongs to root */
    if (write_proc("/proc", 0, "setgroups", "deny") < 0)
        return -1;
    return write_maps(userns, "/proc", 0);
}

/* What the process in the middle tells. */
struct middle {
    int pid, error;
};

/* In the child: waits until its ids are mapped. */
static void await_map(const int go[2])
{
    char byte;
    close(go[1]);
    if (read(go[0], &byte, 1) != 1)
        _exit(127);
    close(go[0]);
}

/* In the outer namespace, where it may map ids; the child it makes is ours. Returns 0 in that. */
static int be_middle(const struct userns *userns, int told)
{
    struct middle middle = {0};
    int go[2];
    if (setns(userns->outer, CLONE_NEWUSER) < 0 || pipe2(go, O_CLOEXEC) < 0) {
        middle.error = errno;
    } else {
        prctl(PR_SET_DUMPABLE, 1); /* else /proc/PID of the child belongs to root */
        middle.pid = (int)clone_child(CLONE_NEWUSER | CLONE_PARENT);
        if (middle.pid == 0) {
            await_map(go);
            return 0;
        }
        if (middle.pid < 0 || write_maps(userns, "/proc", middle.pid) < 0 ||
            write(go[1], "g", 1) != 1)
            middle.error = errno;
    }
    _exit(write(told, &middle, sizeof(middle)) == sizeof(middle) ? 0 : 1);
}

static int clone_full(const struct userns *userns, struct error *err)
{
    int told[2];
    if (pipe2(told, O_CLOEXEC) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int reading = told[0];
    CLEANUP_FD int writing = told[1];
    long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid < 0)
        return error_errno(err, errno, "start a container process");
    if (pid == 0)
        return be_middle(userns, writing);
    close(steal_fd(&writing));
    struct middle middle = {0};
    if (read(reading, &middle, sizeof(middle)) != sizeof(middle))
        middle.error = EPIPE;
    waitpid((int)pid, NULL, 0);
    if (!middle.error)
        return middle.pid;
    if (middle.pid > 0)
        end_process(middle.pid);
    return error_errno(err, middle.error, "start a container process");
}

int userns_clone(const struct userns *userns, struct error *err)
{
    if (userns->kind == USERNS_FULL)
        return clone_full(userns, err);
    long pid = clone_child(userns->kind == USERNS_SINGLE ? CLONE_NEWUSER : 0);
    return pid < 0 ? error_errno(err, errno, "start a container process") : (int)pid;
}
