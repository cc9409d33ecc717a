/* The only caller of getrandom(2). random_seed() makes everything drawn afterwards repeatable, for
 * `--seed N`; without it the bytes come from the kernel. */
#ifndef SANDPIT_BASE_RANDOM_H
#define SANDPIT_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void random_seed(uint64_t seed);
/* From the beginning again, when there is a seed: what follows a reset then does not depend on what
 * was before it. */
void random_again(void);
void random_bytes(void *to, size_t size);
/* Fills `to` with `length` characters of the alphabet and a NUL (room for length + 1). Each
 * character is equally likely. */
void random_text(char *to, size_t length, const char *alphabet);
/* A version 4 UUID, 36 characters and a NUL. */
void random_uuid(char to[37]);

#endif
