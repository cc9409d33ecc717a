/* The instructions of a Dockerfile, and their words. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/dockerfile_internal.h"

enum { HEREDOC_WORD = 64 };

struct line {
    const char *at;
    size_t size;
    size_t indent; /* white space before the text */
};

static size_t indent_of(const struct line *line)
{
    size_t size = 0;
    while (size < line->size && isspace((unsigned char)line->at[size]))
        size++;
    return size;
}

/* The next physical line without its newline and the white space before it; false at the end. */
static bool next_line(struct docker_lines *lines, struct line *line)
{
    if (lines->at >= lines->end)
        return false;
    const char *newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    const char *stop = newline ? newline : lines->end;
    *line = (struct line){.at = lines->at};
    lines->at = newline ? newline + 1 : lines->end;
    lines->line++;
    while (stop > line->at && isspace((unsigned char)stop[-1]))
        stop--;
    line->size = (size_t)(stop - line->at);
    line->indent = indent_of(line);
    return true;
}

/* Without text, or a comment. */
static bool is_empty(const struct line *line)
{
    return line->indent == line->size || line->at[line->indent] == '#';
}

/* "# escape=`" is honoured only among the directives at the very top. */
static void read_directives(struct docker_lines *lines)
{
    struct docker_lines ahead = *lines;
    struct line line;
    while (next_line(&ahead, &line) && line.size > line.indent && line.at[line.indent] == '#') {
        char key[32], value[32], copy[128];
        size_t size = line.size - line.indent;
        snprintf(copy, sizeof copy, "%.*s", (int)(size < 120 ? size : 120), line.at + line.indent);
        if (sscanf(copy, "# %31[A-Za-z] = %31s", key, value) != 2)
            return;
        if (strcasecmp(key, "escape") == 0 && (value[0] == '`' || value[0] == '\\'))
            lines->escape = value[0];
    }
}

void docker_lines_begin(struct docker_lines *lines, const char *text, size_t size, const char *file)
{
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        size -= 3;
    }
    *lines = (struct docker_lines){.file = file, .at = text, .end = text + size, .escape = '\\'};
    read_directives(lines);
}

/* Whether a line goes on in the next: it ends in one escape character, not in two. */
static bool goes_on(const struct docker_lines *lines, const struct line *line)
{
    const char *end = line->at + line->size;
    return end[-1] == lines->escape && (line->size < 2 || end[-2] != lines->escape);
}

int docker_next(struct docker_lines *lines, struct buf *to, struct error *err)
{
    struct line line;
    bool joined = false;
    buf_clear(to);
    while (next_line(lines, &line)) {
        if (is_empty(&line))
            continue;
        if (!joined) {
            lines->first_line = lines->line;
            lines->first_column = (int)line.indent + 1;
            line.at += line.indent;
            line.size -= line.indent;
        }
        bool more = goes_on(lines, &line);
        if (buf_add(to, line.at, more ? line.size - 1 : line.size) < 0)
            return error_set(err, EMSGSIZE, "%s:%d:%d: the instruction is too long", lines->file,
                             lines->first_line, lines->first_column);
        joined = true;
        if (!more)
            return 1;
    }
    return joined ? 1 : 0;
}

/* The word that ends a here-document, when `text` begins one: digits, <<, perhaps a dash, and the
 * word, perhaps in quotes. Docker takes nothing else in the same word of the shell, so 1<<x and
 * <<<x are none. */
static bool heredoc_word(const char *text, size_t size, char to[HEREDOC_WORD + 1], bool *tabs)
{
    const char *end = text + size;
    while (text < end && isdigit((unsigned char)*text))
        text++;
    if (end - text < 3 || memcmp(text, "<<", 2) != 0)
        return false;
    text += 2;
    *tabs = *text == '-';
    text += *tabs;
    if (end - text >= 2 && (*text == '"' || *text == '\'') && end[-1] == *text) {
        text++;
        end--;
    }
    size = (size_t)(end - text);
    if (size == 0 || size > HEREDOC_WORD || strcspn(text, "<\"'();|&") < size)
        return false;
    memcpy(to, text, size);
    to[size] = '\0';
    return true;
}

/* Passes over one body; false when its end is missing. Only <<- takes tabs before the last word. */
static bool skip_body(struct docker_lines *lines, const char *word, bool tabs)
{
    while (lines->at < lines->end) {
        const char *newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
        const char *line = lines->at, *stop = newline ? newline : lines->end;
        lines->at = newline ? newline + 1 : lines->end;
        lines->line++;
        stop -= stop > line && stop[-1] == '\r';
        while (tabs && line < stop && *line == '\t')
            line++;
        if ((size_t)(stop - line) == strlen(word) && memcmp(line, word, strlen(word)) == 0)
            return true;
    }
    return false;
}

int docker_skip_heredocs(struct docker_lines *lines, const char *instruction, struct error *err)
{
    const char *word;
    size_t length;
    while (docker_word(&instruction, lines->escape, &word, &length)) {
        char end[HEREDOC_WORD + 1];
        bool tabs;
        if (heredoc_word(word, length, end, &tabs) && !skip_body(lines, end, tabs))
            return error_set(err, EINVAL, "%s:%d:%d: the here-document %s does not end",
                             lines->file, lines->first_line, lines->first_column, end);
    }
    return 0;
}

bool docker_word(const char **at, char escape, const char **word, size_t *length)
{
    while (isspace((unsigned char)**at))
        (*at)++;
    *word = *at;
    char quote = '\0';
    int braces = 0;
    for (; **at && (quote || braces > 0 || !isspace((unsigned char)**at)); (*at)++) {
        char c = **at;
        if (c == escape && quote != '\'' && (*at)[1])
            (*at)++;
        else if (quote)
            quote = c == quote ? '\0' : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '{' && (braces > 0 || (*at > *word && (*at)[-1] == '$')))
            braces++;
        else if (c == '}' && braces > 0)
            braces--;
    }
    *length = (size_t)(*at - *word);
    return *length > 0;
}

size_t docker_name(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}
