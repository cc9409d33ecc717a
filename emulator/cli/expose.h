/* Whether ports must be exposed by the Dockerfile, from --expose-check and what the project uses.
 */
#ifndef SANDPIT_CLI_EXPOSE_H
#define SANDPIT_CLI_EXPOSE_H

#include "config/wrangler.h"
#include "objects/objects.h"

/* The rule of a project and why, without ports. `option` is the word of --expose-check and
 * `sdk_version` that of --sdk-version; each may be NULL. Without an option: strict where the
 * project's wrangler or, when that is not known, its SDK is of the time that had the rule; off
 * without a project; else warn. */
struct expose expose_of_project(const char *option, const char *sdk_version,
                                const struct project *project);
/* What that means for a class: its ports, and no strictness where they are not known. */
void expose_choose(const struct expose *rule, const char *option, const struct project_class *from,
                   struct expose *to);
/* Warns of classes that expose nothing. */
void expose_warn(const struct object_class *classes, size_t count);

#endif
