/* The program under test, as a child. */
#ifndef SANDPIT_BENCH_PROGRAM_H
#define SANDPIT_BENCH_PROGRAM_H

#include <sys/types.h>

#include "base/error.h"

struct program {
    pid_t pid; /* 0 when it does not run */
    int port;
};

/* The word for --network, and those for --git-mirror and --events-file or NULL. */
extern const char *program_network, *program_mirror, *program_events;

/* Starts `sandpit dev` on a free port, without state, with its runtime directory below `scratch`.
 * Returns when it has told its URL. */
int program_start(struct program *program, const char *scratch, struct error *err);
/* SIGTERM, and SIGKILL when that does not help. Harmless when it does not run. */
void program_stop(struct program *program);
/* A line of /proc/PID/status, such as "VmRSS", in KiB. */
int program_memory(const struct program *program, const char *field, double *kib,
                   struct error *err);
/* Runs argv and waits; for helpers that are not measured. */
void program_run(const char *const *argv);

#endif
