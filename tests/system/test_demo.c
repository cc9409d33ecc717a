/* `sandpit demo`: lists, plays and prints; whether each demo is true is tested by playing it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static char path[128]; /* of the demo under test */

struct output {
    int status;
    char *out, *errors;
};

static void output_free(struct output *output)
{
    free(output->out);
    free(output->errors);
}
#define CLEANUP_OUTPUT __attribute__((cleanup(output_free)))

static struct output demo(const char *a, const char *b)
{
    const char *const argv[] = {SANDPIT_BINARY, "demo", a, b, NULL};
    struct output output = {0};
    output.status = run_command(&emulator, argv, &output.out, &output.errors);
    return output;
}

/* Plays a text. */
static struct output play(const char *text)
{
    snprintf(path, sizeof path, "%s/mine.demo", emulator.dir);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    return demo(path, NULL);
}

TEST the_list_has_a_line_for_each_demo_of_the_folder(void)
{
    CLEANUP_OUTPUT struct output list = demo(NULL, NULL);
    ASSERT_EQ(0, list.status);
    CLEANUP_DIR DIR *dir = opendir(SANDPIT_SOURCE "/fixtures/demos");
    ASSERT(dir);
    int files = 0, lines = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char name[256];
        const char *dot = strstr(entry->d_name, ".demo");
        if (!dot)
            continue;
        files++;
        snprintf(name, sizeof name, "%.*s ", (int)(dot - entry->d_name), entry->d_name);
        ASSERTm(keep(name), strstr(list.out, name));
    }
    for (const char *at = list.out; (at = strchr(at, '\n')); at++)
        lines++;
    ASSERT_EQ(files, lines);
    ASSERT(lines >= 11);
    PASS();
}

TEST a_demo_of_your_own_is_played_from_its_file(void)
{
    CLEANUP_OUTPUT struct output a = play("# Mine\n> Once upon a time\n"
                                          "POST /sandbox/own/exec [\"echo $((40 + 2))\"]\n"
                                          "expect json .stdout = \"42\"\nsave .stdout as answer\n"
                                          "clock advance 2h30m\n"
                                          "POST /sandbox/own/exec [\"echo it was {{answer}}\"]\n"
                                          "expect json .stdout = \"it was {{answer}}\"\n");
    ASSERT_EQm(keep(a.errors), 0, a.status);
    ASSERT(strstr(a.out, "Mine\n\nOnce upon a time\n"));
    ASSERT(strstr(a.out, "00:00:00  POST /sandbox/own/exec [\"echo $((40 + 2))\"]\n"));
    ASSERT(strstr(a.out, "02:30:00  POST /sandbox/own/exec [\"echo it was 42\"]\n"));
    ASSERT(strstr(a.out, "mine: 3 requests, 2 expectations, 2h 30m of virtual time"));
    ASSERT_EQm("no colours in a pipe", NULL, strchr(a.out, '\x1b'));
    PASS();
}

/* The block between ```demo and ``` of docs/demos.md. */
TEST the_example_of_the_page_is_true(void)
{
    CLEANUP_FILE FILE *page = fopen(SANDPIT_SOURCE "/docs/demos.md", "re");
    ASSERT(page);
    static char text[65536];
    size_t size = fread(text, 1, sizeof text - 1, page);
    text[size] = '\0';
    char *start = strstr(text, "```demo\n");
    ASSERT(start);
    start += strlen("```demo\n");
    char *end = strstr(start, "```");
    ASSERT(end);
    *end = '\0';
    CLEANUP_OUTPUT struct output a = play(start);
    ASSERT_EQm(keep(a.errors), 0, a.status);
    PASS();
}

TEST a_demo_that_is_wrong_fails_with_what_came(void)
{
    CLEANUP_OUTPUT struct output a =
        play("# Mine\nPOST /sandbox/own/exec [\"exit_with() { return $1; }; exit_with 3\"]\n"
             "expect 200\nexpect json .exitCode = 0\nGET /never\n");
    ASSERT_EQ(1, a.status);
    ASSERTm(keep(a.errors),
            strstr(a.errors, "mine.demo:4: expected .exitCode = 0, but .exitCode is 3"));
    ASSERT_EQ(NULL, strstr(a.out, "/never"));
    CLEANUP_OUTPUT struct output b = play("# Mine\nGET /nowhere\n");
    ASSERT_EQ(1, b.status);
    ASSERTm(keep(b.errors), strstr(b.errors, "mine.demo:2: expected success, but 404 came"));
    CLEANUP_OUTPUT struct output c = play("# Mine\nGET /health\n  {{nobody}}\n");
    ASSERT_EQ(1, c.status);
    ASSERTm(keep(c.errors), strstr(c.errors, "mine.demo:2: no value was saved as 'nobody'"));
    PASS();
}

TEST what_a_demo_needs_is_said_before_it_begins(void)
{
    CLEANUP_OUTPUT struct output a =
        play("# Mine\nneeds sh no-such-program\nPOST /sandbox/own/exec [\"true\"]\n");
    ASSERT_EQ(2, a.status);
    ASSERT_STR_EQ("", a.out);
    ASSERTm(keep(a.errors),
            strstr(a.errors, "needs no-such-program, which is not on this machine"));
    CLEANUP_OUTPUT struct output b = play("# Mine\nneeds sh\nPOST /sandbox/own/exec [\"true\"]\n");
    ASSERT_EQm(keep(b.errors), 0, b.status);
    PASS();
}

TEST mistakes_in_the_file_and_on_the_line_exit_2(void)
{
    CLEANUP_OUTPUT struct output a = play("# Mine\n\nexpect 200\n");
    ASSERT_EQ(2, a.status);
    ASSERTm(keep(a.errors), strstr(a.errors, "mine.demo:3: 'expect' must follow"));
    CLEANUP_OUTPUT struct output b = demo("persistense", NULL);
    ASSERT_EQ(2, b.status);
    ASSERTm(keep(b.errors), strstr(b.errors, "did you mean persistence?"));
    CLEANUP_OUTPUT struct output c = demo("--bogus", NULL);
    ASSERT_EQ(2, c.status);
    CLEANUP_OUTPUT struct output d = play("# Mine\noptions --bogus\nGET /health\n");
    ASSERT_EQ(2, d.status);
    ASSERTm(keep(d.errors), strstr(d.errors, "bogus"));
    CLEANUP_OUTPUT struct output e = demo("--help", NULL);
    ASSERT_EQ(0, e.status);
    ASSERT(strstr(e.out, "--curl"));
    PASS();
}

TEST steps_wait_for_a_key_and_the_end_of_input_is_one(void)
{
    snprintf(path, sizeof path, "%s/mine.demo", emulator.dir);
    FILE *file = fopen(path, "w");
    fputs("# Mine\nGET /health\nGET /health\n", file);
    fclose(file);
    static const char script[] = "exec \"$0\" demo --step \"$1\" </dev/null";
    const char *const argv[] = {"sh", "-c", script, SANDPIT_BINARY, path, NULL};
    CLEANUP_OUTPUT struct output a = {0};
    a.status = run_command(&emulator, argv, &a.out, &a.errors);
    ASSERT_EQm(keep(a.errors), 0, a.status);
    const char *first = strstr(a.out, "press a key");
    ASSERT(first);
    ASSERT(strstr(first + 1, "press a key"));
    PASS();
}

/* The printed script does what the story tells, on an emulator of the reader's own. */
TEST curl_lines_can_be_pasted(void)
{
    const char *const tools[] = {"sh", "-c", "command -v curl && command -v jq", NULL};
    CLEANUP_OUTPUT struct output found = {0};
    if (run_command(&emulator, tools, &found.out, &found.errors) != 0)
        SKIPm("curl or jq is not installed");
    static const char script[] = "\"$0\" demo --curl persistence >\"$1/script\" && "
                                 "\"$0\" run --network none -- sh -e \"$1/script\"";
    const char *const argv[] = {"sh", "-c", script, SANDPIT_BINARY, emulator.dir, NULL};
    CLEANUP_OUTPUT struct output a = {0};
    a.status = run_command(&emulator, argv, &a.out, &a.errors);
    ASSERT_EQm(keep(a.errors), 0, a.status);
    const char *last = strstr(a.out, "\"exists\":false");
    ASSERTm(keep(a.out), last);
    ASSERTm(keep(a.out), strstr(last, "\"content\":\"call Ada\\n'at \\\"9\\\"'\""));
    ASSERTm(keep(a.out), strstr(a.out, "FILE_NOT_FOUND"));
    PASS();
}

TEST files_of_a_demo_are_printed_for_a_shell(void)
{
    CLEANUP_OUTPUT struct output a = demo("--curl", "python-image");
    ASSERT_EQ(0, a.status);
    ASSERT(strstr(a.out, "mkdir -p python-image && cd python-image\n"));
    ASSERT(strstr(a.out, "cat > wrangler.jsonc <<'END'\n{\n  \"name\": \"demo\",\n"));
    ASSERT(strstr(a.out, "\n# The wrong way\n"));
    PASS();
}

SUITE(demo_suite)
{
    RUN_TEST(the_list_has_a_line_for_each_demo_of_the_folder);
    RUN_TEST(a_demo_of_your_own_is_played_from_its_file);
    RUN_TEST(the_example_of_the_page_is_true);
    RUN_TEST(a_demo_that_is_wrong_fails_with_what_came);
    RUN_TEST(what_a_demo_needs_is_said_before_it_begins);
    RUN_TEST(mistakes_in_the_file_and_on_the_line_exit_2);
    RUN_TEST(steps_wait_for_a_key_and_the_end_of_input_is_one);
    RUN_TEST(curl_lines_can_be_pasted);
    RUN_TEST(files_of_a_demo_are_printed_for_a_shell);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, demo_suite);
    GREATEST_MAIN_END();
}
