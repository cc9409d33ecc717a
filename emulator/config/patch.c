#include "config/patch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 3, TEXT_BYTES_MAX = 2 << 20, MIDDLE_MAX = 256 };

struct lines {
    const char *text;
    size_t size, count;
};

static size_t line_size(const char *text, size_t size)
{
    const char *newline = memchr(text, '\n', size);
    return newline ? (size_t)(newline - text) + 1 : size;
}

static struct lines lines_of(const char *text, size_t size)
{
    struct lines lines = {.text = text, .size = size};
    for (size_t at = 0; at < size; at += line_size(text + at, size - at))
        lines.count++;
    return lines;
}

/* The offset of a line. */
static size_t offset_of(const struct lines *lines, size_t line)
{
    size_t at = 0;
    while (line-- > 0 && at < lines->size)
        at += line_size(lines->text + at, lines->size - at);
    return at;
}

static bool same_line(const struct lines *one, size_t a, const struct lines *other, size_t b)
{
    size_t from = offset_of(one, a), to = offset_of(other, b);
    size_t size = line_size(one->text + from, one->size - from);
    return size == line_size(other->text + to, other->size - to) &&
           memcmp(one->text + from, other->text + to, size) == 0;
}

static void add_lines(struct buf *to, char mark, const struct lines *lines, size_t from,
                      size_t until)
{
    size_t at = offset_of(lines, from);
    for (; from < until; from++) {
        size_t size = line_size(lines->text + at, lines->size - at);
        buf_addc(to, mark);
        buf_add(to, lines->text + at, size);
        at += size;
        if (size == 0 || lines->text[at - 1] != '\n')
            buf_adds(to, "\n\\ No newline at end of file\n");
    }
}

/* The part of both texts that differs, with the lines that they share. */
static void add_middle(struct buf *to, const struct lines *old, size_t from, size_t old_end,
                       const struct lines *new, size_t new_end)
{
    size_t rows = old_end - from, columns = new_end - from;
    /* How many lines the rests behind each pair of lines share. */
    unsigned short(*shared)[MIDDLE_MAX + 1] =
        rows < MIDDLE_MAX && columns < MIDDLE_MAX ? calloc(rows + 1, sizeof *shared) : NULL;
    for (size_t i = rows; shared && i-- > 0;) {
        for (size_t j = columns; j-- > 0;) {
            unsigned short down = shared[i + 1][j], right = shared[i][j + 1];
            shared[i][j] = same_line(old, from + i, new, from + j)
                               ? (unsigned short)(shared[i + 1][j + 1] + 1)
                           : down > right ? down
                                          : right;
        }
    }
    size_t i = 0, j = 0;
    while (shared && i < rows && j < columns) {
        if (same_line(old, from + i, new, from + j)) {
            add_lines(to, ' ', old, from + i, from + i + 1);
            i++;
            j++;
        } else if (shared[i + 1][j] >= shared[i][j + 1]) {
            add_lines(to, '-', old, from + i, from + i + 1);
            i++;
        } else {
            add_lines(to, '+', new, from + j, from + j + 1);
            j++;
        }
    }
    add_lines(to, '-', old, from + i, old_end);
    add_lines(to, '+', new, from + j, new_end);
    free(shared);
}

/* One hunk: what is the same at the beginning and at the end is left out but for some context. */
static int diff(struct buf *to, const char *file, const struct lines *old, const struct lines *new)
{
    size_t same = 0, tail = 0;
    size_t least = old->count < new->count ? old->count : new->count;
    while (same < least && same_line(old, same, new, same))
        same++;
    while (tail < least - same && same_line(old, old->count - 1 - tail, new, new->count - 1 - tail))
        tail++;
    size_t from = same > CONTEXT ? same - CONTEXT : 0;
    size_t after = tail > CONTEXT ? CONTEXT : tail;
    size_t old_end = old->count - tail, new_end = new->count - tail;
    size_t old_count = old_end + after - from, new_count = new_end + after - from;
    buf_addf(to, "--- a/%s\n+++ b/%s\n@@ -%zu,%zu +%zu,%zu @@\n", file, file,
             old_count ? from + 1 : from, old_count, new_count ? from + 1 : from, new_count);
    add_lines(to, ' ', old, from, same);
    add_middle(to, old, same, old_end, new, new_end);
    add_lines(to, ' ', old, old_end, old_end + after);
    return to->error;
}

int patch_splice(struct buf *to, const char *file, const char *text, size_t size,
                 const struct splice *splice)
{
    CLEANUP_BUF struct buf changed = BUF_INIT(TEXT_BYTES_MAX);
    if (splice->at > size || splice->remove > size - splice->at)
        return -EINVAL;
    buf_add(&changed, text, splice->at);
    buf_adds(&changed, splice->insert);
    buf_add(&changed, text + splice->at + splice->remove, size - splice->at - splice->remove);
    if (changed.error)
        return changed.error;
    struct lines old = lines_of(text, size), new = lines_of(buf_text(&changed), changed.size);
    return diff(to, file, &old, &new);
}
