/* What the container's server makes of a git that failed. */
#ifndef SANDPIT_CONTAINER_GIT_FAILURE_H
#define SANDPIT_CONTAINER_GIT_FAILURE_H

#include "container/codes.h"

enum { GIT_EXIT_TIMEOUT = 124, GIT_EXIT_FATAL = 128 };

enum code git_failure_code(int exit_code, const char *said);

#endif
