/* What is in the directories that sandboxes write to, as paths only: told to users when a container
 * ends and its files go. */
#ifndef SANDPIT_CONTAINER_WRITTEN_H
#define SANDPIT_CONTAINER_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct written {
    /* Absolute paths, each with its NUL, directories with a slash at the end; near ones first. */
    struct buf paths;
    unsigned files, directories;
    bool cut; /* there was more than is listed */
};

/* Whether the descriptor is of a file system that answers without waiting for anybody. */
bool written_root_ok(int root);
/* Looks below /workspace, /home, /root and /tmp of this root: at most 10,000 paths, 256 KiB and
 * 20 ms. Follows no links and enters no other file systems. */
void written_collect(int root, struct written *to);
void written_free(struct written *written);
/* Whether an absolute path was there, as a file or as a directory. */
bool written_has(const struct written *written, const char *path);
/* The next path after `at`, or the first for NULL; NULL at the end. */
const char *written_next(const struct written *written, const char *at);

#endif
