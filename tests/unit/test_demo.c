/* The format of demos: what is read, what is refused and where, paths, values, expectations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/demo.h"
#include "greatest.h"

static int read_text(const char *text, struct demo *demo, struct error *err)
{
    return demo_read("story.demo", text, strlen(text), demo, err);
}

TEST a_story_is_read_as_it_is_written(void)
{
    struct error err = {0};
    CLEANUP_DEMO struct demo demo;
    ASSERT_EQm(err.text, 0,
               read_text("# Title\n"
                         "options --seed 7 --network none\n"
                         "file wrangler.jsonc\n    {\n      \"name\": \"x\"\n    }\n"
                         "// a comment\n\n"
                         "## The wrong way\n"
                         "> prose that\n  goes on\n"
                         "POST /sandbox/a/exec\n    [\"echo $HOME\",\n     {\"cwd\": \"/\"}]\n"
                         "header X-One: 1\nheader X-Two: 2\n"
                         "show .stdout .exitCode\n"
                         "expect 200\n"
                         "expect json .files[0].name = {\"a\": [1, 2]}\n"
                         "expect no text \"x\\ny\"\n"
                         "save .id as id\n"
                         "clock advance 10m\n"
                         "GET /x\n",
                         &demo, &err));
    ASSERT_STR_EQ("Title", demo.title);
    ASSERT_EQ(4, (int)demo.option_count);
    ASSERT_STR_EQ("none", demo.options[3]);
    CLEANUP_BUF struct buf file = BUF_INIT(1000);
    ASSERT_EQ(0, demo_file_text(&demo.files[0], &file));
    ASSERT_STR_EQ("{\n  \"name\": \"x\"\n}\n", buf_text(&file));
    ASSERT_EQ(5, (int)demo.step_count);
    const struct demo_step *post = &demo.steps[2];
    ASSERT_EQ(12, post->line);
    ASSERT_STR_EQ("[\"echo $HOME\",\n     {\"cwd\": \"/\"}]", post->body);
    ASSERT_STR_EQ("X-One: 1\r\nX-Two: 2\r\n", buf_text(&post->headers));
    ASSERT_EQ(3, (int)post->check_count);
    ASSERT_STR_EQ("json .files[0].name = {\"a\": [1, 2]}", post->checks[1].text);
    ASSERT_STR_EQ("{\"a\": [1, 2]}", post->checks[1].value);
    ASSERT_EQ(19, post->checks[1].line);
    ASSERT_EQ(DEMO_NO_TEXT, post->checks[2].relation);
    ASSERT_STR_EQ("id", post->saves[0].name);
    ASSERT_EQ(2, (int)post->show_count);
    ASSERT_EQ(NULL, demo.steps[4].body);
    PASS();
}

TEST mistakes_are_told_with_file_and_line(void)
{
    static const struct {
        const char *text;
        const char *error;
    } rows[] = {
        {"", "story.demo:1: the title is missing"},
        {"# a\n# b\n", "story.demo:2: there is a title already"},
        {"# a\nhello there\n", "story.demo:2: 'hello' begins no line"},
        {"# a\n\n\nGET x\n", "story.demo:4: GET needs a path"},
        {"# a\nGET /a b\n  c\nfoo\n", "story.demo:4: 'foo' begins no line"},
        {"# a\nPOST /x [1,\n", "story.demo:2: the body is not JSON"},
        {"# a\nexpect 200\n", "story.demo:2: 'expect' must follow a request"},
        {"# a\n> b\nsave .x as y\n", "story.demo:3: 'save' must follow a request"},
        {"# a\nGET /x\nexpect\n", "story.demo:3: something must follow 'expect'"},
        {"# a\nGET /x\nexpect 20\n", "story.demo:3: expect takes"},
        {"# a\nGET /x\nexpect 200 now\n", "story.demo:3: expect takes"},
        {"# a\nGET /x\nexpect json exitCode = 1\n", "story.demo:3: 'exitCode' is not a path"},
        {"# a\nGET /x\nexpect json .a[x] = 1\n", "story.demo:3: '.a[x]' is not a path"},
        {"# a\nGET /x\nexpect json .a == 1\n", "story.demo:3: after the path comes one of"},
        {"# a\nGET /x\nexpect json .a =\n", "story.demo:3: a value must follow ="},
        {"# a\nGET /x\nexpect json .a exists 1\n", "story.demo:3: nothing may follow exists"},
        {"# a\nGET /x\nexpect json .a = yes\n", "story.demo:3: the value is not JSON"},
        {"# a\nGET /x\nexpect text yes\n", "story.demo:3: the text must stand in quotes"},
        {"# a\nGET /x\nsave .a as 1x\n", "story.demo:3: save looks like"},
        {"# a\nGET /x\nsave .a\n", "story.demo:3: save looks like"},
        {"# a\nGET /x\nheader nonsense\n", "story.demo:3: a header of a request"},
        {"# a\nclock forward\n", "story.demo:2: clock takes"},
        {"# a\nclock advance soon\n", "story.demo:2: clock takes"},
        {"# a\nclock freeze 10m\n", "story.demo:2: clock takes"},
        {"# a\nGET /x\noptions --seed 1\n", "story.demo:3: options come before"},
        {"# a\nGET /x\nneeds node\n", "story.demo:3: what it needs comes before"},
        {"# a\nneeds git /bin/sh\n", "story.demo:2: '/bin/sh' must be the plain name"},
        {"# a\nfile a/b\n    x\n", "story.demo:2: 'a/b' must be a plain name"},
        {"# a\nfile ..\n    x\n", "story.demo:2: '..' must be a plain name"},
        {"# a\nfile a\n", "story.demo:2: the lines of the file must follow"},
        {"  x\n", "story.demo:1: an indented line must follow"},
        {"# a\n\n  x\n", "story.demo:3: an indented line must follow"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static char shown[600];
        struct error err = {0};
        CLEANUP_DEMO struct demo demo;
        int result = read_text(rows[i].text, &demo, &err);
        snprintf(shown, sizeof shown, "wanted '%s', got '%s'", rows[i].error, err.text);
        ASSERTm(shown, result < 0);
        ASSERTm(shown, strncmp(err.text, rows[i].error, strlen(rows[i].error)) == 0);
    }
    PASS();
}

TEST any_bytes_are_read_or_refused(void)
{
    static const char whole[] = "# t\nfile a\n    b\n> p\nPOST /x [\"{{n}}\"]\nexpect json .a = 1\n"
                                "save .a as n\nshow .a\nclock next\nexpect text \"x\"\n";
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        char text[sizeof whole];
        memcpy(text, whole, sizeof text);
        size_t size = sizeof text - 1;
        for (int i = 0; i < 3; i++) {
            seed = seed * 1103515245 + 12345;
            text[(seed >> 8) % size] = "\n \t#>{}[]\"\\.=~\xff\x01"[(seed >> 20) % 16];
        }
        struct error err = {0};
        CLEANUP_DEMO struct demo demo;
        size -= seed % 9;
        if (demo_read("s", text, size, &demo, &err) < 0)
            ASSERT(err.text[0]);
    }
    PASS();
}

TEST paths_lead_to_members_and_elements(void)
{
    CLEANUP_JSON json_t *json = json_loads("{\"a\": {\"b\": [1, {\"c\": 2}]}}", 0, NULL);
    ASSERT_EQ(2, json_integer_value(demo_at(json, ".a.b[1].c")));
    ASSERT_EQ(1, json_integer_value(demo_at(json, ".a.b[0]")));
    ASSERT_EQ(json, demo_at(json, "."));
    ASSERT_EQ(NULL, demo_at(json, ".a.x.y"));
    ASSERT_EQ(NULL, demo_at(json, ".a.b[7]"));
    CLEANUP_JSON json_t *list = json_loads("[5, 6]", 0, NULL);
    ASSERT_EQ(6, json_integer_value(demo_at(list, ".[1]")));
    PASS();
}

TEST saved_values_are_put_in_and_shell_variables_left_alone(void)
{
    struct error err = {0};
    CLEANUP_JSON json_t *saved = json_loads("{\"n\": \"a\\\"b\", \"i\": 7}", 0, NULL);
    struct demo_values values = {.values = saved};
    CLEANUP_BUF struct buf body = BUF_INIT(100), path = BUF_INIT(100), bad = BUF_INIT(100);
    ASSERT_EQ(0, demo_expand(&body, "[\"$HOME {{n}}\", {{i}}]", &values, true, &err));
    ASSERT_STR_EQ("[\"$HOME a\\\"b\", 7]", buf_text(&body));
    ASSERT_EQ(0, demo_expand(&path, "/x/{{i}}", &values, false, &err));
    ASSERT_STR_EQ("/x/7", buf_text(&path));
    ASSERT(demo_expand(&bad, "{{nobody}}", &values, false, &err) < 0);
    ASSERT_STR_EQ("no value was saved as 'nobody'", err.text);
    PASS();
}

/* Whether the one check of a demo holds for an answer. */
static bool check_holds(const char *expect, int status, const char *body)
{
    char text[256];
    struct error err = {0};
    CLEANUP_DEMO struct demo demo;
    snprintf(text, sizeof text, "# t\nGET /x\nexpect %s\n", expect);
    if (read_text(text, &demo, &err) < 0)
        return false;
    CLEANUP_JSON json_t *none = json_object();
    struct demo_values values = {.values = none};
    struct client_answer answer = {.status = status, .body = BUF_INIT(1000)};
    buf_adds(&answer.body, body);
    answer.json = json_loads(body, JSON_DECODE_ANY, NULL);
    bool result = demo_check(&demo.steps[0].checks[0], &answer, &values, &err) == 0;
    client_answer_free(&answer);
    return result;
}

TEST expectations_hold_or_do_not(void)
{
    static const char body[] = "{\"a\": 1, \"t\": \"one two\", \"n\": null, \"l\": [1]}";
    static const struct {
        const char *expect;
        bool holds;
    } rows[] = {
        {"200", true},
        {"404", false},
        {"json .a = 1", true},
        {"json .a = 1.0", true},
        {"json .a = \"1\"", false},
        {"json .a != 2", true},
        {"json .a != 1", false},
        {"json .a >= 1", true},
        {"json .a >= 2", false},
        {"json .a < 2", true},
        {"json .a < 1", false},
        {"json .t >= 0", false},
        {"json .t ~ \"two\"", true},
        {"json .t ~ \"three\"", false},
        {"json .l ~ \"[1]\"", true},
        {"json .x ~ \"a\"", false},
        {"json .n exists", true},
        {"json .n absent", false},
        {"json .x absent", true},
        {"json .x exists", false},
        {"json .l = [1]", true},
        {"text \"one\"", true},
        {"text \"four\"", false},
        {"no text \"four\"", true},
        {"no text \"one\"", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ASSERT_EQm(rows[i].expect, rows[i].holds, check_holds(rows[i].expect, 200, body));
    PASS();
}

TEST curl_lines_quote_what_a_shell_would_read(void)
{
    struct error err = {0};
    CLEANUP_DEMO struct demo demo;
    ASSERT_EQ(0, read_text("# t\nPOST /a [\"it's $HOME\"]\nsave .id as id\n"
                           "DELETE /b/{{id}}?x=$y [\"{{id}}\"]\nheader X-A: 'b'\nGET /c\n",
                           &demo, &err));
    CLEANUP_BUF struct buf script = BUF_INIT(10000);
    ASSERT_EQ(0, demo_curl(&demo, "t", &script));
    ASSERT(strstr(buf_text(&script), "curl -s \"$SANDPIT_URL/a\" -d '[\"it'\\''s $HOME\"]')"));
    ASSERTm(buf_text(&script), strstr(buf_text(&script), "curl -sw '\\n' -X DELETE "
                                                         "\"$SANDPIT_URL/b/${id}?x=\\$y\""));
    ASSERT(strstr(buf_text(&script), "-d '[\"'\"$id\"'\"]'"));
    ASSERT(strstr(buf_text(&script), "curl -sw '\\n' \"$SANDPIT_URL/c\"\n"));
    PASS();
}

TEST the_demos_in_the_program_can_be_read(void)
{
    int count = 0;
    for (const struct demo_embedded *one = demo_embedded; one->name; one++, count++) {
        static char shown[600];
        struct error err = {0};
        CLEANUP_DEMO struct demo demo;
        int result = demo_read(one->name, one->start, (size_t)(one->end - one->start), &demo, &err);
        snprintf(shown, sizeof shown, "%s: %s", one->name, err.text);
        ASSERT_EQm(shown, 0, result);
        int halves = 0, checks = 0;
        for (size_t i = 0; i < demo.step_count; i++) {
            if (demo.steps[i].kind == DEMO_HEADING)
                halves += strcmp(demo.steps[i].text, "The wrong way") == 0 ||
                          strcmp(demo.steps[i].text, "The right way") == 0;
            checks += (int)demo.steps[i].check_count;
        }
        ASSERT_EQm(one->name, 2, halves);
        ASSERTm(one->name, checks >= 4);
    }
    ASSERT(count >= 11);
    PASS();
}

SUITE(demo_suite)
{
    RUN_TEST(a_story_is_read_as_it_is_written);
    RUN_TEST(mistakes_are_told_with_file_and_line);
    RUN_TEST(any_bytes_are_read_or_refused);
    RUN_TEST(paths_lead_to_members_and_elements);
    RUN_TEST(saved_values_are_put_in_and_shell_variables_left_alone);
    RUN_TEST(expectations_hold_or_do_not);
    RUN_TEST(curl_lines_quote_what_a_shell_would_read);
    RUN_TEST(the_demos_in_the_program_can_be_read);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(demo_suite);
    GREATEST_MAIN_END();
}
