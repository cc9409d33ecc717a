/* Changes that repair what a check found. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/check_internal.h"

enum { DIFF_BYTES_MAX = 1 << 16 };

/* What is put in has the line ends of the file. */
static void add_with_ends(struct buf *to, const char *text, bool carriage)
{
    for (; *text; text++) {
        if (*text == '\n' && carriage)
            buf_addc(to, '\r');
        if (*text != '\r' || !carriage)
            buf_addc(to, *text);
    }
}

/* patch takes only files below the directory it is in, and a name that was cut is none. */
void fix_splice(struct finding *finding, const char *text, size_t size, const struct splice *splice)
{
    if (!finding || finding->fix || *finding->file == '/' ||
        strncmp(finding->file, "../", 3) == 0 || strlen(finding->file) + 1 >= sizeof finding->file)
        return;
    CLEANUP_BUF struct buf diff = BUF_INIT(DIFF_BYTES_MAX), insert = BUF_INIT(SOURCE_BYTES_MAX);
    const char *newline = memchr(text, '\n', size);
    add_with_ends(&insert, splice->insert, newline && newline > text && newline[-1] == '\r');
    const struct splice change = {splice->at, splice->remove, buf_text(&insert)};
    if (!insert.error && patch_splice(&diff, finding->file, text, size, &change) == 0)
        finding->fix = buf_steal(&diff);
}

void fix_tokens(struct finding *finding, const struct script_file *file, struct tokens tokens,
                const char *insert)
{
    const struct token *first = &file->script.tokens[tokens.from];
    const struct token *last = &file->script.tokens[tokens.until - 1];
    const struct splice splice = {first->at, last->at + last->size - first->at, insert};
    fix_splice(finding, buf_text(&file->text), file->text.size, &splice);
}

/* The configuration. */

static size_t offset_at(const struct buf *text, struct place place)
{
    const char *at = buf_text(text);
    size_t offset = text->size >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (place.line > 1 && offset < text->size)
        place.line -= at[offset++] == '\n';
    while (place.column > 1 && offset < text->size) {
        offset++;
        while (offset < text->size && ((unsigned char)at[offset] & 0xC0) == 0x80)
            offset++;
        place.column--;
    }
    return offset;
}

/* Where a line begins, and how long it is without its newline. */
static void line_at(const struct buf *text, int line, size_t *from, size_t *size)
{
    *from = offset_at(text, (struct place){line, 1});
    const char *start = buf_text(text) + *from;
    const char *newline = memchr(start, '\n', text->size - *from);
    *size = newline ? (size_t)(newline - start) : text->size - *from;
}

/* How far the line of `offset` is indented, as its own white space. */
static void indent_of(const char *text, size_t offset, char to[64])
{
    size_t start = offset, size = 0;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    while (size < 63 && (text[start + size] == ' ' || text[start + size] == '\t'))
        size++;
    memcpy(to, text + start, size);
    to[size] = '\0';
}

/* Behind an opening bracket: in a line of its own where the others have one too. */
static void add_behind(const struct buf *text, size_t bracket, const char *what, struct buf *insert)
{
    const char *at = buf_text(text);
    size_t next = bracket + 1;
    while (next < text->size && isspace((unsigned char)at[next]))
        next++;
    bool empty = next >= text->size || strchr("]}", at[next]);
    bool lines = memchr(at + bracket, '\n', next - bracket) != NULL;
    if (!lines || empty) {
        bool spaced = !empty && next > bracket + 1;
        buf_addf(insert, "%s%s%s", spaced ? " " : "", what, empty ? "" : spaced ? "," : ", ");
        return;
    }
    char indent[64];
    indent_of(at, next, indent);
    buf_addf(insert, "\n%s%s,", indent, what);
}

void fix_add(const struct inspection *inspection, struct finding *finding, struct where where,
             const char *json)
{
    const struct source *source = &inspection->project.source;
    size_t at = offset_at(&source->text, source_place(source, where));
    CLEANUP_BUF struct buf insert = BUF_INIT(DIFF_BYTES_MAX);
    if (at >= source->text.size || !strchr("[{", buf_text(&source->text)[at]))
        return;
    add_behind(&source->text, at, json, &insert);
    const struct splice splice = {at + 1, 0, buf_text(&insert)};
    fix_splice(finding, buf_text(&source->text), source->text.size, &splice);
}

void fix_add_member(const struct inspection *inspection, struct finding *finding, size_t class,
                    const char *name, const char *value)
{
    const struct source *source = &inspection->project.source;
    const char *text = buf_text(&source->text);
    struct where where = where_class(inspection, class, NULL);
    size_t at = offset_at(&source->text, source_place(source, where));
    char what[160];
    if (at < source->text.size && text[at] == '{') {
        snprintf(what, sizeof what, source->toml ? "%s = %s" : "\"%s\": %s", name, value);
        fix_add(inspection, finding, where, what);
        return;
    }
    /* A table with a header: in the line behind that of class_name, if that is one of its own. */
    size_t from, size;
    where = where_name(where, "class_name");
    line_at(&source->text, source_place(source, where).line, &from, &size);
    bool last = from + size >= source->text.size;
    snprintf(what, sizeof what, "%s%s = %s\n", last ? "\n" : "", name, value);
    const struct splice splice = {last ? source->text.size : from + size + 1, 0, what};
    fix_splice(finding, text, source->text.size, &splice);
}

void fix_rename(const struct inspection *inspection, struct finding *finding, struct where where,
                const char *old, const char *new)
{
    const struct source *source = &inspection->project.source;
    const char *text = buf_text(&source->text);
    size_t length = strlen(old), at = offset_at(&source->text, source_place(source, where));
    while (at > 0 && (at + length > source->text.size || memcmp(text + at, old, length) != 0))
        at--;
    const struct splice splice = {at, length, new};
    if (at > 0)
        fix_splice(finding, text, source->text.size, &splice);
}

void fix_add_section(const struct inspection *inspection, struct finding *finding, const char *json,
                     const char *toml, bool at_end)
{
    const struct source *source = &inspection->project.source;
    struct where where = {0};
    if (*inspection->project.environment) /* and TOML has many places for it */
        where = where_name(where_name(where, "env"), inspection->project.environment);
    if (!source->toml) {
        fix_add(inspection, finding, where, json);
    } else if (where.count == 0) {
        size_t size = source->text.size;
        bool open = at_end && size > 0 && buf_text(&source->text)[size - 1] != '\n';
        CLEANUP_BUF struct buf insert = BUF_INIT(DIFF_BYTES_MAX);
        buf_addf(&insert, "%s%s%s\n", open ? "\n" : "", at_end ? "\n" : "", toml);
        const struct splice splice = {at_end ? size : 0, 0, buf_text(&insert)};
        fix_splice(finding, buf_text(&source->text), size, &splice);
    }
}

void fix_string(const struct inspection *inspection, struct finding *finding, struct where where,
                const char *text)
{
    const struct source *source = &inspection->project.source;
    const char *all = buf_text(&source->text);
    size_t at = offset_at(&source->text, source_place(source, where));
    char quote = at < source->text.size ? all[at] : '\0';
    if (quote != '"' && quote != '\'')
        return;
    const char *end = memchr(all + at + 1, quote, source->text.size - at - 1);
    const struct splice splice = {at + 1, end ? (size_t)(end - all) - at - 1 : 0, text};
    if (end)
        fix_splice(finding, all, source->text.size, &splice);
}

/* Dockerfiles. */

void fix_dockerfile(struct finding *finding, const struct project_class *class, const char *text)
{
    CLEANUP_BUF struct buf all = BUF_INIT(SOURCE_BYTES_MAX), insert = BUF_INIT(DIFF_BYTES_MAX);
    struct error err = {0};
    if (!finding || source_text(class->dockerfile, &all, &err) < 0)
        return;
    bool open = all.size > 0 && buf_text(&all)[all.size - 1] != '\n';
    buf_addf(&insert, "%s%s\n", open ? "\n" : "", text);
    const struct splice splice = {all.size, 0, buf_text(&insert)};
    fix_splice(finding, buf_text(&all), all.size, &splice);
}

void fix_comment(struct finding *finding, const struct project_class *class, int line)
{
    CLEANUP_BUF struct buf all = BUF_INIT(SOURCE_BYTES_MAX), insert = BUF_INIT(SOURCE_BYTES_MAX);
    struct error err = {0};
    struct splice splice = {0, 0, NULL};
    if (!finding || source_text(class->dockerfile, &all, &err) < 0)
        return;
    line_at(&all, line, &splice.at, &splice.remove);
    const char *text = buf_text(&all) + splice.at, *end = text + splice.remove;
    while (end > text && end[-1] == '\r')
        end--;
    splice.remove = (size_t)(end - text);
    const char *comment = memchr(text, '#', splice.remove), *behind = comment;
    if (!comment || end[-1] == '\\') /* it stands in a line that is joined to this one */
        return;
    while (behind > text && isspace((unsigned char)behind[-1]))
        behind--;
    buf_add(&insert, comment, (size_t)(end - comment));
    const char *word = text;
    while (word < behind && isspace((unsigned char)*word))
        word++;
    while (word < behind && !isspace((unsigned char)*word))
        word++;
    if (word < behind) /* else the comment is all there was */
        buf_addf(&insert, "\n%.*s", (int)(behind - text), text);
    splice.insert = buf_text(&insert);
    fix_splice(finding, buf_text(&all), all.size, &splice);
}

void fix_image(const struct inspection *inspection, struct finding *finding, size_t index,
               const char *image)
{
    const struct project_class *class = &inspection->project.classes[index];
    if (!class->dockerfile) {
        fix_string(inspection, finding, where_class(inspection, index, "image"), image);
        return;
    }
    CLEANUP_BUF struct buf all = BUF_INIT(SOURCE_BYTES_MAX);
    struct error err = {0};
    size_t from, size;
    if (!finding || source_text(class->dockerfile, &all, &err) < 0)
        return;
    line_at(&all, class->facts.from_line, &from, &size);
    const char *old = memmem(buf_text(&all) + from, size, class->from, strlen(class->from));
    const struct splice splice = {old ? (size_t)(old - buf_text(&all)) : 0, strlen(class->from),
                                  image};
    if (old) /* else a variable names it */
        fix_splice(finding, buf_text(&all), all.size, &splice);
}
