/* What an object knows about its container's network: whether a first command still waits for it,
 * and how to explain a command that failed for lack of it. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "drivers/network.h"
#include "objects/internal.h"

/* How much of a command's standard error is looked at, from its end. */
enum { LOOK_BYTES = 16384 };

/* What tools say when there is no way out: curl, git, wget, apt, pip, node, Go and the C library.
 */
static const char *const complaints[] = {
    "could not resolve host",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "unable to resolve host address",
    "network is unreachable",
    "getaddrinfo eai_again",
    "getaddrinfo enotfound",
    "enetunreach",
};

/* What starts nothing that could want a network. */
static const char *const quiet[] = {
    "ping",       "version", "sessionCreate", "sessionList", "sessionDelete", "read",
    "readStream", "write",   "delete",        "rename",      "move",          "mkdir",
    "listFiles",  "exists",  "readRaw",       "writeStream",
};

bool egress_awaited(const struct object *object, const struct op *op)
{
    if (object->egress != EGRESS_STARTING)
        return false;
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        if (strcmp(quiet[i], op->name) == 0)
            return false;
    }
    return true;
}

void egress_begin(struct object *object)
{
    bool none = object->class->network == NETWORK_NONE;
    object->egress = none ? EGRESS_NONE : EGRESS_STARTING;
    snprintf(object->egress_why, sizeof object->egress_why, "%s", object->class->network_why);
}

void egress_told(struct object *object, enum network_state state, const char *why)
{
    const char *name = network_name(object->class->network);
    switch (state) {
    case NETWORK_UP:
        object->egress = EGRESS_UP;
        return;
    case NETWORK_LATE:
        object->egress = EGRESS_LATE;
        return;
    case NETWORK_FAILED:
        object->egress = EGRESS_FAILED;
        snprintf(object->egress_why, sizeof object->egress_why, "%s", why ? why : "it failed");
        log_warn("sandbox %s goes on without a network: %s", object->id, object->egress_why);
        object_note(object, "network.failed", object->egress_why,
                    json_pack("{s:s}", "network", name));
        return;
    }
}

const char *egress_name(const struct object *object)
{
    return object->container && object->egress == EGRESS_FAILED
               ? "failed"
               : network_name(object->class->network);
}

static bool complains(const json_t *text)
{
    const char *said = json_string_value(text);
    size_t size = json_string_length(text);
    if (!said)
        return false;
    said += size > LOOK_BYTES ? size - LOOK_BYTES : 0;
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        if (strcasestr(said, complaints[i]))
            return true;
    }
    return false;
}

void egress_explain(struct object *object, struct answer *answer)
{
    bool without = object->egress == EGRESS_NONE || object->egress == EGRESS_FAILED;
    const json_t *status = json_object_get(answer->body, "exitCode");
    if (!without || answer->hint || json_integer_value(status) == 0 ||
        !complains(json_object_get(answer->body, "stderr")))
        return;
    if (asprintf(&answer->hint, "this sandbox has no network: %s", object->egress_why) < 0)
        answer->hint = NULL;
    json_t *command = json_object_get(answer->body, "command");
    object_note(object, "network.refused", object->egress_why,
                json_pack("{s:s, s:O*}", "network", egress_name(object), "command", command));
}
