#include "config/wrangler.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "config/dockerfile.h"
#include "config/image.h"
#include "config/jsonc.h"

enum { FILE_BYTES_MAX = 1 << 20 };

/* In the order in which wrangler looks. */
static const char *const config_names[] = {"wrangler.json", "wrangler.jsonc"};

/* A configuration text with what is needed to say where something is wrong in it. */
struct source {
    const char *file; /* base name */
    struct buf text;
};

static int read_whole(const char *path, struct buf *to, struct error *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_errno(err, errno, "open '%s'", path);
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(err, EINVAL, "'%s' is not a file", path);
    for (;;) {
        int error = 0;
        char *room = buf_reserve(to, 4096, &error);
        if (!room)
            return error_set(err, -error, "'%s' is larger than %d bytes", path, FILE_BYTES_MAX);
        ssize_t got = read(fd, room, 4096);
        if (got < 0)
            return error_errno(err, errno, "read '%s'", path);
        buf_commit(to, (size_t)got);
        if (got == 0)
            return 0;
    }
}

/* "wrangler.jsonc:4:17: containers[0].class_name must be a string". A path that leads nowhere (the
 * member is missing) is placed at what should contain it. */
static int complain(const struct source *source, const struct jsonc_step *path, size_t steps,
                    struct error *err, const char *problem)
{
    struct jsonc_place place = {0, 0};
    for (size_t known = steps + 1; known-- > 0 && place.line == 0;)
        place = jsonc_locate(buf_text(&source->text), source->text.size, path, known);
    CLEANUP_BUF struct buf name = BUF_INIT(256);
    for (size_t i = 0; i < steps; i++) {
        if (path[i].name)
            buf_addf(&name, "%s%s", i > 0 ? "." : "", path[i].name);
        else
            buf_addf(&name, "[%zu]", path[i].index);
    }
    return error_set(err, EINVAL, "%s:%d:%d: %s%s%s", source->file, place.line, place.column,
                     buf_text(&name), steps > 0 ? " " : "", problem);
}

/* Copies an optional string member; "" when it is not there. */
static int take_string(const struct source *source, const json_t *object,
                       const struct jsonc_step *path, size_t steps, char *to, size_t room,
                       struct error *err)
{
    to[0] = '\0';
    const json_t *value = json_object_get(object, path[steps - 1].name);
    if (!value)
        return 0;
    if (!json_is_string(value))
        return complain(source, path, steps, err, "must be a string");
    if (json_string_length(value) >= room || strlen(json_string_value(value)) >= room)
        return complain(source, path, steps, err, "is too long");
    snprintf(to, room, "%s", json_string_value(value));
    return 0;
}

static void class_classify(struct project_class *class)
{
    struct image_facts facts = image_facts(class->from);
    memcpy(class->version, facts.version, sizeof class->version);
    class->python = facts.python;
}

/* Whether a text that names no existing file was meant as one. A reference has no leading dot or
 * slash, and its last part is not called Dockerfile. */
static bool looks_like_path(const char *image)
{
    const char *last = strrchr(image, '/');
    last = last ? last + 1 : image;
    if (image[0] == '.' || image[0] == '/')
        return true;
    return strcasestr(last, "dockerfile") != NULL && !strchr(last, ':');
}

/* Decides between a Dockerfile and a reference, and finds the reference that counts. */
static int class_image(const struct project *project, const struct source *source,
                       const struct jsonc_step path[3], struct project_class *class,
                       struct error *err)
{
    CLEANUP_BUF struct buf file = BUF_INIT(PATH_MAX - 1);
    int result = class->image[0] == '/' ? buf_adds(&file, class->image)
                                        : buf_addf(&file, "%s/%s", project->dir, class->image);
    struct stat status;
    bool exists = result == 0 && stat(buf_text(&file), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
        result = buf_adds(&file, "/Dockerfile");
        exists = result == 0 && stat(buf_text(&file), &status) == 0;
    } else if (!exists && !looks_like_path(class->image)) {
        memcpy(class->from, class->image, sizeof class->from);
        class_classify(class);
        return 0;
    }
    if (!exists) {
        char problem[PROJECT_IMAGE_MAX + 64];
        snprintf(problem, sizeof problem, "names a Dockerfile that is not there: %s", class->image);
        return complain(source, path, 3, err, problem);
    }
    CLEANUP_BUF struct buf text = BUF_INIT(FILE_BYTES_MAX);
    result = read_whole(buf_text(&file), &text, err);
    if (result < 0)
        return result;
    const char *name = strrchr(buf_text(&file), '/') + 1;
    result = dockerfile_base(buf_text(&text), text.size, name, class->from, err);
    if (result < 0)
        return result;
    class->dockerfile = buf_steal(&file);
    class_classify(class);
    return class->dockerfile ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int class_numbers(const struct source *source, const json_t *item,
                         const struct jsonc_step path[3], struct project_class *class,
                         struct error *err)
{
    const json_t *value = json_object_get(item, "max_instances");
    if (!value)
        return 0;
    struct jsonc_step here[] = {path[0], path[1], {.name = "max_instances"}};
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > INT_MAX)
        return complain(source, here, 3, err, "must be a whole number");
    class->max_instances = (int)number;
    return 0;
}

/* One number of an instance_type that is an object; absent leaves *value as it is. */
static int size_number(const struct source *source, const json_t *object,
                       const struct jsonc_step path[3], const char *name, double *value,
                       struct error *err)
{
    const json_t *number = json_object_get(object, name);
    if (!number)
        return 0;
    struct jsonc_step here[] = {path[0], path[1], path[2], {.name = name}};
    double given = json_number_value(number);
    if (!json_is_number(number) || given <= 0 || given > 1e9)
        return complain(source, here, 4, err, "must be a number above 0");
    *value = given;
    return 0;
}

/* {vcpu, memory_mib, disk_mb}; what is not said is as in the smallest type. */
static int size_object(const struct source *source, const json_t *object,
                       const struct jsonc_step path[3], struct instance_size *size,
                       struct error *err)
{
    instance_type_find("lite", size);
    double vcpu = size->cpu_millis / 1000.0;
    double memory = (double)(size->memory_bytes >> 20), disk = (double)size->disk_bytes / 1e6;
    int result = size_number(source, object, path, "vcpu", &vcpu, err);
    if (result == 0)
        result = size_number(source, object, path, "memory_mib", &memory, err);
    if (result == 0)
        result = size_number(source, object, path, "disk_mb", &disk, err);
    size->cpu_millis = vcpu < 0.001 ? 1 : (unsigned)(vcpu * 1000 + 0.5);
    size->memory_bytes = (uint64_t)(memory * 1048576);
    size->disk_bytes = (uint64_t)(disk * 1e6);
    return result;
}

static int class_size(const struct source *source, const json_t *item,
                      const struct jsonc_step path[3], struct project_class *class,
                      struct error *err)
{
    const json_t *value = json_object_get(item, "instance_type");
    struct jsonc_step here[] = {path[0], path[1], {.name = "instance_type"}};
    if (!value)
        return 0;
    class->sized = true;
    if (json_is_object(value))
        return size_object(source, value, here, &class->size, err);
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
    return complain(source, here, 3, err, problem);
}

static int class_load(struct project *project, const struct source *source, const json_t *item,
                      size_t index, struct error *err)
{
    struct project_class *class = &project->classes[index];
    struct jsonc_step path[] = {{.name = "containers"}, {.index = index}, {.name = "class_name"}};
    if (!json_is_object(item))
        return complain(source, path, 2, err, "must be an object");
    int result = take_string(source, item, path, 3, class->name, sizeof class->name, err);
    if (result < 0)
        return result;
    if (!class->name[0])
        return complain(source, path, 3, err, "must be a string");
    for (size_t i = 0; i < index; i++) {
        if (strcmp(project->classes[i].name, class->name) == 0)
            return complain(source, path, 3, err, "is the class of an earlier container");
    }
    path[2].name = "image";
    result = take_string(source, item, path, 3, class->image, sizeof class->image, err);
    if (result < 0)
        return result;
    if (!class->image[0])
        return complain(source, path, 3, err, "must be a string");
    result = class_size(source, item, path, class, err);
    if (result == 0)
        result = class_numbers(source, item, path, class, err);
    path[2].name = "image";
    return result < 0 ? result : class_image(project, source, path, class, err);
}

static int classes_builtin(struct project *project, struct error *err)
{
    project->classes = calloc(1, sizeof *project->classes);
    if (!project->classes)
        return error_set(err, ENOMEM, "out of memory");
    project->class_count = 1;
    snprintf(project->classes[0].name, sizeof project->classes[0].name, "Sandbox");
    project->classes[0].python = true;
    return 0;
}

static int classes_load(struct project *project, const struct source *source, const json_t *root,
                        struct error *err)
{
    const struct jsonc_step path[] = {{.name = "containers"}};
    const json_t *list = json_object_get(root, "containers");
    if (!list || (json_is_array(list) && json_array_size(list) == 0))
        return classes_builtin(project, err);
    if (!json_is_array(list))
        return complain(source, path, 1, err, "must be an array");
    size_t count = json_array_size(list);
    if (count > PROJECT_CLASSES_MAX)
        return complain(source, path, 1, err, "has more than 64 elements");
    project->classes = calloc(count, sizeof *project->classes);
    if (!project->classes)
        return error_set(err, ENOMEM, "out of memory");
    project->class_count = count;
    for (size_t i = 0; i < count; i++) {
        int result = class_load(project, source, json_array_get(list, i), i, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static struct project_class *class_find(struct project *project, const char *name)
{
    for (size_t i = 0; i < project->class_count; i++) {
        if (strcmp(project->classes[i].name, name) == 0)
            return &project->classes[i];
    }
    return NULL;
}

/* Our own section, which wrangler passes over with a warning: {"network": {"Sandbox": "none"}}. */
static int networks_load(struct project *project, const struct source *source, const json_t *root,
                         struct error *err)
{
    static const char *const words[] = {"auto", "none", "pasta", "slirp4netns"};
    struct jsonc_step path[] = {{.name = "sandpit"}, {.name = "network"}, {.name = NULL}};
    const json_t *section = json_object_get(root, "sandpit");
    const json_t *networks = json_object_get(section, "network");
    const char *name;
    json_t *value;
    if (section && !json_is_object(section))
        return complain(source, path, 1, err, "must be an object");
    if (networks && !json_is_object(networks))
        return complain(source, path, 2, err, "must be an object: class name to network");
    json_object_foreach((json_t *)networks, name, value)
    {
        struct project_class *class = class_find(project, name);
        const char *word = json_string_value(value);
        path[2].name = name;
        if (!class)
            return complain(source, path, 3, err, "is not a class of containers");
        for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
            if (strcmp(words[i], word) == 0)
                snprintf(class->network, sizeof class->network, "%s", word);
        }
        if (!*class->network)
            return complain(source, path, 3, err, "must be auto, none, pasta or slirp4netns");
    }
    return 0;
}

/* {"git": {"mirrors": {"https://github.com/": "mirrors"}}} of the same section. */
static int mirrors_load(struct project *project, const struct source *source, const json_t *root,
                        struct error *err)
{
    struct jsonc_step path[] = {
        {.name = "sandpit"}, {.name = "git"}, {.name = "mirrors"}, {.name = NULL}};
    json_t *git = json_object_get(json_object_get(root, "sandpit"), "git");
    json_t *mirrors = json_object_get(git, "mirrors");
    const char *prefix;
    json_t *dir;
    if (git && !json_is_object(git))
        return complain(source, path, 2, err, "must be an object");
    if (mirrors && !json_is_object(mirrors))
        return complain(source, path, 3, err, "must be an object: prefix of URLs to directory");
    json_object_foreach(mirrors, prefix, dir)
    {
        path[3].name = prefix;
        if (!*prefix || !json_is_string(dir) || json_string_length(dir) == 0)
            return complain(source, path, 4, err, "must be a directory");
    }
    project->git_mirrors = json_incref(mirrors);
    return 0;
}

/* [{"binding": "UPLOADS", "bucket_name": "uploads"}]: the binding is what a Worker knows. */
static int buckets_load(struct project *project, const struct source *source, const json_t *root,
                        struct error *err)
{
    struct jsonc_step path[] = {{.name = "r2_buckets"}, {.index = 0}, {.name = "binding"}};
    const json_t *list = json_object_get(root, "r2_buckets");
    if (!list)
        return 0;
    if (!json_is_array(list))
        return complain(source, path, 1, err, "must be an array");
    project->buckets = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *binding = json_object_get(json_array_get(list, i), "binding");
        path[1].index = i;
        if (!json_is_string(binding) || json_string_length(binding) == 0 ||
            json_string_length(binding) > 63)
            return complain(source, path, 3, err, "must be a string of 1 to 63 bytes");
        if (json_array_append(project->buckets, binding) < 0)
            return error_set(err, ENOMEM, "out of memory");
    }
    return 0;
}

static int project_read(struct project *project, struct error *err)
{
    CLEANUP_BUF struct buf text = BUF_INIT(FILE_BYTES_MAX);
    int result = read_whole(project->file, &text, err);
    if (result < 0)
        return result;
    struct source source = {.file = strrchr(project->file, '/') + 1, .text = text};
    CLEANUP_JSON json_t *root = jsonc_parse(buf_text(&text), text.size, source.file, err);
    if (!root)
        return -EINVAL;
    if (!json_is_object(root))
        return complain(&source, NULL, 0, err, "an object is expected");
    project->found = true;
    project->vars = json_incref(json_object_get(root, "vars"));
    const struct jsonc_step name[] = {{.name = "name"}};
    const struct jsonc_step script[] = {{.name = "main"}};
    char given[sizeof project->name];
    result = take_string(&source, root, name, 1, given, sizeof given, err);
    if (result == 0)
        result = take_string(&source, root, script, 1, project->main, sizeof project->main, err);
    if (result < 0)
        return result;
    if (given[0])
        memcpy(project->name, given, sizeof given);
    result = classes_load(project, &source, root, err);
    if (result == 0)
        result = networks_load(project, &source, root, err);
    if (result == 0)
        result = buckets_load(project, &source, root, err);
    return result < 0 ? result : mirrors_load(project, &source, root, err);
}

/* Finds the configuration file and sets dir, file and the name that the directory gives. */
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
        for (size_t i = 0; i < 2 && !project->file[0]; i++) {
            int length = snprintf(path, sizeof path, "%s/%s", project->dir, config_names[i]);
            if ((size_t)length < sizeof project->file && access(path, F_OK) == 0)
                memcpy(project->file, path, (size_t)length + 1);
        }
        snprintf(path, sizeof path, "%s/wrangler.toml", project->dir);
        if (!project->file[0] && access(path, F_OK) == 0)
            snprintf(project->file, sizeof project->file, "%.*s", PATH_MAX - 1, path);
    }
    const char *base = strrchr(project->dir, '/');
    snprintf(project->name, sizeof project->name, "%.127s", base && base[1] ? base + 1 : "sandpit");
    return 0;
}

int project_load(const char *dir, const char *config_file, struct project *project,
                 struct error *err)
{
    memset(project, 0, sizeof *project);
    int result = project_find(dir ? dir : ".", config_file, project, err);
    if (result < 0)
        return result;
    if (!project->file[0])
        return classes_builtin(project, err);
    const char *extension = strrchr(project->file, '.');
    if (extension && strcmp(extension, ".toml") == 0)
        return error_set(err, ENOTSUP, "%s is not read by this version; use wrangler.jsonc",
                         strrchr(project->file, '/') + 1);
    return project_read(project, err);
}

void project_free(struct project *project)
{
    for (size_t i = 0; i < project->class_count; i++)
        free(project->classes[i].dockerfile);
    free(project->classes);
    json_decref(project->vars);
    project->vars = NULL;
    json_decref(project->buckets);
    project->buckets = NULL;
    json_decref(project->git_mirrors);
    project->git_mirrors = NULL;
    project->classes = NULL;
    project->class_count = 0;
}
