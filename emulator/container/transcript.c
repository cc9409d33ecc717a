#include "container/transcript.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { CHARACTER_MAX = 4, LINE_NEAR = 64 * 1024 };

static uint64_t end_of(const struct transcript *transcript)
{
    return transcript->base + transcript->text.size;
}

/* How many bytes at the end are the beginning of a character whose rest is still to come. */
static size_t cut_character(const char *data, size_t size)
{
    const char *end = data + size;
    for (size_t back = 1; back < CHARACTER_MAX && back <= size; back++) {
        unsigned char c = (unsigned char)data[size - back];
        if ((c & 0xc0) == 0x80)
            continue;
        bool leads = c >= 0xc2 && c <= 0xf4;
        return leads && utf8_step(end - back, end) == -(int)back ? back : 0;
    }
    return 0;
}

static uint64_t whole_until(const struct transcript *transcript)
{
    const struct buf *text = &transcript->text;
    return end_of(transcript) - cut_character(buf_text(text), text->size);
}

/* After all but the first `old` bytes were added: what is older has no newline behind `ready`. */
static void set_ready(struct transcript *transcript, size_t old)
{
    const struct buf *text = &transcript->text;
    uint64_t whole = whole_until(transcript);
    if (whole < transcript->ready)
        return;
    if (!transcript->by_line) {
        transcript->ready = whole;
        return;
    }
    const char *newline = memrchr(buf_text(text) + old, '\n', text->size - old);
    if (newline)
        transcript->ready = transcript->base + (uint64_t)(newline + 1 - text->data);
    else if (end_of(transcript) - transcript->ready >= TRANSCRIPT_LINE_MAX)
        transcript->ready = whole;
}

/* As buf_add(), without NUL bytes. */
static int add_text(struct buf *to, const char *data, size_t size)
{
    int result = 0;
    const char *end = data + size;
    while (data < end && result == 0) {
        const char *nul = memchr(data, '\0', (size_t)(end - data));
        const char *stop = nul ? nul : end;
        result = buf_add(to, data, (size_t)(stop - data));
        data = nul ? nul + 1 : end;
    }
    return result;
}

void transcript_add(struct transcript *transcript, const char *data, size_t size)
{
    struct buf *text = &transcript->text;
    size_t old = text->size;
    int result = transcript->by_line ? add_text(text, data, size) : buf_add(text, data, size);
    if (result < 0) {
        transcript->base += old + size;
        transcript->ready = transcript->base;
        buf_free(text);
    } else {
        set_ready(transcript, old);
    }
}

void transcript_finish(struct transcript *transcript)
{
    const struct buf *text = &transcript->text;
    bool open = text->size > 0 && text->data[text->size - 1] != '\n';
    if (transcript->by_line && open)
        transcript_add(transcript, "\n", 1);
    transcript->ready = end_of(transcript);
}

void transcript_part(struct transcript *transcript)
{
    uint64_t whole = whole_until(transcript);
    if (whole > transcript->ready)
        transcript->ready = whole;
}

/* Gives memory back that a long line needed, or that doubling took too much of. */
static void shrink(struct buf *text)
{
    if (text->capacity / 4 < text->size + 1 || text->capacity < 64 * 1024)
        return;
    char *smaller = realloc(text->data, text->size + 1);
    if (!smaller)
        return;
    text->data = smaller;
    text->capacity = text->size + 1;
}

/* Where to cut so that what stays begins with a line, when that is near, or with a character. */
static size_t good_cut(const struct transcript *transcript, size_t cut, size_t most)
{
    const char *data = transcript->text.data;
    size_t near = most - cut < LINE_NEAR ? most - cut : LINE_NEAR;
    const char *newline = transcript->by_line ? memchr(data + cut, '\n', near) : NULL;
    if (newline)
        return (size_t)(newline - data) + 1;
    while (cut < most && ((unsigned char)data[cut] & 0xc0) == 0x80)
        cut++;
    return cut;
}

void transcript_trim(struct transcript *transcript, uint64_t hold, size_t keep)
{
    struct buf *text = &transcript->text;
    if (text->size <= keep * 2)
        return;
    uint64_t last = hold < transcript->ready ? hold : transcript->ready;
    size_t most = last > transcript->base ? (size_t)(last - transcript->base) : 0;
    size_t cut = text->size - keep;
    cut = cut < most ? good_cut(transcript, cut, most) : most;
    if (cut == 0)
        return;
    transcript->base += cut;
    buf_drop(text, cut);
    shrink(text);
}

void transcript_clear(struct transcript *transcript)
{
    transcript->base = transcript->ready = end_of(transcript);
    buf_free(&transcript->text);
}

const char *transcript_at(const struct transcript *transcript, uint64_t position, size_t *size)
{
    *size = (size_t)(transcript->ready - position);
    return buf_text(&transcript->text) + (position - transcript->base);
}

size_t transcript_whole(const char *text, size_t size, size_t most)
{
    return size <= most ? size : most - cut_character(text, most);
}

int transcript_gap(struct buf *to, uint64_t size)
{
    return buf_addf(to, "[sandpit: %" PRIu64 " bytes of older output dropped]\n", size);
}
