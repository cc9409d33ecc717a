/* What an emulator keeps (sandboxes with their options, and buckets) as one file: a sqlite database
 * with the tables of both stores. */
#ifndef SANDPIT_CLI_STATE_FILE_H
#define SANDPIT_CLI_STATE_FILE_H

#include <stdbool.h>

#include "base/error.h"

struct state_counts {
    long long sandboxes, bucket_objects;
};

/* `dir` is the state directory, which the caller has locked. */

/* Replaces nothing: -EEXIST when `path` is there, unless `force`. It is there whole or not at all.
 */
int state_export(const char *dir, const char *path, bool force, struct state_counts *counts,
                 struct error *err);
/* Everything that is kept becomes what the file says, or nothing changes. A file that is damaged,
 * not ours, of a newer version, or that holds what no emulator would have stored, is refused; and
 * so is one that would take the place of something, unless `force`. */
int state_import(const char *dir, const char *path, bool force, struct state_counts *counts,
                 struct error *err);
/* Removes what is kept, also when it is damaged. */
int state_remove(const char *dir, struct error *err);

#endif
