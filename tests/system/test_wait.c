/* Waiting for what processes print and for their end, over HTTP: waitForLog, waitForExit. */
#include "wait_box.h"

/* waitForLog. */

TEST output_that_is_there_is_found(void)
{
    ASSERT(start("log", "there", "echo one; echo it is ready; echo bad >&2; sleep 60") > 0);
    CLEANUP_REPLY struct reply out = method("log", "waitForLog", "[\"there\", \"ready\", 5000]");
    ASSERT_STR_EQ("{\"line\":\"it is ready\"}", out.body);
    CLEANUP_REPLY struct reply err = method("log", "waitForLog", "[\"there\", \"bad\", 5000]");
    ASSERT_STR_EQ("{\"line\":\"bad\"}", err.body);
    CLEANUP_REPLY struct reply expression =
        method("log", "waitForLog", "[\"there\", \"/is (\\\\w+)(!)?/\", 5000]");
    ASSERT_STR_EQ("{\"line\":\"it is ready\",\"match\":[\"is ready\",\"ready\",null]}",
                  expression.body);
    CLEANUP_REPLY struct reply object = method(
        "log", "waitForLog", "[\"there\", {\"source\": \"READY\", \"flags\": \"gi\"}, 5000]");
    ASSERT_STR_EQ("{\"line\":\"it is ready\",\"match\":[\"ready\"]}", object.body);
    CLEANUP_REPLY struct reply again = api("POST", "/api/process/there/waitForLog", "log",
                                           "{\"pattern\": \"/^one/\", \"timeout\": 5000}");
    ASSERT_EQ(200, again.status);
    ASSERT_STR_EQ("one", text_at(again.json, "match.0"));
    PASS();
}

TEST output_that_comes_later_is_waited_for(void)
{
    ASSERT(start("log", "later", "until [ -e /tmp/go ]; do sleep 0.01; done; echo gone; sleep 60") >
           0);
    struct later later = {
        .box = "log", .name = "waitForLog", .arguments = "[\"later\", \"gone\", 10000]"};
    begin_call(&later);
    ASSERT(eventually(is_busy, "log", 5000));
    ASSERT(run("log", "touch /tmp/go"));
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT_STR_EQ("{\"line\":\"gone\"}", reply.body);
    PASS();
}

TEST a_timeout_is_408_with_all_that_is_known(void)
{
    ASSERT(start("log", "quiet", "sleep 60") > 0);
    long long before = test_ms();
    CLEANUP_REPLY struct reply reply = method("log", "waitForLog", "[\"quiet\", \"/x/i\", 150]");
    long long passed = test_ms() - before;
    ASSERT_EQ(408, reply.status);
    ASSERT(passed >= 150 && passed < 2000);
    ASSERT_STR_EQ("PROCESS_READY_TIMEOUT", text_at(reply.json, "code"));
    ASSERT(strstr(text_at(reply.json, "error"), "did not become ready within 150ms"));
    CLEANUP_REPLY struct reply wanted = {.json = json_pack("{s:s,s:s,s:s,s:i}", "processId",
                                                           "quiet", "command", "sleep 60",
                                                           "condition", "/x/i", "timeout", 150)};
    ASSERT(json_equal(wanted.json, at(reply.json, "context")));
    CLEANUP_REPLY struct reply other =
        api("POST", "/api/process/quiet/waitForLog", "log", "{\"pattern\": \"x\", \"timeout\": 0}");
    ASSERT_EQ(408, other.status);
    ASSERT_STR_EQ("PROCESS_READY_TIMEOUT", text_at(other.json, "code"));
    PASS();
}

TEST a_timeout_runs_in_real_time_while_the_clock_stands(void)
{
    ASSERT(start("log", "frozen", "sleep 60") > 0);
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "");
    CLEANUP_REPLY struct reply log = method("log", "waitForLog", "[\"frozen\", \"x\", 100]");
    CLEANUP_REPLY struct reply port =
        method("log", "waitForPort", "[\"frozen\", 4000, {\"timeout\": 250, \"interval\": 100}]");
    CLEANUP_REPLY struct reply resumed = post(&emulator, "/cdn-cgi/local/clock/resume", "");
    ASSERT_EQ(408, log.status);
    ASSERT_EQ(408, port.status);
    PASS();
}

TEST what_expired_already_is_still_looked_for_in_what_is_there(void)
{
    ASSERT(start("log", "zero", "echo ready; sleep 60") > 0);
    CLEANUP_REPLY struct reply first = method("log", "waitForLog", "[\"zero\", \"ready\", 5000]");
    CLEANUP_REPLY struct reply zero = method("log", "waitForLog", "[\"zero\", \"ready\", 0]");
    ASSERT_STR_EQ("{\"line\":\"ready\"}", zero.body);
    PASS();
}

TEST an_end_before_the_match_is_500_with_the_exit_code(void)
{
    ASSERT(start("log", "ends", "echo no; exit 7") > 0);
    CLEANUP_REPLY struct reply reply = method("log", "waitForLog", "[\"ends\", \"yes\"]");
    ASSERT_EQ(500, reply.status);
    ASSERT_STR_EQ("PROCESS_EXITED_BEFORE_READY", text_at(reply.json, "code"));
    ASSERT_EQ(7, number_at(reply.json, "context.exitCode"));
    ASSERT_STR_EQ("\"yes\"", text_at(reply.json, "context.condition"));
    CLEANUP_REPLY struct reply other =
        api("POST", "/api/process/ends/waitForLog", "log", "{\"pattern\": \"yes\"}");
    ASSERT_EQ(500, other.status);
    ASSERT_STR_EQ("PROCESS_EXITED_BEFORE_READY", text_at(other.json, "code"));
    ASSERT(strstr(text_at(other.json, "error"), "exited"));
    /* What it printed at last counts. */
    CLEANUP_REPLY struct reply last = method("log", "waitForLog", "[\"ends\", \"no\"]");
    ASSERT_STR_EQ("{\"line\":\"no\"}", last.body);
    PASS();
}

TEST anchors_that_miss_lines_are_explained(void)
{
    ASSERT(start("log", "anchors", "echo one; echo ready; exit 0") > 0);
    CLEANUP_REPLY struct reply reply = method("log", "waitForLog", "[\"anchors\", \"/^ready$/\"]");
    ASSERT_EQ(500, reply.status);
    ASSERT(strstr(text_at(reply.json, "hint"), "flag m"));
    CLEANUP_REPLY struct reply flagged =
        method("log", "waitForLog", "[\"anchors\", \"/^ready$/m\"]");
    ASSERT_STR_EQ("{\"line\":\"ready\",\"match\":[\"ready\"]}", flagged.body);
    PASS();
}

TEST bad_patterns_are_refused_before_anything_waits(void)
{
    static const char *const patterns[] = {"\"/(/\"", "{\"source\": \"a\", \"flags\": \"q\"}",
                                           "{}"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "[\"quiet\", %s]", patterns[i]);
        CLEANUP_REPLY struct reply reply = method("log", "waitForLog", arguments);
        ASSERT_EQm(patterns[i], 400, reply.status);
        ASSERT_STR_EQ("VALIDATION_FAILED", text_at(reply.json, "code"));
    }
    PASS();
}

TEST a_catastrophic_pattern_is_400_and_others_are_answered_meanwhile(void)
{
    ASSERT(start("log", "many", "head -c 100000 /dev/zero | tr '\\0' a; echo; echo b; sleep 60") >
           0);
    CLEANUP_REPLY struct reply there = method("log", "waitForLog", "[\"many\", \"aaa\\nb\", 9000]");
    ASSERT_EQ(200, there.status);
    struct later later = {
        .box = "log", .name = "waitForLog", .arguments = "[\"many\", \"/a*a*a*a*a*c/\", 20000]"};
    begin_call(&later);
    long long worst = 0;
    for (int i = 0; i < 20; i++) {
        long long before = test_ms();
        CLEANUP_REPLY struct reply reply = get(&emulator, "/health");
        ASSERT_EQ(200, reply.status);
        worst = test_ms() - before > worst ? test_ms() - before : worst;
    }
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT_EQ(400, reply.status);
    ASSERT(strstr(text_at(reply.json, "error"), "too long to match"));
    ASSERT(worst < 500);
    PASS();
}

/* The end of such output is never there. */
TEST a_timeout_also_ends_the_waiting_for_a_flood(void)
{
    ASSERT(start("log", "flood", "exec yes") > 0);
    long long before = test_ms();
    CLEANUP_REPLY struct reply reply = method("log", "waitForLog", "[\"flood\", \"never\", 300]");
    ASSERT_EQ(408, reply.status);
    ASSERT(test_ms() - before < 10000);
    CLEANUP_REPLY struct reply killed = method("log", "killProcess", "[\"flood\"]");
    ASSERT_EQ(200, killed.status);
    PASS();
}

TEST an_unknown_process_is_404_for_every_waiter(void)
{
    static const struct {
        const char *name, *arguments, *body;
    } rows[] = {{"waitForLog", "[\"nope\", \"x\"]", "{\"pattern\": \"x\"}"},
                {"waitForPort", "[\"nope\", 8080]", "{\"port\": 8080}"},
                {"waitForExit", "[\"nope\"]", "{}"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64];
        snprintf(path, sizeof path, "/api/process/nope/%s", rows[i].name);
        CLEANUP_REPLY struct reply reply = api("POST", path, "log", rows[i].body);
        ASSERT_EQm(path, 404, reply.status);
        ASSERT_STR_EQ("Process not found", text_at(reply.json, "error"));
        CLEANUP_REPLY struct reply other = method("log", rows[i].name, rows[i].arguments);
        ASSERT_EQ(404, other.status);
        ASSERT_STR_EQ("PROCESS_NOT_FOUND", text_at(other.json, "code"));
    }
    PASS();
}

/* waitForExit. */

TEST an_exit_code_is_waited_for(void)
{
    ASSERT(start("log", "code", "until [ -e /tmp/end ]; do sleep 0.01; done; exit 9") > 0);
    CLEANUP_REPLY struct reply early = method("log", "waitForExit", "[\"code\", 100]");
    ASSERT_EQ(408, early.status);
    ASSERT_STR_EQ("process exit", text_at(early.json, "context.condition"));
    struct later later = {.box = "log", .name = "waitForExit", .arguments = "[\"code\"]"};
    begin_call(&later);
    ASSERT(eventually(is_busy, "log", 5000));
    ASSERT(run("log", "touch /tmp/end"));
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT_STR_EQ("{\"exitCode\":9}", reply.body);
    CLEANUP_REPLY struct reply after =
        api("POST", "/api/process/code/waitForExit", "log", "{\"timeout\": 5000}");
    ASSERT_STR_EQ("{\"exitCode\":9}", after.body);
    PASS();
}

/* Leaving. */

TEST a_waiter_whose_client_left_keeps_nothing_awake(void)
{
    ASSERT(start("leave", "p", "sleep 60") > 0);
    static const char *const requests[] = {
        "POST /sandbox/leave/waitForLog HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n"
        "[\"p\", \"nothing\"]",
        "POST /sandbox/leave/waitForPort HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n"
        "[\"p\", 4001]",
        "POST /sandbox/leave/waitForExit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
        "[\"p\"]"};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int fd = dial(&emulator);
        ASSERT(fd >= 0 && send_all(fd, requests[i], strlen(requests[i])) == 0);
        ASSERTm(requests[i], eventually(is_busy, "leave", 5000));
        close(fd);
        ASSERTm(requests[i], eventually(is_quiet, "leave", 5000));
    }
    PASS();
}

TEST a_container_that_goes_away_ends_the_waiting(void)
{
    static const struct {
        const char *name, *arguments;
    } rows[] = {{"waitForLog", "[\"p\", \"nothing\"]"},
                {"waitForPort", "[\"p\", 4003]"},
                {"waitForExit", "[\"p\"]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ASSERT(start("gone", "p", "sleep 60") > 0);
        struct later later = {.box = "gone", .name = rows[i].name, .arguments = rows[i].arguments};
        begin_call(&later);
        ASSERT(eventually(is_busy, "gone", 5000));
        CLEANUP_REPLY struct reply stopped = method("gone", "destroy", "[]");
        CLEANUP_REPLY struct reply reply = end_call(&later);
        ASSERT_EQm(rows[i].name, 409, reply.status);
        ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(reply.json, "code"));
    }
    PASS();
}

SUITE(waiting)
{
    RUN_TEST(output_that_is_there_is_found);
    RUN_TEST(output_that_comes_later_is_waited_for);
    RUN_TEST(a_timeout_is_408_with_all_that_is_known);
    RUN_TEST(a_timeout_runs_in_real_time_while_the_clock_stands);
    RUN_TEST(what_expired_already_is_still_looked_for_in_what_is_there);
    RUN_TEST(an_end_before_the_match_is_500_with_the_exit_code);
    RUN_TEST(anchors_that_miss_lines_are_explained);
    RUN_TEST(bad_patterns_are_refused_before_anything_waits);
    RUN_TEST(a_catastrophic_pattern_is_400_and_others_are_answered_meanwhile);
    RUN_TEST(a_timeout_also_ends_the_waiting_for_a_flood);
    RUN_TEST(an_unknown_process_is_404_for_every_waiter);
    RUN_TEST(an_exit_code_is_waited_for);
    RUN_TEST(a_waiter_whose_client_left_keeps_nothing_awake);
    RUN_TEST(a_container_that_goes_away_ends_the_waiting);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, waiting);
    GREATEST_MAIN_END();
}
