/* Writing JSON values, cutting large strings out of JSON text, base64. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "greatest.h"

static uint64_t dice = 88172645463325252u;

static unsigned roll(unsigned sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (unsigned)(dice >> 33) % sides;
}

/* ---- json_write ---- */

/* Reads the text with jansson, writes it with json_write and compares. */
TEST writes_back(const char *text, const char *expected)
{
    CLEANUP_JSON json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    ASSERTm(text, json);
    CLEANUP_BUF struct buf got = BUF_INIT(4096);
    ASSERT_EQm(text, 0, json_write(&got, json, NULL, NULL));
    ASSERT_STR_EQ(expected, buf_text(&got));
    PASS();
}

TEST values_are_compact_and_keys_keep_their_order(void)
{
    CHECK_CALL(
        writes_back("{ \"z\" : 1, \"a\" : [ ], \"m\" : { } }", "{\"z\":1,\"a\":[],\"m\":{}}"));
    CHECK_CALL(writes_back("[true, false, null, -5, 9223372036854775807]",
                           "[true,false,null,-5,9223372036854775807]"));
    CHECK_CALL(writes_back("\"a\\u0000\\n\\\"\\u00e9\"", "\"a\\u0000\\n\\\"\xc3\xa9\""));
    CHECK_CALL(writes_back("{\"a\\n\\\"\": [[[1]], {\"b\": {\"c\": [2, 3]}}]}",
                           "{\"a\\n\\\"\":[[[1]],{\"b\":{\"c\":[2,3]}}]}"));
    PASS();
}

TEST reals_are_short_and_stay_reals(void)
{
    CHECK_CALL(writes_back("[0.1, 1.0, -0.0, 1.5, 100.25]", "[0.1,1.0,-0.0,1.5,100.25]"));
    CHECK_CALL(writes_back("[0.30000000000000004]", "[0.30000000000000004]"));
    CHECK_CALL(writes_back("[1e300, 1e-7]", "[1e+300,1e-07]"));
    for (int i = 0; i < 5000; i++) {
        union {
            uint64_t bits;
            double value;
        } real = {.bits =
                      (uint64_t)roll(1u << 31) << 33 ^ (uint64_t)roll(1u << 31) << 10 ^ roll(1024)};
        if (!isfinite(real.value))
            continue;
        CLEANUP_JSON json_t *json = json_real(real.value);
        CLEANUP_BUF struct buf got = BUF_INIT(64);
        ASSERT_EQ(0, json_write(&got, json, NULL, NULL));
        CLEANUP_JSON json_t *back = json_loadb(got.data, got.size, JSON_DECODE_ANY, NULL);
        ASSERTm(got.data, json_is_real(back));
        ASSERTm(got.data, json_real_value(back) == real.value);
    }
    PASS();
}

static json_t *generate_value(int depth)
{
    static const char *const keys[] = {"a",        "content", "long key \"quoted\"",
                                       "\xc3\xa9", "",        "x\ny"};
    static const char *const texts[] = {"", "plain", "a\"b\\c\n", "\xf0\x9f\x98\x80", "\x01\x7f"};
    json_t *value;
    switch (roll(depth > 0 ? 7 : 5)) {
    case 0:
        return json_integer((json_int_t)roll(1u << 31) - (1 << 30));
    case 1:
        return json_real(roll(100000) / 64.0);
    case 2:
        return json_boolean(roll(2));
    case 3:
        return json_null();
    case 4:
        return json_string(texts[roll(5)]);
    case 5:
        value = json_array();
        for (unsigned i = roll(5); i > 0; i--)
            json_array_append_new(value, generate_value(depth - 1));
        return value;
    default:
        value = json_object();
        for (unsigned i = roll(5); i > 0; i--)
            json_object_set_new(value, keys[roll(6)], generate_value(depth - 1));
        return value;
    }
}

TEST any_value_reads_back_equal(void)
{
    for (int i = 0; i < 5000; i++) {
        CLEANUP_JSON json_t *json = generate_value(5);
        CLEANUP_BUF struct buf got = BUF_INIT(1 << 20);
        ASSERT_EQ(0, json_write(&got, json, NULL, NULL));
        CLEANUP_JSON json_t *back = json_loadb(got.data, got.size, JSON_DECODE_ANY, NULL);
        ASSERTm(got.data, back && json_equal(json, back));
        /* Without reals and control characters jansson writes the very same. */
        CLEANUP_FREE char *theirs = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!strchr(theirs, '.') && !strstr(theirs, "\\u"))
            ASSERT_STR_EQ(theirs, got.data);
    }
    PASS();
}

static int write_hook(void *arg, struct buf *to)
{
    return buf_adds(to, arg);
}

static int failing_hook(void *arg, struct buf *to)
{
    return -EIO;
}

TEST the_outermost_content_is_written_by_the_caller(void)
{
    CLEANUP_JSON json_t *json =
        json_loads("{\"content\": null, \"in\": {\"content\": 1}, \"z\": 2}", 0, NULL);
    CLEANUP_BUF struct buf got = BUF_INIT(4096);
    ASSERT_EQ(0, json_write(&got, json, write_hook, "from\\nhere"));
    ASSERT_STR_EQ("{\"content\":\"from\\nhere\",\"in\":{\"content\":1},\"z\":2}", buf_text(&got));
    CLEANUP_JSON json_t *array = json_loads("[{\"content\": 1}]", 0, NULL);
    buf_clear(&got);
    ASSERT_EQ(0, json_write(&got, array, write_hook, "no"));
    ASSERT_STR_EQ("[{\"content\":1}]", buf_text(&got));
    ASSERT_EQ(-EIO, json_write(&got, json, failing_hook, NULL));
    PASS();
}

TEST a_full_buffer_is_told_at_every_place(void)
{
    CLEANUP_JSON json_t *json = json_loads(
        "{\"a\": [1, 2.5, true, null, \"x\\n\"], \"content\": \"c\", \"b\": {}}", 0, NULL);
    CLEANUP_BUF struct buf whole = BUF_INIT(4096);
    ASSERT_EQ(0, json_write(&whole, json, write_hook, "hook"));
    for (size_t max = 0; max < whole.size; max++) {
        CLEANUP_BUF struct buf small = BUF_INIT(max);
        ASSERT_EQ(-EMSGSIZE, json_write(&small, json, write_hook, "hook"));
    }
    CLEANUP_BUF struct buf exact = BUF_INIT(whole.size);
    ASSERT_EQ(0, json_write(&exact, json, write_hook, "hook"));
    PASS();
}

SUITE(writing)
{
    RUN_TEST(values_are_compact_and_keys_keep_their_order);
    RUN_TEST(reals_are_short_and_stay_reals);
    RUN_TEST(any_value_reads_back_equal);
    RUN_TEST(the_outermost_content_is_written_by_the_caller);
    RUN_TEST(a_full_buffer_is_told_at_every_place);
}

/* ---- jsonstr_cut ---- */

TEST cuts(const char *text, const char *member, int index, const char *inside, const char *rest)
{
    const char *found = NULL;
    size_t size = 0;
    CLEANUP_FREE char *left = NULL;
    ASSERT_EQm(text, 1, jsonstr_cut(text, strlen(text), member, index, 3, &found, &size, &left));
    ASSERT_EQm(text, strlen(inside), size);
    ASSERT_MEM_EQm(text, inside, found, size);
    ASSERT_STR_EQ(rest, left);
    PASS();
}

TEST does_not_cut(const char *text, const char *member, int index)
{
    /* An exact copy: no NUL behind the text to lean on. */
    size_t length = strlen(text), size;
    CLEANUP_FREE char *copy = malloc(length + !length);
    memcpy(copy, text, length);
    const char *found;
    CLEANUP_FREE char *left = NULL;
    ASSERT_EQm(text, 0, jsonstr_cut(copy, length, member, index, 3, &found, &size, &left));
    ASSERT_EQm(text, NULL, left);
    PASS();
}

TEST a_large_member_or_element_is_cut_out(void)
{
    CHECK_CALL(cuts("{\"content\":\"abc\"}", "content", -1, "abc", "{\"content\":null}"));
    CHECK_CALL(cuts(" { \"path\" : \"/x\" ,\r\n\t\"content\" : \"a\\\"b\" , \"n\" : -1.5e3 } ",
                    "content", -1, "a\\\"b",
                    " { \"path\" : \"/x\" ,\r\n\t\"content\" : null , \"n\" : -1.5e3 } "));
    CHECK_CALL(cuts("{\"a\":{\"content\":\"no}\"},\"b\":[\"]\",[{}]],\"content\":\"yes\"}",
                    "content", -1, "yes",
                    "{\"a\":{\"content\":\"no}\"},\"b\":[\"]\",[{}]],\"content\":null}"));
    CHECK_CALL(cuts("[\"/path\",\"text\",{}]", NULL, 1, "text", "[\"/path\",null,{}]"));
    CHECK_CALL(cuts("[\"text\"]", NULL, 0, "text", "[null]"));
    CHECK_CALL(cuts("[[\"aaa\",\"bbb\"],null,\"text\"]", NULL, 2, "text",
                    "[[\"aaa\",\"bbb\"],null,null]"));
    PASS();
}

TEST small_missing_and_other_values_stay(void)
{
    static const char *const texts[] = {
        "{\"content\":\"ab\"}",
        "{\"content\":\"\"}",
        "{\"content\":12345}",
        "{\"content\":[\"abc\"]}",
        "{\"content\":{\"content\":\"abc\"}}",
        "{\"Content\":\"abc\"}",
        "{\"contents\":\"abc\"}",
        "{\"x\":\"content\"}",
        "{}",
        " { } ",
        "[\"content\",\"abc\"]",
        "\"content\"",
        "",
        "null",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK_CALL(does_not_cut(texts[i], "content", -1));
    CHECK_CALL(does_not_cut("[\"abc\"]", NULL, 1));
    CHECK_CALL(does_not_cut("[\"ab\"]", NULL, 0));
    CHECK_CALL(does_not_cut("[]", NULL, 0));
    CHECK_CALL(does_not_cut("[[\"abc\"]]", NULL, 0));
    CHECK_CALL(does_not_cut("{\"content\":\"abc\"}", NULL, 0));
    PASS();
}

TEST broken_text_is_left_to_jansson(void)
{
    static const char *const texts[] = {
        "{\"content\":\"abc\"",
        "{\"content\":\"abc",
        "{\"content\":\"abc\\\"}",
        "{\"content\":\"abc\"}}",
        "{\"content\":\"abc\"} x",
        "{\"content\":\"abc\",}",
        "{\"content\" \"abc\"}",
        "{\"content\":}",
        "{\"content\":\"abc\" \"x\":1}",
        "{\"content\":\"abc\"]",
        "{content:\"abc\"}",
        "{\"a\":[1,\"content\":\"abc\"}",
        "{,\"content\":\"abc\"}",
        "{\"content\":1\"abc\"}",
        "{\"content\":\"abc\"1}",
        "{\"a\":{\"b\":\"c},\"content\":\"abc\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK_CALL(does_not_cut(texts[i], "content", -1));
    PASS();
}

/* jansson keeps the last of two equal keys, also when one is spelled with an escape. */
TEST keys_that_may_be_doubles_are_left_to_jansson(void)
{
    CHECK_CALL(does_not_cut("{\"content\":\"abc\",\"content\":\"def\"}", "content", -1));
    CHECK_CALL(does_not_cut("{\"content\":\"abc\",\"content\":1}", "content", -1));
    CHECK_CALL(does_not_cut("{\"content\":1,\"content\":\"abc\"}", "content", -1));
    CHECK_CALL(does_not_cut("{\"content\":\"abc\",\"cont\\u0065nt\":\"x\"}", "content", -1));
    PASS();
}

/* The promise of a cut: when the rest is JSON and the inside unescapes, then the whole is what
 * jansson makes of the uncut text; and otherwise jansson refuses that too. */
TEST a_cut_means_what_jansson_means(const char *text, size_t size, bool *cut)
{
    const char *inside;
    size_t inside_size;
    CLEANUP_FREE char *rest = NULL;
    *cut = jsonstr_cut(text, size, "content", -1, 1, &inside, &inside_size, &rest) == 1;
    if (!*cut)
        PASS();
    CLEANUP_JSON json_t *whole = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
    CLEANUP_JSON json_t *json = json_loads(rest, JSON_ALLOW_NUL, NULL);
    CLEANUP_BUF struct buf got = BUF_INIT(65536);
    char piece[32];
    long part = 0;
    for (const char *at = inside;
         (part = jsonstr_unescape(&at, inside + inside_size, piece, sizeof piece)) > 0;)
        ASSERT_EQ(0, buf_add(&got, piece, (size_t)part));
    if (part == 0 && json)
        json_object_set_new(json, "content", json_stringn(buf_text(&got), got.size));
    ASSERT_EQm(rest, part == 0 && json, whole != NULL);
    if (whole)
        ASSERTm(rest, json_equal(whole, json));
    PASS();
}

TEST cuts_of_spoiled_text_agree_with_jansson(void)
{
    int found = 0;
    for (int i = 0; i < 20000; i++) {
        CLEANUP_JSON json_t *json = json_object();
        for (unsigned n = roll(4); n > 0; n--)
            json_object_set_new(json, n == 1 ? "b" : "a", generate_value(3));
        json_object_set_new(json, "content",
                            json_string(roll(2) ? "some text" : "q\"\\\n\xc3\xa9"));
        json_object_set_new(json, "z", generate_value(2));
        CLEANUP_FREE char *text = json_dumps(json, roll(2) ? JSON_INDENT(2) : JSON_COMPACT);
        size_t size = strlen(text);
        if (roll(4) > 0)
            text[roll((unsigned)size)] = "\"\\{}[]:,x 1\xc3\x01"[roll(13)];
        bool cut;
        CHECK_CALL(a_cut_means_what_jansson_means(text, size, &cut));
        found += cut;
    }
    ASSERT_GT(found, 8000);
    PASS();
}

SUITE(cutting)
{
    RUN_TEST(a_large_member_or_element_is_cut_out);
    RUN_TEST(small_missing_and_other_values_stay);
    RUN_TEST(broken_text_is_left_to_jansson);
    RUN_TEST(keys_that_may_be_doubles_are_left_to_jansson);
    RUN_TEST(cuts_of_spoiled_text_agree_with_jansson);
}

/* ---- base64 ---- */

/* 0 when all was decoded, -1 when it was refused. */
static int decode(struct buf *to, const char *text, size_t size, size_t room)
{
    char piece[64];
    const char *at = text;
    long got;
    while ((got = base64_decode(&at, text + size, piece, room)) > 0)
        buf_add(to, piece, (size_t)got);
    return (int)got;
}

TEST the_examples_of_rfc_4648_hold(void)
{
    static const char *const pairs[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xff\xef\xbe", "/+++"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        CLEANUP_BUF struct buf text = BUF_INIT(64), data = BUF_INIT(64);
        ASSERT_EQ(0, base64_encode(&text, pairs[i][0], strlen(pairs[i][0])));
        ASSERT_STR_EQ(pairs[i][1], buf_text(&text));
        ASSERT_EQ(0, decode(&data, text.data, text.size, 3));
        ASSERT_STR_EQ(pairs[i][0], buf_text(&data));
    }
    PASS();
}

TEST any_bytes_survive_base64(void)
{
    for (size_t size = 0; size < 300; size++) {
        CLEANUP_FREE char *bytes = malloc(size + !size);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)roll(256);
        CLEANUP_BUF struct buf text = BUF_INIT(1024), data = BUF_INIT(1024);
        ASSERT_EQ(0, base64_encode(&text, bytes, size));
        ASSERT_EQ((size + 2) / 3 * 4, text.size);
        ASSERT_EQ(0, decode(&data, text.data, text.size, 3 + roll(60)));
        ASSERT_EQ(size, data.size);
        ASSERT_MEM_EQ(bytes, buf_text(&data), size);
    }
    PASS();
}

TEST what_is_not_base64_is_refused(void)
{
    static const char *const bad[] = {
        "Z",    "Zg",       "Zg=",  "Zg==Zg==", "Zm9v=",      "=",    "====", "Z===",
        "Zm=v", "Zm9vZ=g=", "Zm 9", "Zm9v\n",   "Zm9v\nZm9v", "Zm9-", "Zm9_", "Zm9\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CLEANUP_BUF struct buf data = BUF_INIT(64);
        ASSERT_EQm(bad[i], -1, decode(&data, bad[i], strlen(bad[i]), 3));
        ASSERT_EQm(bad[i], -1, decode(&data, bad[i], strlen(bad[i]), 64));
    }
    PASS();
}

TEST encoding_keeps_to_the_maximum(void)
{
    CLEANUP_BUF struct buf text = BUF_INIT(7);
    ASSERT_EQ(-EMSGSIZE, base64_encode(&text, "foob", 4));
    ASSERT_EQ(0u, text.size);
    buf_clear(&text);
    ASSERT_EQ(0, base64_encode(&text, "foo", 3));
    PASS();
}

SUITE(base64)
{
    RUN_TEST(the_examples_of_rfc_4648_hold);
    RUN_TEST(any_bytes_survive_base64);
    RUN_TEST(what_is_not_base64_is_refused);
    RUN_TEST(encoding_keeps_to_the_maximum);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(writing);
    RUN_SUITE(cutting);
    RUN_SUITE(base64);
    GREATEST_MAIN_END();
}
