#include "cli/private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { READY_TIMEOUT_MS = 30000, STOP_TIMEOUT_MS = 5000 };

static const int blocked[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static char *const defaults[] = {"sandpit", "dev", "--port=0", "--ephemeral", "--log-level=warn"};

int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

void private_prepare(struct private_emulator *emulator)
{
    *emulator = (struct private_emulator){.pidfd = -1, .signals = -1};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        emulator->arguments[emulator->argument_count++] = defaults[i];
    sigemptyset(&emulator->mask);
    for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++)
        sigaddset(&emulator->mask, blocked[i]);
    sigprocmask(SIG_BLOCK, &emulator->mask, &emulator->old_mask);
    emulator->signals = signalfd(-1, &emulator->mask, SFD_CLOEXEC);
}

int private_add(struct private_emulator *emulator, char *argument)
{
    if (emulator->argument_count >= PRIVATE_ARGUMENTS_MAX)
        return -E2BIG;
    emulator->arguments[emulator->argument_count++] = argument;
    return 0;
}

/* In the child that becomes the emulator. A process group of its own keeps the terminal's Ctrl-C
 * away from it: whoever uses it may still need it while it ends. */
static void become_emulator(struct private_emulator *emulator, pid_t parent, int ready)
{
    char option[32];
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    sigprocmask(SIG_SETMASK, &emulator->old_mask, NULL);
    snprintf(option, sizeof option, "--ready-fd=%d", ready);
    emulator->arguments[emulator->argument_count++] = option;
    emulator->arguments[emulator->argument_count] = NULL;
    fcntl(ready, F_SETFD, 0);
    /* Stdin and stdout are not its own; messages still come on stderr. */
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) {
        dup2(nothing, 0);
        dup2(nothing, 1);
    }
    execv("/proc/self/exe", emulator->arguments);
    _exit(127);
}

static int read_ready_line(struct private_emulator *emulator, int fd, struct error *err)
{
    size_t length = 0;
    for (;;) {
        struct pollfd items[] = {{.fd = fd, .events = POLLIN},
                                 {.fd = emulator->signals, .events = POLLIN}};
        int ready = poll(items, 2, READY_TIMEOUT_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return error_set(err, ETIMEDOUT, "the emulator did not become ready");
        if (items[1].revents)
            return error_set(err, EINTR, "interrupted");
        ssize_t got = read(fd, emulator->url + length, sizeof emulator->url - 1 - length);
        if (got <= 0)
            return error_set(err, EPIPE, "the emulator did not start");
        length += (size_t)got;
        emulator->url[length] = '\0';
        char *newline = strchr(emulator->url, '\n');
        if (newline) {
            *newline = '\0';
            return 0;
        }
        if (length == sizeof emulator->url - 1)
            return error_set(err, EPROTO, "the emulator's ready line is too long");
    }
}

int private_start(struct private_emulator *emulator, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "make a pipe");
    CLEANUP_FD int reading = ends[0];
    CLEANUP_FD int writing = ends[1];
    pid_t parent = getpid();
    emulator->pid = fork();
    if (emulator->pid < 0)
        return error_errno(err, errno, "start the emulator");
    if (emulator->pid == 0)
        become_emulator(emulator, parent, writing);
    emulator->pidfd = open_pidfd(emulator->pid);
    close(steal_fd(&writing));
    return read_ready_line(emulator, reading, err);
}

int private_stop(struct private_emulator *emulator)
{
    int status = 0;
    if (emulator->pid <= 0)
        return -1;
    kill(emulator->pid, SIGTERM);
    struct pollfd item = {.fd = emulator->pidfd, .events = POLLIN};
    int ready;
    do {
        ready = poll(&item, 1, STOP_TIMEOUT_MS);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        kill(emulator->pid, SIGKILL);
    waitpid(emulator->pid, &status, 0);
    cleanup_fd(&emulator->pidfd);
    emulator->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
