#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/jsonstr.h"

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Both directions work from tables made at first use: two characters for each 12 bits, and the
 * value of each character with 64 for those outside the alphabet. */
static char pairs[4096][2];
static unsigned char values[256];

static void make_tables(void)
{
    if (pairs[0][0])
        return;
    memset(values, 64, sizeof values);
    for (int i = 0; i < 64; i++)
        values[(unsigned char)ALPHABET[i]] = (unsigned char)i;
    for (int i = 0; i < 4096; i++) {
        pairs[i][0] = ALPHABET[i >> 6];
        pairs[i][1] = ALPHABET[i & 63];
    }
}

/* The last one or two bytes, with padding. */
static void encode_tail(const unsigned char *from, size_t left, char *to)
{
    unsigned bits = (unsigned)from[0] << 16 | (left > 1 ? (unsigned)from[1] << 8 : 0);
    memcpy(to, pairs[bits >> 12], 2);
    to[2] = left > 1 ? ALPHABET[bits >> 6 & 63] : '=';
    to[3] = '=';
}

int base64_encode(struct buf *to, const void *data, size_t size)
{
    const unsigned char *from = data;
    size_t total = size / 3 * 4 + (size % 3 ? 4 : 0);
    int error = 0;
    char *out = buf_reserve(to, total, &error);
    if (!out)
        return error;
    make_tables();
    /* Six bytes at a time, from a load of eight. */
    for (; size >= 8; size -= 6, from += 6, out += 8) {
        uint64_t word;
        memcpy(&word, from, sizeof word);
        word = be64toh(word);
        memcpy(out, pairs[word >> 52], 2);
        memcpy(out + 2, pairs[word >> 40 & 4095], 2);
        memcpy(out + 4, pairs[word >> 28 & 4095], 2);
        memcpy(out + 6, pairs[word >> 16 & 4095], 2);
    }
    for (; size >= 3; size -= 3, from += 3, out += 4) {
        unsigned bits = (unsigned)from[0] << 16 | (unsigned)from[1] << 8 | from[2];
        memcpy(out, pairs[bits >> 12], 2);
        memcpy(out + 2, pairs[bits & 4095], 2);
    }
    if (size)
        encode_tail(from, size, out);
    buf_commit(to, total);
    return 0;
}

/* The last four characters when they end in padding: one or two bytes, or -1. */
static int decode_tail(const unsigned char *at, char *to)
{
    unsigned a = values[at[0]], b = values[at[1]], c = values[at[2]];
    if ((a | b) > 63 || at[3] != '=')
        return -1;
    to[0] = (char)(a << 2 | b >> 4);
    if (at[2] == '=')
        return 1;
    if (c > 63)
        return -1;
    to[1] = (char)(b << 4 | c >> 2);
    return 2;
}

long base64_decode(const char **from, const char *end, char *to, size_t room)
{
    make_tables();
    const unsigned char *at = (const unsigned char *)*from;
    const unsigned char *last = (const unsigned char *)end;
    char *out = to;
    for (; last - at >= 4 && room - (size_t)(out - to) >= 3; at += 4) {
        unsigned a = values[at[0]], b = values[at[1]], c = values[at[2]], d = values[at[3]];
        if ((a | b | c | d) > 63) {
            int size = last - at == 4 ? decode_tail(at, out) : -1;
            if (size < 0)
                return -1;
            out += size;
            continue;
        }
        unsigned bits = a << 18 | b << 12 | c << 6 | d;
        out[0] = (char)(bits >> 16);
        out[1] = (char)(bits >> 8);
        out[2] = (char)bits;
        out += 3;
    }
    if (at < last && last - at < 4)
        return -1;
    *from = (const char *)at;
    return out - to;
}
