/* Reading the project again while the emulator runs. */
#ifndef SANDPIT_CLI_RELOAD_H
#define SANDPIT_CLI_RELOAD_H

#include "buckets/buckets.h"
#include "cli/classes.h"

struct reload;

struct reload_config {
    const char *dir, *file, *environment; /* as for project_load_environment(); borrowed */
    struct class_options classes;
    struct objects *objects;
    struct buckets *buckets;
};

struct reload *reload_new(const struct reload_config *config);
/* Containers that run keep what they started with. What cannot be read changes nothing. Says how it
 * went. */
void reload_run(struct reload *reload);
/* After the objects. */
void reload_free(struct reload *reload);

#endif
