/* User namespaces of containers: whose ids on this host the ids of a container are. */
#ifndef SANDPIT_DRIVERS_USERNS_H
#define SANDPIT_DRIVERS_USERNS_H

#include <sys/types.h>

#include "base/error.h"

enum userns_kind {
    USERNS_MAPPED, /* started by root: 0… are a range of ids that nobody has */
    USERNS_NONE,   /* started by root: 0 is root of this host, with few capabilities */
    USERNS_FULL,   /* by an ordinary user: 0 is the user, 1… are subordinate ids of /etc/subuid */
    USERNS_SINGLE, /* by an ordinary user: 0 is the user, and there is no other id */
};

enum { USERNS_IDS = 65536, USERNS_FIRST = 100000 };

struct userns {
    enum userns_kind kind;
    uid_t base;                    /* MAPPED: this host's id of the container's 0; else 0 */
    char uid_map[48], gid_map[48]; /* of each container; empty with NONE */
    int outer; /* FULL: the namespace that those of the containers are made in; else -1 */
};

/* What all containers share. FULL runs newuidmap and newgidmap, which takes some milliseconds. */
int userns_open(struct userns *userns, enum userns_kind kind, struct error *err);
void userns_close(struct userns *userns);

/* As fork(), with a new pid namespace that begins with the child; for ordinary users it is in a new
 * user namespace, too. There userns_begin() makes it root: 0, or -1 and errno. */
int userns_clone(const struct userns *userns, struct error *err);
int userns_begin(const struct userns *userns);

/* For MAPPED, in the child, whose directory has a "proc" of its own pid namespace: a new user
 * namespace with its map. The descriptor, or -1 and errno. */
int userns_make(const struct userns *userns);
/* Becomes root in it. -1 and errno when that fails. */
int userns_enter(int fd);
/* In a user namespace: no more can be made in it, whatever capabilities a process has there. */
int userns_last(void);

#endif
