/* POST /reset in the middle of other things: each is answered, and the emulator is empty and on
 * real time afterwards. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { ROUNDS = 30, RESETS = 4, HOUR_MS = 3600000 };

static struct emulator emulator;

/* Sends a POST on its own connection; the answer is read later. */
static int begin(const struct emulator *to, const char *path, const char *body)
{
    char text[512];
    int size = snprintf(text, sizeof text,
                        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                        path, strlen(body), body);
    int fd = dial(to);
    if (fd >= 0)
        send_all(fd, text, (size_t)size);
    return fd;
}

static bool is_inflight(void *arg)
{
    CLEANUP_REPLY struct reply r = get(&emulator, arg);
    return number_at(r.json, "inflight") > 0;
}

static bool is_stopping(void *arg)
{
    CLEANUP_REPLY struct reply r = get(&emulator, arg);
    return strcmp(text_at(r.json, "state"), "stopping") == 0;
}

static long long offset_ms(void)
{
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    return llabs(number_at(clock.json, "offsetMs"));
}

static size_t sandboxes(void)
{
    CLEANUP_REPLY struct reply list = get(&emulator, "/cdn-cgi/local/sandboxes");
    return json_array_size(at(list.json, "sandboxes"));
}

TEST resets_that_come_at_once_all_succeed(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        int fds[RESETS];
        CLEANUP_REPLY struct reply used = post(&emulator, "/sandbox/many/exec", "[\"true\"]");
        ASSERT_EQ(200, used.status);
        for (int i = 0; i < RESETS; i++)
            fds[i] = begin(&emulator, "/cdn-cgi/local/reset", "");
        for (int i = 0; i < RESETS; i++) {
            CLEANUP_REPLY struct reply r = read_reply(fds[i]);
            close(fds[i]);
            ASSERT_EQm(keep(r.body ? r.body : "no answer"), 200, r.status);
        }
        ASSERT_EQ(0, sandboxes());
    }
    PASS();
}

/* One of the two is first: the clock is at the real time, or an hour beyond it, never at the time
 * before the reset. */
TEST an_advance_that_comes_with_a_reset_does_not_bring_the_old_time_back(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        CLEANUP_REPLY struct reply far =
            post(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"365d\"}");
        ASSERT_EQ(200, far.status);
        CLEANUP_FD int reset = begin(&emulator, "/cdn-cgi/local/reset", "");
        CLEANUP_FD int advance =
            begin(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"1h\"}");
        CLEANUP_REPLY struct reply a = read_reply(reset);
        CLEANUP_REPLY struct reply b = read_reply(advance);
        ASSERT_EQ(200, a.status);
        ASSERT_EQ(200, b.status);
        ASSERT(offset_ms() < 2 * HOUR_MS);
    }
    CLEANUP_REPLY struct reply last = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT(offset_ms() < 1000);
    PASS();
}

/* It kills what an advance only asks to end, so nobody waits for the grace of ten seconds. */
TEST a_reset_cuts_an_advance_short_and_whoever_waits_for_that_is_answered(void)
{
    long long start = test_ms();
    static char box[] = "/cdn-cgi/local/sandboxes/slow";
    CLEANUP_REPLY struct reply used =
        post(&emulator, "/sandbox/slow/exec",
             "[\"trap '' TERM; (while :; do sleep 0.1; done) & trap - TERM\"]");
    ASSERT_EQ(200, used.status);
    CLEANUP_FD int advance = begin(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"10m\"}");
    ASSERT(eventually(is_stopping, box, 5000));
    CLEANUP_FD int same = begin(&emulator, "/sandbox/slow/exec", "[\"true\"]");
    CLEANUP_FD int other = begin(&emulator, "/sandbox/new/exec", "[\"true\"]");
    CLEANUP_FD int reset = begin(&emulator, "/cdn-cgi/local/reset", "");
    CLEANUP_REPLY struct reply first = read_reply(advance);
    ASSERT_EQ(200, first.status);
    CLEANUP_REPLY struct reply a = read_reply(same), b = read_reply(other);
    ASSERT_EQm(keep(a.body), 503, a.status);
    ASSERT_EQm(keep(b.body), 503, b.status);
    CLEANUP_REPLY struct reply r = read_reply(reset);
    ASSERT_EQ(200, r.status);
    ASSERT(test_ms() - start < 8000);
    ASSERT_EQ(0, sandboxes());
    ASSERT(offset_ms() < 1000);
    PASS();
}

TEST streams_commands_and_followers_end_with_a_reset(void)
{
    static char box[] = "/cdn-cgi/local/sandboxes/busy";
    CLEANUP_FD int stream = begin(&emulator, "/sandbox/busy/execStream", "[\"sleep 98765\"]");
    CLEANUP_FD int command = begin(&emulator, "/sandbox/busy/exec", "[\"sleep 98766\"]");
    ASSERT(eventually(is_inflight, box, 5000));
    ASSERT(processes_become("sleep 98766", 1, 5000));
    CLEANUP_FD int logs = dial(&emulator);
    static const char follow[] = "GET /cdn-cgi/local/sandboxes/busy/logs?follow=1 HTTP/1.1\r\n"
                                 "Host: localhost\r\n\r\n";
    send_all(logs, follow, strlen(follow));
    struct pollfd poller = {.fd = logs, .events = POLLIN};
    ASSERTm("it follows", poll(&poller, 1, 5000) == 1);
    CLEANUP_REPLY struct reply r = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT_EQ(200, r.status);
    CLEANUP_REPLY struct reply ended = read_reply(command);
    ASSERT_EQ(409, ended.status);
    CLEANUP_REPLY struct reply streamed = read_reply(stream);
    ASSERT_EQ(200, streamed.status);
    CLEANUP_REPLY struct reply told = read_reply(logs);
    ASSERT_EQ(200, told.status);
    ASSERT_EQ(0, processes_with("sleep 9876"));
    CLEANUP_REPLY struct reply again = post(&emulator, "/sandbox/busy/exec", "[\"echo fresh\"]");
    ASSERT_STR_EQ("fresh", text_at(again.json, "stdout"));
    PASS();
}

TEST a_reset_that_the_end_of_the_emulator_overtakes_is_answered_or_cut(void)
{
    for (int round = 0; round < 5; round++) {
        struct emulator other = {0};
        ASSERT_EQ(0, emulator_start(&other, NULL));
        CLEANUP_REPLY struct reply used = post(&other, "/sandbox/x/exec", "[\"true\"]");
        CLEANUP_FD int reset = begin(&other, "/cdn-cgi/local/reset", "");
        ASSERT_EQ(0, emulator_stop(&other));
        emulator_clean(&other);
    }
    PASS();
}

/* The control API's other answers to what it does not do. */
TEST a_method_that_a_path_does_not_have_is_answered_with_all_that_it_has(void)
{
    char allowed[64];
    CLEANUP_REPLY struct reply r = request(&emulator, "PUT", "/cdn-cgi/local/faults", NULL, "{}");
    ASSERT_EQ(405, r.status);
    ASSERT_STR_EQ("GET, POST, DELETE", header_of(&r, "Allow", allowed, sizeof allowed));
    PASS();
}

SUITE(reset_suite)
{
    RUN_TEST(resets_that_come_at_once_all_succeed);
    RUN_TEST(an_advance_that_comes_with_a_reset_does_not_bring_the_old_time_back);
    RUN_TEST(a_reset_cuts_an_advance_short_and_whoever_waits_for_that_is_answered);
    RUN_TEST(streams_commands_and_followers_end_with_a_reset);
    RUN_TEST(a_reset_that_the_end_of_the_emulator_overtakes_is_answered_or_cut);
    RUN_TEST(a_method_that_a_path_does_not_have_is_answered_with_all_that_it_has);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, reset_suite);
    GREATEST_MAIN_END();
}
