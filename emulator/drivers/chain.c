#include "drivers/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "runtime/protocol.h"

enum { FAILED = 127, FIRST_FREE_FD = 16 };

static const struct {
    const char *name;
    mode_t mode;
} mount_points[] = {
    {"dev", 0755},  {"proc", 0755}, {"sys", 0755},
    {"tmp", 01777}, {"run", 0755},  {"workspace", 0755},
};

/* One line for the emulator, then the end. Async-signal-safe, as all of the child. */
__attribute__((noreturn)) static void fail(const char *what, const char *path)
{
    int code = errno;
    const char *text = strerrordesc_np(code);
    const char *parts[] = {what, " '", path, "': ", text ? text : "unknown error", "\n"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0)
            break;
    }
    _exit(FAILED);
}

static void die_with_owner(int owner)
{
    /* The owner may have died before the kernel was asked. Its pid says nothing here: seen from a
     * new pid namespace every outer parent is 0. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct pollfd gone = {.fd = owner, .events = POLLIN};
    if (poll(&gone, 1, 0) != 0)
        _exit(FAILED);
}

static void reset_signals(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &usual, NULL); /* fails for the two that cannot be changed */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Puts the descriptors where they belong and drops all others. */
static void arrange_descriptors(const struct chain *chain)
{
    const int wanted[] = {chain->null, chain->null, chain->errors, chain->socket, chain->runtime};
    enum { COUNT = sizeof(wanted) / sizeof(wanted[0]) };
    int high[COUNT];
    for (int i = 0; i < COUNT; i++) {
        high[i] = fcntl(wanted[i], F_DUPFD, FIRST_FREE_FD);
        if (high[i] < 0)
            _exit(FAILED);
    }
    for (int i = 0; i < COUNT; i++)
        dup2(high[i], i);
    if (syscall(SYS_close_range, COUNT, ~0U, 0) < 0)
        fail("close", "descriptors");
}

static int take_step(const struct chain_step *step)
{
    switch (step->kind) {
    case CHAIN_DIR:
        return mkdir(step->path, step->mode) < 0 && errno != EEXIST ? -1 : 0;
    case CHAIN_LINK:
        return symlink(step->text, step->path);
    case CHAIN_WHITEOUT:
        return mknod(step->path, S_IFCHR, makedev(0, 0));
    case CHAIN_OVERLAY:
        return mount("overlay", step->path, "overlay", MS_NODEV | MS_NOSUID, step->text);
    case CHAIN_BIND:
        if (mount(step->text, step->path, NULL, MS_BIND, NULL) < 0)
            return -1;
        return mount(NULL, step->path, NULL,
                     MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV | MS_NOSUID, NULL);
    }
    return 0;
}

static bool is_mount(const struct chain_step *step)
{
    return step->kind == CHAIN_OVERLAY || step->kind == CHAIN_BIND;
}

static void take_steps(const struct chain *chain, bool mounts)
{
    static const char *const verbs[] = {
        [CHAIN_DIR] = "make",      [CHAIN_LINK] = "link",  [CHAIN_WHITEOUT] = "hide",
        [CHAIN_OVERLAY] = "mount", [CHAIN_BIND] = "mount",
    };
    for (size_t i = 0; i < chain->step_count; i++) {
        const struct chain_step *step = &chain->steps[i];
        if (!(step->when & chain->when) || is_mount(step) != mounts)
            continue;
        if (take_step(step) < 0)
            fail(verbs[step->kind], step->path);
    }
}

static void write_files(const struct chain *chain)
{
    for (size_t i = 0; i < chain->file_count; i++) {
        const struct chain_file *file = &chain->files[i];
        int fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, file->text, strlen(file->text)) < 0)
            fail("write", file->path);
        close(fd);
    }
}

static int ensure_directory(int root, const char *name, mode_t mode)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_IN_ROOT};
    int fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (errno != ENOENT && unlinkat(root, name, 0) < 0)
        return -errno;
    return mkdirat(root, name, mode) < 0 ? -errno : 0;
}

int chain_mount_points(int root)
{
    for (size_t i = 0; i < sizeof(mount_points) / sizeof(mount_points[0]); i++) {
        int error = ensure_directory(root, mount_points[i].name, mount_points[i].mode);
        if (error)
            return error;
    }
    return 0;
}

static void build_root(const struct chain *chain)
{
    if (unshare(CLONE_NEWNS) < 0)
        fail("unshare", "mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        fail("make private", "/");
    /* Nothing of it is used, and bubblewrap reads the list of all mounts a dozen times. */
    umount2("/sys", MNT_DETACH);
    /* bubblewrap looks its child up by pid in /proc, which must be that of our pid namespace. */
    if (mount("proc", "/proc", "proc", MS_NODEV | MS_NOSUID | MS_NOEXEC, NULL) < 0)
        fail("mount", "/proc");
    if (chdir(chain->run_dir) < 0)
        fail("enter", chain->run_dir);
    if (mount("tmpfs", "mnt", "tmpfs", MS_NODEV | MS_NOSUID, chain->tmpfs) < 0)
        fail("mount tmpfs on", "mnt");
    if (chdir("mnt") < 0)
        fail("enter", "mnt");
    umask(0);
    take_steps(chain, false);
    write_files(chain);
    take_steps(chain, true);
    int root = open(CHAIN_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (root < 0)
        fail("open", CHAIN_ROOT);
    int error = chain_mount_points(root);
    if (error) {
        errno = -error;
        fail("check", "mount points");
    }
    umask(022);
}

__attribute__((noreturn)) static void run(const struct chain *chain)
{
    die_with_owner(chain->owner);
    setsid();
    reset_signals();
    arrange_descriptors(chain);
    build_root(chain);
    execve(chain->program, chain->argv, chain->env);
    fail("execute", chain->program);
}

int chain_clone(const struct chain *chain, struct error *err)
{
    /* Not fork(): the pid namespace must begin with this child, and the C library has no call for
     * that which returns twice. */
    long pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    if (pid < 0)
        return error_errno(err, errno, "start a container process");
    if (pid == 0)
        run(chain);
    return (int)pid;
}
