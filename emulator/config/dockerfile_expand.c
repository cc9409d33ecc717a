/* Variables in the words of a Dockerfile. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/dockerfile_internal.h"

/* Patterns are tried at every place of a value, so both are short. */
enum { DEPTH_MAX = 8, PATTERN_MAX = 256, PATTERN_VALUE_MAX = 1024 };

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

/* Whether `size` bytes of the text fit the pattern. */
static bool fits(const char *pattern, const char *text, size_t size)
{
    char part[PATTERN_VALUE_MAX + 1];
    memcpy(part, text, size);
    part[size] = '\0';
    return fnmatch(pattern, part, 0) == 0;
}

/* ${NAME#p}, ${NAME##p}, ${NAME%p}, ${NAME%%p}: the value without a beginning or an end, the
 * shortest or the longest that fits. */
static int cut(const char *value, char kind, bool longest, const char *pattern, struct buf *to)
{
    size_t size = strlen(value);
    for (size_t i = 0; i <= size; i++) {
        size_t part = longest ? size - i : i;
        const char *from = kind == '#' ? value : value + size - part;
        if (!fits(pattern, from, part))
            continue;
        return kind == '#' ? buf_adds(to, value + part) : buf_add(to, value, size - part);
    }
    return buf_adds(to, value);
}

/* ${NAME/p/text} and ${NAME//p/text}: the longest that fits at each place, once or wherever. */
static int replace(const char *value, bool all, const char *pattern, const char *text,
                   struct buf *to)
{
    size_t size = strlen(value);
    bool done = false;
    for (size_t at = 0; at < size;) {
        size_t part = done && !all ? 0 : size - at;
        while (part > 0 && !fits(pattern, value + at, part))
            part--;
        int result = part ? buf_adds(to, text) : buf_addc(to, value[at]);
        if (result < 0)
            return result;
        done |= part > 0;
        at += part ? part : 1;
    }
    return 0;
}

/* What stands behind the name when that is a pattern; the operator is at `text`. */
static int expand_pattern(const struct docker_scope *scope, const char *value, const char *text,
                          size_t size, struct buf *to, int depth)
{
    char kind = *text;
    bool twice = size > 1 && text[1] == kind;
    const char *end = text + size, *slash = NULL;
    text += 1 + twice;
    if (kind == '/' && !(slash = memchr(text, '/', (size_t)(end - text))))
        return -EINVAL;
    CLEANUP_BUF struct buf pattern = BUF_INIT(PATTERN_MAX), with = BUF_INIT(PATTERN_MAX);
    int result = expand(scope, text, (size_t)((slash ? slash : end) - text), &pattern, depth + 1);
    if (result == 0 && slash)
        result = expand(scope, slash + 1, (size_t)(end - slash - 1), &with, depth + 1);
    if (result < 0 || !value)
        return result;
    if (strlen(value) > PATTERN_VALUE_MAX)
        return -EINVAL;
    return slash ? replace(value, twice, buf_text(&pattern), buf_text(&with), to)
                 : cut(value, kind, twice, buf_text(&pattern), to);
}

/* The inside of ${…}: NAME, and behind it -word, +word or ?word, each with a colon or without, or
 * a pattern. */
static int expand_braced(const struct docker_scope *scope, const char *text, size_t size,
                         struct buf *to, int depth)
{
    size_t length = docker_name(text);
    if (length >= size) {
        const char *whole = value_of(scope, text, size);
        return whole ? buf_adds(to, whole) : 0;
    }
    if (length == 0)
        return -EINVAL;
    const char *value = value_of(scope, text, length);
    if (strchr("#%/", text[length]))
        return expand_pattern(scope, value, text + length, size - length, to, depth);
    bool colon = text[length] == ':';
    char kind = text[length + colon];
    const char *word = text + length + colon + 1;
    bool set = value && (!colon || *value);
    if (!strchr("-+?", kind) || word > text + size || (kind == '?' && !set))
        return -EINVAL;
    if (kind != '+' && set)
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
