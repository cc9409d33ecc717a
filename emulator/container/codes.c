#include "container/codes.h"

#include <stddef.h>

static const struct code_row rows[CODE_COUNT] = {[CODE_OK] = {"OK", 200, NULL, 200, NULL, NULL},
#define CODE(name, status, sdk_class, worker_status, worker_code, suggestion)                      \
    [CODE_##name] = {#name, status, sdk_class, worker_status, worker_code, suggestion},
                                                 CODES(CODE)
#undef CODE
};

const struct code_row *code_row(enum code code)
{
    if ((unsigned)code >= CODE_COUNT)
        code = CODE_UNKNOWN_ERROR;
    return &rows[code];
}
