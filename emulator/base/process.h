/* Which process a pid means: together with the time of its start it is never used again. */
#ifndef SANDPIT_BASE_PROCESS_H
#define SANDPIT_BASE_PROCESS_H

#include <stdbool.h>

/* Our own start in ticks since boot; 0 when it cannot be read. */
unsigned long long process_own_start(void);
/* Whether the process with this pid is the one that started then. */
bool process_is(int pid, unsigned long long start);
/* Whether that process has surely ended: not when it cannot be told. start 0 = any with the pid. */
bool process_gone(int pid, unsigned long long start);

#endif
