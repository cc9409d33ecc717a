/* A change of a file as a unified diff, which patch -p1 applies. */
#ifndef SANDPIT_CONFIG_PATCH_H
#define SANDPIT_CONFIG_PATCH_H

#include <stddef.h>

#include "base/buf.h"

/* One change: `remove` bytes at `at` make room for the text. */
struct splice {
    size_t at, remove;
    const char *insert;
};

/* Appends the diff of a text, and of what a change makes of it, to `to`. */
int patch_splice(struct buf *to, const char *file, const char *text, size_t size,
                 const struct splice *splice);

#endif
