/* The sections that tell what a Worker has, and our own one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/wrangler_internal.h"

/* A list of objects or strings: what its elements must have. */
static const struct shape {
    const char *section, *list; /* list: the member that is the array; NULL = the section itself */
    const char *strings[2];     /* members that must be strings; none = the elements
                                   are strings */
} shapes[] = {
    {"compatibility_flags", NULL, {NULL}},
    {"durable_objects", "bindings", {"name", "class_name"}},
    {"migrations", NULL, {"tag"}},
};

static int check_element(const struct project *project, const struct shape *shape,
                         const json_t *element, struct where where, struct error *err)
{
    const struct source *source = &project->source;
    if (!shape->strings[0])
        return json_is_string(element) ? 0
                                       : source_complain(source, where, err, "must be a string");
    if (!json_is_object(element))
        return source_complain(source, where, err, "must be an object");
    for (size_t i = 0; i < 2 && shape->strings[i]; i++) {
        const json_t *value = json_object_get(element, shape->strings[i]);
        if (!json_is_string(value) || json_string_length(value) == 0)
            return source_complain(source, where_name(where, shape->strings[i]), err,
                                   "must be a string");
    }
    return 0;
}

static int check_shape(const struct project *project, const struct shape *shape, struct error *err)
{
    struct where where;
    const json_t *list = project_section(project, shape->section, &where);
    if (!list)
        return 0;
    if (shape->list) {
        if (!json_is_object(list))
            return source_complain(&project->source, where, err, "must be an object");
        list = json_object_get(list, shape->list);
        where = where_name(where, shape->list);
        if (!list)
            return 0;
    }
    if (!json_is_array(list))
        return source_complain(&project->source, where, err, "must be an array");
    for (size_t i = 0; i < json_array_size(list); i++) {
        int result =
            check_element(project, shape, json_array_get(list, i), where_index(where, i), err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* [{"binding": "UPLOADS", "bucket_name": "uploads"}]: the binding is what a
 * Worker knows. */
static int read_buckets(struct project *project, struct error *err)
{
    struct where where;
    const json_t *list = project_section(project, "r2_buckets", &where);
    if (!list)
        return 0;
    if (!json_is_array(list))
        return source_complain(&project->source, where, err, "must be an array");
    project->buckets = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *binding = json_object_get(json_array_get(list, i), "binding");
        if (!json_is_string(binding) || json_string_length(binding) == 0 ||
            json_string_length(binding) > 63)
            return source_complain(&project->source, where_name(where_index(where, i), "binding"),
                                   err, "must be a string of 1 to 63 bytes");
        if (json_array_append(project->buckets, binding) < 0)
            return error_set(err, ENOMEM, "out of memory");
    }
    return 0;
}

static int read_vars(struct project *project, struct error *err)
{
    struct where where;
    json_t *vars = project_section(project, "vars", &where);
    if (vars && !json_is_object(vars))
        return source_complain(&project->source, where, err, "must be an object");
    project->vars = json_incref(vars);
    return 0;
}

int project_worker(struct project *project, struct error *err)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int result = check_shape(project, &shapes[i], err);
        if (result < 0)
            return result;
    }
    int result = read_vars(project, err);
    return result < 0 ? result : read_buckets(project, err);
}

/* {"network": {"Sandbox": "none"}} */
static int read_networks(struct project *project, const json_t *section, struct where where,
                         struct error *err)
{
    static const char *const words[] = {"auto", "none", "pasta", "slirp4netns"};
    const json_t *networks = json_object_get(section, "network");
    const char *name;
    json_t *value;
    where = where_name(where, "network");
    if (networks && !json_is_object(networks))
        return source_complain(&project->source, where, err,
                               "must be an object: class name to network");
    json_object_foreach((json_t *)networks, name, value)
    {
        struct project_class *class = project_class(project, name);
        const char *word = json_string_value(value);
        struct where here = where_name(where, name);
        if (!class)
            return source_complain(&project->source, here, err, "is not a class of containers");
        for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
            if (strcmp(words[i], word) == 0)
                snprintf(class->network, sizeof class->network, "%s", word);
        }
        if (!*class->network)
            return source_complain(&project->source, here, err,
                                   "must be auto, none, pasta or slirp4netns");
    }
    return 0;
}

/* {"git": {"mirrors": {"https://github.com/": "mirrors"}}} */
static int read_mirrors(struct project *project, const json_t *section, struct where where,
                        struct error *err)
{
    json_t *git = json_object_get(section, "git");
    json_t *mirrors = json_object_get(git, "mirrors");
    const char *prefix;
    json_t *dir;
    where = where_name(where, "git");
    if (git && !json_is_object(git))
        return source_complain(&project->source, where, err, "must be an object");
    where = where_name(where, "mirrors");
    if (mirrors && !json_is_object(mirrors))
        return source_complain(&project->source, where, err,
                               "must be an object: prefix of URLs to directory");
    json_object_foreach(mirrors, prefix, dir)
    {
        if (!*prefix || !json_is_string(dir) || json_string_length(dir) == 0)
            return source_complain(&project->source, where_name(where, prefix), err,
                                   "must be a directory");
    }
    project->git_mirrors = json_incref(mirrors);
    return 0;
}

int project_own(struct project *project, struct error *err)
{
    struct where where;
    const json_t *section = project_section(project, "sandpit", &where);
    if (section && !json_is_object(section))
        return source_complain(&project->source, where, err, "must be an object");
    int result = read_networks(project, section, where, err);
    return result < 0 ? result : read_mirrors(project, section, where, err);
}
