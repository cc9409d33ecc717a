/* Variables in the words of a Dockerfile. */
#include <errno.h>
#include <string.h>

#include "config/dockerfile_internal.h"

enum { DEPTH_MAX = 8 };

static const char *value_of(const struct docker_scope *scope, const char *name, size_t length)
{
    char key[128];
    if (length >= sizeof key)
        return NULL;
    memcpy(key, name, length);
    key[length] = '\0';
    const char *value = json_string_value(json_object_get(scope->first, key));
    if (!value)
        value = json_string_value(json_object_get(scope->second, key));
    return !value && scope->image_path && strcmp(key, "PATH") == 0 ? "${PATH}" : value;
}

static int expand(const struct docker_scope *scope, const char *text, size_t size, struct buf *to,
                  int depth);

/* The inside of ${…}: NAME, NAME:-word, NAME-word, NAME:+word, NAME+word. */
static int expand_braced(const struct docker_scope *scope, const char *text, size_t size,
                         struct buf *to, int depth)
{
    size_t length = docker_name(text);
    if (length >= size) {
        const char *whole = value_of(scope, text, size);
        return whole ? buf_adds(to, whole) : 0;
    }
    const char *value = value_of(scope, text, length);
    bool colon = text[length] == ':';
    char kind = text[length + colon];
    const char *word = text + length + colon + 1;
    if (length == 0 || (kind != '-' && kind != '+') || word > text + size)
        return -EINVAL;
    bool set = value && (!colon || *value);
    if (kind == '-' && set)
        return buf_adds(to, value);
    if (kind == '+' && !set)
        return 0;
    return expand(scope, word, (size_t)(text + size - word), to, depth + 1);
}

/* The offset of the brace that closes ${ opened before `at`, or size. */
static size_t closing_brace(const char *text, size_t size, size_t at)
{
    for (int open = 1; at < size; at++) {
        open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
        if (open == 0)
            break;
    }
    return at;
}

/* Nothing is put in between single quotes. */
static int expand(const struct docker_scope *scope, const char *text, size_t size, struct buf *to,
                  int depth)
{
    int result = depth > DEPTH_MAX ? -EINVAL : 0;
    char quote = '\0';
    for (size_t at = 0; at < size && result == 0;) {
        char c = text[at];
        bool literal = quote == '\'';
        if (c == scope->escape && at + 1 < size && !literal) {
            result = buf_addc(to, text[at + 1]);
            at += 2;
        } else if (quote ? c == quote : c == '"' || c == '\'') {
            quote = quote ? '\0' : c;
            at++;
        } else if (c == '$' && !literal && at + 1 < size && text[at + 1] == '{') {
            size_t close = closing_brace(text, size, at + 2);
            if (close >= size)
                return -EINVAL;
            result = expand_braced(scope, text + at + 2, close - at - 2, to, depth);
            at = close + 1;
        } else if (c == '$' && !literal && at + 1 < size && docker_name(text + at + 1) > 0) {
            size_t length = docker_name(text + at + 1);
            const char *value = value_of(scope, text + at + 1, length);
            result = value ? buf_adds(to, value) : 0;
            at += 1 + length;
        } else {
            result = buf_addc(to, c);
            at++;
        }
    }
    return result;
}

int docker_expand(const struct docker_scope *scope, const char *text, size_t size, struct buf *to)
{
    return expand(scope, text, size, to, 0);
}
