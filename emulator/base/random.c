#include "base/random.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* xoshiro256** by Blackman and Vigna, public domain: small, and the same on every machine. */
static uint64_t state[4];
static bool seeded;
static uint64_t first_seed;

static uint64_t rotate(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

static uint64_t next_word(void)
{
    uint64_t result = rotate(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 45);
    return result;
}

void random_seed(uint64_t seed)
{
    first_seed = seed;
    /* splitmix64 spreads the seed: near seeds give unlike states, and never the all-zero one. */
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t word = seed;
        word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
        state[i] = word ^ word >> 31;
    }
    seeded = true;
}

void random_again(void)
{
    if (seeded)
        random_seed(first_seed);
}

static void seeded_bytes(unsigned char *to, size_t size)
{
    while (size > 0) {
        uint64_t word = htole64(next_word());
        size_t part = size < sizeof word ? size : sizeof word;
        memcpy(to, &word, part);
        to += part;
        size -= part;
    }
}

static void kernel_bytes(unsigned char *to, size_t size)
{
    while (size > 0) {
        ssize_t got = getrandom(to, size, 0);
        if (got < 0) {
            /* Without random bytes every token would be guessable; there is no safe way on. The
             * kernel gives no such error for a good pointer. */
            if (errno != EINTR)
                abort();
            continue;
        }
        to += got;
        size -= (size_t)got;
    }
}

void random_bytes(void *to, size_t size)
{
    if (seeded)
        seeded_bytes(to, size);
    else
        kernel_bytes(to, size);
}

void random_text(char *to, size_t length, const char *alphabet)
{
    size_t letters = strlen(alphabet);
    size_t used = 0;
    /* Bytes from the last, incomplete round of the alphabet would favour its first letters. */
    unsigned limit = letters > 0 && letters <= 256 ? 256 - 256 % (unsigned)letters : 0;
    while (limit && used < length) {
        unsigned char bytes[64];
        random_bytes(bytes, sizeof bytes);
        for (size_t i = 0; i < sizeof bytes && used < length; i++)
            if (bytes[i] < limit)
                to[used++] = alphabet[bytes[i] % letters];
    }
    to[used] = '\0';
}

void random_uuid(char to[37])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[16];
    random_bytes(bytes, sizeof bytes);
    bytes[6] = (unsigned char)(0x40 | (bytes[6] & 0x0f));
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f));
    char *at = to;
    for (size_t i = 0; i < sizeof bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    *at = '\0';
}
