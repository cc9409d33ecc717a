/* JSON strings: each rule by hand, and thousands of generated strings against jansson. */
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "greatest.h"

#define FFFD "\xef\xbf\xbd"
/* A literal with NUL bytes in it, and its size. */
#define TEXT(literal) (literal), sizeof(literal) - 1

/* A fixed sequence: a failure repeats. */
static uint64_t dice = 88172645463325252u;

static unsigned roll(unsigned sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (unsigned)(dice >> 33) % sides;
}

/* Unescapes all of it through pieces of `room` bytes; 0 or -1. */
static int unescape(struct buf *to, const char *text, size_t size, size_t room)
{
    /* Of exact size, so that AddressSanitizer sees a step outside. */
    CLEANUP_FREE char *piece = malloc(room);
    CLEANUP_FREE char *copy = malloc(size + !size);
    memcpy(copy, text, size);
    const char *at = copy;
    for (;;) {
        long got = jsonstr_unescape(&at, copy + size, piece, room);
        if (got < 0)
            return -1;
        if (got == 0)
            return at == copy + size ? 0 : -2;
        if ((size_t)got > room || buf_add(to, piece, (size_t)got) < 0)
            return -2;
    }
}

TEST unescapes_to(const char *text, const char *expected, size_t size)
{
    for (size_t room = 16; room < 24; room++) {
        CLEANUP_BUF struct buf got = BUF_INIT(4096);
        ASSERT_EQm(text, 0, unescape(&got, text, strlen(text), room));
        ASSERT_EQm(text, size, got.size);
        ASSERT_MEM_EQm(text, expected, buf_text(&got), size);
    }
    PASS();
}

TEST every_escape_is_understood(void)
{
    CHECK_CALL(unescapes_to("", TEXT("")));
    CHECK_CALL(
        unescapes_to("plain text, longer than a word", TEXT("plain text, longer than a word")));
    CHECK_CALL(unescapes_to("\\\"\\\\\\/\\b\\f\\n\\r\\t", TEXT("\"\\/\b\f\n\r\t")));
    CHECK_CALL(unescapes_to("\\u0041\\u00e9\\u00E9\\u20ac", TEXT("A\xc3\xa9\xc3\xa9\xe2\x82\xac")));
    CHECK_CALL(unescapes_to("\\u0000x\\u0000", TEXT("\0x\0")));
    CHECK_CALL(
        unescapes_to("\\ud83d\\ude00\\uDBFF\\uDFFF", TEXT("\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf")));
    CHECK_CALL(unescapes_to("\\ud7ff\\ue000\\uffff", TEXT("\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf")));
    CHECK_CALL(unescapes_to("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f",
                            TEXT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f")));
    PASS();
}

/* Also behind 0 to 16 plain bytes, so that each place in a word and the tail is met. */
TEST is_refused(const char *text, size_t size)
{
    char shifted[64];
    for (size_t shift = 0; shift <= 16; shift++) {
        memset(shifted, 'x', shift);
        memcpy(shifted + shift, text, size);
        memset(shifted + shift + size, 'y', 9);
        CLEANUP_BUF struct buf got = BUF_INIT(4096);
        ASSERT_EQm(text, -1, unescape(&got, shifted, shift + size, 16));
        ASSERT_EQm(text, -1, unescape(&got, shifted, shift + size, 64));
        ASSERT_EQm(text, -1, unescape(&got, shifted, shift + size + 9, 16));
    }
    PASS();
}

TEST what_is_not_json_is_refused(void)
{
    static const char *const bad[] = {
        "\\",
        "\\x",
        "\\'",
        "\\U0041",
        "\\u",
        "\\u0",
        "\\u00",
        "\\u004",
        "\\u00g0",
        "\\u-001",
        "\\u+041",
        "\\u 041",
        "\\ud83d",
        "\\ud83d\\n",
        "\\ud83dxx",
        "\\ud83d\\u",
        "\\ud83d\\ude",
        "\\ud83d\\u0041",
        "\\ud83d\\ud83d",
        "\\udc00",
        "\\ude00\\ud83d",
        "\"",
        "\n",
        "\t",
        "\x01",
        "\x1f",
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc3",
        "\xc3(",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xe2\x82",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf0\x9f\x98",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xfe",
        "\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_CALL(is_refused(bad[i], strlen(bad[i])));
    CHECK_CALL(is_refused(TEXT("\0")));
    PASS();
}

TEST pieces_of_any_room_give_the_same(void)
{
    static const char text[] =
        "0123456789abc\\ud83d\\ude00\xe2\x82\xac\\n\xf0\x9f\x98\x80----------"
        "---------------------------------\\u20ac\\\"tail";
    CLEANUP_BUF struct buf whole = BUF_INIT(4096);
    ASSERT_EQ(0, unescape(&whole, TEXT(text), 4096));
    for (size_t room = 16; room < 100; room++) {
        CLEANUP_BUF struct buf got = BUF_INIT(4096);
        ASSERT_EQ(0, unescape(&got, TEXT(text), room));
        ASSERT_STR_EQ(buf_text(&whole), buf_text(&got));
    }
    PASS();
}

TEST the_end_is_the_first_bare_quote(void)
{
    ASSERT_EQ(0, jsonstr_end(TEXT("\"")));
    ASSERT_EQ(-1, jsonstr_end(TEXT("")));
    ASSERT_EQ(-1, jsonstr_end(TEXT("no end here at all")));
    ASSERT_EQ(-1, jsonstr_end(TEXT("\\")));
    ASSERT_EQ(-1, jsonstr_end(TEXT("1234567\\")));
    ASSERT_EQ(-1, jsonstr_end(TEXT("123456\\\"")));
    ASSERT_EQ(2, jsonstr_end(TEXT("\\\\\"")));
    ASSERT_EQ(4, jsonstr_end(TEXT("\\\\\\\"\"")));
    ASSERT_EQ(5, jsonstr_end(TEXT("\xff\xa2\xdc\0x\"")));
    char text[64];
    for (size_t at = 0; at < 40; at++) {
        memset(text, 'x', sizeof text);
        text[at] = '"';
        ASSERT_EQ((long)at, jsonstr_end(text, sizeof text));
        ASSERT_EQ(-1, jsonstr_end(text, at));
        if (at > 0)
            text[at - 1] = '\\';
        text[50] = '"';
        ASSERT_EQ(at > 0 ? 50 : 0, jsonstr_end(text, sizeof text));
    }
    PASS();
}

SUITE(unescaping)
{
    RUN_TEST(every_escape_is_understood);
    RUN_TEST(what_is_not_json_is_refused);
    RUN_TEST(pieces_of_any_room_give_the_same);
    RUN_TEST(the_end_is_the_first_bare_quote);
}

/* ---- Escaping and cleaning ---- */

TEST escapes_to(const char *text, size_t size, const char *expected)
{
    CLEANUP_BUF struct buf got = BUF_INIT(4096);
    ASSERT_EQ(0, buf_adds(&got, "before "));
    ASSERT_EQm(expected, 0, jsonstr_escape(&got, text, size));
    ASSERT_STR_EQ(expected, buf_text(&got) + 7);
    PASS();
}

TEST only_what_must_be_is_escaped(void)
{
    CHECK_CALL(escapes_to(TEXT(""), ""));
    CHECK_CALL(escapes_to(TEXT("\"\\/'<>&\x7f"), "\\\"\\\\/'<>&\x7f"));
    CHECK_CALL(escapes_to(TEXT("\b\f\n\r\t"), "\\b\\f\\n\\r\\t"));
    CHECK_CALL(escapes_to(TEXT("\0\x01\x0b\x1b\x1f"), "\\u0000\\u0001\\u000b\\u001b\\u001f"));
    CHECK_CALL(escapes_to(TEXT("\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80"),
                          "\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80"));
    CHECK_CALL(escapes_to(TEXT("a\xff\"b"), "a" FFFD "\\\"b"));
    PASS();
}

TEST cleans_to(const char *text, size_t size, const char *expected)
{
    CLEANUP_BUF struct buf got = BUF_INIT(4096);
    ASSERT_EQ(0, jsonstr_clean(&got, text, size, true));
    ASSERT_STR_EQ(expected, buf_text(&got));
    PASS();
}

/* The examples of the Unicode standard (3.9) and the edges of its table 3-7. */
TEST each_maximal_part_becomes_one_replacement(void)
{
    CHECK_CALL(cleans_to(TEXT("a\xf1\x80\x80\xe1\x80\xc2"
                              "b\x80"
                              "c\x80\xbf"
                              "d"),
                         "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d"));
    CHECK_CALL(cleans_to(TEXT("\xc0\xaf"), FFFD FFFD));
    CHECK_CALL(cleans_to(TEXT("\xe0\x80\xaf"), FFFD FFFD FFFD));
    CHECK_CALL(cleans_to(TEXT("\xed\xa0\x80"), FFFD FFFD FFFD));
    CHECK_CALL(cleans_to(TEXT("\xf0\x80\x80\x41"), FFFD FFFD FFFD "A"));
    CHECK_CALL(cleans_to(TEXT("\xf4\x91\x92\x93"), FFFD FFFD FFFD FFFD));
    CHECK_CALL(cleans_to(TEXT("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), FFFD FFFD FFFD FFFD "A"));
    CHECK_CALL(cleans_to(TEXT("\xf0\x9f\x98"), FFFD));
    CHECK_CALL(cleans_to(TEXT("\xf0\x9f\x98\xf0\x9f\x98\x80"), FFFD "\xf0\x9f\x98\x80"));
    CHECK_CALL(cleans_to(TEXT("\xe2\x82"), FFFD));
    CHECK_CALL(cleans_to(TEXT("\xc3"), FFFD));
    CHECK_CALL(cleans_to(TEXT("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"),
                         "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"));
    PASS();
}

TEST nul_bytes_are_dropped_only_when_asked(void)
{
    CHECK_CALL(cleans_to(TEXT("\0a\0\0b 0123456789 \"\\\n\x1b\0"), "ab 0123456789 \"\\\n\x1b"));
    CLEANUP_BUF struct buf got = BUF_INIT(4096);
    ASSERT_EQ(0, jsonstr_clean(&got, TEXT("\0a\0\xff"), false));
    ASSERT_EQ(6u, got.size);
    ASSERT_MEM_EQ("\0a\0" FFFD, got.data, 6);
    PASS();
}

TEST the_maximum_is_met_exactly_and_failure_adds_nothing(void)
{
    static char text[10000];
    memset(text, '\x01', sizeof text);
    CLEANUP_BUF struct buf exact = BUF_INIT(60001);
    ASSERT_EQ(0, buf_addc(&exact, '"'));
    ASSERT_EQ(0, jsonstr_escape(&exact, text, sizeof text));
    ASSERT_EQ(60001u, exact.size);
    CLEANUP_BUF struct buf small = BUF_INIT(60000);
    ASSERT_EQ(0, buf_addc(&small, '"'));
    ASSERT_EQ(-EMSGSIZE, jsonstr_escape(&small, text, sizeof text));
    ASSERT_STR_EQ("\"", buf_text(&small));
    CLEANUP_BUF struct buf tiny = BUF_INIT(9999);
    ASSERT_EQ(-EMSGSIZE, jsonstr_escape(&tiny, text, sizeof text));
    ASSERT_EQ(-EMSGSIZE, jsonstr_clean(&tiny, text, sizeof text, true));
    ASSERT_EQ(0u, tiny.size);
    PASS();
}

/* Long texts go through pieces of some kilobytes; what grows or is wide must cross their ends. */
TEST nothing_is_lost_between_pieces(void)
{
    static const char tail[] = "\x01\xf0\x9f\x98\x80\xff\"end";
    for (size_t plain = 4070; plain < 4110; plain++) {
        char text[4200];
        memset(text, 'x', plain);
        memcpy(text + plain, tail, sizeof tail - 1);
        size_t size = plain + sizeof tail - 1;
        CLEANUP_BUF struct buf escaped = BUF_INIT(8192), clean = BUF_INIT(8192);
        ASSERT_EQ(0, jsonstr_escape(&escaped, text, size));
        ASSERT_STR_EQ("x\\u0001\xf0\x9f\x98\x80" FFFD "\\\"end", escaped.data + plain - 1);
        ASSERT_EQ(0, jsonstr_clean(&clean, text, size, true));
        ASSERT_STR_EQ("x\x01\xf0\x9f\x98\x80" FFFD "\"end", clean.data + plain - 1);
    }
    PASS();
}

SUITE(escaping)
{
    RUN_TEST(nothing_is_lost_between_pieces);
    RUN_TEST(only_what_must_be_is_escaped);
    RUN_TEST(each_maximal_part_becomes_one_replacement);
    RUN_TEST(nul_bytes_are_dropped_only_when_asked);
    RUN_TEST(the_maximum_is_met_exactly_and_failure_adds_nothing);
}

/* ---- Against jansson ---- */

static const char *const PARTS[] = {
    "a",
    "plain words here",
    "0123456789abcdef0123456789abcdef0123456789abcdef",
    "\\n",
    "\\\"",
    "\\\\",
    "\\/",
    "\\u0041",
    "\\u00e9",
    "\\u20ac",
    "\\ud83d\\ude00",
    "\\u0000",
    "\xc3\xa9",
    "\xe2\x82\xac",
    "\xf0\x9f\x98\x80",
    "\x7f",
    " ",
    "{}[]:,",
};
static const char *const RARE_PARTS[] = {
    "\\",
    "\"",
    "\\x",
    "\\u12",
    "\\ud800",
    "\\udc00",
    "\\ud83d\\u0041",
    "\n",
    "\x01",
    "\x80",
    "\xc3",
    "\xe2\x82",
    "\xf0\x9f",
    "\xed\xa0\x80",
    "\xc0\xaf",
    "\xff",
    "\xf4\x90\x80\x80",
};

/* The inside of a literal, or nearly. */
static size_t generate_inside(char *to, size_t room)
{
    size_t size = 0;
    for (unsigned parts = roll(30); parts > 0; parts--) {
        bool rare = roll(60) == 0;
        const char *part = rare ? RARE_PARTS[roll(sizeof RARE_PARTS / sizeof *RARE_PARTS)]
                                : PARTS[roll(sizeof PARTS / sizeof *PARTS)];
        if (size + strlen(part) > room)
            break;
        memcpy(to + size, part, strlen(part));
        size += strlen(part);
    }
    return size;
}

TEST literals_read_as_jansson_reads_them(void)
{
    int good = 0;
    for (int round = 0; round < 20000; round++) {
        char text[1026];
        size_t size = generate_inside(text + 1, 1024);
        text[0] = text[size + 1] = '"';
        CLEANUP_JSON json_t *json =
            json_loadb(text, size + 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        CLEANUP_BUF struct buf got = BUF_INIT(4096);
        bool ends = jsonstr_end(text + 1, size + 1) == (long)size;
        bool read = ends && unescape(&got, text + 1, size, 16 + roll(80)) == 0;
        text[size + 1] = '\0';
        ASSERT_EQm(text, json != NULL, read);
        if (!read)
            continue;
        good++;
        ASSERT_EQm(text, json_string_length(json), got.size);
        ASSERT_MEM_EQm(text, json_string_value(json), buf_text(&got), got.size);
    }
    ASSERT_GT(good, 10000);
    ASSERT_LT(good, 19000);
    PASS();
}

/* Bytes in runs of one kind, so that long plain stretches and dense rubbish both occur. */
static size_t generate_bytes(char *to, size_t room)
{
    size_t size = roll((unsigned)room), at = 0;
    while (at < size) {
        unsigned kind = roll(4);
        for (unsigned run = roll(50); run > 0 && at < size; run--)
            to[at++] = (char)(kind == 0   ? 'a' + roll(26)
                              : kind == 1 ? roll(256)
                              : kind == 2 ? roll(128)
                                          : 0x80 + roll(128));
    }
    return size;
}

/* A decoder as the WHATWG Encoding standard words it, byte by byte. */
static size_t whatwg_decode(const unsigned char *text, size_t size, char *to)
{
    unsigned needed = 0, seen = 0, lower = 0x80, upper = 0xbf;
    size_t used = 0, start = 0;
    for (size_t i = 0; i <= size; i++) {
        if (needed && (i == size || text[i] < lower || text[i] > upper)) {
            memcpy(to + used, FFFD, 3);
            used += 3;
            needed = seen = 0;
            lower = 0x80;
            upper = 0xbf;
        }
        if (i == size)
            break;
        unsigned char c = text[i];
        if (needed) {
            lower = 0x80;
            upper = 0xbf;
            if (++seen < needed)
                continue;
            memcpy(to + used, text + start, needed + 1);
            used += needed + 1;
            needed = seen = 0;
        } else if (c < 0x80) {
            to[used++] = (char)c;
        } else if (c >= 0xc2 && c <= 0xf4) {
            needed = c <= 0xdf ? 1 : c <= 0xef ? 2 : 3;
            start = i;
            lower = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
            upper = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        } else {
            memcpy(to + used, FFFD, 3);
            used += 3;
        }
    }
    return used;
}

TEST any_bytes_come_back_from_jansson_as_decoded(void)
{
    for (int round = 0; round < 20000; round++) {
        char text[512], decoded[sizeof text * 3];
        size_t size = generate_bytes(text, sizeof text);
        size_t expected = whatwg_decode((unsigned char *)text, size, decoded);
        CLEANUP_BUF struct buf clean = BUF_INIT(4096), escaped = BUF_INIT(4096);
        ASSERT_EQ(0, jsonstr_clean(&clean, text, size, false));
        ASSERT_EQ(expected, clean.size);
        ASSERT_MEM_EQ(decoded, buf_text(&clean), expected);
        ASSERT_EQ(0, buf_addc(&escaped, '"'));
        ASSERT_EQ(0, jsonstr_escape(&escaped, text, size));
        ASSERT_EQ(0, buf_addc(&escaped, '"'));
        CLEANUP_JSON json_t *json =
            json_loadb(escaped.data, escaped.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        ASSERT(json);
        ASSERT_EQ(expected, json_string_length(json));
        ASSERT_MEM_EQ(decoded, json_string_value(json), expected);
        CLEANUP_BUF struct buf back = BUF_INIT(4096);
        ASSERT_EQ(0, unescape(&back, escaped.data + 1, escaped.size - 2, 16 + roll(80)));
        ASSERT_EQ(expected, back.size);
        ASSERT_MEM_EQ(decoded, buf_text(&back), expected);
    }
    PASS();
}

TEST a_large_text_survives_both_ways(void)
{
    size_t size = 3 * 1024 * 1024 + 5;
    CLEANUP_FREE char *text = malloc(size);
    for (size_t i = 0; i < size; i++)
        text[i] = "A line of a program, not too long;\n\t"[i % 36];
    CLEANUP_BUF struct buf escaped = BUF_INIT(8 * 1024 * 1024), back = BUF_INIT(8 * 1024 * 1024);
    ASSERT_EQ(0, jsonstr_escape(&escaped, text, size));
    ASSERT_EQ(0, unescape(&back, escaped.data, escaped.size, 65536));
    ASSERT_EQ(size, back.size);
    ASSERT_MEM_EQ(text, back.data, size);
    PASS();
}

SUITE(against_jansson)
{
    RUN_TEST(literals_read_as_jansson_reads_them);
    RUN_TEST(any_bytes_come_back_from_jansson_as_decoded);
    RUN_TEST(a_large_text_survives_both_ways);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(unescaping);
    RUN_SUITE(escaping);
    RUN_SUITE(against_jansson);
    GREATEST_MAIN_END();
}
