/* What was left behind, and what it would have cost: GET /cdn-cgi/local/report. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static struct reply report(void)
{
    return get(&emulator, "/cdn-cgi/local/report");
}

static double real_at(const json_t *json, const char *path)
{
    return json_number_value(at(json, path));
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static int control(const char *path, const char *body)
{
    char whole[160];
    snprintf(whole, sizeof whole, "/cdn-cgi/local/%s", path);
    CLEANUP_REPLY struct reply reply = post(&emulator, whole, body);
    return reply.status;
}

TEST a_fresh_emulator_has_nothing_to_report(void)
{
    CLEANUP_REPLY struct reply empty = report();
    ASSERT_EQ(200, empty.status);
    ASSERT(json_is_true(at(empty.json, "clean")));
    ASSERT_EQ(0, (int)number_at(empty.json, "usage.containers"));
    ASSERT(near(0, real_at(empty.json, "usage.costUsd.atMost")));
    PASS();
}

TEST a_sandbox_that_was_only_configured_is_no_leak(void)
{
    CLEANUP_REPLY struct reply set = post(&emulator, "/sandbox/idle/setKeepAlive", "[true]");
    ASSERT_EQ(200, set.status);
    CLEANUP_REPLY struct reply now = report();
    ASSERT(json_is_true(at(now.json, "clean")));
    PASS();
}

TEST a_leak_tells_its_state_processes_and_ports(void)
{
    CLEANUP_REPLY struct reply start =
        post(&emulator, "/sandbox/box/startProcess", "[\"sleep 1000\"]");
    ASSERT_EQ(200, start.status);
    CLEANUP_REPLY struct reply done = post(&emulator, "/sandbox/box/startProcess", "[\"true\"]");
    char path[160];
    snprintf(path, sizeof path, "/sandbox/box/waitForExit");
    char body[128];
    snprintf(body, sizeof body, "[\"%s\"]", text_at(done.json, "id"));
    CLEANUP_REPLY struct reply waited = post(&emulator, path, body);
    CLEANUP_REPLY struct reply now = report();
    ASSERT(json_is_false(at(now.json, "clean")));
    ASSERT_EQ(1, (int)json_array_size(at(now.json, "leaks")));
    ASSERT_STR_EQ("box", text_at(now.json, "leaks.0.id"));
    ASSERT_STR_EQ("Sandbox", text_at(now.json, "leaks.0.class"));
    ASSERT_STR_EQ("healthy", text_at(now.json, "leaks.0.state"));
    ASSERT_EQm("one has ended", 1, (int)number_at(now.json, "processes"));
    ASSERT_STR_EQ("sleep 1000", text_at(now.json, "leaks.0.processes.0.command"));
    CLEANUP_REPLY struct reply one = get(&emulator, "/cdn-cgi/local/sandboxes/box");
    ASSERT_STR_EQ("healthy", text_at(one.json, "state"));
    PASS();
}

TEST ports_of_the_registry_are_told(void)
{
    char host[256], url[256];
    CLEANUP_REPLY struct reply one = get(&emulator, "/cdn-cgi/local/sandboxes/box");
    snprintf(url, sizeof url, "%s", text_at(one.json, "containerUrl"));
    ASSERT_EQ(0, strncmp(url, "http://", 7));
    snprintf(host, sizeof host, "Host: %s\r\n", url + 7);
    char request_text[512];
    const char *body = "{\"port\": 8080}";
    int size = snprintf(request_text, sizeof request_text,
                        "POST /api/expose-port HTTP/1.1\r\n%sContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                        host, strlen(body), body);
    CLEANUP_REPLY struct reply exposed = raw(&emulator, request_text, (size_t)size, 10000);
    ASSERT_EQm(keep(exposed.body ? exposed.body : ""), 200, exposed.status);
    CLEANUP_REPLY struct reply now = report();
    ASSERT_EQ(1, (int)number_at(now.json, "ports"));
    ASSERT_EQ(8080, (int)number_at(now.json, "leaks.0.ports.0"));
    PASS();
}

TEST sleep_ends_the_cost_but_is_no_destroy(void)
{
    ASSERT_EQ(200, control("clock/freeze", ""));
    CLEANUP_REPLY struct reply before = report();
    ASSERT_EQ(200, control("clock/advance", "{\"by\": \"10m\"}"));
    ASSERT_EQ(200, control("clock/advance", "{\"by\": \"30d\"}"));
    CLEANUP_REPLY struct reply now = report();
    long long grown =
        number_at(now.json, "usage.activeMs") - number_at(before.json, "usage.activeMs");
    ASSERTm("at most sleepAfter", grown > 0 && grown <= 600000);
    ASSERT_STR_EQ("stopped", text_at(now.json, "leaks.0.state"));
    ASSERT_EQ(0, (int)number_at(now.json, "processes"));
    ASSERT_EQ(0, (int)number_at(now.json, "ports"));
    CLEANUP_REPLY struct reply gone = post(&emulator, "/sandbox/box/destroy", "[]");
    CLEANUP_REPLY struct reply after = report();
    ASSERT(json_is_true(at(after.json, "clean")));
    PASS();
}

TEST a_container_costs_what_the_price_list_says(void)
{
    ASSERT_EQ(200, control("reset", ""));
    ASSERT_EQ(200, control("clock/freeze", ""));
    CLEANUP_REPLY struct reply before = report();
    CLEANUP_REPLY struct reply awake = post(&emulator, "/sandbox/day/setKeepAlive", "[true]");
    CLEANUP_REPLY struct reply exec = post(&emulator, "/sandbox/day/exec", "[\"true\"]");
    ASSERT_EQ(200, exec.status);
    ASSERT_EQ(200, control("clock/advance", "{\"by\": \"1h\"}"));
    CLEANUP_REPLY struct reply gone = post(&emulator, "/sandbox/day/destroy", "[]");
    CLEANUP_REPLY struct reply now = report();
    ASSERT_EQ(3600000,
              number_at(now.json, "usage.activeMs") - number_at(before.json, "usage.activeMs"));
    ASSERT_STR_EQ("lite", text_at(now.json, "usage.classes.0.instanceType"));
    static const struct {
        const char *path;
        double hour;
    } rows[] = {
        {"usage.costUsd.cpuAtMost", 3600 * 0.0625 * 0.000020},
        {"usage.costUsd.memory", 3600 * 0.25 * 0.0000025},
        {"usage.costUsd.disk", 3600 * 2 * 0.00000007},
    };
    double sum = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double cost = real_at(now.json, rows[i].path) - real_at(before.json, rows[i].path);
        ASSERTm(rows[i].path, near(rows[i].hour, cost));
        sum += real_at(now.json, rows[i].path);
    }
    ASSERT(near(sum, real_at(now.json, "usage.costUsd.atMost")));
    PASS();
}

TEST a_reset_forgets_leaks_but_not_what_was_used(void)
{
    CLEANUP_REPLY struct reply exec = post(&emulator, "/sandbox/left/exec", "[\"true\"]");
    CLEANUP_REPLY struct reply before = report();
    ASSERT(json_is_false(at(before.json, "clean")));
    ASSERT_EQ(200, control("reset", ""));
    CLEANUP_REPLY struct reply now = report();
    ASSERT(json_is_true(at(now.json, "clean")));
    ASSERT_EQ(number_at(before.json, "usage.containers"), number_at(now.json, "usage.containers"));
    ASSERT(number_at(now.json, "usage.activeMs") >= number_at(before.json, "usage.activeMs"));
    PASS();
}

SUITE(report_suite)
{
    RUN_TEST(a_fresh_emulator_has_nothing_to_report);
    RUN_TEST(a_sandbox_that_was_only_configured_is_no_leak);
    RUN_TEST(a_leak_tells_its_state_processes_and_ports);
    RUN_TEST(ports_of_the_registry_are_told);
    RUN_TEST(sleep_ends_the_cost_but_is_no_destroy);
    RUN_TEST(a_container_costs_what_the_price_list_says);
    RUN_TEST(a_reset_forgets_leaks_but_not_what_was_used);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, report_suite);
    GREATEST_MAIN_END();
}
