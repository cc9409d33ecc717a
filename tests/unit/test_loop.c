/* The event loop and streams. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/stream.h"
#include "greatest.h"

static struct loop *loop;

static void set_up(void *arg)
{
    (void)arg;
    loop = loop_new(NULL);
}

static void tear_down(void *arg)
{
    (void)arg;
    loop_free(loop);
}

static int order[8], order_count;
static void note(void *arg)
{
    order[order_count++] = (int)(intptr_t)arg;
}
static void note_and_stop(void *arg)
{
    note(arg);
    loop_stop(loop);
}

TEST timers_fire_in_due_order_and_disarmed_ones_do_not(void)
{
    struct timer timers[4];
    order_count = 0;
    for (int i = 0; i < 4; i++)
        timers[i] =
            (struct timer){.fire = i == 3 ? note_and_stop : note, .arg = (void *)(intptr_t)i};
    loop_arm(loop, &timers[3], MS_NS(6));
    loop_arm(loop, &timers[1], MS_NS(4));
    loop_arm(loop, &timers[0], MS_NS(2));
    loop_arm(loop, &timers[2], MS_NS(3));
    loop_disarm(loop, &timers[2]);
    ASSERT_FALSE(timer_armed(&timers[2]));
    loop_run(loop, NULL);
    ASSERT_EQ(3, order_count);
    ASSERT_EQ(0, order[0]);
    ASSERT_EQ(1, order[1]);
    ASSERT_EQ(3, order[2]);
    PASS();
}

struct pair {
    int fds[2];
    struct watch watch;
    struct pair *other;
    int seen;
};

/* Whichever comes first drops the other, although both are ready in one batch. */
static void drop_other(void *arg, uint32_t events)
{
    struct pair *pair = arg;
    pair->seen++;
    loop_unwatch(loop, &pair->other->watch);
    loop_unwatch(loop, &pair->watch);
    loop_stop(loop);
}

TEST a_watch_dropped_by_another_in_the_same_batch_is_not_called(void)
{
    struct pair pairs[2] = {{.other = &pairs[1]}, {.other = &pairs[0]}};
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(0, pipe(pairs[i].fds));
        ASSERT_EQ(1, write(pairs[i].fds[1], "x", 1));
        pairs[i].watch = (struct watch){.ready = drop_other, .arg = &pairs[i], .fd = -1};
        ASSERT_EQ(0, loop_watch(loop, &pairs[i].watch, pairs[i].fds[0], EPOLLIN));
    }
    loop_run(loop, NULL);
    ASSERT_EQ(1, pairs[0].seen + pairs[1].seen);
    for (int i = 0; i < 2; i++) {
        close(pairs[i].fds[0]);
        close(pairs[i].fds[1]);
    }
    PASS();
}

static int child_code, child_status;
static void child_ended(void *arg, int code, int status)
{
    child_code = code;
    child_status = status;
    loop_stop(loop);
}

TEST a_child_is_reaped_and_its_end_told(void)
{
    int pid = fork();
    if (pid == 0)
        _exit(7);
    struct child child = {.ended = child_ended};
    ASSERT_EQ(0, loop_child(loop, &child, pid, NULL));
    loop_run(loop, NULL);
    ASSERT_EQ(CLD_EXITED, child_code);
    ASSERT_EQ(7, child_status);
    ASSERT_EQ(-1, waitpid(pid, NULL, WNOHANG));
    PASS();
}

static void caught(void *arg, int signal)
{
    *(int *)arg = signal;
    loop_stop(loop);
}

TEST a_signal_arrives_in_the_loop(void)
{
    int got = 0;
    ASSERT_EQ(0, loop_signal(loop, SIGUSR1, caught, &got));
    raise(SIGUSR1);
    loop_run(loop, NULL);
    ASSERT_EQ(SIGUSR1, got);
    PASS();
}

TEST tasks_run_once_in_order_and_can_be_cancelled(void)
{
    struct task tasks[3];
    order_count = 0;
    for (int i = 0; i < 3; i++)
        tasks[i] = (struct task){.run = i == 2 ? note_and_stop : note, .arg = (void *)(intptr_t)i};
    loop_defer(loop, &tasks[0]);
    loop_defer(loop, &tasks[1]);
    loop_defer(loop, &tasks[2]);
    loop_defer(loop, &tasks[0]);
    loop_cancel(loop, &tasks[1]);
    loop_run(loop, NULL);
    ASSERT_EQ(2, order_count);
    ASSERT_EQ(0, order[0]);
    ASSERT_EQ(2, order[1]);
    PASS();
}

/* Streams. */
static int resumed, aborted, readable, closed;
static void on_resume(void *arg)
{
    resumed++;
}
static void on_aborted(void *arg)
{
    aborted++;
    stream_end(*(struct stream **)arg);
}
static void on_readable(void *arg)
{
    readable++;
}
static void on_closed(void *arg)
{
    closed++;
}
static struct stream *new_stream(struct stream **where)
{
    resumed = aborted = readable = closed = 0;
    *where = stream_new(100, (struct stream_source){on_resume, on_aborted, where, NULL});
    stream_set_sink(*where, (struct stream_sink){on_readable, NULL});
    stream_on_closed(*where, on_closed, NULL);
    return *where;
}

TEST a_stream_pauses_its_source_at_the_limit_and_resumes_it(void)
{
    char bytes[80] = "x", out[200];
    struct stream *stream;
    new_stream(&stream);
    ASSERT_EQ(0, stream_write(stream, bytes, 80));
    ASSERT_EQ(1, stream_write(stream, bytes, 80));
    ASSERT_EQ(1, readable);
    ASSERT_EQ(30, stream_take(stream, out, 30));
    ASSERT_EQ(0, resumed);
    ASSERT_EQ(100, stream_take(stream, out, 100));
    ASSERT_EQ(1, resumed);
    ASSERT_EQ(30, stream_take(stream, out, 100));
    ASSERT_EQ(0, stream_take(stream, out, 100));
    stream_end(stream);
    ASSERT_EQ(2, readable);
    ASSERT_EQ(-1, stream_take(stream, out, 100));
    ASSERT_EQ(0, closed);
    stream_abort(stream);
    ASSERT_EQ(1, closed);
    ASSERT_EQ(0, aborted);
    PASS();
}

TEST a_sink_that_leaves_aborts_the_source_once(void)
{
    struct stream *stream;
    new_stream(&stream);
    stream_write(stream, "abc", 3);
    stream_abort(stream);
    ASSERT_EQ(1, aborted);
    ASSERT_EQ(1, closed);
    PASS();
}

/* Three pieces, then the end or a failure. */
struct pull {
    struct stream *stream;
    int pieces;
    bool fails;
};

static long pull_fill(void *arg, void *to, size_t size)
{
    struct pull *pull = arg;
    if (pull->pieces-- > 0) {
        memset(to, 'p', size < 10 ? size : 10);
        return size < 10 ? (long)size : 10;
    }
    if (pull->fails)
        stream_fail(pull->stream);
    else
        stream_end(pull->stream);
    return 0;
}

TEST a_source_that_fills_is_asked_for_its_bytes(void)
{
    for (int fails = 0; fails < 2; fails++) {
        char data[32] = "";
        struct pull pull = {.pieces = 3, .fails = fails};
        pull.stream = stream_new(0, (struct stream_source){.arg = &pull, .fill = pull_fill});
        ASSERT_EQ(4, stream_take(pull.stream, data, 4));
        ASSERT_EQ(10, stream_take(pull.stream, data, sizeof data));
        ASSERT_EQ(10, stream_take(pull.stream, data, sizeof data));
        ASSERT_EQ('p', data[9]);
        ASSERT_EQ(-1, stream_take(pull.stream, data, sizeof data));
        ASSERT_EQ(fails, stream_failed(pull.stream));
        ASSERT_EQ(-1, stream_take(pull.stream, data, sizeof data));
        stream_abort(pull.stream);
    }
    PASS();
}

TEST what_was_written_before_a_failure_can_still_be_taken(void)
{
    char data[8];
    struct stream *stream = stream_new(100, (struct stream_source){0});
    ASSERT_EQ(0, stream_write(stream, "abc", 3));
    stream_fail(stream);
    ASSERT_EQ(3, stream_take(stream, data, sizeof data));
    ASSERT_EQ(-1, stream_take(stream, data, sizeof data));
    ASSERT(stream_failed(stream));
    stream_abort(stream);
    PASS();
}

SUITE(loop_suite)
{
    SET_SETUP(set_up, NULL);
    SET_TEARDOWN(tear_down, NULL);
    RUN_TEST(timers_fire_in_due_order_and_disarmed_ones_do_not);
    RUN_TEST(a_watch_dropped_by_another_in_the_same_batch_is_not_called);
    RUN_TEST(a_child_is_reaped_and_its_end_told);
    RUN_TEST(a_signal_arrives_in_the_loop);
    RUN_TEST(tasks_run_once_in_order_and_can_be_cancelled);
    RUN_TEST(a_source_that_fills_is_asked_for_its_bytes);
    RUN_TEST(what_was_written_before_a_failure_can_still_be_taken);
    RUN_TEST(a_stream_pauses_its_source_at_the_limit_and_resumes_it);
    RUN_TEST(a_sink_that_leaves_aborts_the_source_once);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(loop_suite);
    GREATEST_MAIN_END();
}
