/* A list of "NAME=value" strings for a process. */
#ifndef SANDPIT_CONTAINER_ENVIRONMENT_H
#define SANDPIT_CONTAINER_ENVIRONMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct environment {
    char **list; /* NULL-terminated; NULL while empty */
    size_t count;
};
#define CLEANUP_ENVIRONMENT __attribute__((cleanup(environment_free)))

void environment_free(struct environment *env);
/* Replaces or adds; a NULL value removes. 0 or -ENOMEM. */
int environment_set(struct environment *env, const char *name, const char *value);
const char *environment_get(const struct environment *env, const char *name);
int environment_add_list(struct environment *env, const char *const *list);
/* Adds the strings of an object. Nulls remove the name when `unset`, else they are skipped, as are
 * other values and names that no environment can carry. */
int environment_add_json(struct environment *env, const json_t *object, bool unset);
/* Adds what an image sets; ${PATH} in a value is the PATH from before. */
int environment_add_image(struct environment *env, const json_t *object);
/* Letters, digits and underscores, not starting with a digit: what `export` takes. */
bool environment_name_ok(const char *name);

static inline const char *const *environment_list(const struct environment *env)
{
    static const char *const none[] = {NULL};
    return env->list ? (const char *const *)env->list : none;
}

#endif
