/* The clock by HTTP and from the command line (ABUSE.md G6). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static struct reply advance(const char *body)
{
    return post(&emulator, "/cdn-cgi/local/clock/advance", body);
}

static struct reply shown(void)
{
    return get(&emulator, "/cdn-cgi/local/clock");
}

static bool exec_in(const char *box, const char *query)
{
    char path[200];
    snprintf(path, sizeof path, "/sandbox/%s/exec%s", box, query);
    CLEANUP_REPLY struct reply reply = post(&emulator, path, "[\"true\"]");
    return reply.status == 200;
}

static const char *state_of(const char *box)
{
    char path[200];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    CLEANUP_REPLY struct reply reply = get(&emulator, path);
    return keep(text_at(reply.json, "state"));
}

TEST durations_and_times_are_taken_in_every_form(void)
{
    static const struct {
        const char *body, *now;
    } rows[] = {
        {"{\"to\": \"2030-01-01T00:00:00Z\"}", "2030-01-01T00:00:00.000Z"},
        {"{\"by\": \"0s\"}", "2030-01-01T00:00:00.000Z"},
        {"{\"by\": \"90s\"}", "2030-01-01T00:01:30.000Z"},
        {"{\"by\": \"2h30m\"}", "2030-01-01T02:31:30.000Z"},
        {"{\"by\": \"1d1ms\"}", "2030-01-02T02:31:30.001Z"},
        {"{\"to\": \"2030-01-02T02:31:30.001Z\"}", "2030-01-02T02:31:30.001Z"},
        {"{\"to\": \"2030-01-03\"}", "2030-01-03T00:00:00.000Z"},
        {"{\"to\": \"2030-01-03T02:00+01:00\"}", "2030-01-03T01:00:00.000Z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply reply = advance(rows[i].body);
        ASSERT_EQm(rows[i].body, 200, reply.status);
        ASSERT_STR_EQm(rows[i].body, rows[i].now, text_at(reply.json, "now"));
        ASSERT(json_is_true(at(reply.json, "settled")));
    }
    PASS();
}

TEST backwards_overflow_and_nonsense_are_400_and_change_nothing(void)
{
    static const char *const bad[] = {
        "{\"by\": \"-1s\"}",
        "{\"by\": \"\"}",
        "{\"by\": \"10\"}",
        "{\"by\": \"m\"}",
        "{\"by\": \"1m x\"}",
        "{\"by\": \" 1m\"}",
        "{\"by\": \"1.5h\"}",
        "{\"by\": \"9223372036854775808s\"}",
        "{\"by\": \"9223372036854775807ms\"}",
        "{\"by\": \"99999999999999999999999999d\"}",
        "{\"by\": \"101y\"}",
        "{\"by\": 9223372036854775807}",
        "{\"by\": -1}",
        "{\"by\": null}",
        "{\"by\": [\"1m\"]}",
        "{\"to\": \"1999-01-01T00:00:00Z\"}",
        "{\"to\": \"2030-01-03T00:59:59.999Z\"}",
        "{\"to\": \"2031-02-30T00:00:00Z\"}",
        "{\"to\": \"2031-01-01T25:00:00Z\"}",
        "{\"to\": \"99999-01-01T00:00:00Z\"}",
        "{\"to\": 0}",
        "{\"sandbox\": \"x\"}",
        "[]",
        "\"10m\"",
        "{\"by\": \"1m\"",
    };
    CLEANUP_REPLY struct reply before = shown();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CLEANUP_REPLY struct reply reply = advance(bad[i]);
        ASSERT_EQm(bad[i], 400, reply.status);
        ASSERTm(bad[i], *text_at(reply.json, "code") && *text_at(reply.json, "hint"));
    }
    CLEANUP_REPLY struct reply after = shown();
    ASSERT_STR_EQ(text_at(before.json, "now"), text_at(after.json, "now"));
    PASS();
}

TEST timers_fire_in_order_each_at_its_own_time(void)
{
    ASSERT(exec_in("third", "?sleepAfter=3m"));
    ASSERT(exec_in("first", "?sleepAfter=1m"));
    ASSERT(exec_in("second", "?sleepAfter=2m"));
    CLEANUP_REPLY struct reply clock = shown();
    ASSERT_STR_EQ("first", text_at(clock.json, "pending.0.sandbox"));
    ASSERT_STR_EQ("third", text_at(clock.json, "pending.2.sandbox"));
    CLEANUP_REPLY struct reply reply = advance("{\"by\": \"1h\"}");
    static const char *const order[] = {"first", "second", "third"};
    static const char *const minutes[] = {":01:00.000Z", ":02:00.000Z", ":03:00.000Z"};
    size_t found = 0;
    for (size_t i = 0; i < json_array_size(at(reply.json, "events")); i++) {
        const json_t *event = json_array_get(at(reply.json, "events"), i);
        if (strcmp(text_at(event, "type"), "container.stopping") != 0)
            continue;
        ASSERT(found < 3);
        ASSERT_STR_EQ(order[found], text_at(event, "sandbox"));
        ASSERT_STR_EQ(minutes[found], text_at(event, "at") + strlen("2030-01-03T01"));
        found++;
    }
    ASSERT_EQ(3, found);
    PASS();
}

TEST next_goes_to_the_earliest_timer_and_says_when_there_is_none(void)
{
    ASSERT(exec_in("near", "?sleepAfter=7m"));
    ASSERT(exec_in("far", "?sleepAfter=9h"));
    CLEANUP_REPLY struct reply one = post(&emulator, "/cdn-cgi/local/clock/next", "");
    ASSERT_EQ(200, one.status);
    ASSERT_STR_EQ("stopped", state_of("near"));
    ASSERT_STR_EQ("healthy", state_of("far"));
    CLEANUP_REPLY struct reply two = post(&emulator, "/cdn-cgi/local/clock/next", "");
    ASSERT_STR_EQ("stopped", state_of("far"));
    CLEANUP_REPLY struct reply none = post(&emulator, "/cdn-cgi/local/clock/next", "");
    ASSERT(none.status == 409 || none.status == 404);
    ASSERT(*text_at(none.json, "error"));
    PASS();
}

struct client {
    pthread_t thread;
    const char *path, *body;
    struct reply reply;
};

static void *run_client(void *arg)
{
    struct client *client = arg;
    client->reply = post(&emulator, client->path, client->body);
    return NULL;
}

TEST advances_at_once_add_up_and_requests_between_them_are_served(void)
{
    enum { CLIENTS = 24 };
    struct client clients[CLIENTS];
    CLEANUP_REPLY struct reply start = advance("{\"to\": \"2031-01-01T00:00:00Z\"}");
    for (int i = 0; i < CLIENTS; i++) {
        bool exec = i % 4 == 3;
        clients[i] = (struct client){.path = exec ? "/sandbox/between/exec?sleepAfter=1h"
                                                  : "/cdn-cgi/local/clock/advance",
                                     .body = exec ? "[\"echo here\"]" : "{\"by\": \"10m\"}"};
        pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
    }
    int right = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        const json_t *json = clients[i].reply.json;
        right += i % 4 == 3 ? strcmp("here", text_at(json, "stdout")) == 0
                            : json_is_true(at(json, "settled"));
        reply_free(&clients[i].reply);
    }
    ASSERT_EQ(CLIENTS, right);
    CLEANUP_REPLY struct reply clock = shown();
    ASSERT_STR_EQm("18 times 10 minutes", "2031-01-01T03:00:00.000Z", text_at(clock.json, "now"));
    PASS();
}

TEST of_two_advances_at_once_each_tells_only_what_it_caused(void)
{
    for (int round = 0; round < 5; round++) {
        struct client clients[2];
        ASSERT(exec_in("once", "?sleepAfter=5m"));
        for (int i = 0; i < 2; i++) {
            clients[i] = (struct client){.path = "/cdn-cgi/local/clock/advance",
                                         .body = "{\"by\": \"10m\"}"};
            pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
        }
        int told = 0;
        for (int i = 0; i < 2; i++) {
            pthread_join(clients[i].thread, NULL);
            CLEANUP_REPLY struct reply reply = clients[i].reply;
            told += reply.body && strstr(reply.body, "\"sandbox\":\"once\"");
        }
        ASSERT_EQ(1, told);
    }
    PASS();
}

TEST an_advance_during_a_start_waits_for_it(void)
{
    for (int i = 0; i < 10; i++) {
        struct client client = {.path = "/sandbox/starting/exec?sleepAfter=5m",
                                .body = "[\"echo up\"]"};
        pthread_create(&client.thread, NULL, run_client, &client);
        CLEANUP_REPLY struct reply reply = advance("{\"by\": \"5m\"}");
        pthread_join(client.thread, NULL);
        CLEANUP_REPLY struct reply exec = client.reply;
        ASSERT(json_is_true(at(reply.json, "settled")));
        const char *code = text_at(exec.json, "code");
        bool defined = strcmp("up", text_at(exec.json, "stdout")) == 0 ||
                       strcmp("OPERATION_INTERRUPTED", code) == 0;
        ASSERTm(keep(exec.body), defined);
        CLEANUP_REPLY struct reply stop = post(&emulator, "/sandbox/starting/stop", "[]");
    }
    PASS();
}

static int sandpit(const char *a, const char *b, const char *c, const char **told)
{
    const char *const argv[] = {SANDPIT_BINARY, "clock", a, b, c, NULL};
    char *out = NULL, *errors = NULL;
    int status = run_command(&emulator, argv, &out, &errors);
    *told = keep(status == 0 ? out : errors);
    free(out);
    free(errors);
    return status;
}

TEST the_command_line_turns_it_and_refuses_nonsense_with_2(void)
{
    const char *told;
    ASSERT_EQ(0, sandpit("to", "2032-01-01T00:00:00Z", NULL, &told));
    ASSERTm(told, strstr(told, "2032-01-01T00:00:00.000Z"));
    ASSERT_EQ(0, sandpit("advance", "2h30m", NULL, &told));
    ASSERTm(told, strstr(told, "2032-01-01T02:30:00.000Z") && strstr(told, "frozen"));
    ASSERT_EQ(0, sandpit("resume", NULL, NULL, &told));
    ASSERTm(told, strstr(told, "real"));
    ASSERT_EQ(0, sandpit("freeze", "--json", NULL, &told));
    ASSERTm(told, strstr(told, "\"frozen\""));
    ASSERT_EQ(0, sandpit(NULL, NULL, NULL, &told));
    ASSERTm(told, strstr(told, "pending"));
    ASSERT(exec_in("cli", "?sleepAfter=8m"));
    ASSERT_EQ(0, sandpit("next", NULL, NULL, &told));
    ASSERTm(told, strstr(told, "slept: idle for 8m"));
    static const char *const wrong[][2] = {
        {"advance", NULL}, {"advance", "soon"}, {"advance", "-5m"},  {"to", "tomorrow"},
        {"next", "10m"},   {"rewind", NULL},    {"to", "2031-02-30"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ASSERT_EQm(wrong[i][0], 2, sandpit(wrong[i][0], wrong[i][1], NULL, &told));
    ASSERT_EQm("the past is the emulator's to refuse", 1, sandpit("to", "2001-01-01", NULL, &told));
    PASS();
}

TEST it_ends_with_the_year_9999(void)
{
    CLEANUP_REPLY struct reply last = advance("{\"to\": \"9999-12-31T23:59:59.999Z\"}");
    ASSERT_EQ(200, last.status);
    ASSERT_STR_EQ("9999-12-31T23:59:59.999Z", text_at(last.json, "now"));
    CLEANUP_REPLY struct reply beyond = advance("{\"by\": \"1ms\"}");
    ASSERT_EQ(400, beyond.status);
    ASSERT(exec_in("last", ""));
    CLEANUP_REPLY struct reply reset = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT_EQ(200, reset.status);
    CLEANUP_REPLY struct reply clock = shown();
    ASSERT_STR_EQ("real", text_at(clock.json, "mode"));
    ASSERT(llabs(number_at(clock.json, "offsetMs")) < 1000);
    PASS();
}

SUITE(clock_suite)
{
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "");
    RUN_TEST(durations_and_times_are_taken_in_every_form);
    RUN_TEST(backwards_overflow_and_nonsense_are_400_and_change_nothing);
    RUN_TEST(timers_fire_in_order_each_at_its_own_time);
    RUN_TEST(next_goes_to_the_earliest_timer_and_says_when_there_is_none);
    RUN_TEST(advances_at_once_add_up_and_requests_between_them_are_served);
    RUN_TEST(of_two_advances_at_once_each_tells_only_what_it_caused);
    RUN_TEST(an_advance_during_a_start_waits_for_it);
    RUN_TEST(the_command_line_turns_it_and_refuses_nonsense_with_2);
    RUN_TEST(it_ends_with_the_year_9999);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, clock_suite);
    GREATEST_MAIN_END();
}
