/* A program run outside every session: `bash -c` of a sessionless execute, `file`, `mv`. */
#ifndef SANDPIT_CONTAINER_RUN_H
#define SANDPIT_CONTAINER_RUN_H

#include "container/internal.h"
#include "container/output.h"

struct run {
    struct container *container;
    struct proc proc;
    struct output out[2]; /* standard output and standard error */
    size_t output_max;
    struct timer timer;
    int64_t timeout_ms; /* 0 = none; then SIGTERM to the group, 5 s, SIGKILL, 1 s */
    int stage;          /* of the timeout: 0 none passed, 1 told to end, 2 killed */
    /* It has ended (or never started: a negative errno) and its output is read. The run may be
     * closed or freed here. */
    void (*done)(struct run *run, int error, const struct rt_exit *how);
    void *arg;
    const char *argv[6]; /* kept while run_start_beside() looks up the directory */
};

/* `env` NULL: the container's. */
void run_start(struct run *run, struct container *container, const char *const *argv,
               const char *cwd, const char *const *env);
/* In the working directory of the process base_pid (0: /workspace). argv has at most five entries,
 * whose text stays valid until done(). */
void run_start_beside(struct run *run, struct container *container, const char *const *argv,
                      int base_pid);
/* Lets go of the process, which may still run, and frees the output. */
void run_close(struct run *run);
static inline bool run_timed_out(const struct run *run)
{
    return run->stage > 0;
}

#endif
