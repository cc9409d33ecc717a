/* exec by way of a stream, and the names of processes in older documents. */
#include "wait_box.h"

TEST a_streamed_exec_keeps_its_newline_and_not_the_shells_state(void)
{
    CLEANUP_REPLY struct reply reply =
        method("exec", "exec", "[\"echo hi; echo no >&2; cd /tmp; (exit 3)\", {\"stream\": true}]");
    ASSERT_EQ(200, reply.status);
    ASSERT_STR_EQ("hi\n", text_at(reply.json, "stdout"));
    ASSERT_STR_EQ("no\n", text_at(reply.json, "stderr"));
    ASSERT_EQ(3, number_at(reply.json, "exitCode"));
    ASSERT(json_is_false(at(reply.json, "success")));
    ASSERT_STR_EQ("sandbox-exec", text_at(reply.json, "sessionId"));
    CLEANUP_REPLY struct reply where = method("exec", "exec", "[\"pwd\"]");
    ASSERT_STR_EQ("/workspace", text_at(where.json, "stdout"));
    CLEANUP_REPLY struct reply alone = method(
        "exec", "exec", "[\"printf x\", {\"stream\": true, \"enableDefaultSession\": false}]");
    ASSERT_STR_EQ("x", text_at(alone.json, "stdout"));
    ASSERT_EQ(NULL, at(alone.json, "sessionId"));
    CLEANUP_REPLY struct reply set = method("exec", "setEnvVars", "[{\"FROM\": \"object\"}]");
    CLEANUP_REPLY struct reply env = method(
        "exec", "exec", "[\"echo $FROM\", {\"stream\": true, \"enableDefaultSession\": false}]");
    ASSERT_STR_EQ("object\n", text_at(env.json, "stdout"));
    CLEANUP_REPLY struct reply blank = method("exec", "exec", "[\" \", {\"stream\": true}]");
    ASSERT_EQ(400, blank.status);
    ASSERT_STR_EQ("INVALID_COMMAND", text_at(blank.json, "code"));
    PASS();
}

/* The last event of a stream, parsed. */
static json_t *last_event(const char *body)
{
    const char *at = body, *last = NULL;
    while ((at = strstr(at, "data: "))) {
        at += 6;
        last = at;
    }
    return last ? json_loads(last, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}

TEST on_output_gives_the_events_and_then_the_result(void)
{
    CLEANUP_REPLY struct reply option =
        method("exec", "exec", "[\"echo a; echo b\", {\"onOutput\": true}]");
    CLEANUP_REPLY struct reply header =
        request(&emulator, "POST", "/sandbox/exec/exec", "Accept: text/event-stream\r\n",
                "[\"echo a; echo b\"]");
    const struct reply *replies[] = {&option, &header};
    for (int i = 0; i < 2; i++) {
        char type[64];
        ASSERT_EQ(200, replies[i]->status);
        ASSERT_STR_EQ("text/event-stream",
                      header_of(replies[i], "Content-Type", type, sizeof type));
        ASSERT_EQ(0, strncmp(replies[i]->body, "data: {\"type\":\"start\"", 21));
        ASSERT(strstr(replies[i]->body, "{\"type\":\"stdout\",\"data\":\"a\\n\""));
        CLEANUP_REPLY struct reply last = {.json = last_event(replies[i]->body)};
        ASSERT_STR_EQ("result", text_at(last.json, "type"));
        ASSERT_STR_EQ("a\nb\n", text_at(last.json, "result.stdout"));
        ASSERT_EQ(0, number_at(last.json, "result.exitCode"));
    }
    PASS();
}

TEST much_output_comes_whole_through_a_streamed_exec(void)
{
    CLEANUP_REPLY struct reply reply =
        method("exec", "exec",
               "[\"seq 200000; head -c 5000000 /dev/zero | tr '\\\\0' x\", "
               "{\"stream\": true}]");
    ASSERT_EQ(200, reply.status);
    /* 1 to 200000 with newlines, and the line of x, which gets one. */
    ASSERT_EQ(1288895 + 5000000 + 1, json_string_length(at(reply.json, "stdout")));
    PASS();
}

TEST a_streamed_exec_does_not_outlive_its_container(void)
{
    struct later later = {
        .box = "gone", .name = "exec", .arguments = "[\"sleep 60\", {\"stream\": true}]"};
    ASSERT(run("gone", "true")); /* what waits for a container would run in the next one */
    begin_call(&later);
    ASSERT(eventually(is_busy, "gone", 5000));
    CLEANUP_REPLY struct reply stopped = method("gone", "destroy", "[]");
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT_EQ(409, reply.status);
    PASS();
}

/* Older names. */

TEST the_names_of_older_documents_work(void)
{
    CLEANUP_REPLY struct reply spawned = method("old", "spawn", "[\"sleep 60\"]");
    long long pid = number_at(spawned.json, "pid");
    ASSERT(pid > 1);
    char arguments[64];
    snprintf(arguments, sizeof arguments, "[%lld]", pid);
    CLEANUP_REPLY struct reply runs = method("old", "isProcessRunning", arguments);
    ASSERT_STR_EQ("true", runs.body);
    CLEANUP_REPLY struct reply other = method("old", "isProcessRunning", "[999999]");
    ASSERT_STR_EQ("false", other.body);
    CLEANUP_REPLY struct reply killed = method("old", "killProcess", arguments);
    ASSERT_EQ(200, killed.status);
    ASSERT_STR_EQ(text_at(spawned.json, "id"), text_at(killed.json, "processId"));
    CLEANUP_REPLY struct reply ended = method("old", "isProcessRunning", arguments);
    ASSERT_STR_EQ("false", ended.body);
    CLEANUP_REPLY struct reply again = method("old", "killProcess", arguments);
    ASSERT_EQ(404, again.status);
    ASSERT_STR_EQ("PROCESS_NOT_FOUND", text_at(again.json, "code"));
    ASSERT(start("old", "named", "sleep 60") > 0);
    CLEANUP_REPLY struct reply named = method("old", "isProcessRunning", "[\"named\"]");
    ASSERT_STR_EQ("true", named.body);
    CLEANUP_REPLY struct reply stopped = method("old", "process.stop", "[\"named\"]");
    ASSERT_EQ(200, stopped.status);
    CLEANUP_REPLY struct reply gone = method("old", "isProcessRunning", "[\"named\"]");
    ASSERT_STR_EQ("false", gone.body);
    PASS();
}

SUITE(exec_relay)
{
    RUN_TEST(a_streamed_exec_keeps_its_newline_and_not_the_shells_state);
    RUN_TEST(on_output_gives_the_events_and_then_the_result);
    RUN_TEST(much_output_comes_whole_through_a_streamed_exec);
    RUN_TEST(a_streamed_exec_does_not_outlive_its_container);
    RUN_TEST(the_names_of_older_documents_work);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, exec_relay);
    GREATEST_MAIN_END();
}
