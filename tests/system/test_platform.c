/* The platform around the containers: how many may run, how long a start takes, how the SDK tries
 * again, where a sandbox is, its labels and timeouts, and whether SDK and image belong together. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { SOON_MS = 5000 };

static struct emulator emulator;

/* --- Helpers ---------------------------------------------------------------------------------- */

/* Each test has an emulator of its own, because their options differ. */
#define START(...)                                                                                 \
    do {                                                                                           \
        const char *const extra_[] = {__VA_ARGS__, NULL};                                          \
        emulator = (struct emulator){0};                                                           \
        ASSERT_EQ(0, emulator_start(&emulator, extra_));                                           \
    } while (0)

#define STOP()                                                                                     \
    do {                                                                                           \
        ASSERT_EQ(0, emulator_stop(&emulator));                                                    \
        emulator_clean(&emulator);                                                                 \
    } while (0)

/* A project with these files: pairs of name and text. */
static char project[64];

static void project_make(const char *const *files)
{
    snprintf(project, sizeof project, "/tmp/sandpit-platform-XXXXXX");
    if (!mkdtemp(project))
        abort();
    for (; *files; files += 2) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", project, files[0]);
        for (char *slash = path + strlen(project) + 1; (slash = strchr(slash, '/')); slash++) {
            *slash = '\0';
            mkdir(path, 0700);
            *slash = '/';
        }
        CLEANUP_FILE FILE *file = fopen(path, "we");
        if (!file || fputs(files[1], file) < 0)
            abort();
    }
}

static int project_drop(const char *path, const struct stat *status, int type, struct FTW *at)
{
    return remove(path);
}

static void project_remove(void)
{
    nftw(project, project_drop, 8, FTW_DEPTH | FTW_PHYS);
}

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

static struct reply call_from(const char *colo, const char *box, const char *arguments)
{
    char path[160], header[64];
    snprintf(path, sizeof path, "/sandbox/%s/exec", box);
    snprintf(header, sizeof header, "X-Sandpit-Colo: %s\r\n", colo);
    return request(&emulator, "POST", path, header, arguments);
}

static struct reply shown(const char *box)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    return get(&emulator, path);
}

static struct reply freeze(void)
{
    return post(&emulator, "/cdn-cgi/local/clock/freeze", "");
}

static struct reply advance(const char *by)
{
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%s\"}", by);
    return post(&emulator, "/cdn-cgi/local/clock/advance", body);
}

/* Sends a call and does not wait for its answer. */
static int begin(const char *box, const char *arguments)
{
    char text[512];
    int size = snprintf(text, sizeof text,
                        "POST /sandbox/%s/exec HTTP/1.1\r\nHost: localhost:%d\r\n"
                        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                        box, emulator.port, strlen(arguments), arguments);
    int fd = dial(&emulator);
    if (fd >= 0)
        send_all(fd, text, (size_t)size);
    return fd;
}

static bool is_pending(void *arg)
{
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    const json_t *pending = at(clock.json, "pending");
    for (size_t i = 0; i < json_array_size(pending); i++) {
        if (strcmp(text_at(json_array_get(pending, i), "kind"), arg) == 0)
            return true;
    }
    return false;
}

static bool becomes_pending(char *kind)
{
    return eventually(is_pending, kind, SOON_MS);
}

/* The events of this type, one JSON object in each line; malloc'd. */
static char *events_of(const char *type)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/events?type=%s", type);
    CLEANUP_REPLY struct reply reply = get(&emulator, path);
    return strdup(reply.body ? reply.body : "");
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static int count_events(const char *type)
{
    CLEANUP_FREE char *text = events_of(type);
    return lines_of(text);
}

static int logged(const char *text)
{
    char line[2048];
    int count = 0;
    CLEANUP_FILE FILE *log = fopen(emulator.log, "re");
    while (log && fgets(line, sizeof line, log))
        count += strstr(line, text) != NULL;
    return count;
}

/* --- How many --------------------------------------------------------------------------------- */

TEST more_containers_than_max_instances_are_refused(void)
{
    const char *const files[] = {
        "wrangler.jsonc",
        "{\"containers\": [{\"class_name\": \"Sandbox\", \"max_instances\": 2,"
        " \"image\": \"cloudflare/sandbox:0.12.7-python\"},"
        " {\"class_name\": \"Other\", \"image\": \"cloudflare/sandbox:0.12.7\"}]}",
        NULL};
    char after[16];
    project_make(files);
    START(project);
    CLEANUP_REPLY struct reply frozen = freeze();
    CLEANUP_REPLY struct reply a = call("a", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply minute = advance("1m");
    CLEANUP_REPLY struct reply b = call("b", "exec", "[\"true\"]");
    ASSERT_EQ(200, b.status);
    CLEANUP_REPLY struct reply c = call("c", "exec", "[\"true\"]");
    ASSERT_EQ(503, c.status);
    ASSERT_STR_EQ("CONTAINER_UNAVAILABLE", text_at(c.json, "code"));
    ASSERT_STR_EQ("max_container_instances_exceeded", text_at(c.json, "context.reason"));
    ASSERT(json_is_true(at(c.json, "context.retryable")));
    ASSERT(*text_at(c.json, "context.originalMessage"));
    ASSERT_STR_EQ("10", header_of(&c, "Retry-After", after, sizeof after));
    ASSERTm(keep(c.body), strstr(text_at(c.json, "error"), "2 of class Sandbox run"));
    ASSERTm("the one that was idle longest comes first",
            strstr(text_at(c.json, "hint"), "a (60s), b (0s)"));
    CLEANUP_REPLY struct reply api = request(&emulator, "POST", "/api/execute",
                                             "X-Sandbox-Id: c\r\n", "{\"command\": \"true\"}");
    ASSERT_EQ(503, api.status);
    CLEANUP_REPLY struct reply state = call("c", "getState", "[]");
    ASSERT_STR_EQ("stopped", text_at(state.json, "status"));
    CLEANUP_REPLY struct reply other = post(&emulator, "/sandbox/c/exec?class=Other", "[\"true\"]");
    ASSERT_EQm("each class has its own number", 200, other.status);
    CLEANUP_REPLY struct reply again = call("a", "exec", "[\"true\"]");
    ASSERT_EQm("those that run go on", 200, again.status);
    CLEANUP_REPLY struct reply gone = call("b", "destroy", "[]");
    CLEANUP_REPLY struct reply now = call("c", "exec", "[\"true\"]");
    ASSERT_EQm("one that is destroyed makes room", 200, now.status);
    STOP();
    project_remove();
    PASS();
}

/* --- The SDK's tries -------------------------------------------------------------------------- */

TEST sdk_retries_wait_on_the_clock_as_the_sdk_does(void)
{
    START("--sdk-retries", "on");
    CLEANUP_REPLY struct reply frozen = freeze();
    CLEANUP_REPLY struct reply fault =
        post(&emulator, "/cdn-cgi/local/faults",
             "{\"on\": \"start\", \"do\": \"no-instance\", \"times\": 3}");
    int first = begin("box", "[\"echo one\"]");
    ASSERT(becomes_pending("sdk-retry"));
    int second = begin("box", "[\"echo two\"]");
    CLEANUP_REPLY struct reply three = advance("3s");
    CLEANUP_REPLY struct reply six = advance("6s");
    CLEANUP_REPLY struct reply eleven = advance("11s");
    CLEANUP_REPLY struct reply before = shown("box");
    ASSERT_EQm("after 20 s the third wait is not over", 0, count_events("container.starting"));
    CLEANUP_REPLY struct reply last = advance("1s");
    ASSERT(json_is_true(at(last.json, "settled")));
    CLEANUP_REPLY struct reply a = read_reply(first), b = read_reply(second);
    close(first);
    close(second);
    ASSERT_STR_EQ("one", text_at(a.json, "stdout"));
    ASSERT_STR_EQ("two", text_at(b.json, "stdout"));
    ASSERT_EQ(3, count_events("sdk.retry"));
    STOP();
    PASS();
}

TEST sdk_retries_give_up_when_the_budget_is_spent(void)
{
    START("--sdk-retries", "on");
    CLEANUP_REPLY struct reply frozen = freeze();
    CLEANUP_REPLY struct reply fault =
        post(&emulator, "/cdn-cgi/local/faults", "{\"on\": \"start\", \"do\": \"no-instance\"}");
    int fd = begin("box", "[\"true\"]");
    ASSERT(becomes_pending("sdk-retry"));
    CLEANUP_REPLY struct reply most = advance("2m14s");
    CLEANUP_REPLY struct reply box = shown("box");
    ASSERT_EQm("134 s: it still waits", 1, number_at(box.json, "inflight"));
    CLEANUP_REPLY struct reply rest = advance("1s");
    CLEANUP_REPLY struct reply r = read_reply(fd);
    close(fd);
    ASSERT_EQ(503, r.status);
    ASSERT_STR_EQ("no_container_instance_available", text_at(r.json, "context.reason"));
    CLEANUP_FREE char *waits = events_of("sdk.retry");
    ASSERT_EQm("3, 6, 12, 24, 30, 30, 30", 7, lines_of(waits));
    CLEANUP_REPLY struct reply idle = shown("box");
    ASSERT_EQ(0, number_at(idle.json, "inflight"));
    STOP();
    PASS();
}

TEST an_emulator_ends_while_calls_wait_to_be_tried_again(void)
{
    START("--sdk-retries", "on");
    CLEANUP_REPLY struct reply frozen = freeze();
    CLEANUP_REPLY struct reply fault =
        post(&emulator, "/cdn-cgi/local/faults", "{\"on\": \"start\", \"do\": \"max-instances\"}");
    int fd = begin("box", "[\"true\"]");
    ASSERT(becomes_pending("sdk-retry"));
    STOP();
    close(fd);
    PASS();
}

/* --- Starts ----------------------------------------------------------------------------------- */

TEST a_cold_start_takes_its_time_on_the_clock(void)
{
    START("--cold-start", "1h");
    int fd = begin("cold", "[\"echo up\"]");
    ASSERT(becomes_pending("ready"));
    CLEANUP_REPLY struct reply state = call("cold", "getState", "[]");
    ASSERT_STR_EQ("running", text_at(state.json, "status"));
    CLEANUP_REPLY struct reply set =
        call("cold", "setContainerTimeouts", "[{\"portReadyTimeoutMS\": 600000}]");
    CLEANUP_REPLY struct reply next = post(&emulator, "/cdn-cgi/local/clock/next", "");
    CLEANUP_REPLY struct reply late = read_reply(fd);
    close(fd);
    ASSERT_EQm("after 90 s the SDK does not wait any more", 503, late.status);
    CLEANUP_REPLY struct reply hour = advance("1h");
    CLEANUP_REPLY struct reply up = call("cold", "exec", "[\"echo up\"]");
    ASSERT_STR_EQ("up", text_at(up.json, "stdout"));
    CLEANUP_REPLY struct reply warm = call("cold", "exec", "[\"true\"]");
    ASSERT_EQm("only a start is cold", 200, warm.status);
    ASSERT_EQ(1, count_events("container.coldStart"));
    STOP();
    PASS();
}

TEST a_frozen_clock_skips_the_cold_start_and_says_so(void)
{
    START("--cold-start", "2s");
    CLEANUP_REPLY struct reply frozen = freeze();
    CLEANUP_REPLY struct reply up = call("cold", "exec", "[\"echo up\"]");
    ASSERT_STR_EQ("up", text_at(up.json, "stdout"));
    CLEANUP_FREE char *events = events_of("container.coldStart");
    ASSERTm(keep(events), strstr(events, "\"skipped\":true"));
    STOP();
    PASS();
}

TEST stopping_a_cold_start_leaves_no_timer(void)
{
    START("--cold-start", "1h");
    int fd = begin("cold", "[\"true\"]");
    ASSERT(becomes_pending("ready"));
    CLEANUP_REPLY struct reply stop = post(&emulator, "/cdn-cgi/local/sandboxes/cold/destroy", "");
    ASSERT_EQ(200, stop.status);
    CLEANUP_REPLY struct reply r = read_reply(fd);
    close(fd);
    ASSERT_EQ(503, r.status);
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    ASSERT_EQ(0, (int)json_array_size(at(clock.json, "pending")));
    STOP();
    PASS();
}

/* --- Where ------------------------------------------------------------------------------------ */

TEST the_first_request_pins_the_location_for_good(void)
{
    START("--colo", "weur");
    CLEANUP_REPLY struct reply a = call("home", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply b = call_from("SIN", "away", "[\"true\"]");
    ASSERT_EQ(200, b.status);
    CLEANUP_REPLY struct reply home = shown("home"), away = shown("away");
    ASSERT_STR_EQ("WEUR", text_at(home.json, "location.colo"));
    ASSERT_STR_EQ("SIN", text_at(away.json, "location.colo"));
    ASSERT_STR_EQ("APAC", text_at(away.json, "location.region"));
    CLEANUP_REPLY struct reply far = call("away", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply more = call("away", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply still = shown("away");
    ASSERT_STR_EQ("SIN", text_at(still.json, "location.colo"));
    ASSERT_EQm("told once", 1, count_events("hint.location"));
    ASSERT_EQ(1, logged("but it stays in SIN"));
    CLEANUP_REPLY struct reply gone = call("away", "destroy", "[]");
    const char *const other[] = {"--colo", "IAD", NULL};
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(0, emulator_restart(&emulator, other));
    CLEANUP_REPLY struct reply restarted = shown("away");
    ASSERT_STR_EQm("it survives destroy and restarts", "SIN",
                   text_at(restarted.json, "location.colo"));
    const char *ps[] = {SANDPIT_BINARY, "ps", NULL};
    CLEANUP_FREE char *table = NULL;
    ASSERT_EQ(0, run_command(&emulator, ps, &table, NULL));
    ASSERTm(keep(table), strstr(table, "LOCATION") && strstr(table, "SIN"));
    CLEANUP_REPLY struct reply nowhere = call_from("XYZ", "home", "[\"true\"]");
    ASSERT_EQ(400, nowhere.status);
    ASSERTm("it names the places", strstr(text_at(nowhere.json, "error"), "WEUR, EEUR"));
    STOP();
    PASS();
}

TEST a_request_from_far_away_takes_longer_with_geo_latency(void)
{
    START("--geo-latency");
    CLEANUP_REPLY struct reply near = call_from("SYD", "far", "[\"true\"]");
    ASSERT_EQ(200, near.status);
    long long begun = test_ms();
    CLEANUP_REPLY struct reply far = call_from("GRU", "far", "[\"true\"]");
    ASSERT_EQ(200, far.status);
    ASSERTm("São Paulo to Sydney is 310 ms", test_ms() - begun >= 300);
    CLEANUP_REPLY struct reply frozen = freeze();
    CLEANUP_REPLY struct reply skipped = call_from("GRU", "far", "[\"true\"]");
    ASSERT_EQm("a frozen clock skips the way", 200, skipped.status);
    STOP();
    PASS();
}

TEST a_colo_that_is_not_known_ends_the_start(void)
{
    const char *const extra[] = {"--colo", "Atlantis", NULL};
    emulator = (struct emulator){0};
    ASSERT(emulator_start(&emulator, extra) < 0);
    ASSERT_EQ(1, emulator.status);
    ASSERT_EQ(1, logged("'Atlantis' is no place that is known here: WNAM"));
    emulator_clean(&emulator);
    PASS();
}

/* --- Settings --------------------------------------------------------------------------------- */

TEST labels_are_stored_and_count_from_the_next_start_on(void)
{
    START("--log-level", "warn");
    CLEANUP_REPLY struct reply up = call("tag", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply set = call("tag", "setLabels", "[{\"team\": \"search\"}]");
    ASSERT_EQ(200, set.status);
    ASSERT_EQ(1, logged("the new labels count from its next start on"));
    CLEANUP_REPLY struct reply same =
        call("tag", "configure", "[{\"labels\": {\"team\": \"search\"}}]");
    ASSERT_EQm("the same labels change nothing", 1, count_events("labels.set"));
    CLEANUP_REPLY struct reply stop = call("tag", "stop", "[]");
    CLEANUP_REPLY struct reply again = call("tag", "exec", "[\"true\"]");
    CLEANUP_FREE char *starts = events_of("container.starting");
    ASSERT_EQ(2, lines_of(starts));
    const char *second = strchr(starts, '\n');
    ASSERTm(keep(starts), strstr(second, "\"labels\":{\"team\":\"search\"}"));
    ASSERTm("the first start had none", strstr(starts, "labels") > second);
    CLEANUP_REPLY struct reply bad = call("tag", "setLabels", "[{\"team\": 5}]");
    ASSERT_EQ(500, bad.status);
    ASSERT(strstr(text_at(bad.json, "error"), "label 'team' must be a string"));
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    CLEANUP_REPLY struct reply after = shown("tag");
    ASSERT_STR_EQ("search", text_at(after.json, "labels.team"));
    const char *ps[] = {SANDPIT_BINARY, "ps", NULL};
    CLEANUP_FREE char *table = NULL;
    ASSERT_EQ(0, run_command(&emulator, ps, &table, NULL));
    ASSERTm(keep(table), strstr(table, "team=search"));
    STOP();
    PASS();
}

TEST container_timeouts_have_the_sdks_ranges(void)
{
    static const struct {
        const char *arguments, *says;
    } rows[] = {
        {"[{\"instanceGetTimeoutMS\": 4999}]",
         "instanceGetTimeoutMS must be between 5000-300000ms, got 4999ms"},
        {"[{\"portReadyTimeoutMS\": 600001}]",
         "portReadyTimeoutMS must be between 10000-600000ms, got 600001ms"},
        {"[{\"waitIntervalMS\": 99}]", "waitIntervalMS must be between 100-5000ms, got 99ms"},
        {"[{\"waitIntervalMS\": \"1s\"}]", "waitIntervalMS must be a valid finite number"},
    };
    START("--log-level", "warn");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply bad = call("time", "setContainerTimeouts", rows[i].arguments);
        ASSERT_EQ(500, bad.status);
        ASSERTm(keep(bad.body), strstr(text_at(bad.json, "error"), rows[i].says));
    }
    CLEANUP_REPLY struct reply set =
        call("time", "setContainerTimeouts", "[{\"portReadyTimeoutMS\": 10000}]");
    ASSERT_EQ(200, set.status);
    CLEANUP_REPLY struct reply box = shown("time");
    ASSERT_EQ(10000, number_at(box.json, "containerTimeouts.portReadyTimeoutMS"));
    ASSERT_EQ(30000, number_at(box.json, "containerTimeouts.instanceGetTimeoutMS"));
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    CLEANUP_REPLY struct reply after = shown("time");
    ASSERT_EQ(10000, number_at(after.json, "containerTimeouts.portReadyTimeoutMS"));
    STOP();
    PASS();
}

TEST variables_of_the_worker_set_the_timeouts_or_are_warned_about(void)
{
    const char *const files[] = {"wrangler.jsonc",
                                 "{\"vars\": {\"SANDBOX_PORT_TIMEOUT_MS\": \"20000\","
                                 " \"SANDBOX_INSTANCE_TIMEOUT_MS\": \"5\","
                                 " \"SANDBOX_POLL_INTERVAL_MS\": \"often\"}}",
                                 NULL};
    project_make(files);
    START(project);
    CLEANUP_REPLY struct reply ask = call("env", "getState", "[]");
    CLEANUP_REPLY struct reply box = shown("env");
    ASSERT_EQ(20000, number_at(box.json, "containerTimeouts.portReadyTimeoutMS"));
    ASSERT_EQ(30000, number_at(box.json, "containerTimeouts.instanceGetTimeoutMS"));
    ASSERT_EQ(300, number_at(box.json, "containerTimeouts.waitIntervalMS"));
    ASSERT_EQ(1, logged("5ms is not within 5000-300000ms"));
    ASSERT_EQ(1, logged("\"often\" is not a number"));
    STOP();
    project_remove();
    PASS();
}

TEST the_placement_id_is_known_from_the_first_session_on(void)
{
    START("--log-level", "warn");
    CLEANUP_REPLY struct reply before = call("place", "getContainerPlacementId", "[]");
    ASSERT_STR_EQ("{}", before.body);
    CLEANUP_REPLY struct reply up = call("place", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply none = call("place", "getContainerPlacementId", "[]");
    ASSERT_STR_EQ("{\"placementId\":null}", none.body);
    CLEANUP_REPLY struct reply env =
        call("set", "setEnvVars", "[{\"CLOUDFLARE_PLACEMENT_ID\": \"p-1\"}]");
    CLEANUP_REPLY struct reply run = call("set", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply id = call("set", "getContainerPlacementId", "[]");
    ASSERT_STR_EQ("p-1", text_at(id.json, "placementId"));
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    CLEANUP_REPLY struct reply stored = call("set", "getContainerPlacementId", "[]");
    ASSERT_STR_EQ("p-1", text_at(stored.json, "placementId"));
    STOP();
    PASS();
}

/* --- Versions --------------------------------------------------------------------------------- */

#define CONFIG(IMAGE) "{\"containers\": [{\"class_name\": \"Sandbox\", \"image\": \"" IMAGE "\"}]}"

TEST an_image_of_another_version_than_the_sdk_is_warned_about_once(void)
{
    const char *const files[] = {
        "wrangler.jsonc",
        CONFIG("docker.io/cloudflare/sandbox:0.6.3-python"),
        "package.json",
        "{\"dependencies\": {\"@cloudflare/sandbox\": \"^0.6.0\"}}",
        "package-lock.json",
        "{\"packages\": {\"node_modules/@cloudflare/sandbox\": {\"version\": \"0.7.4\"}}}",
        NULL};
    project_make(files);
    START(project);
    ASSERT_EQm("what is locked counts, not what is wanted", 1,
               logged("the image is of version 0.6.3, but @cloudflare/sandbox is 0.7.4"));
    ASSERT_EQm("the fix keeps the image's kind", 1,
               logged("docker.io/cloudflare/sandbox:0.7.4-python, or run: npm install "
                      "@cloudflare/sandbox@0.6.3"));
    CLEANUP_REPLY struct reply up = call("old", "exec", "[\"echo fine\"]");
    ASSERT_STR_EQm("it is no obstacle", "fine", text_at(up.json, "stdout"));
    CLEANUP_FREE char *events = events_of("version.mismatch");
    ASSERTm(keep(events), strstr(events, "\"sdkVersion\":\"0.7.4\""));
    STOP();
    project_remove();
    PASS();
}

TEST versions_that_belong_together_are_not_talked_about(void)
{
    const char *const files[] = {
        "wrangler.jsonc", CONFIG("cloudflare/sandbox:0.7.6"), "package.json",
        "{\"devDependencies\": {\"@cloudflare/sandbox\": \"~0.7.4\"}}", NULL};
    project_make(files);
    START(project);
    ASSERT_EQ(0, logged("@cloudflare/sandbox"));
    STOP();
    START(project, "--sdk-version", "0.7");
    ASSERT_EQ(0, logged("@cloudflare/sandbox"));
    STOP();
    START(project, "--sdk-version", "0.12");
    ASSERT_EQm("the option comes before the project", 1,
               logged("@cloudflare/sandbox is 0.12 (--sdk-version)"));
    CLEANUP_REPLY struct reply info = get(&emulator, "/cdn-cgi/local/info");
    ASSERT_STR_EQ("0.12", text_at(info.json, "sdkVersion"));
    STOP();
    project_remove();
    PASS();
}

SUITE(platform)
{
    RUN_TEST(more_containers_than_max_instances_are_refused);
    RUN_TEST(sdk_retries_wait_on_the_clock_as_the_sdk_does);
    RUN_TEST(sdk_retries_give_up_when_the_budget_is_spent);
    RUN_TEST(an_emulator_ends_while_calls_wait_to_be_tried_again);
    RUN_TEST(a_cold_start_takes_its_time_on_the_clock);
    RUN_TEST(a_frozen_clock_skips_the_cold_start_and_says_so);
    RUN_TEST(stopping_a_cold_start_leaves_no_timer);
    RUN_TEST(the_first_request_pins_the_location_for_good);
    RUN_TEST(a_request_from_far_away_takes_longer_with_geo_latency);
    RUN_TEST(a_colo_that_is_not_known_ends_the_start);
    RUN_TEST(labels_are_stored_and_count_from_the_next_start_on);
    RUN_TEST(container_timeouts_have_the_sdks_ranges);
    RUN_TEST(variables_of_the_worker_set_the_timeouts_or_are_warned_about);
    RUN_TEST(the_placement_id_is_known_from_the_first_session_on);
    RUN_TEST(an_image_of_another_version_than_the_sdk_is_warned_about_once);
    RUN_TEST(versions_that_belong_together_are_not_talked_about);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP platform: %s\n", missing);
        return 77;
    }
    RUN_SUITE(platform);
    GREATEST_MAIN_END();
}
