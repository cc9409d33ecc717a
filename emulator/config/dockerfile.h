/* As much of a Dockerfile as decides what its final stage is: the image it
 * starts from, the ports it exposes and the variables it sets, each with what
 * it inherits of earlier stages. */
#ifndef SANDPIT_CONFIG_DOCKERFILE_H
#define SANDPIT_CONFIG_DOCKERFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DOCKERFILE_IMAGE_MAX = 512, DOCKERFILE_PORTS_MAX = 256, DOCKERFILE_NOTES_MAX = 16 };

/* One word of an EXPOSE: a port, or a range of them. */
struct dockerfile_ports {
    uint16_t first, last;
    bool tcp; /* also where it says nothing */
    int line;
};

/* What Docker does not take. */
struct dockerfile_note {
    enum dockerfile_problem { DOCKERFILE_COMMENT, DOCKERFILE_NO_PORT } problem;
    int line;       /* of the instruction */
    char text[128]; /* the comment, or the word that is no port */
};

struct dockerfile {
    char image[DOCKERFILE_IMAGE_MAX]; /* of the final stage's FROM, earlier stages
                                         followed */
    int from_line;                    /* of the FROM that names it */
    struct dockerfile_ports ports[DOCKERFILE_PORTS_MAX];
    size_t port_count;
    int expose_line; /* of the last EXPOSE that counts; 0 without one */
    json_t *env;     /* name to value; ${PATH} stands for the image's own */
    bool python;     /* a RUN of the final stage speaks of Python */
    struct dockerfile_note notes[DOCKERFILE_NOTES_MAX];
    size_t note_count;
};

#define CLEANUP_DOCKERFILE __attribute__((cleanup(dockerfile_free)))

/* `file` names the text in errors: "Dockerfile:3:1: …". build_vars are values for
 * ARGs, as strings; NULL = none. What is filled in must be freed also after an
 * error. */
int dockerfile_read(const char *text, size_t size, const char *file, const json_t *build_vars,
                    struct dockerfile *to, struct error *err);
void dockerfile_free(struct dockerfile *dockerfile);
/* Whether a TCP port is among those of EXPOSE. */
bool dockerfile_exposes(const struct dockerfile *dockerfile, int port);

#endif
