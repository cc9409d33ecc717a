/* The heap keeps what large contents used for a second, then gives it back. Without this every 1
 * MiB read or write grows and shrinks the heap, and the page faults cost more than the work itself.
 */
#ifndef SANDPIT_BASE_HEAP_H
#define SANDPIT_BASE_HEAP_H

#include <jansson.h>
#include <stddef.h>

#include "base/loop.h"

/* Once, at the start of the process. */
void heap_setup(struct loop *loop);
/* `size` bytes were used for something short-lived. Before heap_setup() this does nothing. */
void heap_used(size_t size);

/* How often memory was refused to a JSON value or a buffer. Those who build one go on without the
 * part that there was no memory for, so that what they made is whole only if this did not change
 * meanwhile. */
unsigned long heap_refusals(void);
void heap_refused(void);

/* As json_loadb(), which ends the process when memory is refused in the middle of a string with an
 * escape: jansson takes what is missing of it for a fault of its own. Here that gives NULL. */
json_t *heap_load_json(const char *text, size_t size, size_t flags, json_error_t *error);

#endif
