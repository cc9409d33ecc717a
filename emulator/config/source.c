#include "config/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "config/jsonc.h"
#include "config/toml.h"

struct where where_name(struct where where, const char *name)
{
    if (where.count < WHERE_STEPS_MAX)
        where.steps[where.count++] = (struct place_step){.name = name};
    return where;
}

struct where where_index(struct where where, size_t index)
{
    if (where.count < WHERE_STEPS_MAX)
        where.steps[where.count++] = (struct place_step){.index = index};
    return where;
}

int source_text(const char *path, struct buf *to, struct error *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_errno(err, errno, "open '%s'", path);
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(err, EINVAL, "'%s' is not a file", path);
    for (;;) {
        char part[4096];
        ssize_t got = read(fd, part, sizeof part);
        if (got < 0)
            return error_errno(err, errno, "read '%s'", path);
        if (got == 0)
            return 0;
        int result = buf_add(to, part, (size_t)got);
        if (result == -ENOMEM)
            return error_errno(err, ENOMEM, "read '%s'", path);
        if (result < 0)
            return error_set(err, EFBIG, "'%s' is larger than %d bytes", path, SOURCE_BYTES_MAX);
    }
}

int source_read(struct source *source, const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(path, '.');
    *source = (struct source){.file = slash ? slash + 1 : path, .text = BUF_INIT(SOURCE_BYTES_MAX)};
    source->toml = dot && strcmp(dot, ".toml") == 0;
    int result = source_text(path, &source->text, err);
    if (result < 0)
        return result;
    json_t *(*parse)(const char *, size_t, const char *, struct error *) =
        source->toml ? toml_parse : jsonc_parse;
    source->root = parse(buf_text(&source->text), source->text.size, source->file, err);
    if (!source->root)
        return -EINVAL;
    if (!json_is_object(source->root))
        return source_complain(source, (struct where){0}, err, "an object is expected");
    return 0;
}

void source_free(struct source *source)
{
    json_decref(source->root);
    source->root = NULL;
    buf_free(&source->text);
}

struct place source_place(const struct source *source, struct where where)
{
    struct place place = {0, 0};
    const char *text = buf_text(&source->text);
    for (size_t known = where.count + 1; known-- > 0 && place.line == 0;)
        place = source->toml ? toml_locate(text, source->text.size, where.steps, known)
                             : jsonc_locate(text, source->text.size, where.steps, known);
    return place;
}

int source_complain(const struct source *source, struct where where, struct error *err,
                    const char *problem)
{
    struct place place = source_place(source, where);
    CLEANUP_BUF struct buf name = BUF_INIT(256);
    for (size_t i = 0; i < where.count; i++) {
        if (where.steps[i].name)
            buf_addf(&name, "%s%s", i > 0 ? "." : "", where.steps[i].name);
        else
            buf_addf(&name, "[%zu]", where.steps[i].index);
    }
    return error_set(err, EINVAL, "%s:%d:%d: %s%s%s", source->file, place.line, place.column,
                     buf_text(&name), where.count > 0 ? " " : "", problem);
}

int source_string(const struct source *source, const json_t *object, struct where where,
                  const char *name, char *to, size_t room, struct error *err)
{
    to[0] = '\0';
    const json_t *value = json_object_get(object, name);
    if (!value)
        return 0;
    where = where_name(where, name);
    if (!json_is_string(value))
        return source_complain(source, where, err, "must be a string");
    if (json_string_length(value) >= room || strlen(json_string_value(value)) >= room)
        return source_complain(source, where, err, "is too long");
    snprintf(to, room, "%s", json_string_value(value));
    return 0;
}
