#include "container/environment.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { VALUE_MAX = 1 << 17 };

void environment_free(struct environment *env)
{
    for (size_t i = 0; i < env->count; i++)
        free(env->list[i]);
    free(env->list);
    *env = (struct environment){0};
}

/* The index of the name, or count. */
static size_t find(const struct environment *env, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->list[i], name, length) == 0 && env->list[i][length] == '=')
            return i;
    }
    return env->count;
}

static void remove_at(struct environment *env, size_t at)
{
    if (at == env->count)
        return;
    free(env->list[at]);
    memmove(env->list + at, env->list + at + 1, (env->count - at) * sizeof(char *));
    env->count--;
}

/* Takes the entry. */
static int put_at(struct environment *env, size_t at, char *entry)
{
    if (!entry)
        return -ENOMEM;
    if (at < env->count) {
        free(env->list[at]);
        env->list[at] = entry;
        return 0;
    }
    char **list = realloc(env->list, (env->count + 2) * sizeof(char *));
    if (!list) {
        free(entry);
        return -ENOMEM;
    }
    env->list = list;
    list[env->count++] = entry;
    list[env->count] = NULL;
    return 0;
}

int environment_set(struct environment *env, const char *name, const char *value)
{
    size_t at = find(env, name);
    if (!value) {
        remove_at(env, at);
        return 0;
    }
    char *entry = NULL;
    if (asprintf(&entry, "%s=%s", name, value) < 0)
        entry = NULL;
    return put_at(env, at, entry);
}

const char *environment_get(const struct environment *env, const char *name)
{
    size_t at = find(env, name);
    return at < env->count ? env->list[at] + strlen(name) + 1 : NULL;
}

int environment_add_list(struct environment *env, const char *const *list)
{
    for (; list && *list; list++) {
        const char *equals = strchr(*list, '=');
        if (!equals)
            continue;
        char *name = strndup(*list, (size_t)(equals - *list));
        int result = name ? environment_set(env, name, equals + 1) : -ENOMEM;
        free(name);
        if (result < 0)
            return result;
    }
    return 0;
}

static bool can_carry(const char *name)
{
    return *name && !strchr(name, '=');
}

int environment_add_json(struct environment *env, const json_t *object, bool unset)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        const char *text = json_string_value(value);
        if (!can_carry(name) || (!text && !(unset && json_is_null(value))))
            continue;
        int result = environment_set(env, name, text);
        if (result < 0)
            return result;
    }
    return 0;
}

/* The text with `path` in the place of each ${PATH}. */
static int put_path_in(const char *path, const char *text, struct buf *to)
{
    static const char mark[] = "${PATH}";
    for (const char *at; (at = strstr(text, mark)); text = at + strlen(mark)) {
        buf_add(to, text, (size_t)(at - text));
        buf_adds(to, path);
    }
    return buf_adds(to, text);
}

int environment_add_image(struct environment *env, const json_t *object)
{
    const char *name;
    json_t *value;
    const char *before = environment_get(env, "PATH");
    CLEANUP_FREE char *path = strdup(before ? before : "");
    if (!path)
        return -ENOMEM;
    json_object_foreach((json_t *)object, name, value)
    {
        CLEANUP_BUF struct buf text = BUF_INIT(VALUE_MAX);
        int result = json_is_string(value) && can_carry(name)
                         ? put_path_in(path, json_string_value(value), &text)
                         : -EINVAL;
        if (result == 0)
            result = environment_set(env, name, buf_text(&text));
        if (result == -ENOMEM)
            return result;
    }
    return 0;
}

bool environment_name_ok(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    }
    return true;
}
