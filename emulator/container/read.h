/* What reading at once and as a stream share. */
#ifndef SANDPIT_CONTAINER_READ_H
#define SANDPIT_CONTAINER_READ_H

#include "container/files.h"

extern const char READ_MISSING[]; /* "File not found" */
extern const char READ_SPECIAL[]; /* "not a regular file" */

/* Why an answer to RT_OPEN is not a file to read: NULL, READ_MISSING, READ_SPECIAL, or "" with a
 * positive errno in *error. */
const char *read_refusal(const struct agent_answer *answer, int *error);
/* False when it is none, and the job was ended with that answer. */
bool read_opened(struct file_job *file, const struct agent_answer *answer);

#endif
