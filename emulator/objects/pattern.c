#define PCRE2_CODE_UNIT_WIDTH 8
#include "objects/pattern.h"

#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/loop.h"

enum {
    SOURCE_MAX = 64 * 1024,
    STEPS_MAX = 2 * 1000 * 1000, /* of PCRE2, from one position: some 30 ms */
    HEAP_KIB = 16 * 1024,
    TURN_NS = 10 * 1000 * 1000,     /* then the loop has other work */
    SEARCH_NS = 1000 * 1000 * 1000, /* one search in all its turns */
    KEPT_MAX = 256 * 1024,          /* text where no match can begin any more, kept for its line */
    TEXT_MAX = 1024 * 1024,
};

struct pattern {
    char *shown;
    char *literal; /* or NULL */
    size_t literal_size;
    pcre2_code *code, *by_lines; /* by_lines: as with the flag m; NULL when that is no difference */
    pcre2_match_data *match;
    pcre2_match_context *context;
    uint32_t lookbehind;
    bool multiline;
};

void pattern_free(struct pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_match_data_free(pattern->match);
    pcre2_match_context_free(pattern->context);
    pcre2_code_free(pattern->code);
    pcre2_code_free(pattern->by_lines);
    free(pattern->literal);
    free(pattern->shown);
    free(pattern);
}

const char *pattern_shown(const struct pattern *pattern)
{
    return pattern->shown;
}

/* Making one. */

static const struct {
    char letter;
    uint32_t option;
} flag_rows[] = {
    /* d, g and y change what a caller gets to know, not whether it matches; UTF is always on. */
    {'d', 0},
    {'g', 0},
    {'i', PCRE2_CASELESS},
    {'m', PCRE2_MULTILINE},
    {'s', PCRE2_DOTALL},
    {'u', 0},
    {'v', 0},
    {'y', 0},
};

/* The options, or -1 when a letter is no flag or is there twice. */
static int64_t flags_options(const char *flags)
{
    uint32_t options = 0;
    for (const char *flag = flags; *flag; flag++) {
        size_t i = 0;
        while (i < sizeof flag_rows / sizeof *flag_rows && flag_rows[i].letter != *flag)
            i++;
        if (i == sizeof flag_rows / sizeof *flag_rows || strchr(flag + 1, *flag))
            return -1;
        options |= flag_rows[i].option;
    }
    return options;
}

static pcre2_code *compile(const struct buf *translated, uint32_t options, int *error,
                           size_t *where)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) {
        *error = PCRE2_ERROR_NOMEMORY;
        return NULL;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_ANYCRLF);
    pcre2_set_compile_extra_options(context, PCRE2_EXTRA_ALT_BSUX);
    pcre2_set_parens_nest_limit(context, 100);
    options |= PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_DOLLAR_ENDONLY |
               PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)buf_text(translated), translated->size, options,
                                     error, where, context);
    pcre2_compile_context_free(context);
    return code;
}

static int refuse(struct error *err, const char *source, int code)
{
    PCRE2_UCHAR text[200];
    pcre2_get_error_message(code, text, sizeof text);
    return error_set(err, EINVAL, "Invalid regular expression /%.100s/: %s", source,
                     (const char *)text);
}

static int make_matcher(struct pattern *pattern)
{
    pattern->match = pcre2_match_data_create_from_pattern(pattern->code, NULL);
    pattern->context = pcre2_match_context_create(NULL);
    if (!pattern->match || !pattern->context)
        return -ENOMEM;
    pcre2_set_match_limit(pattern->context, STEPS_MAX);
    pcre2_set_heap_limit(pattern->context, HEAP_KIB);
    pcre2_pattern_info(pattern->code, PCRE2_INFO_MAXLOOKBEHIND, &pattern->lookbehind);
    return 0;
}

static int make_expression(struct pattern *pattern, const char *source, size_t size,
                           const char *flags, struct error *err)
{
    CLEANUP_BUF struct buf translated = BUF_INIT(8 * SOURCE_MAX);
    struct error why = {0};
    int64_t options = flags_options(flags);
    if (options < 0)
        return error_set(err, EINVAL, "Invalid flags '%.20s' of a regular expression", flags);
    if (size > SOURCE_MAX)
        return error_set(err, EINVAL, "A regular expression has at most %d bytes", SOURCE_MAX);
    buf_adds(&translated, "(?C)");
    if (pattern_translate(&translated, source, size, strpbrk(flags, "uv") != NULL, &why) < 0)
        return error_set(err, why.code, "Invalid regular expression /%.100s/: %s", source,
                         why.text);
    if (asprintf(&pattern->shown, "/%s/%s", source, flags) < 0) {
        pattern->shown = NULL;
        return error_errno(err, ENOMEM, "pattern");
    }
    int error = 0;
    size_t where = 0;
    pattern->multiline = options & PCRE2_MULTILINE;
    pattern->code = compile(&translated, (uint32_t)options, &error, &where);
    if (!pattern->code)
        return refuse(err, source, error);
    if (!pattern->multiline && strpbrk(source, "^$"))
        pattern->by_lines =
            compile(&translated, (uint32_t)options | PCRE2_MULTILINE, &error, &where);
    return make_matcher(pattern) < 0 ? error_errno(err, ENOMEM, "pattern") : 0;
}

static int make_literal(struct pattern *pattern, const json_t *text, struct error *err)
{
    pattern->literal_size = json_string_length(text);
    pattern->literal = malloc(pattern->literal_size + 1);
    if (!pattern->literal || asprintf(&pattern->shown, "\"%s\"", json_string_value(text)) < 0) {
        pattern->shown = NULL;
        return error_errno(err, ENOMEM, "pattern");
    }
    memcpy(pattern->literal, json_string_value(text), pattern->literal_size + 1);
    return 0;
}

/* Where "/source/flags" ends its source, or NULL when the text is something else, such as a path.
 */
static const char *source_end(const char *text)
{
    const char *last = strrchr(text, '/');
    if (*text != '/' || last < text + 2 || flags_options(last + 1) < 0)
        return NULL;
    return last;
}

static int make(struct pattern *pattern, const json_t *spec, struct error *err)
{
    if (json_is_string(spec)) {
        const char *text = json_string_value(spec);
        const char *end = source_end(text);
        if (!end)
            return make_literal(pattern, spec, err);
        CLEANUP_FREE char *source = strndup(text + 1, (size_t)(end - text - 1));
        return source ? make_expression(pattern, source, strlen(source), end + 1, err)
                      : error_errno(err, ENOMEM, "pattern");
    }
    const json_t *source = json_object_get(spec, "source");
    const json_t *flags = json_object_get(spec, "flags");
    if (!json_is_string(source) || (flags && !json_is_null(flags) && !json_is_string(flags)))
        return error_set(err, EINVAL,
                         "pattern must be a string, \"/source/flags\" or {source, flags}");
    return make_expression(pattern, json_string_value(source), json_string_length(source),
                           flags && json_is_string(flags) ? json_string_value(flags) : "", err);
}

struct pattern *pattern_new(const json_t *spec, struct error *err)
{
    struct pattern *pattern = calloc(1, sizeof *pattern);
    if (!pattern) {
        error_errno(err, ENOMEM, "pattern");
        return NULL;
    }
    if (make(pattern, spec, err) < 0) {
        pattern_free(pattern);
        return NULL;
    }
    return pattern;
}

/* The text. */

static size_t line_start(const struct buf *text, size_t at)
{
    while (at > 0 && text->data[at - 1] != '\n')
        at--;
    return at;
}

static size_t character_start(const struct buf *text, size_t at)
{
    while (at > 0 && at < text->size && ((unsigned char)text->data[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static void drop(struct pattern_text *text, size_t size)
{
    buf_drop(&text->text, size);
    text->cut = text->cut || size > 0;
    text->resume = text->resume > size ? text->resume - size : 0;
}

/* After a search: what lies before the first possible beginning of a match is of no use, but for
 * its line and for expressions that look back. */
static void forget(const struct pattern *pattern, struct pattern_text *text)
{
    size_t back = pattern->lookbehind * (size_t)4;
    size_t keep = text->resume > back ? text->resume - back : 0;
    if (keep > KEPT_MAX)
        drop(text, line_start(&text->text, keep));
    if (text->text.size > TEXT_MAX)
        drop(text, character_start(&text->text, text->text.size - TEXT_MAX / 2));
}

int pattern_add(struct pattern_text *text, const char *data, size_t size)
{
    text->searched = text->searched && size == 0;
    return buf_add(&text->text, data, size);
}

/* Searching. */

static json_t *piece(const char *from, size_t size)
{
    return json_stringn_nocheck(from, size);
}

/* The groups as JavaScript's match array is written in JSON. */
static json_t *match_groups(const struct pattern *pattern, const char *subject, int count)
{
    const size_t *places = pcre2_get_ovector_pointer(pattern->match);
    uint32_t groups = pcre2_get_ovector_count(pattern->match);
    json_t *list = json_array();
    for (uint32_t i = 0; i < groups; i++) {
        bool set =
            (int)i < count && places[2 * i] != PCRE2_UNSET && places[2 * i + 1] >= places[2 * i];
        json_array_append_new(
            list,
            set ? piece(subject + places[2 * i], places[2 * i + 1] - places[2 * i]) : json_null());
    }
    return list;
}

/* Until when a search may go on, and how far it came. */
struct turn {
    int64_t until_ns;
    size_t at;
};

/* Called by PCRE2 for each position that it tries, because every expression begins with a callout.
 */
static int on_position(pcre2_callout_block *block, void *data)
{
    struct turn *turn = data;
    turn->at = block->start_match;
    return loop_now_ns() > turn->until_ns ? PCRE2_ERROR_CALLOUT : 0;
}

static int match(const struct pattern *pattern, const pcre2_code *code, const char *subject,
                 size_t size, uint32_t options, struct turn *turn)
{
    pcre2_set_callout(pattern->context, on_position, turn);
    return pcre2_match(code, (PCRE2_SPTR)(subject ? subject : ""), size, turn->at,
                       options | PCRE2_NO_UTF_CHECK, pattern->match, pattern->context);
}

/* A match by itself in one of the lines that this one touches: its groups are the result. Lines
 * that nobody has tried may take long; when the turn is over, the match as it was found must do. */
static json_t *found_match(const struct pattern *pattern, const struct buf *text, int count)
{
    const size_t *places = pcre2_get_ovector_pointer(pattern->match);
    size_t start = places[0], end = places[1] > start ? places[1] : start;
    json_t *groups = match_groups(pattern, buf_text(text), count);
    struct turn turn = {.until_ns = loop_now_ns() + TURN_NS};
    for (size_t from = line_start(text, start); from <= end;) {
        const char *line = buf_text(text) + from;
        const char *newline = memchr(line, '\n', text->size - from);
        size_t size = newline ? (size_t)(newline - line) : text->size - from;
        turn.at = 0;
        count = match(pattern, pattern->code, line, size, 0, &turn);
        if (count > 0) {
            json_decref(groups);
            return json_pack("{s:o,s:o}", "line", piece(line, size), "match",
                             match_groups(pattern, line, count));
        }
        if (!newline || loop_now_ns() > turn.until_ns)
            break;
        from += size + 1;
    }
    return json_pack("{s:o,s:o}", "line", piece(buf_text(text) + start, end - start), "match",
                     groups);
}

static enum pattern_result search_literal(const struct pattern *pattern, struct pattern_text *text,
                                          json_t **found)
{
    const struct buf *all = &text->text;
    const char *start = buf_text(all);
    size_t size = pattern->literal_size;
    const char *at = memmem(start + text->resume, all->size - text->resume, pattern->literal, size);
    if (!at) {
        text->resume = all->size < size ? 0 : all->size - size + 1;
        return PATTERN_NONE;
    }
    if (memchr(pattern->literal, '\n', size)) {
        *found = json_pack("{s:o}", "line", piece(pattern->literal, size));
        return PATTERN_FOUND;
    }
    const char *line = start + line_start(all, (size_t)(at - start));
    const char *end = memchr(at, '\n', all->size - (size_t)(at - start));
    size_t line_size = (size_t)((end ? end : start + all->size) - line);
    *found = json_pack("{s:o}", "line", piece(line, line_size));
    return PATTERN_FOUND;
}

/* A busy machine is not the expression's fault. */
static int64_t cpu_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void begin_search(struct pattern_text *text)
{
    text->at = text->resume;
    text->seen = text->text.size;
    text->second = false;
    text->spent_ns = 1;
}

/* One turn of the first look, for a match, or of the second, for the first position from which the
 * end of the text was reached: more text could complete that one, and none before it. */
static enum pattern_result search_turn(const struct pattern *pattern, struct pattern_text *text,
                                       json_t **found)
{
    const struct buf *all = &text->text;
    struct turn turn = {.until_ns = loop_now_ns() + TURN_NS, .at = text->at};
    int64_t began_ns = cpu_ns();
    uint32_t options = text->cut && !pattern->multiline ? PCRE2_NOTBOL : 0;
    if (text->second)
        options |= PCRE2_PARTIAL_HARD;
    int count = match(pattern, pattern->code, all->data, all->size, options, &turn);
    text->spent_ns += cpu_ns() - began_ns;
    text->at = turn.at;
    if (count > 0 && !text->second) {
        *found = found_match(pattern, all, count);
        return PATTERN_FOUND;
    }
    if (count == PCRE2_ERROR_CALLOUT)
        return text->spent_ns > SEARCH_NS ? PATTERN_COSTLY : PATTERN_MORE;
    if (count == PCRE2_ERROR_NOMATCH && !text->second) {
        text->second = true;
        text->at = text->resume;
        return PATTERN_MORE;
    }
    if (count < 0 && count != PCRE2_ERROR_NOMATCH && count != PCRE2_ERROR_PARTIAL)
        return PATTERN_COSTLY;
    text->resume =
        count == PCRE2_ERROR_NOMATCH ? all->size : pcre2_get_ovector_pointer(pattern->match)[0];
    return PATTERN_NONE;
}

static enum pattern_result search_expression(const struct pattern *pattern,
                                             struct pattern_text *text, json_t **found)
{
    /* What came during a search may complete a match that began before it: then there is another.
     */
    if (text->spent_ns == 0 || text->seen != text->text.size)
        begin_search(text);
    enum pattern_result result = search_turn(pattern, text, found);
    if (result == PATTERN_MORE && text->second && text->at == text->resume)
        result = search_turn(pattern, text, found);
    if (result == PATTERN_NONE)
        text->spent_ns = 0;
    return result;
}

enum pattern_result pattern_search(const struct pattern *pattern, struct pattern_text *text,
                                   json_t **found)
{
    if (text->searched)
        return PATTERN_NONE;
    enum pattern_result result = pattern->literal ? search_literal(pattern, text, found)
                                                  : search_expression(pattern, text, found);
    if (result == PATTERN_NONE) {
        text->searched = true;
        forget(pattern, text);
    }
    return result;
}

bool pattern_matches_lines(const struct pattern *pattern, const struct pattern_text *text)
{
    struct turn turn = {.until_ns = loop_now_ns() + TURN_NS};
    return pattern->by_lines &&
           match(pattern, pattern->by_lines, text->text.data, text->text.size, 0, &turn) >= 0;
}
