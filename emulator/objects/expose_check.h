/* EXPOSE: local development with wrangler before 4.136 reached only those ports of a container that
 * its Dockerfile exposes. Production never asked. */
#ifndef SANDPIT_OBJECTS_EXPOSE_CHECK_H
#define SANDPIT_OBJECTS_EXPOSE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "container/call.h"

struct object;

enum expose_rule {
    EXPOSE_OFF,    /* nobody asks */
    EXPOSE_WARN,   /* the first use of each port is told */
    EXPOSE_STRICT, /* refused, in the words of the original */
};

/* Those of a Dockerfile, and the image's own. */
enum { EXPOSE_PORTS_MAX = 260 };

/* Of a class. */
struct expose {
    enum expose_rule rule;
    char why[192]; /* why it is this one, for people */
    struct {
        uint16_t first, last;
    } ports[EXPOSE_PORTS_MAX];
    size_t count;
    char file[64]; /* where a line can be added: "Dockerfile"; "" = there is none */
};

bool expose_has(const struct expose *expose, int port);
/* A port is about to be used by `what` ("exposePort"). True when the rule refuses it, and then the
 * call is answered. */
bool expose_refuses(struct object *object, int port, const char *what, struct call *call);
/* It is used where the original asked nobody either: an event only. */
void expose_note(struct object *object, int port, const char *what);

#endif
