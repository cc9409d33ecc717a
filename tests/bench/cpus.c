#include "cpus.h"

#include <sched.h>
#include <stdbool.h>

int cpus_use(int count)
{
    static cpu_set_t allowed;
    static bool known;
    if (!known && sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return -1;
    known = true;
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    int last = -1;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && count > 0; cpu--) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        CPU_SET(cpu, &chosen);
        last = last < 0 ? cpu : last;
        count--;
    }
    return sched_setaffinity(0, sizeof chosen, &chosen) < 0 ? -1 : last;
}
