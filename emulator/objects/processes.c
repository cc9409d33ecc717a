/* getProcess: the SDK's answer for a process that there is not is null, not an error. */
#include <stdlib.h>

#include "objects/internal.h"

struct lookup {
    struct call call;
    struct call *outer;
};

static void looked_up(struct call *call, struct answer *answer)
{
    struct lookup *lookup = call->arg;
    struct call *outer = lookup->outer;
    free(lookup);
    if (answer->code == CODE_PROCESS_NOT_FOUND)
        call_result(outer, json_object());
    else
        outer->done(outer, answer);
}

void process_get(struct object *object, struct call *call)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup) {
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL, "out of memory");
        return;
    }
    lookup->outer = call;
    lookup->call = (struct call){.args = call->args, .done = looked_up, .arg = lookup};
    object_call(object, container_op("processGet"), &lookup->call);
}
