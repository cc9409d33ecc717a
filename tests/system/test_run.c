/* sandpit run: an emulator for one command, as test suites use it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { MANY = 8, WAIT_MS = 20000 };

/* Only its scratch directory and environment are used. */
static struct emulator place;

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

enum { WORDS_MAX = 6 };

/* sandpit run WORDS… -- sh -c SCRIPT */
static void make_argv(const char *argv[WORDS_MAX + 9], const char *const *words, const char *script)
{
    int count = 0;
    argv[count++] = SANDPIT_BINARY;
    argv[count++] = "run";
    argv[count++] = "--network=none";
    for (int i = 0; i < WORDS_MAX && words[i]; i++)
        argv[count++] = words[i];
    argv[count++] = "--";
    argv[count++] = "sh";
    argv[count++] = "-c";
    argv[count++] = script;
    argv[count] = NULL;
}
#define RUN(SCRIPT, ...) run((const char *const[WORDS_MAX]){__VA_ARGS__}, SCRIPT)

static struct output run(const char *const *words, const char *script)
{
    const char *argv[WORDS_MAX + 9];
    make_argv(argv, words, script);
    struct output output = {0};
    output.status = run_command(&place, argv, &output.out, &output.errors);
    return output;
}

#define EXEC "curl -sf $SANDPIT_URL/sandbox/box/exec -d '[\"echo hello\"]' "
#define DESTROY "curl -sf -X POST $SANDPIT_URL/sandbox/box/destroy "

static const char *in_place(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", place.dir, name);
    return path;
}

static json_t *read_json(const char *name)
{
    return json_load_file(in_place(name), 0, NULL);
}

/* The report at the end. */

TEST a_run_that_leaves_a_sandbox_says_so_and_keeps_the_status(void)
{
    CLEANUP_OUTPUT struct output a = RUN(EXEC "; exit 3", NULL);
    ASSERT_EQ(3, a.status);
    ASSERT(strstr(a.out, "hello"));
    ASSERTm(keep(a.errors), strstr(a.errors, "1 sandbox was never destroyed"));
    ASSERTm(keep(a.errors), strstr(a.errors, "box"));
    ASSERTm(keep(a.errors), strstr(a.errors, "at most $"));
    CLEANUP_OUTPUT struct output b = RUN(EXEC "&& " DESTROY, NULL);
    ASSERT_EQ(0, b.status);
    ASSERTm(keep(b.errors), strstr(b.errors, "nothing is left behind"));
    CLEANUP_OUTPUT struct output c = RUN("true", NULL);
    ASSERT_STR_EQm("no container, nothing to say", "", c.errors);
    PASS();
}

TEST a_leak_fails_a_successful_command_when_asked_to(void)
{
    CLEANUP_OUTPUT struct output a = RUN(EXEC, "--fail-on-leak");
    ASSERT_EQ(1, a.status);
    CLEANUP_OUTPUT struct output b = RUN(EXEC "; exit 7", "--fail-on-leak");
    ASSERT_EQm("the command's own failure is told", 7, b.status);
    CLEANUP_OUTPUT struct output c = RUN(EXEC "&& " DESTROY, "--fail-on-leak");
    ASSERT_EQm(keep(c.errors), 0, c.status);
    CLEANUP_OUTPUT struct output d = RUN(EXEC, "--fail-on-leak", "--no-report");
    ASSERT_EQ(1, d.status);
    ASSERT_STR_EQ("", d.errors);
    PASS();
}

TEST the_report_is_written_as_json(void)
{
    CLEANUP_OUTPUT struct output a = RUN(EXEC, "--report", in_place("report.json"));
    ASSERT_EQ(0, a.status);
    CLEANUP_JSON json_t *report = read_json("report.json");
    ASSERT_STR_EQ("box", text_at(report, "leaks.0.id"));
    ASSERT_EQ(1, (int)number_at(report, "usage.containers"));
    CLEANUP_OUTPUT struct output b = RUN("true", "--report=/nowhere/at/all");
    ASSERT_EQ(1, b.status);
    ASSERT(strstr(b.errors, "/nowhere/at/all"));
    CLEANUP_OUTPUT struct output c = RUN("true", "--report=");
    ASSERT_EQ(2, c.status);
    PASS();
}

TEST an_emulator_that_died_meanwhile_is_told(void)
{
    CLEANUP_OUTPUT struct output a = RUN("kill -9 $(curl -sf $SANDPIT_URL/cdn-cgi/local/info | sed "
                                         "'s/.*\"pid\":\\([0-9]*\\).*/\\1/')",
                                         "--fail-on-leak");
    ASSERT_EQm(keep(a.errors), 1, a.status);
    ASSERTm(keep(a.errors), strstr(a.errors, "sandpit run: "));
    PASS();
}

/* Where it is. */

TEST the_ready_file_is_there_while_it_runs_and_names_it(void)
{
    CLEANUP_FILE FILE *stale = fopen(in_place("ready.json"), "w");
    fputs("{\"url\": \"http://localhost:1\"}", stale);
    fflush(stale);
    CLEANUP_OUTPUT struct output a =
        RUN("cat ready.json; stat -c ' %a' ready.json", "--ready-file", in_place("ready.json"));
    ASSERT_EQm(keep(a.errors), 0, a.status);
    CLEANUP_JSON json_t *ready = json_loads(a.out, JSON_DISABLE_EOF_CHECK, NULL);
    char url[64];
    snprintf(url, sizeof url, "http://localhost:%lld", number_at(ready, "port"));
    ASSERT_STR_EQ(url, text_at(ready, "url"));
    ASSERT(number_at(ready, "pid") > 1);
    ASSERTm("no token without --auth", !at(ready, "token"));
    ASSERT(strstr(a.out, " 600"));
    ASSERT_EQm("it is gone at the end", -1, access(in_place("ready.json"), F_OK));
    CLEANUP_OUTPUT struct output b = RUN("true", "--ready-file=/nowhere/ready.json");
    ASSERT_EQ(125, b.status);
    PASS();
}

TEST with_auth_the_command_gets_the_token_and_the_report_works(void)
{
    CLEANUP_OUTPUT struct output a =
        RUN("curl -s -o /dev/null -w '%{http_code} ' $SANDPIT_URL/cdn-cgi/local/info;"
            "curl -s -o /dev/null -w '%{http_code} ' -H \"Authorization: Bearer $SANDPIT_TOKEN\""
            " $SANDPIT_URL/cdn-cgi/local/info; grep -c \"$SANDPIT_TOKEN\" ready.json",
            "--auth", "--fail-on-leak", "--ready-file", in_place("ready.json"));
    ASSERT_EQm(keep(a.errors), 0, a.status);
    ASSERT_STR_EQ("401 200 1\n", a.out);
    PASS();
}

TEST state_stays_with_persist_to_and_only_then(void)
{
    char dir[160];
    snprintf(dir, sizeof dir, "%s", in_place("kept"));
    CLEANUP_OUTPUT struct output a =
        RUN("curl -sf $SANDPIT_URL/sandbox/box/setKeepAlive -d '[true]'", "--persist-to", dir);
    ASSERT_EQm(keep(a.errors), 0, a.status);
    CLEANUP_OUTPUT struct output b =
        RUN("curl -sf $SANDPIT_URL/cdn-cgi/local/sandboxes", "--persist-to", dir);
    ASSERTm(keep(b.out), strstr(b.out, "\"keepAlive\":true"));
    CLEANUP_OUTPUT struct output c = RUN("curl -sf $SANDPIT_URL/cdn-cgi/local/sandboxes", NULL);
    ASSERT_STR_EQ("{\"sandboxes\":[]}", c.out);
    PASS();
}

/* Signals. */

/* Starts a run and reads its first word; the pid, or -1. */
static pid_t start_run(const char *script, int *from)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    const char *argv[WORDS_MAX + 9];
    make_argv(argv,
              (const char *const[WORDS_MAX]){"--no-report", "--persist-to", in_place("signals")},
              script);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        setenv("XDG_RUNTIME_DIR", place.run_root, 1);
        execv(SANDPIT_BINARY, (char *const *)argv);
        _exit(127);
    }
    close(ends[1]);
    char word[16] = "";
    struct pollfd item = {.fd = ends[0], .events = POLLIN};
    if (poll(&item, 1, WAIT_MS) == 1 && read(ends[0], word, sizeof word - 1) > 0 &&
        strncmp(word, "ready", 5) == 0) {
        *from = ends[0];
        return pid;
    }
    kill(pid, SIGKILL);
    close(ends[0]);
    return -1;
}

TEST signals_reach_the_command_and_its_status_comes_back(void)
{
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        CLEANUP_FD int from = -1;
        pid_t pid = start_run(
            "trap 'echo caught; exit 42' INT TERM; echo ready; while :; do sleep 0.05; done",
            &from);
        ASSERT(pid > 0);
        kill(pid, signals[i]);
        int status = 0;
        ASSERT_EQ(pid, waitpid(pid, &status, 0));
        ASSERT(WIFEXITED(status));
        ASSERT_EQ(42, WEXITSTATUS(status));
        char word[16] = "";
        ASSERT(read(from, word, sizeof word - 1) > 0);
        ASSERT_STR_EQ("caught\n", word);
    }
    ASSERTm("no emulator is left", processes_become(in_place("signals"), 0, WAIT_MS));
    PASS();
}

/* Many at once. */

/* Each has its own sandbox "box", its own clock and its own buckets. */
static const char many_script[] =
    "set -e; me=$0; cd /tmp\n"
    "call() { curl -sf \"$SANDPIT_URL$1\" -d \"$2\"; }\n"
    "call /sandbox/box/writeFile \"[\\\"/workspace/me\\\", \\\"$SANDPIT_PORT\\\"]\" >/dev/null\n"
    "call /api/bucket/put \"{\\\"key\\\": \\\"me\\\", \\\"content\\\": \\\"$SANDPIT_PORT\\\"}\" "
    ">/dev/null\n"
    "call /cdn-cgi/local/clock/freeze '' >/dev/null\n"
    "by=$((SANDPIT_PORT % 500 + 1))\n"
    "call /cdn-cgi/local/clock/advance \"{\\\"by\\\": \\\"${by}s\\\"}\" >/dev/null\n"
    "call /sandbox/box/readFile '[\"/workspace/me\"]' | grep -q "
    "\"\\\"content\\\":\\\"$SANDPIT_PORT\\\"\"\n"
    "curl -sf \"$SANDPIT_URL/api/bucket/get?key=me\" | grep -q "
    "\"\\\"content\\\":\\\"$SANDPIT_PORT\\\"\"\n"
    "curl -sf $SANDPIT_URL/cdn-cgi/local/clock | grep -q '\"mode\":\"frozen\"'\n"
    "test $(curl -sf $SANDPIT_URL/cdn-cgi/local/sandboxes | grep -o '\"id\"' | wc -l) = 1\n"
    "call /sandbox/box/destroy '[]' >/dev/null; echo $SANDPIT_PORT\n";

TEST eight_at_once_do_not_disturb_each_other(void)
{
    pid_t pids[MANY];
    const char *argv[WORDS_MAX + 9];
    make_argv(argv, (const char *const[WORDS_MAX]){"--fail-on-leak", "--no-report"}, many_script);
    CLEANUP_FD int out = open(in_place("ports"), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    for (int i = 0; i < MANY; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            dup2(out, 1);
            setenv("XDG_RUNTIME_DIR", place.run_root, 1);
            execv(SANDPIT_BINARY, (char *const *)argv);
            _exit(127);
        }
    }
    int failed = 0;
    for (int i = 0; i < MANY; i++) {
        int status = 0;
        waitpid(pids[i], &status, 0);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    ASSERT_EQ(0, failed);
    int ports[MANY], count = 0;
    CLEANUP_FILE FILE *file = fopen(in_place("ports"), "r");
    while (count < MANY && fscanf(file, "%d", &ports[count]) == 1) {
        for (int i = 0; i < count; i++)
            ASSERT(ports[i] != ports[count]);
        count++;
    }
    ASSERT_EQ(MANY, count);
    PASS();
}

/* The same again. */

/* What is random, without times: secrets, runtime ids, context ids, process ids' last part. */
static const char random_script[] =
    "curl -sf $SANDPIT_URL/sandbox/a/exec -d '[\"true\"]' >/dev/null\n"
    "curl -sf $SANDPIT_URL/sandbox/b/startProcess -d '[\"true\"]' | sed "
    "'s/.*\"id\":\"proc_[0-9]*_\\([a-z0-9]*\\)\".*/\\1/'\n"
    "curl -sf $SANDPIT_URL/cdn-cgi/local/sandboxes | grep -o '3000-[ab]-[a-z0-9]*'\n"
    "curl -sf $SANDPIT_URL/cdn-cgi/local/events | grep starting | grep -o "
    "'\"runtime\":\"[^\"]*\"'\n";

TEST one_seed_gives_the_same_ids_and_another_seed_others(void)
{
    CLEANUP_OUTPUT struct output a = RUN(random_script, "--seed", "7");
    CLEANUP_OUTPUT struct output b = RUN(random_script, "--seed=7");
    CLEANUP_OUTPUT struct output c = RUN(random_script, "--seed=8");
    CLEANUP_OUTPUT struct output d = RUN(random_script, NULL);
    ASSERTm(keep(a.out), strlen(a.out) > 100);
    ASSERT_STR_EQ(a.out, b.out);
    ASSERT(strcmp(a.out, c.out) != 0);
    ASSERT(strcmp(a.out, d.out) != 0);
    CLEANUP_OUTPUT struct output bad = RUN("true", "--seed=x");
    ASSERT(bad.status != 0);
    PASS();
}

TEST after_a_reset_a_seed_begins_again(void)
{
    char script[sizeof random_script * 2 + 128];
    snprintf(script, sizeof script,
             "%s echo; curl -sf -X POST $SANDPIT_URL/cdn-cgi/local/reset >/dev/null\n%s",
             "curl -sf $SANDPIT_URL/sandbox/z/exec -d '[\"true\"]' >/dev/null;", random_script);
    CLEANUP_OUTPUT struct output whole = RUN(script, "--seed=7");
    CLEANUP_OUTPUT struct output plain = RUN(random_script, "--seed=7");
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(plain.out, "\n"), plain.out);
    ASSERT(*first);
    ASSERTm(keep(whole.out), strstr(whole.out, first));
    const char *secret = strstr(plain.out, "3000-a-");
    ASSERT(secret);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(secret, "\n"), secret);
    ASSERTm(keep(whole.out), strstr(whole.out, first));
    PASS();
}

SUITE(run_suite)
{
    RUN_TEST(a_run_that_leaves_a_sandbox_says_so_and_keeps_the_status);
    RUN_TEST(a_leak_fails_a_successful_command_when_asked_to);
    RUN_TEST(the_report_is_written_as_json);
    RUN_TEST(an_emulator_that_died_meanwhile_is_told);
    RUN_TEST(the_ready_file_is_there_while_it_runs_and_names_it);
    RUN_TEST(with_auth_the_command_gets_the_token_and_the_report_works);
    RUN_TEST(state_stays_with_persist_to_and_only_then);
    RUN_TEST(signals_reach_the_command_and_its_status_comes_back);
    RUN_TEST(eight_at_once_do_not_disturb_each_other);
    RUN_TEST(one_seed_gives_the_same_ids_and_another_seed_others);
    RUN_TEST(after_a_reset_a_seed_begins_again);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP run_suite: %s\n", missing);
        return 77;
    }
    if (emulator_start(&place, NULL) < 0 || emulator_stop(&place) != 0)
        return 1;
    RUN_SUITE(run_suite);
    emulator_clean(&place);
    GREATEST_MAIN_END();
}
