/* The command line against a running emulator, and projects with a configuration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

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

/* sandpit with up to ten arguments. */
static struct output sandpit(const char *a, const char *b, const char *c, const char *d,
                             const char *e, const char *f)
{
    const char *const argv[] = {SANDPIT_BINARY, a, b, c, d, e, f, NULL};
    struct output output = {0};
    output.status = run_command(&emulator, argv, &output.out, &output.errors);
    return output;
}

TEST exec_prints_what_the_command_prints_and_ends_as_it_does(void)
{
    CLEANUP_OUTPUT struct output a =
        sandpit("exec", "cli", "--", "sh", "-c", "echo out; echo err >&2; exit 7");
    ASSERT_STR_EQ("out\n", a.out);
    ASSERT_STR_EQ("err\n", a.errors);
    ASSERT_EQ(7, a.status);
    CLEANUP_OUTPUT struct output b = sandpit("exec", "cli", "--", "printf", "%s|", "a b'c\"$d");
    ASSERT_STR_EQ("a b'c\"$d|", b.out);
    CLEANUP_OUTPUT struct output c = sandpit("exec", "cli", "--", "nosuchcmd", NULL, NULL);
    ASSERT_EQ(127, c.status);
    CLEANUP_OUTPUT struct output d = sandpit("exec", "-bad-", "--", "true", NULL, NULL);
    ASSERT(d.status != 0);
    PASS();
}

TEST ps_shows_the_sandbox_and_clock_moves_time(void)
{
    CLEANUP_OUTPUT struct output a = sandpit("ps", NULL, NULL, NULL, NULL, NULL);
    ASSERT_EQ(0, a.status);
    ASSERT(strstr(a.out, "cli"));
    ASSERT(strstr(a.out, "healthy"));
    ASSERT_EQm("no colours in a pipe", NULL, strchr(a.out, '\x1b'));
    CLEANUP_OUTPUT struct output b = sandpit("clock", "advance", "10m", NULL, NULL, NULL);
    ASSERT_EQ(0, b.status);
    CLEANUP_OUTPUT struct output c = sandpit("ps", "--json", NULL, NULL, NULL, NULL);
    ASSERT(strstr(c.out, "\"stopped\""));
    CLEANUP_OUTPUT struct output d = sandpit("clock", "advance", "sideways", NULL, NULL, NULL);
    ASSERT(d.status != 0);
    CLEANUP_OUTPUT struct output e = sandpit("clock", NULL, NULL, NULL, NULL, NULL);
    ASSERT_EQ(0, e.status);
    PASS();
}

TEST stop_and_destroy_work_and_an_unknown_id_is_an_error(void)
{
    CLEANUP_OUTPUT struct output a = sandpit("exec", "cli", "--", "true", NULL, NULL);
    CLEANUP_OUTPUT struct output b = sandpit("stop", "cli", NULL, NULL, NULL, NULL);
    ASSERT_EQ(0, b.status);
    CLEANUP_OUTPUT struct output c = sandpit("destroy", "cli", NULL, NULL, NULL, NULL);
    ASSERT_EQ(0, c.status);
    CLEANUP_OUTPUT struct output d = sandpit("destroy", "nobody", NULL, NULL, NULL, NULL);
    ASSERT_EQ(1, d.status);
    ASSERT(strstr(d.errors, "nobody"));
    PASS();
}

TEST help_is_there_for_every_command_and_mistakes_exit_2(void)
{
    static const char *const commands[] = {"dev",  "exec",    "run",    "ps",   "clock",
                                           "stop", "destroy", "events", "logs", "why", "demo", "reset", "state"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        CLEANUP_OUTPUT struct output a = sandpit(commands[i], "--help", NULL, NULL, NULL, NULL);
        ASSERT_EQm(commands[i], 0, a.status);
        ASSERTm(commands[i], strstr(a.out, commands[i]));
        CLEANUP_OUTPUT struct output b = sandpit(commands[i], "--bogus", NULL, NULL, NULL, NULL);
        ASSERT_EQm(commands[i], 2, b.status);
    }
    CLEANUP_OUTPUT struct output c = sandpit("exce", NULL, NULL, NULL, NULL, NULL);
    ASSERT_EQ(2, c.status);
    ASSERT(strstr(c.errors, "exec"));
    CLEANUP_OUTPUT struct output d = sandpit("--help", NULL, NULL, NULL, NULL, NULL);
    ASSERT_EQ(0, d.status);
    CLEANUP_OUTPUT struct output e = sandpit("--version", NULL, NULL, NULL, NULL, NULL);
    ASSERT_EQ(0, e.status);
    PASS();
}

TEST run_gives_a_private_emulator_and_the_commands_status(void)
{
    static const char script[] =
        "test -n \"$SANDPIT_PORT\" && "
        "curl -sf \"$SANDPIT_URL/sandbox/r/exec\" -d '[\"echo from-run\"]' && exit 9";
    CLEANUP_OUTPUT struct output a = sandpit("run", "--", "sh", "-c", script, NULL);
    ASSERT_EQm(keep(a.errors), 9, a.status);
    ASSERT(strstr(a.out, "from-run"));
    CLEANUP_OUTPUT struct output b = sandpit("run", "--", "nosuchcmd", NULL, NULL, NULL);
    ASSERT_EQ(127, b.status);
    PASS();
}

TEST a_taken_port_is_an_error_that_names_it(void)
{
    char port[16];
    snprintf(port, sizeof port, "%d", emulator.port);
    CLEANUP_OUTPUT struct output a = sandpit("dev", "--ephemeral", "--port", port, NULL, NULL);
    ASSERT_EQ(1, a.status);
    ASSERTm(keep(a.errors), strstr(a.errors, port));
    PASS();
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

TEST a_project_gives_its_classes_and_a_lean_image_has_no_python(void)
{
    struct emulator project = {0};
    snprintf(project.dir, sizeof project.dir, "/tmp/sandpit-test-XXXXXX");
    ASSERT(mkdtemp(project.dir));
    write_file(
        project.dir, "wrangler.jsonc",
        "{ // a comment\n \"name\": \"demo\", \"main\": \"src/index.ts\",\n \"containers\": [\n"
        "  {\"class_name\": \"Sandbox\", \"image\": \"./Dockerfile\"},\n"
        "  {\"class_name\": \"SandboxPython\", \"image\": \"cloudflare/sandbox:0.6.3-python\"},\n"
        " ],\n}\n");
    write_file(project.dir, "Dockerfile", "FROM docker.io/cloudflare/sandbox:0.7.4\nRUN true\n");
    int started = emulator_start(&project, NULL);
    ASSERT_EQ(0, started);
    CLEANUP_REPLY struct reply lean =
        post(&project, "/sandbox/p/exec", "[\"python3 --version; echo $? $SANDBOX_VERSION\"]");
    ASSERT_STR_EQ("127 0.7.4", text_at(lean.json, "stdout"));
    CLEANUP_REPLY struct reply python =
        request(&project, "POST", "/api/execute", "X-Sandbox-Type: python\r\n",
                "{\"command\": \"command -v python3; echo $SANDBOX_VERSION\"}");
    ASSERT(strstr(text_at(python.json, "stdout"), "0.6.3"));
    CLEANUP_REPLY struct reply both = get(&project, "/cdn-cgi/local/sandboxes");
    ASSERT_STR_EQ("SandboxPython", text_at(both.json, "sandboxes.1.class"));
    ASSERT_EQ(0, emulator_stop(&project));
    char log[8192] = "";
    FILE *file = fopen(project.log, "r");
    size_t size = fread(log, 1, sizeof log - 1, file);
    log[size] = '\0';
    fclose(file);
    ASSERTm(keep(log), strstr(log, "the built-in Worker serves"));
    ASSERTm(keep(log), strstr(log, "Ready on http://localhost:"));
    emulator_clean(&project);
    PASS();
}

TEST a_broken_configuration_is_named_with_line_and_column(void)
{
    char dir[] = "/tmp/sandpit-test-XXXXXX";
    ASSERT(mkdtemp(dir));
    write_file(dir, "wrangler.jsonc", "{\n  \"name\": \"x\",\n  oops\n}\n");
    CLEANUP_OUTPUT struct output a = sandpit("dev", "--ephemeral", "--port", "0", dir, NULL);
    ASSERT_EQ(1, a.status);
    ASSERTm(keep(a.errors), strstr(a.errors, "wrangler.jsonc:3:"));
    char path[64];
    snprintf(path, sizeof path, "%s/wrangler.jsonc", dir);
    unlink(path);
    rmdir(dir);
    PASS();
}

TEST the_method_table_is_the_document(void)
{
    CLEANUP_OUTPUT struct output a = sandpit("methods", NULL, NULL, NULL, NULL, NULL);
    ASSERT_EQ(0, a.status);
    FILE *file = fopen(SANDPIT_SOURCE "/docs/api.md", "r");
    ASSERTm("docs/api.md is missing", file);
    char *text = calloc(1, 1 << 20);
    size_t size = fread(text, 1, (1 << 20) - 1, file);
    text[size] = '\0';
    fclose(file);
    ASSERTm("docs/api.md is old: `sandpit methods > docs/api.md`", strcmp(text, a.out) == 0);
    free(text);
    PASS();
}

SUITE(commands_suite)
{
    RUN_TEST(exec_prints_what_the_command_prints_and_ends_as_it_does);
    RUN_TEST(ps_shows_the_sandbox_and_clock_moves_time);
    RUN_TEST(stop_and_destroy_work_and_an_unknown_id_is_an_error);
    RUN_TEST(help_is_there_for_every_command_and_mistakes_exit_2);
    RUN_TEST(run_gives_a_private_emulator_and_the_commands_status);
    RUN_TEST(a_taken_port_is_an_error_that_names_it);
    RUN_TEST(a_project_gives_its_classes_and_a_lean_image_has_no_python);
    RUN_TEST(a_broken_configuration_is_named_with_line_and_column);
    RUN_TEST(the_method_table_is_the_document);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, commands_suite);
    GREATEST_MAIN_END();
}
