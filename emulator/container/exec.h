/* What the two forms of execute share. */
#ifndef SANDPIT_CONTAINER_EXEC_H
#define SANDPIT_CONTAINER_EXEC_H

#include "container/internal.h"
#include "container/output.h"

#define EXEC_TOO_LARGE "output is larger than 64 MiB; redirect it to a file or stream it"

struct exec_args {
    const char *command;
    const char *session_id; /* NULL = not given */
    const char *cwd;
    const json_t *env;
    int64_t timeout_ms;
};

/* False after an error was answered. */
bool exec_args_read(struct call *call, struct exec_args *args);
/* Starts it in the background: the call gets its id and pid, or with `stream` its events. */
void process_start(struct container *container, struct call *call, const struct exec_args *args,
                   bool stream);

/* The result, with the output; NULL when that is too large. */
json_t *exec_body(const struct job *job, int exit_code, struct output *out, struct output *err,
                  bool session);
void exec_sessionless(struct container *container, struct call *call, const struct exec_args *args);

#endif
