#include "config/dockerfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "config/dockerfile_internal.h"

enum { STAGES_MAX = 64, LINE_BYTES_MAX = 1 << 16, VALUE_BYTES_MAX = 1 << 16, VARIABLES_MAX = 1024 };

struct stage {
    char name[128];
    struct dockerfile facts;
    json_t *args; /* ARGs of the stage, with their values */
};

struct reader {
    struct docker_lines lines;
    const json_t *build_vars;
    json_t *args; /* before the first FROM */
    struct stage *stages[STAGES_MAX];
    size_t stage_count;
};

static int fail(const struct reader *reader, struct error *err, const char *what)
{
    return error_set(err, EINVAL, "%s:%d:%d: %s", reader->lines.file, reader->lines.first_line,
                     reader->lines.first_column, what);
}

static struct stage *current(struct reader *reader)
{
    return reader->stage_count ? reader->stages[reader->stage_count - 1] : NULL;
}

/* Variables of the stage win over its ARGs; before the first FROM there are
 * only ARGs. */
static struct docker_scope scope_of(struct reader *reader)
{
    const struct stage *stage = current(reader);
    return (struct docker_scope){.first = stage ? stage->facts.env : NULL,
                                 .second = stage ? stage->args : reader->args,
                                 .image_path = stage != NULL,
                                 .escape = reader->lines.escape};
}

static int expand(const struct reader *reader, const struct docker_scope *scope, const char *word,
                  size_t length, struct buf *to, struct error *err)
{
    if (docker_expand(scope, word, length, to) == 0)
        return 0;
    char problem[256];
    snprintf(problem, sizeof problem, "cannot read '%.*s'", (int)(length < 200 ? length : 200),
             word);
    return fail(reader, err, problem);
}

/* What is not UTF-8 has no place in a variable. */
static int set_variable(const struct reader *reader, json_t *variables, const char *name,
                        size_t length, const struct buf *value, struct error *err)
{
    CLEANUP_FREE char *key = strndup(name, length);
    if (json_object_size(variables) >= VARIABLES_MAX)
        return fail(reader, err, "there are too many variables");
    if (!key || json_object_set_new(variables, key, json_stringn(buf_text(value), value->size)) < 0)
        return fail(reader, err, "a variable is not UTF-8");
    return 0;
}

/* ARG NAME or NAME=default, several on a line. A value that the build gives
 * wins; one without a default inherits that of the ARG before the first FROM.
 */
static int read_arg(struct reader *reader, const char *rest, struct error *err)
{
    struct stage *stage = current(reader);
    const char *word;
    size_t length;
    while (docker_word(&rest, reader->lines.escape, &word, &length)) {
        size_t name = docker_name(word);
        if (name == 0 || name >= sizeof stage->name)
            continue;
        CLEANUP_FREE char *key = strndup(word, name);
        const char *given =
            key ? json_string_value(json_object_get(reader->build_vars, key)) : NULL;
        CLEANUP_BUF struct buf value = BUF_INIT(VALUE_BYTES_MAX);
        struct docker_scope scope = scope_of(reader);
        if (!given && word[name] != '=' && stage && key)
            given = json_string_value(json_object_get(reader->args, key));
        if (!given && word[name] != '=')
            continue; /* it is empty */
        int result = given
                         ? buf_adds(&value, given)
                         : expand(reader, &scope, word + name + 1, length - name - 1, &value, err);
        if (result == 0)
            result =
                set_variable(reader, stage ? stage->args : reader->args, word, name, &value, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* ENV NAME=value …, or the older ENV NAME the rest of the line. */
static int read_env(struct reader *reader, const char *rest, struct error *err)
{
    struct stage *stage = current(reader);
    struct docker_scope scope = scope_of(reader);
    /* A line sees the values from before it. */
    CLEANUP_JSON json_t *before = json_copy(stage->facts.env);
    const char *word;
    size_t length;
    bool first = true;
    scope.first = before;
    while (docker_word(&rest, reader->lines.escape, &word, &length)) {
        const char *equals = memchr(word, '=', length);
        CLEANUP_BUF struct buf value = BUF_INIT(VALUE_BYTES_MAX);
        size_t name = equals ? (size_t)(equals - word) : length;
        const char *from = equals ? equals + 1 : rest;
        if (!equals && !first)
            return fail(reader, err, "ENV takes NAME=value");
        while (!equals && isspace((unsigned char)*from))
            from++;
        size_t size = equals ? length - name - 1 : strlen(from);
        if (name == 0 || (!equals && size == 0))
            return fail(reader, err, "ENV takes NAME=value");
        int result = expand(reader, &scope, from, size, &value, err);
        if (result == 0)
            result = set_variable(reader, stage->facts.env, word, name, &value, err);
        if (result < 0 || !equals)
            return result;
        first = false;
    }
    return 0;
}

/* EXPOSE. */

static void note(struct reader *reader, enum dockerfile_problem problem, const char *text)
{
    struct dockerfile *facts = &current(reader)->facts;
    if (facts->note_count == DOCKERFILE_NOTES_MAX)
        return;
    struct dockerfile_note *to = &facts->notes[facts->note_count++];
    *to = (struct dockerfile_note){.problem = problem, .line = reader->lines.first_line};
    snprintf(to->text, sizeof to->text, "%.*s", (int)sizeof to->text - 1, text);
}

static const char *parse_port(const char *text, uint16_t *port)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (number < 1 || number > 65535)
        return NULL;
    *port = (uint16_t)number;
    return end;
}

/* "80", "80/tcp", "8000-8010/udp". */
static bool parse_ports(const char *text, struct dockerfile_ports *to)
{
    const char *end = parse_port(text, &to->first);
    to->last = to->first;
    if (end && *end == '-')
        end = parse_port(end + 1, &to->last);
    if (!end || to->last < to->first)
        return false;
    to->tcp = !*end || strcasecmp(end, "/tcp") == 0;
    return to->tcp || strcasecmp(end, "/udp") == 0 || strcasecmp(end, "/sctp") == 0;
}

static int add_ports(struct reader *reader, const char *text, struct error *err)
{
    struct dockerfile *facts = &current(reader)->facts;
    struct dockerfile_ports ports = {.line = reader->lines.first_line};
    if (!parse_ports(text, &ports))
        note(reader, DOCKERFILE_NO_PORT, text);
    else if (facts->port_count == DOCKERFILE_PORTS_MAX)
        return fail(reader, err, "there are more than 256 ports; ranges (8000-8100) count once");
    else
        facts->ports[facts->port_count++] = ports;
    return 0;
}

/* A variable may hold several ports. Docker knows no comment behind an
 * instruction and takes it for ports; what stands before it is meant. */
static int read_expose(struct reader *reader, const char *rest, struct error *err)
{
    struct docker_scope scope = scope_of(reader);
    const char *word;
    size_t length;
    current(reader)->facts.expose_line = reader->lines.first_line;
    while (docker_word(&rest, reader->lines.escape, &word, &length)) {
        if (*word == '#') {
            note(reader, DOCKERFILE_COMMENT, word);
            return 0;
        }
        CLEANUP_BUF struct buf value = BUF_INIT(VALUE_BYTES_MAX);
        int result = expand(reader, &scope, word, length, &value, err);
        if (result < 0)
            return result;
        const char *at = buf_text(&value);
        const char *part;
        size_t size;
        if (!*at)
            note(reader, DOCKERFILE_NO_PORT, word);
        while (result == 0 && docker_word(&at, reader->lines.escape, &part, &size)) {
            char text[64];
            snprintf(text, sizeof text, "%.*s", (int)(size < 63 ? size : 63), part);
            result = add_ports(reader, text, err);
        }
        if (result < 0)
            return result;
    }
    return 0;
}

/* FROM. */

static void stage_free(struct stage *stage)
{
    dockerfile_free(&stage->facts);
    json_decref(stage->args);
    free(stage);
}

/* What an earlier stage is, the new one is too; problems are told once. */
static int inherit(struct reader *reader, struct stage *stage)
{
    const struct stage *parent = NULL;
    for (size_t i = reader->stage_count; i-- > 0 && !parent;) {
        const struct stage *earlier = reader->stages[i];
        if (earlier->name[0] && strcasecmp(earlier->name, stage->facts.image) == 0)
            parent = earlier;
    }
    if (parent) {
        stage->facts = parent->facts;
        stage->facts.env = json_copy(parent->facts.env);
        stage->args = json_copy(parent->args);
    } else {
        stage->facts.env = json_object();
        stage->facts.from_line = reader->lines.first_line;
        stage->args = json_object();
    }
    return stage->facts.env && stage->args ? 0 : -ENOMEM;
}

/* The rest of FROM behind the image: nothing, or AS and a name. */
static int read_name(struct reader *reader, const char *rest, struct stage *stage,
                     struct error *err)
{
    const char *word;
    size_t length;
    if (!docker_word(&rest, reader->lines.escape, &word, &length))
        return 0;
    if (length != 2 || strncasecmp(word, "AS", 2) != 0 ||
        !docker_word(&rest, reader->lines.escape, &word, &length) || length >= sizeof stage->name)
        return fail(reader, err, "FROM takes an image and perhaps AS and a name");
    snprintf(stage->name, sizeof stage->name, "%.*s", (int)length, word);
    return 0;
}

static int fill_stage(struct reader *reader, const char *rest, struct stage *stage,
                      struct error *err)
{
    const char *word;
    size_t length;
    bool found;
    while ((found = docker_word(&rest, reader->lines.escape, &word, &length)) && length > 2 &&
           memcmp(word, "--", 2) == 0)
        ;
    if (!found)
        return fail(reader, err, "FROM needs an image");
    struct docker_scope scope = {.second = reader->args, .escape = reader->lines.escape};
    CLEANUP_BUF struct buf image = BUF_INIT(sizeof stage->facts.image - 1);
    int result = expand(reader, &scope, word, length, &image, err);
    if (result < 0)
        return result;
    snprintf(stage->facts.image, sizeof stage->facts.image, "%s", buf_text(&image));
    if (stage->facts.image[0] == '\0')
        return fail(reader, err, "FROM has an empty image: an ARG it uses has no default");
    result = read_name(reader, rest, stage, err);
    if (result == 0 && inherit(reader, stage) < 0)
        return error_set(err, ENOMEM, "%s: out of memory", reader->lines.file);
    return result;
}

/* FROM [--platform=…] image [AS name]. An image that names an earlier stage is
 * that stage's. */
static int read_from(struct reader *reader, const char *rest, struct error *err)
{
    if (reader->stage_count == STAGES_MAX)
        return fail(reader, err, "there are more than 64 stages");
    struct stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return error_set(err, ENOMEM, "%s: out of memory", reader->lines.file);
    int result = fill_stage(reader, rest, stage, err);
    if (result < 0)
        stage_free(stage);
    else
        reader->stages[reader->stage_count++] = stage;
    return result;
}

/* Who installs Python says its name, in the command or in its here-documents. */
static int read_run(struct reader *reader, const char *rest, struct error *err)
{
    const char *body = reader->lines.at;
    int result = docker_skip_heredocs(&reader->lines, rest, err);
    size_t size = (size_t)(reader->lines.at - body);
    if (strstr(rest, "python") || (size && memmem(body, size, "python", 6)))
        current(reader)->facts.python = true;
    return result;
}

/* COPY --from=python:3.12 brings it too. */
static int read_copy(struct reader *reader, const char *rest, struct error *err)
{
    const char *from = strstr(rest, "--from="), *name = from ? strstr(from, "python") : NULL;
    if (name && name < from + strcspn(from, " \t"))
        current(reader)->facts.python = true;
    return docker_skip_heredocs(&reader->lines, rest, err);
}

/* What it says is done when another image starts from this one. */
static int read_onbuild(struct reader *reader, const char *rest, struct error *err)
{
    return docker_skip_heredocs(&reader->lines, rest, err);
}

static const struct {
    const char *keyword;
    bool anywhere; /* also before the first FROM */
    int (*read)(struct reader *reader, const char *rest, struct error *err);
} instructions[] = {
    {"FROM", true, read_from},      {"ARG", true, read_arg},          {"ENV", false, read_env},
    {"RUN", false, read_run},       {"COPY", false, read_copy},       {"ADD", false, read_copy},
    {"EXPOSE", false, read_expose}, {"ONBUILD", false, read_onbuild},
};

static int read_instruction(struct reader *reader, const char *text, struct error *err)
{
    const char *rest = text;
    const char *word;
    size_t length;
    if (!docker_word(&rest, reader->lines.escape, &word, &length))
        return 0;
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++) {
        const char *keyword = instructions[i].keyword;
        if (strlen(keyword) == length && strncasecmp(word, keyword, length) == 0 &&
            (instructions[i].anywhere || reader->stage_count > 0))
            return instructions[i].read(reader, rest, err);
    }
    return 0;
}

static int read_all(struct reader *reader, struct error *err)
{
    CLEANUP_BUF struct buf line = BUF_INIT(LINE_BYTES_MAX);
    int result;
    while ((result = docker_next(&reader->lines, &line, err)) > 0) {
        result = read_instruction(reader, buf_text(&line), err);
        if (result < 0)
            return result;
    }
    if (result == 0 && reader->stage_count == 0)
        return error_set(err, EINVAL, "%s:1:1: there is no FROM", reader->lines.file);
    return result;
}

/* ARGs that every build has: Cloudflare runs linux/amd64. */
static json_t *platform_args(void)
{
    static const char platform[] = "linux/amd64", os[] = "linux", cpu[] = "amd64";
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "TARGETPLATFORM", platform,
                     "TARGETOS", os, "TARGETARCH", cpu, "TARGETVARIANT", "", "BUILDPLATFORM",
                     platform, "BUILDOS", os, "BUILDARCH", cpu, "BUILDVARIANT", "");
}

int dockerfile_read(const char *text, size_t size, const char *file, const json_t *build_vars,
                    struct dockerfile *to, struct error *err)
{
    struct reader reader = {.build_vars = build_vars, .args = platform_args()};
    *to = (struct dockerfile){.env = NULL};
    docker_lines_begin(&reader.lines, text, size, file);
    int result =
        reader.args ? read_all(&reader, err) : error_set(err, ENOMEM, "%s: out of memory", file);
    if (result == 0) {
        *to = current(&reader)->facts;
        json_incref(to->env);
    }
    for (size_t i = 0; i < reader.stage_count; i++)
        stage_free(reader.stages[i]);
    json_decref(reader.args);
    return result;
}

void dockerfile_free(struct dockerfile *dockerfile)
{
    json_decref(dockerfile->env);
    dockerfile->env = NULL;
}

bool dockerfile_exposes(const struct dockerfile *dockerfile, int port)
{
    for (size_t i = 0; i < dockerfile->port_count; i++) {
        const struct dockerfile_ports *ports = &dockerfile->ports[i];
        if (ports->tcp && port >= ports->first && port <= ports->last)
            return true;
    }
    return false;
}
