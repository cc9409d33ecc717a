/* A directory of this host, shown at another place: a clone of its mount, changed while it is
 * attached nowhere, then attached. Used in the start-up chain, so nothing here allocates. */
#ifndef SANDPIT_DRIVERS_TREE_H
#define SANDPIT_DRIVERS_TREE_H

enum {
    TREE_WRITABLE = 1,  /* else read-only */
    TREE_DEVICES = 2,   /* device nodes work */
    TREE_RECURSIVE = 4, /* with what is mounted below; a must where those mounts are locked */
};

/* With the ids of the user namespace `ids`, or as they are (-1). 0, or -1 and errno: EINVAL when
 * the file system knows no other ids. */
int tree_attach(const char *source, const char *target, int ids, unsigned flags);

#endif
