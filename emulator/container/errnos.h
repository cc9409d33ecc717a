/* What an errno is called in messages and which code of the API it becomes. */
#ifndef SANDPIT_CONTAINER_ERRNOS_H
#define SANDPIT_CONTAINER_ERRNOS_H

#include "container/codes.h"

const char *errno_name(int number); /* "EISDIR" */
const char *errno_text(int number); /* as JavaScript runtimes word it */
enum code errno_code(int number);   /* FILESYSTEM_ERROR when there is none of its own */

#endif
