/* The classes, which may be read again while containers run: a class of the same name is the same
 * class, and an object takes over what changed when its next container starts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects/internal.h"

const struct object_class *objects_class(const struct objects *objects, const char *name)
{
    for (size_t i = 0; i < objects->config.class_count; i++) {
        if (!name || strcmp(objects->config.classes[i].name, name) == 0)
            return &objects->config.classes[i];
    }
    return NULL;
}

bool class_is(const struct object *object, const struct object_class *class)
{
    return object->class == class || strcmp(object->class->name, class->name) == 0;
}

/* One that the project does not have any more stays what it was. */
void class_adopt(struct object *object)
{
    const struct object_class *class = objects_class(object->objects, object->class->name);
    if (class)
        object->class = class;
}

struct usage *class_usage(const struct objects *objects, const struct object_class *class)
{
    struct usage *usage = objects->usage;
    while (usage && strcmp(usage->class_name, class->name) != 0)
        usage = usage->next;
    return usage;
}

void classes_free(struct objects *objects)
{
    while (objects->usage) {
        struct usage *usage = objects->usage;
        objects->usage = usage->next;
        free(usage);
    }
}

int objects_set_classes(struct objects *objects, const struct object_class *classes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (class_usage(objects, &classes[i]))
            continue;
        struct usage *usage = calloc(1, sizeof *usage);
        if (!usage)
            return -ENOMEM;
        snprintf(usage->class_name, sizeof usage->class_name, "%s", classes[i].name);
        usage->next = objects->usage;
        objects->usage = usage;
    }
    objects->config.classes = classes;
    objects->config.class_count = count;
    json_object_clear(objects->expose_told);
    for (struct object *object = objects->first; object; object = object->next) {
        if (!object_has_container(object))
            class_adopt(object);
    }
    return 0;
}
