/* What reading at once and as a stream share. */
#ifndef SANDPIT_CONTAINER_READ_H
#define SANDPIT_CONTAINER_READ_H

#include "drivers/agent.h"

extern const char READ_MISSING[]; /* "File not found" */
extern const char READ_SPECIAL[]; /* "not a regular file" */

/* Why an answer to RT_OPEN is not a file to read: NULL, READ_MISSING, READ_SPECIAL, or "" with a
 * positive errno in *error. */
const char *read_refusal(const struct agent_answer *answer, int *error);

#endif
