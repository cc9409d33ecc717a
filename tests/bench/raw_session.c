#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "raw.h"

enum { STATUS_FD = 8, COMMAND_FD = 9, FIRST_FREE_FD = 16 };

static const char line_format[] = "IFS= builtin read -r -d '' -u 9 __c; "
                                  "{ builtin eval \"$__c\"; } </dev/null >%s/1 2>%s/2 8>&- 9<&-; "
                                  "builtin echo $? >&8\n";

__attribute__((noreturn)) static void become_bash(int input, int status, int command)
{
    const int wanted[][2] = {{input, 0}, {status, STATUS_FD}, {command, COMMAND_FD}};
    enum { COUNT = sizeof wanted / sizeof *wanted };
    int high[COUNT];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < COUNT; i++)
        high[i] = fcntl(wanted[i][0], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    for (int i = 0; i < COUNT; i++)
        dup2(high[i], wanted[i][1]);
    execlp("bash", "bash", "--norc", (char *)NULL);
    _exit(127);
}

/* A directory on tmpfs when there is one, as the emulator's is. */
static int make_dir(struct raw_session *session, const char *scratch, struct error *err)
{
    snprintf(session->dir, sizeof session->dir, "/dev/shm/bench-XXXXXX");
    if (mkdtemp(session->dir))
        return 0;
    snprintf(session->dir, sizeof session->dir, "%s/fifos-XXXXXX", scratch);
    if (mkdtemp(session->dir))
        return 0;
    session->dir[0] = '\0';
    return error_errno(err, errno, "make a directory for FIFOs");
}

int raw_session_start(struct raw_session *session, const char *scratch, struct error *err)
{
    int input[2], status[2];
    *session = (struct raw_session){.input = -1, .status = -1, .command = -1};
    int result = make_dir(session, scratch, err);
    if (result < 0)
        return result;
    if (pipe2(input, O_CLOEXEC) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int input_read = input[0];
    session->input = input[1];
    if (pipe2(status, O_CLOEXEC) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int status_write = status[1];
    session->status = status[0];
    session->command = memfd_create("command", MFD_CLOEXEC);
    session->pid = session->command < 0 ? -1 : fork();
    if (session->pid < 0)
        return error_errno(err, errno, "start bash");
    if (session->pid == 0)
        become_bash(input_read, status_write, session->command);
    return 0;
}

static int make_fifo(const struct raw_session *session, int number, char *path, size_t size)
{
    snprintf(path, size, "%s/%d", session->dir, number);
    if (mkfifo(path, 0600) < 0)
        return -errno;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The command with its NUL; the shell shares the position. */
static int feed(const struct raw_session *session, const char *command)
{
    char line[512];
    int size = snprintf(line, sizeof line, line_format, session->dir, session->dir);
    size_t length = strlen(command) + 1;
    if (ftruncate(session->command, 0) < 0 || lseek(session->command, 0, SEEK_SET) < 0 ||
        pwrite(session->command, command, length, 0) != (ssize_t)length ||
        write(session->input, line, (size_t)size) != size)
        return -errno;
    return 0;
}

static int await_status(const struct raw_session *session)
{
    char text[16];
    ssize_t got = read(session->status, text, sizeof text - 1);
    if (got <= 0)
        return -EPIPE;
    text[got] = '\0';
    return (int)strtol(text, NULL, 10);
}

static void drain(int fd)
{
    char bytes[4096];
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
}

int raw_session_run(struct raw_session *session, const char *command, struct error *err)
{
    char path[2][96];
    CLEANUP_FD int out = make_fifo(session, 1, path[0], sizeof path[0]);
    CLEANUP_FD int errors = make_fifo(session, 2, path[1], sizeof path[1]);
    if (out < 0 || errors < 0)
        return error_errno(err, out < 0 ? -out : -errors, "make a FIFO");
    int result = feed(session, command);
    if (result == 0)
        result = await_status(session);
    drain(out);
    drain(errors);
    unlink(path[0]);
    unlink(path[1]);
    return result < 0 ? error_errno(err, -result, "bare session") : result;
}

void raw_session_stop(struct raw_session *session)
{
    if (!*session->dir)
        return;
    if (session->pid > 0) {
        kill(session->pid, SIGKILL);
        waitpid(session->pid, NULL, 0);
    }
    const int fds[] = {session->input, session->status, session->command};
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    rmdir(session->dir);
    *session = (struct raw_session){.input = -1, .status = -1, .command = -1};
}
