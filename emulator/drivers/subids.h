/* Subordinate ids: those that /etc/subuid and /etc/subgid give to ordinary users. */
#ifndef SANDPIT_DRIVERS_SUBIDS_H
#define SANDPIT_DRIVERS_SUBIDS_H

#include <stdbool.h>

#include "base/error.h"

enum subids_kind { SUBIDS_UID, SUBIDS_GID };

struct subids {
    unsigned first, count;
};

/* The first range of the calling user, cut to what a container uses. ENOENT when there is none. */
int subids_find(enum subids_kind kind, struct subids *range, struct error *err);
/* Whether a range is given to somebody, in whole or in part. */
bool subids_overlap(enum subids_kind kind, unsigned first, unsigned count);
/* Maps 0 to `self` and 1… to the range for a process in a new user namespace, by newuidmap or
 * newgidmap, which are set-user-id programs. */
int subids_map(const char *program, int pid, unsigned self, const struct subids *range,
               struct error *err);

#endif
