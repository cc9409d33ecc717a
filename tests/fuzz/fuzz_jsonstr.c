/* Fuzzing of base/jsonstr with jansson as the judge. The first byte chooses what is tried, the rest
 * is the input. With libFuzzer (clang -fsanitize=fuzzer) it runs by itself; compiled with
 * -DFUZZ_MAIN it runs once over each file given, for a corpus or a crash found elsewhere. */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)
/* Inputs are small; this only has to be larger than what they grow to. */
#define ROOM (64 * 1024 * 1024)

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

static bool same(const json_t *json, const struct buf *buf)
{
    return json_string_length(json) == buf->size &&
           memcmp(json_string_value(json), buf_text(buf), buf->size) == 0;
}

static bool unescape(struct buf *to, const char *text, size_t size, size_t room)
{
    CLEANUP_FREE char *piece = malloc(room);
    const char *at = text;
    long got;
    while ((got = jsonstr_unescape(&at, text + size, piece, room)) > 0) {
        demand((size_t)got <= room, "a piece fits its room");
        demand(buf_add(to, piece, (size_t)got) == 0, "the buffer is large enough");
    }
    demand(got < 0 || at == text + size, "nothing is left at the end");
    return got == 0;
}

/* The input as the inside of a literal: read as jansson reads it, or refused as well. */
static void try_literal(const char *text, size_t size, size_t room)
{
    CLEANUP_BUF struct buf whole = BUF_INIT(ROOM), got = BUF_INIT(ROOM);
    buf_addc(&whole, '"');
    buf_add(&whole, text, size);
    buf_addc(&whole, '"');
    CLEANUP_JSON json_t *json = json_loadb(whole.data, whole.size, FLAGS, NULL);
    bool ends = jsonstr_end(whole.data + 1, whole.size - 1) == (long)size;
    bool read = ends && unescape(&got, text, size, room);
    demand(read == (json != NULL), "jansson agrees that this is a literal");
    if (read)
        demand(same(json, &got), "jansson reads the same text");
}

/* The input as any bytes: cleaned, escaped, and back by both ways. */
static void try_bytes(const char *text, size_t size, size_t room)
{
    CLEANUP_BUF struct buf clean = BUF_INIT(ROOM), escaped = BUF_INIT(ROOM), back = BUF_INIT(ROOM);
    demand(jsonstr_clean(&clean, text, size, false) == 0, "bytes can be cleaned");
    buf_addc(&escaped, '"');
    demand(jsonstr_escape(&escaped, text, size) == 0, "bytes can be escaped");
    buf_addc(&escaped, '"');
    CLEANUP_JSON json_t *json = json_loadb(escaped.data, escaped.size, FLAGS, NULL);
    demand(json && same(json, &clean), "jansson reads what was escaped");
    demand(unescape(&back, escaped.data + 1, escaped.size - 2, room) && same(json, &back),
           "what was escaped can be unescaped");
    CLEANUP_JSON json_t *direct = json_stringn(size ? text : "", size);
    if (direct)
        demand(clean.size == size && memcmp(buf_text(&clean), text, size) == 0,
               "UTF-8 is not changed");
}

/* The input as a request body: a cut must not change what it means. */
static void try_cut(const char *text, size_t size, const char *member, int index, size_t room)
{
    const char *inside;
    size_t inside_size;
    CLEANUP_FREE char *rest = NULL;
    if (jsonstr_cut(text, size, member, index, 1, &inside, &inside_size, &rest) != 1)
        return;
    CLEANUP_BUF struct buf got = BUF_INIT(ROOM);
    CLEANUP_JSON json_t *whole = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
    /* The rest is as long as the text but for the literal; a NUL in it must not end it early. */
    CLEANUP_JSON json_t *json = json_loadb(rest, size - inside_size - 2 + 4, JSON_ALLOW_NUL, NULL);
    bool read = unescape(&got, inside, inside_size, room) && json;
    demand(read == (whole != NULL), "jansson agrees that this is JSON");
    if (!read)
        return;
    json_t *value = json_stringn(buf_text(&got), got.size);
    if (member)
        json_object_set_new(json, member, value);
    else
        json_array_set_new(json, (size_t)index, value);
    demand(json_equal(whole, json), "jansson reads the same value");
}

/* The input as JSON: written again, it reads as the same value. */
static void try_write(const char *text, size_t size)
{
    CLEANUP_JSON json_t *json = json_loadb(text, size, FLAGS, NULL);
    if (!json)
        return;
    CLEANUP_BUF struct buf written = BUF_INIT(ROOM);
    demand(json_write(&written, json, NULL, NULL) == 0, "a value can be written");
    CLEANUP_JSON json_t *back = json_loadb(written.data, written.size, FLAGS, NULL);
    demand(back && json_equal(json, back), "what was written reads the same");
}

static void try_base64(const char *text, size_t size, size_t room)
{
    CLEANUP_BUF struct buf encoded = BUF_INIT(ROOM), back = BUF_INIT(ROOM);
    CLEANUP_FREE char *piece = malloc(room);
    demand(base64_encode(&encoded, text, size) == 0, "bytes can be encoded");
    const char *at = encoded.data;
    long got;
    while ((got = base64_decode(&at, encoded.data + encoded.size, piece, room)) > 0)
        buf_add(&back, piece, (size_t)got);
    demand(got == 0 && back.size == size && memcmp(buf_text(&back), text, size) == 0,
           "what was encoded can be decoded");
    for (at = text; (got = base64_decode(&at, text + size, piece, room)) > 0;)
        demand((size_t)got <= room, "a piece fits its room");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *text = (const char *)data + 1;
    size_t left = size - 1, room = 16 + data[0] / 8;
    switch (data[0] % 6) {
    case 0:
        try_literal(text, left, room);
        break;
    case 1:
        try_bytes(text, left, room);
        break;
    case 2:
        try_cut(text, left, "content", -1, room);
        break;
    case 3:
        try_cut(text, left, NULL, data[0] / 6 % 3, room);
        break;
    case 4:
        try_write(text, left);
        break;
    default:
        try_base64(text, left, room);
        break;
    }
    return 0;
}

#ifdef FUZZ_MAIN
static int run_file(const char *path)
{
    CLEANUP_FILE FILE *file = fopen(path, "rbe");
    if (!file) {
        perror(path);
        return -1;
    }
    CLEANUP_BUF struct buf input = BUF_INIT(ROOM);
    char piece[4096];
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        demand(buf_add(&input, piece, got) == 0, "the file is not too large");
    return LLVMFuzzerTestOneInput((const uint8_t *)buf_text(&input), input.size);
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= run_file(argv[i]);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
#endif
