/* How the commands print: shell words, durations, tables, messages. */
#ifndef SANDPIT_CLI_TEXT_H
#define SANDPIT_CLI_TEXT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"

/* All words, quoted for a shell and parted by spaces. */
int text_quote_all(struct buf *to, char **words, int count);

/* "850ms", "42s", "9m 58s", "2h 5m", "3d 4h". Negative counts as 0. */
void text_duration(int64_t ms, char to[32]);
/* A time that the emulator gave, as ISO text or as milliseconds; -1 when it is neither. */
int64_t text_time(const json_t *value);

enum { TABLE_COLUMNS_MAX = 12, TABLE_CELL = 80 };

/* Rows of at most TABLE_COLUMNS_MAX cells; printed with columns as wide as their widest cell. */
struct table {
    size_t columns;
    size_t rows;
    char (*cells)[TABLE_CELL]; /* rows * columns */
};
#define CLEANUP_TABLE __attribute__((cleanup(table_free)))
/* Adds a row; NULL cells print as "-". Control characters are replaced: the texts may come from
 * inside a sandbox. */
int table_add(struct table *table, const char *const *cells);
void table_print(const struct table *table, FILE *to);
void table_free(struct table *table);

/* JSON as it came, indented, with a newline. */
void text_json(const json_t *value);
/* "sandpit ps: text" on stderr; returns `code`. */
int text_fail(const char *command, const struct error *err, int code);

#endif
