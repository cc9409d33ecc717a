/* The system calls that no container may make, as a filter for bubblewrap. */
#ifndef SANDPIT_DRIVERS_SECCOMP_H
#define SANDPIT_DRIVERS_SECCOMP_H

#include <stdbool.h>

#include "base/error.h"

/* A sealed memfd with the filter's instructions. With `no_userns` user namespaces are refused by
 * the filter, for containers that do not have one of their own to forbid them in. */
int seccomp_filter(bool no_userns, struct error *err);

#endif
