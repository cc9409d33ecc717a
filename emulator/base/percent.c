#include "base/percent.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

long percent_decode(const char *from, size_t size, char *to, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        char c = from[i];
        if (c == '%') {
            int high = i + 2 < size ? hex(from[i + 1]) : -1;
            int low = i + 2 < size ? hex(from[i + 2]) : -1;
            if (high < 0 || low < 0 || (high == 0 && low == 0))
                return -EINVAL;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (used + 1 >= room)
            return -ENAMETOOLONG;
        to[used++] = c;
    }
    to[used] = '\0';
    return (long)used;
}

int percent_encode(struct buf *to, const char *text)
{
    int result = 0;
    for (; *text && result == 0; text++) {
        unsigned char c = (unsigned char)*text;
        if (isalnum(c) || strchr("-_.~", c))
            result = buf_addc(to, (char)c);
        else
            result = buf_addf(to, "%%%02X", c);
    }
    return result;
}
