#include "proxy/chunked.h"

#include <errno.h>
#include <string.h>

#include "http/head.h"

enum {
    SIZE,       /* digits, then an extension or the end of the line */
    EXTENSION,  /* up to the end of the line */
    SIZE_LF,    /* after CR */
    DATA,       /* of a chunk */
    DATA_CR,    /* after the data */
    DATA_LF,    /* after its CR */
    TRAILER,    /* at the start of a trailer line, or of the last, empty one */
    NAME,       /* of a trailer */
    VALUE,      /* up to the end of the line */
    TRAILER_LF, /* after its CR */
    LAST_LF,    /* of the empty line */
};

enum { DIGITS_MAX = 15 }; /* so that no size overflows */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_value(char c)
{
    return span_is_value((struct span){&c, 1});
}

static bool is_token(char c)
{
    return span_is_token((struct span){&c, 1});
}

static int size_byte(struct chunked *chunked, char c)
{
    int digit = hex(c);
    if (digit >= 0 && ++chunked->digits <= DIGITS_MAX) {
        chunked->left = chunked->left * 16 + (uint64_t)digit;
        return SIZE;
    }
    if (digit >= 0 || chunked->digits == 0)
        return -1;
    return c == '\r' ? SIZE_LF : c == ';' || c == ' ' || c == '\t' ? EXTENSION : -1;
}

static int end_of_size(struct chunked *chunked)
{
    chunked->line = 0;
    chunked->digits = 0;
    return chunked->left ? DATA : TRAILER;
}

/* One byte of what is not data; the next state, or -1. */
static int next_state(struct chunked *chunked, char c)
{
    switch (chunked->state) {
    case SIZE:
        return size_byte(chunked, c);
    case EXTENSION:
        return c == '\r' ? SIZE_LF : is_value(c) ? EXTENSION : -1;
    case SIZE_LF:
        return c == '\n' ? end_of_size(chunked) : -1;
    case DATA_CR:
        return c == '\r' ? DATA_LF : -1;
    case DATA_LF:
        return c == '\n' ? SIZE : -1;
    case TRAILER:
        return c == '\r' ? LAST_LF : is_token(c) ? NAME : -1;
    case NAME:
        return c == ':' ? VALUE : is_token(c) ? NAME : -1;
    case VALUE:
        return c == '\r' ? TRAILER_LF : is_value(c) ? VALUE : -1;
    case TRAILER_LF:
        return c == '\n' ? TRAILER : -1;
    case LAST_LF:
        chunked->done = c == '\n';
        return chunked->done ? SIZE : -1;
    default:
        return -1;
    }
}

static bool too_long(struct chunked *chunked)
{
    bool trailers = chunked->state >= TRAILER;
    return ++chunked->line > (trailers ? (size_t)CHUNK_TRAILERS_MAX : (size_t)CHUNK_LINE_MAX);
}

static int take_data(struct chunked *chunked, const char *data, size_t size, struct buf *plain)
{
    chunked->left -= size;
    if (chunked->left == 0)
        chunked->state = DATA_CR;
    return plain ? buf_add(plain, data, size) : 0;
}

long chunked_scan(struct chunked *chunked, const char *data, size_t size, struct buf *plain)
{
    size_t at = 0;
    while (at < size && !chunked->done) {
        if (chunked->state == DATA) {
            size_t here = size - at < chunked->left ? size - at : (size_t)chunked->left;
            int result = take_data(chunked, data + at, here, plain);
            if (result < 0)
                return result;
            at += here;
            continue;
        }
        if (too_long(chunked))
            return -EBADMSG;
        chunked->state = next_state(chunked, data[at++]);
        if (chunked->state < 0)
            return -EBADMSG;
    }
    return (long)at;
}
