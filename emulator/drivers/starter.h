/* From the specification of a container to its first process: which boundary this machine allows,
 * found out once by trying, and the start-up chain with bubblewrap's arguments for it. */
#ifndef SANDPIT_DRIVERS_STARTER_H
#define SANDPIT_DRIVERS_STARTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "drivers/profile.h"
#include "drivers/userns.h"

enum { STARTER_ARGUMENTS = 128 };

struct starter {
    char *run_dir, *program;
    struct profile profile;
    struct userns userns;
    bool overlays;
    int null, owner, runtime, filter;
    const char *arguments[STARTER_ARGUMENTS]; /* bubblewrap's, after those that differ */
    char *warning; /* one line on what is missing of the boundary, or NULL */
    char *limited; /* one line on what an ordinary user's containers cannot do, or NULL */
};
extern const struct starter starter_closed;

struct start {
    const char *hostname;
    const char *resolv; /* text of /etc/resolv.conf */
    bool python;
    uint64_t upper_bytes;
    int socket, errors;
    const int *groups; /* as in struct chain */
    size_t group_count;
    uint64_t memory_bytes;
    unsigned pids;
};

/* Tries the boundaries from the best to the least, each with a real container. */
int starter_open(struct starter *starter, const char *run_dir, struct error *err);
void starter_close(struct starter *starter);
/* Returns the pid of the child, as chain_clone() does. */
int starter_start(const struct starter *starter, const struct start *start, struct error *err);

/* bubblewrap's arguments that are the same for every container, NULL-terminated (arguments.c).
 * Without `with_dev` the chain makes /dev. */
void starter_arguments(const char *to[STARTER_ARGUMENTS], bool with_dev);

#endif
