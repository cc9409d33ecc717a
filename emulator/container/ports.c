/* The registry of ports that containers of older SDKs had (before 0.11).
 * Nothing but the routes of this file and /proxy/{port} looks at it. */
#include <string.h>

#include "base/cleanup.h"
#include "container/internal.h"

enum { CONTROL_PORT = 3000, PORTS_MAX = 1000 };

/* 0 after an error was answered. */
static int read_port(struct call *call)
{
    const json_t *value = json_object_get(call->args, "port");
    double port = json_number_value(value);
    if (json_is_string(value) && strlen(json_string_value(value)) <= 5 &&
        strspn(json_string_value(value), "0123456789") == strlen(json_string_value(value)))
        port = strtod(json_string_value(value), NULL);
    bool whole = port >= 1 && port <= 65535 && port == (double)(int)port;
    if (whole && port != CONTROL_PORT)
        return (int)port;
    const char *reason = whole ? "Port 3000 is reserved" : "Port must be between 1 and 65535";
    CLEANUP_FREE char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    call_error(call, CODE_INVALID_PORT_NUMBER, "port.expose",
               json_pack("{s:O?, s:s}", "port", value, "reason", reason),
               "Invalid port number: %.40s. %s", shown ? shown : "null", reason);
    return 0;
}

static json_t *find(const struct container *container, int port, size_t *where)
{
    json_t *entry;
    size_t index;
    json_array_foreach(container->exposed, index, entry)
    {
        *where = index;
        if (json_integer_value(json_object_get(entry, "port")) == port)
            return entry;
    }
    return NULL;
}

bool container_has_port(const struct container *container, int port)
{
    size_t index;
    return find(container, port, &index) != NULL;
}

static json_t *port_url(int port)
{
    char url[40];
    snprintf(url, sizeof url, "http://localhost:%d", port);
    return json_string(url);
}

void op_expose_port(struct container *container, struct call *call)
{
    const char *name = NULL;
    size_t index;
    if (!arg_text(call, "name", false, &name))
        return;
    int port = read_port(call);
    if (!port)
        return;
    const json_t *there = find(container, port, &index);
    if (there || json_array_size(container->exposed) >= PORTS_MAX) {
        call_error(
            call, CODE_PORT_ALREADY_EXPOSED, "port.expose",
            json_pack("{s:i, s:O?}", "port", port, "portName", json_object_get(there, "name")),
            there ? "Port %d is already exposed" : "Too many ports are exposed to add %d", port);
        return;
    }
    if (!container->exposed)
        container->exposed = json_array();
    json_array_append_new(container->exposed, json_pack("{s:i, s:s?}", "port", port, "name", name));
    container_note(container, "port.exposed", json_pack("{s:i}", "port", port));
    call_result(call, json_pack("{s:b, s:i, s:o, s:o}", "success", 1, "port", port, "url",
                                port_url(port), "timestamp", clock_timestamp(container->clock)));
}

void op_exposed_ports(struct container *container, struct call *call)
{
    json_t *ports = json_array(), *entry;
    size_t index;
    json_array_foreach(container->exposed, index, entry)
    {
        int port = (int)json_integer_value(json_object_get(entry, "port"));
        json_array_append_new(ports, json_pack("{s:i, s:o, s:s}", "port", port, "url",
                                               port_url(port), "status", "active"));
    }
    call_result(call, json_pack("{s:b, s:o, s:o}", "success", 1, "ports", ports, "timestamp",
                                clock_timestamp(container->clock)));
}

void op_unexpose_port(struct container *container, struct call *call)
{
    size_t index;
    int port = read_port(call);
    if (!port)
        return;
    if (!find(container, port, &index)) {
        call_error(call, CODE_PORT_NOT_EXPOSED, "port.unexpose", json_pack("{s:i}", "port", port),
                   "Port %d is not exposed", port);
        return;
    }
    json_array_remove(container->exposed, index);
    container_note(container, "port.unexposed", json_pack("{s:i}", "port", port));
    call_result(call, json_pack("{s:b, s:i, s:o}", "success", 1, "port", port, "timestamp",
                                clock_timestamp(container->clock)));
}
