/* The heap keeps what large contents used for a second, then gives it back. Without this every 1
 * MiB read or write grows and shrinks the heap, and the page faults cost more than the work itself.
 */
#ifndef SANDPIT_BASE_HEAP_H
#define SANDPIT_BASE_HEAP_H

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

#endif
