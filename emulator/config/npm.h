/* Which version of the npm package @cloudflare/sandbox a project uses. */
#ifndef SANDPIT_CONFIG_NPM_H
#define SANDPIT_CONFIG_NPM_H

#include <stdbool.h>

struct npm_sdk {
    char version[32];  /* "0.7.4" */
    const char *where; /* the file that says it */
    bool exact;        /* else any newer one of its line (the same x.y) would do */
};

/* What is installed, else what is locked, else what package.json wants. False when nothing says. */
bool npm_find_sdk(const char *project_dir, struct npm_sdk *sdk);
/* "0.7", "0.7.4": digits and dots only. */
bool npm_is_version(const char *text);
/* Whether an image of this version belongs to the SDK. One that names fewer parts fits all of them. */
bool npm_fits(const struct npm_sdk *sdk, const char *image_version);

#endif
