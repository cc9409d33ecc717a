/* `sandpit doctor`: whether this machine can run sandboxes, and what to do when it cannot. */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/doctor_project.h"
#include "cli/locator.h"
#include "cli/options.h"
#include "cli/state.h"
#include "cli/text.h"
#include "config/wrangler.h"
#include "drivers/profile.h"

/* The deadline leaves room for what comes before and after it: all is over within 5 s. */
enum { DEADLINE_MS = 4000, DEFAULT_PORT = 8787, TEXT_BYTES_MAX = 1 << 20 };

/* --- How it looks ----------------------------------------------------------------------------- */

const struct doctor_mark doctor_marks[] = {
    [MACHINE_NONE] = {"✓", "\033[32m", NULL},
    [MACHINE_INFO] = {"i", "\033[36m", "info"},
    [MACHINE_WARNING] = {"!", "\033[33m", "warning"},
    [MACHINE_ERROR] = {"✗", "\033[31m", "error"},
};

static const char *const outcomes[] = {
    [MACHINE_OK] = "ok",
    [MACHINE_FINDING] = "finding",
    [MACHINE_COULD_NOT_RUN] = "could-not-run",
};

struct counts {
    int severity[MACHINE_ERROR + 1], could_not_run;
};

static struct counts count_results(const struct machine_result *results, size_t count)
{
    struct counts counts = {0};
    for (size_t i = 0; i < count; i++) {
        counts.severity[results[i].severity]++;
        counts.could_not_run += results[i].outcome == MACHINE_COULD_NOT_RUN;
    }
    return counts;
}

int doctor_status(const struct machine_result *results, size_t count)
{
    struct counts counts = count_results(results, count);
    if (counts.severity[MACHINE_ERROR] || counts.severity[MACHINE_WARNING])
        return DOCTOR_FINDINGS;
    return counts.could_not_run ? DOCTOR_COULD_NOT_RUN : DOCTOR_CLEAN;
}

static int add_check(struct buf *to, const struct machine_check *check,
                     const struct machine_result *result, bool colours)
{
    bool unknown = result->outcome == MACHINE_COULD_NOT_RUN;
    const char *mark = unknown ? "?" : doctor_marks[result->severity].mark;
    const char *on = unknown ? "\033[33m" : doctor_marks[result->severity].colour;
    int error = buf_addf(to, "%s%s%s %s: %s\n", colours ? on : "", mark, colours ? "\033[0m" : "",
                         check->title, result->reason);
    if (error == 0 && result->severity != MACHINE_NONE && *result->fix)
        error = buf_addf(to, "    fix: %s\n", result->fix);
    if (error == 0 && result->severity >= MACHINE_WARNING)
        error = buf_addf(to, "    " DOCTOR_DOCS "%s\n", check->id);
    return error;
}

static int add_count(struct buf *to, bool *first, int count, const char *one, const char *many)
{
    if (count == 0)
        return 0;
    int error = buf_addf(to, "%s%d %s", *first ? "" : ", ", count, count == 1 ? one : many);
    *first = false;
    return error;
}

static int add_end(struct buf *to, const struct machine_result *results, size_t count)
{
    struct counts counts = count_results(results, count);
    bool first = true;
    if (doctor_status(results, count) == DOCTOR_CLEAN)
        return buf_addf(to, "\nNothing is wrong with this machine.\n");
    int error = buf_adds(to, "\n");
    if (error == 0)
        error = add_count(to, &first, counts.severity[MACHINE_ERROR], "error", "errors");
    if (error == 0)
        error = add_count(to, &first, counts.severity[MACHINE_WARNING], "warning", "warnings");
    if (error == 0)
        error = add_count(to, &first, counts.could_not_run, "check could not run",
                          "checks could not run");
    if (error == 0)
        error = buf_adds(to, counts.severity[MACHINE_ERROR]
                                 ? ": sandpit or its sandboxes will not start.\n"
                             : counts.could_not_run ? ".\n"
                                                    : ": sandboxes start.\n");
    return error;
}

int doctor_text(struct buf *to, const struct machine_check *checks,
                const struct machine_result *results, size_t count, bool colours)
{
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++)
        error = add_check(to, &checks[i], &results[i], colours);
    return error ? error : add_end(to, results, count);
}

static json_t *check_json(const struct machine_check *check, const struct machine_result *result)
{
    char docs[128];
    snprintf(docs, sizeof docs, DOCTOR_DOCS "%s", check->id);
    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s?, s:s}", "id", check->id, "title",
                     check->title, "result", outcomes[result->outcome], "severity",
                     doctor_marks[result->severity].word, "reason", result->reason, "fix",
                     *result->fix ? result->fix : NULL, "docs", docs);
}

json_t *doctor_json(const struct machine_check *checks, const struct machine_result *results,
                    size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, check_json(&checks[i], &results[i]));
    return json_pack("{s:b, s:o}", "ok", doctor_status(results, count) == DOCTOR_CLEAN, "checks",
                     list);
}

/* --- The machine ------------------------------------------------------------------------------ */

/* What the driver would show of this host tells which tools it would not. */
static int missing_tools(const char *scratch, char *to, size_t size, struct error *err)
{
    static const char colon[] = ": ";
    char dir[PATH_MAX];
    struct profile profile = {0};
    if (snprintf(dir, sizeof dir, "%s/profile", scratch) >= (int)sizeof dir || mkdir(dir, 0700) < 0)
        return error_errno(err, errno, "make '%s'", dir);
    int result = profile_build(&profile, dir, err);
    const char *list = profile.missing ? strstr(profile.missing, colon) : NULL;
    snprintf(to, size, "%s", result == 0 && list ? list + strlen(colon) : "");
    profile_free(&profile);
    return result;
}

struct settings {
    const char *dir, *persist_to, *config, *environment, *only;
    long port;
    bool json;
};

static int parse(struct settings *settings, int argc, char **argv)
{
    *settings = (struct settings){.dir = ".", .port = DEFAULT_PORT};
    const struct opt rows[] = {
        OPT_FLAG("json", 0, &settings->json, "print the results as JSON"),
        OPT_NUMBER("port", 'p', &settings->port, 1, 65535, "N",
                   "the port that dev would listen on (default 8787)"),
        OPT_TEXT("persist-to", 0, &settings->persist_to, "DIR", "where dev would keep state"),
        OPT_TEXT("config", 'c', &settings->config, "FILE", "read this configuration"),
        OPT_TEXT("env", 'e', &settings->environment, "NAME",
                 "the environment in it (default $CLOUDFLARE_ENV, or none)"),
        OPT_CHOICE("only", 0, &settings->only, "machine|project", "half of the checks"),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit doctor [options] [DIR]",
        .about = "Checks whether this machine can run sandboxes, and what is wrong with the\n"
                 "project in DIR (default: here), and says how to repair it. It changes nothing.\n"
                 "Exit status: 0 nothing is wrong, 1 errors or warnings, 2 it could not tell.",
        .rows = rows,
        .max = 1,
    };
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code == OPT_GO && rest.argument_count)
        settings->dir = rest.arguments[0];
    if (!settings->environment)
        settings->environment = getenv("CLOUDFLARE_ENV"); /* as dev does */
    return code;
}

static const char *choose_state(const struct settings *settings, char to[PATH_MAX])
{
    struct project project = {0};
    struct error err = {0};
    int result = project_load(settings->dir, settings->config, &project, &err);
    if (result == 0)
        result = state_choose(settings->persist_to, project.found ? project.dir : NULL, to,
                              PATH_MAX, &err);
    project_free(&project);
    return result == 0 ? to : NULL;
}

static bool make_scratch(char *to, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(to, size, "%s/sandpit-doctor-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    return mkdtemp(to) != NULL;
}

static void remove_scratch(const char *path)
{
    CLEANUP_FREE char *parent = strdup(path);
    if (!parent)
        return;
    char *name = strrchr(parent, '/');
    *name++ = '\0';
    CLEANUP_FD int dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0)
        locator_remove_tree(dir, name);
}

/* --- The command ------------------------------------------------------------------------------ */

/* Of two halves, each of which may be missing. */
struct report {
    const struct machine_result *results; /* or NULL */
    const struct findings *findings;      /* or NULL */
    const char *config;                   /* the file, when it was found above the directory */
};

static int status_of(const struct report *report)
{
    int machine =
        report->results ? doctor_status(report->results, machine_check_count) : DOCTOR_CLEAN;
    bool found = report->findings && doctor_project_status(report->findings);
    return found ? DOCTOR_FINDINGS : machine;
}

static void show_json(const struct report *report)
{
    CLEANUP_JSON json_t *json =
        report->results ? doctor_json(machine_checks, report->results, machine_check_count)
                        : json_object();
    json_object_set_new(json, "ok", json_boolean(status_of(report) == DOCTOR_CLEAN));
    if (report->findings)
        json_object_set_new(json, "findings", doctor_project_json(report->findings));
    if (*report->config)
        json_object_set_new(json, "config", json_string(report->config));
    text_json(json);
}

static int show(const struct settings *settings, const struct report *report)
{
    bool colours = log_colours(STDOUT_FILENO);
    CLEANUP_BUF struct buf text = BUF_INIT(TEXT_BYTES_MAX);
    int result = 0;
    if (settings->json) {
        show_json(report);
    } else {
        if (report->results)
            result =
                doctor_text(&text, machine_checks, report->results, machine_check_count, colours);
        if (result == 0 && report->results && report->findings)
            result = buf_adds(&text, "\n");
        if (result == 0 && *report->config)
            result = buf_addf(&text, "The project is that of %s.\n", report->config);
        if (result == 0 && report->findings)
            result = doctor_project_text(&text, report->findings, colours);
        fputs(buf_text(&text), stdout);
    }
    return result < 0 || fflush(stdout) != 0 ? DOCTOR_COULD_NOT_RUN : status_of(report);
}

/* NULL when there is no memory. */
static struct machine_result *examine_machine(const struct settings *settings)
{
    char state[PATH_MAX], scratch[PATH_MAX];
    struct machine machine = machine_here();
    machine.port = (uint16_t)settings->port;
    machine.state_dir = choose_state(settings, state);
    machine.locator = locator_check;
    machine.missing_tools = missing_tools;
    /* A signal waits until the scratch directory is gone again. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    machine.scratch = make_scratch(scratch, sizeof scratch) ? scratch : NULL;
    struct machine_result *results = calloc(machine_check_count, sizeof *results);
    if (results)
        machine_run(&machine, machine_checks, machine_check_count, results, DEADLINE_MS);
    if (machine.scratch)
        remove_scratch(machine.scratch);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return results;
}

/* Whether there is a project, be it one that cannot be read. Where it is goes to `above` when that
 * is not the directory itself. */
static bool has_project(const struct settings *settings, char above[PATH_MAX])
{
    CLEANUP_PROJECT struct project project;
    struct error err = {0};
    int result = project_load(settings->dir, settings->config, &project, &err);
    snprintf(above, PATH_MAX, "%s", project.above ? project.file : "");
    return result < 0 || project.found;
}

int cmd_doctor(int argc, char **argv)
{
    struct settings settings;
    char above[PATH_MAX] = "";
    int code = parse(&settings, argc, argv);
    if (code != OPT_GO)
        return code;
    bool machine = !settings.only || strcmp(settings.only, "machine") == 0;
    bool asked = settings.only && !machine;
    bool project = (!settings.only || asked) && has_project(&settings, above);
    if (asked && !project) {
        log_error("there is no wrangler.json, wrangler.jsonc or wrangler.toml in '%s' or above it",
                  settings.dir);
        return DOCTOR_COULD_NOT_RUN;
    }
    CLEANUP_FREE struct machine_result *results = machine ? examine_machine(&settings) : NULL;
    CLEANUP_FINDINGS struct findings findings = {0};
    if ((machine && !results) || (project && project_inspect(settings.dir, settings.config,
                                                             settings.environment, &findings) < 0))
        return DOCTOR_COULD_NOT_RUN;
    const struct report report = {results, project ? &findings : NULL, above};
    return show(&settings, &report);
}
