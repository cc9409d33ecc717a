/* How background processes end, and what of them is kept. */
#include "process_box.h"

TEST a_kill_takes_the_whole_tree_and_answers_after_its_end(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"sh -c 'sh -c \\\"sleep 614; :\\\"; :' & setsid sleep 614 & "
              "(setsid sleep 614 &); sleep 614\",\"processId\":\"tree\"}");
    ASSERT(becomes("^sleep 61[4]", 4));
    CLEANUP_SSE struct sse stream;
    sse_open(&stream, &emulator, "GET", "/api/process/tree/stream", host, NULL);
    long long before = test_ms();
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/tree", NULL);
    ASSERT_EQ(200, killed.status);
    ASSERT_STR_EQ("tree", text_at(killed.json, "processId"));
    ASSERT(test_ms() - before < 4000);
    ASSERT_EQ(0, running("sleep 61[4]"));
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/tree", NULL);
    ASSERT_STR_EQ("killed", text_at(shown.json, "process.status"));
    ASSERT_EQ(143, number_at(shown.json, "process.exitCode"));
    FREED events = sse_all(&stream, PATIENCE_MS);
    ASSERT(strstr(events, "\"data\":\"Process killed with exit code 143\""));
    PASS();
}

TEST who_ignores_sigterm_is_killed_after_five_seconds(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"trap '' TERM; (setsid sleep 615 &) ; sleep 615 & wait; sleep 615\","
              "\"processId\":\"stubborn\"}");
    ASSERT(becomes("^sleep 61[5]", 2));
    long long before = test_ms();
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/stubborn", NULL);
    ASSERT_EQ(200, killed.status);
    ASSERT(test_ms() - before >= 4900 && test_ms() - before < 9000);
    ASSERT_EQ(0, running("sleep 61[5]"));
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/stubborn", NULL);
    ASSERT_STR_EQ("killed", text_at(shown.json, "process.status"));
    ASSERT_EQ(137, number_at(shown.json, "process.exitCode"));
    PASS();
}

TEST the_session_and_its_neighbours_survive_a_kill(void)
{
    CLEANUP_REPLY struct reply set =
        ask("POST", "/api/execute", "{\"command\":\"V=kept\",\"sessionId\":\"shared\"}");
    CLEANUP_REPLY struct reply one =
        start("{\"command\":\"sleep 616\",\"processId\":\"one\",\"sessionId\":\"shared\"}");
    CLEANUP_REPLY struct reply two =
        start("{\"command\":\"sleep 617\",\"processId\":\"two\",\"sessionId\":\"shared\"}");
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/one", NULL);
    ASSERT_EQ(200, killed.status);
    ASSERT(becomes("^sleep 61[7]", 1));
    CLEANUP_REPLY struct reply kept =
        ask("POST", "/api/execute", "{\"command\":\"echo $V\",\"sessionId\":\"shared\"}");
    ASSERT_STR_EQ("kept", text_at(kept.json, "stdout"));
    CLEANUP_REPLY struct reply other = ask("DELETE", "/api/process/two", NULL);
    PASS();
}

TEST kill_all_counts_what_ran(void)
{
    CLEANUP_REPLY struct reply first = ask("DELETE", "/api/process/kill-all", NULL);
    ASSERT_EQ(0, number_at(first.json, "cleanedCount"));
    for (int i = 0; i < 10; i++) {
        CLEANUP_REPLY struct reply reply =
            start(i % 2 ? "{\"command\":\"sleep 618\"}"
                        : "{\"command\":\"sleep 618\",\"sessionId\":\"__DISABLE_SESSION__\"}");
        ASSERT_EQ(200, reply.status);
    }
    CLEANUP_REPLY struct reply all = ask("DELETE", "/api/process/kill-all", NULL);
    char expected[128];
    snprintf(expected, sizeof expected,
             "{\"success\":true,\"cleanedCount\":10,\"timestamp\":\"%s\"}",
             text_at(all.json, "timestamp"));
    ASSERT_STR_EQ(expected, all.body);
    ASSERT_EQ(0, running("sleep 61[8]"));
    PASS();
}

TEST a_process_whose_pid_is_killed_from_inside_ends_with_all_it_started(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"sleep 619 & sleep 619\",\"processId\":\"inside\"}");
    ASSERT(becomes("^sleep 61[9]", 2));
    char command[64];
    snprintf(command, sizeof command, "kill -9 %lld", number_at(reply.json, "pid"));
    CLEANUP_REPLY struct reply killed = execute(command);
    WAIT_FOR_END("inside");
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/inside", NULL);
    ASSERT_STR_EQ("killed", text_at(shown.json, "process.status"));
    ASSERT_EQ(0, running("sleep 61[9]"));
    PASS();
}

TEST a_deleted_session_takes_its_processes_along(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"trap '' TERM; sleep 620 & wait; sleep 620\",\"processId\":\"orphan\","
              "\"sessionId\":\"doomed\"}");
    ASSERT(becomes("^sleep 62[0]", 1));
    CLEANUP_REPLY struct reply deleted =
        ask("POST", "/api/session/delete", "{\"sessionId\":\"doomed\"}");
    ASSERT_EQ(200, deleted.status);
    ASSERT_EQ(0, running("sleep 62[0]"));
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/orphan", NULL);
    ASSERT_STR_EQ("error", text_at(shown.json, "process.status"));
    ASSERT_FALSE(at(shown.json, "process.exitCode"));
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/orphan", NULL);
    ASSERT_EQ(500, killed.status);
    ASSERT_STR_EQ("INTERNAL_ERROR", text_at(killed.json, "code"));
    PASS();
}

TEST a_process_outlives_a_shell_that_exits(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"sleep 621; :\",\"processId\":\"outlives\",\"sessionId\":\"brief\"}");
    CLEANUP_REPLY struct reply quit =
        ask("POST", "/api/execute", "{\"command\":\"exit 3\",\"sessionId\":\"brief\"}");
    ASSERT_EQ(410, quit.status);
    ASSERT_EQ(1, running("^sleep 62[1]"));
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/outlives", NULL);
    ASSERT_EQ(200, killed.status);
    ASSERT_EQ(0, running("sleep 62[1]"));
    PASS();
}

TEST a_start_that_waits_for_its_session_can_be_killed(void)
{
    int busy = dial(&emulator), waiting = dial(&emulator);
    char text[512];
    static const char hold[] = "{\"command\":\"sleep 1\",\"sessionId\":\"queue\"}";
    static const char queued[] =
        "{\"command\":\"touch /tmp/ran\",\"sessionId\":\"queue\",\"processId\":\"queued\"}";
    snprintf(text, sizeof text, "POST /api/execute HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n%s",
             host, strlen(hold), hold);
    send_all(busy, text, strlen(text));
    CLEANUP_REPLY struct reply none = execute("sleep 0.1");
    snprintf(text, sizeof text,
             "POST /api/process/start HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n%s", host,
             strlen(queued), queued);
    send_all(waiting, text, strlen(text));
    CLEANUP_REPLY struct reply again = execute("sleep 0.1");
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/queued", NULL);
    ASSERT_EQ(200, killed.status);
    CLEANUP_REPLY struct reply refused = read_reply(waiting);
    ASSERT_EQ(500, refused.status);
    CLEANUP_REPLY struct reply held = read_reply(busy);
    ASSERT_EQ(200, held.status);
    CLEANUP_REPLY struct reply look = execute("test -e /tmp/ran");
    ASSERT_EQ(1, number_at(look.json, "exitCode"));
    close(busy);
    close(waiting);
    PASS();
}

/* What is kept. */

TEST logs_keep_the_end_and_say_what_was_dropped(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"yes 0123456789012345678901234567890123456789 | head -n 1000000; echo "
              "last\",\"processId\":\"chatty\"}");
    WAIT_FOR_END("chatty");
    CLEANUP_REPLY struct reply logs = ask("GET", "/api/process/chatty/logs", NULL);
    const char *out = text_at(logs.json, "stdout");
    long long dropped = 0;
    int used = 0;
    ASSERT_EQ(1, sscanf(out, "[sandpit: %lld bytes of older output dropped]\n%n", &dropped, &used));
    ASSERT(strlen(out) > 8 << 20 && strlen(out) <= (16 << 20) + 100);
    ASSERT_EQ(41000005, dropped + (long long)strlen(out + used));
    ASSERT_EQ(0, strncmp(out + used, "01234567890", 11));
    ASSERT_STR_EQ("last\n", out + strlen(out) - 5);
    FREED events = events_of("/api/process/chatty/stream");
    ASSERT(strstr(events, "\"data\":\"[sandpit: "));
    ASSERT(strstr(events, "last\\n\",\"processId\":\"chatty\""));
    PASS();
}

TEST a_follower_that_does_not_read_stops_nobody(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"until test -e /tmp/pour; do sleep 0.01; done; seq 1 3500000\","
              "\"processId\":\"pours\"}");
    CLEANUP_SSE struct sse stalled;
    sse_open(&stalled, &emulator, "GET", "/api/process/pours/stream", host, NULL);
    sse_next(&stalled, PATIENCE_MS);
    long before = emulator_memory(&emulator, "VmRSS");
    CLEANUP_REPLY struct reply go = execute("touch /tmp/pour");
    ASSERT(eventually(is_over, "pours", 3 * PATIENCE_MS));
    ASSERT(emulator_memory(&emulator, "VmRSS") - before < 64 * 1024 * MEMORY_FACTOR);
    const char *event;
    bool told = false, ended = false;
    while ((event = sse_next(&stalled, PATIENCE_MS))) {
        told |= strstr(event, "bytes of older output dropped]") != NULL;
        ended |= strstr(event, "\"type\":\"exit\"") != NULL;
    }
    ASSERT(told);
    ASSERT(ended);
    PASS();
}

/* Of a line that has not ended nothing can be dropped, as long as there is room. */
TEST lines_that_do_not_end_share_the_room_of_all_logs(void)
{
    enum { COUNT = 14 };
    long before = emulator_memory(&emulator, "VmRSS");
    for (int i = 0; i < COUNT; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"command\":\"head -c 20000000 /dev/zero | tr '\\\\0' x; exec sleep "
                 "7%02d\",\"processId\":\"long-%d\"}",
                 i, i);
        CLEANUP_REPLY struct reply reply = start(body);
        ASSERT_EQ(200, reply.status);
    }
    ASSERT(becomes("^sleep 7[0-9][0-9]$", COUNT));
    ASSERT(emulator_memory(&emulator, "VmRSS") - before < 160 * 1024 * MEMORY_FACTOR);
    CLEANUP_REPLY struct reply logs = ask("GET", "/api/process/long-13/logs", NULL);
    ASSERT_EQ(200, logs.status);
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/kill-all", NULL);
    ASSERT(number_at(killed.json, "cleanedCount") >= COUNT);
    PASS();
}

TEST only_the_newest_thousand_records_are_kept(void)
{
    CLEANUP_REPLY struct reply first =
        start("{\"command\":\"sleep 622\",\"processId\":\"oldest\",\"sessionId\":\"many\"}");
    for (int i = 0; i < 1010; i++) {
        CLEANUP_REPLY struct reply reply =
            start("{\"command\":\"true\",\"sessionId\":\"__DISABLE_SESSION__\"}");
        ASSERT_EQ(200, reply.status);
    }
    CLEANUP_REPLY struct reply list = ask("GET", "/api/process/list", NULL);
    ASSERT(json_array_size(at(list.json, "processes")) <= 1000);
    ASSERT_STR_EQ("oldest", text_at(list.json, "processes.0.id")); /* it runs, so it stays */
    CLEANUP_REPLY struct reply events = get(&emulator, "/cdn-cgi/local/events");
    ASSERT(strstr(events.body, "\"process.forgotten\""));
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/oldest", NULL);
    ASSERT_EQ(200, killed.status);
    PASS();
}

SUITE(process_kill)
{
    snprintf(host, sizeof host, "%s", container_host(&emulator, "process"));
    RUN_TEST(a_kill_takes_the_whole_tree_and_answers_after_its_end);
    RUN_TEST(who_ignores_sigterm_is_killed_after_five_seconds);
    RUN_TEST(the_session_and_its_neighbours_survive_a_kill);
    RUN_TEST(kill_all_counts_what_ran);
    RUN_TEST(a_process_whose_pid_is_killed_from_inside_ends_with_all_it_started);
    RUN_TEST(a_deleted_session_takes_its_processes_along);
    RUN_TEST(a_process_outlives_a_shell_that_exits);
    RUN_TEST(a_start_that_waits_for_its_session_can_be_killed);
    RUN_TEST(logs_keep_the_end_and_say_what_was_dropped);
    RUN_TEST(a_follower_that_does_not_read_stops_nobody);
    RUN_TEST(lines_that_do_not_end_share_the_room_of_all_logs);
    RUN_TEST(only_the_newest_thousand_records_are_kept);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, process_kill);
    GREATEST_MAIN_END();
}
