/* sandpit git: the mirrors that clones come from without a network. */
#include "cli/git.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "git/url.h"

int git_settings_make(struct git_settings *settings, const struct git_options *options,
                      const struct project *project, const char *run_dir, struct error *err)
{
    const char *prefix;
    json_t *dir;
    *settings = (struct git_settings){.run_dir = run_dir, .ssh_agent = options->ssh_agent};
    settings->program = git_helper_program(err);
    if (!settings->program || git_mirrors_store(&settings->mirrors, err) < 0)
        return -err->code;
    for (size_t i = 0; i < options->mirrors.count; i++) {
        if (git_mirrors_parse(&settings->mirrors, options->mirrors.items[i], err) < 0)
            return -err->code;
    }
    json_object_foreach(project->git_mirrors, prefix, dir)
    {
        if (git_mirrors_add(&settings->mirrors, prefix, json_string_value(dir), project->dir, err) <
            0)
            return -err->code;
    }
    return 0;
}

void git_settings_free(struct git_settings *settings)
{
    free((char *)settings->program);
    git_mirrors_free(&settings->mirrors);
    *settings = (struct git_settings){0};
}

/* --- sandpit git mirror ----------------------------------------------------------------------- */

struct mirroring {
    bool terminal, done;
    int refs;
    char said[2048];
};

static void told(void *arg, const json_t *line)
{
    struct mirroring *mirroring = arg;
    const char *type = json_string_value(json_object_get(line, "type"));
    const char *said = json_string_value(json_object_get(line, "stderr"));
    if (type && strcmp(type, "progress") == 0 && mirroring->terminal) {
        fprintf(stderr, "\r\033[K%s %lld of %lld", json_string_value(json_object_get(line, "step")),
                (long long)json_integer_value(json_object_get(line, "done")),
                (long long)json_integer_value(json_object_get(line, "total")));
    } else if (type && strcmp(type, "done") == 0) {
        mirroring->done = true;
        mirroring->refs = (int)json_integer_value(json_object_get(line, "refs"));
    } else if (said) {
        snprintf(mirroring->said, sizeof mirroring->said, "%s", said);
    }
}

static int make_directories(const char *path, struct error *err)
{
    CLEANUP_FREE char *copy = strdup(path);
    if (!copy)
        return error_errno(err, ENOMEM, "mirror");
    for (char *slash = strchr(copy + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            return error_errno(err, errno, "make '%s'", copy);
        if (!slash)
            return 0;
        *slash = '/';
    }
}

static int mirror(const struct git_settings *settings, const char *url, struct error *err)
{
    char path[PATH_MAX];
    CLEANUP_FREE char *shown = git_redact(url);
    int result = git_mirror_place(&settings->mirrors, url, path, err);
    if (result == 0)
        result = make_directories(path, err);
    if (result < 0)
        return result;
    struct mirroring mirroring = {.terminal = isatty(STDERR_FILENO)};
    CLEANUP_JSON json_t *request = json_pack("{s:s,s:s}", "url", url, "update", path);
    result = git_helper_run(settings, request, told, &mirroring, err);
    if (mirroring.terminal)
        fprintf(stderr, "\r\033[K");
    if (result < 0)
        return result;
    if (!mirroring.done || result != 0) {
        CLEANUP_FREE char *said = git_redact(mirroring.said);
        rmdir(path); /* only when it is still empty */
        return error_set(err, EIO, "%s: %s", shown ? shown : "",
                         said && *said ? said : "the git helper failed");
    }
    printf("%s: %d branches and tags in %s\n", shown ? shown : "", mirroring.refs, path);
    return 0;
}

static int mirror_all(const struct git_options *options, const char *dir, char **urls, int count,
                      struct error *err)
{
    CLEANUP_PROJECT struct project project;
    struct git_settings settings = {0};
    int result = project_load(dir, NULL, &project, err);
    if (result == 0)
        result = git_settings_make(&settings, options, &project, NULL, err);
    for (int i = 0; result == 0 && i < count; i++)
        result = mirror(&settings, urls[i], err);
    git_settings_free(&settings);
    return result;
}

int cmd_git(int argc, char **argv)
{
    struct git_options options = {0};
    const char *dir = ".";
    const struct opt rows[] = {
        GIT_OPTION_ROWS(&options),
        OPT_TEXT("project", 0, &dir, "DIR", "the project (default: the current directory)"),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit git mirror [options] URL…",
        .about = "Fetches repositories into mirrors, or brings those up to date. Clones of these\n"
                 "URLs then need no network. A mirror goes below the DIR of the longest prefix\n"
                 "that fits, given by --git-mirror or by sandpit.git.mirrors in wrangler.jsonc,\n"
                 "else below $XDG_DATA_HOME/sandpit/git.",
        .rows = rows,
        .min = 2,
        .max = 100,
    };
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    if (strcmp(rest.arguments[0], "mirror") != 0) {
        fprintf(stderr, "sandpit git: unknown command '%s'; there is mirror\n", rest.arguments[0]);
        return 2;
    }
    struct error err = {0};
    int result = mirror_all(&options, dir, rest.arguments + 1, rest.argument_count - 1, &err);
    return result < 0 ? text_fail("git", &err, 1) : 0;
}
