/* One step through text that may or may not be UTF-8. */
#ifndef SANDPIT_BASE_UTF8_H
#define SANDPIT_BASE_UTF8_H

/* The length (1 to 4) of the well-formed character at `text`, or minus the length of the maximal
 * part of one that a decoder replaces by a single U+FFFD (Unicode 3.9, table 3-7; WHATWG does the
 * same). A character cut off by `end` is such a part. `text` must be before `end`. */
static inline int utf8_step(const char *text, const char *end)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned char lead = at[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return -1;
    int size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    /* The second byte is where overlong forms, surrogates and what is over U+10FFFF show. */
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < size; i++) {
        if (text + i == end || at[i] < low || at[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return size;
}

#endif
