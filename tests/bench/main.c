/* bench: how fast and how small the emulator is, beside what the machine allows. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cpus.h"
#include "measure.h"
#include "program.h"

enum { EXIT_USAGE = 2, EXIT_SKIP = 77 };

struct settings {
    int rounds, count;
    const char *json, *only, *peer;
    bool pin, markdown, check;
};

static const char help[] =
    "Usage: bench [options]\n"
    "\n"
    "Starts the emulator, measures it beside bare versions of what it does, and prints a table.\n"
    "\n"
    "Options:\n"
    "  --rounds N    how often the emulator and its limits take turns (default 5)\n"
    "  --count N     warm commands in a round; other rows scale with it (default 400)\n"
    "  --only NAME   one group: ";
static const char help_end[] = "  --network W   the emulator's --network (default none)\n"
                               "  --peer CMD    measure CMD beside first_exec: \"docker run --rm "
                               "--network none bb true\"\n"
                               "  --json FILE   write the rows as JSON, too\n"
                               "  --markdown    print the table as Markdown\n"
                               "  --check       exit with 1 when a row misses its target\n"
                               "  --no-pin      let the scheduler choose CPUs\n"
                               "  --help        this\n";

static void print_help(void)
{
    fputs(help, stdout);
    for (const struct measure_group *group = measure_groups; group->name; group++)
        printf("%s%s", group == measure_groups ? "" : ", ", group->name);
    printf("\n%s", help_end);
}

static int positive(const char *option, const char *text, int *value)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 1 || number > 1000000) {
        fprintf(stderr, "bench: --%s takes a positive number, not '%s'\n", option, text);
        return -EINVAL;
    }
    *value = (int)number;
    return 0;
}

static bool known_group(const char *name)
{
    for (const struct measure_group *group = measure_groups; group->name; group++) {
        if (strcmp(group->name, name) == 0)
            return true;
    }
    fprintf(stderr, "bench: no group '%s'; see --help\n", name);
    return false;
}

/* 0 to go on, 1 when there is nothing more to do, or a negative errno. */
static int parse(struct settings *settings, int argc, char **argv)
{
    static const struct option options[] = {{"rounds", required_argument, NULL, 'r'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"network", required_argument, NULL, 'w'},
                                            {"peer", required_argument, NULL, 'e'},
                                            {"markdown", no_argument, NULL, 'm'},
                                            {"check", no_argument, NULL, 'c'},
                                            {"no-pin", no_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    *settings = (struct settings){.rounds = 5, .count = 400, .pin = true};
    int result = 0;
    for (int option; result == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'r':
            result = positive("rounds", optarg, &settings->rounds);
            break;
        case 'n':
            result = positive("count", optarg, &settings->count);
            break;
        case 'o':
            settings->only = optarg;
            result = known_group(optarg) ? 0 : -EINVAL;
            break;
        case 'j':
            settings->json = optarg;
            break;
        case 'w':
            program_network = optarg;
            break;
        case 'e':
            settings->peer = optarg;
            break;
        case 'm':
            settings->markdown = true;
            break;
        case 'c':
            settings->check = true;
            break;
        case 'p':
            settings->pin = false;
            break;
        case 'h':
            print_help();
            return 1;
        default:
            return -EINVAL;
        }
    }
    if (result == 0 && optind < argc) {
        fprintf(stderr, "bench: unexpected argument '%s'\n", argv[optind]);
        result = -EINVAL;
    }
    return result;
}

static void find_cpu(char *name, size_t size)
{
    char line[256];
    snprintf(name, size, "unknown CPU");
    CLEANUP_FILE FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && value) {
            snprintf(name, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
            return;
        }
    }
}

static struct run_info find_info(const struct settings *settings)
{
    struct run_info info = {.rounds = settings->rounds, .count = settings->count, .pinned = -1};
    struct utsname names;
    if (uname(&names) == 0) /* the version, without the builder's own tail */
        snprintf(info.kernel, sizeof info.kernel, "%.*s", (int)strcspn(names.release, "-"),
                 names.release);
    find_cpu(info.cpu, sizeof info.cpu);
    info.cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&info.load, 1) != 1)
        info.load = -1;
    /* Waking an idle virtual CPU costs more than what is measured here. */
    if (settings->pin)
        info.pinned = cpus_use(1);
    return info;
}

static int run_groups(struct bench *bench, const char *only)
{
    for (const struct measure_group *group = measure_groups; group->name; group++) {
        if (only && strcmp(only, group->name) != 0)
            continue;
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[Kmeasuring: %s", group->name);
        struct error err = {0};
        int result = group->run(bench, &err);
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[K");
        if (result < 0) {
            fprintf(stderr, "bench: %s: %s\n", group->name, err.text);
            return result;
        }
    }
    return 0;
}

static int write_json(struct rows *rows, const struct run_info *info, const char *path)
{
    CLEANUP_JSON json_t *json = rows_json(rows, info);
    if (json && json_dump_file(json, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0)
        return 0;
    fprintf(stderr, "bench: '%s' could not be written\n", path);
    return -EIO;
}

static int report(struct rows *rows, const struct run_info *info, const struct settings *settings)
{
    if (settings->markdown)
        rows_markdown(rows, info, stdout);
    else
        rows_print(rows, info, stdout);
    if (settings->json && write_json(rows, info, settings->json) < 0)
        return 1;
    return settings->check && rows_missed(rows) > 0;
}

int main(int argc, char **argv)
{
    struct settings settings;
    int result = parse(&settings, argc, argv);
    if (result != 0)
        return result < 0 ? EXIT_USAGE : 0;
    if (geteuid() != 0 || access("/usr/bin/bwrap", X_OK) < 0) {
        fputs("bench: skipped: it needs root and bubblewrap\n", stderr);
        return EXIT_SKIP;
    }
    char scratch[] = "/tmp/sandpit-bench-XXXXXX";
    if (!mkdtemp(scratch)) {
        perror("bench: scratch directory");
        return 1;
    }
    struct run_info info = find_info(&settings);
    struct rows rows = {0};
    struct bench bench = {settings.rounds, settings.count, settings.pin,
                          scratch,         settings.peer,  &rows};
    result = run_groups(&bench, settings.only);
    int status = result < 0 ? 1 : report(&rows, &info, &settings);
    program_run((const char *const[]){"rm", "-rf", "--one-file-system", scratch, NULL});
    rows_free(&rows);
    return status;
}
