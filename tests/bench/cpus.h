/* Which CPUs the emulator, its shells and its client run on. All children inherit them. */
#ifndef SANDPIT_BENCH_CPUS_H
#define SANDPIT_BENCH_CPUS_H

/* Uses the last `count` CPUs of those that were allowed at the first call, or all when there are
 * fewer; the first one has more of the machine's interrupts. Returns the last one's number, or -1.
 */
int cpus_use(int count);

#endif
