/* What the files of the TOML reader share. */
#ifndef SANDPIT_CONFIG_TOML_INTERNAL_H
#define SANDPIT_CONFIG_TOML_INTERNAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "config/toml.h"

enum toml_kind { TOML_SCALAR, TOML_TABLE, TOML_ARRAY };

struct toml_node {
    struct toml_node *next, *first, *last;
    char *key; /* NULL in arrays */
    size_t at; /* where it stands */
    enum toml_kind kind;
    json_t *scalar;
    bool closed; /* written as a value: nothing can be added later */
    bool header; /* a table whose [header] was there */
    bool dotted; /* a table made by a dotted key, which no header may name */
};

struct toml {
    const char *text;
    size_t size, at;
    const char *file;
    struct error *err;
    int depth;
    size_t nodes;
};

enum { TOML_DEPTH_MAX = 64, TOML_NODES_MAX = 10000 };

/* "file:line:column: what", for the place `at`. */
int toml_error(struct toml *toml, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The byte at an offset from here; '\0' past the end (a NUL in the text is
 * refused early). */
char toml_peek(const struct toml *toml, size_t ahead);
void toml_spaces(struct toml *toml);
/* White space, newlines and comments. */
int toml_blank(struct toml *toml);

/* A string in any of the four ways to write it. */
int toml_string(struct toml *toml, struct buf *to);
/* One part of a key; malloc'd into *key. */
int toml_key_part(struct toml *toml, char **key);
/* A number, boolean or date into a new reference. */
int toml_scalar(struct toml *toml, json_t **to);

#endif
