#include "base/jsonstr.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* Eight bytes are looked at as the lanes of one word. A lane test leaves the high bit of each lane
 * that matches; a borrow can mark lanes above a match falsely, so only the lowest mark is exact.
 * Words are therefore read little-endian, where the lowest lane is the first byte. */
#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)
#define LANES(c) (ONES * (unsigned char)(c))

static const char REPLACEMENT[3] = {'\xef', '\xbf', '\xbd'};

/* Which bytes can be copied as they are. */
enum plain {
    PLAIN_STRING, /* ASCII, no control character, quote or backslash */
    PLAIN_ASCII,
    PLAIN_TEXT, /* ASCII but NUL */
};

static inline uint64_t load_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return le64toh(word);
}

static inline size_t first_lane(uint64_t marks)
{
    return (size_t)__builtin_ctzll(marks) / 8;
}

/* Marks the bytes that are not plain. Those over 0x7f never are, so a lane test need not care what
 * it says about them. */
static inline uint64_t mark_special(enum plain plain, uint64_t word)
{
    uint64_t marks = word;
    if (plain == PLAIN_STRING)
        marks |=
            (word - LANES(0x20)) | ((word ^ LANES('"')) - ONES) | ((word ^ LANES('\\')) - ONES);
    else if (plain == PLAIN_TEXT)
        marks |= word - ONES;
    return marks & HIGHS;
}

static inline bool is_plain(enum plain plain, char c)
{
    unsigned char byte = (unsigned char)c;
    if (plain == PLAIN_STRING)
        return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
    return byte < 0x80 && (byte || plain == PLAIN_ASCII);
}

/* Copies bytes up to the first one that is not plain, at most `size`; returns how many. May
 * scribble over the rest of the `size` bytes at `to`. */
static inline size_t copy_plain(enum plain plain, const char *from, size_t size, char *to)
{
    size_t at = 0;
    for (; size - at >= 32; at += 32) {
        uint64_t marks = mark_special(plain, load_word(from + at));
        marks |= mark_special(plain, load_word(from + at + 8));
        marks |= mark_special(plain, load_word(from + at + 16));
        marks |= mark_special(plain, load_word(from + at + 24));
        if (marks)
            break;
        memcpy(to + at, from + at, 32);
    }
    for (; size - at >= 8; at += 8) {
        uint64_t marks = mark_special(plain, load_word(from + at));
        memcpy(to + at, from + at, 8);
        if (marks)
            return at + first_lane(marks);
    }
    for (; at < size && is_plain(plain, from[at]); at++)
        to[at] = from[at];
    return at;
}

static inline size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

long jsonstr_end(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        for (; size - at >= 8; at += 8) {
            uint64_t word = load_word(text + at);
            uint64_t quotes = word ^ LANES('"'), slashes = word ^ LANES('\\');
            uint64_t marks = ((quotes - ONES) & ~quotes) | ((slashes - ONES) & ~slashes);
            if (marks & HIGHS) {
                at += first_lane(marks & HIGHS);
                break;
            }
        }
        if (at == size)
            break;
        if (text[at] == '"')
            return (long)at;
        at += text[at] == '\\' ? 2 : 1;
    }
    return -1;
}

/* ---- Unescaping ---- */

/* The value of four hexadecimal digits, -1 when they are not. */
static long hex4(const char *at)
{
    long value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static int put_utf8(long code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3f));
        to[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3f));
    to[2] = (char)(0x80 | (code >> 6 & 0x3f));
    to[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* The escape \uXXXX at *from, or two of them when they are a surrogate pair. */
static int unescape_u(const char **from, const char *end, char *to)
{
    const char *at = *from;
    long code = end - at >= 6 ? hex4(at + 2) : -1;
    if (code < 0 || (code >= 0xdc00 && code <= 0xdfff))
        return -1;
    at += 6;
    if (code >= 0xd800 && code <= 0xdbff) {
        if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
            return -1;
        long low = hex4(at + 2);
        if (low < 0xdc00 || low > 0xdfff)
            return -1;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    *from = at;
    return put_utf8(code, to);
}

/* One escape or one character over 0x7f; at most 4 bytes are written. */
static int unescape_one(const char **from, const char *end, char *to)
{
    static const char meaning[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    const char *at = *from;
    if (*at == '\\') {
        if (end - at < 2)
            return -1;
        if (at[1] == 'u')
            return unescape_u(from, end, to);
        *to = meaning[(unsigned char)at[1]];
        *from = at + 2;
        return *to ? 1 : -1;
    }
    /* Of the bytes under 0x80 only a bare quote or a control character comes here. */
    int size = (unsigned char)*at < 0x80 ? -1 : utf8_step(at, end);
    if (size < 0)
        return -1;
    for (int i = 0; i < size; i++)
        to[i] = at[i];
    *from = at + size;
    return size;
}

long jsonstr_unescape(const char **from, const char *end, char *to, size_t room)
{
    const char *at = *from;
    size_t used = 0;
    while (at < end && room - used >= 4) {
        if (is_plain(PLAIN_STRING, *at)) {
            size_t size =
                copy_plain(PLAIN_STRING, at, least_of((size_t)(end - at), room - used), to + used);
            at += size;
            used += size;
        } else {
            int size = unescape_one(&at, end, to + used);
            if (size < 0)
                return -1;
            used += (size_t)size;
        }
    }
    *from = at;
    return (long)used;
}

/* ---- Escaping and cleaning ---- */

/* A character over 0x7f as it is, or U+FFFD for what is not one. Gives the bytes read in *read. */
static int clean_one(const char *from, const char *end, char *to, int *read)
{
    int size = utf8_step(from, end);
    if (size < 0) {
        memcpy(to, REPLACEMENT, sizeof REPLACEMENT);
        *read = -size;
        return sizeof REPLACEMENT;
    }
    for (int i = 0; i < size; i++)
        to[i] = from[i];
    *read = size;
    return size;
}

/* One byte that must be escaped, or one character over 0x7f; at most 6 bytes are written. */
static int escape_one(const char *from, const char *end, char *to, int *read)
{
    static const char letter[128] = {
        ['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
        ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
    };
    static const char digits[] = "0123456789abcdef";
    unsigned char c = (unsigned char)*from;
    if (c >= 0x80)
        return clean_one(from, end, to, read);
    *read = 1;
    to[0] = '\\';
    to[1] = letter[c];
    if (to[1])
        return 2;
    memcpy(to + 1, "u00", 3);
    to[4] = digits[c >> 4];
    to[5] = digits[c & 15];
    return 6;
}

/* Both walks below go through a small piece on the stack: it stays in the nearest cache, and the
 * buffer's maximum is met exactly although a byte may grow sixfold. */
#define PIECE 4096

static size_t escape_piece(const char **from, const char *end, char *to)
{
    const char *at = *from;
    size_t used = 0;
    while (at < end && PIECE - used >= 6) {
        if (is_plain(PLAIN_STRING, *at)) {
            size_t size =
                copy_plain(PLAIN_STRING, at, least_of((size_t)(end - at), PIECE - used), to + used);
            at += size;
            used += size;
        } else {
            int read;
            used += (size_t)escape_one(at, end, to + used, &read);
            at += read;
        }
    }
    *from = at;
    return used;
}

static inline size_t clean_piece(const char **from, const char *end, char *to, enum plain plain)
{
    const char *at = *from;
    size_t used = 0;
    while (at < end && PIECE - used >= 4) {
        if (is_plain(plain, *at)) {
            size_t size =
                copy_plain(plain, at, least_of((size_t)(end - at), PIECE - used), to + used);
            at += size;
            used += size;
        } else if (*at == '\0') {
            at++;
        } else {
            int read;
            used += (size_t)clean_one(at, end, to + used, &read);
            at += read;
        }
    }
    *from = at;
    return used;
}

/* What was added since `size` goes again, so that a failed call adds nothing. */
static int take_back(struct buf *to, size_t size, int error)
{
    if (error && to->data) {
        to->size = size;
        to->data[size] = '\0';
    }
    return error;
}

int jsonstr_escape(struct buf *to, const char *text, size_t size)
{
    size_t before = to->size;
    int error = 0;
    /* Escaping never makes text shorter: one reservation spares most of the growing. */
    if (!buf_reserve(to, size, &error))
        return error;
    char piece[PIECE];
    const char *end = text + size;
    while (!error && text < end) {
        size_t used = escape_piece(&text, end, piece);
        error = buf_add(to, piece, used);
    }
    return take_back(to, before, error);
}

int jsonstr_clean(struct buf *to, const char *text, size_t size, bool drop_nul)
{
    size_t before = to->size;
    int error = 0;
    char piece[PIECE];
    const char *end = text + size;
    while (!error && text < end) {
        size_t used = drop_nul ? clean_piece(&text, end, piece, PLAIN_TEXT)
                               : clean_piece(&text, end, piece, PLAIN_ASCII);
        error = buf_add(to, piece, used);
    }
    return take_back(to, before, error);
}
