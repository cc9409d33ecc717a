/* A file that others see either not at all or whole. */
#ifndef SANDPIT_CLI_WHOLE_FILE_H
#define SANDPIT_CLI_WHOLE_FILE_H

#include "base/error.h"

/* Writes it beside its place, mode 0600, and renames it there. What has the name is replaced. */
int whole_file_write(const char *path, const char *text, struct error *err);

/* Where `sandpit dev --ready-file` tells where it is. The one of an emulator that was killed must
 * not be taken for ours, so it is removed before the start; and ours at the end, unless it is
 * another's by then. */
struct ready_file {
    const char *path;                 /* NULL = none is wanted */
    unsigned long long device, inode; /* of the one we wrote; 0 = none */
};
int ready_file_prepare(const struct ready_file *file, struct error *err);
/* {url, port, pid, token?} */
int ready_file_write(struct ready_file *file, const char *url, int port, const char *token,
                     struct error *err);
void ready_file_remove(struct ready_file *file);

#endif
