/* `sandpit state`: what an emulator keeps, as a file; and `sandpit reset`, which asks one that runs
 * to forget everything. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/state.h"
#include "cli/state_file.h"
#include "cli/text.h"
#include "config/wrangler.h"

struct choice {
    const char *project, *config, *persist_to;
    bool force;
};

/* Where an emulator with the same options would keep it. */
static int choose_dir(const struct choice *choice, char to[PATH_MAX], struct error *err)
{
    CLEANUP_PROJECT struct project project = {0};
    if (project_load(choice->project ? choice->project : ".", choice->config, &project, err) < 0)
        return -err->code;
    return state_choose(choice->persist_to, project.found ? project.dir : NULL, to, PATH_MAX, err);
}

static bool is_kept(const char *dir)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/objects.sqlite", dir);
    return access(path, F_OK) == 0;
}

/* Only one has the files; a running emulator is asked by other commands. */
static int lock_dir(const char *dir, struct error *err)
{
    struct error inner = {0};
    int lock = state_lock(dir, &inner);
    if (lock >= 0)
        return lock;
    if (lock == -EWOULDBLOCK)
        return error_set(err, EBUSY,
                         "an emulator runs on '%s': stop it first (`sandpit reset` and "
                         "POST /cdn-cgi/local/reset empty one that runs)",
                         dir);
    return error_set(err, inner.code, "%s", inner.text);
}

static void print_counts(const char *verb, const struct state_counts *counts)
{
    printf("%s: %lld sandbox%s, %lld object%s in buckets\n", verb, counts->sandboxes,
           counts->sandboxes == 1 ? "" : "es", counts->bucket_objects,
           counts->bucket_objects == 1 ? "" : "s");
}

static int do_export(const struct choice *choice, const char *dir, const char *file,
                     struct error *err)
{
    struct state_counts counts = {0};
    if (!is_kept(dir))
        return error_set(err, ENOENT, "nothing is kept in '%s'", dir);
    CLEANUP_FD int lock = lock_dir(dir, err);
    if (lock < 0 || state_export(dir, file, choice->force, &counts, err) < 0)
        return -err->code;
    print_counts("exported", &counts);
    return 0;
}

static int do_import(const struct choice *choice, const char *dir, const char *file,
                     struct error *err)
{
    struct state_counts counts = {0};
    CLEANUP_FD int lock = lock_dir(dir, err);
    if (lock < 0 || state_import(dir, file, choice->force, &counts, err) < 0)
        return -err->code;
    print_counts("imported", &counts);
    return 0;
}

static int do_reset(const struct choice *choice, const char *dir, const char *file,
                    struct error *err)
{
    if (!is_kept(dir)) {
        printf("nothing is kept in %s\n", dir);
        return 0;
    }
    CLEANUP_FD int lock = lock_dir(dir, err);
    if (lock < 0 || state_remove(dir, err) < 0)
        return -err->code;
    printf("removed what was kept in %s\n", dir);
    return 0;
}

static const struct {
    const char *name;
    int arguments; /* with the name */
    int (*run)(const struct choice *choice, const char *dir, const char *file, struct error *err);
} actions[] = {
    {"export", 2, do_export},
    {"import", 2, do_import},
    {"reset", 1, do_reset},
};

static int usage(const char *text, const char *word)
{
    fprintf(stderr, "sandpit state: %s%s\nTry: sandpit state --help\n", text, word);
    return OPT_USAGE;
}

int cmd_state(int argc, char **argv)
{
    struct choice choice = {0};
    const struct opt rows[] = {
        OPT_TEXT("project", 0, &choice.project, "DIR", "of the project in DIR (default: here)"),
        OPT_TEXT("config", 'c', &choice.config, "FILE", "of the project with this configuration"),
        OPT_TEXT("persist-to", 0, &choice.persist_to, "DIR",
                 "the state below DIR, as given to dev"),
        OPT_FLAG("force", 0, &choice.force, "replace what is there"),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit state export FILE | import FILE | reset",
        .about = "What an emulator keeps between two starts: the sandboxes with their options,\n"
                 "and the buckets. Files and processes of containers are not kept. No emulator\n"
                 "may run on it meanwhile.",
        .rows = rows,
        .min = 1,
        .max = 2,
    };
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, rest.arguments[0]) != 0)
            continue;
        if (rest.argument_count != actions[i].arguments)
            return usage(actions[i].arguments == 2 ? "it takes a file: " : "it takes no file: ",
                         actions[i].name);
        struct error err = {0};
        char dir[PATH_MAX];
        int result = choose_dir(&choice, dir, &err);
        if (result == 0)
            result = actions[i].run(&choice, dir, rest.arguments[1], &err);
        return result < 0 ? text_fail("state", &err, 1) : 0;
    }
    return usage("export, import or reset, not ", rest.arguments[0]);
}

int cmd_reset(int argc, char **argv)
{
    struct client_choice choice = {0};
    const struct opt rows[] = {CLIENT_OPTIONS(&choice), OPT_END};
    const struct opt_command command = {
        .synopsis = "sandpit reset [options]",
        .about = "Asks the running emulator to destroy every sandbox, to forget all that is\n"
                 "stored (buckets too), and to let its clock show the real time again.",
        .rows = rows};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    struct client client;
    CLEANUP_ANSWER struct client_answer answer = {0};
    if (client_choose(&choice, &client, &err) < 0 ||
        client_call(&client, "POST", "/cdn-cgi/local/reset", NULL, &answer, &err) < 0)
        return text_fail("reset", &err, 1);
    return 0;
}
