/* `sandpit run`: a command on the host with an emulator of its own, which ends with it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/text.h"

enum { READY_TIMEOUT_MS = 30000, STOP_TIMEOUT_MS = 5000, DEV_ARGS_MAX = 250 };

/* Signals that are handed on to the command. */
static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

struct run {
    char *dev[DEV_ARGS_MAX + 8]; /* the emulator's command line */
    int dev_count;
    char **command;
    pid_t emulator;
    int emulator_pidfd;
    int signals; /* signalfd */
    sigset_t old_mask;
    char url[256];
};

static int show_help(void)
{
    const struct opt rows[] = {
        {.kind = OPT_KIND_TEXT,
         .name = "project",
         .value = "DIR",
         .help = "the project (default: the current directory)"},
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit run [options] -- CMD…",
        .about = "Starts an emulator on a free port, without state on disk, runs CMD with\n"
                 "SANDPIT_URL and SANDPIT_PORT in its environment, stops the emulator and exits\n"
                 "with CMD's status. All options of `sandpit dev` may be given.",
        .rows = rows};
    char *argv[] = {"run", "--help", NULL};
    struct opt_rest rest;
    return opt_parse(&command, 2, argv, &rest);
}

static int usage(const char *text)
{
    fprintf(stderr, "sandpit run: %s\nTry: sandpit run --help\n", text);
    return 2;
}

/* Everything before "--" is the emulator's but --project, which is its DIR. Later options win, so
 * the defaults come first. */
static int read_arguments(int argc, char **argv, struct run *run)
{
    run->dev[run->dev_count++] = "sandpit";
    run->dev[run->dev_count++] = "dev";
    run->dev[run->dev_count++] = "--port=0";
    run->dev[run->dev_count++] = "--ephemeral";
    run->dev[run->dev_count++] = "--log-level=warn";
    int at = 1;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0)
            return show_help();
        if (run->dev_count >= DEV_ARGS_MAX)
            return usage("too many options");
        if (strcmp(argv[at], "--project") == 0) {
            if (++at >= argc || strcmp(argv[at], "--") == 0)
                return usage("--project needs a directory");
            run->dev[run->dev_count++] = argv[at];
        } else if (strncmp(argv[at], "--project=", 10) == 0) {
            run->dev[run->dev_count++] = argv[at] + 10;
        } else {
            run->dev[run->dev_count++] = argv[at];
        }
    }
    if (at + 1 >= argc)
        return usage(at < argc ? "there is no command after --"
                               : "the command goes after --: sandpit run -- CMD…");
    run->command = argv + at + 1;
    return OPT_GO;
}

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* In the child that becomes the emulator. A process group of its own keeps the terminal's Ctrl-C
 * away from it: the command may still need it while it ends. */
static void become_emulator(struct run *run, pid_t parent, int ready)
{
    char option[32];
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    sigprocmask(SIG_SETMASK, &run->old_mask, NULL);
    snprintf(option, sizeof option, "--ready-fd=%d", ready);
    run->dev[run->dev_count++] = option;
    run->dev[run->dev_count] = NULL;
    fcntl(ready, F_SETFD, 0);
    /* The command alone owns stdin and stdout; messages still come on stderr. */
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) {
        dup2(nothing, 0);
        dup2(nothing, 1);
    }
    execv("/proc/self/exe", run->dev);
    _exit(127);
}

static int read_ready_line(struct run *run, int fd, struct error *err)
{
    size_t length = 0;
    for (;;) {
        struct pollfd items[] = {{.fd = fd, .events = POLLIN},
                                 {.fd = run->signals, .events = POLLIN}};
        int ready = poll(items, 2, READY_TIMEOUT_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return error_set(err, ETIMEDOUT, "the emulator did not become ready");
        if (items[1].revents)
            return error_set(err, EINTR, "interrupted");
        ssize_t got = read(fd, run->url + length, sizeof run->url - 1 - length);
        if (got <= 0)
            return error_set(err, EPIPE, "the emulator did not start");
        length += (size_t)got;
        run->url[length] = '\0';
        char *newline = strchr(run->url, '\n');
        if (newline) {
            *newline = '\0';
            return 0;
        }
        if (length == sizeof run->url - 1)
            return error_set(err, EPROTO, "the emulator's ready line is too long");
    }
}

static int start_emulator(struct run *run, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "make a pipe");
    CLEANUP_FD int reading = ends[0];
    CLEANUP_FD int writing = ends[1];
    pid_t parent = getpid();
    run->emulator = fork();
    if (run->emulator < 0)
        return error_errno(err, errno, "start the emulator");
    if (run->emulator == 0)
        become_emulator(run, parent, writing);
    run->emulator_pidfd = open_pidfd(run->emulator);
    close(steal_fd(&writing));
    return read_ready_line(run, reading, err);
}

/* SIGTERM, five seconds, SIGKILL. The exit status, or -1 when there is none. */
static int stop_emulator(struct run *run)
{
    int status = 0;
    if (run->emulator <= 0)
        return -1;
    kill(run->emulator, SIGTERM);
    struct pollfd item = {.fd = run->emulator_pidfd, .events = POLLIN};
    int ready;
    do {
        ready = poll(&item, 1, STOP_TIMEOUT_MS);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        kill(run->emulator, SIGKILL);
    waitpid(run->emulator, &status, 0);
    cleanup_fd(&run->emulator_pidfd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void become_command(struct run *run)
{
    struct client client;
    char port[16];
    if (client_parse_url(run->url, &client, NULL) < 0)
        _exit(125);
    snprintf(port, sizeof port, "%d", client.port);
    setenv("SANDPIT_URL", run->url, 1);
    setenv("SANDPIT_PORT", port, 1);
    sigprocmask(SIG_SETMASK, &run->old_mask, NULL);
    execvp(run->command[0], run->command);
    int problem = errno;
    fprintf(stderr, "sandpit run: %s: %s\n", run->command[0], strerror(problem));
    _exit(problem == ENOENT || problem == ENOTDIR ? 127 : 126);
}

/* What the terminal sends reaches the command by itself, being in our process group; a signal that
 * somebody sent to this process alone does not. */
static void forward(const struct run *run, pid_t pid)
{
    struct signalfd_siginfo info;
    if (read(run->signals, &info, sizeof info) == sizeof info && info.ssi_code != SI_KERNEL)
        kill(pid, (int)info.ssi_signo);
}

static int run_command(struct run *run)
{
    pid_t pid = fork();
    if (pid < 0)
        return 126;
    if (pid == 0)
        become_command(run);
    CLEANUP_FD int pidfd = open_pidfd(pid);
    for (;;) {
        struct pollfd items[] = {{.fd = pidfd, .events = POLLIN},
                                 {.fd = run->signals, .events = POLLIN}};
        if (poll(items, 2, -1) < 0 && errno != EINTR)
            break;
        if (items[1].revents & POLLIN)
            forward(run, pid);
        if (items[0].revents & POLLIN)
            break;
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int cmd_run(int argc, char **argv)
{
    struct run run = {.emulator_pidfd = -1, .signals = -1};
    int code = read_arguments(argc, argv, &run);
    if (code != OPT_GO)
        return code;
    sigset_t mask;
    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        sigaddset(&mask, forwarded[i]);
    sigprocmask(SIG_BLOCK, &mask, &run.old_mask);
    run.signals = signalfd(-1, &mask, SFD_CLOEXEC);
    struct error err = {0};
    if (start_emulator(&run, &err) < 0) {
        /* It has said what is wrong with its options. */
        return stop_emulator(&run) == 2 ? 2 : text_fail("run", &err, 125);
    }
    code = run_command(&run);
    stop_emulator(&run);
    return code;
}
