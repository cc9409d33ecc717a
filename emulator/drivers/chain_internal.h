/* What the parts of the start-up chain share. All of it runs in the child. */
#ifndef SANDPIT_DRIVERS_CHAIN_INTERNAL_H
#define SANDPIT_DRIVERS_CHAIN_INTERNAL_H

#include "drivers/chain.h"

enum { CHAIN_FAILED = 127 };

/* One line for the emulator, then the end. Async-signal-safe, as all of the child. */
__attribute__((noreturn)) void chain_fail(const char *what, const char *path);

/* Builds the tmpfs and makes it the root of a new mount namespace (chain_root.c). */
void chain_build_root(const struct chain *chain);
/* What is made from here on belongs to this id. */
void chain_make_as(uid_t id);
/* Fills the instance's /dev, where bubblewrap does not (starter_arguments()). */
void chain_make_dev(uid_t owner);

#endif
