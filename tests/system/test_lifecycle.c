/* Time and life: idle sleep on a clock that the test turns, stop, destroy, restarts. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

static struct reply shown(const char *box)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    return get(&emulator, path);
}

static struct reply advance(const char *by)
{
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%s\"}", by);
    return post(&emulator, "/cdn-cgi/local/clock/advance", body);
}

#define ASSERT_STATE(BOX, STATE)                                                                   \
    do {                                                                                           \
        CLEANUP_REPLY struct reply state_ = shown(BOX);                                            \
        ASSERT_STR_EQ((STATE), text_at(state_.json, "state"));                                     \
    } while (0)

TEST files_are_gone_after_ten_idle_minutes(void)
{
    CLEANUP_REPLY struct reply w = call("idle", "writeFile", "[\"/workspace/a.txt\", \"x\"]");
    ASSERT_EQ(200, w.status);
    CLEANUP_REPLY struct reply nine = advance("9m59s");
    ASSERT_EQ(200, nine.status);
    CLEANUP_REPLY struct reply still = call("idle", "exists", "[\"/workspace/a.txt\"]");
    ASSERT(json_is_true(at(still.json, "exists")));
    CLEANUP_REPLY struct reply ten = advance("10m");
    ASSERT_EQ(200, ten.status);
    ASSERT(json_is_true(at(ten.json, "settled")));
    ASSERT_STATE("idle", "stopped");
    bool told = false;
    for (size_t i = 0; i < json_array_size(at(ten.json, "events")); i++) {
        const json_t *event = json_array_get(at(ten.json, "events"), i);
        told |= strcmp(text_at(event, "type"), "container.stopped") == 0 &&
                strcmp(text_at(event, "sandbox"), "idle") == 0 &&
                strstr(text_at(event, "reason"), "idle for 10m after exists");
    }
    ASSERTm("the advance names the sleep and why", told);
    CLEANUP_REPLY struct reply r = call("idle", "readFile", "[\"/workspace/a.txt\"]");
    ASSERT_EQ(404, r.status);
    ASSERT_STR_EQ("FILE_NOT_FOUND", text_at(r.json, "code"));
    ASSERTm("the answer says why it is gone", strstr(text_at(r.json, "hint"), "slept"));
    ASSERT_STATE("idle", "healthy");
    PASS();
}

TEST processes_and_shell_state_end_with_the_container(void)
{
    CLEANUP_REPLY struct reply a =
        call("procs", "exec", "[\"cd /tmp; export A=1; sleep 98765 & echo started\"]");
    ASSERT_STR_EQ("started", text_at(a.json, "stdout"));
    ASSERT(processes_become("sleep 98765", 1, 5000));
    CLEANUP_REPLY struct reply ten = advance("10m");
    ASSERT_EQm("an advance answers when the tree is gone", 0, processes_with("sleep 98765"));
    CLEANUP_REPLY struct reply b = call("procs", "exec", "[\"pwd; echo ${A-none}\"]");
    ASSERT_STR_EQ("/workspace\nnone", text_at(b.json, "stdout"));
    PASS();
}

TEST a_process_that_ignores_term_is_killed_after_the_grace(void)
{
    CLEANUP_REPLY struct reply a =
        call("stubborn", "exec", "[\"trap '' TERM; (trap '' TERM; exec sleep 87654) & echo ok\"]");
    ASSERT_STR_EQ("ok", text_at(a.json, "stdout"));
    CLEANUP_REPLY struct reply d = call("stubborn", "destroy", "[]");
    ASSERT_EQ(200, d.status);
    ASSERT_EQ(0, processes_with("sleep 87654"));
    ASSERT_STATE("stubborn", "destroyed");
    PASS();
}

TEST sleep_after_and_keep_alive_are_obeyed(void)
{
    CLEANUP_REPLY struct reply a =
        post(&emulator, "/sandbox/short/exec?sleepAfter=30s", "[\"true\"]");
    ASSERT_EQ(200, a.status);
    CLEANUP_REPLY struct reply b = post(&emulator, "/sandbox/kept/exec?keepAlive=1", "[\"true\"]");
    ASSERT_EQ(200, b.status);
    CLEANUP_REPLY struct reply c =
        request(&emulator, "POST", "/api/execute",
                "X-Sandbox-Id: hour\r\nX-Sandbox-Sleep-After: 1h\r\n", "{\"command\":\"true\"}");
    ASSERT_EQ(200, c.status);
    CLEANUP_REPLY struct reply half = advance("31s");
    ASSERT_STATE("short", "stopped");
    ASSERT_STATE("hour", "healthy");
    CLEANUP_REPLY struct reply later = advance("59m30s");
    ASSERT_STATE("hour", "stopped");
    ASSERT_STATE("kept", "healthy");
    CLEANUP_REPLY struct reply off = call("kept", "setKeepAlive", "[false]");
    ASSERT_EQ(200, off.status);
    CLEANUP_REPLY struct reply ten = advance("10m");
    ASSERT_STATE("kept", "stopped");
    CLEANUP_REPLY struct reply bad = call("kept", "setSleepAfter", "[\"soon\"]");
    ASSERT(bad.status >= 400);
    ASSERT(strstr(text_at(bad.json, "error"), "invalid time expression"));
    PASS();
}

TEST options_and_identity_survive_a_restart_and_a_kill(void)
{
    CLEANUP_REPLY struct reply a =
        post(&emulator, "/sandbox/lasting/exec?sleepAfter=2h", "[\"true\"]");
    CLEANUP_REPLY struct reply before = shown("lasting");
    ASSERT_EQ(7200000, number_at(before.json, "sleepAfterMs"));
    int port = emulator.port;
    emulator_kill(&emulator);
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    (void)port;
    CLEANUP_REPLY struct reply after = shown("lasting");
    ASSERT_EQ(200, after.status);
    ASSERT_EQ(7200000, number_at(after.json, "sleepAfterMs"));
    ASSERT_STR_EQ("not_created", text_at(after.json, "state"));
    const char *was = text_at(before.json, "containerUrl"),
               *is = text_at(after.json, "containerUrl");
    ASSERTm("the address of its own API stays",
            strncmp(was, is, strcspn(was, ".")) == 0 && strcspn(was, ".") > 20);
    PASS();
}

TEST a_killed_emulator_leaves_no_process_and_the_next_one_cleans_up(void)
{
    CLEANUP_REPLY struct reply a =
        call("orphan", "exec", "[\"sleep 76543 & setsid sleep 76543 & echo ok\"]");
    ASSERT(processes_become("sleep 76543", 2, 5000));
    emulator_kill(&emulator);
    ASSERTm("gone within a second", processes_become("sleep 76543", 0, 1000));
    char mounts[64];
    snprintf(mounts, sizeof mounts, "%s", emulator.dir);
    const char *const grep[] = {"grep", "-c", mounts, "/proc/self/mounts", NULL};
    char *out = NULL;
    run_command(&emulator, grep, &out, NULL);
    ASSERT_STR_EQ("0\n", out);
    free(out);
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    char list[160];
    snprintf(list, sizeof list, "ls %s/sandpit | grep -c ^run-", emulator.run_root);
    const char *const count[] = {"sh", "-c", list, NULL};
    run_command(&emulator, count, &out, NULL);
    ASSERT_STR_EQm("only the new emulator's directory is there", "1\n", out);
    free(out);
    PASS();
}

TEST a_second_emulator_on_one_state_directory_is_refused_with_the_first_ones_pid(void)
{
    const char *const argv[] = {SANDPIT_BINARY, "dev",        "--port", "0",
                                "--persist-to", emulator.dir, NULL};
    char *errors = NULL;
    ASSERT_EQ(1, run_command(&emulator, argv, NULL, &errors));
    char pid[32], port[32];
    snprintf(pid, sizeof pid, "pid %d", emulator.pid);
    snprintf(port, sizeof port, "port %d", emulator.port);
    ASSERTm(errors, strstr(errors, pid));
    ASSERTm(errors, strstr(errors, port));
    free(errors);
    PASS();
}

TEST stop_and_destroy_by_hand_answer_when_it_is_done(void)
{
    CLEANUP_REPLY struct reply a = call("hand", "exec", "[\"sleep 65432 & touch /workspace/f\"]");
    CLEANUP_REPLY struct reply s = post(&emulator, "/cdn-cgi/local/sandboxes/hand/stop", "");
    ASSERT_EQ(200, s.status);
    ASSERT_EQ(0, processes_with("sleep 65432"));
    ASSERT_STATE("hand", "stopped");
    CLEANUP_REPLY struct reply e = call("hand", "exists", "[\"/workspace/f\"]");
    ASSERT(json_is_false(at(e.json, "exists")));
    CLEANUP_REPLY struct reply d = post(&emulator, "/cdn-cgi/local/sandboxes/hand/destroy", "");
    ASSERT_EQ(200, d.status);
    CLEANUP_REPLY struct reply unknown =
        post(&emulator, "/cdn-cgi/local/sandboxes/nobody/stop", "");
    ASSERT_EQ(404, unknown.status);
    CLEANUP_REPLY struct reply again = call("hand", "exec", "[\"echo back\"]");
    ASSERT_STR_EQ("back", text_at(again.json, "stdout"));
    PASS();
}

TEST state_is_told_in_the_sdks_words_and_does_not_wake(void)
{
    CLEANUP_REPLY struct reply a = call("quiet", "getState", "[]");
    ASSERT_STR_EQ("stopped", text_at(a.json, "status"));
    ASSERT_STATE("quiet", "not_created");
    CLEANUP_REPLY struct reply b = call("quiet", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply c =
        request(&emulator, "GET", "/api/state", "X-Sandbox-Id: quiet\r\n", NULL);
    ASSERT_STR_EQ("healthy", text_at(c.json, "status"));
    CLEANUP_REPLY struct reply next = advance("9m");
    CLEANUP_REPLY struct reply look = call("quiet", "getState", "[]");
    CLEANUP_REPLY struct reply two = advance("2m");
    ASSERT_STATE("quiet", "stopped");
    PASS();
}

/* A request in flight holds the sandbox awake, whatever the clock says. */
static void *run_gate(void *arg)
{
    struct reply *reply = arg;
    *reply =
        call("busy", "exec",
             "[\"touch /tmp/started; while [ ! -e /tmp/go ]; do sleep 0.01; done; echo done\"]");
    return NULL;
}

static bool gate_started(void *arg)
{
    CLEANUP_REPLY struct reply e = call("busy", "exists", "[\"/tmp/started\"]");
    return json_is_true(at(e.json, "exists"));
}

TEST a_running_command_holds_it_awake_and_an_aborted_client_does_not(void)
{
    struct reply reply = {0};
    pthread_t thread;
    pthread_create(&thread, NULL, run_gate, &reply);
    ASSERT(eventually(gate_started, NULL, 10000));
    CLEANUP_REPLY struct reply hour = advance("1h");
    ASSERT(json_is_true(at(hour.json, "settled")));
    CLEANUP_REPLY struct reply state = shown("busy");
    ASSERT_STR_EQ("healthy", text_at(state.json, "state"));
    ASSERT_EQ(1, number_at(state.json, "inflight"));
    ASSERT(json_is_null(at(state.json, "sleepAt")));
    CLEANUP_REPLY struct reply go =
        call("busy", "exec", "[\"touch /tmp/go\", {\"enableDefaultSession\": false}]");
    pthread_join(thread, NULL);
    ASSERT_STR_EQ("done", text_at(reply.json, "stdout"));
    reply_free(&reply);

    int fd = dial(&emulator);
    static const char bytes[] = "POST /sandbox/busy/exec HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: 13\r\n\r\n[\"sleep 0.2\"]";
    send_all(fd, bytes, sizeof bytes - 1);
    CLEANUP_REPLY struct reply wait =
        call("busy", "exec", "[\"true\", {\"enableDefaultSession\": false}]");
    close(fd);
    CLEANUP_REPLY struct reply queue = call("busy", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply after = shown("busy");
    ASSERT_EQ(0, number_at(after.json, "inflight"));
    CLEANUP_REPLY struct reply ten = advance("10m");
    ASSERT_STATE("busy", "stopped");
    PASS();
}

TEST a_command_whose_container_is_destroyed_is_told_so(void)
{
    struct reply reply = {0};
    pthread_t thread;
    CLEANUP_REPLY struct reply fresh = call("busy", "exec", "[\"true\"]");
    pthread_create(&thread, NULL, run_gate, &reply);
    ASSERT(eventually(gate_started, NULL, 10000));
    CLEANUP_REPLY struct reply d = post(&emulator, "/cdn-cgi/local/sandboxes/busy/destroy", "");
    pthread_join(thread, NULL);
    ASSERT_EQ(409, reply.status);
    ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(reply.json, "code"));
    reply_free(&reply);
    PASS();
}

TEST the_clock_freezes_resumes_jumps_and_refuses_nonsense(void)
{
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "");
    ASSERT_STR_EQ("frozen", text_at(frozen.json, "mode"));
    CLEANUP_REPLY struct reply a = call("timer", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    ASSERT_STR_EQ(text_at(frozen.json, "now"), text_at(clock.json, "now"));
    ASSERT_STR_EQm("everything we report uses it", text_at(clock.json, "now"),
                   text_at(a.json, "timestamp"));
    ASSERT_STR_EQ("sleep", text_at(clock.json, "pending.0.kind"));
    CLEANUP_REPLY struct reply next = post(&emulator, "/cdn-cgi/local/clock/next", "");
    ASSERT_EQ(200, next.status);
    CLEANUP_REPLY struct reply resumed = post(&emulator, "/cdn-cgi/local/clock/resume", "");
    ASSERT_STR_EQ("real", text_at(resumed.json, "mode"));
    static const char *const bad[] = {"{\"by\": \"-5m\"}",
                                      "{\"by\": \"5\"}",
                                      "{\"by\": 5}",
                                      "{}",
                                      "{\"by\": \"1m\", \"to\": \"2030-01-01\"}",
                                      "{\"to\": \"2001-01-01\"}",
                                      "{\"to\": \"soon\"}",
                                      "{\"by\": \"9223372036854775807s\"}",
                                      "not json",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CLEANUP_REPLY struct reply r = post(&emulator, "/cdn-cgi/local/clock/advance", bad[i]);
        ASSERT_EQm(bad[i], 400, r.status);
        ASSERTm(bad[i], *text_at(r.json, "hint"));
    }
    PASS();
}

TEST a_reset_forgets_everything(void)
{
    CLEANUP_REPLY struct reply a = call("forgotten", "exec", "[\"sleep 54321 & true\"]");
    CLEANUP_REPLY struct reply r = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT_EQ(200, r.status);
    ASSERT_EQ(0, processes_with("sleep 54321"));
    CLEANUP_REPLY struct reply list = get(&emulator, "/cdn-cgi/local/sandboxes");
    ASSERT_EQ(0, json_array_size(at(list.json, "sandboxes")));
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    ASSERT(llabs(number_at(clock.json, "offsetMs")) < 1000);
    CLEANUP_REPLY struct reply b = call("forgotten", "exec", "[\"echo again\"]");
    ASSERT_STR_EQ("again", text_at(b.json, "stdout"));
    PASS();
}

SUITE(lifecycle_suite)
{
    RUN_TEST(files_are_gone_after_ten_idle_minutes);
    RUN_TEST(processes_and_shell_state_end_with_the_container);
    RUN_TEST(a_process_that_ignores_term_is_killed_after_the_grace);
    RUN_TEST(sleep_after_and_keep_alive_are_obeyed);
    RUN_TEST(stop_and_destroy_by_hand_answer_when_it_is_done);
    RUN_TEST(state_is_told_in_the_sdks_words_and_does_not_wake);
    RUN_TEST(a_running_command_holds_it_awake_and_an_aborted_client_does_not);
    RUN_TEST(a_command_whose_container_is_destroyed_is_told_so);
    RUN_TEST(the_clock_freezes_resumes_jumps_and_refuses_nonsense);
    RUN_TEST(a_second_emulator_on_one_state_directory_is_refused_with_the_first_ones_pid);
    RUN_TEST(options_and_identity_survive_a_restart_and_a_kill);
    RUN_TEST(a_killed_emulator_leaves_no_process_and_the_next_one_cleans_up);
    RUN_TEST(a_reset_forgets_everything);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, lifecycle_suite);
    GREATEST_MAIN_END();
}
