/* What a container still does or offers, for the report at the end of a test run. */
#include "container/process.h"

/* The command may hold any bytes that came as JSON, so it is UTF-8. */
static json_t *running(const struct container *container)
{
    json_t *list = json_array();
    for (const struct process *one = container->processes; one; one = one->next) {
        if (!process_is_over(one))
            json_array_append_new(list,
                                  json_pack("{s:s, s:s}", "id", one->id, "command", one->command));
    }
    return list;
}

json_t *container_leftovers(const struct container *container)
{
    json_t *ports = json_array(), *entry;
    size_t index;
    json_array_foreach(container->exposed, index, entry)
        json_array_append(ports, json_object_get(entry, "port"));
    return json_pack("{s:o, s:o}", "processes", running(container), "ports", ports);
}
