/* The sandpit command: one row for each subcommand. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/commands.h"
#include "worker/nearest.h"

static const struct row {
    const char *name;
    const char *what; /* NULL hides it from help */
    int (*run)(int argc, char **argv);
} rows[] = {
    {"dev", "start the emulator for a Wrangler project", cmd_dev},
    {"run", "run a command with an emulator of its own", cmd_run},
    {"exec", "run a command in a sandbox", cmd_exec},
    {"ps", "list the sandboxes", cmd_ps},
    {"logs", "show what a sandbox's commands and processes wrote", cmd_logs},
    {"why", "tell why a sandbox's files are gone", cmd_why},
    {"events", "show what happened, and what happens", cmd_events},
    {"clock", "show or turn the emulator's clock", cmd_clock},
    {"fault", "make something go wrong on purpose", cmd_fault},
    {"stop", "stop sandboxes: files and processes are gone", cmd_stop},
    {"destroy", "destroy sandboxes with their storage", cmd_destroy},
    {"replace", "swap containers, as the platform does", cmd_replace},
    {"reset", "destroy all sandboxes and forget what is stored", cmd_reset},
    {"state", "export, import or remove what is kept between starts", cmd_state},
    {"doctor", "check this machine and a project", cmd_doctor},
    {"init", "write a small project to begin with", cmd_init},
    {"demo", "play what surprises users of sandboxes", cmd_demo},
    {"git", "fetch mirrors for clones without a network", cmd_git},
    {"methods", NULL, cmd_methods},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void print_help(FILE *to)
{
    bool bold = log_colours(fileno(to));
    const char *on = bold ? "\033[1m" : "", *off = bold ? "\033[0m" : "";
    fprintf(to, "%sUsage:%s sandpit COMMAND [options]\n\n", on, off);
    fprintf(to, "A local emulator for Cloudflare Sandboxes.\n\n%sCommands:%s\n", on, off);
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].what)
            fprintf(to, "  %-10s%s\n", rows[i].name, rows[i].what);
    }
    fprintf(to, "\nEvery command has --help. sandpit --version tells the version.\n");
}

static int unknown(const char *name)
{
    struct nearest nearest = nearest_to(name);
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].what)
            nearest_try(&nearest, rows[i].name);
    }
    fprintf(stderr, "sandpit: unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
    if (nearest.best && name[0] != '-')
        fprintf(stderr, "; did you mean %s?", nearest.best);
    fprintf(stderr, "\nTry: sandpit --help\n");
    return 2;
}

static int run(const char *name, int argc, char **argv)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].run(argc, argv);
    }
    return unknown(name);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-v") == 0) {
        printf("sandpit %s (Sandbox SDK 0.4 to 0.12 over HTTP)\n", SANDPIT_VERSION);
        return 0;
    }
    bool help = strcmp(name, "help") == 0;
    if (help && argc > 2) {
        char *asked[] = {argv[2], "--help", NULL};
        return run(argv[2], 2, asked);
    }
    if (help || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help(stdout);
        return 0;
    }
    return run(name, argc - 1, argv + 1);
}
