/* The instructions of a Dockerfile, and their words. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/dockerfile_internal.h"

enum { HEREDOC_WORD = 64 };

/* The next physical line without its newline and outer white space; false at
 * the end. */
static bool next_line(struct docker_lines *lines, const char **line, size_t *length)
{
    if (lines->at >= lines->end)
        return false;
    const char *newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    const char *stop = newline ? newline : lines->end;
    *line = lines->at;
    lines->at = newline ? newline + 1 : lines->end;
    lines->line++;
    while (stop > *line && isspace((unsigned char)stop[-1]))
        stop--;
    while (*line < stop && isspace((unsigned char)**line))
        (*line)++;
    *length = (size_t)(stop - *line);
    return true;
}

/* "# escape=`" is honoured only among the directives at the very top. */
static void read_directives(struct docker_lines *lines)
{
    struct docker_lines ahead = *lines;
    const char *line;
    size_t length;
    while (next_line(&ahead, &line, &length) && length > 0 && *line == '#') {
        char key[32], value[32];
        char copy[128];
        snprintf(copy, sizeof copy, "%.*s", (int)(length < 120 ? length : 120), line);
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

int docker_next(struct docker_lines *lines, struct buf *to, struct error *err)
{
    const char *line;
    size_t length;
    bool joined = false;
    buf_clear(to);
    while (next_line(lines, &line, &length)) {
        if (length == 0 || *line == '#')
            continue;
        if (!joined)
            lines->first_line = lines->line;
        bool more = line[length - 1] == lines->escape;
        if (buf_add(to, line, more ? length - 1 : length) < 0 || (more && buf_addc(to, ' ') < 0))
            return error_set(err, EMSGSIZE, "%s:%d: the instruction is too long", lines->file,
                             lines->first_line);
        joined = true;
        if (!more)
            return 1;
    }
    return joined ? 1 : 0;
}

void docker_skip_heredocs(struct docker_lines *lines, const char *instruction)
{
    for (const char *at = strstr(instruction, "<<"); at; at = strstr(at, "<<")) {
        at += 2;
        if (*at == '<') { /* bash's here-string */
            at++;
            continue;
        }
        at += *at == '-';
        at += *at == '"' || *at == '\'';
        size_t word = docker_name(at);
        if (word == 0 || word > HEREDOC_WORD || isdigit((unsigned char)*at))
            continue;
        const char *line;
        size_t length;
        while (next_line(lines, &line, &length)) {
            if (length == word && memcmp(line, at, word) == 0)
                break;
        }
    }
}

bool docker_word(const char **at, const char **word, size_t *length)
{
    while (isspace((unsigned char)**at))
        (*at)++;
    *word = *at;
    char quote = '\0';
    int braces = 0;
    for (; **at && (quote || braces > 0 || !isspace((unsigned char)**at)); (*at)++) {
        if (**at == '\\' && quote != '\'' && (*at)[1])
            (*at)++;
        else if (quote)
            quote = **at == quote ? '\0' : quote;
        else if (**at == '"' || **at == '\'')
            quote = **at;
        else if (**at == '{' || (**at == '}' && braces > 0))
            braces += **at == '{' ? 1 : -1;
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
