/* containers[]: the classes, their images and sizes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "config/image.h"
#include "config/wrangler_internal.h"

/* One element while it is read. */
struct reading {
    const struct project *project;
    const struct source *source;
    const json_t *item;
    struct where where;
    struct project_class *class;
};

static int complain(const struct reading *reading, const char *name, struct error *err,
                    const char *problem)
{
    return source_complain(reading->source, where_name(reading->where, name), err, problem);
}

static void classify(struct project_class *class)
{
    struct image_facts facts = image_facts(class->from);
    memcpy(class->version, facts.version, sizeof class->version);
    class->python = facts.python || class->facts.python;
}

/* Images. */

/* Whether a text that names no existing file was meant as one. A reference has
 * no leading dot or slash, and its last part is not called Dockerfile. */
static bool looks_like_path(const char *image)
{
    const char *last = strrchr(image, '/');
    last = last ? last + 1 : image;
    if (image[0] == '.' || image[0] == '/')
        return true;
    return strcasestr(last, "dockerfile") != NULL && !strchr(last, ':');
}

/* A path of the configuration as an absolute one. */
static int absolute(const struct project *project, const char *path, struct buf *to)
{
    return path[0] == '/' ? buf_adds(to, path) : buf_addf(to, "%s/%s", project->dir, path);
}

/* image_vars: what a build gives to ARGs. */
static int read_build_vars(const struct reading *reading, const json_t **to, struct error *err)
{
    const char *name;
    json_t *value;
    *to = json_object_get(reading->item, "image_vars");
    if (*to && !json_is_object(*to))
        return complain(reading, "image_vars", err, "must be an object");
    json_object_foreach((json_t *)*to, name, value)
    {
        if (!json_is_string(value))
            return source_complain(reading->source,
                                   where_name(where_name(reading->where, "image_vars"), name), err,
                                   "must be a string");
    }
    return 0;
}

static int check_context(const struct reading *reading, struct error *err)
{
    char given[PATH_MAX];
    int result = source_string(reading->source, reading->item, reading->where,
                               "image_build_context", given, sizeof given, err);
    if (result < 0 || !*given)
        return result;
    CLEANUP_BUF struct buf path = BUF_INIT(PATH_MAX - 1);
    struct stat status;
    if (absolute(reading->project, given, &path) < 0 || stat(buf_text(&path), &status) < 0 ||
        !S_ISDIR(status.st_mode))
        return complain(reading, "image_build_context", err, "names no directory");
    return 0;
}

static int read_dockerfile(const struct reading *reading, struct buf *file, struct error *err)
{
    struct project_class *class = reading->class;
    const json_t *build_vars;
    struct error problem = {0};
    int result = read_build_vars(reading, &build_vars, err);
    if (result == 0)
        result = check_context(reading, err);
    if (result < 0)
        return result;
    CLEANUP_BUF struct buf text = BUF_INIT(SOURCE_BYTES_MAX);
    if (source_text(buf_text(file), &text, &problem) < 0) {
        char what[sizeof problem.text + 32];
        snprintf(what, sizeof what, "cannot be read: %s", problem.text);
        return complain(reading, "image", err, what);
    }
    const char *name = project_relative(reading->project, buf_text(file));
    result = dockerfile_read(buf_text(&text), text.size, name, build_vars, &class->facts, err);
    if (result < 0)
        return result;
    memcpy(class->from, class->facts.image, sizeof class->from);
    class->dockerfile = buf_steal(file);
    classify(class);
    return class->dockerfile ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* Decides between a Dockerfile and a reference, and finds the reference that
 * counts. */
static int read_image(const struct reading *reading, struct error *err)
{
    struct project_class *class = reading->class;
    int result = source_string(reading->source, reading->item, reading->where, "image",
                               class->image, sizeof class->image, err);
    if (result < 0)
        return result;
    if (!class->image[0])
        return complain(reading, "image", err, "must be a string");
    CLEANUP_BUF struct buf file = BUF_INIT(PATH_MAX - 1);
    result = absolute(reading->project, class->image, &file);
    struct stat status;
    bool exists = result == 0 && stat(buf_text(&file), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
        result = buf_adds(&file, "/Dockerfile");
        exists = result == 0 && stat(buf_text(&file), &status) == 0;
    } else if (!exists && !looks_like_path(class->image)) {
        memcpy(class->from, class->image, sizeof class->from);
        classify(class);
        return 0;
    }
    if (exists)
        return read_dockerfile(reading, &file, err);
    char problem[PROJECT_IMAGE_MAX + 64];
    snprintf(problem, sizeof problem, "names a Dockerfile that is not there: %s", class->image);
    return complain(reading, "image", err, problem);
}

/* Sizes. */

static int read_max_instances(const struct reading *reading, struct error *err)
{
    const json_t *value = json_object_get(reading->item, "max_instances");
    json_int_t number = json_integer_value(value);
    if (!value)
        return 0;
    if (!json_is_integer(value) || number < 0 || number > INT_MAX)
        return complain(reading, "max_instances", err, "must be a whole number");
    reading->class->max_instances = (int)number;
    return 0;
}

/* One number of an instance_type that is an object; absent leaves *value as it
 * is. */
static int size_number(const struct reading *reading, const json_t *object, const char *name,
                       double *value, struct error *err)
{
    const json_t *number = json_object_get(object, name);
    if (!number)
        return 0;
    double given = json_number_value(number);
    if (!json_is_number(number) || given <= 0 || given > 1e9)
        return source_complain(reading->source,
                               where_name(where_name(reading->where, "instance_type"), name), err,
                               "must be a number above 0");
    *value = given;
    return 0;
}

/* {vcpu, memory_mib, disk_mb}; what is not said is as in the smallest type. */
static int size_object(const struct reading *reading, const json_t *object,
                       struct instance_size *size, struct error *err)
{
    instance_type_find("lite", size);
    double vcpu = instance_vcpus(size);
    double memory = (double)(size->memory_bytes >> 20), disk = (double)size->disk_bytes / 1e6;
    int result = size_number(reading, object, "vcpu", &vcpu, err);
    if (result == 0)
        result = size_number(reading, object, "memory_mib", &memory, err);
    if (result == 0)
        result = size_number(reading, object, "disk_mb", &disk, err);
    size->cpu_millis = vcpu < 0.001 ? 1 : (unsigned)(vcpu * 1000 + 0.5);
    size->vcpus = vcpu * 1000 == (double)size->cpu_millis ? 0 : vcpu;
    size->memory_bytes = (uint64_t)(memory * 1048576);
    size->disk_bytes = (uint64_t)(disk * 1e6);
    return result;
}

static int read_size(const struct reading *reading, struct error *err)
{
    struct project_class *class = reading->class;
    const json_t *value = json_object_get(reading->item, "instance_type");
    if (!value)
        return 0;
    class->sized = true;
    if (json_is_object(value))
        return size_object(reading, value, &class->size, err);
    const char *type = json_string_value(value);
    char problem[256] = "must be a string or an object";
    if (type && instance_type_find(type, &class->size)) {
        snprintf(class->instance_type, sizeof class->instance_type, "%s", type);
        return 0;
    }
    if (type) {
        snprintf(problem, sizeof problem, "must be one of ");
        instance_type_names(problem + strlen(problem), sizeof problem - strlen(problem));
    }
    return complain(reading, "instance_type", err, problem);
}

static int read_name(const struct reading *reading, size_t index, struct error *err)
{
    struct project_class *class = reading->class;
    int result = source_string(reading->source, reading->item, reading->where, "class_name",
                               class->name, sizeof class->name, err);
    if (result < 0)
        return result;
    if (!class->name[0])
        return complain(reading, "class_name", err, "must be a string");
    for (size_t i = 0; i < index; i++) {
        if (strcmp(reading->project->classes[i].name, class->name) == 0)
            return complain(reading, "class_name", err, "is the class of an earlier container");
    }
    return 0;
}

static int read_class(struct project *project, const json_t *item, struct where where, size_t index,
                      struct error *err)
{
    struct reading reading = {.project = project,
                              .source = &project->source,
                              .item = item,
                              .where = where_index(where, index),
                              .class = &project->classes[index]};
    if (!json_is_object(item))
        return source_complain(reading.source, reading.where, err, "must be an object");
    int result = read_name(&reading, index, err);
    if (result == 0)
        result = read_size(&reading, err);
    if (result == 0)
        result = read_max_instances(&reading, err);
    return result < 0 ? result : read_image(&reading, err);
}

int project_builtin_class(struct project *project, struct error *err)
{
    project->classes = calloc(1, sizeof *project->classes);
    if (!project->classes)
        return error_set(err, ENOMEM, "out of memory");
    project->class_count = 1;
    snprintf(project->classes[0].name, sizeof project->classes[0].name, "Sandbox");
    project->classes[0].python = true;
    return 0;
}

int project_classes(struct project *project, struct error *err)
{
    struct where where;
    const json_t *list = project_section(project, "containers", &where);
    if (!list || (json_is_array(list) && json_array_size(list) == 0))
        return project_builtin_class(project, err);
    if (!json_is_array(list))
        return source_complain(&project->source, where, err, "must be an array");
    size_t count = json_array_size(list);
    if (count > PROJECT_CLASSES_MAX)
        return source_complain(&project->source, where, err, "has more than 64 elements");
    project->classes = calloc(count, sizeof *project->classes);
    if (!project->classes)
        return error_set(err, ENOMEM, "out of memory");
    project->class_count = count;
    for (size_t i = 0; i < count; i++) {
        int result = read_class(project, json_array_get(list, i), where, i, err);
        if (result < 0)
            return result;
    }
    return 0;
}

struct project_class *project_class(struct project *project, const char *name)
{
    for (size_t i = 0; i < project->class_count; i++) {
        if (strcmp(project->classes[i].name, name) == 0)
            return &project->classes[i];
    }
    return NULL;
}
