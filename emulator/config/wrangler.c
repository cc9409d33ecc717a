#include "config/wrangler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* An absolute path with what leads to the directory resolved, but not the last
 * part: a configuration that is a link belongs to where the link is. */
static int resolve_file(const char *given, struct project *project, struct error *err)
{
    const char *slash = strrchr(given, '/'), *name = slash ? slash + 1 : given;
    CLEANUP_FREE char *dir = slash ? strndup(given, (size_t)(slash - given) + 1) : strdup(".");
    struct stat status;
    if (!dir)
        return error_errno(err, ENOMEM, "open '%s'", given);
    if (stat(given, &status) < 0 || !realpath(dir, project->dir))
        return error_errno(err, errno, "open '%s'", given);
    const char *base = strcmp(project->dir, "/") == 0 ? "" : project->dir;
    if (snprintf(project->file, sizeof project->file, "%s/%s", base, name) >=
        (int)sizeof project->file)
        return error_errno(err, ENAMETOOLONG, "open '%s'", given);
    return 0;
}

/* Whether `dir` has a file of this name; its path goes to `to`. */
static bool has_file(const char *dir, const char *name, char to[PATH_MAX])
{
    struct stat status;
    const char *base = strcmp(dir, "/") == 0 ? "" : dir;
    return snprintf(to, PATH_MAX, "%s/%s", base, name) < PATH_MAX && stat(to, &status) == 0 &&
           !S_ISDIR(status.st_mode);
}

/* Each name is looked for here and in all directories above before the next one is, as wrangler
 * does: a wrangler.json further up wins over a wrangler.jsonc here. */
static bool look_up(struct project *project)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof config_names / sizeof *config_names; i++) {
        char dir[PATH_MAX];
        memcpy(dir, project->dir, sizeof dir);
        for (bool above = false;; above = true) {
            if (has_file(dir, config_names[i], path)) {
                memcpy(project->file, path, sizeof path);
                memcpy(project->dir, dir, sizeof dir);
                project->above = above;
                return true;
            }
            char *slash = strrchr(dir, '/');
            if (slash == dir && dir[1] == '\0')
                break;
            slash[slash == dir] = '\0';
        }
    }
    return false;
}

/* Finds the configuration file and sets dir, file and the name that the
 * directory gives. */
static int project_find(const char *dir, const char *config_file, struct project *project,
                        struct error *err)
{
    if (config_file) {
        int result = resolve_file(config_file, project, err);
        if (result < 0)
            return result;
    } else {
        if (!realpath(dir, project->dir))
            return error_errno(err, errno, "open '%s'", dir);
        struct stat status;
        if (stat(project->dir, &status) < 0 || !S_ISDIR(status.st_mode))
            return error_set(err, ENOTDIR, "'%s' is not a directory", dir);
        look_up(project);
    }
    const char *base = strrchr(project->dir, '/');
    snprintf(project->name, sizeof project->name, "%.127s", base && base[1] ? base + 1 : "sandpit");
    return 0;
}

const char *project_relative(const struct project *project, const char *path)
{
    size_t size = strlen(project->dir);
    if (strncmp(path, project->dir, size) != 0 || path[size] != '/')
        return path;
    path += size + 1;
    return strncmp(path, "./", 2) == 0 ? path + 2 : path;
}

int project_locate(const char *dir, char to[PATH_MAX], struct error *err)
{
    struct project *project = calloc(1, sizeof *project);
    int result = project ? project_find(dir, NULL, project, err) : error_errno(err, ENOMEM, "find");
    if (result == 0)
        memcpy(to, project->dir, PATH_MAX);
    free(project);
    return result;
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
        return error_set(err, EINVAL, "--env %s: there is no wrangler.jsonc in %s or above",
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
