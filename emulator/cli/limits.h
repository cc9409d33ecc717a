/* How much each container may use: its class's instance type, what is the default without one, and
 * what the command line says instead. */
#ifndef SANDPIT_CLI_LIMITS_H
#define SANDPIT_CLI_LIMITS_H

#include <stdbool.h>

#include "base/error.h"
#include "config/wrangler.h"
#include "objects/objects.h"

struct limits_options {
    const char *memory, *cpus; /* as given, or NULL */
    long pids;                 /* 0 = not given */
    bool none;                 /* --no-limits */
};

/* Fills limits, upper_bytes and instance_type of a class. */
int limits_choose(const struct limits_options *options, const struct project_class *from,
                  struct object_class *to, struct error *err);
/* "1 GiB memory, 1024 processes, 0.5 CPU, 512 MiB disk". */
void limits_text(const struct object_class *class, char *to, size_t size);

#endif
