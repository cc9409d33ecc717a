#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "raw.h"
#include "stats.h"

enum { FIRST_FD = 4 }; /* where bubblewrap finds the static program */

/* Directories below the tmpfs: what is mounted on, and the layers of the overlay. */
static const char *const dirs[] = {"root",     "root/usr", "root/dev", "root/proc",
                                   "root/tmp", "root/run", "u",        "w"};

/* 0 or the name of the step that failed. */
static const char *build_root(const char *scratch)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return "mount namespace";
    if (mount("tmpfs", scratch, "tmpfs", MS_NODEV | MS_NOSUID, "mode=755,size=512m") < 0)
        return "tmpfs";
    if (chdir(scratch) < 0)
        return "enter the tmpfs";
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        if (mkdir(dirs[i], 0755) < 0)
            return dirs[i];
    }
    if (mount("overlay", "root/usr", "overlay", MS_NODEV | MS_NOSUID,
              "lowerdir=/usr,upperdir=u,workdir=w") < 0)
        return "overlay";
    return NULL;
}

/* The static program writes to standard output, which is the pipe. */
__attribute__((noreturn)) static void become_container(const char *scratch, int pipe)
{
    static const char *const argv[] = {"bwrap",
                                       "--bind",
                                       "root",
                                       "/",
                                       "--dev",
                                       "/dev",
                                       "--proc",
                                       "/proc",
                                       "--ro-bind",
                                       "/proc/sys",
                                       "/proc/sys",
                                       "--unshare-pid",
                                       "--unshare-net",
                                       "--unshare-ipc",
                                       "--unshare-uts",
                                       "--hostname",
                                       "bench",
                                       "--die-with-parent",
                                       "--as-pid-1",
                                       "--chdir",
                                       "/",
                                       "--",
                                       "/proc/self/fd/4",
                                       NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *failed = build_root(scratch);
    if (failed) {
        dprintf(STDERR_FILENO, "bare chain: %s: %s\n", failed, strerror(errno));
        _exit(1);
    }
    int program = open(BENCH_FIRST, O_RDONLY | O_CLOEXEC);
    if (program < 0 || dup2(pipe, STDOUT_FILENO) < 0)
        _exit(1);
    if (program == FIRST_FD)
        fcntl(program, F_SETFD, 0);
    else
        dup2(program, FIRST_FD);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

int raw_chain_run(const char *scratch, double *ms, struct error *err)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int reading = pair[0];
    CLEANUP_FD int writing = pair[1];
    double start = stats_now_ms();
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, errno, "fork");
    if (pid == 0)
        become_container(scratch, writing);
    close(steal_fd(&writing));
    char byte;
    ssize_t got = read(reading, &byte, 1);
    *ms = stats_now_ms() - start;
    waitpid(pid, NULL, 0);
    return got == 1 ? 0 : error_set(err, EPIPE, "the bare chain did not start its program");
}

int raw_bash_run(const char *command, double *ms, struct error *err)
{
    double start = stats_now_ms();
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, errno, "fork");
    if (pid == 0) {
        execlp("bash", "bash", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    *ms = stats_now_ms() - start;
    return status == 0 ? 0 : error_set(err, EPROTO, "bash -c '%s' failed", command);
}

/* A memfd is a file on a tmpfs that needs no mount. */
int raw_file_run(char *block, double *write_ms, double *read_ms, struct error *err)
{
    CLEANUP_FD int fd = memfd_create("block", MFD_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "memfd_create");
    double start = stats_now_ms();
    ssize_t put = write(fd, block, RAW_BLOCK);
    double middle = stats_now_ms();
    ssize_t got = pread(fd, block, RAW_BLOCK, 0);
    *read_ms = stats_now_ms() - middle;
    *write_ms = middle - start;
    return put == RAW_BLOCK && got == RAW_BLOCK ? 0 : error_set(err, EIO, "short file");
}
