/* The start-up chain: from the emulator to a running bubblewrap, in one child process.
 *
 * The child is PID 1 of a pid namespace of its own, which encloses the container's. That is what
 * makes an end exact: when it dies, in whatever state of the start, the kernel kills everything
 * below it and reports its death only when nothing is left. Its mounts are in a private mount
 * namespace and vanish with it. It does not allocate, so it may be cloned from any state.
 *
 * bubblewrap does not see this host: the chain makes the instance's tmpfs the root of its mount
 * namespace before it executes it. There are the programs of this host (read-only), its devices,
 * and the container's root below /root. Whatever a link in that root says, it leads to nothing
 * else. */
#ifndef SANDPIT_DRIVERS_CHAIN_H
#define SANDPIT_DRIVERS_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "drivers/userns.h"

/* Directories on the tmpfs of an instance: the root that bubblewrap binds on /, and the lower,
 * upper and work directories of the overlays in it. */
#define CHAIN_ROOT "root"
#define CHAIN_LOWERS "l"
#define CHAIN_UPPER "u"
#define CHAIN_WORK "w"

enum chain_kind {
    CHAIN_DIR,      /* mode */
    CHAIN_LINK,     /* text: the target */
    CHAIN_WHITEOUT, /* hides the name of the lower layer */
    CHAIN_COPY,     /* text: the source, a file. Only where there are no overlays */
    CHAIN_LOWER,    /* text: the source, a tree of this host */
    CHAIN_OWN,      /* text: the source, a tree that already belongs to the container's root */
    CHAIN_OVERLAY,  /* text: the name of its three directories; else the lower one, read-only */
    CHAIN_MERGED,   /* as CHAIN_OVERLAY; else nothing, for it has been copied */
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

/* A small file of /etc that differs between instances. */
struct chain_file {
    const char *name, *text;
};

struct chain {
    const struct userns *userns;
    bool overlays;       /* else trees of this host are read-only */
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
    int null, errors;  /* standard input and output; standard error */
    int socket;        /* becomes RT_SOCKET_FD */
    int runtime;       /* becomes CHAIN_RUNTIME_FD */
    int filter;        /* becomes CHAIN_FILTER_FD; an open file of its own, for it is read */
    int owner;         /* a pidfd of this process: the child must not outlive it */
    const int *groups; /* the entries of its control groups, open for writing */
    size_t group_count;
    /* Limits of each process, where no control group keeps them; 0 = none. */
    uint64_t memory_bytes;
    unsigned pids;
};
enum { CHAIN_RUNTIME_FD = 4, CHAIN_FILTER_FD = 5 };

/* Returns the pid of the child. What goes wrong in it is one line on `errors` and exit code 127. */
int chain_clone(const struct chain *chain, struct error *err);

/* bubblewrap before 0.12 follows symbolic links of the root while it mounts (CVE-2026-87766). Makes
 * sure that what it mounts on, and what we promise, are real directories of this root: anything
 * else under such a name is replaced. 0 or a negative errno. */
int chain_mount_points(int root);

#endif
