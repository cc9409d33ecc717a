/* How often the load and torture tests do things: quick by default, in full with
 * SANDPIT_COUNTS=long. SANDPIT_CYCLES=100000 gives the number of create/sleep/destroy cycles alone.
 */
#ifndef SANDPIT_TESTS_COUNTS_H
#define SANDPIT_TESTS_COUNTS_H

#include <stdlib.h>
#include <string.h>

struct counts {
    int sandboxes;     /* alive at the same time */
    int cycles;        /* create, sleep, destroy */
    int warm_up;       /* cycles before anything is compared */
    int execs;         /* for each of 8 sessions at once */
    int torture_step;  /* every so many calls, one fails */
    int torture_most;  /* of one kind in one step */
    int torture_start; /* the same while the emulator starts */
    int swaps;         /* rounds of calls on a path that changes under them */
    int entries;       /* of the largest directory */
    int flood_mib;     /* of output that nobody reads */
};

static inline struct counts counts_now(void)
{
    static const struct counts quick = {.sandboxes = 60,
                                        .cycles = 100,
                                        .warm_up = 30,
                                        .execs = 500,
                                        .torture_step = 37,
                                        .torture_most = 12,
                                        .torture_start = 37,
                                        .swaps = 200,
                                        .entries = 20000,
                                        .flood_mib = 128};
    static const struct counts full = {.sandboxes = 300,
                                       .cycles = 5000,
                                       .warm_up = 2000,
                                       .execs = 5000,
                                       .torture_step = 1,
                                       .torture_most = 600,
                                       .torture_start = 1,
                                       .swaps = 30000,
                                       .entries = 1000000,
                                       .flood_mib = 1024};
    const char *which = getenv("SANDPIT_COUNTS");
    struct counts counts = which && strcmp(which, "long") == 0 ? full : quick;
    const char *cycles = getenv("SANDPIT_CYCLES");
    if (cycles && strtol(cycles, NULL, 10) > 0)
        counts.cycles = (int)strtol(cycles, NULL, 10);
    return counts;
}

#endif
