#include "config/place.h"

struct place place_at(const char *text, size_t offset)
{
    struct place place = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            place.line++;
            place.column = 1;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) {
            place.column++;
        }
    }
    return place;
}
