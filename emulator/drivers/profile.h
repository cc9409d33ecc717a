/* What of this host a container sees: an allow-list, worked out once when the driver starts and
 * turned into the steps of the start-up chain. Everything is visible at its own path and nothing is
 * writable: writes go to the overlays' throw-away layer. */
#ifndef SANDPIT_DRIVERS_PROFILE_H
#define SANDPIT_DRIVERS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "drivers/chain.h"

enum { PROFILE_TOOLS_MAX = 32, PROFILE_TREES_MAX = 32 };

struct profile {
    struct chain_step *steps;
    size_t step_count, step_capacity;
    /* Directories of the host whose contents show at the same path. */
    char *trees[PROFILE_TREES_MAX + PROFILE_TOOLS_MAX];
    size_t tree_count;
    char *path;    /* PATH inside */
    char **env;    /* "K=V", NULL-terminated */
    char *missing; /* one line on tools that are not there, or NULL */
};

int profile_build(struct profile *profile, const char *run_dir, struct error *err);
void profile_free(struct profile *profile);

/* For the parts of a profile. Paths are absolute, as inside the container. */
int profile_add_step(struct profile *profile, struct chain_step step);
/* The directory and its parents in the root. */
int profile_add_dir(struct profile *profile, const char *path, mode_t mode);
/* An overlay over `lower` at `path`; the mount point is the caller's matter. A `lower` elsewhere is
 * a tree of our own, which belongs to the container's root. */
int profile_add_overlay(struct profile *profile, const char *path, const char *lower);
/* The lower tree of `path`, a directory in /, at the same path for bubblewrap. */
int profile_add_outside(struct profile *profile, const char *path);
/* A tree that is bound read-only; shown in lean containers too when `lean`. */
int profile_add_bind(struct profile *profile, const char *path, bool lean);
/* Whether a canonical path of the host is visible inside. */
bool profile_shows(const struct profile *profile, const char *path);
/* Whether `path` is `tree` or lies below it. */
bool profile_below(const char *path, const char *tree);

/* /etc (profile_etc.c): an overlay on a small directory, run_dir/etc, that is made here. */
int profile_add_etc(struct profile *profile, const char *run_dir, struct error *err);
/* The directories of the caller's PATH (profile_tools.c), PATH inside, and the missing tools. */
int profile_add_tools(struct profile *profile, struct error *err);
/* For other kinds of user namespaces (profile_kinds.c). The copied /etc belongs to whoever is root
 * of the containers. */
int profile_give_etc(const char *run_dir, uid_t id);
/* Where there are no overlays: /etc as copies of its files. */
int profile_copy_etc(struct profile *profile, const char *run_dir);
/* Where files of the host's root belong to nobody: new files can be made in what is made here. */
int profile_open_usr(struct profile *profile);
/* A directory and those on the way to it, below `base`, which is there. */
int profile_add_dirs(struct profile *profile, const char *base, const char *path, mode_t mode,
                     unsigned when);
/* Where a command is found inside; returns the index of its directory in PATH or -1. */
int profile_find(const struct profile *profile, const char *name, char **where);

#endif
