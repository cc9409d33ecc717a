/* `sandpit run`: a command on the host with an emulator of its own, which ends with it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/private.h"
#include "cli/report.h"
#include "cli/text.h"
#include "cli/whole_file.h"

struct run {
    struct private_emulator emulator;
    struct client client; /* for the emulator */
    char **command;
    const char *report; /* a file for it, or NULL */
    bool quiet, fail_on_leak;
};

static int show_help(void)
{
    const struct opt rows[] = {
        {.kind = OPT_KIND_TEXT,
         .name = "project",
         .value = "DIR",
         .help = "the project (default: the current directory)"},
        {.kind = OPT_KIND_FLAG,
         .name = "fail-on-leak",
         .help = "exit 1 when CMD was successful but left sandboxes behind"},
        {.kind = OPT_KIND_TEXT,
         .name = "report",
         .value = "FILE",
         .help = "write the report to FILE too, as JSON"},
        {.kind = OPT_KIND_FLAG, .name = "no-report", .help = "do not print the report"},
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit run [options] -- CMD…",
        .about = "Starts an emulator on a free port, without state on disk, runs CMD with\n"
                 "SANDPIT_URL and SANDPIT_PORT in its environment, stops the emulator and exits\n"
                 "with CMD's status. At the end it reports on stderr which sandboxes were never\n"
                 "destroyed, and what the containers would have cost. All options of\n"
                 "`sandpit dev` may be given; with --persist-to the state stays.",
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

/* The value of --NAME VALUE or --NAME=VALUE at argv[*at]: NULL when it is another option, "" when
 * there is none. */
static char *value_of(const char *name, int argc, char **argv, int *at)
{
    size_t length = strlen(name);
    if (strncmp(argv[*at], name, length) != 0)
        return NULL;
    if (argv[*at][length] == '=')
        return argv[*at] + length + 1;
    if (argv[*at][length])
        return NULL;
    if (*at + 1 >= argc || strcmp(argv[*at + 1], "--") == 0)
        return "";
    return argv[++*at];
}

/* Ours; everything else before "--" is the emulator's. */
static bool take_flag(struct run *run, const char *argument)
{
    if (strcmp(argument, "--fail-on-leak") == 0)
        run->fail_on_leak = true;
    else if (strcmp(argument, "--no-report") == 0)
        run->quiet = true;
    else
        return false;
    return true;
}

static bool is_option(const char *argument, const char *name)
{
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && (!argument[length] || argument[length] == '=');
}

static int read_arguments(int argc, char **argv, struct run *run)
{
    int at = 1;
    bool persist = false;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        char *argument = argv[at], *value;
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
            return show_help();
        if (take_flag(run, argument))
            continue;
        if ((value = value_of("--report", argc, argv, &at))) {
            if (!*value)
                return usage("--report needs a file");
            run->report = value;
            continue;
        }
        persist = persist || is_option(argument, "--persist-to");
        if ((value = value_of("--project", argc, argv, &at))) {
            if (!*value)
                return usage("--project needs a directory");
            argument = value;
        }
        if (private_add(&run->emulator, argument) < 0)
            return usage("too many options");
    }
    if (persist && private_add(&run->emulator, "--no-ephemeral") < 0)
        return usage("too many options");
    if (at + 1 >= argc)
        return usage(at < argc ? "there is no command after --"
                               : "the command goes after --: sandpit run -- CMD…");
    run->command = argv + at + 1;
    return OPT_GO;
}

static void become_command(struct run *run)
{
    char port[16];
    snprintf(port, sizeof port, "%d", run->client.port);
    setenv("SANDPIT_URL", run->emulator.url, 1);
    setenv("SANDPIT_PORT", port, 1);
    if (*run->client.token)
        setenv("SANDPIT_TOKEN", run->client.token, 1);
    sigprocmask(SIG_SETMASK, &run->emulator.old_mask, NULL);
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
    if (read(run->emulator.signals, &info, sizeof info) == sizeof info &&
        info.ssi_code != SI_KERNEL)
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
                                 {.fd = run->emulator.signals, .events = POLLIN}};
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

static int write_report(const struct run *run, const json_t *report, struct error *err)
{
    CLEANUP_FREE char *text = json_dumps(report, JSON_INDENT(2));
    return text ? whole_file_write(run->report, text, err) : error_errno(err, ENOMEM, "report");
}

/* Says what was left, and what that makes of the command's status. */
static int report(const struct run *run, int code)
{
    if (run->quiet && !run->report && !run->fail_on_leak)
        return code;
    struct error err = {0};
    CLEANUP_JSON json_t *report = report_fetch(&run->client, &err);
    if (!report || (run->report && write_report(run, report, &err) < 0)) {
        text_fail("run", &err, 1);
        return code == 0 && (run->report || run->fail_on_leak) ? 1 : code;
    }
    if (!run->quiet)
        report_print(report, stderr);
    return code == 0 && run->fail_on_leak && !report_is_clean(report) ? 1 : code;
}

int cmd_run(int argc, char **argv)
{
    struct run run = {0};
    private_prepare(&run.emulator);
    int code = read_arguments(argc, argv, &run);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    const struct client_choice choice = {.url = run.emulator.url};
    if (private_start(&run.emulator, &err) < 0 || client_choose(&choice, &run.client, &err) < 0) {
        /* It has said what is wrong with its options. */
        return private_stop(&run.emulator) == 2 ? 2 : text_fail("run", &err, 125);
    }
    code = report(&run, run_command(&run));
    private_stop(&run.emulator);
    return code;
}
