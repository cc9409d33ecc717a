/* Which version of an npm package a project uses: of @cloudflare/sandbox above all. */
#ifndef SANDPIT_CONFIG_NPM_H
#define SANDPIT_CONFIG_NPM_H

#include <stdbool.h>

/* The first wrangler that reaches ports without EXPOSE, and the first SDK of its time. */
#define NPM_WRANGLER_FREE "4.136"
#define NPM_SDK_FREE "0.12"

struct npm_sdk {
    char version[32]; /* "0.7.4" */
    char where[64];   /* the file that says it */
    bool exact;       /* else any newer one of its line (the same x.y) would do */
};

/* What is installed, else what is locked, else what package.json wants. False when nothing says. */
bool npm_find_sdk(const char *project_dir, struct npm_sdk *sdk);
/* The same for any package. */
bool npm_find(const char *project_dir, const char *package, struct npm_sdk *to);
/* Whether a version comes before another one: "4.20.1" before "4.136". */
bool npm_before(const char *version, const char *other);
/* The same of what a project uses. A range leaves it open unless all that it takes are on one side.
 */
enum npm_order { NPM_OPEN, NPM_BEFORE, NPM_NOT_BEFORE };
enum npm_order npm_order(const struct npm_sdk *found, const char *other);
/* "0.7", "0.7.4": digits and dots only. */
bool npm_is_version(const char *text);
/* Whether an image of this version belongs to the SDK. One that names fewer parts fits all of them.
 */
bool npm_fits(const struct npm_sdk *sdk, const char *image_version);

#endif
