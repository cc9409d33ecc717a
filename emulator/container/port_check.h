/* One look at a port inside the container: whether it accepts, or how it answers a GET. */
#ifndef SANDPIT_CONTAINER_PORT_CHECK_H
#define SANDPIT_CONTAINER_PORT_CHECK_H

#include <jansson.h>
#include <stdbool.h>

struct call;
struct container;
struct port_check;

/* What to look for, read from {port, mode, path, statusMin, statusMax}. */
struct port_wish {
    int port; /* 0 when it is no port number: never ready */
    bool tcp;
    const char *path; /* borrowed from the arguments */
    double status_min, status_max;
};

struct port_result {
    bool ready;
    int status;      /* 0 = there was no answer to ask for one */
    char error[160]; /* why it is not ready */
};

/* False after an error was answered. */
bool port_wish_read(struct call *call, struct port_wish *wish);

/* *slot holds the check while it runs and is NULL when done() is called, which may be before this
 * returns. done() comes exactly once, unless the check is dropped before. */
void port_check_start(struct port_check **slot, struct container *container,
                      const struct port_wish *wish,
                      void (*done)(void *arg, const struct port_result *result), void *arg);
/* Ends a check without done(); nothing when *slot is NULL. */
void port_check_drop(struct port_check **slot);

#endif
