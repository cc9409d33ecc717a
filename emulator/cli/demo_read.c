/* Reading a demo. A line begins with a word or sign that says what it is; lines that begin with a
 * space go on with the one before. Everything stays where it is in one copy of the text. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/demo.h"

struct reader {
    const char *source;
    struct demo *demo;
    int line; /* where the current line begins */
    struct error *err;
};

static int complain(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int complain(struct reader *reader, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(reader->err, EINVAL, "%.160s:%d: %s", reader->source, reader->line, text);
}

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

/* The next word, cut off with a NUL; *at moves behind it. NULL when there is none. */
static char *next_word(char **at)
{
    char *word = skip_blanks(*at);
    if (!*word)
        return NULL;
    char *end = word + strcspn(word, " \t\n");
    *at = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

static struct demo_step *add_step(struct reader *reader, enum demo_kind kind)
{
    struct demo *demo = reader->demo;
    struct demo_step *more = reallocarray(demo->steps, demo->step_count + 1, sizeof *more);
    if (!more) {
        error_set(reader->err, ENOMEM, "out of memory");
        return NULL;
    }
    demo->steps = more;
    struct demo_step *step = &more[demo->step_count++];
    *step = (struct demo_step){.kind = kind, .line = reader->line, .headers = BUF_INIT(8192)};
    return step;
}

/* The request that a line such as `expect` belongs to. */
static struct demo_step *last_request(struct reader *reader, const char *word)
{
    const struct demo *demo = reader->demo;
    struct demo_step *step = demo->step_count ? &demo->steps[demo->step_count - 1] : NULL;
    if (step && (step->kind == DEMO_REQUEST || step->kind == DEMO_CLOCK))
        return step;
    complain(reader, "'%s' must follow a request or a clock line", word);
    return NULL;
}

static int take_path(struct reader *reader, char **at, char to[128])
{
    const char *path = next_word(at);
    if (!path)
        return complain(reader, "a path such as .exitCode or .files[0].name is missing");
    if (strlen(path) >= 128 || !demo_path_valid(path))
        return complain(reader, "'%.100s' is not a path such as .exitCode or .files[0].name", path);
    snprintf(to, 128, "%s", path);
    return 0;
}

/* A JSON value with no names in it can be checked now; else it is when it is used. */
static int check_json(struct reader *reader, const char *text, const char *what)
{
    json_error_t where;
    if (strstr(text, "{{"))
        return 0;
    CLEANUP_JSON json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
    if (value)
        return 0;
    reader->line += where.line > 0 ? where.line - 1 : 0;
    return complain(reader, "%s is not JSON: %s", what, where.text);
}

/* Lines, by their first word. */

static int read_title(struct reader *reader, char *rest)
{
    if (reader->demo->title)
        return complain(reader, "there is a title already; headings begin with ##");
    reader->demo->title = rest;
    return 0;
}

static int read_heading(struct reader *reader, char *rest)
{
    struct demo_step *step = add_step(reader, DEMO_HEADING);
    if (!step)
        return -ENOMEM;
    step->text = rest;
    return 0;
}

static int read_prose(struct reader *reader, char *rest)
{
    struct demo_step *step = add_step(reader, DEMO_PROSE);
    if (!step)
        return -ENOMEM;
    step->text = rest;
    return 0;
}

static int read_comment(struct reader *reader, char *rest)
{
    return 0;
}

static int read_options(struct reader *reader, char *rest)
{
    struct demo *demo = reader->demo;
    if (demo->step_count)
        return complain(reader, "options come before the story: the emulator has started by now");
    for (const char *word; (word = next_word(&rest));) {
        if (demo->option_count == DEMO_OPTIONS_MAX)
            return complain(reader, "there are more than %d options", DEMO_OPTIONS_MAX);
        demo->options[demo->option_count++] = word;
    }
    return 0;
}

static int read_needs(struct reader *reader, char *rest)
{
    struct demo *demo = reader->demo;
    if (demo->step_count)
        return complain(reader, "what it needs comes before the story");
    for (const char *word; (word = next_word(&rest));) {
        if (strchr(word, '/') || strlen(word) > 64)
            return complain(reader, "'%.64s' must be the plain name of a program", word);
        if (demo->need_count == DEMO_NEEDS_MAX)
            return complain(reader, "it needs more than %d programs", DEMO_NEEDS_MAX);
        demo->needs[demo->need_count++] = word;
    }
    return 0;
}

/* One plain name: the files are written into a directory of the demo's own. */
static int read_file(struct reader *reader, char *rest)
{
    struct demo *demo = reader->demo;
    const char *name = next_word(&rest);
    if (demo->step_count)
        return complain(reader, "files come before the story: the emulator has started by now");
    if (!name)
        return complain(reader, "the name of the file is missing");
    if (strchr(name, '/') || name[0] == '.' || strlen(name) > 100)
        return complain(reader, "'%.100s' must be a plain name: no slash, no leading dot", name);
    if (!*rest)
        return complain(reader, "the lines of the file must follow, indented by four spaces");
    if (demo->file_count == DEMO_FILES_MAX)
        return complain(reader, "there are more than %d files", DEMO_FILES_MAX);
    demo->files[demo->file_count++] = (struct demo_file){.name = name, .lines = rest};
    return 0;
}

static int read_request(struct reader *reader, const char *method, char *rest)
{
    const char *path = next_word(&rest);
    if (!path || path[0] != '/')
        return complain(reader, "%s needs a path that begins with /", method);
    if (strlen(path) > 400)
        return complain(reader, "the path is longer than 400 bytes");
    for (const char *at = path; *at; at++) {
        if ((unsigned char)*at < 0x21 || (unsigned char)*at > 0x7e)
            return complain(reader, "the path must be plain ASCII; write %%C3%%BC for other bytes");
    }
    struct demo_step *step = add_step(reader, DEMO_REQUEST);
    if (!step)
        return -ENOMEM;
    step->method = method;
    step->path = path;
    rest += strspn(rest, " \t\n");
    step->body = *rest ? rest : NULL;
    if (*rest == '[' || *rest == '{')
        return check_json(reader, rest, "the body");
    return 0;
}

static int read_header(struct reader *reader, char *rest)
{
    struct demo_step *step = last_request(reader, "header");
    if (!step)
        return -EINVAL;
    size_t name = strspn(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-");
    if (name == 0 || rest[name] != ':' || step->kind != DEMO_REQUEST)
        return complain(reader, "a header of a request looks like: header X-Name: value");
    if (strchr(rest, '\n') || buf_addf(&step->headers, "%s\r\n", rest) < 0)
        return complain(reader, "the header is too long");
    return 0;
}

static int read_clock(struct reader *reader, char *rest)
{
    if (!demo_clock_valid(rest))
        return complain(reader, "clock takes: advance 10m, to 2027-01-01T00:00:00Z, next, freeze, "
                                "resume");
    struct demo_step *step = add_step(reader, DEMO_CLOCK);
    if (!step)
        return -ENOMEM;
    step->text = rest;
    return 0;
}

static const struct relation {
    const char *word;
    enum demo_relation relation;
    bool value;
} relations[] = {
    {"=", DEMO_IS, true},           {"!=", DEMO_IS_NOT, true}, {"~", DEMO_HAS, true},
    {">=", DEMO_AT_LEAST, true},    {"<", DEMO_BELOW, true},   {"exists", DEMO_EXISTS, false},
    {"absent", DEMO_ABSENT, false},
};

static int read_json_check(struct reader *reader, char *rest, struct demo_check *check)
{
    int result = take_path(reader, &rest, check->path);
    if (result < 0)
        return result;
    const char *word = next_word(&rest);
    rest += strspn(rest, " \t\n");
    for (size_t i = 0; word && i < sizeof relations / sizeof *relations; i++) {
        if (strcmp(relations[i].word, word) != 0)
            continue;
        check->relation = relations[i].relation;
        check->value = relations[i].value ? rest : NULL;
        if (relations[i].value == !*rest)
            return complain(reader,
                            relations[i].value ? "a value must follow %s" : "nothing may follow %s",
                            word);
        return check->value ? check_json(reader, check->value, "the value") : 0;
    }
    return complain(reader, "after the path comes one of: = != ~ >= < exists absent");
}

static int read_check(struct reader *reader, char *rest, struct demo_check *check)
{
    const char *word = next_word(&rest);
    if (word && strspn(word, "0123456789") == 3 && !word[3] && !*skip_blanks(rest)) {
        check->relation = DEMO_STATUS;
        check->status = (int)strtol(word, NULL, 10);
        return 0;
    }
    if (word && strcmp(word, "json") == 0)
        return read_json_check(reader, rest, check);
    bool no = word && strcmp(word, "no") == 0;
    if (no)
        word = next_word(&rest);
    if (!word || strcmp(word, "text") != 0)
        return complain(reader, "expect takes: 200, json .path = value, text \"…\", no text \"…\"");
    check->relation = no ? DEMO_NO_TEXT : DEMO_TEXT;
    check->value = skip_blanks(rest);
    if (*check->value != '"')
        return complain(reader, "the text must stand in quotes");
    return check_json(reader, check->value, "the text");
}

static int read_expect(struct reader *reader, char *rest)
{
    struct demo_step *step = last_request(reader, "expect");
    if (!step)
        return -EINVAL;
    if (step->check_count == DEMO_CHECKS_MAX)
        return complain(reader, "there are more than %d expectations", DEMO_CHECKS_MAX);
    struct demo_check *check = &step->checks[step->check_count++];
    check->line = reader->line;
    /* Words are cut where they stand, so the story gets a copy, which lies behind the text. */
    check->text = rest + strlen(rest) + 1;
    return read_check(reader, rest, check);
}

static bool is_name(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return size > 0 && size < 64 && !name[size] && !isdigit((unsigned char)name[0]);
}

static int read_save(struct reader *reader, char *rest)
{
    struct demo_step *step = last_request(reader, "save");
    if (!step)
        return -EINVAL;
    if (step->save_count == DEMO_SAVES_MAX)
        return complain(reader, "there are more than %d values to save", DEMO_SAVES_MAX);
    struct demo_save *save = &step->saves[step->save_count++];
    int result = take_path(reader, &rest, save->path);
    if (result < 0)
        return result;
    const char *as = next_word(&rest);
    save->name = next_word(&rest);
    if (!as || strcmp(as, "as") != 0 || !save->name || !is_name(save->name) || *skip_blanks(rest))
        return complain(reader, "save looks like: save .id as name; {{name}} then stands for it");
    return 0;
}

static int read_show(struct reader *reader, char *rest)
{
    struct demo_step *step = last_request(reader, "show");
    if (!step)
        return -EINVAL;
    do {
        if (step->show_count == DEMO_SHOWS_MAX)
            return complain(reader, "there are more than %d paths to show", DEMO_SHOWS_MAX);
        int result = take_path(reader, &rest, step->shows[step->show_count++]);
        if (result < 0)
            return result;
    } while (*skip_blanks(rest));
    return 0;
}

static const struct row {
    const char *word;
    int (*read)(struct reader *reader, char *rest);
    bool bare; /* may stand alone */
} rows[] = {
    {"#", read_title, false},         {"##", read_heading, false},
    {">", read_prose, true},          {"//", read_comment, true},
    {"options", read_options, false}, {"file", read_file, false},
    {"header", read_header, false},   {"clock", read_clock, false},
    {"expect", read_expect, false},   {"save", read_save, false},
    {"show", read_show, false},       {"needs", read_needs, false},
};

static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"};

static int read_line(struct reader *reader, char *line)
{
    size_t size = strcspn(line, " \t\n");
    char *rest = line + size + strspn(line + size, " \t\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strlen(rows[i].word) != size || strncmp(rows[i].word, line, size) != 0)
            continue;
        if (!*rest && !rows[i].bare)
            return complain(reader, "something must follow '%s'", rows[i].word);
        return rows[i].read(reader, rest);
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strlen(methods[i]) == size && strncmp(methods[i], line, size) == 0)
            return read_request(reader, methods[i], rest);
    }
    return complain(reader, "'%.*s' begins no line: see docs/demos.md",
                    (int)(size > 40 ? 40 : size), line);
}

/* The end of a line with those that go on with it; *count is how many they are. */
static const char *line_end(const char *at, const char *end, int *count)
{
    *count = 0;
    for (;;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        ++*count;
        if (!newline || newline == at || newline + 1 == end ||
            (newline[1] != ' ' && newline[1] != '\t'))
            return newline ? newline : end;
        at = newline + 1;
    }
}

/* Each line gets a place of its own with what "expect" says once more behind it, NULs between. */
static int read_lines(struct reader *reader, const char *text, size_t size)
{
    char *to = reader->demo->text;
    const char *end = text + size;
    int next = 1, count;
    for (const char *at = text; at < end; at++, next += count) {
        const char *stop = line_end(at, end, &count);
        size_t length = (size_t)(stop - at);
        while (length > 0 && strchr(" \t\r\n", at[length - 1]))
            length--;
        reader->line = next;
        memcpy(to, at, length);
        to[length] = '\0';
        char *line = to;
        to += length + 1;
        if (strncmp(line, "expect", 6) == 0) {
            const char *again = line + 6 + strspn(line + 6, " \t\n");
            memcpy(to, again, strlen(again) + 1);
            to += strlen(again) + 1;
        }
        at = stop;
        if (*line == ' ' || *line == '\t')
            return complain(reader, "an indented line must follow what it goes on with");
        int result = *line ? read_line(reader, line) : 0;
        if (result < 0)
            return result;
    }
    return 0;
}

int demo_read(const char *source, const char *text, size_t size, struct demo *demo,
              struct error *err)
{
    *demo = (struct demo){0};
    struct reader reader = {.source = source, .demo = demo, .line = 1, .err = err};
    if (size > DEMO_BYTES_MAX)
        return complain(&reader, "the file is larger than 1 MiB");
    if (memchr(text, '\0', size))
        return complain(&reader, "the file has a NUL byte");
    demo->text = calloc(2, size + 2);
    if (!demo->text)
        return error_set(err, ENOMEM, "out of memory");
    int result = read_lines(&reader, text, size);
    if (result < 0)
        return result;
    reader.line = 1;
    if (!demo->title)
        return complain(&reader, "the title is missing: # What the demo shows");
    return 0;
}

void demo_free(struct demo *demo)
{
    for (size_t i = 0; i < demo->step_count; i++)
        buf_free(&demo->steps[i].headers);
    free(demo->steps);
    free(demo->text);
    *demo = (struct demo){0};
}

int demo_file_text(const struct demo_file *file, struct buf *to)
{
    for (const char *at = file->lines; *at;) {
        size_t indent = strspn(at, " ");
        at += indent < 4 ? indent : 4;
        size_t length = strcspn(at, "\n");
        buf_add(to, at, length);
        buf_addc(to, '\n');
        at += length + (at[length] == '\n');
    }
    return to->error;
}
