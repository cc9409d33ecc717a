#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonstr.h"

/* ---- Writing ---- */

/* What stands for a member of the outermost object. */
struct content {
    const char *key;
    bool quoted; /* it is the inside of a string */
    int (*write)(void *arg, struct buf *to);
    void *arg;
};

static int write_value(struct buf *to, const json_t *value, const struct content *content);

static int write_string(struct buf *to, const char *text, size_t size)
{
    int error = buf_addc(to, '"');
    if (!error)
        error = jsonstr_escape(to, text, size);
    return error ? error : buf_addc(to, '"');
}

/* The fewest digits that read back as the same number, and always a point or an exponent, so that
 * it reads back as a real. */
static int write_real(struct buf *to, double value)
{
    if (!isfinite(value))
        return buf_adds(to, "null");
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    int error = buf_adds(to, text);
    return error || strpbrk(text, ".e") ? error : buf_adds(to, ".0");
}

static int write_array(struct buf *to, const json_t *array)
{
    int error = buf_addc(to, '[');
    size_t count = json_array_size(array);
    for (size_t i = 0; !error && i < count; i++) {
        if (i > 0)
            error = buf_addc(to, ',');
        if (!error)
            error = write_value(to, json_array_get(array, i), NULL);
    }
    return error ? error : buf_addc(to, ']');
}

static int write_content(struct buf *to, const struct content *content)
{
    if (!content->quoted)
        return content->write(content->arg, to);
    int error = buf_addc(to, '"');
    if (!error)
        error = content->write(content->arg, to);
    return error ? error : buf_addc(to, '"');
}

static int write_object(struct buf *to, const json_t *object, const struct content *content)
{
    /* jansson's iterators take a pointer to what they will not change. */
    json_t *same = (json_t *)object;
    int error = buf_addc(to, '{');
    const char *comma = "";
    for (void *at = json_object_iter(same); at && !error; at = json_object_iter_next(same, at)) {
        const char *key = json_object_iter_key(at);
        error = buf_adds(to, comma);
        comma = ",";
        if (!error)
            error = write_string(to, key, strlen(key));
        if (!error)
            error = buf_addc(to, ':');
        if (error)
            break;
        if (content && strcmp(key, content->key) == 0)
            error = write_content(to, content);
        else
            error = write_value(to, json_object_iter_value(at), NULL);
    }
    return error ? error : buf_addc(to, '}');
}

static int write_value(struct buf *to, const json_t *value, const struct content *content)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return write_object(to, value, content);
    case JSON_ARRAY:
        return write_array(to, value);
    case JSON_STRING:
        return write_string(to, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return buf_addf(to, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    case JSON_REAL:
        return write_real(to, json_real_value(value));
    case JSON_TRUE:
        return buf_adds(to, "true");
    case JSON_FALSE:
        return buf_adds(to, "false");
    case JSON_NULL:
        return buf_adds(to, "null");
    }
    return -EINVAL;
}

int json_write(struct buf *to, const json_t *value, int (*content)(void *arg, struct buf *to),
               void *arg)
{
    struct content hook = {.key = "content", .quoted = true, .write = content, .arg = arg};
    return write_value(to, value, content ? &hook : NULL);
}

static int write_text(void *arg, struct buf *to)
{
    const struct buf *text = arg;
    return buf_add(to, text->data, text->size);
}

int json_write_member(struct buf *to, const json_t *object, const char *key, const struct buf *text)
{
    struct content hook = {.key = key, .write = write_text, .arg = (void *)text};
    return write_value(to, object, &hook);
}

/* ---- Cutting ---- */

struct scan {
    const char *at, *end;
};

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
}

/* Takes the character when it comes next, spaces aside. */
static bool take(struct scan *scan, char c)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/* Steps over a string literal and gives its inside. */
static bool take_string(struct scan *scan, const char **inside, size_t *size)
{
    if (!take(scan, '"'))
        return false;
    long length = jsonstr_end(scan->at, (size_t)(scan->end - scan->at));
    if (length < 0)
        return false;
    *inside = scan->at;
    *size = (size_t)length;
    scan->at += length + 1;
    return true;
}

/* Steps over an object or array without a look at its grammar: it stays in what jansson gets. */
static bool skip_nested(struct scan *scan)
{
    int depth = 0;
    const char *inside;
    size_t size;
    while (scan->at < scan->end) {
        switch (*scan->at) {
        case '"':
            if (!take_string(scan, &inside, &size))
                return false;
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            if (--depth == 0) {
                scan->at++;
                return true;
            }
            break;
        }
        scan->at++;
    }
    return false;
}

/* Steps over a value that is not a string. */
static bool skip_value(struct scan *scan)
{
    if (scan->at == scan->end)
        return false;
    if (*scan->at == '{' || *scan->at == '[')
        return skip_nested(scan);
    const char *start = scan->at;
    while (scan->at < scan->end && !strchr(" \t\r\n,]}\"{[:", *scan->at))
        scan->at++;
    return scan->at > start;
}

/* What is looked for, and the literal found there: from its opening quote to past its closing one.
 */
struct wanted {
    const char *member;
    int index;
    size_t least;
    const char *from, *to;
    int seen; /* members of that name */
};

/* Reads the key of an object's member; *here says whether its value is the wanted one. A key with
 * an escape may be any name, the wanted one as well, so it is left to jansson. */
static bool scan_key(struct scan *scan, struct wanted *wanted, bool *here)
{
    const char *key;
    size_t size;
    if (!take_string(scan, &key, &size) || memchr(key, '\\', size) || !take(scan, ':'))
        return false;
    *here = size == strlen(wanted->member) && memcmp(key, wanted->member, size) == 0;
    wanted->seen += *here;
    return true;
}

/* One member or element, the `index`th. */
static bool scan_entry(struct scan *scan, struct wanted *wanted, int index)
{
    bool here = index == wanted->index;
    if (wanted->member && !scan_key(scan, wanted, &here))
        return false;
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != '"')
        return skip_value(scan);
    const char *inside;
    size_t size;
    if (!take_string(scan, &inside, &size))
        return false;
    if (here && size >= wanted->least) {
        wanted->from = inside - 1;
        wanted->to = scan->at;
    }
    return true;
}

/* The whole text; false when it is not plainly well-formed. */
static bool scan_text(struct scan *scan, struct wanted *wanted)
{
    char close = wanted->member ? '}' : ']';
    if (!take(scan, wanted->member ? '{' : '['))
        return false;
    int index = 0;
    if (!take(scan, close)) {
        do {
            if (!scan_entry(scan, wanted, index++))
                return false;
        } while (take(scan, ','));
        if (!take(scan, close))
            return false;
    }
    skip_space(scan);
    return scan->at == scan->end;
}

int jsonstr_cut(const char *text, size_t size, const char *member, int index, size_t least,
                const char **inside, size_t *inside_size, char **rest)
{
    struct scan scan = {.at = text, .end = text + size};
    struct wanted wanted = {.member = member, .index = index, .least = least};
    /* Of two members with one name jansson keeps the last. */
    if (!scan_text(&scan, &wanted) || !wanted.from || wanted.seen > 1)
        return 0;
    size_t before = (size_t)(wanted.from - text), after = (size_t)(text + size - wanted.to);
    char *copy = malloc(before + after + sizeof "null");
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, before);
    memcpy(copy + before, "null", 4);
    memcpy(copy + before + 4, wanted.to, after);
    copy[before + 4 + after] = '\0';
    *inside = wanted.from + 1;
    *inside_size = (size_t)(wanted.to - wanted.from) - 2;
    *rest = copy;
    return 1;
}
