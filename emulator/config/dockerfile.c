#include "config/dockerfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { STAGES_MAX = 64, ARGS_MAX = 64, LINE_MAX_BYTES = 1 << 16, HEREDOC_WORD = 64 };

struct stage {
    char name[128];
    char image[DOCKERFILE_IMAGE_MAX];
};

struct arg {
    char name[128];
    char value[DOCKERFILE_IMAGE_MAX];
};

struct reader {
    const char *file;
    const char *at;
    const char *end;
    int line;       /* of the text at `at` */
    int first_line; /* of the instruction last read */
    char escape;
    struct stage stages[STAGES_MAX];
    size_t stage_count;
    struct arg args[ARGS_MAX];
    size_t arg_count;
};

/* The next physical line without its newline (and carriage return); false at the end. */
static bool next_line(struct reader *reader, const char **line, size_t *length)
{
    if (reader->at >= reader->end)
        return false;
    const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
    const char *stop = newline ? newline : reader->end;
    *line = reader->at;
    reader->at = newline ? newline + 1 : reader->end;
    reader->line++;
    while (stop > *line && isspace((unsigned char)stop[-1]))
        stop--;
    while (*line < stop && isspace((unsigned char)**line))
        (*line)++;
    *length = (size_t)(stop - *line);
    return true;
}

/* "# escape=`" is honoured only among the directives at the very top. */
static void read_directives(struct reader *reader)
{
    struct reader ahead = {.at = reader->at, .end = reader->end};
    const char *line;
    size_t length;
    while (next_line(&ahead, &line, &length) && length > 0 && *line == '#') {
        char key[32], value[32];
        char copy[128];
        snprintf(copy, sizeof copy, "%.*s", (int)(length < 120 ? length : 120), line);
        if (sscanf(copy, "# %31[A-Za-z] = %31s", key, value) != 2)
            return;
        if (strcasecmp(key, "escape") == 0 && (value[0] == '`' || value[0] == '\\'))
            reader->escape = value[0];
    }
}

/* One instruction: physical lines joined at the escape character, comments and empty lines left
 * out also in between. 1, 0 at the end, or an error for a line that is too long. */
static int next_instruction(struct reader *reader, struct buf *to, struct error *err)
{
    const char *line;
    size_t length;
    bool joined = false;
    buf_clear(to);
    while (next_line(reader, &line, &length)) {
        if (length == 0 || *line == '#')
            continue;
        if (!joined)
            reader->first_line = reader->line;
        bool more = line[length - 1] == reader->escape;
        if (buf_add(to, line, more ? length - 1 : length) < 0 || (more && buf_addc(to, ' ') < 0))
            return error_set(err, EMSGSIZE, "%s:%d: the instruction is too long", reader->file,
                             reader->first_line);
        joined = true;
        if (!more)
            return 1;
    }
    return joined ? 1 : 0;
}

/* Passes over the bodies of here-documents, whose lines may look like instructions. */
static void skip_heredocs(struct reader *reader, const char *instruction)
{
    for (const char *at = strstr(instruction, "<<"); at; at = strstr(at, "<<")) {
        at += 2;
        if (*at == '<') { /* bash's here-string */
            at++;
            continue;
        }
        at += *at == '-';
        at += *at == '"' || *at == '\'';
        size_t word = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
        if (word == 0 || word > HEREDOC_WORD || isdigit((unsigned char)*at))
            continue;
        const char *line;
        size_t length;
        while (next_line(reader, &line, &length)) {
            if (length == word && memcmp(line, at, word) == 0)
                break;
        }
    }
}

static const char *arg_value(const struct reader *reader, const char *name, size_t length)
{
    for (size_t i = reader->arg_count; i-- > 0;) {
        const struct arg *arg = &reader->args[i];
        if (strlen(arg->name) == length && memcmp(arg->name, name, length) == 0)
            return arg->value;
    }
    return NULL;
}

static size_t name_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}

static int expand(const struct reader *reader, const char *text, size_t size, struct buf *to,
                  int depth);

/* The inside of ${…}: NAME, NAME:-word, NAME-word, NAME:+word, NAME+word. */
static int expand_braced(const struct reader *reader, const char *text, size_t size, struct buf *to,
                         int depth)
{
    size_t length = name_length(text);
    const char *value = arg_value(reader, text, length);
    if (length >= size)
        return value ? buf_adds(to, value) : 0;
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
    return expand(reader, word, (size_t)(text + size - word), to, depth + 1);
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

/* Puts variables in and takes quotes off. -EINVAL for a form that is not known. */
static int expand(const struct reader *reader, const char *text, size_t size, struct buf *to,
                  int depth)
{
    int result = depth > 8 ? -EINVAL : 0;
    for (size_t at = 0; at < size && result == 0;) {
        char c = text[at];
        if (c == reader->escape && at + 1 < size) {
            result = buf_addc(to, text[at + 1]);
            at += 2;
        } else if (c == '"' || c == '\'') {
            at++;
        } else if (c == '$' && at + 1 < size && text[at + 1] == '{') {
            size_t close = closing_brace(text, size, at + 2);
            if (close >= size)
                return -EINVAL;
            result = expand_braced(reader, text + at + 2, close - at - 2, to, depth);
            at = close + 1;
        } else if (c == '$' && at + 1 < size && name_length(text + at + 1) > 0) {
            size_t length = name_length(text + at + 1);
            const char *value = arg_value(reader, text + at + 1, length);
            result = value ? buf_adds(to, value) : 0;
            at += 1 + length;
        } else {
            result = buf_addc(to, c);
            at++;
        }
    }
    return result;
}

/* The next word of an instruction, which ends at white space outside quotes and braces. */
static bool next_word(const char **at, const char **word, size_t *length)
{
    while (isspace((unsigned char)**at))
        (*at)++;
    *word = *at;
    char quote = '\0';
    int braces = 0;
    for (; **at && (quote || braces > 0 || !isspace((unsigned char)**at)); (*at)++) {
        if (quote)
            quote = **at == quote ? '\0' : quote;
        else if (**at == '"' || **at == '\'')
            quote = **at;
        else if (**at == '{' || (**at == '}' && braces > 0))
            braces += **at == '{' ? 1 : -1;
    }
    *length = (size_t)(*at - *word);
    return *length > 0;
}

static int expand_to(const struct reader *reader, const char *word, size_t length, char *to,
                     size_t room, struct error *err)
{
    CLEANUP_BUF struct buf text = BUF_INIT(room - 1);
    int result = expand(reader, word, length, &text, 0);
    if (result < 0)
        return error_set(err, EINVAL, "%s:%d: cannot read '%.*s'", reader->file, reader->first_line,
                         (int)(length < 200 ? length : 200), word);
    snprintf(to, room, "%s", buf_text(&text));
    return 0;
}

/* ARG before the first FROM: NAME or NAME=default, several on a line. */
static int read_arg(struct reader *reader, const char *rest, struct error *err)
{
    const char *word;
    size_t length;
    while (next_word(&rest, &word, &length)) {
        size_t name = name_length(word);
        if (name == 0 || name >= sizeof reader->args[0].name || word[name] != '=')
            continue; /* without a default it is empty unless a build gives a value */
        if (reader->arg_count == ARGS_MAX)
            return error_set(err, E2BIG, "%s:%d: more than %d ARGs before FROM", reader->file,
                             reader->first_line, ARGS_MAX);
        struct arg *arg = &reader->args[reader->arg_count];
        int result = expand_to(reader, word + name + 1, length - name - 1, arg->value,
                               sizeof arg->value, err);
        if (result < 0)
            return result;
        snprintf(arg->name, sizeof arg->name, "%.*s", (int)name, word);
        reader->arg_count++;
    }
    return 0;
}

static int from_error(const struct reader *reader, struct error *err, const char *what)
{
    return error_set(err, EINVAL, "%s:%d: FROM %s", reader->file, reader->first_line, what);
}

/* FROM [--platform=…] image [AS name]. An image that names an earlier stage is that stage's. */
static int read_from(struct reader *reader, const char *rest, struct error *err)
{
    if (reader->stage_count == STAGES_MAX)
        return error_set(err, E2BIG, "%s: more than %d stages", reader->file, STAGES_MAX);
    struct stage *stage = &reader->stages[reader->stage_count];
    const char *word;
    size_t length;
    bool found;
    while ((found = next_word(&rest, &word, &length)) && length > 2 && memcmp(word, "--", 2) == 0)
        ;
    if (!found)
        return from_error(reader, err, "needs an image");
    int result = expand_to(reader, word, length, stage->image, sizeof stage->image, err);
    if (result < 0)
        return result;
    if (stage->image[0] == '\0')
        return from_error(reader, err, "has an empty image: an ARG it uses has no default");
    if (next_word(&rest, &word, &length)) {
        if (length != 2 || strncasecmp(word, "AS", 2) != 0 || !next_word(&rest, &word, &length) ||
            length >= sizeof stage->name)
            return from_error(reader, err, "takes an image and perhaps AS and a name");
        snprintf(stage->name, sizeof stage->name, "%.*s", (int)length, word);
    } else {
        stage->name[0] = '\0';
    }
    for (size_t i = reader->stage_count; i-- > 0;) {
        const struct stage *earlier = &reader->stages[i];
        if (earlier->name[0] && strcasecmp(earlier->name, stage->image) == 0) {
            memcpy(stage->image, earlier->image, sizeof stage->image);
            break;
        }
    }
    reader->stage_count++;
    return 0;
}

static bool keyword_is(const char *word, size_t length, const char *keyword)
{
    return strlen(keyword) == length && strncasecmp(word, keyword, length) == 0;
}

static int read_instruction(struct reader *reader, const char *text, struct error *err)
{
    const char *rest = text;
    const char *word;
    size_t length;
    if (!next_word(&rest, &word, &length))
        return 0;
    if (keyword_is(word, length, "FROM"))
        return read_from(reader, rest, err);
    if (keyword_is(word, length, "ARG") && reader->stage_count == 0)
        return read_arg(reader, rest, err);
    if (keyword_is(word, length, "RUN") || keyword_is(word, length, "COPY") ||
        keyword_is(word, length, "ADD"))
        skip_heredocs(reader, rest);
    return 0;
}

int dockerfile_base(const char *text, size_t size, const char *file,
                    char image[DOCKERFILE_IMAGE_MAX], struct error *err)
{
    CLEANUP_FREE struct reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return error_set(err, ENOMEM, "%s: out of memory", file);
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        size -= 3;
    }
    reader->file = file;
    reader->at = text;
    reader->end = text + size;
    reader->escape = '\\';
    read_directives(reader);
    CLEANUP_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);
    int result;
    while ((result = next_instruction(reader, &line, err)) > 0) {
        result = read_instruction(reader, buf_text(&line), err);
        if (result < 0)
            return result;
    }
    if (result < 0)
        return result;
    if (reader->stage_count == 0)
        return error_set(err, EINVAL, "%s: there is no FROM", file);
    memcpy(image, reader->stages[reader->stage_count - 1].image, DOCKERFILE_IMAGE_MAX);
    return 0;
}
