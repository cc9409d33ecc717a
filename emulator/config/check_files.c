/* The files of a Worker: main, and what it imports by relative paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/check_internal.h"

static void file_free(struct script_file *file)
{
    script_free(&file->script);
    buf_free(&file->text);
    free(file);
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* "./x" as it is, with an ending, or as a directory; TypeScript names x.ts as "./x.js" too. */
static bool resolve(const char *dir, const char *name, char to[PATH_MAX])
{
    static const char *const endings[] = {"",     ".ts",       ".tsx",     ".js",
                                          ".mjs", "/index.ts", "/index.js"};
    char path[PATH_MAX];
    size_t size = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (snprintf(path, sizeof path, "%s/%s%s", dir, name, endings[i]) < (int)sizeof path &&
            is_file(path))
            return realpath(path, to) != NULL;
    }
    bool js = size > 3 && strcmp(name + size - 3, ".js") == 0;
    if (js &&
        snprintf(path, sizeof path, "%s/%.*s.ts", dir, (int)size - 3, name) < (int)sizeof path &&
        is_file(path))
        return realpath(path, to) != NULL;
    return false;
}

static bool is_known(const struct inspection *inspection, const char *path)
{
    for (size_t i = 0; i < inspection->file_count; i++) {
        if (strcmp(inspection->files[i]->path, path) == 0)
            return true;
    }
    return false;
}

/* Also what is beside the project, as the packages of a repository with several are. */
static struct script_file *read_file(struct inspection *inspection, const char *path)
{
    struct error err = {0};
    if (inspection->file_count == INSPECTION_FILES_MAX || is_known(inspection, path))
        return NULL;
    struct script_file *file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    snprintf(file->path, sizeof file->path, "%s", path);
    file->relative = project_relative(&inspection->project, file->path);
    file->text = BUF_INIT(SOURCE_BYTES_MAX);
    if (source_text(path, &file->text, &err) < 0 ||
        script_read(&file->script, buf_text(&file->text), file->text.size) < 0) {
        file_free(file);
        return NULL;
    }
    inspection->files[inspection->file_count++] = file;
    return file;
}

/* Everything a file names behind `from` or in import(). */
static void follow(struct inspection *inspection, struct script_file *file)
{
    char dir[PATH_MAX], name[512], path[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", file->path);
    *strrchr(dir, '/') = '\0';
    for (size_t i = 0; i + 1 < file->script.count; i++) {
        bool imports = script_is(&file->script, i, "from") || script_is(&file->script, i, "import");
        size_t at = i + 1 + script_is(&file->script, i + 1, "(");
        if (!imports || !script_text(&file->script, at, name, sizeof name))
            continue;
        bool all = i >= 2 && script_is(&file->script, i - 1, "*") &&
                   script_is(&file->script, i - 2, "export");
        if (*name == '.' && resolve(dir, name, path))
            read_file(inspection, path);
        else
            file->open |= all;
    }
}

void inspection_read_scripts(struct inspection *inspection)
{
    char path[PATH_MAX];
    const struct project *project = &inspection->project;
    if (!*project->main || !resolve(project->dir, project->main, path))
        return;
    inspection->has_main = true;
    read_file(inspection, path);
    for (size_t i = 0; i < inspection->file_count; i++)
        follow(inspection, inspection->files[i]);
}

void inspection_free(struct inspection *inspection)
{
    for (size_t i = 0; i < inspection->file_count; i++)
        file_free(inspection->files[i]);
    project_free(&inspection->project);
}

bool inspection_call(const struct inspection *inspection, const char *name,
                     const struct script_file **file, size_t *call, bool from)
{
    bool passed = !from;
    for (size_t i = 0; i < inspection->file_count; i++) {
        const struct script_file *here = inspection->files[i];
        size_t start = !passed && here == *file ? *call + 1 : 0;
        if (!passed && here != *file)
            continue;
        passed = true;
        size_t found = script_call(&here->script, name, start);
        if (found < here->script.count) {
            *file = here;
            *call = found;
            return true;
        }
    }
    return false;
}

bool inspection_names(const struct inspection *inspection, const char *name)
{
    for (size_t i = 0; i < inspection->file_count; i++) {
        if (script_names(&inspection->files[i]->script, name))
            return true;
    }
    return false;
}

/* main may say `export *` of another file, so any file that exports it will do then. */
bool inspection_exports(const struct inspection *inspection, const char *name)
{
    if (inspection->file_count == 0)
        return true;
    const struct script *main = &inspection->files[0]->script;
    if (script_exports(main, name) || inspection->files[0]->open)
        return true;
    bool all = false;
    for (size_t i = 0; i + 1 < main->count; i++)
        all |= script_is(main, i, "export") && script_is(main, i + 1, "*");
    for (size_t i = 1; all && i < inspection->file_count; i++) {
        if (script_exports(&inspection->files[i]->script, name) || inspection->files[i]->open)
            return true;
    }
    return false;
}
