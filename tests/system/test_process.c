/* Background processes over HTTP: start, read, follow. */
#include "process_box.h"

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

TEST the_sandbox_tells_how_many_run(void)
{
    CLEANUP_REPLY struct reply before = ask("DELETE", "/api/process/kill-all", NULL);
    CLEANUP_REPLY struct reply one = start("{\"command\":\"sleep 600\"}");
    CLEANUP_REPLY struct reply two =
        start("{\"command\":\"sleep 600\",\"sessionId\":\"__DISABLE_SESSION__\"}");
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/process");
    ASSERT_EQ(2, number_at(shown.json, "processes"));
    CLEANUP_REPLY struct reply after = ask("DELETE", "/api/process/kill-all", NULL);
    ASSERT_EQ(2, number_at(after.json, "cleanedCount"));
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
    CLEANUP_REPLY struct reply alone =
        post(&emulator, "/sandbox/sdk/startProcess",
             "[\"true\", {\"enableDefaultSession\": false, \"processId\": \"t\"}]");
    ASSERT_EQ(200, alone.status);
    ASSERT_FALSE(at(alone.json, "sessionId"));
    CLEANUP_REPLY struct reply over = post(&emulator, "/sandbox/sdk/waitForExit", "[\"t\"]");
    ASSERT_STR_EQ("{\"exitCode\":0}", over.body);
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
    RUN_TEST(the_sandbox_tells_how_many_run);
    RUN_TEST(directory_variables_and_session_are_its_own);
    RUN_TEST(a_missing_directory_and_exit_end_it);
    RUN_TEST(without_a_session_the_timeout_counts);
    RUN_TEST(a_start_that_fails_leaves_a_record);
    RUN_TEST(an_id_that_is_taken_again_names_the_new_one);
    RUN_TEST(ids_are_taken_from_the_path_as_they_stand);
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
