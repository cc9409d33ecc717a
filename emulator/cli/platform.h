/* What the platform around the containers is like, from the options and the project. */
#ifndef SANDPIT_CLI_PLATFORM_H
#define SANDPIT_CLI_PLATFORM_H

#include "cli/options.h"
#include "config/wrangler.h"
#include "objects/objects.h"

struct platform_options {
    const char *cold_start, *sdk_retries, *colo, *sdk_version;
    bool geo_latency;
};

#define PLATFORM_OPTION_ROWS(OPTIONS)                                                              \
    OPT_TEXT("cold-start", 0, &(OPTIONS)->cold_start, "DURATION",                                  \
             "a container counts as healthy so long after its start, on the clock"),               \
        OPT_CHOICE("sdk-retries", 0, &(OPTIONS)->sdk_retries, "on|off",                            \
                   "try a refused start again as the SDK does (default off: 503 at once)"),        \
        OPT_TEXT("colo", 0, &(OPTIONS)->colo, "PLACE",                                             \
                 "where requests come from, such as WEUR or SIN; the first one pins a sandbox"),   \
        OPT_FLAG("geo-latency", 0, &(OPTIONS)->geo_latency,                                        \
                 "requests from another place than a sandbox's take as long as they would"),       \
        OPT_TEXT("sdk-version", 0, &(OPTIONS)->sdk_version, "X.Y[.Z]",                             \
                 "the project's version of the SDK (default: of its npm package)")

int platform_choose(const struct platform_options *options, const struct project *project,
                    struct platform_config *to, struct error *err);
/* Compares the image of each class with the project's SDK, and warns about the first that differs.
 */
int platform_versions(const struct platform_options *options, const struct project *project,
                      struct object_class *classes, struct error *err);

#endif
