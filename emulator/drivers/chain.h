/* The start-up chain: from the emulator to a running bubblewrap, in one child process.
 *
 * The child is PID 1 of a pid namespace of its own, which encloses the container's. That is what
 * makes an end exact: when it dies, in whatever state of the start, the kernel kills everything
 * below it and reports its death only when nothing is left. Its mounts are in a private mount
 * namespace and vanish with it. It does not allocate, so it may be cloned from any state. */
#ifndef SANDPIT_DRIVERS_CHAIN_H
#define SANDPIT_DRIVERS_CHAIN_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* Directories on the tmpfs of an instance: the root that bubblewrap binds on /, and the upper and
 * work directories of the overlays in it. */
#define CHAIN_ROOT "root"
#define CHAIN_UPPER "u"
#define CHAIN_WORK "w"

enum chain_kind {
    CHAIN_DIR,      /* mode */
    CHAIN_LINK,     /* text: the target */
    CHAIN_WHITEOUT, /* hides the name of the lower layer */
    CHAIN_OVERLAY,  /* text: mount options */
    CHAIN_BIND,     /* text: the source; read-only */
};
enum { CHAIN_PYTHON = 1, CHAIN_LEAN = 2, CHAIN_BOTH = 3 };

/* One thing to do, on a path below the tmpfs. */
struct chain_step {
    enum chain_kind kind;
    unsigned when; /* CHAIN_PYTHON … */
    mode_t mode;
    char *path, *text;
};

/* A small file that differs between instances. */
struct chain_file {
    const char *path, *text;
};

struct chain {
    const char *run_dir; /* absolute; the tmpfs goes on its "mnt" */
    const char *tmpfs;   /* mount options */
    const struct chain_step *steps;
    size_t step_count;
    unsigned when;
    const struct chain_file *files; /* written before the overlays are mounted */
    size_t file_count;
    const char *program; /* bubblewrap */
    char *const *argv;
    char *const *env;
    int null, errors; /* standard input and output; standard error */
    int socket;       /* becomes RT_SOCKET_FD */
    int runtime;      /* becomes CHAIN_RUNTIME_FD */
    int owner;        /* a pidfd of this process: the child must not outlive it */
};
enum { CHAIN_RUNTIME_FD = 4 };

/* Returns the pid of the child. What goes wrong in it is one line on `errors` and exit code 127. */
int chain_clone(const struct chain *chain, struct error *err);

/* bubblewrap before 0.12 follows symbolic links of the root while it mounts (CVE-2026-87766). Makes
 * sure that what it mounts on, and what we promise, are real directories of this root: anything
 * else under such a name is replaced. 0 or a negative errno. */
int chain_mount_points(int root);

#endif
