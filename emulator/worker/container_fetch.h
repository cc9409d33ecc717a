/* The method containerFetch, answered with JSON. */
#ifndef SANDPIT_WORKER_CONTAINER_FETCH_H
#define SANDPIT_WORKER_CONTAINER_FETCH_H

#include <stdbool.h>

#include "base/loop.h"
#include "objects/objects.h"

/* args: {url, init: {method, headers, body, redirect} or the port, port}. */
void container_fetch(struct loop *loop, struct object *object, struct call *call);
/* Whether the text can stand in a request line: "/…" of visible ASCII. */
bool container_fetch_is_target(const char *path);

#endif
