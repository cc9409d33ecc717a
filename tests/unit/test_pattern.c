/* What waitForLog finds in output that grows, with JavaScript's meaning of its pattern. */
#include "objects/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "greatest.h"

static enum pattern_result search(const struct pattern *pattern, struct pattern_text *text,
                                  json_t **found)
{
    enum pattern_result result;
    do {
        result = pattern_search(pattern, text, found);
    } while (result == PATTERN_MORE);
    return result;
}

/* The result as JSON; "none", "costly", or "refused: why". The texts are added one after the other,
 * with a search after each. */
static const char *result_of(const char *spec, const char *const *texts)
{
    static char shown[512];
    struct error err = {0};
    CLEANUP_JSON json_t *json = json_loads(spec, JSON_DECODE_ANY, NULL);
    struct pattern *pattern = pattern_new(json, &err);
    if (!pattern) {
        snprintf(shown, sizeof shown, "refused: %s", err.text);
        return shown;
    }
    struct pattern_text text = PATTERN_TEXT_INIT;
    CLEANUP_JSON json_t *found = NULL;
    enum pattern_result result = search(pattern, &text, &found);
    for (; *texts && result == PATTERN_NONE; texts++) {
        pattern_add(&text, *texts, strlen(*texts));
        result = search(pattern, &text, &found);
    }
    CLEANUP_FREE char *dumped = found ? json_dumps(found, JSON_COMPACT) : NULL;
    snprintf(shown, sizeof shown, "%s",
             dumped                     ? dumped
             : result == PATTERN_COSTLY ? "costly"
                                        : "none");
    buf_free(&text.text);
    pattern_free(pattern);
    return shown;
}
#define RESULT(SPEC, ...) result_of(SPEC, (const char *const[]){__VA_ARGS__, NULL})

TEST a_text_is_found_in_its_line(void)
{
    ASSERT_STR_EQ("{\"line\":\"it is ready now\"}",
                  RESULT("\"ready\"", "one\n", "it is ready now\n"));
    ASSERT_STR_EQ("{\"line\":\"it is ready now\"}", RESULT("\"ready\"", "it is re", "ady now\n"));
    ASSERT_STR_EQ("none", RESULT("\"ready\"", "rea\ndy\n"));
    ASSERT_STR_EQ("{\"line\":\"a.c\"}", RESULT("\"a.c\"", "abc\n", "a.c\n"));
    ASSERT_STR_EQ("{\"line\":\"a\\nb\"}", RESULT("\"a\\nb\"", "a\n", "b\n"));
    ASSERT_STR_EQ("{\"line\":\"\"}", RESULT("\"\"", "x\n"));
    PASS();
}

TEST a_path_is_a_text_and_slashes_with_flags_are_an_expression(void)
{
    ASSERT_STR_EQ("{\"line\":\"GET /api/users\"}", RESULT("\"/api/users\"", "GET /api/users\n"));
    ASSERT_STR_EQ("{\"line\":\"a / b\"}", RESULT("\"/\"", "a / b\n"));
    ASSERT_STR_EQ("{\"line\":\"port 8080\",\"match\":[\"8080\"]}",
                  RESULT("\"/\\\\d+/\"", "port 8080\n"));
    ASSERT_STR_EQ("{\"line\":\"READY\",\"match\":[\"READY\"]}", RESULT("\"/ready/gi\"", "READY\n"));
    ASSERT_STR_EQ("{\"line\":\"READY\",\"match\":[\"READY\"]}",
                  RESULT("{\"source\":\"ready\",\"flags\":\"i\"}", "READY\n"));
    PASS();
}

TEST groups_are_as_in_a_match_array(void)
{
    ASSERT_STR_EQ("{\"line\":\"on :8080 \",\"match\":[\":8080\",\"8080\",null]}",
                  RESULT("{\"source\":\":(\\\\d+)(x)?\"}", "on :8080 \n"));
    ASSERT_STR_EQ("{\"line\":\"k=v\",\"match\":[\"k=v\",\"k\",\"v\"]}",
                  RESULT("{\"source\":\"(?<key>\\\\w)=(?<value>\\\\w)\"}", "k=v\n"));
    PASS();
}

TEST anchors_mean_the_whole_output_without_m(void)
{
    ASSERT_STR_EQ("none", RESULT("\"/^ready/\"", "one\n", "ready\n"));
    ASSERT_STR_EQ("none", RESULT("\"/ready$/\"", "ready\n"));
    ASSERT_STR_EQ("{\"line\":\"ready\",\"match\":[\"ready\"]}",
                  RESULT("\"/^ready$/m\"", "one\n", "ready\n"));
    ASSERT_STR_EQ("{\"line\":\"ready\",\"match\":[\"ready\"]}", RESULT("\"/^ready/\"", "ready\n"));
    PASS();
}

TEST what_only_lines_would_match_is_known_for_the_hint(void)
{
    struct error err = {0};
    CLEANUP_JSON json_t *spec = json_string("/^ready$/");
    struct pattern *pattern = pattern_new(spec, &err);
    struct pattern_text text = PATTERN_TEXT_INIT;
    json_t *found = NULL;
    pattern_add(&text, "one\n", 4);
    ASSERT_EQ(PATTERN_NONE, search(pattern, &text, &found));
    ASSERT_FALSE(pattern_matches_lines(pattern, &text));
    pattern_add(&text, "ready\n", 6);
    ASSERT_EQ(PATTERN_NONE, search(pattern, &text, &found));
    ASSERT(pattern_matches_lines(pattern, &text));
    buf_free(&text.text);
    pattern_free(pattern);
    PASS();
}

TEST matches_over_several_pieces_are_found(void)
{
    ASSERT_STR_EQ("{\"line\":\"a\\nb\",\"match\":[\"a\\nb\"]}",
                  RESULT("\"/a\\\\nb/\"", "x\n", "a\n", "b\n"));
    ASSERT_STR_EQ("{\"line\":\"start\\n1\\n2\\nend\",\"match\":[\"start\\n1\\n2\\nend\"]}",
                  RESULT("\"/start[^]*end/\"", "start\n", "1\n", "2\n", "end\n"));
    ASSERT_STR_EQ("{\"line\":\"abc\",\"match\":[\"abc\"]}", RESULT("\"/abc/\"", "xa\nab", "c\n"));
    PASS();
}

TEST javascript_syntax_has_its_meaning(void)
{
    /* [^] is any character, [] none; \v, \h and \A are not PCRE2's; a brace may stand alone. */
    ASSERT_STR_EQ("{\"line\":\"a b\",\"match\":[\"a b\"]}", RESULT("\"/a[^]b/\"", "a b\n"));
    ASSERT_STR_EQ("none", RESULT("\"/a[]b/\"", "a b\nab\n"));
    ASSERT_STR_EQ("{\"line\":\"hA\",\"match\":[\"hA\"]}", RESULT("\"/\\\\h\\\\A/\"", "hA\n"));
    ASSERT_STR_EQ("{\"line\":\"{x}\",\"match\":[\"{x}\"]}", RESULT("\"/{x}/\"", "{x}\n"));
    ASSERT_STR_EQ("{\"line\":\"x{,2}\",\"match\":[\"x{,2}\"]}",
                  RESULT("\"/x{,2}/\"", "x\n", "x{,2}\n"));
    ASSERT_STR_EQ("{\"line\":\"[a:]\",\"match\":[\"a:]\"]}", RESULT("\"/a[[:a]]/\"", "[a:]\n"));
    ASSERT_STR_EQ("{\"line\":\"A\",\"match\":[\"A\"]}", RESULT("\"/\\\\u0041/\"", "A\n"));
    ASSERT_STR_EQ("{\"line\":\"A\",\"match\":[\"A\"]}", RESULT("\"/\\\\x41/\"", "A\n"));
    ASSERT_STR_EQ("{\"line\":\"b\",\"match\":[\"b\",null]}", RESULT("\"/(a)?\\\\1b/\"", "b\n"));
    ASSERT_STR_EQ("{\"line\":\"xa11\",\"match\":[\"a11\",\"1\"]}",
                  RESULT("\"/\\\\141(1)\\\\1/\"", "xa11\n"));
    ASSERT_STR_EQ("{\"line\":\"a8\",\"match\":[\"8\"]}", RESULT("\"/[\\\\8]/\"", "a8\n"));
    ASSERT_STR_EQ("{\"line\":\"ab\",\"match\":[\"ab\"]}", RESULT("\"/\\\\s?ab/\"", "x\nab\n"));
    ASSERT_STR_EQ("none", RESULT("\"/a.b/\"", "a\rb\n"));
    ASSERT_STR_EQ("{\"line\":\"a\\nb\",\"match\":[\"a\\nb\"]}", RESULT("\"/a.b/s\"", "a\nb\n"));
    ASSERT_STR_EQ("{\"line\":\"a+?\",\"match\":[\"a\"]}", RESULT("\"/a+?/\"", "a+?\n"));
    ASSERT_STR_EQ("{\"line\":\"ab\",\"match\":[\"b\"]}", RESULT("\"/(?<=a)b/\"", "b\nab\n"));
    ASSERT_STR_EQ("{\"line\":\"\xc3\xa4\",\"match\":[\"\xc3\xa4\"]}",
                  RESULT("\"/^.$/m\"", "\xc3\xa4\n"));
    PASS();
}

TEST what_javascript_refuses_is_refused(void)
{
    static const char *const specs[] = {"\"/(/\"",
                                        "\"/[/\"",
                                        "\"/a++/\"",
                                        "\"/a{2}+/\"",
                                        "\"/*a/\"",
                                        "\"/(?i)a/\"",
                                        "\"/(?>a)/\"",
                                        "\"/(*ACCEPT)/\"",
                                        "\"/(?R)/\"",
                                        "\"/(?#x)/\"",
                                        "\"/a{3,2}/\"",
                                        "{\"source\":\"a\",\"flags\":\"q\"}",
                                        "{\"source\":\"a\",\"flags\":\"ii\"}",
                                        "{\"source\":\"\\\\\"}",
                                        "{}",
                                        "5",
                                        "null",
                                        "[]",
                                        "{\"source\":\"a\",\"flags\":5}"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        ASSERT_EQm(specs[i], 0, strncmp("refused: ", RESULT(specs[i], "a\n"), 9));
    PASS();
}

/* Longest time that one call takes. */
static int64_t worst_ns(const struct pattern *pattern, struct pattern_text *text,
                        enum pattern_result *result)
{
    int64_t worst = 0;
    json_t *found = NULL;
    do {
        int64_t before = loop_now_ns();
        *result = pattern_search(pattern, text, &found);
        int64_t passed = loop_now_ns() - before;
        worst = passed > worst ? passed : worst;
    } while (*result == PATTERN_MORE);
    json_decref(found);
    return worst;
}

TEST a_catastrophic_expression_ends_and_does_not_hold_the_loop(void)
{
    static const char *const sources[] = {"/(a+)+b/", "/(a|aa)+$/", "/(a*)*[cd]/", "/.*.*.*x/s"};
    static char many[200 * 1000 + 3];
    memset(many, 'a', sizeof many);
    memcpy(many + sizeof many - 3, "\nb\n", 3);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct error err = {0};
        CLEANUP_JSON json_t *spec = json_string(sources[i]);
        struct pattern *pattern = pattern_new(spec, &err);
        ASSERT(pattern);
        struct pattern_text text = PATTERN_TEXT_INIT;
        pattern_add(&text, many, sizeof many);
        enum pattern_result result;
        int64_t worst = worst_ns(pattern, &text, &result);
        buf_free(&text.text);
        pattern_free(pattern);
        ASSERT_EQm(sources[i], PATTERN_COSTLY, result);
        ASSERTm(sources[i], worst < MS_NS(500));
    }
    PASS();
}

/* Its lines are tried one by one for a match of their own. */
TEST a_match_over_costly_lines_does_not_hold_the_loop(void)
{
    struct error err = {0};
    CLEANUP_JSON json_t *spec = json_string("/Q\n[^]*|(a+a+)+b/");
    struct pattern *pattern = pattern_new(spec, &err);
    ASSERT(pattern);
    struct pattern_text text = PATTERN_TEXT_INIT;
    pattern_add(&text, "Q\n", 2);
    for (int i = 0; i < 200; i++)
        pattern_add(&text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 41);
    enum pattern_result result;
    int64_t worst = worst_ns(pattern, &text, &result);
    buf_free(&text.text);
    pattern_free(pattern);
    ASSERT_EQ(PATTERN_FOUND, result);
    ASSERT(worst < MS_NS(500));
    PASS();
}

TEST much_output_is_searched_fast_and_not_kept(void)
{
    struct error err = {0};
    CLEANUP_JSON json_t *spec = json_string("/never (\\d+)/");
    struct pattern *pattern = pattern_new(spec, &err);
    struct pattern_text text = PATTERN_TEXT_INIT;
    static char lines[64 * 1024];
    for (size_t i = 0; i < sizeof lines; i++)
        lines[i] = i % 64 == 63 ? '\n' : 'n';
    enum pattern_result result = PATTERN_NONE;
    json_t *found = NULL;
    for (int i = 0; i < 300 && result == PATTERN_NONE; i++) {
        pattern_add(&text, lines, sizeof lines);
        result = search(pattern, &text, &found);
        ASSERT(text.text.size < 3 << 20);
    }
    ASSERT_EQ(PATTERN_NONE, result);
    pattern_add(&text, "never 7\n", 8);
    ASSERT_EQ(PATTERN_FOUND, search(pattern, &text, &found));
    ASSERT_STR_EQ("never 7", json_string_value(json_object_get(found, "line")));
    json_decref(found);
    buf_free(&text.text);
    pattern_free(pattern);
    PASS();
}

TEST a_match_that_never_ends_does_not_keep_everything(void)
{
    struct error err = {0};
    CLEANUP_JSON json_t *spec = json_string("/begin[^]*end/");
    struct pattern *pattern = pattern_new(spec, &err);
    struct pattern_text text = PATTERN_TEXT_INIT;
    static char lines[1 << 20];
    memset(lines, '.', sizeof lines);
    json_t *found = NULL;
    pattern_add(&text, "begin", 5);
    for (int i = 0; i < 40; i++) {
        pattern_add(&text, lines, sizeof lines);
        ASSERT_EQ(PATTERN_NONE, search(pattern, &text, &found));
        ASSERT(text.text.size <= 9 << 20);
    }
    buf_free(&text.text);
    pattern_free(pattern);
    PASS();
}

SUITE(patterns)
{
    RUN_TEST(a_text_is_found_in_its_line);
    RUN_TEST(a_path_is_a_text_and_slashes_with_flags_are_an_expression);
    RUN_TEST(groups_are_as_in_a_match_array);
    RUN_TEST(anchors_mean_the_whole_output_without_m);
    RUN_TEST(what_only_lines_would_match_is_known_for_the_hint);
    RUN_TEST(matches_over_several_pieces_are_found);
    RUN_TEST(javascript_syntax_has_its_meaning);
    RUN_TEST(what_javascript_refuses_is_refused);
    RUN_TEST(a_catastrophic_expression_ends_and_does_not_hold_the_loop);
    RUN_TEST(a_match_over_costly_lines_does_not_hold_the_loop);
    RUN_TEST(much_output_is_searched_fast_and_not_kept);
    RUN_TEST(a_match_that_never_ends_does_not_keep_everything);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(patterns);
    GREATEST_MAIN_END();
}
