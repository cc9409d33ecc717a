/* When a sandbox sleeps and when not: each test is named after what went wrong for users of the
 * original (the number is that of their report), or holds one rule of its idle time. The clock is
 * frozen; only the test turns it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "counts.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static const char *const options[] = {"--network", "none", NULL};

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

static void freeze(void)
{
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "");
}

/* False when it did not settle. */
static bool advance(const char *by)
{
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%s\"}", by);
    CLEANUP_REPLY struct reply reply = post(&emulator, "/cdn-cgi/local/clock/advance", body);
    return reply.status == 200 && json_is_true(at(reply.json, "settled"));
}

static bool exec_with(const char *box, const char *query)
{
    char path[200];
    snprintf(path, sizeof path, "/sandbox/%s/exec%s", box, query);
    CLEANUP_REPLY struct reply reply = post(&emulator, path, "[\"true\"]");
    return reply.status == 200 && number_at(reply.json, "exitCode") == 0;
}

static bool set(const char *box, const char *method, const char *arguments)
{
    CLEANUP_REPLY struct reply reply = call(box, method, arguments);
    return reply.status == 200;
}

#define ASSERT_AWAKE(BOX)                                                                          \
    do {                                                                                           \
        CLEANUP_REPLY struct reply state_ = shown(BOX);                                            \
        ASSERT_STR_EQ("healthy", text_at(state_.json, "state"));                                   \
    } while (0)
#define ASSERT_ASLEEP(BOX)                                                                         \
    do {                                                                                           \
        CLEANUP_REPLY struct reply state_ = shown(BOX);                                            \
        ASSERT_STR_EQ("stopped", text_at(state_.json, "state"));                                   \
    } while (0)

TEST every_form_of_sleep_after_is_taken_and_no_other(void)
{
    static const struct {
        const char *value;
        long long ms;
    } good[] = {{"\"45s\"", 45000}, {"\"10m\"", 600000}, {"\"2h\"", 7200000}, {"90", 90000},
                {"0.5", 500},       {"\"0s\"", 0},       {"\"007m\"", 420000}};
    static const char *const bad[] = {
        "\"10\"",   "\"10 m\"", "\"10M\"", "\"m\"",     "\"-5m\"",
        "\"1.5h\"", "\"1d\"",   "\"\"",    "-1",        "1e300",
        "true",     "null",     "[10]",    "\"2h30m\"", "\"99999999999999999999h\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "[%s]", good[i].value);
        ASSERTm(good[i].value, set("forms", "setSleepAfter", arguments));
        CLEANUP_REPLY struct reply reply = shown("forms");
        ASSERT_EQm(good[i].value, good[i].ms, number_at(reply.json, "sleepAfterMs"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "[%s]", bad[i]);
        CLEANUP_REPLY struct reply reply = call("forms", "setSleepAfter", arguments);
        ASSERTm(bad[i], reply.status >= 400);
    }
    CLEANUP_REPLY struct reply kept = shown("forms");
    ASSERT_EQm("what is refused changes nothing", 420000, number_at(kept.json, "sleepAfterMs"));
    PASS();
}

TEST sb319_sleep_after_that_is_set_late_counts(void)
{
    ASSERT(exec_with("sb319", ""));
    ASSERT(set("sb319", "setSleepAfter", "[\"30m\"]"));
    ASSERT(advance("29m59s"));
    ASSERT_AWAKE("sb319");
    ASSERT(advance("1s"));
    ASSERT_ASLEEP("sb319");
    PASS();
}

TEST sb345_sb316_keep_alive_survives_a_restart(void)
{
    ASSERT(exec_with("sb345", "?keepAlive=1"));
    emulator_kill(&emulator);
    ASSERT_EQ(0, emulator_restart(&emulator, options));
    freeze();
    CLEANUP_REPLY struct reply stored = shown("sb345");
    ASSERT(json_is_true(at(stored.json, "keepAlive")));
    CLEANUP_REPLY struct reply file = call("sb345", "writeFile", "[\"/workspace/f\", \"kept\"]");
    ASSERT(advance("30d"));
    CLEANUP_REPLY struct reply read = call("sb345", "readFile", "[\"/workspace/f\"]");
    ASSERT_STR_EQ("kept", text_at(read.json, "content"));
    ASSERT(set("sb345", "destroy", "[]"));
    PASS();
}

TEST sb476_keep_alive_off_arms_the_timer_again(void)
{
    ASSERT(exec_with("sb476", "?keepAlive=1"));
    ASSERT(advance("1h"));
    ASSERT_AWAKE("sb476");
    ASSERT(set("sb476", "setKeepAlive", "[false]"));
    CLEANUP_REPLY struct reply state = shown("sb476");
    ASSERT(json_is_string(at(state.json, "sleepAt")));
    ASSERT(advance("9m59s"));
    ASSERT_AWAKE("sb476");
    ASSERT(set("sb476", "setKeepAlive", "[true]"));
    ASSERT(advance("1h"));
    ASSERT_AWAKE("sb476");
    ASSERT(set("sb476", "setKeepAlive", "[false]"));
    ASSERT(advance("10m"));
    ASSERT_ASLEEP("sb476");
    PASS();
}

TEST ct127_two_hours_are_two_hours(void)
{
    ASSERT(exec_with("ct127", "?sleepAfter=2h"));
    for (int i = 0; i < 119; i++)
        ASSERT(advance("1m"));
    ASSERT(advance("59s999ms"));
    ASSERT_AWAKE("ct127");
    ASSERT(advance("1ms"));
    ASSERT_ASLEEP("ct127");
    PASS();
}

TEST ct034_sleep_after_of_the_first_call_counts_from_the_first_moment(void)
{
    ASSERT(exec_with("ct034", "?sleepAfter=3s"));
    ASSERT(advance("2999ms"));
    ASSERT_AWAKE("ct034");
    ASSERT(advance("1ms"));
    ASSERT_ASLEEP("ct034");
    PASS();
}

TEST ct191_keep_alive_does_not_spin(void)
{
    ASSERT(exec_with("ct191", "?keepAlive=1&sleepAfter=0s"));
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    for (size_t i = 0; i < json_array_size(at(clock.json, "pending")); i++) {
        const json_t *timer = json_array_get(at(clock.json, "pending"), i);
        ASSERT(strcmp("ct191", text_at(timer, "sandbox")) != 0);
    }
    ASSERT(advance("365d"));
    ASSERT_AWAKE("ct191");
    ASSERT(set("ct191", "destroy", "[]"));
    PASS();
}

TEST molt244_looking_does_not_keep_awake(void)
{
    ASSERT(exec_with("molt244", ""));
    for (int i = 0; i < 3; i++) {
        ASSERT(advance("3m"));
        CLEANUP_REPLY struct reply state =
            request(&emulator, "GET", "/api/state", "X-Sandbox-Id: molt244\r\n", NULL);
        ASSERT_STR_EQ("healthy", text_at(state.json, "status"));
        CLEANUP_REPLY struct reply one = shown("molt244");
        CLEANUP_REPLY struct reply all = get(&emulator, "/cdn-cgi/local/sandboxes");
        CLEANUP_REPLY struct reply why = get(&emulator, "/cdn-cgi/local/sandboxes/molt244/why");
        CLEANUP_REPLY struct reply logs = get(&emulator, "/cdn-cgi/local/sandboxes/molt244/logs");
        CLEANUP_REPLY struct reply id =
            request(&emulator, "GET", "/api/placement-id", "X-Sandbox-Id: molt244\r\n", NULL);
    }
    ASSERT(advance("1m"));
    ASSERT_ASLEEP("molt244");
    PASS();
}

TEST sb891_the_end_of_a_session_ends_no_other_processes(void)
{
    CLEANUP_REPLY struct reply made = call("sb891", "createSession", "[{\"id\": \"short\"}]");
    ASSERT_EQ(200, made.status);
    CLEANUP_REPLY struct reply process = call("sb891", "startProcess", "[\"sleep 32323\"]");
    CLEANUP_REPLY struct reply shell = call("sb891", "exec", "[\"sleep 32323 & true\"]");
    ASSERT(processes_become("sleep 32323", 2, 5000));
    CLEANUP_REPLY struct reply gone = call("sb891", "deleteSession", "[\"short\"]");
    ASSERT_EQ(200, gone.status);
    ASSERT_EQ(2, processes_with("sleep 32323"));
    ASSERT(set("sb891", "destroy", "[]"));
    PASS();
}

TEST mastra23706_what_was_lost_is_told(void)
{
    CLEANUP_REPLY struct reply write = call("mastra", "writeFile", "[\"/workspace/w\", \"x\"]");
    ASSERT(advance("10m"));
    CLEANUP_REPLY struct reply gone = call("mastra", "readFile", "[\"/workspace/w\"]");
    ASSERT_EQ(404, gone.status);
    ASSERT(strstr(text_at(gone.json, "hint"), "slept"));
    PASS();
}

TEST equal_options_are_no_activity_and_setters_are(void)
{
    ASSERT(exec_with("equal", "?sleepAfter=10m"));
    ASSERT(advance("6m"));
    CLEANUP_REPLY struct reply same =
        post(&emulator, "/sandbox/equal/getState?sleepAfter=10m&keepAlive=0", "[]");
    ASSERT(set("equal", "configure", "[{\"sleepAfter\": \"10m\", \"keepAlive\": false}]"));
    ASSERT(advance("4m"));
    ASSERT_ASLEEP("equal");
    ASSERT(exec_with("equal", ""));
    ASSERT(advance("6m"));
    ASSERT(set("equal", "setSleepAfter", "[\"10m\"]"));
    ASSERT(advance("6m"));
    ASSERT_AWAKE("equal");
    ASSERT(set("equal", "setKeepAlive", "[false]"));
    ASSERT(advance("9m59s"));
    ASSERT_AWAKE("equal");
    ASSERT(advance("1s"));
    ASSERT_ASLEEP("equal");
    PASS();
}

/* ABUSE.md G7. */
TEST activity_just_before_the_deadline_moves_it_and_the_deadline_itself_is_too_late(void)
{
    ASSERT(exec_with("edge", ""));
    ASSERT(advance("9m59s999ms"));
    ASSERT(exec_with("edge", ""));
    ASSERT(advance("1ms"));
    ASSERT_AWAKE("edge");
    ASSERT(advance("9m59s998ms"));
    ASSERT_AWAKE("edge");
    ASSERT(advance("1ms"));
    ASSERT_ASLEEP("edge");
    PASS();
}

TEST a_shorter_sleep_after_than_what_has_passed_counts_from_now(void)
{
    ASSERT(exec_with("shorter", "?sleepAfter=1h"));
    ASSERT(advance("30m"));
    ASSERT(set("shorter", "setSleepAfter", "[\"5m\"]"));
    ASSERT_AWAKE("shorter");
    ASSERT(advance("4m59s"));
    ASSERT_AWAKE("shorter");
    ASSERT(advance("1s"));
    ASSERT_ASLEEP("shorter");
    PASS();
}

TEST everything_of_a_container_is_gone_after_sleep_and_the_rest_is_not(void)
{
    ASSERT(set("rest", "setEnvVars", "[{\"MINE\": \"1\"}]"));
    ASSERT(exec_with("rest", "?sleepAfter=20m"));
    CLEANUP_REPLY struct reply process = call("rest", "startProcess", "[\"sleep 31313\"]");
    CLEANUP_REPLY struct reply before = shown("rest");
    ASSERT(advance("20m"));
    ASSERT_EQ(0, processes_with("sleep 31313"));
    CLEANUP_REPLY struct reply list = call("rest", "listProcesses", "[]");
    ASSERT_EQ(0,
              json_array_size(json_is_array(list.json) ? list.json : at(list.json, "processes")));
    CLEANUP_REPLY struct reply env = call("rest", "exec", "[\"echo $MINE\"]");
    ASSERT_STR_EQm("variables of the object stay", "1", text_at(env.json, "stdout"));
    CLEANUP_REPLY struct reply after = shown("rest");
    ASSERT_EQ(1200000, number_at(after.json, "sleepAfterMs"));
    ASSERT_STR_EQ(text_at(before.json, "containerUrl"), text_at(after.json, "containerUrl"));
    PASS();
}

/* What is in flight. */

static int begin_request(const char *method, const char *path, const char *body)
{
    char bytes[1024];
    int size = snprintf(bytes, sizeof bytes,
                        "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                        method, path, strlen(body), body);
    int fd = dial(&emulator);
    if (fd >= 0)
        send_all(fd, bytes, (size_t)size);
    return fd;
}

static bool inflight_is_zero(void *arg)
{
    CLEANUP_REPLY struct reply reply = shown(arg);
    return number_at(reply.json, "inflight") == 0;
}

static bool inflight_is_one(void *arg)
{
    CLEANUP_REPLY struct reply reply = shown(arg);
    return number_at(reply.json, "inflight") == 1;
}

TEST a_command_or_stream_longer_than_sleep_after_is_not_cut(void)
{
    static const struct {
        const char *path, *body;
    } rows[] = {
        {"/sandbox/long/exec", "[\"until [ -e /tmp/go ]; do sleep 0.01; done; echo done\"]"},
        {"/sandbox/long/execStream", "[\"until [ -e /tmp/go ]; do sleep 0.01; done; echo done\"]"},
    };
    ASSERT(exec_with("long", "?sleepAfter=5s"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = begin_request("POST", rows[i].path, rows[i].body);
        ASSERTm(rows[i].path, eventually(inflight_is_one, "long", 5000));
        ASSERT(advance("1d"));
        ASSERT_AWAKE("long");
        CLEANUP_REPLY struct reply go = call("long", "writeFile", "[\"/tmp/go\", \"\"]");
        ASSERT_EQ(200, go.status);
        CLEANUP_REPLY struct reply reply = read_reply(fd);
        close(fd);
        ASSERTm(rows[i].path, reply.body && strstr(reply.body, "done"));
        ASSERT(eventually(inflight_is_zero, "long", 5000));
        ASSERT_AWAKE("long");
        CLEANUP_REPLY struct reply undo = call("long", "deleteFile", "[\"/tmp/go\"]");
    }
    ASSERTm("the idle time begins at the end", advance("4999ms"));
    ASSERT_AWAKE("long");
    ASSERT(advance("1ms"));
    ASSERT_ASLEEP("long");
    PASS();
}

/* Closes with a reset, so that the other side notices at once whatever it does. */
static void abort_connection(int fd)
{
    struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

/* ABUSE.md E5. A server in the sandbox that answers slowly, and clients that do not wait. */
TEST ct241_clients_that_abort_leave_nothing_in_flight(void)
{
    static const char server[] = "[\"python3 -c 'import socketserver, time\\n"
                                 "class H(socketserver.BaseRequestHandler):\\n"
                                 " def handle(s):\\n"
                                 "  s.request.recv(9999)\\n"
                                 "  s.request.sendall(b\\\"HTTP/1.1 200 "
                                 "OK\\\\r\\\\nContent-Length: 9\\\\r\\\\n\\\\r\\\\nhalf\\\")\\n"
                                 "  s.request.recv(1)\\n"
                                 "class S(socketserver.ThreadingTCPServer):\\n"
                                 " allow_reuse_address = True\\n"
                                 " request_queue_size = 100\\n"
                                 " daemon_threads = True\\n"
                                 "S((\\\"127.0.0.1\\\", 8000), H).serve_forever()'\"]";
    int rounds = counts_now().cycles > 1000 ? 10000 : 300;
    CLEANUP_REPLY struct reply start = call("ct241", "startProcess", server);
    ASSERT_EQ(200, start.status);
    CLEANUP_REPLY struct reply wait =
        call("ct241", "exec",
             "[\"for i in $(seq 500); do (exec 3<>/dev/tcp/127.0.0.1/8000) "
             "2>/dev/null && echo up && break; sleep 0.02; done\"]");
    if (strcmp("up", text_at(wait.json, "stdout")) != 0)
        SKIPm("no python3 in the sandbox");
    for (int i = 0; i < rounds; i++) {
        static const struct {
            const char *method, *path, *body;
        } kinds[] = {
            {"GET", "/sandbox/ct241/proxy/8000/", ""},
            {"POST", "/sandbox/ct241/execStream", "[\"sleep 0.05\"]"},
            {"GET", "/sandbox/ct241/proxy/8000/x", ""},
            {"POST", "/sandbox/ct241/exec", "[\"true\", {\"enableDefaultSession\": false}]"},
        };
        int fd = begin_request(kinds[i % 4].method, kinds[i % 4].path, kinds[i % 4].body);
        ASSERT(fd >= 0);
        char some[512];
        if (i % 8 == 0 &&
            recv(fd, some, sizeof some, 0) < 0) /* abort in the middle of the answer */
            ASSERT_EQ(EAGAIN, errno);
        abort_connection(fd);
    }
    ASSERT(eventually(inflight_is_zero, "ct241", 20000));
    ASSERT(advance("10m"));
    ASSERT_ASLEEP("ct241");
    PASS();
}

/* ABUSE.md F2. Wrong secrets of the container's own address; previews come with their own test. */
TEST guesses_neither_wake_nor_keep_awake(void)
{
    int guesses = counts_now().cycles > 1000 ? 1000000 : 2000;
    ASSERT(exec_with("guess", ""));
    ASSERT(advance("5m"));
    int fd = dial(&emulator);
    for (int i = 0; i < guesses; i++) {
        char head[256];
        int size = snprintf(head, sizeof head,
                            "GET /api/ping HTTP/1.1\r\nHost: 3000-guess-%016d.localhost:%d\r\n\r\n",
                            i, emulator.port);
        if (fd < 0)
            fd = dial(&emulator);
        send_all(fd, head, (size_t)size);
        CLEANUP_REPLY struct reply reply = read_reply(fd);
        ASSERT(reply.status >= 400 && reply.status < 500);
        char value[32];
        if (strcmp(header_of(&reply, "Connection", value, sizeof value), "close") == 0) {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        close(fd);
    ASSERT(advance("5m"));
    ASSERT_ASLEEP("guess");
    CLEANUP_REPLY struct reply reply = request(
        &emulator, "GET", "/api/ping", "Host: 3000-guess-0000000000000000.localhost\r\n", NULL);
    ASSERT_ASLEEP("guess");
    PASS();
}

SUITE(idle_suite)
{
    freeze();
    RUN_TEST(every_form_of_sleep_after_is_taken_and_no_other);
    RUN_TEST(sb319_sleep_after_that_is_set_late_counts);
    RUN_TEST(sb345_sb316_keep_alive_survives_a_restart);
    RUN_TEST(sb476_keep_alive_off_arms_the_timer_again);
    RUN_TEST(ct127_two_hours_are_two_hours);
    RUN_TEST(ct034_sleep_after_of_the_first_call_counts_from_the_first_moment);
    RUN_TEST(ct191_keep_alive_does_not_spin);
    RUN_TEST(molt244_looking_does_not_keep_awake);
    RUN_TEST(sb891_the_end_of_a_session_ends_no_other_processes);
    RUN_TEST(mastra23706_what_was_lost_is_told);
    RUN_TEST(equal_options_are_no_activity_and_setters_are);
    RUN_TEST(activity_just_before_the_deadline_moves_it_and_the_deadline_itself_is_too_late);
    RUN_TEST(a_shorter_sleep_after_than_what_has_passed_counts_from_now);
    RUN_TEST(everything_of_a_container_is_gone_after_sleep_and_the_rest_is_not);
    RUN_TEST(a_command_or_stream_longer_than_sleep_after_is_not_cut);
    RUN_TEST(ct241_clients_that_abort_leave_nothing_in_flight);
    RUN_TEST(guesses_neither_wake_nor_keep_awake);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP idle_suite: %s\n", missing);
        return 77;
    }
    if (emulator_start(&emulator, options) < 0) {
        printf("the emulator did not start: see %s\n", emulator.log);
        return 1;
    }
    RUN_SUITE(idle_suite);
    if (emulator_stop(&emulator) != 0) {
        printf("the emulator did not end cleanly: see %s\n", emulator.log);
        return 1;
    }
    emulator_clean(&emulator);
    GREATEST_MAIN_END();
}
