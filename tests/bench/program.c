#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { READY_MS = 20000, STOP_MS = 20000 };

const char *program_network = "none", *program_mirror, *program_events;

__attribute__((noreturn)) static void become(const char *scratch, int ready)
{
    char number[16];
    snprintf(number, sizeof number, "%d", ready);
    const char *argv[] = {
        SANDPIT_BINARY, "dev",         "--port", "0",         "--ephemeral",   "--ready-fd",
        number,         "--log-level", "none",   "--network", program_network, NULL,
        NULL,           NULL,          NULL,     NULL};
    size_t last = 11;
    if (program_mirror) {
        argv[last++] = "--git-mirror";
        argv[last++] = program_mirror;
    }
    if (program_events) {
        argv[last++] = "--events-file";
        argv[last++] = program_events;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(ready, F_SETFD, 0);
    CLEANUP_FD int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDOUT_FILENO); /* it greets there, whatever the log level is */
    setenv("XDG_RUNTIME_DIR", scratch, 1);
    setenv("HOME", scratch, 1);
    if (chdir(scratch) == 0)
        execv(SANDPIT_BINARY, (char *const *)argv);
    _exit(127);
}

/* The line with the URL, or the end of the pipe when it failed. */
static int read_ready(struct program *program, int fd, struct error *err)
{
    char line[256] = "";
    size_t used = 0;
    while (!strchr(line, '\n') && used + 1 < sizeof line) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        if (poll(&poller, 1, READY_MS) <= 0)
            return error_set(err, ETIMEDOUT, "the emulator did not become ready");
        ssize_t got = read(fd, line + used, sizeof line - used - 1);
        if (got <= 0)
            return error_set(err, EPIPE, "the emulator did not start");
        used += (size_t)got;
        line[used] = '\0';
    }
    const char *port = strrchr(line, ':');
    program->port = port ? (int)strtol(port + 1, NULL, 10) : 0;
    return program->port ? 0 : error_set(err, EPROTO, "no port in '%s'", line);
}

int program_start(struct program *program, const char *scratch, struct error *err)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int reading = pair[0];
    CLEANUP_FD int writing = pair[1];
    program->pid = fork();
    if (program->pid < 0)
        return error_errno(err, errno, "fork");
    if (program->pid == 0)
        become(scratch, writing);
    close(steal_fd(&writing));
    int result = read_ready(program, reading, err);
    if (result < 0)
        program_stop(program);
    return result;
}

void program_stop(struct program *program)
{
    if (program->pid <= 0)
        return;
    CLEANUP_FD int fd = (int)syscall(SYS_pidfd_open, program->pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    kill(program->pid, SIGTERM);
    if (fd < 0 || poll(&ended, 1, STOP_MS) <= 0)
        kill(program->pid, SIGKILL);
    waitpid(program->pid, NULL, 0);
    *program = (struct program){0};
}

int program_memory(const struct program *program, const char *field, double *kib, struct error *err)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)program->pid);
    CLEANUP_FILE FILE *file = fopen(path, "re");
    if (!file)
        return error_errno(err, errno, "open '%s'", path);
    size_t length = strlen(field);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, field, length) == 0 && line[length] == ':') {
            *kib = strtod(line + length + 1, NULL);
            return 0;
        }
    }
    return error_set(err, ENOENT, "no %s in '%s'", field, path);
}

void program_run(const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}
