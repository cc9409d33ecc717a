/* Limits of memory, processes and CPU by control groups, version 1 and 2.
 *
 * An emulator has one parent group in each hierarchy it uses, named with its pid, the start time of
 * its process and its pid namespace, and in it one group for each container. The names tell which
 * groups belong to an emulator that was killed: those are reaped by the next one that starts. */
#ifndef SANDPIT_DRIVERS_CGROUP_H
#define SANDPIT_DRIVERS_CGROUP_H

#include "base/error.h"
#include "base/loop.h"
#include "drivers/cgroup_reaper.h"
#include "drivers/driver.h"

struct cgroups; /* those of this emulator */
struct cgroup;  /* those of one container */

#define CGROUP_ROOT "/sys/fs/cgroup"
enum { CGROUP_TREES = 3 };

/* Reaps what killed emulators left and makes the parent groups below `root`. What this machine or
 * our rights forbid is no error: see cgroups_note(). NULL only without memory. */
struct cgroups *cgroups_new(struct loop *loop, const char *root, const struct cgroup_ops *ops);
/* After the last container: removes the parent groups. */
void cgroups_free(struct cgroups *groups);
/* One line on what cannot be limited and why, or NULL when everything can. */
const char *cgroups_note(const struct cgroups *groups);
/* The part of the limits that no group here can keep; the rest is 0. */
struct instance_limits cgroups_beyond(const struct cgroups *groups, struct instance_limits limits);

/* A container's groups, with its limits of memory and processes set. */
struct cgroup *cgroup_new(struct cgroups *groups, const struct instance_limits *limits,
                          struct error *err);
/* Descriptors with which a process puts itself into the groups, by writing "0" to each; returns how
 * many. They stay open until cgroup_entered(). */
size_t cgroup_entries(const struct cgroup *group, int to[CGROUP_TREES]);
void cgroup_entered(struct cgroup *group);
/* The limit of CPU begins here: a start is not slowed down by it. */
void cgroup_limit_cpu(struct cgroup *group, const struct instance_limits *limits);
/* How many processes the kernel ended for lack of memory, as of now. It counts before it ends one,
 * so whoever sees the end sees the count. */
unsigned cgroup_kills(struct cgroup *group);
/* killed() is called when that number has grown. */
void cgroup_on_kill(struct cgroup *group, void (*killed)(void *arg, unsigned kills), void *arg);
/* The groups are removed as soon as nothing is in them. */
void cgroup_free(struct cgroup *group);

#endif
