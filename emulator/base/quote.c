#include "base/quote.h"

#include <string.h>

static const char plain[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+,";

int quote_word(struct buf *to, const char *word)
{
    size_t length = strspn(word, plain);
    if (length > 0 && word[length] == '\0')
        return buf_add(to, word, length);
    int result = buf_addc(to, '\'');
    while (*word && result == 0) {
        size_t safe = strcspn(word, "'");
        result = buf_add(to, word, safe);
        word += safe;
        if (*word == '\'' && result == 0) {
            result = buf_adds(to, "'\\''");
            word++;
        }
    }
    return result < 0 ? result : buf_addc(to, '\'');
}
