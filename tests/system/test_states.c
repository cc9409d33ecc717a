/* The states of a sandbox and their causes, in the words of the SDK and of the control API. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static const char *const options[] = {"--stop-grace", "300ms", "--network", "none", NULL};

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

static struct reply control(const char *box, const char *action)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s%s%s", box, *action ? "/" : "", action);
    return *action ? post(&emulator, path, "") : get(&emulator, path);
}

static struct reply advance(const char *by)
{
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%s\"}", by);
    return post(&emulator, "/cdn-cgi/local/clock/advance", body);
}

static struct reply state_of(const char *box)
{
    char header[96];
    snprintf(header, sizeof header, "X-Sandbox-Id: %s\r\n", box);
    return request(&emulator, "GET", "/api/state", header, NULL);
}

#define ASSERT_STATUS(BOX, STATUS)                                                                 \
    do {                                                                                           \
        CLEANUP_REPLY struct reply status_ = state_of(BOX);                                        \
        ASSERT_STR_EQ((STATUS), text_at(status_.json, "status"));                                  \
    } while (0)

#define ASSERT_STATE(BOX, STATE)                                                                   \
    do {                                                                                           \
        CLEANUP_REPLY struct reply state_ = control(BOX, "");                                      \
        ASSERT_STR_EQ((STATE), text_at(state_.json, "state"));                                     \
    } while (0)

/* The types of the sandbox's events with their reasons, "type: reason\n" each; malloc'd. */
static char *story_of(const char *box)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/events?sandbox=%s&type=container.", box);
    CLEANUP_REPLY struct reply reply = get(&emulator, path);
    char *story = calloc(1, 8192);
    size_t used = 0;
    for (char *line = reply.body; line && *line; line = strchr(line, '\n') + 1) {
        json_t *event = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        used += (size_t)snprintf(story + used, 8192 - used, "%s: %s\n", text_at(event, "type"),
                                 text_at(event, "reason"));
        json_decref(event);
        if (!strchr(line, '\n'))
            break;
    }
    return story;
}

TEST a_state_is_told_as_the_sdk_tells_it_from_start_to_end(void)
{
    ASSERT_STATUS("words", "stopped");
    CLEANUP_REPLY struct reply a = call("words", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply healthy = state_of("words");
    ASSERT_STR_EQ("healthy", text_at(healthy.json, "status"));
    ASSERT(!at(healthy.json, "exitCode"));
    CLEANUP_REPLY struct reply ten = advance("10m");
    CLEANUP_REPLY struct reply ended = state_of("words");
    ASSERT_STR_EQ("stopped_with_code", text_at(ended.json, "status"));
    ASSERT_EQ(0, number_at(ended.json, "exitCode"));
    ASSERT_EQ(number_at(healthy.json, "lastChange") + 600000, number_at(ended.json, "lastChange"));
    ASSERT_STATE("words", "stopped");
    CLEANUP_REPLY struct reply second = advance("1s");
    CLEANUP_REPLY struct reply stopped = state_of("words");
    ASSERT_STR_EQ("stopped", text_at(stopped.json, "status"));
    ASSERT(!at(stopped.json, "exitCode"));
    ASSERT_EQ(number_at(ended.json, "lastChange") + 1000, number_at(stopped.json, "lastChange"));
    PASS();
}

TEST every_transition_has_its_cause(void)
{
    CLEANUP_REPLY struct reply a = call("causes", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply ten = advance("10m");
    CLEANUP_REPLY struct reply b = call("causes", "exists", "[\"/tmp\"]");
    CLEANUP_REPLY struct reply stop = call("causes", "stop", "[]");
    CLEANUP_REPLY struct reply c = call("causes", "mkdir", "[\"/workspace/d\"]");
    CLEANUP_REPLY struct reply replace = control("causes", "replace");
    CLEANUP_REPLY struct reply d = call("causes", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply destroy = call("causes", "destroy", "[]");
    char *story = story_of("causes");
    const char *kept = keep(story);
    free(story);
    ASSERT_STR_EQ("container.starting: started for execute\n"
                  "container.healthy: started for execute\n"
                  "container.stopping: slept: idle for 10m after execute\n"
                  "container.stopped: slept: idle for 10m after execute\n"
                  "container.starting: started for exists\n"
                  "container.healthy: started for exists\n"
                  "container.stopping: stopped by stop()\n"
                  "container.stopped: stopped by stop()\n"
                  "container.starting: started for mkdir\n"
                  "container.healthy: started for mkdir\n"
                  "container.stopping: replaced by the platform\n"
                  "container.stopped: replaced by the platform\n"
                  "container.starting: started for execute\n"
                  "container.healthy: started for execute\n"
                  "container.destroyed: destroyed by destroy()\n",
                  kept);
    PASS();
}

/* Calls at once. */

struct caller {
    pthread_t thread;
    const char *box, *method, *arguments;
    struct reply reply;
};

static void *run_caller(void *arg)
{
    struct caller *caller = arg;
    caller->reply = call(caller->box, caller->method, caller->arguments);
    return NULL;
}

static void begin(struct caller *caller)
{
    pthread_create(&caller->thread, NULL, run_caller, caller);
}

static void end(struct caller *caller)
{
    pthread_join(caller->thread, NULL);
}

TEST callers_at_once_share_one_start(void)
{
    enum { CALLERS = 16 };
    struct caller callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] =
            (struct caller){.box = "shared", .method = "exec", .arguments = "[\"echo ok\"]"};
        begin(&callers[i]);
    }
    int right = 0;
    for (int i = 0; i < CALLERS; i++) {
        end(&callers[i]);
        right += strcmp("ok", text_at(callers[i].reply.json, "stdout")) == 0;
        reply_free(&callers[i].reply);
    }
    ASSERT_EQ(CALLERS, right);
    char *story = story_of("shared");
    const char *kept = keep(story);
    free(story);
    ASSERT_STR_EQ("container.starting: started for execute\n"
                  "container.healthy: started for execute\n",
                  kept);
    PASS();
}

struct expected {
    const char *box, *state;
};

static bool is_in_state(void *arg)
{
    const struct expected *expected = arg;
    CLEANUP_REPLY struct reply reply = control(expected->box, "");
    return strcmp(text_at(reply.json, "state"), expected->state) == 0;
}

static bool has_inflight(void *arg)
{
    CLEANUP_REPLY struct reply reply = control(arg, "");
    return number_at(reply.json, "inflight") > 0;
}

/* Leaves a process that does not care for SIGTERM. */
#define STUBBORN                                                                                   \
    "(trap '' TERM; touch /tmp/armed; while :; do sleep 1; done) >/dev/null 2>&1 & "               \
    "until [ -e /tmp/armed ]; do sleep 0.01; done; echo ok"

TEST calls_during_a_stop_wait_and_get_a_fresh_container(void)
{
    CLEANUP_REPLY struct reply stubborn = call("late", "exec", "[\"touch old; " STUBBORN "\"]");
    ASSERT_STR_EQ("ok", text_at(stubborn.json, "stdout"));
    struct caller stop = {.box = "late", .method = "stop", .arguments = "[]"};
    long long before = test_ms();
    begin(&stop);
    ASSERT(eventually(is_in_state, &(struct expected){"late", "stopping"}, 5000));
    ASSERT_STATUS("late", "healthy");
    CLEANUP_REPLY struct reply look = call("late", "exec", "[\"ls\"]");
    end(&stop);
    long long took = test_ms() - before;
    ASSERT_EQ(200, stop.reply.status);
    reply_free(&stop.reply);
    ASSERT_EQ(200, look.status);
    ASSERT_STR_EQm("the files are new", "", text_at(look.json, "stdout"));
    ASSERTm("the grace is that of --stop-grace", took >= 250 && took < 5000);
    PASS();
}

TEST a_stop_that_had_to_kill_has_another_exit_code(void)
{
    CLEANUP_REPLY struct reply a = call("killed", "exec", "[\"" STUBBORN "\"]");
    CLEANUP_REPLY struct reply stop = call("killed", "stop", "[]");
    CLEANUP_REPLY struct reply state = state_of("killed");
    ASSERT_STR_EQ("stopped_with_code", text_at(state.json, "status"));
    ASSERT_EQ(137, number_at(state.json, "exitCode"));
    PASS();
}

TEST a_replaced_container_interrupts_and_the_next_call_is_fresh(void)
{
    CLEANUP_REPLY struct reply a = call("swap", "exec", "[\"touch mine; export A=1\"]");
    struct caller caller = {.box = "swap", .method = "exec", .arguments = "[\"sleep 43210\"]"};
    begin(&caller);
    ASSERT(eventually(has_inflight, "swap", 5000));
    CLEANUP_REPLY struct reply replace = control("swap", "replace");
    ASSERT_EQ(200, replace.status);
    end(&caller);
    CLEANUP_REPLY struct reply told = caller.reply;
    ASSERT_EQ(409, told.status);
    ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(told.json, "code"));
    ASSERT_STR_EQ("runtime_replaced", text_at(told.json, "context.reason"));
    ASSERT(json_is_false(at(told.json, "context.retryable")));
    ASSERT_EQ(0, processes_with("sleep 43210"));
    CLEANUP_REPLY struct reply fresh = call("swap", "exec", "[\"ls; echo ${A-none}\"]");
    ASSERT_STR_EQ("none", text_at(fresh.json, "stdout"));
    CLEANUP_REPLY struct reply why = control("swap", "");
    ASSERT_STR_EQ("started for execute", text_at(why.json, "why"));
    CLEANUP_REPLY struct reply stop = call("swap", "stop", "[]");
    CLEANUP_REPLY struct reply nothing = control("swap", "replace");
    ASSERT_EQm("without a container there is nothing to do", 200, nothing.status);
    CLEANUP_REPLY struct reply unknown = control("nobody", "replace");
    ASSERT_EQ(404, unknown.status);
    PASS();
}

TEST a_destroyed_sandbox_tells_calls_in_flight_that_its_lifetime_changed(void)
{
    CLEANUP_REPLY struct reply a =
        post(&emulator, "/sandbox/over/exec?sleepAfter=2h", "[\"true\"]");
    struct caller caller = {.box = "over", .method = "exec", .arguments = "[\"sleep 43211\"]"};
    begin(&caller);
    ASSERT(eventually(has_inflight, "over", 5000));
    struct caller others[2] = {{.box = "over", .method = "destroy", .arguments = "[]"},
                               {.box = "over", .method = "destroy", .arguments = "[]"}};
    begin(&others[0]);
    begin(&others[1]);
    end(&others[0]);
    end(&others[1]);
    end(&caller);
    const char *reason = keep(text_at(caller.reply.json, "context.reason"));
    int status = others[0].reply.status + others[1].reply.status;
    reply_free(&caller.reply);
    reply_free(&others[0].reply);
    reply_free(&others[1].reply);
    ASSERT_EQ(400, status);
    ASSERT_STR_EQ("sandbox_lifetime_changed", reason);
    ASSERT_STATE("over", "destroyed");
    ASSERT_STATUS("over", "stopped_with_code");
    CLEANUP_REPLY struct reply kept = control("over", "");
    ASSERT_EQm("options stay", 7200000, number_at(kept.json, "sleepAfterMs"));
    CLEANUP_REPLY struct reply again = call("over", "exec", "[\"echo again\"]");
    ASSERT_STR_EQ("again", text_at(again.json, "stdout"));
    PASS();
}

TEST the_command_line_replaces_too(void)
{
    CLEANUP_REPLY struct reply a = call("byhand", "exec", "[\"touch f\"]");
    char *out = NULL, *errors = NULL;
    const char *const argv[] = {SANDPIT_BINARY, "replace", "byhand", NULL};
    int status = run_command(&emulator, argv, &out, &errors);
    const char *told = keep(out);
    free(out);
    free(errors);
    ASSERT_EQ(0, status);
    ASSERT_STR_EQ("byhand\n", told);
    CLEANUP_REPLY struct reply b = call("byhand", "exec", "[\"ls\"]");
    ASSERT_STR_EQ("", text_at(b.json, "stdout"));
    PASS();
}

TEST a_bad_grace_is_refused(void)
{
    char *out = NULL, *errors = NULL;
    const char *const argv[] = {SANDPIT_BINARY, "dev",          "--port", "0",
                                "--ephemeral",  "--stop-grace", "soon",   NULL};
    int status = run_command(&emulator, argv, &out, &errors);
    const char *told = keep(errors);
    free(out);
    free(errors);
    ASSERT_EQ(1, status);
    ASSERTm(told, strstr(told, "--stop-grace"));
    PASS();
}

SUITE(states_suite)
{
    RUN_TEST(a_state_is_told_as_the_sdk_tells_it_from_start_to_end);
    RUN_TEST(every_transition_has_its_cause);
    RUN_TEST(callers_at_once_share_one_start);
    RUN_TEST(calls_during_a_stop_wait_and_get_a_fresh_container);
    RUN_TEST(a_stop_that_had_to_kill_has_another_exit_code);
    RUN_TEST(a_replaced_container_interrupts_and_the_next_call_is_fresh);
    RUN_TEST(a_destroyed_sandbox_tells_calls_in_flight_that_its_lifetime_changed);
    RUN_TEST(the_command_line_replaces_too);
    RUN_TEST(a_bad_grace_is_refused);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP states_suite: %s\n", missing);
        return 77;
    }
    if (emulator_start(&emulator, options) < 0) {
        printf("the emulator did not start: see %s\n", emulator.log);
        return 1;
    }
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "");
    RUN_SUITE(states_suite);
    if (emulator_stop(&emulator) != 0) {
        printf("the emulator did not end cleanly: see %s\n", emulator.log);
        return 1;
    }
    emulator_clean(&emulator);
    GREATEST_MAIN_END();
}
