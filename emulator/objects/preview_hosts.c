/* The domains below which previews are found by their Host, besides localhost. They stay until a
 * reset, so that a URL which is not valid any more is told so. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "objects/internal.h"

enum { HOSTS_MAX = 256 };
#define HOSTS_KEY "previewHosts"

bool objects_preview_host(const struct objects *objects, const char *name, size_t size)
{
    for (size_t i = 0; i < objects->hosts.count; i++) {
        if (strlen(objects->hosts.names[i]) == size &&
            strncasecmp(objects->hosts.names[i], name, size) == 0)
            return true;
    }
    return false;
}

static int remember(struct objects *objects, const char *name)
{
    struct preview_hosts *hosts = &objects->hosts;
    if (objects_preview_host(objects, name, strlen(name)))
        return 0;
    if (hosts->count >= HOSTS_MAX)
        return -ENOSPC;
    char **names = reallocarray(hosts->names, hosts->count + 1, sizeof *names);
    if (!names)
        return -ENOMEM;
    hosts->names = names;
    names[hosts->count] = strdup(name);
    if (!names[hosts->count])
        return -ENOMEM;
    hosts->count++;
    return 0;
}

int preview_hosts_add(struct object *object, const char *name, struct error *err)
{
    struct objects *objects = object->objects;
    CLEANUP_JSON json_t *stored = store_get(objects->store, object->row, HOSTS_KEY, err);
    if (!stored && err->code)
        return -err->code;
    size_t index;
    json_t *one;
    json_array_foreach(stored, index, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return remember(objects, name);
    }
    if (!json_is_array(stored)) {
        json_decref(stored);
        stored = json_array();
    }
    if (json_array_append_new(stored, json_string(name)) < 0)
        return error_errno(err, ENOMEM, "previews");
    int result = remember(objects, name);
    if (result < 0)
        return error_errno(err, -result, "previews");
    return store_put(objects->store, object->row, HOSTS_KEY, stored, err);
}

static void load_one(void *arg, const json_t *value)
{
    size_t index;
    json_t *name;
    json_array_foreach(value, index, name)
    {
        if (json_is_string(name))
            remember(arg, json_string_value(name));
    }
}

int preview_hosts_load(struct objects *objects, struct error *err)
{
    return store_each_value(objects->store, HOSTS_KEY, load_one, objects, err);
}

void preview_hosts_free(struct objects *objects)
{
    for (size_t i = 0; i < objects->hosts.count; i++)
        free(objects->hosts.names[i]);
    free(objects->hosts.names);
    objects->hosts = (struct preview_hosts){0};
}
