/* Whether this machine can run sandboxes, and what to do when it cannot: one table of checks. Each
 * says in one line what it found and how to repair it. `sandpit doctor` runs them all, `dev` the
 * quick ones, and a container that did not start is explained by the one that matches.
 *
 * Paths are looked up below `root` and what a check tries goes through `tries`, so that a test can
 * show it any machine. */
#ifndef SANDPIT_CONFIG_MACHINE_H
#define SANDPIT_CONFIG_MACHINE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum machine_outcome { MACHINE_OK, MACHINE_FINDING, MACHINE_COULD_NOT_RUN };
enum machine_severity { MACHINE_NONE, MACHINE_INFO, MACHINE_WARNING, MACHINE_ERROR };

struct machine_result {
    enum machine_outcome outcome;
    enum machine_severity severity; /* of a finding */
    char reason[320];               /* one line */
    char fix[320]; /* a command line or a setting; "" when there is nothing to do */
};

struct machine;

/* What is really tried. 0 or a negative errno, unless said otherwise; each leaves nothing behind.
 */
struct machine_tries {
    /* A user namespace with a mount in it. */
    int (*user_namespace)(const struct machine *machine);
    /* An overlay over /usr, as this user's containers mount it. */
    int (*overlay)(const struct machine *machine);
    /* An overlay over an id-mapped mount of /usr; needs root. */
    int (*idmapped)(const struct machine *machine);
    /* The first system call that is missing, or NULL. */
    const char *(*missing_call)(const struct machine *machine);
    /* Whether the port can be bound on loopback: 0, -EADDRINUSE … */
    int (*bind_port)(const struct machine *machine, uint16_t port);
    /* The address of a name as text; 0, or -1 with the resolver's words in `to`. */
    int (*resolve)(const struct machine *machine, const char *name, char *to, size_t size);
};

struct machine {
    const char *root; /* put in front of absolute paths; "" */
    const char *path; /* where programs are; as $PATH */
    uid_t uid;
    bool quick;            /* try only when a setting looks wrong */
    uint16_t port;         /* that the emulator would take */
    const char *scratch;   /* an empty directory for the checks; NULL: none that needs it can run */
    const char *state_dir; /* absolute; NULL = none */
    /* The directory where emulators are announced, checked but not made: -ENOENT when it is not
     * there yet. */
    int (*locator)(char to[PATH_MAX], struct error *err);
    /* Tools of the emulated image that are not here, as "a, b"; "" = none. */
    int (*missing_tools)(const char *scratch, char *to, size_t size, struct error *err);
    const struct machine_tries *tries;
};

enum {
    MACHINE_QUICK = 1,   /* costs well under a millisecond with .quick */
    MACHINE_SCRATCH = 2, /* needs a scratch directory */
};

struct machine_check {
    const char *id;    /* also the heading in docs/doctor.md */
    const char *title; /* "user namespaces" */
    void (*run)(const struct machine *machine, struct machine_result *result);
    unsigned flags;
};

extern const struct machine_check machine_checks[];
extern const size_t machine_check_count;
extern const struct machine_tries machine_real_tries;

/* This machine as it is; port, scratch, state_dir and the callbacks are the caller's matter. */
struct machine machine_here(void);

/* Runs checks side by side, each in a process of its own, which is killed when `deadline_ms` have
 * passed: that check could not run. Blocks until all are done. */
void machine_run(const struct machine *machine, const struct machine_check *checks, size_t count,
                 struct machine_result *results, int deadline_ms);
/* The row of an id, or NULL. */
const struct machine_check *machine_check(const char *id);
/* Copies of the checks that may explain why a container did not start, by the error's text, the
 * likeliest first; returns how many. */
size_t machine_checks_for(const char *error, struct machine_check *to, size_t max);

#endif
