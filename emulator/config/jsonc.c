#include "config/jsonc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char byte_order_mark[] = "\xEF\xBB\xBF";

static void skip_mark(const char **text, size_t *size)
{
    size_t length = sizeof byte_order_mark - 1;
    if (*size >= length && memcmp(*text, byte_order_mark, length) == 0) {
        *text += length;
        *size -= length;
    }
}

/* The offset after the string that starts at `at`, or size when it does not
 * end. */
static size_t string_end(const char *text, size_t size, size_t at)
{
    for (at++; at < size && text[at] != '"'; at++) {
        if (text[at] == '\\')
            at++;
    }
    return at < size ? at + 1 : size;
}

/* The offset after the comment at `at`; `at` itself when there is none; size +
 * 1 when it does not end. */
static size_t comment_end(const char *text, size_t size, size_t at)
{
    if (at + 1 >= size || text[at] != '/')
        return at;
    if (text[at + 1] == '/') {
        const char *newline = memchr(text + at, '\n', size - at);
        return newline ? (size_t)(newline - text) : size;
    }
    if (text[at + 1] != '*')
        return at;
    const char *close = memmem(text + at + 2, size - at - 2, "*/", 2);
    return close ? (size_t)(close - text) + 2 : size + 1;
}

static void blank(char *text, size_t from, size_t to)
{
    for (; from < to; from++) {
        if (text[from] != '\n')
            text[from] = ' ';
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Blanks comments, then commas that only white space parts from a closing
 * bracket. A comma directly after an opening bracket or another comma stays,
 * for jansson to refuse. */
static int blank_extras(char *text, size_t size, const char *file, struct error *err)
{
    size_t comma = size; /* the last one, while nothing but space and comments followed it */
    char before = '\0';  /* the last significant character before that comma */
    char last = '\0';
    for (size_t at = 0; at < size;) {
        size_t after = comment_end(text, size, at);
        if (after > size) {
            struct place place = place_at(text, at);
            return error_set(err, EINVAL, "%s:%d:%d: the comment does not end", file, place.line,
                             place.column);
        }
        if (after > at) {
            blank(text, at, after);
            at = after;
            continue;
        }
        char c = text[at];
        if (is_space(c)) {
            at++;
            continue;
        }
        if ((c == '}' || c == ']') && comma < size && before != '\0' && !strchr("[{,:", before))
            text[comma] = ' ';
        comma = c == ',' ? at : size;
        if (c == ',')
            before = last;
        last = c;
        at = c == '"' ? string_end(text, size, at) : at + 1;
    }
    return 0;
}

/* jansson counts up to the end of what it stumbled over, which it names when it is short; people
 * look for the beginning. */
static int column_of(const json_error_t *problem)
{
    const char *near = strstr(problem->text, " near '");
    int column = problem->column;
    if (!near || strchr(near, '\n'))
        return column > 0 ? column : 1;
    near += strlen(" near '");
    for (const char *at = near + (*near != '\0'); *at && at[1]; at++)
        column -= ((unsigned char)*at & 0xC0) != 0x80;
    return column > 0 ? column : 1;
}

json_t *jsonc_parse(const char *text, size_t size, const char *file, struct error *err)
{
    skip_mark(&text, &size);
    CLEANUP_FREE char *copy = malloc(size + 1);
    if (!copy) {
        error_set(err, ENOMEM, "%s: out of memory", file);
        return NULL;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (blank_extras(copy, size, file, err) < 0)
        return NULL;
    json_error_t problem;
    json_t *value = json_loadb(copy, size, 0, &problem);
    if (!value)
        error_set(err, EINVAL, "%s:%d:%d: %s", file, problem.line, column_of(&problem),
                  problem.text);
    return value;
}

/* A walk over text that is known to be well-formed. */
struct walk {
    const char *text;
    size_t size;
    size_t at;
};

static char walk_peek(struct walk *walk)
{
    while (walk->at < walk->size) {
        size_t after = comment_end(walk->text, walk->size, walk->at);
        if (after > walk->at)
            walk->at = after;
        else if (is_space(walk->text[walk->at]))
            walk->at++;
        else
            return walk->text[walk->at];
    }
    return '\0';
}

/* Passes over one value. Brackets are counted; strings are the only place where
 * they may hide. */
static void walk_value(struct walk *walk)
{
    int depth = 0;
    for (char c; (c = walk_peek(walk)) != '\0';) {
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return;
        if (c == '"') {
            walk->at = string_end(walk->text, walk->size, walk->at);
        } else {
            depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
            walk->at++;
        }
    }
}

/* Compares the raw member name; names with escapes are not looked for. */
static bool walk_name_is(const struct walk *walk, size_t end, const char *name)
{
    size_t length = end - walk->at - 2;
    return length == strlen(name) && memcmp(walk->text + walk->at + 1, name, length) == 0;
}

/* From an opening bracket to the value of the step; false when it is not there.
 */
static bool walk_step(struct walk *walk, const struct place_step *step)
{
    if (walk_peek(walk) != (step->name ? '{' : '['))
        return false;
    walk->at++;
    size_t found = walk->size;
    size_t index = 0;
    for (char c; (c = walk_peek(walk)) != '\0' && c != '}' && c != ']'; index++) {
        bool wanted = !step->name && index == step->index;
        if (step->name) {
            size_t end = string_end(walk->text, walk->size, walk->at);
            wanted = end >= walk->at + 2 && walk_name_is(walk, end, step->name);
            walk->at = end;
            if (walk_peek(walk) == ':')
                walk->at++;
            walk_peek(walk);
        }
        if (wanted)
            found = walk->at;
        walk_value(walk);
        if (walk_peek(walk) == ',')
            walk->at++;
    }
    walk->at = found;
    return found < walk->size;
}

struct place jsonc_locate(const char *text, size_t size, const struct place_step *path,
                          size_t steps)
{
    skip_mark(&text, &size);
    struct walk walk = {.text = text, .size = size};
    walk_peek(&walk);
    for (size_t i = 0; i < steps; i++) {
        if (!walk_step(&walk, &path[i]))
            return (struct place){0, 0};
    }
    return place_at(text, walk.at);
}
