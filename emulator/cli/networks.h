/* Which network each class gets, from --network and the configuration. */
#ifndef SANDPIT_CLI_NETWORKS_H
#define SANDPIT_CLI_NETWORKS_H

#include <stddef.h>

#include "base/error.h"
#include "config/wrangler.h"
#include "objects/objects.h"

/* `option` is the word of --network, or NULL. "none" wins from either side; else the option comes
 * before the configuration, and without both it is auto. */
int networks_choose(const char *option, const struct project_class *from, struct object_class *to,
                    struct error *err);
/* One line for the start: "network: pasta". */
void networks_text(const struct object_class *classes, size_t count, char *to, size_t size);

#endif
