/* The classes that objects have, made of the project's and the options. */
#ifndef SANDPIT_CLI_CLASSES_H
#define SANDPIT_CLI_CLASSES_H

#include "cli/limits.h"
#include "cli/platform.h"
#include "config/image.h"
#include "config/wrangler.h"
#include "objects/objects.h"

/* What a class without a version of its own reports. */
#define DEFAULT_VERSION SANDBOX_VERSION

/* Borrowed; the texts may be NULL. */
struct class_options {
    const struct limits_options *limits;
    const struct platform_options *platform;
    const char *network, *expose_check;
};

/* One class for each of the project, which must outlive them; malloc'd into *to, also after an
 * error. */
int classes_make(const struct class_options *options, const struct project *project,
                 struct object_class **to, struct error *err);

#endif
