#include "config/toml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/toml_internal.h"

enum { STRING_BYTES_MAX = 1 << 20 };

int toml_error(struct toml *toml, size_t at, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    struct place place = place_at(toml->text, at < toml->size ? at : toml->size);
    return error_set(toml->err, EINVAL, "%s:%d:%d: %s", toml->file, place.line, place.column, what);
}

char toml_peek(const struct toml *toml, size_t ahead)
{
    return ahead < toml->size - toml->at ? toml->text[toml->at + ahead] : '\0';
}

void toml_spaces(struct toml *toml)
{
    while (toml_peek(toml, 0) == ' ' || toml_peek(toml, 0) == '\t')
        toml->at++;
}

/* The comment here, if there is one. */
static int skip_comment(struct toml *toml)
{
    if (toml_peek(toml, 0) != '#')
        return 0;
    for (; toml->at < toml->size && toml->text[toml->at] != '\n'; toml->at++) {
        unsigned char c = (unsigned char)toml->text[toml->at];
        if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7F)
            return toml_error(toml, toml->at, "a control character in a comment");
    }
    return 0;
}

static bool skip_newline(struct toml *toml)
{
    size_t size = toml_peek(toml, 0) == '\r' ? 2 : 1;
    if (toml_peek(toml, size - 1) != '\n')
        return false;
    toml->at += size;
    return true;
}

int toml_blank(struct toml *toml)
{
    do {
        toml_spaces(toml);
        if (skip_comment(toml) < 0)
            return -EINVAL;
    } while (skip_newline(toml));
    return 0;
}

/* Nodes. */

static void node_free(struct toml_node *node)
{
    while (node) {
        struct toml_node *next = node->next;
        node_free(node->first);
        json_decref(node->scalar);
        free(node->key);
        free(node);
        node = next;
    }
}

static void node_cleanup(struct toml_node **node)
{
    node_free(*node);
}
#define CLEANUP_NODE __attribute__((cleanup(node_cleanup)))

/* Takes the key, also when there is no memory. */
static struct toml_node *node_add(struct toml *toml, struct toml_node *parent, char *key, size_t at,
                                  enum toml_kind kind)
{
    struct toml_node *node =
        toml->nodes++ < TOML_NODES_MAX ? calloc(1, sizeof *node) : (void *)NULL;
    if (!node) {
        free(key);
        toml_error(toml, at,
                   toml->nodes > TOML_NODES_MAX ? "there are too many values here"
                                                : "out of memory");
        return NULL;
    }
    *node = (struct toml_node){.key = key, .at = at, .kind = kind};
    if (parent && parent->last)
        parent->last->next = node;
    else if (parent)
        parent->first = node;
    if (parent)
        parent->last = node;
    return node;
}

static struct toml_node *node_find(const struct toml_node *table, const char *key)
{
    for (struct toml_node *node = table->first; node; node = node->next) {
        if (strcmp(node->key, key) == 0)
            return node;
    }
    return NULL;
}

/* An array of tables stands for its last element where a key leads through it.
 */
static struct toml_node *through(struct toml_node *node)
{
    bool tables = node->kind == TOML_ARRAY && !node->closed && node->last;
    return tables ? node->last : node;
}

/* Values. */

static int read_value(struct toml *toml, struct toml_node *parent, char *key, size_t at);
static int read_pair(struct toml *toml, struct toml_node *table);

static int read_array(struct toml *toml, struct toml_node *array)
{
    size_t start = toml->at++;
    for (;;) {
        if (toml_blank(toml) < 0)
            return -EINVAL;
        if (toml_peek(toml, 0) == ']')
            break;
        int result = read_value(toml, array, NULL, toml->at);
        if (result < 0 || toml_blank(toml) < 0)
            return -EINVAL;
        if (toml_peek(toml, 0) == ',')
            toml->at++;
        else if (toml_peek(toml, 0) != ']')
            return toml_error(toml, toml->at < toml->size ? toml->at : start,
                              toml->at < toml->size ? "a comma or ] is expected"
                                                    : "the array does not end");
    }
    toml->at++;
    return 0;
}

/* Newlines and a last comma are taken too, as TOML 1.1 has it. */
static int read_inline(struct toml *toml, struct toml_node *table)
{
    size_t start = toml->at++;
    for (;;) {
        if (toml_blank(toml) < 0)
            return -EINVAL;
        if (toml_peek(toml, 0) == '}')
            break;
        if (read_pair(toml, table) < 0 || toml_blank(toml) < 0)
            return -EINVAL;
        if (toml_peek(toml, 0) == ',')
            toml->at++;
        else if (toml_peek(toml, 0) != '}')
            return toml_error(toml, toml->at < toml->size ? toml->at : start,
                              toml->at < toml->size ? "a comma or } is expected"
                                                    : "the table does not end");
    }
    toml->at++;
    return 0;
}

static int read_text(struct toml *toml, struct toml_node *node)
{
    CLEANUP_BUF struct buf text = BUF_INIT(STRING_BYTES_MAX);
    int result = toml_string(toml, &text);
    if (result < 0)
        return result;
    node->scalar = text.error ? NULL : json_stringn(buf_text(&text), text.size);
    return node->scalar ? 0 : toml_error(toml, node->at, "the string is not UTF-8");
}

/* Everything inside a value was written with it: no header may add to it. */
static void close_all(struct toml_node *node)
{
    node->closed = true;
    for (struct toml_node *child = node->first; child; child = child->next)
        close_all(child);
}

/* Takes the key. */
static int read_value(struct toml *toml, struct toml_node *parent, char *key, size_t at)
{
    char c = toml_peek(toml, 0);
    enum toml_kind kind = c == '[' ? TOML_ARRAY : c == '{' ? TOML_TABLE : TOML_SCALAR;
    struct toml_node *node = node_add(toml, parent, key, at, kind);
    if (!node)
        return -EINVAL;
    if (++toml->depth > TOML_DEPTH_MAX)
        return toml_error(toml, at, "this is nested too deeply");
    int result = 0;
    if (kind == TOML_ARRAY)
        result = read_array(toml, node);
    else if (kind == TOML_TABLE)
        result = read_inline(toml, node);
    else if (c == '"' || c == '\'')
        result = read_text(toml, node);
    else
        result = toml_scalar(toml, &node->scalar);
    toml->depth--;
    if (result == 0)
        close_all(node);
    return result;
}

/* Keys and tables. */

/* The table that a dotted key leads through. */
static struct toml_node *enter_dotted(struct toml *toml, struct toml_node *table, char *key,
                                      size_t at)
{
    struct toml_node *node = node_find(table, key);
    if (!node) {
        node = node_add(toml, table, key, at, TOML_TABLE);
        if (node)
            node->dotted = true;
        return node;
    }
    if (node->kind != TOML_TABLE || node->closed || node->header) {
        toml_error(toml, at, "%.100s is defined already", key);
        node = NULL;
    }
    free(key);
    return node;
}

/* Whether a dot and another part follow. */
static bool next_part(struct toml *toml)
{
    toml_spaces(toml);
    if (toml_peek(toml, 0) != '.')
        return false;
    toml->at++;
    toml_spaces(toml);
    return true;
}

/* key = value, with the key perhaps dotted. */
static int read_pair(struct toml *toml, struct toml_node *table)
{
    int parts = 0;
    for (;;) {
        CLEANUP_FREE char *key = NULL;
        size_t at = toml->at;
        int result = toml_key_part(toml, &key);
        if (result < 0)
            return result;
        if (next_part(toml)) {
            if (++parts > TOML_DEPTH_MAX)
                return toml_error(toml, at, "this is nested too deeply");
            table = enter_dotted(toml, table, steal_pointer(&key), at);
            if (!table)
                return -EINVAL;
            continue;
        }
        if (toml_peek(toml, 0) != '=')
            return toml_error(toml, toml->at, "= is expected after the key %.100s", key);
        toml->at++;
        toml_spaces(toml);
        if (node_find(table, key))
            return toml_error(toml, at, "%.100s is defined already", key);
        return read_value(toml, table, steal_pointer(&key), toml->at);
    }
}

/* The table that a part of a header leads through. */
static struct toml_node *enter_header(struct toml *toml, struct toml_node *table, char *key,
                                      size_t at)
{
    struct toml_node *node = node_find(table, key);
    if (!node)
        return node_add(toml, table, key, at, TOML_TABLE);
    node = through(node);
    if (node->kind != TOML_TABLE || node->closed) {
        toml_error(toml, at, "%.100s is defined already, and not as a table", key);
        node = NULL;
    }
    free(key);
    return node;
}

/* [key]: takes the key. */
static struct toml_node *begin_table(struct toml *toml, struct toml_node *table, char *key,
                                     size_t at)
{
    struct toml_node *node = node_find(table, key);
    if (node && (node->kind != TOML_TABLE || node->closed || node->header || node->dotted)) {
        toml_error(toml, at, "%.100s is defined already", key);
        free(key);
        return NULL;
    }
    if (node)
        free(key);
    else
        node = node_add(toml, table, key, at, TOML_TABLE);
    if (node) {
        node->header = true;
        node->at = at;
    }
    return node;
}

/* [[key]]: takes the key. */
static struct toml_node *begin_element(struct toml *toml, struct toml_node *table, char *key,
                                       size_t at)
{
    struct toml_node *array = node_find(table, key);
    if (array && (array->kind != TOML_ARRAY || array->closed)) {
        toml_error(toml, at, "%.100s is defined already, and not with [[…]]", key);
        free(key);
        return NULL;
    }
    if (array)
        free(key);
    else
        array = node_add(toml, table, key, at, TOML_ARRAY);
    struct toml_node *node = array ? node_add(toml, array, NULL, at, TOML_TABLE) : NULL;
    if (node)
        node->header = true;
    return node;
}

/* [a.b] or [[a.b]]: the table that the following lines fill, or NULL. */
static struct toml_node *read_header(struct toml *toml, struct toml_node *root)
{
    struct toml_node *table = root;
    bool element = toml_peek(toml, 1) == '[';
    toml->at += element ? 2 : 1;
    toml_spaces(toml);
    for (int parts = 0; table; parts++) {
        CLEANUP_FREE char *key = NULL;
        size_t at = toml->at;
        if (toml_key_part(toml, &key) < 0)
            return NULL;
        if (parts > TOML_DEPTH_MAX) {
            toml_error(toml, at, "this is nested too deeply");
            return NULL;
        }
        if (next_part(toml)) {
            table = enter_header(toml, table, steal_pointer(&key), at);
            continue;
        }
        if (toml_peek(toml, 0) != ']' || (element && toml_peek(toml, 1) != ']')) {
            toml_error(toml, toml->at, element ? "]] is expected" : "] is expected");
            return NULL;
        }
        toml->at += element ? 2 : 1;
        return element ? begin_element(toml, table, steal_pointer(&key), at)
                       : begin_table(toml, table, steal_pointer(&key), at);
    }
    return NULL;
}

static int end_line(struct toml *toml)
{
    toml_spaces(toml);
    if (skip_comment(toml) < 0)
        return -EINVAL;
    if (toml->at < toml->size && !skip_newline(toml))
        return toml_error(toml, toml->at, "the line should end here");
    return 0;
}

static int read_document(struct toml *toml, struct toml_node *root)
{
    struct toml_node *table = root;
    while (toml_blank(toml) == 0) {
        if (toml->at >= toml->size)
            return 0;
        if (toml_peek(toml, 0) == '[') {
            table = read_header(toml, root);
            if (!table)
                return -EINVAL;
        } else if (read_pair(toml, table) < 0) {
            return -EINVAL;
        }
        if (end_line(toml) < 0)
            return -EINVAL;
    }
    return -EINVAL;
}

static struct toml_node *read_tree(const char *text, size_t size, const char *file,
                                   struct error *err)
{
    struct toml toml = {.text = text, .size = size, .file = file, .err = err};
    CLEANUP_NODE struct toml_node *root = node_add(&toml, NULL, NULL, 0, TOML_TABLE);
    if (!root)
        return NULL;
    const char *nul = size ? memchr(text, '\0', size) : NULL;
    if (nul) {
        toml_error(&toml, (size_t)(nul - text), "a NUL byte in the file");
        return NULL;
    }
    return read_document(&toml, root) < 0 ? NULL : steal_pointer(&root);
}

static json_t *to_json(const struct toml_node *node)
{
    if (node->kind == TOML_SCALAR)
        return json_incref(node->scalar);
    json_t *value = node->kind == TOML_TABLE ? json_object() : json_array();
    for (const struct toml_node *child = node->first; child && value; child = child->next) {
        json_t *inner = to_json(child);
        int result = node->kind == TOML_TABLE ? json_object_set_new(value, child->key, inner)
                                              : json_array_append_new(value, inner);
        if (result < 0) {
            json_decref(value);
            return NULL;
        }
    }
    return value;
}

static void skip_mark(const char **text, size_t *size)
{
    if (*size >= 3 && memcmp(*text, "\xEF\xBB\xBF", 3) == 0) {
        *text += 3;
        *size -= 3;
    }
}

json_t *toml_parse(const char *text, size_t size, const char *file, struct error *err)
{
    skip_mark(&text, &size);
    CLEANUP_NODE struct toml_node *root = read_tree(text, size, file, err);
    if (!root)
        return NULL;
    json_t *value = to_json(root);
    if (!value)
        error_set(err, EINVAL, "%s:1:1: a key is not UTF-8", file);
    return value;
}

struct place toml_locate(const char *text, size_t size, const struct place_step *path, size_t steps)
{
    struct error err = {0};
    skip_mark(&text, &size);
    CLEANUP_NODE struct toml_node *root = read_tree(text, size, "", &err);
    const struct toml_node *node = root;
    for (size_t i = 0; i < steps && node; i++) {
        size_t index = path[i].index;
        if (path[i].name) {
            node = node->kind == TOML_TABLE ? node_find(node, path[i].name) : NULL;
            continue;
        }
        node = node->kind == TOML_ARRAY ? node->first : NULL;
        while (node && index-- > 0)
            node = node->next;
    }
    return node ? place_at(text, node->at) : (struct place){0, 0};
}
