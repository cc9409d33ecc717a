/* POST /api/execute/stream: the output of a command as events while it runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "greatest.h"
#include "sse_client.h"
#include "support.h"

enum { PATIENCE_MS = 20000 };

static struct emulator emulator;
static char host[256];

static void open_stream(struct sse *sse, const char *body)
{
    sse_open(sse, &emulator, "POST", "/api/execute/stream", host, body);
}

/* All events, times replaced by T; in a buffer of its own for each call. */
static char *events_of(const char *body)
{
    CLEANUP_SSE struct sse sse;
    open_stream(&sse, body);
    return sse_all(&sse, PATIENCE_MS);
}

static struct reply execute(const char *body)
{
    return request(&emulator, "POST", "/api/execute", host, body);
}

static bool has_file(void *path)
{
    char body[256];
    snprintf(body, sizeof body, "{\"command\":\"test -e %s\",\"sessionId\":\"look\"}",
             (const char *)path);
    CLEANUP_REPLY struct reply reply = execute(body);
    return number_at(reply.json, "exitCode") == 0;
}

#define FREED __attribute__((cleanup(free_text))) char *
static void free_text(char **text)
{
    free(*text);
}

TEST the_events_are_those_of_the_original(void)
{
    CLEANUP_SSE struct sse sse;
    open_stream(&sse, "{\"command\":\"echo x; echo y\"}");
    ASSERT_EQ(200, sse.status);
    ASSERT(strcasestr(sse.head, "content-type: text/event-stream\r\n"));
    ASSERT(strcasestr(sse.head, "cache-control: no-cache\r\n"));
    FREED all = sse_all(&sse, PATIENCE_MS);
    ASSERT_STR_EQ("{\"type\":\"start\",\"command\":\"echo x; echo y\",\"timestamp\":\"T\"}\n"
                  "{\"type\":\"stdout\",\"data\":\"x\\n\",\"timestamp\":\"T\"}\n"
                  "{\"type\":\"stdout\",\"data\":\"y\\n\",\"timestamp\":\"T\"}\n"
                  "{\"type\":\"complete\",\"exitCode\":0,\"timestamp\":\"T\"}\n",
                  all);
    ASSERT(sse.ended);
    PASS();
}

TEST a_line_comes_when_it_is_printed_not_when_the_command_ends(void)
{
    CLEANUP_SSE struct sse sse;
    open_stream(&sse, "{\"command\":\"echo first; until test -e /tmp/go; do sleep 0.01; done; "
                      "echo >&2 second\"}");
    ASSERT_STR_EQ("start", text_at(sse_json(&sse, PATIENCE_MS), "type"));
    ASSERT_STR_EQ("first\n", text_at(sse_json(&sse, PATIENCE_MS), "data"));
    CLEANUP_REPLY struct reply go = execute("{\"command\":\"touch /tmp/go\"}");
    ASSERT_EQ(0, number_at(go.json, "exitCode")); /* the session is free meanwhile */
    const json_t *second = sse_json(&sse, PATIENCE_MS);
    ASSERT_STR_EQ("stderr", text_at(second, "type"));
    ASSERT_STR_EQ("second\n", text_at(second, "data"));
    ASSERT_EQ(0, number_at(sse_json(&sse, PATIENCE_MS), "exitCode"));
    PASS();
}

TEST exit_and_a_missing_directory_complete(void)
{
    FREED quit = events_of("{\"command\":\"echo a; exit 7; echo b\"}");
    ASSERT(strstr(quit, "{\"type\":\"complete\",\"exitCode\":7,"));
    ASSERT_FALSE(strstr(quit, "\"b"));
    FREED nowhere = events_of("{\"command\":\"echo no\",\"cwd\":\"/non'exist\"}");
    ASSERT_STR_EQ("{\"type\":\"start\",\"command\":\"echo no\",\"timestamp\":\"T\"}\n"
                  "{\"type\":\"stderr\",\"data\":\"Failed to change directory to "
                  "'/non'exist'\\n\",\"timestamp\":\"T\"}\n"
                  "{\"type\":\"complete\",\"exitCode\":1,\"timestamp\":\"T\"}\n",
                  nowhere);
    FREED quote = events_of("{\"command\":\"echo 'abc\"}");
    ASSERT(strstr(quote, "unexpected EOF while looking for matching"));
    ASSERT(strstr(quote, "{\"type\":\"complete\",\"exitCode\":2,"));
    FREED unknown = events_of("{\"command\":\"nosuchcmd\"}");
    ASSERT(strstr(unknown, "nosuchcmd: command not found"));
    ASSERT(strstr(unknown, "\"exitCode\":127"));
    FREED division = events_of("{\"command\":\"echo $((1/0)); echo after\"}");
    ASSERT(strstr(division, "\"exitCode\":1"));
    FREED replaced = events_of("{\"command\":\"exec sh -c 'echo sh; exit 9'\"}");
    ASSERT(strstr(replaced, "\"data\":\"sh\\n\""));
    ASSERT(strstr(replaced, "\"exitCode\":9"));
    PASS();
}

TEST a_blank_command_is_refused_before_any_event(void)
{
    static const char *const bodies[] = {"{\"command\":\"\"}", "{\"command\":\" \\n\"}", "{}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        CLEANUP_REPLY struct reply reply =
            request(&emulator, "POST", "/api/execute/stream", host, bodies[i]);
        ASSERT_EQ(400, reply.status);
        ASSERT_STR_EQ("INVALID_COMMAND", text_at(reply.json, "code"));
    }
    PASS();
}

TEST it_sees_its_session_and_changes_nothing_of_it(void)
{
    CLEANUP_REPLY struct reply set =
        execute("{\"command\":\"cd /tmp; export V=1; f() { echo f$V$W; }\",\"sessionId\":\"S\"}");
    FREED seen = events_of("{\"command\":\"f; pwd; cd /; V=2; export X=3\",\"sessionId\":\"S\","
                           "\"env\":{\"W\":\"a 'b' $c\",\"N\":null},\"cwd\":\"/usr\"}");
    ASSERT(strstr(seen, "\"data\":\"f1a 'b' $c\\n\""));
    ASSERT(strstr(seen, "\"data\":\"/usr\\n\""));
    CLEANUP_REPLY struct reply after =
        execute("{\"command\":\"echo $PWD $V [$X] [$W]; jobs; wait\",\"sessionId\":\"S\"}");
    ASSERT_STR_EQ("/tmp 1 [] []", text_at(after.json, "stdout"));
    PASS();
}

TEST set_e_of_the_session_holds_and_the_end_is_still_told(void)
{
    CLEANUP_REPLY struct reply set = execute("{\"command\":\"set -e\",\"sessionId\":\"E\"}");
    FREED seen = events_of("{\"command\":\"echo a; false; echo b\",\"sessionId\":\"E\"}");
    ASSERT(strstr(seen, "\"data\":\"a\\n\""));
    ASSERT_FALSE(strstr(seen, "\"data\":\"b\\n\""));
    ASSERT(strstr(seen, "\"exitCode\":1"));
    CLEANUP_REPLY struct reply alive = execute("{\"command\":\"echo ok\",\"sessionId\":\"E\"}");
    ASSERT_STR_EQ("ok", text_at(alive.json, "stdout"));
    PASS();
}

TEST a_last_line_without_newline_gets_one_and_nuls_are_dropped(void)
{
    FREED seen =
        events_of("{\"command\":\"printf 'a\\\\0b\\\\n\\\\nnonl'; printf '\\\\xff\\\\r' >&2\"}");
    ASSERT(strstr(seen, "\"data\":\"ab\\n\""));
    ASSERT(strstr(seen, "\"stdout\",\"data\":\"\\n\""));
    ASSERT(strstr(seen, "\"data\":\"nonl\\n\""));
    ASSERT(strstr(seen, "\"data\":\"\xef\xbf\xbd\\r\\n\""));
    PASS();
}

TEST without_a_session_chunks_come_as_they_were_written(void)
{
    /* The program, not bash's own printf, which writes line by line. */
    FREED seen =
        events_of("{\"command\":\"env printf 'a\\\\nb'; until test -e /tmp/on; do sleep 0.01; "
                  "touch /tmp/on; done; printf hidden >&2\","
                  "\"sessionId\":\"__DISABLE_SESSION__\"}");
    ASSERT(strstr(seen, "\"data\":\"a\\nb\""));
    ASSERT(strstr(seen, "\"data\":\"hidden\""));
    ASSERT(strstr(seen, "\"exitCode\":0"));
    CLEANUP_REPLY struct reply nowhere =
        request(&emulator, "POST", "/api/execute/stream", host,
                "{\"command\":\"pwd\",\"cwd\":\"/nope\",\"sessionId\":\"__DISABLE_SESSION__\"}");
    ASSERT_EQ(500, nowhere.status);
    ASSERT_STR_EQ("STREAM_START_ERROR", text_at(nowhere.json, "code"));
    ASSERT(strstr(text_at(nowhere.json, "message"), "ENOENT"));
    PASS();
}

TEST a_background_job_that_keeps_the_output_does_not_hold_the_end(void)
{
    long long before = test_ms();
    FREED seen = events_of("{\"command\":\"sleep 4321 & echo done\"}");
    ASSERT(strstr(seen, "\"data\":\"done\\n\""));
    ASSERT(strstr(seen, "\"exitCode\":0"));
    ASSERT(test_ms() - before < 5000);
    CLEANUP_REPLY struct reply end = execute("{\"command\":\"pkill -f 'sleep 4321'\"}");
    PASS();
}

TEST three_hundred_thousand_lines_come_whole_and_in_order(void)
{
    CLEANUP_SSE struct sse sse;
    open_stream(&sse, "{\"command\":\"seq 1 300000\"}");
    const char *event;
    long lines = 0, wrong = 0, code = -1;
    while ((event = sse_next(&sse, PATIENCE_MS))) {
        long value;
        if (sscanf(event, "{\"type\":\"stdout\",\"data\":\"%ld\\n\"", &value) == 1)
            wrong += value != ++lines;
        sscanf(event, "{\"type\":\"complete\",\"exitCode\":%ld", &code);
    }
    ASSERT_EQ(300000, lines);
    ASSERT_EQ(0, wrong);
    ASSERT_EQ(0, code);
    PASS();
}

TEST a_line_of_20_megabytes_is_one_event(void)
{
    CLEANUP_SSE struct sse sse;
    open_stream(&sse,
                "{\"command\":\"head -c 20000000 /dev/zero | tr '\\\\0' x; echo; echo last\"}");
    sse_next(&sse, PATIENCE_MS);
    const json_t *line = sse_json(&sse, PATIENCE_MS);
    const json_t *data = at(line, "data");
    ASSERT_EQ(20000001, json_string_length(data));
    ASSERT_EQ(20000000, strspn(json_string_value(data), "x"));
    ASSERT_STR_EQ("last\n", text_at(sse_json(&sse, PATIENCE_MS), "data"));
    ASSERT_EQ(0, number_at(sse_json(&sse, PATIENCE_MS), "exitCode"));
    PASS();
}

struct counter {
    long long last, since;
};

static long long produced(void)
{
    CLEANUP_REPLY struct reply reply =
        execute("{\"command\":\"cat /tmp/produced\",\"sessionId\":\"look\"}");
    return strtoll(text_at(reply.json, "stdout"), NULL, 10);
}

static bool stands_still(void *arg)
{
    struct counter *counter = arg;
    long long now = produced();
    if (now != counter->last)
        counter->since = test_ms();
    counter->last = now;
    return now > 0 && test_ms() - counter->since > 300;
}

/* The producer counts what it got rid of: it must come to a halt, and nothing may be lost later. */
TEST a_client_that_stops_reading_stops_the_command_and_loses_nothing(void)
{
    CLEANUP_SSE struct sse sse;
    open_stream(&sse,
                "{\"command\":\"p=$(printf %01000d 0); for ((i = 1; i <= 30000; i++)); do echo "
                "$i $p; ((i % 100)) || echo $i >/tmp/produced; done\"}");
    sse_next(&sse, PATIENCE_MS);
    struct counter counter = {0};
    long before = emulator_memory(&emulator, "VmRSS");
    ASSERT(eventually(stands_still, &counter, PATIENCE_MS));
    ASSERT(counter.last < 12000); /* what the sockets between us take is some of it */
    ASSERT(emulator_memory(&emulator, "VmRSS") - before < 24 * 1024 * MEMORY_FACTOR);
    const char *event;
    long lines = 0, wrong = 0;
    while ((event = sse_next(&sse, PATIENCE_MS))) {
        long value;
        if (sscanf(event, "{\"type\":\"stdout\",\"data\":\"%ld ", &value) == 1)
            wrong += value != ++lines;
    }
    ASSERT_EQ(30000, lines);
    ASSERT_EQ(0, wrong);
    PASS();
}

TEST a_client_that_leaves_does_not_end_the_command(void)
{
    struct sse sse;
    open_stream(&sse, "{\"command\":\"echo a; sleep 0.2; seq 1 200000; touch /tmp/survived\"}");
    sse_next(&sse, PATIENCE_MS);
    sse_close(&sse);
    ASSERT(eventually(has_file, "/tmp/survived", PATIENCE_MS));
    PASS();
}

TEST a_flood_without_newline_and_reader_stays_bounded(void)
{
    struct sse sse;
    open_stream(&sse,
                "{\"command\":\"head -c 300000000 /dev/zero | tr '\\\\0' x; touch /tmp/flooded\"}");
    sse_next(&sse, PATIENCE_MS);
    sse_close(&sse);
    ASSERT(eventually(has_file, "/tmp/flooded", 60000));
    ASSERT(emulator_memory(&emulator, "VmHWM") < 160 * 1024 * MEMORY_FACTOR);
    PASS();
}

TEST a_streamed_command_is_a_listed_process(void)
{
    CLEANUP_SSE struct sse sse;
    open_stream(&sse, "{\"command\":\"sleep 777\"}");
    ASSERT_STR_EQ("start", text_at(sse_json(&sse, PATIENCE_MS), "type"));
    CLEANUP_REPLY struct reply list =
        request(&emulator, "GET", "/api/process/list?status=running", host, NULL);
    /* The newest; one whose client left before may still run. */
    const json_t *all = at(list.json, "processes");
    const json_t *listed = json_array_get(all, json_array_size(all) - 1);
    ASSERT_STR_EQ("sleep 777", text_at(listed, "command"));
    ASSERT_EQ(0, strncmp(text_at(listed, "id"), "proc_", 5));
    char path[128];
    snprintf(path, sizeof path, "/api/process/%s", text_at(listed, "id"));
    CLEANUP_REPLY struct reply killed = request(&emulator, "DELETE", path, host, NULL);
    ASSERT_EQ(200, killed.status);
    FREED rest = sse_all(&sse, PATIENCE_MS); /* bash may say "Terminated" first */
    ASSERT(strstr(rest, "{\"type\":\"complete\",\"exitCode\":143,"));
    PASS();
}

TEST the_worker_streams_too(void)
{
    CLEANUP_SSE struct sse sse;
    sse_open(&sse, &emulator, "POST", "/sandbox/worker-stream/execStream", NULL,
             "[\"echo $A; exit 3\", {\"env\": {\"A\": \"b\"}}]");
    FREED all = sse_all(&sse, PATIENCE_MS);
    ASSERT(strstr(all, "\"data\":\"b\\n\"") && strstr(all, "\"exitCode\":3"));
    CLEANUP_SSE struct sse api;
    sse_open(&api, &emulator, "POST", "/api/execStream", NULL,
             "{\"command\": [\"echo\", \"words\"]}");
    FREED words = sse_all(&api, PATIENCE_MS);
    ASSERT(strstr(words, "\"data\":\"words\\n\""));
    CLEANUP_REPLY struct reply blank = post(&emulator, "/api/execStream", "{\"command\": \" \"}");
    ASSERT_EQ(500, blank.status);
    ASSERT_STR_EQ("COMMAND_EXECUTION_ERROR", text_at(blank.json, "code"));
    PASS();
}

TEST a_container_that_goes_away_ends_the_stream(void)
{
    CLEANUP_SSE struct sse sse;
    sse_open(&sse, &emulator, "POST", "/sandbox/going/execStream", NULL, "[\"sleep 888\"]");
    ASSERT_STR_EQ("start", text_at(sse_json(&sse, PATIENCE_MS), "type"));
    CLEANUP_REPLY struct reply gone = post(&emulator, "/sandbox/going/destroy", "[]");
    ASSERT_EQ(200, gone.status);
    ASSERT_STR_EQ("error", text_at(sse_json(&sse, PATIENCE_MS), "type"));
    ASSERT_FALSE(sse_next(&sse, PATIENCE_MS));
    PASS();
}

SUITE(exec_stream)
{
    snprintf(host, sizeof host, "%s", container_host(&emulator, "stream"));
    RUN_TEST(the_events_are_those_of_the_original);
    RUN_TEST(a_line_comes_when_it_is_printed_not_when_the_command_ends);
    RUN_TEST(exit_and_a_missing_directory_complete);
    RUN_TEST(a_blank_command_is_refused_before_any_event);
    RUN_TEST(it_sees_its_session_and_changes_nothing_of_it);
    RUN_TEST(set_e_of_the_session_holds_and_the_end_is_still_told);
    RUN_TEST(a_last_line_without_newline_gets_one_and_nuls_are_dropped);
    RUN_TEST(without_a_session_chunks_come_as_they_were_written);
    RUN_TEST(a_background_job_that_keeps_the_output_does_not_hold_the_end);
    RUN_TEST(three_hundred_thousand_lines_come_whole_and_in_order);
    RUN_TEST(a_line_of_20_megabytes_is_one_event);
    RUN_TEST(a_client_that_stops_reading_stops_the_command_and_loses_nothing);
    RUN_TEST(a_client_that_leaves_does_not_end_the_command);
    RUN_TEST(a_flood_without_newline_and_reader_stays_bounded);
    RUN_TEST(a_streamed_command_is_a_listed_process);
    RUN_TEST(the_worker_streams_too);
    RUN_TEST(a_container_that_goes_away_ends_the_stream);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, exec_stream);
    GREATEST_MAIN_END();
}
