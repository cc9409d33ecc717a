#include "config/wrangler.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/wrangler_internal.h"

/* In the order in which wrangler looks. */
static const char *const config_names[] = {"wrangler.json", "wrangler.jsonc", "wrangler.toml"};

/* Sections that an environment must repeat: wrangler does not inherit them. */
static const char *const own_sections[] = {"containers", "durable_objects", "r2_buckets", "vars"};

static bool is_inherited(const char *key)
{
    for (size_t i = 0; i < sizeof own_sections / sizeof *own_sections; i++) {
        if (strcmp(own_sections[i], key) == 0)
            return false;
    }
    return true;
}

json_t *project_section(const struct project *project, const char *key, struct where *where)
{
    struct where top = where_name((struct where){0}, key);
    json_t *value = json_object_get(project->source.root, key);
    if (*project->environment) {
        const json_t *all = json_object_get(project->source.root, "env");
        json_t *own = json_object_get(json_object_get(all, project->environment), key);
        if (own || !is_inherited(key)) {
            value = own;
            top = where_name(where_name((struct where){0}, "env"), project->environment);
            top = where_name(top, key);
        }
    }
    if (where)
        *where = top;
    return value;
}

/* --env must name one of the environments that there are. */
static int check_environment(const struct project *project, struct error *err)
{
    const struct where where = where_name((struct where){0}, "env");
    const json_t *all = json_object_get(project->source.root, "env");
    const char *name;
    json_t *value;
    if (all && !json_is_object(all))
        return source_complain(&project->source, where, err, "must be an object");
    json_object_foreach((json_t *)all, name, value)
    {
        if (!json_is_object(value))
            return source_complain(&project->source, where_name(where, name), err,
                                   "must be an object");
    }
    if (!*project->environment || json_object_get(all, project->environment))
        return 0;
    CLEANUP_BUF struct buf problem = BUF_INIT(300);
    buf_addf(&problem, "has no environment '%s'", project->environment);
    json_object_foreach((json_t *)all, name, value) buf_addf(
        &problem, "%s%s", strstr(buf_text(&problem), "; there ") ? ", " : "; there is ", name);
    return source_complain(&project->source, where, err, buf_text(&problem));
}

/* A string at the top level; *own tells whether the environment has its own. ""
 * when not given. */
static int read_text(struct project *project, const char *key, char *to, size_t room, bool *own,
                     struct error *err)
{
    struct where where;
    const json_t *value = project_section(project, key, &where);
    *own = where.count > 1;
    if (value && !json_is_string(value))
        return source_complain(&project->source, where, err, "must be a string");
    if (value && json_string_length(value) >= room)
        return source_complain(&project->source, where, err, "is too long");
    snprintf(to, room, "%s", value ? json_string_value(value) : "");
    return 0;
}

/* wrangler puts the environment behind the name, unless the environment has a
 * name of its own. */
static int read_names(struct project *project, struct error *err)
{
    char given[sizeof project->name];
    bool own;
    int result = read_text(project, "name", given, sizeof given, &own, err);
    if (result < 0)
        return result;
    if (*given && *project->environment && !own)
        snprintf(project->name, sizeof project->name, "%.62s-%.63s", given, project->environment);
    else if (*given)
        memcpy(project->name, given, sizeof given);
    return read_text(project, "main", project->main, sizeof project->main, &own, err);
}

static int project_read(struct project *project, struct error *err)
{
    int result = source_read(&project->source, project->file, err);
    if (result < 0)
        return result;
    project->found = true;
    result = check_environment(project, err);
    if (result == 0)
        result = read_names(project, err);
    if (result == 0)
        result = project_worker(project, err);
    if (result == 0)
        result = project_classes(project, err);
    return result < 0 ? result : project_own(project, err);
}

/* Finds the configuration file and sets dir, file and the name that the
 * directory gives. */
static int project_find(const char *dir, const char *config_file, struct project *project,
                        struct error *err)
{
    char path[PATH_MAX + 32];
    if (config_file) {
        if (!realpath(config_file, project->file))
            return error_errno(err, errno, "open '%s'", config_file);
        memcpy(path, project->file, sizeof project->file);
        snprintf(project->dir, sizeof project->dir, "%s", dirname(path));
    } else {
        if (!realpath(dir, project->dir))
            return error_errno(err, errno, "open '%s'", dir);
        struct stat status;
        if (stat(project->dir, &status) < 0 || !S_ISDIR(status.st_mode))
            return error_set(err, ENOTDIR, "'%s' is not a directory", dir);
        for (size_t i = 0; i < sizeof config_names / sizeof *config_names; i++) {
            int length = snprintf(path, sizeof path, "%s/%s", project->dir, config_names[i]);
            if ((size_t)length < sizeof project->file && !project->file[0] &&
                access(path, F_OK) == 0)
                memcpy(project->file, path, (size_t)length + 1);
        }
    }
    const char *base = strrchr(project->dir, '/');
    snprintf(project->name, sizeof project->name, "%.127s", base && base[1] ? base + 1 : "sandpit");
    return 0;
}

int project_load_environment(const char *dir, const char *config_file, const char *environment,
                             struct project *project, struct error *err)
{
    memset(project, 0, sizeof *project);
    if (environment && strlen(environment) >= sizeof project->environment)
        return error_set(err, EINVAL, "--env takes the name of an environment");
    snprintf(project->environment, sizeof project->environment, "%s",
             environment ? environment : "");
    int result = project_find(dir ? dir : ".", config_file, project, err);
    if (result < 0)
        return result;
    if (project->file[0])
        return project_read(project, err);
    if (*project->environment)
        return error_set(err, EINVAL, "--env %s: there is no wrangler.jsonc in %s",
                         project->environment, project->dir);
    return project_builtin_class(project, err);
}

int project_load(const char *dir, const char *config_file, struct project *project,
                 struct error *err)
{
    return project_load_environment(dir, config_file, NULL, project, err);
}

void project_free(struct project *project)
{
    for (size_t i = 0; i < project->class_count; i++) {
        free(project->classes[i].dockerfile);
        dockerfile_free(&project->classes[i].facts);
    }
    free(project->classes);
    json_decref(project->vars);
    project->vars = NULL;
    json_decref(project->buckets);
    project->buckets = NULL;
    json_decref(project->git_mirrors);
    project->git_mirrors = NULL;
    project->classes = NULL;
    project->class_count = 0;
    source_free(&project->source);
}
