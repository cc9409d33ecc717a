#include "config/npm.h"

#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define PACKAGE "@cloudflare/sandbox"

/* Reading a larger lock file would be felt at every start. */
enum { FILE_BYTES_MAX = 4 * 1024 * 1024 };

static json_t *read_json(const char *dir, const char *name)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
        status.st_size > FILE_BYTES_MAX)
        return NULL;
    return json_loadfd(fd, 0, NULL);
}

static const char *text_of(const json_t *object, const char *first, const char *second)
{
    return json_string_value(json_object_get(json_object_get(object, first), second));
}

static const char *installed(const json_t *json, const char *package)
{
    return json_string_value(json_object_get(json, "version"));
}

/* Version 2 and 3 of the format, then version 1. */
static const char *locked(const json_t *lock, const char *package)
{
    char name[96];
    snprintf(name, sizeof name, "node_modules/%s", package);
    const char *version = text_of(json_object_get(lock, "packages"), name, "version");
    return version ? version : text_of(json_object_get(lock, "dependencies"), package, "version");
}

static const char *wanted(const json_t *json, const char *package)
{
    const char *range = text_of(json, "dependencies", package);
    return range ? range : text_of(json, "devDependencies", package);
}

static const struct source {
    const char *before, *after; /* the package stands in between, when there is something after */
    const char *(*version)(const json_t *json, const char *package);
} sources[] = {
    {"node_modules/", "/package.json", installed},
    {"package-lock.json", NULL, locked},
    {"package.json", NULL, wanted},
};

bool npm_is_version(const char *text)
{
    int parts = 0;
    for (;; text++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0)
            return false;
        parts++;
        text += digits;
        if (*text != '.')
            break;
    }
    return *text == '\0' && (parts == 2 || parts == 3);
}

/* "^0.7.4" and "~0.7.4" too; other ranges say too little. */
static bool take(const char *text, struct npm_sdk *sdk)
{
    sdk->exact = *text != '^' && *text != '~';
    text += !sdk->exact;
    if (!npm_is_version(text) || strlen(text) >= sizeof sdk->version)
        return false;
    memcpy(sdk->version, text, strlen(text) + 1);
    return true;
}

bool npm_find(const char *project_dir, const char *package, struct npm_sdk *to)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const struct source *source = &sources[i];
        char file[sizeof to->where];
        snprintf(file, sizeof file, "%s%s%s", source->before, source->after ? package : "",
                 source->after ? source->after : "");
        CLEANUP_JSON json_t *json = read_json(project_dir, file);
        const char *version = json ? source->version(json, package) : NULL;
        if (!version || !take(version, to))
            continue;
        memcpy(to->where, file, sizeof file);
        return true;
    }
    return false;
}

bool npm_find_sdk(const char *project_dir, struct npm_sdk *sdk)
{
    return npm_find(project_dir, PACKAGE, sdk);
}

/* The numbers of a version; -1 where it has no part. */
static void parts_of(const char *version, long parts[3])
{
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        parts[i] = isdigit((unsigned char)*version) ? strtol(version, &end, 10) : -1;
        if (end)
            version = *end == '.' ? end + 1 : end;
    }
}

bool npm_fits(const struct npm_sdk *sdk, const char *image_version)
{
    long own[3], image[3];
    parts_of(sdk->version, own);
    parts_of(image_version, image);
    for (int i = 0; i < 3; i++) {
        bool newer = i == 2 && !sdk->exact && image[i] > own[i];
        if (own[i] >= 0 && image[i] >= 0 && own[i] != image[i] && !newer)
            return false;
    }
    return true;
}

bool npm_before(const char *version, const char *other)
{
    long own[3], theirs[3];
    parts_of(version, own);
    parts_of(other, theirs);
    for (int i = 0; i < 3; i++) {
        if (own[i] != theirs[i])
            return own[i] < theirs[i];
    }
    return false;
}

/* ^4.20.0 takes all of 4, and ^0.7.4 all of 0.7. */
enum npm_order npm_order(const struct npm_sdk *found, const char *other)
{
    long own[3], theirs[3];
    if (!npm_before(found->version, other))
        return NPM_NOT_BEFORE;
    parts_of(found->version, own);
    parts_of(other, theirs);
    bool same_line = own[0] == theirs[0] && (own[0] > 0 || own[1] == theirs[1]);
    return found->exact || !same_line ? NPM_BEFORE : NPM_OPEN;
}
