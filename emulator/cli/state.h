/* The state directory: made 0700, and locked by the one emulator that uses it. The lock is flock's,
 * so that the one of a killed emulator is free at once. */
#ifndef SANDPIT_CLI_STATE_H
#define SANDPIT_CLI_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Where state lives: persist_to when given (with "sandpit" below it, as wrangler puts "v3"), else
 * PROJECT/.wrangler/state/sandpit, else $XDG_STATE_HOME/sandpit/default. Absolute. */
int state_choose(const char *persist_to, const char *project_dir, char *to, size_t size,
                 struct error *err);
/* Makes and locks it: a descriptor to keep open, or -EWOULDBLOCK with pid and port of the holder in
 * the text. */
int state_lock(const char *dir, struct error *err);
/* Tells others who holds the lock. */
int state_publish(int lock, uint16_t port, struct error *err);

#endif
