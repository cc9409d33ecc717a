/* Sessions and execute, against a real container (PROTOCOL A, B, R; ABUSE D). */
#include <fcntl.h>

#include "container_client.h"
#include "greatest.h"

#define TOKEN "__DISABLE_SESSION__"

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    if (!value)
        fprintf(stderr, "bad test: %s\n", text);
    return value;
}

/* Samples of R: the body is compared as it stands, key order included. */

TEST small_operations_answer_as_observed(void)
{
    NEED_CONTAINER();
    REPLY ping = call("ping", NULL);
    ASSERT_STR_EQ("{\"success\":true,\"status\":\"healthy\",\"timestamp\":\"T\"}", text_of(&ping));
    REPLY version = call("version", NULL);
    ASSERT_STR_EQ("{\"success\":true,\"version\":\"0.12.7\",\"timestamp\":\"T\"}",
                  text_of(&version));
    PASS();
}

TEST execute_answers_as_observed(void)
{
    NEED_CONTAINER();
    REPLY hello = run_in("echo hello", NULL);
    ASSERT_STR_EQ("{\"success\":true,\"exitCode\":0,\"stdout\":\"hello\",\"stderr\":\"\","
                  "\"command\":\"echo hello\",\"duration\":0,\"timestamp\":\"T\"}",
                  text_of(&hello));
    REPLY named = run_in("echo hello", "named");
    ASSERT_STR_EQ("{\"success\":true,\"exitCode\":0,\"stdout\":\"hello\",\"stderr\":\"\","
                  "\"command\":\"echo hello\",\"duration\":0,\"timestamp\":\"T\","
                  "\"sessionId\":\"named\"}",
                  text_of(&named));
    REPLY missing = run_in("nosuchcmd", NULL);
    ASSERT_EQ(127, exit_code(&missing));
    ASSERT(strstr(member(&missing, "stderr"), "bash: line "));
    ASSERT(strstr(member(&missing, "stderr"), ": nosuchcmd: command not found"));
    PASS();
}

TEST output_has_the_shape_of_a_session(void)
{
    NEED_CONTAINER();
    static const struct {
        const char *command, *out;
    } cases[] = {
        {"printf 'a\\n\\nb\\n\\n'", "a\n\nb\n"},
        {"printf nonl", "nonl"},
        {"printf 'a\\r\\nb\\r'", "a\r\nb\r"},
        {"printf 'a\\0b'", "ab"},
        {"printf 'x\\xffy'", "x\xef\xbf\xbdy"},
        {"", ""},
        {"echo a # comment", "a"},
        {"cat", ""},
        {"cat <<E\nit's \"here\"\nE", "it's \"here\""},
        {"echo \"$-\"", "hBs"},
        {"echo $LANG $LC_ALL", "C.UTF-8 C.UTF-8"},
        {"echo $FROM_CLASS ${NOTHING-unset} $SANDBOX_VERSION", "yes unset 0.12.7"},
        {"echo 'single '\\''quoted'\\'", "single 'quoted'"},
        {"echo one; echo two >&2; echo three", "one\nthree"},
        {"ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 "},
        {"(exit 4); echo $?", "4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REPLY reply = run_in(cases[i].command, NULL);
        ASSERT_EQm(cases[i].command, CODE_OK, reply.code);
        ASSERT_STR_EQm(cases[i].command, cases[i].out, member(&reply, "stdout"));
    }
    PASS();
}

TEST exit_codes_and_broken_syntax_leave_the_session_alive(void)
{
    NEED_CONTAINER();
    static const struct {
        const char *command;
        int code;
    } cases[] = {
        {"keep=yes", 0},
        {"(exit 4)", 4},
        {"false", 1},
        {"echo 'open", 2},
        {"if true; then", 2},
        {"echo )", 2},
        {"echo $((1/0))", 1},
        {"return", 2},
        {"cat <<E\nopen", 0},
        {"readonly r=1; r=2", 1},
        {"echo tail \\", 0},
        {"sh -c 'exit 200'", 200},
        {"kill -9 $BASHPID & wait $!", 137},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REPLY reply = run_in(cases[i].command, "syntax");
        ASSERT_EQm(cases[i].command, CODE_OK, reply.code);
        ASSERT_EQm(cases[i].command, cases[i].code, exit_code(&reply));
    }
    REPLY kept = run_in("echo $keep", "syntax");
    ASSERT_STR_EQ("yes", member(&kept, "stdout"));
    PASS();
}

TEST state_persists_in_a_session_and_only_there(void)
{
    NEED_CONTAINER();
    REPLY set = run_in("cd /tmp; export A=5; b=6; f() { echo in f; }; shopt -s nullglob", "state");
    REPLY get = run_in("pwd; echo $A $b; f; echo /nothing*; shopt -q nullglob && echo on", "state");
    ASSERT_STR_EQ("/tmp\n5 6\nin f\n\non", member(&get, "stdout"));
    REPLY other = run_in("pwd; echo \"$A$b\"; f", "state2");
    ASSERT_STR_EQ("/workspace\n", member(&other, "stdout"));
    ASSERT_EQ(127, exit_code(&other));
    PASS();
}

TEST cwd_is_for_one_command(void)
{
    NEED_CONTAINER();
    prepare_with("mkdir -p \"/tmp/it's here\"");
    REPLY in = call("execute", parse("{\"command\":\"pwd; cd /\",\"cwd\":\"/tmp/it's here\","
                                     "\"sessionId\":\"cwd\"}"));
    ASSERT_STR_EQ("/tmp/it's here", member(&in, "stdout"));
    /* The session was made by that call, and started there. */
    REPLY after = run_in("pwd", "cwd");
    ASSERT_STR_EQ("/tmp/it's here", member(&after, "stdout"));
    REPLY bad = call("execute", parse("{\"command\":\"pwd\",\"cwd\":\"/nonexist\"}"));
    ASSERT_EQ(CODE_OK, bad.code);
    ASSERT_EQ(1, exit_code(&bad));
    ASSERT_STR_EQ("Failed to change directory to '/nonexist'", member(&bad, "stderr"));
    ASSERT_STR_EQ("", member(&bad, "stdout"));
    REPLY status = call("execute", parse("{\"command\":\"(exit 9)\",\"cwd\":\"/tmp\"}"));
    ASSERT_EQ(9, exit_code(&status));
    PASS();
}

TEST env_is_for_one_command_and_restored(void)
{
    NEED_CONTAINER();
    REPLY before = run_in("export A=old; B=shell; unset C; set -u", "env");
    REPLY with =
        call("execute", parse("{\"command\":\"sh -c 'echo $A $B $C $D'; A=changed\","
                              "\"sessionId\":\"env\",\"env\":{\"A\":\"it's\",\"B\":\"$x `y`\","
                              "\"C\":\"line\\nbreak\",\"D\":null}}"));
    ASSERT_STR_EQ("it's $x `y` line break", member(&with, "stdout"));
    ASSERT_STR_EQ("", member(&with, "stderr"));
    REPLY after = run_in("echo $A $B ${C-unset}; sh -c 'echo ${B-private}'; echo ${!__*}", "env");
    ASSERT_STR_EQ("old shell unset\nprivate\n__b __c __n __q __r __s __w",
                  member(&after, "stdout"));
    REPLY bad = call("execute", parse("{\"command\":\"true\",\"env\":{\"a-b\":\"x\"}}"));
    ASSERT_STR_EQ("COMMAND_EXECUTION_ERROR", code_name(&bad));
    PASS();
}

TEST a_command_means_the_same_at_any_length(void)
{
    NEED_CONTAINER();
    char command[128], word[96];
    for (int size = 25; size < 50; size++) {
        memset(word, 'x', sizeof word);
        word[size] = '\0';
        snprintf(command, sizeof command, "v='%s'; echo \"$v\"", word);
        REPLY quoted = run_in(command, "length");
        ASSERT_STR_EQm(command, word, member(&quoted, "stdout"));
        snprintf(command, sizeof command, "v=%s; echo $v! \\\\", word);
        REPLY plain = run_in(command, "length");
        snprintf(command, sizeof command, "%s! \\", word);
        ASSERT_STR_EQm(command, command, member(&plain, "stdout"));
        REPLY code =
            run_in(size % 2 ? "(exit 7)" : "(exit 7) # and a text after it that is long", "length");
        ASSERT_EQ(7, exit_code(&code));
    }
    PASS();
}

/* Between two commands the shell's standard output is the pipe on which it tells the status. */
TEST what_a_trap_prints_is_no_status(void)
{
    NEED_CONTAINER();
    REPLY set = run_in("trap 'echo 7; echo .x; echo 0 >&1' DEBUG", "trap");
    ASSERT_EQ(0, exit_code(&set));
    REPLY fails = run_in("(exit 9)", "trap");
    ASSERT_EQ(9, exit_code(&fails));
    REPLY well = run_in("trap - DEBUG; echo fine", "trap");
    ASSERT_EQ(0, exit_code(&well));
    ASSERT(strstr(member(&well, "stdout"), "fine"));
    PASS();
}

TEST arguments_of_a_wrong_type_are_named(void)
{
    NEED_CONTAINER();
    static const char *const cases[][2] = {
        {"{}", "command"},
        {"{\"command\":5}", "command"},
        {"{\"command\":\"x\",\"env\":[]}", "env"},
        {"{\"command\":\"x\",\"env\":{\"A\":1}}", "env"},
        {"{\"command\":\"x\",\"timeoutMs\":\"1\"}", "timeoutMs"},
        {"{\"command\":\"x\",\"cwd\":1}", "cwd"},
        {"{\"command\":\"x\",\"background\":1}", "background"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REPLY reply = call("execute", parse(cases[i][0]));
        ASSERT_STR_EQm(cases[i][0], "VALIDATION_FAILED", code_name(&reply));
        json_t *first = json_array_get(json_object_get(reply.body, "validationErrors"), 0);
        ASSERT_STR_EQ(cases[i][1], json_string_value(json_object_get(first, "field")));
    }
    REPLY nul = call("execute", json_pack("{s:s#}", "command", "echo a\0b", 8));
    ASSERT_STR_EQ("VALIDATION_FAILED", code_name(&nul));
    REPLY blank = run_in("true", "  ");
    ASSERT_STR_EQ("COMMAND_EXECUTION_ERROR", code_name(&blank));
    REPLY empty = run_in("true", "");
    ASSERT_EQ(CODE_OK, empty.code);
    ASSERT_FALSE(json_object_get(empty.body, "sessionId"));
    PASS();
}

TEST exit_ends_the_shell_and_the_next_call_has_a_fresh_one(void)
{
    NEED_CONTAINER();
    static const struct {
        const char *command;
        int code;
    } cases[] = {{"exit 3", 3},
                 {"set -e; false", 1},
                 {"kill -9 $$", 137},
                 {"echo ${no?x}", 1},
                 {"exec sh -c 'exit 7'", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REPLY set = run_in("gone=no; cd /tmp", "dying");
        REPLY end = run_in(cases[i].command, "dying");
        ASSERT_STR_EQm(cases[i].command, "SESSION_TERMINATED", code_name(&end));
        char context[80];
        snprintf(context, sizeof context, "{\"sessionId\":\"dying\",\"exitCode\":%d}",
                 cases[i].code);
        ASSERT_STR_EQ(context, text_of(&end));
        snprintf(context, sizeof context, "Session 'dying' shell exited (exit code: %d)",
                 cases[i].code);
        ASSERT_STR_EQ(context, end.message);
        REPLY fresh = run_in("echo ${gone-yes}; pwd", "dying");
        ASSERT_STR_EQ("yes\n/workspace", member(&fresh, "stdout"));
    }
    PASS();
}

TEST calls_queued_behind_an_exit_run_in_a_fresh_shell(void)
{
    NEED_CONTAINER();
    struct reply replies[4];
    ask(&replies[0], "execute", command_args("old=1; sleep 0.05; exit 9", "queue-exit"));
    for (int i = 1; i < 4; i++)
        ask(&replies[i], "execute", command_args("echo ${old-fresh}$((++n))", "queue-exit"));
    await_all();
    ASSERT_STR_EQ("SESSION_TERMINATED", code_name(&replies[0]));
    ASSERT_STR_EQ("fresh1", member(&replies[1], "stdout"));
    ASSERT_STR_EQ("fresh3", member(&replies[3], "stdout"));
    for (int i = 0; i < 4; i++)
        reply_free(&replies[i]);
    PASS();
}

/* The next command may reach the shell before its death does: SIGKILL ends a waiting read only
 * after it took what had come meanwhile. Such a command was never run, so it must not fail. */
TEST a_shell_killed_while_idle_is_replaced(void)
{
    NEED_CONTAINER();
    for (int i = 0; i < 200; i++) {
        REPLY set = run_in("mine=1; echo $$", "idle");
        char kill_it[64];
        snprintf(kill_it, sizeof kill_it, "kill -9 %s", member(&set, "stdout"));
        REPLY killed = run_in(kill_it, TOKEN);
        ASSERT_EQ(CODE_OK, killed.code);
        REPLY next = run_in("echo ${mine-fresh}", "idle");
        ASSERT_EQ(CODE_OK, next.code);
        ASSERT_STR_EQ("fresh", member(&next, "stdout"));
    }
    PASS();
}

TEST a_background_job_does_not_hold_its_command(void)
{
    NEED_CONTAINER();
    double start = now_ms();
    REPLY reply = run_in("(sleep 0.3; seq 20000; echo done > /tmp/bg-done) & echo started", "bg");
    ASSERT(now_ms() - start < 250);
    ASSERT_STR_EQ("started", member(&reply, "stdout"));
    REPLY meanwhile = run_in("echo now", "bg");
    ASSERT_STR_EQ("now", member(&meanwhile, "stdout"));
    /* It wrote more than a pipe holds after we stopped collecting, and was not stopped by that. */
    REPLY wait = run_in("wait; cat /tmp/bg-done", "bg");
    ASSERT_STR_EQ("done", member(&wait, "stdout"));
    PASS();
}

TEST large_output_is_whole(void)
{
    NEED_CONTAINER();
    REPLY lines = run_in("seq 300000", NULL);
    json_t *out = json_object_get(lines.body, "stdout");
    ASSERT_EQ(1988894, (int)json_string_length(out));
    ASSERT_STR_EQ("299999\n300000", json_string_value(out) + 1988894 - 13);
    REPLY line = run_in("head -c 20000000 /dev/zero | tr '\\0' x; echo e >&2", NULL);
    ASSERT_EQ(20000000, (int)json_string_length(json_object_get(line.body, "stdout")));
    ASSERT_STR_EQ("e", member(&line, "stderr"));
    PASS();
}

TEST output_beyond_64_mib_is_refused_and_the_session_goes_on(void)
{
    NEED_CONTAINER();
    REPLY much = run_in("head -c 80000000 /dev/zero; echo kept > /tmp/kept", NULL);
    ASSERT_STR_EQ("COMMAND_EXECUTION_ERROR", code_name(&much));
    ASSERT(strstr(much.message, "larger than 64 MiB"));
    REPLY next = run_in("cat /tmp/kept", NULL);
    ASSERT_STR_EQ("kept", member(&next, "stdout"));
    PASS();
}

TEST a_command_that_closes_its_output_still_ends(void)
{
    NEED_CONTAINER();
    REPLY closed = run_in("exec >/dev/null 2>&1; sleep 0.05; seq 100000", "closing");
    ASSERT_EQ(0, exit_code(&closed));
    ASSERT_STR_EQ("", member(&closed, "stdout"));
    REPLY next = run_in("sleep 0.02; seq 100000 | tail -1", "closing");
    ASSERT_STR_EQ("100000", member(&next, "stdout"));
    PASS();
}

/* Timeouts. */

TEST a_timeout_answers_and_leaves_the_command_running(void)
{
    NEED_CONTAINER();
    double start = now_ms();
    REPLY reply = call("execute", parse("{\"command\":\"sleep 0.6; echo marker > /tmp/marker\","
                                        "\"sessionId\":\"slow\",\"timeoutMs\":200}"));
    double took = now_ms() - start;
    ASSERT(took >= 199 && took < 500);
    ASSERT_STR_EQ("COMMAND_EXECUTION_ERROR", code_name(&reply));
    ASSERT_STR_EQ("Failed to execute command 'sleep 0.6; echo marker > /tmp/marker' in session "
                  "'slow': Command timeout after 200ms",
                  reply.message);
    ASSERT_STR_EQ("{\"command\":\"sleep 0.6; echo marker > /tmp/marker\","
                  "\"stderr\":\"Command timeout after 200ms\"}",
                  text_of(&reply));
    REPLY next = call("execute", parse("{\"command\":\"cat /tmp/marker\",\"sessionId\":\"slow\","
                                       "\"timeoutMs\":5000}"));
    ASSERT(now_ms() - start >= 590);
    ASSERT_STR_EQ("marker", member(&next, "stdout"));
    PASS();
}

TEST a_session_has_a_default_timeout(void)
{
    NEED_CONTAINER();
    REPLY made = call("sessionCreate", parse("{\"id\":\"timed\",\"commandTimeoutMs\":100}"));
    REPLY slow = run_in("sleep 0.3", "timed");
    ASSERT(strstr(slow.message, "Command timeout after 100ms"));
    REPLY longer =
        call("execute", parse("{\"command\":\"sleep 0.2; echo x\",\"sessionId\":\"timed\","
                              "\"timeoutMs\":3000}"));
    ASSERT_STR_EQ("x", member(&longer, "stdout"));
    PASS();
}

TEST time_spent_waiting_for_a_timed_out_command_counts(void)
{
    NEED_CONTAINER();
    REPLY first = call("execute", parse("{\"command\":\"sleep 1\",\"sessionId\":\"w\","
                                        "\"timeoutMs\":50}"));
    double start = now_ms();
    REPLY second = call("execute", parse("{\"command\":\"echo ran > /tmp/ran\",\"sessionId\":\"w\","
                                         "\"timeoutMs\":100}"));
    ASSERT(now_ms() - start < 600);
    ASSERT(strstr(second.message, "timeout after 100ms"));
    REPLY third = call("execute", parse("{\"command\":\"cat /tmp/ran\",\"sessionId\":\"w\","
                                        "\"timeoutMs\":5000}"));
    ASSERT_STR_EQ("ran", member(&third, "stdout"));
    PASS();
}

/* Order. */

TEST commands_of_a_session_run_in_the_order_they_came(void)
{
    NEED_CONTAINER();
    enum { COUNT = 100 };
    static struct reply replies[COUNT];
    for (int i = 0; i < COUNT; i++)
        ask(&replies[i], "execute", command_args("echo $((n++))", "order"));
    await_all();
    for (int i = 0; i < COUNT; i++) {
        ASSERT_EQ(i, atoi(member(&replies[i], "stdout")));
        reply_free(&replies[i]);
    }
    PASS();
}

TEST sessions_run_in_parallel(void)
{
    NEED_CONTAINER();
    static struct reply replies[4];
    static const char *const ids[] = {"p0", "p1", "p2", "p3"};
    for (int i = 0; i < 4; i++)
        ask(&replies[i], "execute", command_args("true", ids[i]));
    await_all();
    for (int i = 0; i < 4; i++)
        reply_free(&replies[i]);
    double start = now_ms();
    for (int i = 0; i < 4; i++)
        ask(&replies[i], "execute", command_args("sleep 0.3", ids[i]));
    await_all();
    ASSERT(now_ms() - start < 900);
    for (int i = 0; i < 4; i++)
        reply_free(&replies[i]);
    PASS();
}

TEST eight_sessions_of_200_commands_keep_apart(void)
{
    NEED_CONTAINER();
    enum { SESSIONS = 8, EACH = 200 };
    static struct reply replies[SESSIONS][EACH];
    char id[16], command[64];
    for (int i = 0; i < EACH; i++) {
        for (int s = 0; s < SESSIONS; s++) {
            snprintf(id, sizeof id, "many%d", s);
            snprintf(command, sizeof command, "echo %d.$((n++)).%d; echo %d >&2", s, i, i);
            ask(&replies[s][i], "execute", command_args(command, id));
        }
    }
    await_all();
    for (int i = 0; i < EACH; i++) {
        for (int s = 0; s < SESSIONS; s++) {
            snprintf(command, sizeof command, "%d.%d.%d", s, i, i);
            ASSERT_STR_EQ(command, member(&replies[s][i], "stdout"));
            reply_free(&replies[s][i]);
        }
    }
    PASS();
}

TEST a_queue_is_bounded(void)
{
    NEED_CONTAINER();
    enum { COUNT = 10010 };
    struct reply *replies = calloc(COUNT, sizeof *replies);
    ask(&replies[0], "execute", command_args("sleep 0.2", "full"));
    for (int i = 1; i < COUNT; i++)
        ask(&replies[i], "execute", command_args(":", "full"));
    int refused = 0;
    for (int i = 0; i < COUNT; i++)
        refused += replies[i].done;
    REPLY delete = call("sessionDelete", parse("{\"sessionId\":\"nobody\"}"));
    await_all();
    for (int i = 0; i < COUNT; i++)
        reply_free(&replies[i]);
    free(replies);
    ASSERT(refused >= 9 && refused <= 10);
    PASS();
}

/* Session routes. */

TEST sessions_are_made_listed_and_deleted(void)
{
    NEED_CONTAINER();
    REPLY made = call("sessionCreate", parse("{\"id\":\"A\",\"env\":{\"V\":\"w\",\"N\":null},"
                                             "\"cwd\":\"/tmp\"}"));
    ASSERT_STR_EQ("{\"success\":true,\"data\":{\"id\":\"A\"},\"containerPlacementId\":null,"
                  "\"timestamp\":\"T\"}",
                  text_of(&made));
    REPLY again = call("sessionCreate", parse("{\"id\":\"A\"}"));
    ASSERT_STR_EQ("SESSION_ALREADY_EXISTS", code_name(&again));
    ASSERT_STR_EQ("Session 'A' already exists", again.message);
    ASSERT_STR_EQ("{\"sessionId\":\"A\",\"containerPlacementId\":null}", text_of(&again));
    REPLY used = run_in("echo $V; pwd", "A");
    ASSERT_STR_EQ("w\n/tmp", member(&used, "stdout"));
    REPLY list = call("sessionList", NULL);
    ASSERT(strstr(text_of(&list), "\"A\""));
    REPLY deleted = call("sessionDelete", parse("{\"sessionId\":\"A\"}"));
    ASSERT_STR_EQ("{\"success\":true,\"sessionId\":\"A\",\"timestamp\":\"T\"}", text_of(&deleted));
    REPLY unknown = call("sessionDelete", parse("{\"sessionId\":\"A\"}"));
    ASSERT_STR_EQ("INTERNAL_ERROR", code_name(&unknown));
    ASSERT(json_object_get(unknown.body, "originalError"));
    REPLY missing = call("sessionDelete", parse("{}"));
    ASSERT_STR_EQ("VALIDATION_FAILED", code_name(&missing));
    REPLY named = call("sessionCreate", NULL);
    ASSERT(strstr(text_of(&named), "{\"id\":\"session_"));
    PASS();
}

TEST a_directory_that_is_missing_starts_the_session_at_home(void)
{
    NEED_CONTAINER();
    REPLY made = call("sessionCreate", parse("{\"id\":\"homeless\",\"cwd\":\"/no/such\"}"));
    REPLY where = run_in("[ \"$PWD\" = \"$HOME\" ] && echo home", "homeless");
    ASSERT_STR_EQ("home", member(&where, "stdout"));
    PASS();
}

TEST a_session_that_cannot_start_says_so(void)
{
    NEED_CONTAINER();
    char *large = calloc(1, 200001);
    memset(large, 'x', 200000);
    REPLY made =
        call("sessionCreate", json_pack("{s:s,s:{s:s}}", "id", "large", "env", "BIG", large));
    free(large);
    ASSERT_STR_EQ("INTERNAL_ERROR", code_name(&made));
    REPLY list = call("sessionList", NULL);
    ASSERT_FALSE(strstr(text_of(&list), "\"large\""));
    PASS();
}

TEST deleting_waits_for_the_running_command(void)
{
    NEED_CONTAINER();
    struct reply running, deleted, late;
    ask(&running, "execute", command_args("sleep 0.2; echo over", "del"));
    ask(&deleted, "sessionDelete", parse("{\"sessionId\":\"del\"}"));
    ask(&late, "execute", command_args("echo ${x-fresh}", "del"));
    await_all();
    ASSERT_STR_EQ("over", member(&running, "stdout"));
    ASSERT_EQ(CODE_OK, deleted.code);
    ASSERT_STR_EQ("fresh", member(&late, "stdout"));
    reply_free(&running);
    reply_free(&deleted);
    reply_free(&late);
    PASS();
}

/* Who was killed is gone when it had a CPU for that, which may be after the answer. */
static bool ends(const char *pattern)
{
    char command[128];
    snprintf(command, sizeof command,
             "for i in {1..500}; do pgrep -f '%s' || exit 9; sleep 0.01; done", pattern);
    REPLY reply = run_in(command, TOKEN);
    return exit_code(&reply) == 9;
}

TEST deleting_ends_a_command_that_timed_out_and_those_behind_it(void)
{
    NEED_CONTAINER();
    REPLY slow = call("execute", parse("{\"command\":\"sleep 4321\",\"sessionId\":\"stuck\","
                                       "\"timeoutMs\":50}"));
    struct reply behind, deleted;
    double start = now_ms();
    ask(&behind, "execute",
        parse("{\"command\":\"echo x\",\"sessionId\":\"stuck\","
              "\"timeoutMs\":60000}"));
    ask(&deleted, "sessionDelete", parse("{\"sessionId\":\"stuck\"}"));
    await_all();
    ASSERT(now_ms() - start < 3000);
    ASSERT_STR_EQ("SESSION_DESTROYED", code_name(&behind));
    ASSERT_EQ(CODE_OK, deleted.code);
    reply_free(&behind);
    reply_free(&deleted);
    ASSERT(ends("sleep 432[1]"));
    PASS();
}

TEST a_shell_that_ignores_sigterm_is_killed(void)
{
    NEED_CONTAINER();
    REPLY set = run_in("trap '' TERM; sleep 4322 &", "stubborn");
    double start = now_ms();
    REPLY deleted = call("sessionDelete", parse("{\"sessionId\":\"stubborn\"}"));
    ASSERT_EQ(CODE_OK, deleted.code);
    ASSERT(now_ms() - start > 900);
    ASSERT(ends("sleep 432[2]"));
    PASS();
}

/* Without a session. */

TEST sessionless_output_is_verbatim(void)
{
    NEED_CONTAINER();
    REPLY reply = run_in("echo x; printf y >&2; pwd; exit 5", TOKEN);
    ASSERT_STR_EQ(
        "{\"success\":false,\"exitCode\":5,\"stdout\":\"x\\n/workspace\\n\",\"stderr\":\"y\","
        "\"command\":\"echo x; printf y >&2; pwd; exit 5\",\"duration\":0,"
        "\"timestamp\":\"T\",\"sessionId\":\"" TOKEN "\"}",
        text_of(&reply));
    REPLY nul = run_in("printf 'a\\0b\\n'", TOKEN);
    ASSERT_EQ(4, (int)json_string_length(json_object_get(nul.body, "stdout")));
    REPLY with = call("execute", parse("{\"command\":\"echo $A$FROM_CLASS; pwd\",\"cwd\":\"/tmp\","
                                       "\"env\":{\"A\":\"b\"},\"sessionId\":\"" TOKEN "\"}"));
    ASSERT_STR_EQ("byes\n/tmp\n", member(&with, "stdout"));
    REPLY bad = call("execute", parse("{\"command\":\"pwd\",\"cwd\":\"/nonexist\","
                                      "\"sessionId\":\"" TOKEN "\"}"));
    ASSERT_STR_EQ("COMMAND_EXECUTION_ERROR", code_name(&bad));
    ASSERT(strstr(bad.message, "ENOENT"));
    PASS();
}

TEST a_sessionless_timeout_ends_the_group_with_124(void)
{
    NEED_CONTAINER();
    double start = now_ms();
    REPLY reply = call("execute", parse("{\"command\":\"echo x; sleep 4323\",\"timeoutMs\":200,"
                                        "\"sessionId\":\"" TOKEN "\"}"));
    ASSERT(now_ms() - start < 1500);
    ASSERT_EQ(124, exit_code(&reply));
    ASSERT_STR_EQ("x\n", member(&reply, "stdout"));
    ASSERT_STR_EQ("Command timed out after 200ms", member(&reply, "stderr"));
    ASSERT(ends("sleep 432[3]"));
    REPLY line = call("execute", parse("{\"command\":\"printf e >&2; sleep 9\",\"timeoutMs\":50,"
                                       "\"sessionId\":\"" TOKEN "\"}"));
    ASSERT_STR_EQ("e\nCommand timed out after 50ms", member(&line, "stderr"));
    PASS();
}

TEST a_child_that_holds_the_pipe_does_not_hold_the_answer(void)
{
    NEED_CONTAINER();
    double start = now_ms();
    REPLY reply = run_in("setsid sleep 3 & echo out", TOKEN);
    ASSERT(now_ms() - start < 1500);
    ASSERT_STR_EQ("out\n", member(&reply, "stdout"));
    PASS();
}

/* The end of the container. */

TEST calls_in_flight_are_told_when_the_container_goes(void)
{
    NEED_CONTAINER();
    struct reply running, queued, loose;
    ask(&running, "execute", command_args("sleep 100", "end"));
    ask(&queued, "execute", command_args("echo x", "end"));
    ask(&loose, "execute", command_args("sleep 100", TOKEN));
    container_kill(bench.container);
    while (bench.container)
        loop_run(bench.loop, NULL);
    ASSERT_EQ(0, bench.waiting_when_gone);
    struct reply *replies[] = {&running, &queued, &loose};
    for (int i = 0; i < 3; i++) {
        ASSERT_STR_EQ("OPERATION_INTERRUPTED", code_name(replies[i]));
        ASSERT_STR_EQ("{\"reason\":\"runtime_replaced\",\"operation\":\"execute\","
                      "\"retryable\":false}",
                      text_of(replies[i]));
        reply_free(replies[i]);
    }
    while (bench.container)
        loop_run(bench.loop, NULL);
    ASSERT(bench.gone_why);
    ASSERT(bench_start());
    PASS();
}

TEST stopping_tells_processes_first(void)
{
    NEED_CONTAINER();
    struct reply running, other;
    ask(&running, "execute", command_args("sleep 100", "stop"));
    ask(&other, "execute", command_args("until pgrep -x sleep; do :; done", "stop2"));
    await(&other);
    reply_free(&other);
    double start = now_ms();
    container_stop(bench.container, 5000);
    while (bench.container)
        loop_run(bench.loop, NULL);
    ASSERT(now_ms() - start < 3000);
    ASSERT_STR_EQ("OPERATION_INTERRUPTED", code_name(&running));
    reply_free(&running);
    ASSERT(bench_start());
    PASS();
}

TEST stopping_does_not_wait_longer_than_the_grace(void)
{
    NEED_CONTAINER();
    REPLY deaf = run_in("trap '' TERM; (while :; do sleep 1; done) &", "deaf");
    double start = now_ms();
    container_stop(bench.container, 300);
    while (bench.container)
        loop_run(bench.loop, NULL);
    ASSERT(now_ms() - start >= 290);
    ASSERT(now_ms() - start < 3000);
    ASSERT(bench_start());
    PASS();
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST descriptors_are_given_back(void)
{
    NEED_CONTAINER();
    REPLY warm = run_in("true", NULL);
    int before = open_descriptors();
    for (int i = 0; i < 20; i++) {
        REPLY made = run_in("sleep 0.01 & sleep 0.01 & echo x; wait", "leak");
        REPLY background = run_in("sleep 60 & echo y", "leak");
        REPLY loose = run_in("seq 100", TOKEN);
        REPLY end = i % 2 ? run_in("exit 1", "leak")
                          : call("sessionDelete", parse("{\"sessionId\":\"leak\"}"));
    }
    /* Those of jobs whose shell exited under them are drained until they end. */
    REPLY killed = run_in("pkill -x sleep", TOKEN);
    while (open_descriptors() > before) {
        REPLY tick = run_in("true", NULL);
    }
    ASSERT_EQ(before, open_descriptors());
    PASS();
}

TEST a_long_command_is_taken_whole(void)
{
    NEED_CONTAINER();
    enum { SIZE = 1 << 20 };
    struct buf command = BUF_INIT(2 * SIZE);
    buf_adds(&command, "cat <<'E' | wc -c\n");
    for (int i = 0; i < SIZE / 8; i++)
        buf_adds(&command, "0123456\n");
    buf_adds(&command, "E");
    double start = now_ms();
    REPLY reply = run_in(buf_text(&command), NULL);
    printf("# a command of 1 MiB took %.0f ms\n", now_ms() - start);
    buf_free(&command);
    ASSERT_STR_EQ("1048576", member(&reply, "stdout"));
    PASS();
}

TEST a_container_that_goes_answers_a_long_queue(void)
{
    NEED_CONTAINER();
    enum { COUNT = 9000 };
    struct reply *replies = calloc(COUNT, sizeof *replies);
    for (int i = 0; i < COUNT; i++)
        ask(&replies[i], "execute", command_args(i ? ":" : "sleep 100", "long"));
    double start = now_ms();
    container_kill(bench.container);
    while (bench.container)
        loop_run(bench.loop, NULL);
    int interrupted = 0;
    for (int i = 0; i < COUNT; i++) {
        interrupted += replies[i].code == CODE_OPERATION_INTERRUPTED;
        reply_free(&replies[i]);
    }
    free(replies);
    ASSERT_EQ(COUNT, interrupted);
    ASSERT(now_ms() - start < 2000);
    ASSERT(bench_start());
    PASS();
}

TEST a_warm_command_is_fast(void)
{
    NEED_CONTAINER();
    double best = 1e9;
    for (int i = 0; i < 500; i++) {
        double start = now_ms();
        REPLY reply = run_in("true", "fast");
        double took = now_ms() - start;
        best = took < best ? took : best;
    }
    printf("# a warm `true` takes %.3f ms at best\n", best);
    ASSERT(best < 2);
    PASS();
}

SUITE(container)
{
    RUN_TEST(small_operations_answer_as_observed);
    RUN_TEST(execute_answers_as_observed);
    RUN_TEST(output_has_the_shape_of_a_session);
    RUN_TEST(exit_codes_and_broken_syntax_leave_the_session_alive);
    RUN_TEST(state_persists_in_a_session_and_only_there);
    RUN_TEST(cwd_is_for_one_command);
    RUN_TEST(env_is_for_one_command_and_restored);
    RUN_TEST(a_command_means_the_same_at_any_length);
    RUN_TEST(what_a_trap_prints_is_no_status);
    RUN_TEST(arguments_of_a_wrong_type_are_named);
    RUN_TEST(exit_ends_the_shell_and_the_next_call_has_a_fresh_one);
    RUN_TEST(calls_queued_behind_an_exit_run_in_a_fresh_shell);
    RUN_TEST(a_shell_killed_while_idle_is_replaced);
    RUN_TEST(a_background_job_does_not_hold_its_command);
    RUN_TEST(large_output_is_whole);
    RUN_TEST(output_beyond_64_mib_is_refused_and_the_session_goes_on);
    RUN_TEST(a_command_that_closes_its_output_still_ends);
    RUN_TEST(a_timeout_answers_and_leaves_the_command_running);
    RUN_TEST(a_session_has_a_default_timeout);
    RUN_TEST(time_spent_waiting_for_a_timed_out_command_counts);
    RUN_TEST(commands_of_a_session_run_in_the_order_they_came);
    RUN_TEST(sessions_run_in_parallel);
    RUN_TEST(eight_sessions_of_200_commands_keep_apart);
    RUN_TEST(a_queue_is_bounded);
    RUN_TEST(sessions_are_made_listed_and_deleted);
    RUN_TEST(a_directory_that_is_missing_starts_the_session_at_home);
    RUN_TEST(a_session_that_cannot_start_says_so);
    RUN_TEST(deleting_waits_for_the_running_command);
    RUN_TEST(deleting_ends_a_command_that_timed_out_and_those_behind_it);
    RUN_TEST(a_shell_that_ignores_sigterm_is_killed);
    RUN_TEST(sessionless_output_is_verbatim);
    RUN_TEST(a_sessionless_timeout_ends_the_group_with_124);
    RUN_TEST(a_child_that_holds_the_pipe_does_not_hold_the_answer);
    RUN_TEST(calls_in_flight_are_told_when_the_container_goes);
    RUN_TEST(stopping_tells_processes_first);
    RUN_TEST(stopping_does_not_wait_longer_than_the_grace);
    RUN_TEST(descriptors_are_given_back);
    RUN_TEST(a_long_command_is_taken_whole);
    RUN_TEST(a_container_that_goes_answers_a_long_queue);
    RUN_TEST(a_warm_command_is_fast);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    bench_open();
    RUN_SUITE(container);
    bench_close();
    GREATEST_MAIN_END();
}
