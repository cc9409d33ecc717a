#include "git/mirror.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/url.h"

int git_mirrors_add(struct git_mirrors *mirrors, const char *prefix, const char *dir,
                    const char *base, struct error *err)
{
    struct git_mirror *items = reallocarray(mirrors->items, mirrors->count + 1, sizeof *items);
    if (!items)
        return error_errno(err, ENOMEM, "mirror");
    mirrors->items = items;
    struct git_mirror *item = &items[mirrors->count];
    *item = (struct git_mirror){.prefix = strdup(prefix)};
    if (asprintf(&item->dir, "%s%s%s", *dir == '/' ? "" : base, *dir == '/' ? "" : "/", dir) < 0)
        item->dir = NULL;
    if (!item->prefix || !item->dir) {
        free(item->prefix);
        free(item->dir);
        return error_errno(err, ENOMEM, "mirror");
    }
    mirrors->count++;
    return 0;
}

int git_mirrors_parse(struct git_mirrors *mirrors, const char *text, struct error *err)
{
    char base[PATH_MAX];
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return error_set(err, EINVAL,
                         "--git-mirror takes PREFIX=DIR, such as https://github.com/=mirrors, "
                         "not '%.200s'",
                         text);
    if (!getcwd(base, sizeof base))
        return error_errno(err, errno, "current directory");
    CLEANUP_FREE char *prefix = strndup(text, (size_t)(equals - text));
    return prefix ? git_mirrors_add(mirrors, prefix, equals + 1, base, err)
                  : error_errno(err, ENOMEM, "mirror");
}

int git_mirrors_store(struct git_mirrors *mirrors, struct error *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length = 0;
    if (data && *data == '/')
        length = asprintf(&mirrors->store, "%s/sandpit/git", data);
    else if (home && *home == '/')
        length = asprintf(&mirrors->store, "%s/.local/share/sandpit/git", home);
    if (length >= 0)
        return 0;
    mirrors->store = NULL;
    return error_errno(err, ENOMEM, "mirror");
}

void git_mirrors_free(struct git_mirrors *mirrors)
{
    for (size_t i = 0; i < mirrors->count; i++) {
        free(mirrors->items[i].prefix);
        free(mirrors->items[i].dir);
    }
    free(mirrors->items);
    free(mirrors->store);
    *mirrors = (struct git_mirrors){0};
}

static const struct git_mirror *longest(const struct git_mirrors *mirrors, const char *url)
{
    const struct git_mirror *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < mirrors->count; i++) {
        size_t length = strlen(mirrors->items[i].prefix);
        if (length > most && strncasecmp(url, mirrors->items[i].prefix, length) == 0) {
            best = &mirrors->items[i];
            most = length;
        }
    }
    return best;
}

/* What follows the prefix comes from outside: it may name nothing but what is below the directory.
 */
static bool below(const char *rest, char *to, size_t size)
{
    size_t used = 0;
    rest += strspn(rest, "/");
    size_t end = strcspn(rest, "?#");
    for (size_t at = 0; at < end;) {
        size_t length = strcspn(rest + at, "/");
        if (at + length > end)
            length = end - at;
        if (rest[at] == '.' || length > 255 || used + length + 2 > size)
            return false;
        if (length > 0)
            used += (size_t)snprintf(to + used, size - used, "%s%.*s", used ? "/" : "", (int)length,
                                     rest + at);
        at += length + 1;
    }
    if (used > 4 && strcmp(to + used - 4, ".git") == 0)
        to[used - 4] = '\0';
    return used > 0;
}

/* The place without ".git", or false when the URL cannot have one. */
static bool place_of(const struct git_mirrors *mirrors, const char *url, char path[PATH_MAX],
                     bool *mapped)
{
    char rest[GIT_URL_MAX + 1];
    const struct git_mirror *mirror = longest(mirrors, url);
    const char *dir = mirror ? mirror->dir : mirrors->store;
    *mapped = mirror != NULL;
    if (!dir || !(mirror ? below(url + strlen(mirror->prefix), rest, sizeof rest)
                         : git_url_place(url, rest, sizeof rest)))
        return false;
    return snprintf(path, PATH_MAX, "%s/%s", dir, rest) < PATH_MAX - 8;
}

static bool is_repository(const char *path)
{
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/HEAD", path);
    if (access(file, F_OK) == 0)
        return true;
    snprintf(file, sizeof file, "%s/.git", path);
    return access(file, F_OK) == 0;
}

enum git_mirror_state git_mirror_find(const struct git_mirrors *mirrors, const char *url,
                                      char path[PATH_MAX])
{
    bool mapped;
    if (git_url_kind(url) != GIT_URL_REMOTE)
        return GIT_MIRROR_NONE;
    if (!place_of(mirrors, url, path, &mapped)) {
        path[0] = '\0';
        return mapped ? GIT_MIRROR_LACKING : GIT_MIRROR_NONE;
    }
    size_t length = strlen(path);
    memcpy(path + length, ".git", 5);
    if (is_repository(path))
        return GIT_MIRROR_THERE;
    path[length] = '\0';
    if (is_repository(path))
        return GIT_MIRROR_THERE;
    return mapped ? GIT_MIRROR_LACKING : GIT_MIRROR_NONE;
}

int git_mirror_place(const struct git_mirrors *mirrors, const char *url, char path[PATH_MAX],
                     struct error *err)
{
    bool mapped;
    if (git_url_kind(url) != GIT_URL_REMOTE)
        return error_set(err, EINVAL, "'%.200s' is not the URL of a server", url);
    if (git_mirror_find(mirrors, url, path) == GIT_MIRROR_THERE)
        return 0;
    if (!place_of(mirrors, url, path, &mapped))
        return mirrors->store || mapped
                   ? error_set(err, EINVAL, "a mirror of this URL would have no plain path")
                   : error_set(err, ENOENT, "HOME is not set: name a directory with --git-mirror");
    memcpy(path + strlen(path), ".git", 5);
    return 0;
}
