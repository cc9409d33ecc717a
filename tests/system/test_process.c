/* Background processes over HTTP: start, read, follow, kill. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "greatest.h"
#include "sse_client.h"
#include "support.h"

enum { PATIENCE_MS = 20000 };

static struct emulator emulator;
static char host[256];

static struct reply ask(const char *method, const char *path, const char *body)
{
    return request(&emulator, method, path, host, body);
}

static struct reply start(const char *body)
{
    return ask("POST", "/api/process/start", body);
}

static struct reply execute(const char *command)
{
    json_t *args = json_pack("{s:s,s:s}", "command", command, "sessionId", "look");
    char *body = json_dumps(args, 0);
    struct reply reply = ask("POST", "/api/execute", body);
    free(body);
    json_decref(args);
    return reply;
}

/* How many processes of the container have this in their command line. */
static long long running(const char *pattern)
{
    char command[256];
    snprintf(command, sizeof command, "pgrep -f -- '%s' | wc -l", pattern);
    CLEANUP_REPLY struct reply reply = execute(command);
    return strtoll(text_at(reply.json, "stdout"), NULL, 10);
}

struct count {
    const char *pattern;
    long long count;
};

static bool runs(void *arg)
{
    const struct count *wanted = arg;
    return running(wanted->pattern) == wanted->count;
}

static bool becomes(const char *pattern, long long count)
{
    struct count wanted = {pattern, count};
    return eventually(runs, &wanted, PATIENCE_MS);
}

static bool is_over(void *id)
{
    char path[128];
    snprintf(path, sizeof path, "/api/process/%s", (const char *)id);
    CLEANUP_REPLY struct reply reply = ask("GET", path, NULL);
    const char *status = text_at(reply.json, "process.status");
    return *status && strcmp(status, "running") != 0;
}

#define WAIT_FOR_END(ID) ASSERT(eventually(is_over, (char *)(ID), PATIENCE_MS))

#define FREED __attribute__((cleanup(free_text))) char *
static void free_text(char **text)
{
    free(*text);
}

static char *events_of(const char *path)
{
    CLEANUP_SSE struct sse sse;
    sse_open(&sse, &emulator, "GET", path, host, NULL);
    return sse_all(&sse, PATIENCE_MS);
}

/* The samples of the original. */

TEST a_start_answers_byte_for_byte(void)
{
    char expected[512];
    CLEANUP_REPLY struct reply reply = start(
        "{\"command\":\"echo one; echo two >&2; sleep 0.5; printf three\",\"sessionId\":\"B\","
        "\"processId\":\"myp\"}");
    ASSERT_EQ(200, reply.status);
    ASSERT(number_at(reply.json, "pid") > 1);
    snprintf(
        expected, sizeof expected,
        "{\"success\":true,\"processId\":\"myp\",\"pid\":%lld,\"command\":\"echo one; echo two "
        ">&2; sleep 0.5; printf three\",\"timestamp\":\"%s\"}",
        number_at(reply.json, "pid"), text_at(reply.json, "timestamp"));
    ASSERT_STR_EQ(expected, reply.body);
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/myp", NULL);
    snprintf(
        expected, sizeof expected,
        "{\"success\":true,\"process\":{\"id\":\"myp\",\"pid\":%lld,\"command\":\"echo one; echo "
        "two >&2; sleep 0.5; printf three\",\"status\":\"running\",\"startTime\":\"%s\"},"
        "\"timestamp\":\"%s\"}",
        number_at(reply.json, "pid"), text_at(shown.json, "process.startTime"),
        text_at(shown.json, "timestamp"));
    ASSERT_STR_EQ(expected, shown.body);
    PASS();
}

TEST logs_and_their_stream_answer_byte_for_byte(void)
{
    char expected[512];
    WAIT_FOR_END("myp");
    CLEANUP_REPLY struct reply logs = ask("GET", "/api/process/myp/logs", NULL);
    snprintf(expected, sizeof expected,
             "{\"success\":true,\"processId\":\"myp\",\"stdout\":\"one\\nthree\\n\",\"stderr\":"
             "\"two\\n\",\"timestamp\":\"%s\"}",
             text_at(logs.json, "timestamp"));
    ASSERT_STR_EQ(expected, logs.body);
    FREED events = events_of("/api/process/myp/stream");
    ASSERT_STR_EQ(
        "{\"type\":\"process_info\",\"processId\":\"myp\",\"command\":\"echo one; echo two >&2; "
        "sleep 0.5; printf three\",\"status\":\"completed\",\"timestamp\":\"T\"}\n"
        "{\"type\":\"stdout\",\"data\":\"one\\nthree\\n\",\"processId\":\"myp\",\"timestamp\":"
        "\"T\"}\n"
        "{\"type\":\"stderr\",\"data\":\"two\\n\",\"processId\":\"myp\",\"timestamp\":\"T\"}\n"
        "{\"type\":\"exit\",\"processId\":\"myp\",\"exitCode\":0,\"data\":\"Process completed with "
        "exit "
        "code 0\",\"timestamp\":\"T\"}\n",
        events);
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/myp", NULL);
    ASSERT_STR_EQ("completed", text_at(shown.json, "process.status"));
    ASSERT_EQ(0, number_at(shown.json, "process.exitCode"));
    ASSERT_EQ(24, strlen(text_at(shown.json, "process.endTime")));
    PASS();
}

TEST refusals_answer_as_the_original(void)
{
    CLEANUP_REPLY struct reply unknown = ask("DELETE", "/api/process/nope", NULL);
    ASSERT_EQ(404, unknown.status);
    ASSERT_EQ(0, strncmp(unknown.body,
                         "{\"code\":\"PROCESS_NOT_FOUND\",\"message\":\"Process nope not found\","
                         "\"context\":{\"processId\":\"nope\"},\"httpStatus\":404,\"timestamp\":",
                         strlen("{\"code\":\"PROCESS_NOT_FOUND\",\"message\":\"Process nope not "
                                "found\",\"context\":{\"processId\":\"nope\"},\"httpStatus\":404,"
                                "\"timestamp\":")));
    CLEANUP_REPLY struct reply over = ask("DELETE", "/api/process/myp", NULL);
    ASSERT_EQ(404, over.status);
    ASSERT_STR_EQ("COMMAND_NOT_FOUND", text_at(over.json, "code"));
    ASSERT_STR_EQ("Command 'myp' not found or already completed in session 'B'",
                  text_at(over.json, "message"));
    ASSERT_STR_EQ("myp", text_at(over.json, "context.command"));
    CLEANUP_REPLY struct reply blank = start("{\"command\":\"  \"}");
    ASSERT_EQ(400, blank.status);
    ASSERT_STR_EQ("INVALID_COMMAND", text_at(blank.json, "code"));
    ASSERT_STR_EQ("Invalid command: empty command provided", text_at(blank.json, "message"));
    ASSERT_EQ(0, json_object_size(at(blank.json, "context")));
    static const char *const paths[] = {"/api/process/nope", "/api/process/nope/logs",
                                        "/api/process/nope/stream"};
    for (size_t i = 0; i < 3; i++) {
        CLEANUP_REPLY struct reply reply = ask("GET", paths[i], NULL);
        ASSERT_EQ(404, reply.status);
        ASSERT_STR_EQ("PROCESS_NOT_FOUND", text_at(reply.json, "code"));
    }
    PASS();
}

TEST execute_with_background_is_a_start(void)
{
    CLEANUP_REPLY struct reply reply =
        ask("POST", "/api/execute", "{\"command\":\"echo bgtest\",\"background\":true}");
    ASSERT_EQ(200, reply.status);
    const char *id = text_at(reply.json, "processId");
    long long ms = 0;
    char tail[8] = "";
    ASSERT_EQ(2, sscanf(id, "proc_%lld_%7[0-9a-z]", &ms, tail));
    ASSERT_EQ(6, strlen(tail));
    static const char *const keys[] = {"success", "processId", "pid", "command", "timestamp"};
    const char *key;
    json_t *value;
    int i = 0;
    json_object_foreach(reply.json, key, value) ASSERT_STR_EQ(keys[i++], key);
    ASSERT_EQ(5, i);
    WAIT_FOR_END(keep(id));
    PASS();
}

/* Reading. */

TEST the_list_has_those_that_run_first_and_filters_by_status(void)
{
    CLEANUP_REPLY struct reply fails = start("{\"command\":\"exit 3\",\"processId\":\"fails\"}");
    WAIT_FOR_END("fails");
    CLEANUP_REPLY struct reply stays = start("{\"command\":\"sleep 611\",\"processId\":\"stays\"}");
    CLEANUP_REPLY struct reply all = ask("GET", "/api/process/list", NULL);
    ASSERT_STR_EQ("stays", text_at(all.json, "processes.0.id"));
    CLEANUP_REPLY struct reply failed = ask("GET", "/api/process/list?status=failed", NULL);
    ASSERT_EQ(1, json_array_size(at(failed.json, "processes")));
    ASSERT_STR_EQ("fails", text_at(failed.json, "processes.0.id"));
    ASSERT_EQ(3, number_at(failed.json, "processes.0.exitCode"));
    ASSERT_FALSE(at(failed.json, "processes.0.endTime"));
    CLEANUP_REPLY struct reply killed = ask("DELETE", "/api/process/stays", NULL);
    ASSERT_EQ(200, killed.status);
    PASS();
}

TEST a_follower_gets_what_was_and_then_what_comes(void)
{
    CLEANUP_REPLY struct reply reply = start(
        "{\"command\":\"echo a; echo b; until test -e /tmp/next; do sleep 0.01; done; echo c; "
        "echo d\",\"processId\":\"follow\"}");
    CLEANUP_REPLY struct reply none = execute("sleep 0.1");
    CLEANUP_SSE struct sse first, second;
    sse_open(&first, &emulator, "GET", "/api/process/follow/stream", host, NULL);
    sse_open(&second, &emulator, "GET", "/api/process/follow/stream", host, NULL);
    ASSERT_STR_EQ("running", text_at(sse_json(&first, PATIENCE_MS), "status"));
    ASSERT_STR_EQ("a\nb\n", text_at(sse_json(&first, PATIENCE_MS), "data"));
    CLEANUP_REPLY struct reply go = execute("touch /tmp/next");
    ASSERT_STR_EQ("c\n", text_at(sse_json(&first, PATIENCE_MS), "data"));
    ASSERT_STR_EQ("d\n", text_at(sse_json(&first, PATIENCE_MS), "data"));
    ASSERT_STR_EQ("exit", text_at(sse_json(&first, PATIENCE_MS), "type"));
    ASSERT_FALSE(sse_next(&first, PATIENCE_MS));
    FREED rest = sse_all(&second, PATIENCE_MS);
    ASSERT(strstr(rest, "\"data\":\"c\\n\"") && strstr(rest, "\"type\":\"exit\""));
    PASS();
}

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

/* Starting. */

TEST directory_variables_and_session_are_its_own(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"echo $PWD $A [$B]; cd /; A=c\",\"cwd\":\"/usr\",\"env\":{\"A\":\"x "
              "'y'\",\"B\":null},\"sessionId\":\"own\",\"processId\":\"env\"}");
    WAIT_FOR_END("env");
    CLEANUP_REPLY struct reply logs = ask("GET", "/api/process/env/logs", NULL);
    ASSERT_STR_EQ("/usr x 'y' []\n", text_at(logs.json, "stdout"));
    CLEANUP_REPLY struct reply bad = start("{\"command\":\"true\",\"env\":{\"A-B\":\"1\"}}");
    ASSERT_EQ(500, bad.status);
    ASSERT_STR_EQ("COMMAND_EXECUTION_ERROR", text_at(bad.json, "code"));
    PASS();
}

TEST a_missing_directory_and_exit_end_it(void)
{
    CLEANUP_REPLY struct reply nowhere =
        start("{\"command\":\"true\",\"cwd\":\"/nonexist\",\"processId\":\"nowhere\"}");
    ASSERT_EQ(200, nowhere.status);
    WAIT_FOR_END("nowhere");
    CLEANUP_REPLY struct reply logs = ask("GET", "/api/process/nowhere/logs", NULL);
    ASSERT_STR_EQ("Failed to change directory to '/nonexist'\n", text_at(logs.json, "stderr"));
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/nowhere", NULL);
    ASSERT_STR_EQ("failed", text_at(shown.json, "process.status"));
    ASSERT_EQ(1, number_at(shown.json, "process.exitCode"));
    PASS();
}

TEST without_a_session_the_timeout_counts(void)
{
    CLEANUP_REPLY struct reply reply = start(
        "{\"command\":\"printf x; sleep 612 & sleep 612\",\"processId\":\"late\",\"timeoutMs\":"
        "200,\"sessionId\":\"__DISABLE_SESSION__\"}");
    ASSERT_EQ(200, reply.status);
    WAIT_FOR_END("late");
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/late", NULL);
    ASSERT_STR_EQ("failed", text_at(shown.json, "process.status"));
    ASSERT_EQ(124, number_at(shown.json, "process.exitCode"));
    CLEANUP_REPLY struct reply logs = ask("GET", "/api/process/late/logs", NULL);
    ASSERT_STR_EQ("x", text_at(logs.json, "stdout"));
    const char *told = strstr(text_at(logs.json, "stderr"), "Command timed out after 200ms");
    ASSERT(told);
    ASSERT_STR_EQ("Command timed out after 200ms", told);
    ASSERT_EQ(0, running("sleep 61[2]"));
    PASS();
}

TEST a_start_that_fails_leaves_a_record(void)
{
    CLEANUP_REPLY struct reply reply =
        start("{\"command\":\"true\",\"cwd\":\"/nonexist\",\"processId\":\"never\","
              "\"sessionId\":\"__DISABLE_SESSION__\"}");
    ASSERT_EQ(500, reply.status);
    ASSERT_STR_EQ("STREAM_START_ERROR", text_at(reply.json, "code"));
    CLEANUP_REPLY struct reply shown = ask("GET", "/api/process/never", NULL);
    ASSERT_STR_EQ("error", text_at(shown.json, "process.status"));
    CLEANUP_REPLY struct reply logs = ask("GET", "/api/process/never/logs", NULL);
    ASSERT(strstr(text_at(logs.json, "stderr"), "ENOENT"));
    PASS();
}

TEST an_id_that_is_taken_again_names_the_new_one(void)
{
    CLEANUP_REPLY struct reply old = start("{\"command\":\"sleep 613\",\"processId\":\"twice\"}");
    CLEANUP_REPLY struct reply now = start("{\"command\":\"echo new\",\"processId\":\"twice\"}");
    ASSERT_EQ(200, now.status);
    WAIT_FOR_END("twice");
    CLEANUP_REPLY struct reply logs = ask("GET", "/api/process/twice/logs", NULL);
    ASSERT_STR_EQ("new\n", text_at(logs.json, "stdout"));
    ASSERT_EQ(1, running("sleep 61[3]")); /* the old one still runs, and goes with all others */
    CLEANUP_REPLY struct reply all = ask("DELETE", "/api/process/kill-all", NULL);
    ASSERT_EQ(1, number_at(all.json, "cleanedCount"));
    ASSERT_EQ(0, running("sleep 61[3]"));
    PASS();
}

TEST ids_are_taken_from_the_path_as_they_stand(void)
{
    CLEANUP_REPLY struct reply reply = start("{\"command\":\"true\",\"processId\":\"a%20b\"}");
    CLEANUP_REPLY struct reply raw_id = ask("GET", "/api/process/a%20b", NULL);
    ASSERT_EQ(200, raw_id.status);
    CLEANUP_REPLY struct reply plain = start("{\"command\":\"true\",\"processId\":\"c d\"}");
    CLEANUP_REPLY struct reply escaped = ask("GET", "/api/process/c%20d", NULL);
    ASSERT_EQ(404, escaped.status);
    PASS();
}

/* Killing. */

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
    ASSERT_EQ(1, running("sleep 61[7]"));
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

/* The Worker. */

/* Whether the first line is in the logs, by method or by route. */
static bool has_printed(void *path)
{
    CLEANUP_REPLY struct reply reply =
        strncmp(path, "/sandbox", 8) == 0 ? post(&emulator, path, "[\"p\"]") : get(&emulator, path);
    return strcmp(text_at(reply.json, "stdout"), "hi\n") == 0;
}

TEST the_methods_of_the_sdk(void)
{
    CLEANUP_REPLY struct reply started =
        post(&emulator, "/sandbox/sdk/startProcess",
             "[\"echo hi; exec sleep 623\", {\"processId\": \"p\"}]");
    ASSERT_EQ(200, started.status);
    static const char *const keys[] = {"id", "pid", "command", "status", "startTime", "sessionId"};
    const char *key;
    json_t *value;
    int i = 0;
    json_object_foreach(started.json, key, value) ASSERT_STR_EQ(keys[i++], key);
    ASSERT_EQ(6, i);
    ASSERT_STR_EQ("running", text_at(started.json, "status"));
    ASSERT_STR_EQ("sandbox-sdk", text_at(started.json, "sessionId"));
    CLEANUP_REPLY struct reply older = post(&emulator, "/sandbox/sdk/spawn", "[\"sleep 623\"]");
    ASSERT_STR_EQ("running", text_at(older.json, "status"));
    CLEANUP_REPLY struct reply list = post(&emulator, "/sandbox/sdk/listProcesses", "[]");
    ASSERT_EQ(2, json_array_size(list.json));
    CLEANUP_REPLY struct reply alone = post(&emulator, "/sandbox/sdk/startProcess",
                                            "[\"true\", {\"enableDefaultSession\": false}]");
    ASSERT_EQ(200, alone.status);
    ASSERT_FALSE(at(alone.json, "sessionId"));
    CLEANUP_REPLY struct reply one = post(&emulator, "/sandbox/sdk/getProcess", "[\"p\"]");
    ASSERT_STR_EQ("p", text_at(one.json, "id"));
    CLEANUP_REPLY struct reply none = post(&emulator, "/sandbox/sdk/getProcess", "[\"q\"]");
    ASSERT_EQ(200, none.status);
    ASSERT_STR_EQ("null", none.body);
    ASSERT(eventually(has_printed, "/sandbox/sdk/getProcessLogs", PATIENCE_MS));
    CLEANUP_REPLY struct reply killed = post(&emulator, "/sandbox/sdk/killProcess", "[\"p\"]");
    ASSERT_EQ(200, killed.status);
    CLEANUP_REPLY struct reply logs = post(&emulator, "/sandbox/sdk/getProcessLogs", "[\"p\"]");
    ASSERT_STR_EQ("{\"stdout\":\"hi\\n\",\"stderr\":\"\",\"processId\":\"p\"}", logs.body);
    CLEANUP_SSE struct sse sse;
    sse_open(&sse, &emulator, "POST", "/sandbox/sdk/streamProcessLogs", NULL, "[\"p\"]");
    FREED events = sse_all(&sse, PATIENCE_MS);
    ASSERT(strstr(events, "\"data\":\"Process killed with exit code 143\""));
    CLEANUP_REPLY struct reply all = post(&emulator, "/sandbox/sdk/killAllProcesses", "[]");
    ASSERT_STR_EQ("1", all.body);
    CLEANUP_REPLY struct reply zero =
        post(&emulator, "/sandbox/sdk/cleanupCompletedProcesses", "[]");
    ASSERT_STR_EQ("0", zero.body);
    PASS();
}

TEST the_routes_of_the_worker(void)
{
    CLEANUP_REPLY struct reply started =
        post(&emulator, "/api/process/start",
             "{\"command\": \"echo hi; exec sleep 624\", \"processId\": \"w\"}");
    ASSERT_STR_EQ("w", text_at(started.json, "id"));
    CLEANUP_REPLY struct reply list = get(&emulator, "/api/process/list");
    ASSERT_STR_EQ("w", text_at(list.json, "0.id"));
    CLEANUP_REPLY struct reply one = get(&emulator, "/api/process/w");
    ASSERT_STR_EQ("running", text_at(one.json, "status"));
    CLEANUP_REPLY struct reply none = get(&emulator, "/api/process/nope");
    ASSERT_STR_EQ("null", none.body);
    ASSERT(eventually(has_printed, "/api/process/w/logs", PATIENCE_MS));
    CLEANUP_REPLY struct reply killed = request(&emulator, "DELETE", "/api/process/w", NULL, NULL);
    ASSERT_STR_EQ("{\"success\":true}", killed.body);
    CLEANUP_REPLY struct reply unknown =
        request(&emulator, "DELETE", "/api/process/nope", NULL, NULL);
    ASSERT_EQ(404, unknown.status);
    ASSERT_STR_EQ("PROCESS_NOT_FOUND", text_at(unknown.json, "code"));
    ASSERT(strstr(text_at(unknown.json, "error"), "not found"));
    CLEANUP_REPLY struct reply logs = get(&emulator, "/api/process/w/logs");
    ASSERT_STR_EQ("{\"stdout\":\"hi\\n\",\"stderr\":\"\",\"processId\":\"w\"}", logs.body);
    CLEANUP_REPLY struct reply stream = get(&emulator, "/api/process/w/stream");
    ASSERT_EQ(200, stream.status);
    ASSERT(strstr(stream.body, "\"type\":\"exit\""));
    CLEANUP_REPLY struct reply all = post(&emulator, "/api/process/kill-all", "");
    ASSERT_STR_EQ("{\"success\":true}", all.body);
    PASS();
}

SUITE(process)
{
    snprintf(host, sizeof host, "%s", container_host(&emulator, "process"));
    RUN_TEST(a_start_answers_byte_for_byte);
    RUN_TEST(logs_and_their_stream_answer_byte_for_byte);
    RUN_TEST(refusals_answer_as_the_original);
    RUN_TEST(execute_with_background_is_a_start);
    RUN_TEST(the_list_has_those_that_run_first_and_filters_by_status);
    RUN_TEST(a_follower_gets_what_was_and_then_what_comes);
    RUN_TEST(logs_keep_the_end_and_say_what_was_dropped);
    RUN_TEST(a_follower_that_does_not_read_stops_nobody);
    RUN_TEST(directory_variables_and_session_are_its_own);
    RUN_TEST(a_missing_directory_and_exit_end_it);
    RUN_TEST(without_a_session_the_timeout_counts);
    RUN_TEST(a_start_that_fails_leaves_a_record);
    RUN_TEST(an_id_that_is_taken_again_names_the_new_one);
    RUN_TEST(ids_are_taken_from_the_path_as_they_stand);
    RUN_TEST(a_kill_takes_the_whole_tree_and_answers_after_its_end);
    RUN_TEST(who_ignores_sigterm_is_killed_after_five_seconds);
    RUN_TEST(the_session_and_its_neighbours_survive_a_kill);
    RUN_TEST(kill_all_counts_what_ran);
    RUN_TEST(a_process_whose_pid_is_killed_from_inside_ends_with_all_it_started);
    RUN_TEST(a_deleted_session_takes_its_processes_along);
    RUN_TEST(a_process_outlives_a_shell_that_exits);
    RUN_TEST(a_start_that_waits_for_its_session_can_be_killed);
    RUN_TEST(only_the_newest_thousand_records_are_kept);
    RUN_TEST(the_methods_of_the_sdk);
    RUN_TEST(the_routes_of_the_worker);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, process);
    GREATEST_MAIN_END();
}
