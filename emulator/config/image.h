/* What an image reference tells about the sandbox image behind it. */
#ifndef SANDPIT_CONFIG_IMAGE_H
#define SANDPIT_CONFIG_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

/* The SDK line that is emulated, and the image of it. */
#define SANDBOX_VERSION "0.12.7"

/* What the sandbox images expose by themselves. */
enum { SANDBOX_PORT = 3000, OPENCODE_PORT = 4096 };

struct image_facts {
    char version[32]; /* "0.6.3" of the tag; "" when unknown */
    bool sandbox;     /* it is one of cloudflare/sandbox */
    bool opencode;    /* the variant that exposes OPENCODE_PORT too */
    bool python;      /* tags up to 0.5 have Python; from 0.6 on only those with -python */
};

/* Any registry may stand before cloudflare/sandbox. An image that is not of that repository, or has
 * no version in its tag, counts as one with Python and of unknown version. */
struct image_facts image_facts(const char *reference);
/* The reference with another version in the place of its tag's, and `more` behind it ("-python" or
 * ""). One whose tag has no version stays as it is. */
void image_with(const char *reference, const char *version, const char *more, char *to,
                size_t size);

#endif
