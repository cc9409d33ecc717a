/* Faults: what a test orders, and what clients then see of it. The clock stands still; what waits
 * for it goes on when the test turns it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { SOON_MS = 5000 };

static struct emulator emulator;

/* --- Helpers ---------------------------------------------------------------------------------- */

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

static struct reply order(const char *fault)
{
    return post(&emulator, "/cdn-cgi/local/faults", fault);
}

#define ORDER(FAULT)                                                                               \
    do {                                                                                           \
        CLEANUP_REPLY struct reply ordered_ = order(FAULT);                                        \
        ASSERT_EQ(200, ordered_.status);                                                           \
    } while (0)

/* Sends a call and does not wait for its answer. */
static int begin(const char *box, const char *method, const char *arguments)
{
    char text[512];
    int size = snprintf(text, sizeof text,
                        "POST /sandbox/%s/%s HTTP/1.1\r\nHost: localhost:%d\r\n"
                        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                        box, method, emulator.port, strlen(arguments), arguments);
    int fd = dial(&emulator);
    if (fd >= 0)
        send_all(fd, text, (size_t)size);
    return fd;
}

/* Whether a timer of this kind is pending for the sandbox. */
struct timer_wanted {
    const char *kind, *box;
};

static bool is_pending(void *arg)
{
    const struct timer_wanted *wanted = arg;
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    const json_t *pending = at(clock.json, "pending");
    for (size_t i = 0; i < json_array_size(pending); i++) {
        const json_t *timer = json_array_get(pending, i);
        if (strcmp(text_at(timer, "kind"), wanted->kind) == 0 &&
            strcmp(text_at(timer, "sandbox"), wanted->box) == 0)
            return true;
    }
    return false;
}

static bool becomes_pending(const char *kind, const char *box)
{
    struct timer_wanted wanted = {kind, box};
    return eventually(is_pending, &wanted, SOON_MS);
}

static struct reply advance(const char *by)
{
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%s\"}", by);
    return post(&emulator, "/cdn-cgi/local/clock/advance", body);
}

/* How many events of this type the sandbox has. */
static int events_of(const char *type, const char *box)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/events?type=%s&sandbox=%s", type, box);
    CLEANUP_REPLY struct reply reply = get(&emulator, path);
    int lines = 0;
    for (const char *c = reply.body; c && *c; c++)
        lines += *c == '\n';
    return lines;
}

/* --- Ordering --------------------------------------------------------------------------------- */

TEST an_order_that_makes_no_sense_is_refused_with_what_is_allowed(void)
{
    static const struct {
        const char *fault, *says;
    } rows[] = {
        {"{", "not JSON"},
        {"[]", "a fault is an object"},
        {"{\"do\": \"crash\"}", "\"on\" must be start, exec, port or write"},
        {"{\"on\": \"stop\", \"do\": \"crash\"}", "start, exec, port or write, not 'stop'"},
        {"{\"on\": \"exec\"}", "\"do\" on exec must be crash, oom, replace or delay"},
        {"{\"on\": \"exec\", \"do\": \"enospc\"}", "crash, oom, replace or delay, not 'enospc'"},
        {"{\"on\": \"start\", \"do\": \"delay\"}", "delay needs \"ms\""},
        {"{\"on\": \"start\", \"do\": \"delay\", \"ms\": -1}", "from 0 to 86400000"},
        {"{\"on\": \"start\", \"do\": \"crash\", \"exitCode\": 256}", "from 0 to 255"},
        {"{\"on\": \"start\", \"do\": \"oom\", \"exitCode\": 1}", "\"exitCode\" goes with crash"},
        {"{\"on\": \"write\", \"do\": \"enospc\", \"ms\": 5}", "\"ms\" goes with"},
        {"{\"on\": \"exec\", \"do\": \"crash\", \"times\": 0}", "from 1 to 1000000"},
        {"{\"on\": \"exec\", \"do\": \"crash\", \"times\": 1.5}", "from 1 to 1000000"},
        {"{\"on\": \"exec\", \"do\": \"crash\", \"sandbox\": \"\"}", "\"sandbox\" must be"},
        {"{\"on\": \"exec\", \"do\": \"crash\", \"tims\": 1}", "\"tims\" is no member"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply reply = order(rows[i].fault);
        ASSERT_EQm(rows[i].fault, 400, reply.status);
        ASSERTm(keep(reply.body), strstr(text_at(reply.json, "error"), rows[i].says));
    }
    CLEANUP_REPLY struct reply none = get(&emulator, "/cdn-cgi/local/faults");
    ASSERT_EQ(0, (int)json_array_size(at(none.json, "faults")));
    PASS();
}

TEST faults_are_listed_counted_and_removed(void)
{
    CLEANUP_REPLY struct reply a =
        order("{\"on\": \"write\", \"do\": \"enospc\", \"times\": 2, \"sandbox\": \"count\"}");
    CLEANUP_REPLY struct reply b = order("{\"on\": \"exec\", \"do\": \"crash\", \"exitCode\": 9,"
                                         " \"sandbox\": \"other\"}");
    ASSERT_EQ(200, a.status);
    CLEANUP_REPLY struct reply full = call("count", "writeFile", "[\"/workspace/a\", \"x\"]");
    ASSERT_EQ(500, full.status);
    CLEANUP_REPLY struct reply list = get(&emulator, "/cdn-cgi/local/faults");
    ASSERT_STR_EQ(text_at(a.json, "id"), text_at(list.json, "faults.0.id"));
    ASSERT_EQ(1, number_at(list.json, "faults.0.times"));
    ASSERT_EQ(1, number_at(list.json, "faults.0.fired"));
    ASSERT_STR_EQ("count", text_at(list.json, "faults.0.sandbox"));
    ASSERT_EQ(9, number_at(list.json, "faults.1.exitCode"));
    ASSERTm("without times there is no count", !at(list.json, "faults.1.times"));
    char path[96];
    snprintf(path, sizeof path, "/cdn-cgi/local/faults/%s", text_at(a.json, "id"));
    CLEANUP_REPLY struct reply gone = request(&emulator, "DELETE", path, NULL, NULL);
    ASSERT_EQ(200, gone.status);
    CLEANUP_REPLY struct reply again = request(&emulator, "DELETE", path, NULL, NULL);
    ASSERT_EQ(404, again.status);
    ASSERT_STR_EQ("FAULT_NOT_FOUND", text_at(again.json, "code"));
    CLEANUP_REPLY struct reply fine = call("count", "writeFile", "[\"/workspace/a\", \"x\"]");
    ASSERT_EQ(200, fine.status);
    CLEANUP_REPLY struct reply all =
        request(&emulator, "DELETE", "/cdn-cgi/local/faults", NULL, NULL);
    ASSERT_EQ(1, number_at(all.json, "removed"));
    ASSERT_EQ(1, events_of("fault.fired", "count"));
    PASS();
}

TEST the_command_orders_lists_and_removes_them(void)
{
    const char *add[] = {SANDPIT_BINARY, "fault", "start", "no-instance", "--times", "2",
                         "--sandbox",    "cli",   NULL};
    const char *list[] = {SANDPIT_BINARY, "fault", NULL};
    const char *bad[] = {SANDPIT_BINARY, "fault", "port", "burn", NULL};
    const char *half[] = {SANDPIT_BINARY, "fault", "start", NULL};
    const char *clear[] = {SANDPIT_BINARY, "fault", "clear", NULL};
    CLEANUP_FREE char *id = NULL, *table = NULL, *none = NULL, *said = NULL, *usage = NULL;
    ASSERT_EQ(0, run_command(&emulator, add, &id, NULL));
    ASSERT_EQ(0, strncmp(id, "fault-", 6));
    ASSERT_EQ(0, run_command(&emulator, list, &table, NULL));
    ASSERTm(keep(table), strstr(table, "no-instance") && strstr(table, "cli"));
    ASSERT_EQ(1, run_command(&emulator, bad, NULL, &said));
    ASSERTm(keep(said), strstr(said, "must be crash, oom, replace, delay or refuse"));
    ASSERT_EQ(2, run_command(&emulator, half, NULL, &usage));
    CLEANUP_FREE char *cleared = NULL;
    ASSERT_EQ(0, run_command(&emulator, clear, &cleared, NULL));
    ASSERT_STR_EQ("1 removed\n", cleared);
    ASSERT_EQ(0, run_command(&emulator, list, &none, NULL));
    ASSERT_STR_EQ("no faults\n", none);
    PASS();
}

/* --- Starts ----------------------------------------------------------------------------------- */

TEST no_instance_is_a_503_that_may_be_tried_again(void)
{
    char after[16];
    ORDER("{\"on\": \"start\", \"do\": \"no-instance\", \"times\": 2, \"sandbox\": \"none\"}");
    for (int i = 0; i < 2; i++) {
        CLEANUP_REPLY struct reply r = call("none", "exec", "[\"true\"]");
        ASSERT_EQ(503, r.status);
        ASSERT_STR_EQ("CONTAINER_UNAVAILABLE", text_at(r.json, "code"));
        ASSERT_STR_EQ("no_container_instance_available", text_at(r.json, "context.reason"));
        ASSERT(json_is_true(at(r.json, "context.retryable")));
        ASSERT(strstr(text_at(r.json, "context.originalMessage"), "no container instance"));
        ASSERT_STR_EQ("10", header_of(&r, "Retry-After", after, sizeof after));
    }
    CLEANUP_REPLY struct reply third = call("none", "exec", "[\"true\"]");
    ASSERT_EQm("it was used up", 200, third.status);
    CLEANUP_REPLY struct reply running = call("none", "exec", "[\"true\"]");
    ASSERT_EQ(200, running.status);
    ASSERT_EQ(2, events_of("fault.fired", "none"));
    ASSERT_EQ(2, events_of("container.refused", "none"));
    PASS();
}

TEST max_instances_says_its_own_reason(void)
{
    ORDER("{\"on\": \"start\", \"do\": \"max-instances\", \"times\": 1, \"sandbox\": \"many\"}");
    CLEANUP_REPLY struct reply r = call("many", "exec", "[\"true\"]");
    ASSERT_EQ(503, r.status);
    ASSERT_STR_EQ("max_container_instances_exceeded", text_at(r.json, "context.reason"));
    PASS();
}

TEST a_crash_at_the_start_is_a_503_and_tells_its_exit_code(void)
{
    char after[16];
    ORDER("{\"on\": \"start\", \"do\": \"crash\", \"exitCode\": 3, \"times\": 1,"
          " \"sandbox\": \"early\"}");
    CLEANUP_REPLY struct reply r = call("early", "exec", "[\"true\"]");
    ASSERT_EQ(503, r.status);
    ASSERT_STR_EQ("INTERNAL_ERROR", text_at(r.json, "code"));
    ASSERT_STR_EQ("startup", text_at(r.json, "context.phase"));
    ASSERT(strstr(text_at(r.json, "context.error"), "unexpected exit code: 3"));
    ASSERT_STR_EQ("3", header_of(&r, "Retry-After", after, sizeof after));
    CLEANUP_REPLY struct reply stop = post(&emulator, "/cdn-cgi/local/sandboxes/early/stop", "");
    CLEANUP_REPLY struct reply state = call("early", "getState", "[]");
    ASSERT_STR_EQ("stopped_with_code", text_at(state.json, "status"));
    ASSERT_EQ(3, number_at(state.json, "exitCode"));
    CLEANUP_REPLY struct reply next = call("early", "exec", "[\"echo up\"]");
    ASSERT_STR_EQ("up", text_at(next.json, "stdout"));
    PASS();
}

TEST too_little_memory_at_the_start_is_a_500_for_good(void)
{
    char after[16];
    ORDER("{\"on\": \"start\", \"do\": \"oom\", \"times\": 1, \"sandbox\": \"small\"}");
    CLEANUP_REPLY struct reply r = call("small", "exec", "[\"true\"]");
    ASSERT_EQ(500, r.status);
    ASSERT_STR_EQ("INTERNAL_ERROR", text_at(r.json, "code"));
    ASSERT(strstr(text_at(r.json, "context.error"), "ran out of memory"));
    ASSERT_STR_EQm("nobody should try again", "",
                   header_of(&r, "Retry-After", after, sizeof after));
    PASS();
}

TEST a_port_that_does_not_answer_yet_is_a_503(void)
{
    ORDER("{\"on\": \"start\", \"do\": \"refuse\", \"times\": 1, \"sandbox\": \"deaf\"}");
    CLEANUP_REPLY struct reply r = call("deaf", "exec", "[\"true\"]");
    ASSERT_EQ(503, r.status);
    ASSERT(strstr(text_at(r.json, "context.error"), "Connection refused: container port"));
    CLEANUP_REPLY struct reply next = call("deaf", "exec", "[\"true\"]");
    ASSERT_EQ(200, next.status);
    PASS();
}

TEST a_slow_start_waits_for_the_clock(void)
{
    ORDER("{\"on\": \"start\", \"do\": \"delay\", \"ms\": 20000, \"times\": 1,"
          " \"sandbox\": \"slow\"}");
    int fd = begin("slow", "exec", "[\"echo late\"]");
    ASSERT(becomes_pending("ready", "slow"));
    CLEANUP_REPLY struct reply state = call("slow", "getState", "[]");
    ASSERT_STR_EQ("running", text_at(state.json, "status"));
    CLEANUP_REPLY struct reply half = advance("19s");
    ASSERT(json_is_true(at(half.json, "settled")));
    CLEANUP_REPLY struct reply still = call("slow", "getState", "[]");
    ASSERT_STR_EQ("running", text_at(still.json, "status"));
    CLEANUP_REPLY struct reply rest = advance("1s");
    CLEANUP_REPLY struct reply r = read_reply(fd);
    close(fd);
    ASSERT_EQ(200, r.status);
    ASSERT_STR_EQ("late", text_at(r.json, "stdout"));
    PASS();
}

TEST a_start_that_outlasts_the_port_timeout_is_a_503_and_goes_on(void)
{
    CLEANUP_REPLY struct reply set =
        call("crawl", "setContainerTimeouts", "[{\"portReadyTimeoutMS\": 10000}]");
    ASSERT_EQ(200, set.status);
    ORDER("{\"on\": \"start\", \"do\": \"delay\", \"ms\": 15000, \"times\": 1,"
          " \"sandbox\": \"crawl\"}");
    int fd = begin("crawl", "exec", "[\"true\"]");
    ASSERT(becomes_pending("port-timeout", "crawl"));
    CLEANUP_REPLY struct reply ten = advance("10s");
    CLEANUP_REPLY struct reply r = read_reply(fd);
    close(fd);
    ASSERT_EQ(503, r.status);
    ASSERT(strstr(text_at(r.json, "context.error"), "Container startup timeout"));
    CLEANUP_REPLY struct reply five = advance("5s");
    CLEANUP_REPLY struct reply next = call("crawl", "exec", "[\"echo up\"]");
    ASSERT_STR_EQ("up", text_at(next.json, "stdout"));
    ASSERT_EQm("it is the same container", 1, events_of("container.starting", "crawl"));
    PASS();
}

/* --- Calls ------------------------------------------------------------------------------------ */

TEST a_crash_interrupts_the_call_and_loses_the_files(void)
{
    CLEANUP_REPLY struct reply w = call("crash", "writeFile", "[\"/workspace/a\", \"x\"]");
    ASSERT_EQ(200, w.status);
    ORDER("{\"on\": \"exec\", \"do\": \"crash\", \"exitCode\": 7, \"times\": 1,"
          " \"sandbox\": \"crash\"}");
    CLEANUP_REPLY struct reply r = call("crash", "exec", "[\"sleep 60\"]");
    ASSERT_EQ(409, r.status);
    ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(r.json, "code"));
    CLEANUP_REPLY struct reply stop = post(&emulator, "/cdn-cgi/local/sandboxes/crash/stop", "");
    CLEANUP_REPLY struct reply state = call("crash", "getState", "[]");
    ASSERT_STR_EQ("stopped_with_code", text_at(state.json, "status"));
    ASSERT_EQ(7, number_at(state.json, "exitCode"));
    CLEANUP_REPLY struct reply gone = call("crash", "readFile", "[\"/workspace/a\"]");
    ASSERT_EQ(404, gone.status);
    ASSERTm(keep(gone.body), strstr(text_at(gone.json, "hint"), "existed until"));
    PASS();
}

TEST running_out_of_memory_ends_the_container_with_137(void)
{
    CLEANUP_REPLY struct reply first = call("hog", "exec", "[\"true\"]");
    ORDER("{\"on\": \"exec\", \"do\": \"oom\", \"times\": 1, \"sandbox\": \"hog\"}");
    CLEANUP_REPLY struct reply r = call("hog", "exec", "[\"sleep 60\"]");
    ASSERT_EQ(409, r.status);
    ASSERT_EQ(1, events_of("container.oom", "hog"));
    CLEANUP_REPLY struct reply stop = post(&emulator, "/cdn-cgi/local/sandboxes/hog/stop", "");
    CLEANUP_REPLY struct reply state = call("hog", "getState", "[]");
    ASSERT_EQ(137, number_at(state.json, "exitCode"));
    PASS();
}

TEST a_container_that_ends_already_does_not_run_out_of_memory_as_well(void)
{
    struct emulator other = {0};
    static const char *const extra[] = {"--stop-grace=1s", NULL};
    ASSERT_EQ(0, emulator_start(&other, extra));
    CLEANUP_REPLY struct reply order =
        post(&other, "/cdn-cgi/local/faults", "{\"on\": \"exec\", \"do\": \"oom\", \"ms\": 60000}");
    CLEANUP_REPLY struct reply used =
        post(&other, "/sandbox/late/exec?sleepAfter=30s",
             "[\"trap '' TERM; (while :; do sleep 0.1; done) & trap - TERM\"]");
    ASSERT_EQ(200, used.status);
    CLEANUP_REPLY struct reply moved =
        post(&other, "/cdn-cgi/local/clock/advance", "{\"by\": \"10m\"}");
    ASSERT(strstr(moved.body, "slept: idle for 30s"));
    CLEANUP_REPLY struct reply events = get(&other, "/cdn-cgi/local/events?type=container.oom");
    ASSERT_STR_EQ("", events.body);
    emulator_stop(&other);
    emulator_clean(&other);
    PASS();
}

TEST a_container_that_is_replaced_interrupts_the_call_and_the_next_is_fresh(void)
{
    CLEANUP_REPLY struct reply first = call("swap", "exec", "[\"cd /tmp\"]");
    ORDER("{\"on\": \"exec\", \"do\": \"replace\", \"ms\": 5000, \"times\": 1,"
          " \"sandbox\": \"swap\"}");
    int fd = begin("swap", "exec", "[\"sleep 60\"]");
    ASSERT(becomes_pending("fault", "swap"));
    CLEANUP_REPLY struct reply five = advance("5s");
    ASSERT(json_is_true(at(five.json, "settled")));
    CLEANUP_REPLY struct reply r = read_reply(fd);
    close(fd);
    ASSERT_EQ(409, r.status);
    ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(r.json, "code"));
    ASSERT_STR_EQ("runtime_replaced", text_at(r.json, "context.reason"));
    CLEANUP_REPLY struct reply next = call("swap", "exec", "[\"pwd\"]");
    ASSERT_STR_EQ("/workspace", text_at(next.json, "stdout"));
    PASS();
}

TEST a_slow_command_waits_for_the_clock(void)
{
    CLEANUP_REPLY struct reply first = call("lag", "exec", "[\"true\"]");
    ORDER("{\"on\": \"exec\", \"do\": \"delay\", \"ms\": 30000, \"times\": 1,"
          " \"sandbox\": \"lag\"}");
    int fd = begin("lag", "exec", "[\"echo done\"]");
    ASSERT(becomes_pending("delay", "lag"));
    CLEANUP_REPLY struct reply other = call("lag", "readFile", "[\"/etc/hostname\"]");
    ASSERT_EQm("others are not held up", 200, other.status);
    CLEANUP_REPLY struct reply half = advance("30s");
    CLEANUP_REPLY struct reply r = read_reply(fd);
    close(fd);
    ASSERT_STR_EQ("done", text_at(r.json, "stdout"));
    PASS();
}

TEST a_full_disk_is_no_space_and_writes_nothing(void)
{
    ORDER("{\"on\": \"write\", \"do\": \"enospc\", \"times\": 2, \"sandbox\": \"full\"}");
    CLEANUP_REPLY struct reply r = call("full", "writeFile", "[\"/workspace/a\", \"x\"]");
    ASSERT_EQ(500, r.status);
    ASSERT_STR_EQ("NO_SPACE", text_at(r.json, "code"));
    ASSERT_STR_EQ("/workspace/a", text_at(r.json, "context.path"));
    CLEANUP_REPLY struct reply api =
        request(&emulator, "POST", "/api/file/write", "X-Sandbox-Id: full\r\n",
                "{\"path\": \"/workspace/a\", \"content\": \"x\"}");
    ASSERT_EQ(500, api.status);
    ASSERT_STR_EQ("FILESYSTEM_ERROR", text_at(api.json, "code"));
    CLEANUP_REPLY struct reply there = call("full", "exists", "[\"/workspace/a\"]");
    ASSERT(json_is_false(at(there.json, "exists")));
    PASS();
}

TEST a_refused_port_is_a_502(void)
{
    ORDER("{\"on\": \"port\", \"do\": \"refuse\", \"times\": 1, \"sandbox\": \"web\"}");
    CLEANUP_REPLY struct reply up = call("web", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply r = call("web", "containerFetch", "[\"http://localhost/\", 8080]");
    ASSERT_EQ(1, events_of("fault.fired", "web"));
    ASSERT_EQm(keep(r.body), 502, r.status);
    ASSERTm(keep(r.body), strstr(r.body, "not listening"));
    PASS();
}

TEST a_reset_forgets_faults_and_answers_whoever_waits_for_one(void)
{
    CLEANUP_REPLY struct reply first = call("end", "exec", "[\"true\"]");
    ORDER("{\"on\": \"exec\", \"do\": \"delay\", \"ms\": 3600000, \"sandbox\": \"end\"}");
    ORDER("{\"on\": \"start\", \"do\": \"delay\", \"ms\": 3600000, \"sandbox\": \"begin\"}");
    int held = begin("end", "exec", "[\"true\"]");
    int starting = begin("begin", "exec", "[\"true\"]");
    ASSERT(becomes_pending("delay", "end"));
    ASSERT(becomes_pending("ready", "begin"));
    CLEANUP_REPLY struct reply reset = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT_EQ(200, reset.status);
    CLEANUP_REPLY struct reply a = read_reply(held);
    CLEANUP_REPLY struct reply b = read_reply(starting);
    close(held);
    close(starting);
    ASSERT_EQ(503, a.status);
    ASSERT_EQ(503, b.status);
    CLEANUP_REPLY struct reply list = get(&emulator, "/cdn-cgi/local/faults");
    ASSERT_EQ(0, (int)json_array_size(at(list.json, "faults")));
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    ASSERT_EQ(0, (int)json_array_size(at(clock.json, "pending")));
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "");
    CLEANUP_REPLY struct reply next = call("end", "exec", "[\"echo fine\"]");
    ASSERT_STR_EQ("fine", text_at(next.json, "stdout"));
    PASS();
}

SUITE(faults)
{
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "");
    RUN_TEST(an_order_that_makes_no_sense_is_refused_with_what_is_allowed);
    RUN_TEST(faults_are_listed_counted_and_removed);
    RUN_TEST(the_command_orders_lists_and_removes_them);
    RUN_TEST(no_instance_is_a_503_that_may_be_tried_again);
    RUN_TEST(max_instances_says_its_own_reason);
    RUN_TEST(a_crash_at_the_start_is_a_503_and_tells_its_exit_code);
    RUN_TEST(too_little_memory_at_the_start_is_a_500_for_good);
    RUN_TEST(a_port_that_does_not_answer_yet_is_a_503);
    RUN_TEST(a_slow_start_waits_for_the_clock);
    RUN_TEST(a_start_that_outlasts_the_port_timeout_is_a_503_and_goes_on);
    RUN_TEST(a_crash_interrupts_the_call_and_loses_the_files);
    RUN_TEST(running_out_of_memory_ends_the_container_with_137);
    RUN_TEST(a_container_that_ends_already_does_not_run_out_of_memory_as_well);
    RUN_TEST(a_container_that_is_replaced_interrupts_the_call_and_the_next_is_fresh);
    RUN_TEST(a_slow_command_waits_for_the_clock);
    RUN_TEST(a_full_disk_is_no_space_and_writes_nothing);
    RUN_TEST(a_refused_port_is_a_502);
    RUN_TEST(a_reset_forgets_faults_and_answers_whoever_waits_for_one);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, faults);
    GREATEST_MAIN_END();
}
