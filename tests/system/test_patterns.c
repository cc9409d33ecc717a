/* Plays the scripts of fixtures/patterns: the ways in which sandboxes are used, through the public
 * HTTP interface. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static bool is_there(const char *program)
{
    const char *argv[] = {"sh", "-c", NULL, NULL};
    char line[128];
    snprintf(line, sizeof line, "command -v %s", program);
    argv[2] = line;
    return run_command(&emulator, argv, NULL, NULL) == 0;
}

/* What it printed is shown when it fails: each script says what it is doing. */
TEST a_pattern_works_as_its_script_says(const char *name, const char *needs)
{
    if (!is_there("python3"))
        SKIPm("python3 is not on this host");
    if (needs && !is_there(needs))
        SKIPm(keep(needs));
    char script[512], url[64];
    snprintf(script, sizeof script, SANDPIT_SOURCE "/fixtures/patterns/%s.py", name);
    snprintf(url, sizeof url, "http://localhost:%d", emulator.port);
    /* -B: nothing is written beside the scripts. */
    const char *argv[] = {"timeout", "60", "python3", "-B", script, url, NULL};
    CLEANUP_FREE char *out = NULL, *errors = NULL;
    int status = run_command(&emulator, argv, &out, &errors);
    if (status != 0)
        printf("%s\n%s%s\n", name, out, errors);
    ASSERT_EQm(name, 0, status);
    ASSERTm(name, *out);
    PASS();
}

TEST no_pattern_leaves_a_container(void)
{
    CLEANUP_REPLY struct reply reply = get(&emulator, "/cdn-cgi/local/sandboxes");
    size_t i;
    json_t *box;
    ASSERT(json_array_size(at(reply.json, "sandboxes")) > 0);
    json_array_foreach((json_t *)at(reply.json, "sandboxes"), i, box)
        ASSERT_STR_EQm(keep(text_at(box, "id")), "destroyed", text_at(box, "state"));
    PASS();
}

static const struct {
    const char *name;
    const char *needs; /* a program that the sandbox shows of this host */
} scripts[] = {
    {"one_shot", NULL},          {"user_workspace", NULL},   {"chat_agent", NULL},
    {"parallel_sessions", NULL}, {"git_analysis", "git"},    {"ai_code", "node"},
    {"services", "node"},        {"setup_if_missing", NULL}, {"ci_pipeline", NULL},
};

SUITE(patterns)
{
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        RUN_TESTp(a_pattern_works_as_its_script_says, scripts[i].name, scripts[i].needs);
    RUN_TEST(no_pattern_leaves_a_container);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, patterns);
    GREATEST_MAIN_END();
}
