#include "cli/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/quote.h"
#include "clock/clock.h"

int text_quote_all(struct buf *to, char **words, int count)
{
    int result = 0;
    for (int i = 0; i < count && result == 0; i++) {
        if (i > 0)
            result = buf_addc(to, ' ');
        if (result == 0)
            result = quote_word(to, words[i]);
    }
    return result;
}

void text_duration(int64_t ms, char to[32])
{
    static const struct {
        int64_t ms;
        const char *name;
        const char *below;
        int64_t below_ms;
    } units[] = {
        {86400000, "d", "h", 3600000}, {3600000, "h", "m", 60000}, {60000, "m", "s", 1000}};
    ms = ms < 0 ? 0 : ms;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ms < units[i].ms)
            continue;
        long long big = ms / units[i].ms;
        long long small = ms % units[i].ms / units[i].below_ms;
        if (small)
            snprintf(to, 32, "%lld%s %lld%s", big, units[i].name, small, units[i].below);
        else
            snprintf(to, 32, "%lld%s", big, units[i].name);
        return;
    }
    snprintf(to, 32, "%lld%s", (long long)(ms < 1000 ? ms : ms / 1000), ms < 1000 ? "ms" : "s");
}

int64_t text_time(const json_t *value)
{
    if (json_is_number(value))
        return (int64_t)json_number_value(value);
    return json_is_string(value) ? clock_parse_time(json_string_value(value)) : -1;
}

int table_add(struct table *table, const char *const *cells)
{
    void *more = reallocarray(table->cells, (table->rows + 1) * table->columns, TABLE_CELL);
    if (!more)
        return -ENOMEM;
    table->cells = more;
    for (size_t i = 0; i < table->columns; i++) {
        char *cell = table->cells[table->rows * table->columns + i];
        snprintf(cell, TABLE_CELL, "%s", cells[i] && *cells[i] ? cells[i] : "-");
        for (; *cell; cell++) {
            if ((unsigned char)*cell < 0x20 || *cell == 0x7F)
                *cell = '?';
        }
    }
    table->rows++;
    return 0;
}

/* Columns on the screen: UTF-8 continuation bytes take none. */
static int width_of(const char *cell)
{
    int width = 0;
    for (; *cell; cell++)
        width += ((unsigned char)*cell & 0xC0) != 0x80;
    return width;
}

void table_print(const struct table *table, FILE *to)
{
    int width[TABLE_COLUMNS_MAX] = {0};
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        int wide = width_of(table->cells[i]);
        if (wide > width[i % table->columns])
            width[i % table->columns] = wide;
    }
    bool colours = log_colours(fileno(to));
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        const char *cell = table->cells[i];
        bool last = (i + 1) % table->columns == 0;
        bool head = colours && i < table->columns;
        fprintf(to, "%s%s%s%*s", head ? "\033[1m" : "", cell, head ? "\033[0m" : "",
                last ? 0 : width[i % table->columns] - width_of(cell) + 2, "");
        if (last)
            fputc('\n', to);
    }
}

void table_free(struct table *table)
{
    free(table->cells);
    table->cells = NULL;
    table->rows = 0;
}

void text_json(const json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    putchar('\n');
}

int text_fail(const char *command, const struct error *err, int code)
{
    bool colours = log_colours(2);
    fprintf(stderr, "%ssandpit %s:%s %s\n", colours ? "\033[31m" : "", command,
            colours ? "\033[0m" : "", err->text);
    return code;
}
