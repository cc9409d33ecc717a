/* Plays the golden samples of tests/golden against the container API. The README there tells what
 * the lines of a block mean. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { FILE_BYTES_MAX = 1 << 20, BEFORE_MAX = 4, ROWS_MAX = 200 };

static struct emulator emulator;

/* Patterns: a template of one class of characters each, or a repeated class. */
struct pattern {
    const char *name;
    const char *layout; /* d = digit, h = hexadecimal digit, others themselves */
    bool (*takes)(char c);
    size_t least;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c);
}

static bool is_base64(char c)
{
    return is_word(c) || c == '+' || c == '/' || c == '=';
}

static bool is_any(char c)
{
    return c != '\0';
}

static const struct pattern patterns[] = {
    {.name = "T", .layout = "dddd-dd-ddTdd:dd:dd.dddZ"},
    {.name = "stamp", .layout = "dddd-dd-ddTdd:dd:dd.dddddddddd"},
    {.name = "uuid", .layout = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"},
    {.name = "n", .takes = is_digit, .least = 1},
    {.name = "id", .takes = is_word, .least = 1},
    {.name = "list", .takes = is_any},
    {.name = "text"},
};

static bool matches(const char *expected, const char *got);

static size_t layout_size(const char *layout, const char *got)
{
    size_t i = 0;
    for (; layout[i]; i++) {
        bool fits = layout[i] == 'd'   ? is_digit(got[i])
                    : layout[i] == 'h' ? isxdigit((unsigned char)got[i]) != 0
                                       : layout[i] == got[i];
        if (!fits)
            return 0;
    }
    return i;
}

/* Anything up to the quote that ends the JSON string. */
static bool matches_text(const char *rest, const char *got)
{
    for (;; got += *got == '\\' ? 2 : 1) {
        if (matches(rest, got))
            return true;
        if (*got == '"' || *got == '\0' || (*got == '\\' && got[1] == '\0'))
            return false;
    }
}

static bool matches_class(const struct pattern *pattern, const char *rest, const char *got)
{
    for (size_t size = 0;; size++) {
        if (size >= pattern->least && matches(rest, got + size))
            return true;
        if (!pattern->takes(got[size]))
            return false;
    }
}

static bool matches_base64(const char *pattern, const char *rest, const char *got)
{
    unsigned long size = strtoul(pattern + strlen("<b64 "), NULL, 10);
    for (unsigned long i = 0; i < size; i++) {
        if (!is_base64(got[i]))
            return false;
    }
    return matches(rest, got + size);
}

static bool matches_pattern(const char *expected, const char *got)
{
    size_t length = strcspn(expected + 1, ">");
    const char *rest = expected + 1 + length + 1;
    if (strncmp(expected, "<b64 ", 5) == 0)
        return matches_base64(expected, rest, got);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const struct pattern *pattern = &patterns[i];
        if (strlen(pattern->name) != length || strncmp(pattern->name, expected + 1, length) != 0)
            continue;
        if (pattern->layout) {
            size_t size = layout_size(pattern->layout, got);
            return size && matches(rest, got + size);
        }
        return pattern->takes ? matches_class(pattern, rest, got) : matches_text(rest, got);
    }
    return false;
}

/* Whether the bytes are those of the sample. */
static bool matches(const char *expected, const char *got)
{
    for (; *expected; expected++, got++) {
        if (*expected == '<' && strchr(expected, '>'))
            return matches_pattern(expected, got);
        if (*expected != *got)
            return false;
    }
    return *got == '\0';
}

/* Blocks. */
struct row {
    const char *title;
    const char *before[BEFORE_MAX];
    char *method, *path;
    const char *body; /* NULL = none */
    int status;
    const char *type;
    struct buf expected;
};

struct sample_file {
    char box[64]; /* the sandbox */
    char host[256];
    char context[64];
    char *text;
    struct row rows[ROWS_MAX];
    size_t count;
};

static bool is_before(const char *line)
{
    return strncmp(line, "run ", 4) == 0 || strncmp(line, "await ", 6) == 0 ||
           strncmp(line, "context ", 8) == 0 || strncmp(line, "needs ", 6) == 0;
}

/* "METHOD PATH BODY", cut in place. */
static void parse_request(struct row *row, char *line)
{
    row->method = line;
    char *path = strchr(line, ' ');
    if (!path)
        return;
    *path++ = '\0';
    row->path = path;
    char *body = strchr(path, ' ');
    if (body) {
        *body++ = '\0';
        row->body = body;
    }
}

/* One line of a block; events are kept with the blank line behind each. */
static void parse_line(struct row *row, char *line, size_t *before)
{
    if (!row->method && is_before(line) && *before < BEFORE_MAX)
        row->before[(*before)++] = line;
    else if (!row->method)
        parse_request(row, line);
    else if (!row->status) {
        char *type = NULL;
        row->status = (int)strtol(line, &type, 10);
        row->type = type + strspn(type, " ");
    } else {
        buf_adds(&row->expected, line);
        if (strncmp(line, "data: ", 6) == 0)
            buf_adds(&row->expected, "\n\n");
    }
}

static void parse_rows(struct sample_file *file)
{
    struct row *row = NULL;
    size_t before = 0;
    char *text = file->text;
    for (char *line; (line = strsep(&text, "\n"));) {
        if (strncmp(line, "== ", 3) == 0 && file->count < ROWS_MAX) {
            row = &file->rows[file->count++];
            *row = (struct row){.title = line + 3, .expected = BUF_INIT(FILE_BYTES_MAX)};
            before = 0;
        } else if (row && *line) {
            parse_line(row, line, &before);
        }
    }
}

static char *read_whole(const char *path)
{
    CLEANUP_FILE FILE *file = fopen(path, "re");
    CLEANUP_BUF struct buf text = BUF_INIT(FILE_BYTES_MAX);
    char piece[4096];
    for (size_t size; file && (size = fread(piece, 1, sizeof piece, file)) > 0;) {
        if (buf_add(&text, piece, size) < 0)
            return NULL;
    }
    return file ? strdup(buf_text(&text)) : NULL;
}

/* What comes before the request; NULL, or what went wrong. */
static const char *run_before(const struct sample_file *file, const char *command)
{
    CLEANUP_JSON json_t *body = json_pack("{s:s, s:s}", "command", command, "sessionId", "before");
    CLEANUP_FREE char *text = json_dumps(body, 0);
    CLEANUP_REPLY struct reply reply = request(&emulator, "POST", "/api/execute", file->host, text);
    return number_at(reply.json, "exitCode") == 0 ? NULL : keep(reply.body);
}

static const char *await_before(const struct sample_file *file, const char *id)
{
    char path[128];
    snprintf(path, sizeof path, "/api/process/%s/stream", id);
    CLEANUP_REPLY struct reply reply = request(&emulator, "GET", path, file->host, NULL);
    return reply.body && strstr(reply.body, "\"type\":\"exit\"") ? NULL : keep(reply.body);
}

static const char *context_before(struct sample_file *file, const char *body)
{
    CLEANUP_REPLY struct reply reply =
        request(&emulator, "POST", "/api/contexts", file->host, body);
    snprintf(file->context, sizeof file->context, "%s", text_at(reply.json, "contextId"));
    return *file->context ? NULL : keep(reply.body);
}

static const char *do_before(struct sample_file *file, const struct row *row)
{
    const char *wrong = NULL;
    for (size_t i = 0; !wrong && i < BEFORE_MAX && row->before[i]; i++) {
        const char *line = row->before[i];
        const char *rest = strchr(line, ' ') + 1;
        wrong = line[0] == 'r'   ? run_before(file, rest)
                : line[0] == 'a' ? await_before(file, rest)
                : line[0] == 'c' ? context_before(file, rest)
                                 : NULL;
    }
    return wrong;
}

/* The program that the block needs and the sandbox does not have, or NULL. */
static const char *lacks(const struct sample_file *file, const struct row *row)
{
    char command[64];
    const char *line = row->before[0];
    if (!line || line[0] != 'n')
        return NULL;
    const char *program = strchr(line, ' ') + 1;
    snprintf(command, sizeof command, "command -v %s", program);
    return run_before(file, command) ? program : NULL;
}

/* The body with the context in it; malloc'd. */
static char *body_of(const struct sample_file *file, const struct row *row)
{
    const char *mark = row->body ? strstr(row->body, "<context>") : NULL;
    char *body = NULL;
    if (!mark)
        return row->body ? strdup(row->body) : NULL;
    if (asprintf(&body, "%.*s%s%s", (int)(mark - row->body), row->body, file->context,
                 mark + strlen("<context>")) < 0)
        return NULL;
    return body;
}

TEST the_bytes_are_those_of_the_original(struct sample_file *file, struct row *row)
{
    const char *lacking = lacks(file, row);
    if (lacking) {
        printf("SKIP the sample '%s': no %s in the sandbox\n", row->title, lacking);
        SKIP();
    }
    const char *wrong = do_before(file, row);
    CLEANUP_FREE char *body = body_of(file, row);
    CLEANUP_REPLY struct reply reply = request(&emulator, row->method, row->path, file->host, body);
    char type[128];
    header_of(&reply, "Content-Type", type, sizeof type);
    const char *got = reply.body ? reply.body : "";
    bool same = !wrong && reply.status == row->status && strcmp(type, row->type) == 0 &&
                matches(buf_text(&row->expected), got);
    if (!same) {
        printf("%s: %s\n  before:   %s\n  expected: %d %s %s\n  got:      %d %s %s\n", file->box,
               row->title, wrong ? wrong : "fine", row->status, row->type, buf_text(&row->expected),
               reply.status, type, got);
    }
    ASSERTm(row->title, same);
    PASS();
}

/* The Host header of a sandbox's own API. */
static void find_host(struct sample_file *file)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/exec", file->box);
    CLEANUP_REPLY struct reply first = post(&emulator, path, "[\"true\"]");
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", file->box);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    const char *url = text_at(shown.json, "containerUrl");
    snprintf(file->host, sizeof file->host, "Host: %s\r\n", strlen(url) > 7 ? url + 7 : "");
}

static void play(const char *name, size_t stem)
{
    static struct sample_file file;
    char path[512];
    file = (struct sample_file){0};
    snprintf(path, sizeof path, SANDPIT_SOURCE "/tests/golden/%s", name);
    snprintf(file.box, sizeof file.box, "%.*s", (int)stem, name);
    file.text = read_whole(path);
    if (!file.text)
        return;
    find_host(&file);
    parse_rows(&file);
    for (size_t i = 0; i < file.count; i++) {
        RUN_TESTp(the_bytes_are_those_of_the_original, &file, &file.rows[i]);
        buf_free(&file.rows[i].expected);
    }
    free(file.text);
}

TEST patterns_take_what_they_stand_for_and_nothing_else(void)
{
    ASSERT(matches("{\"a\":<n>,\"t\":\"<T>\"}", "{\"a\":12,\"t\":\"2026-11-18T06:02:46.975Z\"}"));
    ASSERT_FALSE(matches("{\"a\":<n>}", "{\"a\":x}"));
    ASSERT_FALSE(matches("\"<T>\"", "\"2026-11-18T06:02:46Z\""));
    ASSERT(matches("\"<text>\",", "\"a\\\"b\","));
    ASSERT_FALSE(matches("\"<text>\",", "\"a\":\"b\","));
    ASSERT(matches("<b64 4>;", "aB+=;"));
    ASSERT_FALSE(matches("<b64 4>;", "aB+;"));
    ASSERT_FALSE(matches("same", "same and more"));
    PASS();
}

static const char *const names[] = {"commands.golden", "processes.golden", "files.golden",
                                    "code.golden"};

SUITE(golden)
{
    RUN_TEST(patterns_take_what_they_stand_for_and_nothing_else);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        play(names[i], strcspn(names[i], "."));
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, golden);
    GREATEST_MAIN_END();
}
