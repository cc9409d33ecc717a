/* Why something is gone: the last life, the log of a sandbox, and hints in answers. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { WAIT_MS = 10000 };

static struct emulator emulator;

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

static struct reply control(const char *box, const char *what)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s/%s", box, what);
    return get(&emulator, path);
}

static void advance(const char *by)
{
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%s\"}", by);
    CLEANUP_REPLY struct reply r = post(&emulator, "/cdn-cgi/local/clock/advance", body);
}

static void run(const char *box, const char *command)
{
    char body[1024];
    snprintf(body, sizeof body, "[\"%s\"]", command);
    CLEANUP_REPLY struct reply r = call(box, "exec", body);
}

static bool lists(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
            return true;
    }
    return false;
}

/* The events of a sandbox with this type. */
static int events_of(const char *box, const char *type)
{
    char path[200];
    snprintf(path, sizeof path, "/cdn-cgi/local/events?sandbox=%s&type=%s", box, type);
    CLEANUP_REPLY struct reply r = get(&emulator, path);
    int count = 0;
    for (const char *at = r.body; at && (at = strchr(at, '\n')); at++)
        count++;
    return count;
}

/* The last life. */

TEST why_tells_the_last_life(void)
{
    run("life", "echo 1 > a.txt; mkdir -p sub/deep; echo 2 > sub/deep/b.txt; echo 3 > /tmp/c");
    CLEANUP_REPLY struct reply w = call("life", "writeFile", "[\"/root/d\", \"x\"]");
    run("life", "cat a.txt");
    CLEANUP_REPLY struct reply running = control("life", "why");
    ASSERT_STR_EQ("running", text_at(running.json, "now.end"));
    ASSERT(json_is_null(at(running.json, "last")));
    advance("10m");
    CLEANUP_REPLY struct reply why = control("life", "why");
    ASSERT_EQ(200, why.status);
    ASSERT_STR_EQ("slept", text_at(why.json, "last.end"));
    ASSERT_STR_EQ("execute", text_at(why.json, "last.startedBy"));
    ASSERT_STR_EQ("slept: idle for 10m after execute", text_at(why.json, "last.why"));
    ASSERT_STR_EQ("cat a.txt", text_at(why.json, "last.lastCommand"));
    ASSERT_EQ(2, (int)number_at(why.json, "last.did.execs"));
    ASSERT_EQ(1, (int)number_at(why.json, "last.did.fileCalls"));
    const json_t *lost = at(why.json, "last.lost");
    static const char *const paths[] = {"/workspace/a.txt", "/workspace/sub/deep/b.txt", "/tmp/c",
                                        "/root/d"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        ASSERTm(paths[i], lists(lost, paths[i]));
    ASSERT_EQm("files, nothing else", 4, (int)json_array_size(lost));
    ASSERT_EQ(0, (int)number_at(why.json, "last.lostMore"));
    ASSERT(json_array_size(at(why.json, "wouldHaveKept")) >= 3);
    ASSERT(json_is_null(at(why.json, "now")));
    PASS();
}

TEST the_command_tells_it_in_five_lines(void)
{
    const char *const argv[] = {SANDPIT_BINARY, "why", "life", NULL};
    CLEANUP_FREE char *out = NULL, *errors = NULL;
    ASSERT_EQ(0, run_command(&emulator, argv, &out, NULL));
    static const char *const labels[] = {"started  ", "\ndid      ", "\nended    ", "\nlost     ",
                                         "\ninstead  "};
    const char *last = out;
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        ASSERTm(labels[i], (last = strstr(last, labels[i])));
    ASSERT(strstr(out, "idle for 10m after execute \"cat a.txt\""));
    ASSERT(strstr(out, "/workspace/a.txt"));
    ASSERT(strstr(out, "keepAlive"));
    const char *const unknown[] = {SANDPIT_BINARY, "why", "nobody", NULL};
    ASSERT_EQ(1, run_command(&emulator, unknown, NULL, &errors));
    ASSERT(strstr(errors, "nobody"));
    const char *const none[] = {SANDPIT_BINARY, "why", NULL};
    ASSERT_EQ(2, run_command(&emulator, none, NULL, NULL));
    PASS();
}

TEST an_end_by_hand_is_told_as_such(void)
{
    run("hand", "touch x");
    CLEANUP_REPLY struct reply stop = call("hand", "stop", "[]");
    CLEANUP_REPLY struct reply a = control("hand", "why");
    ASSERT_STR_EQ("stopped", text_at(a.json, "last.end"));
    ASSERT(lists(at(a.json, "last.lost"), "/workspace/x"));
    run("hand", "touch y");
    CLEANUP_REPLY struct reply destroy = call("hand", "destroy", "[]");
    CLEANUP_REPLY struct reply b = control("hand", "why");
    ASSERT_STR_EQ("destroyed", text_at(b.json, "last.end"));
    ASSERT_EQ(2, (int)number_at(b.json, "last.number"));
    ASSERT(lists(at(b.json, "last.lost"), "/workspace/y"));
    ASSERTm("that was a life before", !lists(at(b.json, "last.lost"), "/workspace/x"));
    PASS();
}

TEST an_unused_sandbox_has_no_life_and_no_lines(void)
{
    CLEANUP_REPLY struct reply s = call("unused", "setKeepAlive", "[false]");
    CLEANUP_REPLY struct reply a = control("unused", "why");
    ASSERT_EQ(200, a.status);
    ASSERT(json_is_null(at(a.json, "last")) && json_is_null(at(a.json, "now")));
    CLEANUP_REPLY struct reply b = control("unused", "logs");
    ASSERT_EQ(200, b.status);
    ASSERT_STR_EQ("", b.body);
    CLEANUP_REPLY struct reply c = control("nobody", "why");
    ASSERT_EQ(404, c.status);
    CLEANUP_REPLY struct reply d = control("nobody", "logs?follow=1");
    ASSERT_EQ(404, d.status);
    PASS();
}

TEST twenty_files_are_named_and_the_rest_counted(void)
{
    run("many", "mkdir m; cd m; for i in $(seq 1 333); do : > f$i; done");
    CLEANUP_REPLY struct reply stop = call("many", "stop", "[]");
    CLEANUP_REPLY struct reply why = control("many", "why");
    ASSERT_EQ(20, (int)json_array_size(at(why.json, "last.lost")));
    ASSERT_EQ(313, (int)number_at(why.json, "last.lostMore"));
    ASSERT(json_is_true(at(why.json, "last.lostIsAll")));
    PASS();
}

TEST a_hundred_thousand_files_do_not_hold_up_a_stop(void)
{
    run("heap", "mkdir -p d/{1..100} && for d in d/*; do (cd $d && touch {1..1000}); done");
    long long before = test_ms();
    CLEANUP_REPLY struct reply destroy = call("heap", "destroy", "[]");
    ASSERT(test_ms() - before < 5000);
    CLEANUP_REPLY struct reply why = control("heap", "why");
    ASSERT(json_is_false(at(why.json, "last.lostIsAll")));
    ASSERT(number_at(why.json, "last.lostMore") <= 10000);
    PASS();
}

TEST links_names_and_holes_lead_nowhere_else(void)
{
    run("trap",
        "ln -s / root; ln -s /etc etc; ln -s . self; mkfifo pipe; mkdir -m 0 shut; "
        "touch $'bad\\\\xffname' $'new\\\\nline'; d=x; for i in $(seq 1 300); do mkdir $d && "
        "cd $d || break; done; touch deep");
    long long before = test_ms();
    CLEANUP_REPLY struct reply stop = call("trap", "stop", "[]");
    ASSERT(test_ms() - before < 5000);
    CLEANUP_REPLY struct reply why = control("trap", "why");
    ASSERT_EQ(200, why.status);
    const json_t *lost = at(why.json, "last.lost");
    ASSERT(lists(lost, "/workspace/root") && lists(lost, "/workspace/self"));
    for (size_t i = 0; i < json_array_size(lost); i++) {
        const char *path = json_string_value(json_array_get(lost, i));
        ASSERTm(keep(path), strncmp(path, "/workspace/", 11) == 0);
        ASSERTm(keep(path), strncmp(path, "/workspace/root/", 16) != 0);
        ASSERTm(keep(path), strncmp(path, "/workspace/etc/", 15) != 0);
        ASSERTm(keep(path), strncmp(path, "/workspace/self/", 16) != 0);
    }
    const char *const argv[] = {SANDPIT_BINARY, "why", "trap", NULL};
    CLEANUP_FREE char *out = NULL;
    ASSERT_EQ(0, run_command(&emulator, argv, &out, NULL));
    ASSERT_EQm("a name cannot make a line", NULL, strstr(out, "\nline"));
    PASS();
}

/* Hints. */

TEST a_file_of_the_last_life_is_missed_with_a_hint(void)
{
    run("gone", "mkdir -p dir; echo 1 > dir/a; echo 2 > b");
    advance("10m");
    static const char *const asked[] = {"/workspace/dir/a", "dir/a", "./dir/../b", "/workspace//b",
                                        "/tmp/../workspace/b"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char body[128];
        snprintf(body, sizeof body, "[\"%s\"]", asked[i]);
        CLEANUP_REPLY struct reply r = call("gone", "readFile", body);
        ASSERT_EQm(asked[i], 404, r.status);
        ASSERTm(asked[i], strstr(text_at(r.json, "hint"), "existed until the container slept at "));
    }
    CLEANUP_REPLY struct reply other = call("gone", "readFile", "[\"/workspace/never\"]");
    ASSERT_EQ(404, other.status);
    ASSERT_EQm("what never was has no hint", NULL, at(other.json, "hint"));
    CLEANUP_REPLY struct reply move = call("gone", "moveFile", "[\"/workspace/b\", \"/tmp/b\"]");
    ASSERTm(keep(move.body), strstr(text_at(move.json, "hint"), "existed until"));
    CLEANUP_REPLY struct reply w = call("gone", "writeFile", "[\"/workspace/n\", \"x\"]");
    CLEANUP_REPLY struct reply stop = call("gone", "stop", "[]");
    CLEANUP_REPLY struct reply stopped = call("gone", "readFile", "[\"/workspace/n\"]");
    ASSERT(strstr(text_at(stopped.json, "hint"), "the container was stopped at "));
    CLEANUP_REPLY struct reply older = call("gone", "readFile", "[\"/workspace/b\"]");
    ASSERT_EQm("only of the last one", NULL, at(older.json, "hint"));
    CLEANUP_REPLY struct reply w2 = call("gone", "writeFile", "[\"/workspace/o\", \"x\"]");
    CLEANUP_REPLY struct reply destroy = call("gone", "destroy", "[]");
    CLEANUP_REPLY struct reply destroyed = call("gone", "readFile", "[\"/workspace/o\"]");
    ASSERT(strstr(text_at(destroyed.json, "hint"), "the container was destroyed at "));
    PASS();
}

TEST a_session_of_the_last_container_says_once_that_it_began_anew(void)
{
    CLEANUP_REPLY struct reply a = call("sess", "exec", "[\"cd /tmp\", {\"session\": \"s1\"}]");
    CLEANUP_REPLY struct reply b = call("sess", "createSession", "[{\"id\": \"s2\"}]");
    CLEANUP_REPLY struct reply none = call("sess", "exec", "[\"pwd\", {\"session\": \"s1\"}]");
    ASSERT_STR_EQ("/tmp", text_at(none.json, "stdout"));
    ASSERT_EQ(NULL, at(none.json, "hint"));
    advance("10m");
    CLEANUP_REPLY struct reply c = call("sess", "exec", "[\"pwd\", {\"session\": \"s1\"}]");
    ASSERT_STR_EQ("/workspace", text_at(c.json, "stdout"));
    ASSERT_STR_EQ("session re-created, cwd reset to /workspace", text_at(c.json, "hint"));
    CLEANUP_REPLY struct reply d = call("sess", "exec", "[\"pwd\", {\"session\": \"s1\"}]");
    ASSERT_EQm("once", NULL, at(d.json, "hint"));
    ASSERT_EQ(1, events_of("sess", "session.recreated"));
    CLEANUP_REPLY struct reply e = call("sess", "createSession", "[{\"id\": \"s2\"}]");
    CLEANUP_REPLY struct reply f = call("sess", "exec", "[\"pwd\", {\"session\": \"s2\"}]");
    ASSERT_EQm("who made it anew knows", NULL, at(f.json, "hint"));
    CLEANUP_REPLY struct reply g = call("sess", "exec", "[\"pwd\"]");
    ASSERT_EQm("nobody named the default one", NULL, at(g.json, "hint"));
    ASSERT_EQ(1, events_of("sess", "session.recreated"));
    PASS();
}

TEST ids_that_break_previews_and_a_switched_keep_alive_are_told_once(void)
{
    CLEANUP_REPLY struct reply a = call("Upper", "setKeepAlive", "[true]");
    CLEANUP_REPLY struct reply b = call("Upper", "setKeepAlive", "[true]");
    ASSERT_EQ(1, events_of("Upper", "hint.id"));
    ASSERT_EQ(0, events_of("Upper", "hint.keepAlive"));
    for (int i = 0; i < 3; i++) {
        CLEANUP_REPLY struct reply off = call("Upper", "setKeepAlive", "[false]");
        CLEANUP_REPLY struct reply on = call("Upper", "setKeepAlive", "[true]");
    }
    ASSERT_EQ(1, events_of("Upper", "hint.keepAlive"));
    CLEANUP_REPLY struct reply off = call("Upper", "setKeepAlive", "[false]");
    static const char long_id[] = "a-name-that-is-longer-than-forty-letters1",
                      fine[] = "a-name-that-is-not-longer-than-40-letters";
    ASSERT_EQ(41, (int)strlen(long_id));
    CLEANUP_REPLY struct reply c = call(long_id, "getState", "[]");
    ASSERT_EQ(1, events_of(long_id, "hint.id"));
    char forty[41];
    snprintf(forty, sizeof forty, "%s", fine);
    CLEANUP_REPLY struct reply d = call(forty, "getState", "[]");
    ASSERT_EQ(0, events_of(forty, "hint.id"));
    PASS();
}

/* What ends when its process is killed from outside. */
static void kill_children(const struct emulator *of)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", of->pid, of->pid);
    CLEANUP_FILE FILE *file = fopen(path, "re");
    int pid;
    while (file && fscanf(file, "%d", &pid) == 1)
        kill(pid, SIGKILL);
}

static bool has_stopped(void *arg)
{
    CLEANUP_REPLY struct reply r = get(arg, "/cdn-cgi/local/sandboxes/box");
    return strcmp(text_at(r.json, "state"), "stopped") == 0;
}

TEST a_crash_is_told_with_what_was_lost(void)
{
    struct emulator other = {0};
    static const char *const extra[] = {"--network=none", NULL};
    ASSERT_EQ(0, emulator_start(&other, extra));
    CLEANUP_REPLY struct reply a = post(&other, "/sandbox/box/writeFile", "[\"kept\", \"x\"]");
    ASSERT_EQ(200, a.status);
    kill_children(&other);
    ASSERT(eventually(has_stopped, &other, WAIT_MS));
    CLEANUP_REPLY struct reply why = get(&other, "/cdn-cgi/local/sandboxes/box/why");
    ASSERT_STR_EQ("crashed", text_at(why.json, "last.end"));
    ASSERTm(keep(why.body), lists(at(why.json, "last.lost"), "/workspace/kept"));
    CLEANUP_REPLY struct reply b = post(&other, "/sandbox/box/readFile", "[\"kept\"]");
    ASSERT(strstr(text_at(b.json, "hint"), "existed until the container crashed at "));
    ASSERT_EQ(0, emulator_stop(&other));
    emulator_clean(&other);
    PASS();
}

TEST faithful_answers_have_no_hints(void)
{
    struct emulator other = {0};
    static const char *const extra[] = {"--faithful", "--network=none", NULL};
    ASSERT_EQ(0, emulator_start(&other, extra));
    CLEANUP_REPLY struct reply a = post(&other, "/sandbox/box/writeFile", "[\"f\", \"x\"]");
    CLEANUP_REPLY struct reply s =
        post(&other, "/sandbox/box/exec", "[\"true\", {\"session\": \"s\"}]");
    CLEANUP_REPLY struct reply b = post(&other, "/sandbox/box/stop", "[]");
    static const struct {
        const char *path, *body;
    } calls[] = {
        {"/sandbox/box/readFile", "[\"f\"]"},
        {"/sandbox/box/exec", "[\"true\", {\"session\": \"s\"}]"},
        {"/sandbox/box/exec", "[\"echo 'Could not resolve host' >&2; false\"]"},
        {"/sandbox/box/nosuch", "[]"},
        {"/sandbox/box/exec", "[}"},
        {"/api/read", "{\"path\": \"/nothing\"}"},
        {"/api/nosuch", "{}"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CLEANUP_REPLY struct reply r = post(&other, calls[i].path, calls[i].body);
        ASSERTm(keep(r.body), r.json);
        ASSERT_EQm(keep(r.body), NULL, at(r.json, "hint"));
        ASSERT_EQm(keep(r.body), NULL, at(r.json, "docs"));
    }
    CLEANUP_REPLY struct reply events = get(&other, "/cdn-cgi/local/events?type=session.recreated");
    ASSERTm("events stay", strstr(events.body, "session.recreated"));
    emulator_stop(&other);
    emulator_clean(&other);
    PASS();
}

/* Logs. */

TEST the_log_has_commands_and_what_processes_wrote(void)
{
    run("log", "echo not here; false");
    CLEANUP_REPLY struct reply p =
        call("log", "startProcess",
             "[\"echo to-out; echo to-err >&2; exit 3\", {\"processId\": \"worker\"}]");
    ASSERT_EQm(keep(p.body), 200, p.status);
    CLEANUP_REPLY struct reply w = call("log", "waitForExit", "[\"worker\"]");
    CLEANUP_REPLY struct reply log = control("log", "logs");
    ASSERT(strstr(log.body, "$ echo not here; false  (exit 1, "));
    ASSERTm(keep(log.body), strstr(log.body, "\"source\":\"worker\",\"stream\":\"stdout\","
                                             "\"text\":\"to-out\"}"));
    ASSERT(strstr(log.body, "\"source\":\"worker\",\"stream\":\"stderr\",\"text\":\"to-err\"}"));
    ASSERTm(keep(log.body), strstr(log.body, "ended: failed, exit 3"));
    CLEANUP_REPLY struct reply own = control("log", "logs?source=worker");
    ASSERT_EQ(NULL, strstr(own.body, "\"source\":\"exec\""));
    const char *const argv[] = {SANDPIT_BINARY, "logs", "log", NULL};
    CLEANUP_FREE char *out = NULL;
    ASSERT_EQ(0, run_command(&emulator, argv, &out, NULL));
    ASSERT(strstr(out, "worker       to-out\n"));
    ASSERT_EQ(NULL, strchr(out, '\x1b'));
    PASS();
}

TEST the_log_outlives_its_container_by_one_life(void)
{
    run("old", "echo first-life");
    advance("10m");
    CLEANUP_REPLY struct reply a = control("old", "logs");
    ASSERT(strstr(a.body, "first-life"));
    ASSERT(strstr(a.body, "slept: idle for 10m"));
    run("old", "echo second-life");
    CLEANUP_REPLY struct reply b = control("old", "logs");
    ASSERT(strstr(b.body, "first-life") && strstr(b.body, "second-life"));
    CLEANUP_REPLY struct reply young = control("old", "logs?since=1m");
    ASSERT(!strstr(young.body, "first-life") && strstr(young.body, "second-life"));
    advance("10m");
    run("old", "echo third-life");
    CLEANUP_REPLY struct reply c = control("old", "logs");
    ASSERT(!strstr(c.body, "first-life") && strstr(c.body, "third-life"));
    ASSERTm("what is too old is not called lost", !strstr(c.body, "\"lost\""));
    PASS();
}

TEST a_chatty_sandbox_has_a_bounded_log(void)
{
    CLEANUP_REPLY struct reply p =
        call("chatty", "startProcess",
             "[\"for i in $(seq 1 20000); do echo line $i; done; echo the-end\", "
             "{\"processId\": \"p\"}]");
    CLEANUP_REPLY struct reply w = call("chatty", "waitForExit", "[\"p\"]");
    CLEANUP_REPLY struct reply log = control("chatty", "logs");
    ASSERT(log.size < 300 * 1024);
    ASSERT(strstr(log.body, "the-end"));
    ASSERTm("it says so", strstr(log.body, "older lines are not kept any more"));
    PASS();
}

SUITE(why_suite)
{
    RUN_TEST(why_tells_the_last_life);
    RUN_TEST(the_command_tells_it_in_five_lines);
    RUN_TEST(an_end_by_hand_is_told_as_such);
    RUN_TEST(an_unused_sandbox_has_no_life_and_no_lines);
    RUN_TEST(twenty_files_are_named_and_the_rest_counted);
    RUN_TEST(a_hundred_thousand_files_do_not_hold_up_a_stop);
    RUN_TEST(links_names_and_holes_lead_nowhere_else);
    RUN_TEST(a_file_of_the_last_life_is_missed_with_a_hint);
    RUN_TEST(a_session_of_the_last_container_says_once_that_it_began_anew);
    RUN_TEST(ids_that_break_previews_and_a_switched_keep_alive_are_told_once);
    RUN_TEST(a_crash_is_told_with_what_was_lost);
    RUN_TEST(faithful_answers_have_no_hints);
    RUN_TEST(the_log_has_commands_and_what_processes_wrote);
    RUN_TEST(the_log_outlives_its_container_by_one_life);
    RUN_TEST(a_chatty_sandbox_has_a_bounded_log);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, why_suite);
    GREATEST_MAIN_END();
}
