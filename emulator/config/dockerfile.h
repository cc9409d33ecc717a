/* As much of a Dockerfile as decides which image its final stage starts from. */
#ifndef SANDPIT_CONFIG_DOCKERFILE_H
#define SANDPIT_CONFIG_DOCKERFILE_H

#include <stddef.h>

#include "base/error.h"

enum { DOCKERFILE_IMAGE_MAX = 512 };

/* The image reference of the final stage's FROM, with ARG defaults put in and earlier stages
 * followed. `file` names the text in errors: "Dockerfile:3: …". */
int dockerfile_base(const char *text, size_t size, const char *file,
                    char image[DOCKERFILE_IMAGE_MAX], struct error *err);

#endif
