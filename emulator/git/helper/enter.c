#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/helper/helper.h"

static bool is_ours(int fd, const char *name)
{
    struct stat theirs, ours;
    if (fstat(fd, &theirs) < 0 || stat(name, &ours) < 0)
        fatal("fatal: namespace: %s", strerror(errno));
    return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

/* By bare system calls: libc's own would keep the ids of all threads in step. Where only one id is
 * mapped, groups cannot be changed, and there are none to lose. */
static void become_root(void)
{
    syscall(SYS_setgroups, 0, NULL);
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        fatal("fatal: become root of the container: %s", strerror(errno));
}

void enter_container(int mounts)
{
    if (ioctl(mounts, NS_GET_NSTYPE) != CLONE_NEWNS || is_ours(mounts, "/proc/self/ns/mnt"))
        fatal("fatal: what the container gave is no mount namespace of its own");
    CLEANUP_FD int users = ioctl(mounts, NS_GET_USERNS);
    if (users < 0)
        fatal("fatal: user namespace of the container: %s", strerror(errno));
    bool own_users = !is_ours(users, "/proc/self/ns/user");
    if (own_users && setns(users, CLONE_NEWUSER) < 0)
        fatal("fatal: enter the container's user namespace: %s", strerror(errno));
    /* An empty network namespace: not even the container's own ports. */
    if (setns(mounts, CLONE_NEWNS) < 0 || unshare(CLONE_NEWNET) < 0 || chdir("/") < 0)
        fatal("fatal: enter the container: %s", strerror(errno));
    if (own_users)
        become_root();
    umask(022);
    confine_phase(-1, NULL);
}
