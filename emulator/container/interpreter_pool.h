/* Processes that wait for a context. */
#ifndef SANDPIT_CONTAINER_INTERPRETER_POOL_H
#define SANDPIT_CONTAINER_INTERPRETER_POOL_H

#include "container/interpreter_executor.h"

/* One that is ready or else starts; NULL when there is none. It is the caller's, who sets its
 * events. */
struct executor *pool_take(struct container *container, enum language language);
/* Whether the language's maximum is reached. */
bool pool_full(const struct container *container, enum language language);
/* Starts what is missing, one after the other, when no context waits for its own process. */
void pool_fill(struct container *container, enum language language);

#endif
