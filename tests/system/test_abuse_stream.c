/* Abuse of streams and processes: output without end or reader, ends that race with kills, and
 * containers that go away under them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "counts.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

/* Sends a call and reads nothing of its answer. */
static int begin(const char *box, const char *method, const char *arguments)
{
    char head[1024];
    int size = snprintf(head, sizeof head,
                        "POST /sandbox/%s/%s HTTP/1.1\r\nHost: localhost\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        box, method, strlen(arguments), arguments);
    int fd = dial(&emulator);
    return fd >= 0 && send_all(fd, head, (size_t)size) == 0 ? fd : -1;
}

static bool is_done(void *arg)
{
    const char *box = arg;
    CLEANUP_REPLY struct reply exists = call(box, "exists", "[\"/workspace/done\"]");
    return json_is_true(at(exists.json, "exists"));
}

static long long inflight(const char *box)
{
    char path[96];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return number_at(shown.json, "inflight");
}

static bool is_idle(void *arg)
{
    return inflight(arg) == 0;
}

static bool has_four(void *arg)
{
    return inflight(arg) == 4;
}

/* One line without an end, for a reader who leaves at once. The command must come to its end: a
 * reader who is gone holds nobody up. */
TEST a_flood_for_a_reader_who_left_ends_and_stays_out_of_memory(void)
{
    CLEANUP_REPLY struct reply warm = call("flood", "exec", "[\"true\"]");
    long before = emulator_memory(&emulator, "VmHWM");
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "[\"head -c %dM /dev/zero | tr '\\\\0' x; touch /workspace/done\"]",
             counts_now().flood_mib);
    int fd = begin("flood", "execStream", arguments);
    ASSERT(fd >= 0);
    char piece[4096];
    ASSERT(read(fd, piece, sizeof piece) > 0);
    close(fd);
    ASSERTm("it came to its end", eventually(is_done, "flood", 60000));
    ASSERTm("the call is over", eventually(is_idle, "flood", 20000));
    long most = emulator_memory(&emulator, "VmHWM");
    printf("a_flood…: %ld KiB before, %ld at most\n", before, most);
    ASSERT(most - before < 96 * 1024 * MEMORY_FACTOR);
    PASS();
}

/* A reader who stays but does not read: the command waits, memory stays. */
TEST a_flood_for_a_reader_who_does_not_read_waits(void)
{
    CLEANUP_REPLY struct reply warm = call("stalled", "exec", "[\"true\"]");
    long before = emulator_memory(&emulator, "VmHWM");
    int fd = begin("stalled", "execStream",
                   "[\"head -c 256M /dev/zero | tr '\\\\0' '\\\\n'; touch /workspace/done\"]");
    ASSERT(fd >= 0);
    /* Other calls of the sandbox are served meanwhile. */
    for (int i = 0; i < 200; i++) {
        CLEANUP_REPLY struct reply other = call("stalled", "exec", "[\"echo here\"]");
        ASSERT_STR_EQ("here", text_at(other.json, "stdout"));
    }
    ASSERT_FALSE(is_done("stalled"));
    long most = emulator_memory(&emulator, "VmHWM");
    printf("a_flood… not read: %ld KiB before, %ld at most\n", before, most);
    ASSERT(most - before < 64 * 1024 * MEMORY_FACTOR);
    close(fd);
    CLEANUP_REPLY struct reply gone = call("stalled", "destroy", "[]");
    ASSERT_EQ(200, gone.status);
    PASS();
}

/* What is killed may have ended just before; its pid may be another's by then. */
TEST a_kill_that_comes_late_hits_nobody_else(void)
{
    CLEANUP_REPLY struct reply bystander =
        call("late", "startProcess", "[\"sleep 271\", {\"processId\": \"bystander\"}]");
    ASSERT_EQm(keep(bystander.body), 200, bystander.status);
    int killed = 0, missed = 0;
    for (int i = 0; i < 100; i++) {
        char start[128], id[32];
        snprintf(start, sizeof start, "[\"%s\", {\"processId\": \"p%d\"}]",
                 i % 3 == 0 ? "true" : "sleep 0.00$((RANDOM % 9))", i);
        snprintf(id, sizeof id, "[\"p%d\"]", i);
        CLEANUP_REPLY struct reply started = call("late", "startProcess", start);
        ASSERT_EQm(keep(started.body), 200, started.status);
        CLEANUP_REPLY struct reply kill = call("late", "killProcess", id);
        ASSERTm(keep(kill.body), kill.status == 200 || kill.status == 404);
        killed += kill.status == 200;
        missed += kill.status == 404;
        CLEANUP_REPLY struct reply ended = call("late", "getProcess", id);
        ASSERTm(keep(ended.body), strcmp(text_at(ended.json, "status"), "running") != 0);
    }
    printf("a_kill_that_comes_late…: %d killed, %d had ended\n", killed, missed);
    CLEANUP_REPLY struct reply still = call("late", "getProcess", "[\"bystander\"]");
    ASSERT_STR_EQ("running", text_at(still.json, "status"));
    CLEANUP_REPLY struct reply shell = call("late", "exec", "[\"echo alive\"]");
    ASSERT_STR_EQ("alive", text_at(shell.json, "stdout"));
    CLEANUP_REPLY struct reply all = call("late", "killAllProcesses", "[]");
    ASSERT_EQ(200, all.status);
    ASSERT(processes_become("sleep 271", 0, 5000));
    PASS();
}

/* The answer to a start is there before a quick command has printed. */
TEST logs_asked_for_right_after_the_start_have_what_a_quick_command_prints(void)
{
    for (int i = 0; i < 50; i++) {
        CLEANUP_REPLY struct reply started = call("quick", "startProcess", "[\"echo printed\"]");
        char id[128];
        snprintf(id, sizeof id, "[\"%s\"]", text_at(started.json, "id"));
        CLEANUP_REPLY struct reply logs = call("quick", "getProcessLogs", id);
        ASSERT_STR_EQ("printed\n", text_at(logs.json, "stdout"));
    }
    CLEANUP_REPLY struct reply silent =
        call("quick", "startProcess", "[\"sleep 274\", {\"processId\": \"silent\"}]");
    long long start = test_ms();
    CLEANUP_REPLY struct reply logs = call("quick", "getProcessLogs", "[\"silent\"]");
    ASSERT_STR_EQ("", text_at(logs.json, "stdout"));
    ASSERTm("nobody waits long for a silent one", test_ms() - start < 5000);
    CLEANUP_REPLY struct reply gone = call("quick", "destroy", "[]");
    ASSERT_EQ(200, gone.status);
    PASS();
}

TEST all_are_killed_while_more_are_started(void)
{
    for (int i = 0; i < 20; i++) {
        int fds[4];
        for (int k = 0; k < 4; k++)
            fds[k] = begin("crowd", "startProcess", "[\"sleep 272 & sleep 272\"]");
        CLEANUP_REPLY struct reply all = call("crowd", "killAllProcesses", "[]");
        ASSERT_EQm(keep(all.body), 200, all.status);
        for (int k = 0; k < 4; k++) {
            CLEANUP_REPLY struct reply started = read_reply(fds[k]);
            /* Or it was ended before it had started, which is told as such. */
            ASSERTm(keep(started.body),
                    started.status == 200 ||
                        strcmp(text_at(started.json, "code"), "STREAM_START_ERROR") == 0);
            close(fds[k]);
        }
    }
    CLEANUP_REPLY struct reply last = call("crowd", "killAllProcesses", "[]");
    ASSERT_EQ(200, last.status);
    ASSERT(processes_become("sleep 272", 0, 5000));
    PASS();
}

/* Streams and waits that meet the end of their container end too, and leave nobody behind. */
TEST streams_end_with_their_container(void)
{
    static const char *const ends[] = {"/sandbox/going/destroy", "/sandbox/going/stop",
                                       "/cdn-cgi/local/sandboxes/going/destroy"};
    for (size_t i = 0; i < 9; i++) {
        CLEANUP_REPLY struct reply process =
            call("going", "startProcess", "[\"echo on; sleep 273\", {\"processId\": \"p\"}]");
        ASSERT_EQm(keep(process.body), 200, process.status);
        int fds[4] = {
            begin("going", "execStream", "[\"echo on; sleep 273\"]"),
            begin("going", "streamProcessLogs", "[\"p\"]"),
            begin("going", "waitForExit", "[\"p\", 60000]"),
            begin("going", "exec", "[\"sleep 273\"]"),
        };
        /* One that came after the end would start the next container. */
        ASSERT(eventually(has_four, "going", 5000));
        CLEANUP_REPLY struct reply end = post(&emulator, ends[i % 3], "[]");
        ASSERT_EQm(keep(end.body), 200, end.status);
        for (int k = 0; k < 4; k++) {
            long long start = test_ms();
            CLEANUP_REPLY struct reply reply = read_reply(fds[k]);
            ASSERTm("it ended with its container", test_ms() - start < 15000);
            ASSERTm("it had an answer", reply.status != 0);
            close(fds[k]);
        }
    }
    ASSERT(processes_become("sleep 273", 0, 5000));
    ASSERT(eventually(is_idle, "going", 5000));
    PASS();
}

SUITE(abuse_stream)
{
    RUN_TEST(a_flood_for_a_reader_who_left_ends_and_stays_out_of_memory);
    RUN_TEST(a_flood_for_a_reader_who_does_not_read_waits);
    RUN_TEST(a_kill_that_comes_late_hits_nobody_else);
    RUN_TEST(logs_asked_for_right_after_the_start_have_what_a_quick_command_prints);
    RUN_TEST(all_are_killed_while_more_are_started);
    RUN_TEST(streams_end_with_their_container);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, abuse_stream);
    GREATEST_MAIN_END();
}
