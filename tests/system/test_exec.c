/* Commands and sessions over HTTP, against the real program: the built-in Worker's two faces and
 * the container's own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

/* POST /sandbox/box/exec with a JSON array. */
static struct reply exec_in(const char *box, const char *arguments)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/exec", box);
    return post(&emulator, path, arguments);
}

/* The Host header of a sandbox's own API. */
static void container_host(const char *box, char *to, size_t size)
{
    char path[128];
    CLEANUP_REPLY struct reply first = exec_in(box, "[\"true\"]");
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    const char *url = text_at(shown.json, "containerUrl");
    snprintf(to, size, "Host: %s\r\n", strlen(url) > 7 ? url + 7 : "");
}

static struct reply container_post(const char *host, const char *path, const char *body)
{
    return request(&emulator, "POST", path, host, body);
}

TEST the_documents_first_curl_line_answers(void)
{
    CLEANUP_REPLY struct reply reply = post(&emulator, "/api/execute", "{\"command\": \"ls -la\"}");
    ASSERT_EQ(200, reply.status);
    ASSERT_EQ(0, number_at(reply.json, "exitCode"));
    ASSERT(strstr(text_at(reply.json, "stdout"), "total"));
    PASS();
}

TEST an_exec_gives_the_result_of_the_sdk(void)
{
    CLEANUP_REPLY struct reply reply = exec_in("golden", "[\"echo hi\"]");
    ASSERT_EQ(200, reply.status);
    ASSERT_STR_EQ("hi", text_at(reply.json, "stdout"));
    ASSERT_STR_EQ("", text_at(reply.json, "stderr"));
    ASSERT_STR_EQ("echo hi", text_at(reply.json, "command"));
    ASSERT(json_is_true(at(reply.json, "success")));
    ASSERT(number_at(reply.json, "duration") >= 0);
    ASSERT_EQ(24, strlen(text_at(reply.json, "timestamp")));
    PASS();
}

TEST python_prints_four(void)
{
    CLEANUP_REPLY struct reply reply = exec_in("golden", "[\"python3 -c 'print(2 + 2)'\"]");
    if (number_at(reply.json, "exitCode") == 127)
        SKIPm("python3 is not on this host");
    ASSERT_STR_EQ("4", text_at(reply.json, "stdout"));
    CLEANUP_REPLY struct reply plain = exec_in("golden", "[\"python -c 'print(2 + 2)'\"]");
    ASSERT_STR_EQ("4", text_at(plain.json, "stdout"));
    PASS();
}

TEST the_container_api_answers_byte_for_byte(void)
{
    char host[256];
    container_host("golden", host, sizeof host);
    CLEANUP_REPLY struct reply reply =
        container_post(host, "/api/execute", "{\"command\":\"echo hello\"}");
    ASSERT_EQ(200, reply.status);
    const char *stamp = text_at(reply.json, "timestamp");
    char expected[512];
    snprintf(expected, sizeof expected,
             "{\"success\":true,\"exitCode\":0,\"stdout\":\"hello\",\"stderr\":\"\",\"command\":"
             "\"echo hello\",\"duration\":0,\"timestamp\":\"%s\"}",
             stamp);
    ASSERT_STR_EQ(expected, reply.body);

    CLEANUP_REPLY struct reply ping = request(&emulator, "GET", "/api/ping", host, NULL);
    snprintf(expected, sizeof expected,
             "{\"success\":true,\"status\":\"healthy\",\"timestamp\":\"%s\"}",
             text_at(ping.json, "timestamp"));
    ASSERT_STR_EQ(expected, ping.body);
    CLEANUP_REPLY struct reply version = request(&emulator, "GET", "/api/version", host, NULL);
    ASSERT_STR_EQ("0.12.7", text_at(version.json, "version"));

    CLEANUP_REPLY struct reply nothing = request(&emulator, "GET", "/api/nope", host, NULL);
    ASSERT_EQ(404, nothing.status);
    snprintf(expected, sizeof expected,
             "{\"code\":\"UNKNOWN_ERROR\",\"message\":\"The requested endpoint was not found\","
             "\"context\":{},\"httpStatus\":404,\"timestamp\":\"%s\"}",
             text_at(nothing.json, "timestamp"));
    ASSERT_STR_EQ(expected, nothing.body);
    PASS();
}

TEST an_unknown_command_is_127_with_the_shells_words(void)
{
    CLEANUP_REPLY struct reply reply = exec_in("golden", "[\"nosuchcmd\"]");
    ASSERT_EQ(200, reply.status);
    ASSERT_EQ(127, number_at(reply.json, "exitCode"));
    ASSERT(strstr(text_at(reply.json, "stderr"), "nosuchcmd: command not found"));
    PASS();
}

TEST the_default_session_keeps_directory_variables_and_functions(void)
{
    CLEANUP_REPLY struct reply a = exec_in("state", "[\"cd /tmp; export A=1; f() { echo f$A; }\"]");
    ASSERT_EQ(0, number_at(a.json, "exitCode"));
    CLEANUP_REPLY struct reply b = exec_in("state", "[\"pwd; f\"]");
    ASSERT_STR_EQ("/tmp\nf1", text_at(b.json, "stdout"));
    PASS();
}

TEST without_a_session_each_command_is_its_own(void)
{
    CLEANUP_REPLY struct reply a =
        exec_in("state", "[\"cd /tmp; printf hidden\", {\"enableDefaultSession\": false}]");
    ASSERT_STR_EQ("hidden", text_at(a.json, "stdout"));
    CLEANUP_REPLY struct reply b = request(&emulator, "POST", "/api/execute",
                                           "X-Sandbox-Id: state\r\n"
                                           "X-Sandbox-Enable-Default-Session: false\r\n",
                                           "{\"command\":\"pwd\"}");
    ASSERT_STR_EQ("/workspace\n", text_at(b.json, "stdout"));
    ASSERT_EQ(NULL, at(b.json, "sessionId"));
    PASS();
}

TEST cwd_and_env_hold_for_one_command(void)
{
    CLEANUP_REPLY struct reply a = exec_in("once", "[\"pwd; echo \\\"$K\\\"\", {\"cwd\": \"/usr\", "
                                                   "\"env\": {\"K\": \"a'b\\\"$(id) \\\\n\"}}]");
    ASSERT_STR_EQ("/usr\na'b\"$(id) \\n", text_at(a.json, "stdout"));
    CLEANUP_REPLY struct reply b = exec_in("once", "[\"pwd; echo ${K-unset}\"]");
    ASSERT_STR_EQ("/workspace\nunset", text_at(b.json, "stdout"));
    CLEANUP_REPLY struct reply c = exec_in("once", "[\"pwd\", {\"cwd\": \"/nonexist\"}]");
    ASSERT_EQ(1, number_at(c.json, "exitCode"));
    ASSERT_STR_EQ("Failed to change directory to '/nonexist'", text_at(c.json, "stderr"));
    PASS();
}

TEST quotes_heredocs_and_stdin_are_harmless(void)
{
    CLEANUP_REPLY struct reply a =
        exec_in("quotes", "[\"cat <<'X'\\na 'b' \\\"c\\\" $d\\nX\\necho after\"]");
    ASSERT_STR_EQ("a 'b' \"c\" $d\nafter", text_at(a.json, "stdout"));
    CLEANUP_REPLY struct reply b = exec_in("quotes", "[\"cat; read x || echo none\"]");
    ASSERT_STR_EQ("none", text_at(b.json, "stdout"));
    CLEANUP_REPLY struct reply c = exec_in("quotes", "[\"echo 'unterminated\"]");
    ASSERT_EQ(200, c.status);
    ASSERT_EQ(2, number_at(c.json, "exitCode"));
    CLEANUP_REPLY struct reply d = exec_in("quotes", "[\"echo still here # comment\"]");
    ASSERT_STR_EQ("still here", text_at(d.json, "stdout"));
    PASS();
}

TEST exit_ends_the_shell_with_410_and_the_next_call_recovers(void)
{
    CLEANUP_REPLY struct reply a = exec_in("exits", "[\"cd /tmp; exit 3\"]");
    ASSERT_EQ(410, a.status);
    ASSERT_STR_EQ("SESSION_TERMINATED", text_at(a.json, "code"));
    ASSERT(strstr(text_at(a.json, "error"), "shell exited (exit code: 3)"));
    ASSERT_EQ(3, number_at(a.json, "context.exitCode"));
    CLEANUP_REPLY struct reply b = exec_in("exits", "[\"pwd; (exit 4)\"]");
    ASSERT_EQ(200, b.status);
    ASSERT_STR_EQ("/workspace", text_at(b.json, "stdout"));
    ASSERT_EQ(4, number_at(b.json, "exitCode"));
    CLEANUP_REPLY struct reply c = exec_in("exits", "[\"kill -9 $$\"]");
    ASSERT_EQ(137, number_at(c.json, "context.exitCode"));
    PASS();
}

TEST a_timeout_answers_in_time_and_leaves_the_command_running(void)
{
    /* Its time must not pass while the container starts. */
    CLEANUP_REPLY struct reply warm = exec_in("slow", "[\"true\"]");
    CLEANUP_REPLY struct reply a =
        exec_in("slow", "[\"sleep 0.5; touch /workspace/marker\", {\"timeout\": 100}]");
    ASSERT_EQ(500, a.status);
    ASSERT(strstr(text_at(a.json, "error"), "Command timeout after 100ms"));
    ASSERT_STR_EQ("COMMAND_EXECUTION_ERROR", text_at(a.json, "code"));
    CLEANUP_REPLY struct reply b = exec_in("slow", "[\"ls /workspace/marker\"]");
    ASSERT_STR_EQ("/workspace/marker", text_at(b.json, "stdout"));
    CLEANUP_REPLY struct reply c = exec_in(
        "slow", "[\"echo x; sleep 5\", {\"timeout\": 100, \"enableDefaultSession\": false}]");
    ASSERT_EQ(200, c.status);
    ASSERT_EQ(124, number_at(c.json, "exitCode"));
    ASSERT_STR_EQ("x\n", text_at(c.json, "stdout"));
    ASSERT(strstr(text_at(c.json, "stderr"), "Command timed out after 100ms"));
    PASS();
}

TEST sessions_are_created_listed_apart_and_deleted(void)
{
    CLEANUP_REPLY struct reply a =
        post(&emulator, "/sandbox/multi/createSession",
             "[{\"id\": \"s1\", \"env\": {\"WHO\": \"one\"}, \"cwd\": \"/tmp\"}]");
    ASSERT_EQ(200, a.status);
    ASSERT_STR_EQ("s1", text_at(a.json, "id"));
    CLEANUP_REPLY struct reply again =
        post(&emulator, "/sandbox/multi/createSession", "[{\"id\": \"s1\"}]");
    ASSERT_EQ(409, again.status);
    ASSERT_STR_EQ("SESSION_ALREADY_EXISTS", text_at(again.json, "code"));
    ASSERT(strstr(text_at(again.json, "error"), "already exists"));
    CLEANUP_REPLY struct reply b = exec_in("multi", "[\"echo $WHO; pwd\", {\"session\": \"s1\"}]");
    ASSERT_STR_EQ("one\n/tmp", text_at(b.json, "stdout"));
    CLEANUP_REPLY struct reply c = exec_in("multi", "[\"echo ${WHO-nobody}; pwd\"]");
    ASSERT_STR_EQ("nobody\n/workspace", text_at(c.json, "stdout"));
    char host[256];
    container_host("multi", host, sizeof host);
    CLEANUP_REPLY struct reply list = request(&emulator, "GET", "/api/session/list", host, NULL);
    ASSERT_EQ(2, json_array_size(at(list.json, "data")));
    CLEANUP_REPLY struct reply gone = post(&emulator, "/sandbox/multi/deleteSession", "[\"s1\"]");
    ASSERT_EQ(200, gone.status);
    CLEANUP_REPLY struct reply unknown =
        post(&emulator, "/sandbox/multi/deleteSession", "[\"s1\"]");
    ASSERT_EQ(500, unknown.status);
    CLEANUP_REPLY struct reply main =
        post(&emulator, "/sandbox/multi/deleteSession", "[\"sandbox-multi\"]");
    ASSERT_EQ(500, main.status);
    ASSERT(strstr(text_at(main.json, "error"), "destroy()"));
    PASS();
}

TEST variables_set_for_the_sandbox_reach_sessions_and_the_container(void)
{
    CLEANUP_REPLY struct reply a =
        post(&emulator, "/sandbox/vars/setEnvVars", "[{\"EARLY\": \"1\", \"GONE\": \"x\"}]");
    ASSERT_EQ(200, a.status);
    CLEANUP_REPLY struct reply b = exec_in("vars", "[\"echo $EARLY $GONE\"]");
    ASSERT_STR_EQ("1 x", text_at(b.json, "stdout"));
    CLEANUP_REPLY struct reply c =
        post(&emulator, "/sandbox/vars/setEnvVars", "[{\"LATE\": \"it's\", \"GONE\": null}]");
    ASSERT_EQ(200, c.status);
    CLEANUP_REPLY struct reply d = exec_in("vars", "[\"echo $LATE ${GONE-gone}\"]");
    ASSERT_STR_EQ("it's gone", text_at(d.json, "stdout"));
    CLEANUP_REPLY struct reply e =
        exec_in("vars", "[\"echo $LATE\", {\"enableDefaultSession\": false}]");
    ASSERT_STR_EQ("it's\n", text_at(e.json, "stdout"));
    CLEANUP_REPLY struct reply bad =
        post(&emulator, "/sandbox/vars/setEnvVars", "[{\"1BAD\": \"x\"}]");
    ASSERT_EQ(400, bad.status);
    PASS();
}

TEST a_background_job_does_not_hold_the_command(void)
{
    CLEANUP_REPLY struct reply a = exec_in("jobs", "[\"sleep 30 & echo started\"]");
    ASSERT_STR_EQ("started", text_at(a.json, "stdout"));
    ASSERT(number_at(a.json, "duration") < 5000);
    CLEANUP_REPLY struct reply b =
        exec_in("jobs", "[\"sleep 30 & echo started\", {\"enableDefaultSession\": false}]");
    ASSERT_STR_EQ("started\n", text_at(b.json, "stdout"));
    PASS();
}

TEST three_hundred_thousand_lines_and_one_long_line_arrive_whole(void)
{
    CLEANUP_REPLY struct reply a = exec_in("big", "[\"seq 300000\"]");
    ASSERT_EQ(1988894, json_string_length(at(a.json, "stdout")));
    CLEANUP_REPLY struct reply b =
        exec_in("big", "[\"head -c 20000000 /dev/zero | tr '\\\\0' x\"]");
    ASSERT_EQ(20000000, json_string_length(at(b.json, "stdout")));
    PASS();
}

TEST bytes_that_are_not_text_are_replaced_and_nul_is_dropped(void)
{
    CLEANUP_REPLY struct reply reply =
        exec_in("bytes", "[\"printf 'a\\\\0b\\\\377c\\\\r\\\\n\\\\n'\"]");
    ASSERT_STR_EQ("ab\xef\xbf\xbd"
                  "c\r\n",
                  text_at(reply.json, "stdout"));
    PASS();
}

TEST a_process_sees_only_its_three_descriptors_and_a_clean_environment(void)
{
    CLEANUP_REPLY struct reply a = exec_in("clean", "[\"ls /proc/self/fd | tr '\\\\n' ' '\"]");
    ASSERT_STR_EQ("0 1 2 3 ", text_at(a.json, "stdout")); /* 3 is ls's own directory */
    CLEANUP_REPLY struct reply b =
        exec_in("clean", "[\"env | cut -d= -f1 | sort | tr '\\\\n' ' '\"]");
    ASSERT_STR_EQ("HOME LANG LC_ALL PATH PIP_BREAK_SYSTEM_PACKAGES PWD SANDBOX_VERSION SHLVL _ ",
                  text_at(b.json, "stdout"));
    CLEANUP_REPLY struct reply c =
        exec_in("clean", "[\"echo $HOME $SANDBOX_VERSION; id -u; pwd\"]");
    ASSERT_STR_EQ("/root 0.12.7\n0\n/workspace", text_at(c.json, "stdout"));
    PASS();
}

TEST the_host_is_not_to_be_seen(void)
{
    CLEANUP_REPLY struct reply a =
        exec_in("clean", "[\"ls -A / | tr '\\\\n' ' '; cat /etc/shadow\"]");
    ASSERT_EQ(NULL, strstr(text_at(a.json, "stdout"), "work "));
    ASSERT(strstr(text_at(a.json, "stdout"), "workspace"));
    ASSERT(strstr(text_at(a.json, "stderr"), "No such file"));
    CLEANUP_REPLY struct reply b = exec_in(
        "clean", "[\"ps ax | wc -l; cat /proc/1/environ | wc -c; cat /proc/net/dev | grep -c :\"]");
    ASSERT_STR_EQ("1", strrchr(text_at(b.json, "stdout"), '\n') + 1);
    CLEANUP_REPLY struct reply c =
        exec_in("clean", "[\"touch /usr/bin/sandpit-canary; ls /usr/bin/sandpit-canary\"]");
    ASSERT_EQ(0, number_at(c.json, "exitCode"));
    const char *const argv[] = {"test", "-e", "/usr/bin/sandpit-canary", NULL};
    ASSERT_EQ(1, run_command(&emulator, argv, NULL, NULL));
    PASS();
}

TEST port_3000_is_taken_inside(void)
{
    CLEANUP_REPLY struct reply reply =
        exec_in("clean",
                "[\"exec 3<>/dev/tcp/127.0.0.1/3000 && echo open; read -t 5 x <&3 || echo closed\","
                " {\"enableDefaultSession\": false}]");
    ASSERT_STR_EQ("open\nclosed\n", text_at(reply.json, "stdout"));
    PASS();
}

/* Concurrency. */
struct caller {
    pthread_t thread;
    const char *box;
    const char *arguments;
    int status;
    long long pid;
};

static void *call_once(void *arg)
{
    struct caller *caller = arg;
    CLEANUP_REPLY struct reply reply = exec_in(caller->box, caller->arguments);
    caller->status = reply.status;
    caller->pid = strtoll(text_at(reply.json, "stdout"), NULL, 10);
    return NULL;
}

TEST a_hundred_first_requests_get_one_container_and_one_shell(void)
{
    struct caller callers[100];
    for (int i = 0; i < 100; i++) {
        callers[i] = (struct caller){.box = "stampede", .arguments = "[\"n=$((n+1)); echo $n\"]"};
        pthread_create(&callers[i].thread, NULL, call_once, &callers[i]);
    }
    bool seen[101] = {false};
    for (int i = 0; i < 100; i++)
        pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(200, callers[i].status);
        ASSERT(callers[i].pid >= 1 && callers[i].pid <= 100);
        ASSERT_FALSEm("two commands saw one count: not one shell, or not in turn",
                      seen[callers[i].pid]);
        seen[callers[i].pid] = true;
    }
    PASS();
}

TEST sessions_run_side_by_side(void)
{
    struct caller callers[3];
    static const char *const arguments[3] = {
        "[\"while [ ! -e /tmp/go ]; do sleep 0.01; done; echo 1\", {\"session\": \"a\"}]",
        "[\"while [ ! -e /tmp/go ]; do sleep 0.01; done; echo 1\", {\"session\": \"b\"}]",
        "[\"touch /tmp/go; echo 1\", {\"session\": \"c\"}]"};
    for (int i = 0; i < 3; i++) {
        callers[i] = (struct caller){.box = "side", .arguments = arguments[i]};
        pthread_create(&callers[i].thread, NULL, call_once, &callers[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(callers[i].thread, NULL);
        ASSERT_EQ(1, callers[i].pid);
    }
    PASS();
}

SUITE(exec_suite)
{
    RUN_TEST(the_documents_first_curl_line_answers);
    RUN_TEST(an_exec_gives_the_result_of_the_sdk);
    RUN_TEST(python_prints_four);
    RUN_TEST(the_container_api_answers_byte_for_byte);
    RUN_TEST(an_unknown_command_is_127_with_the_shells_words);
    RUN_TEST(the_default_session_keeps_directory_variables_and_functions);
    RUN_TEST(without_a_session_each_command_is_its_own);
    RUN_TEST(cwd_and_env_hold_for_one_command);
    RUN_TEST(quotes_heredocs_and_stdin_are_harmless);
    RUN_TEST(exit_ends_the_shell_with_410_and_the_next_call_recovers);
    RUN_TEST(a_timeout_answers_in_time_and_leaves_the_command_running);
    RUN_TEST(sessions_are_created_listed_apart_and_deleted);
    RUN_TEST(variables_set_for_the_sandbox_reach_sessions_and_the_container);
    RUN_TEST(a_background_job_does_not_hold_the_command);
    RUN_TEST(three_hundred_thousand_lines_and_one_long_line_arrive_whole);
    RUN_TEST(bytes_that_are_not_text_are_replaced_and_nul_is_dropped);
    RUN_TEST(a_process_sees_only_its_three_descriptors_and_a_clean_environment);
    RUN_TEST(the_host_is_not_to_be_seen);
    RUN_TEST(port_3000_is_taken_inside);
    RUN_TEST(a_hundred_first_requests_get_one_container_and_one_shell);
    RUN_TEST(sessions_run_side_by_side);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, exec_suite);
    GREATEST_MAIN_END();
}
