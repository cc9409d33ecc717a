/* Percent-encoding of URLs. */
#ifndef SANDPIT_BASE_PERCENT_H
#define SANDPIT_BASE_PERCENT_H

#include <stddef.h>

#include "base/buf.h"

/* Decodes `size` bytes into `to`, NUL-terminated. The length, -EINVAL for a bad escape or an
 * encoded NUL, -ENAMETOOLONG when it needs more than `room`. */
long percent_decode(const char *from, size_t size, char *to, size_t room);
/* Appends text with everything but A-Z a-z 0-9 - _ . ~ escaped. */
int percent_encode(struct buf *to, const char *text);

#endif
