/* Removes control groups. A group with a process in it, even a dying one, is EBUSY; so what cannot
 * be removed at once is tried again from the loop. */
#ifndef SANDPIT_DRIVERS_CGROUP_REAPER_H
#define SANDPIT_DRIVERS_CGROUP_REAPER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"

/* The two calls that behave otherwise in the kernel's tree than in a directory of files, so that a
 * test can play the kernel. Both give 0 or a negative errno. */
struct cgroup_ops {
    int (*make)(const char *path);
    int (*remove)(const char *path);
};

struct doomed;

struct cgroup_reaper {
    struct loop *loop;
    struct cgroup_ops ops;
    struct doomed *first, **last;
    struct timer timer;
    int wait_ms;
};

/* ops NULL = the kernel's. */
void reaper_init(struct cgroup_reaper *reaper, struct loop *loop, const struct cgroup_ops *ops);
/* Kills what is in the group and removes it, now or later. */
void reaper_take(struct cgroup_reaper *reaper, const char *path);
/* Takes every group in `base` that belongs to an emulator which does not run any more. */
void reaper_sweep(struct cgroup_reaper *reaper, const char *base);
/* Tries what is left a few times more, for some milliseconds, and forgets it. */
void reaper_close(struct cgroup_reaper *reaper);

/* "sandpit-PID-STARTTIME-NAMESPACE" for this process. */
void reaper_own_name(char *to, size_t size);

#endif
