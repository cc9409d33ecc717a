#include <errno.h>
#include <string.h>

#include "clock/clock.h"
#include "greatest.h"

static struct loop *loop;
static struct clock *clock_;

static void set_up(void *arg)
{
    (void)arg;
    loop = loop_new(NULL);
    clock_ = clock_new(loop, NULL);
}

static void tear_down(void *arg)
{
    (void)arg;
    clock_free(clock_);
    loop_free(loop);
}

/* Timers that write down when they fired. */
struct note {
    struct virtual_timer timer;
    int64_t fired_at;
    int order;
};
static int fired;

static void note_fire(void *arg)
{
    struct note *note = arg;
    note->fired_at = clock_now_ms(clock_);
    note->order = ++fired;
}

static void note_arm(struct note *note, int64_t due_ms)
{
    *note =
        (struct note){.timer = {.fire = note_fire, .arg = note, .kind = "sleep", .sandbox = "a"}};
    clock_arm(clock_, &note->timer, due_ms);
}

struct outcome {
    int calls, error;
    bool settled;
    int64_t now;
};

static void finished(void *arg, bool settled, int error)
{
    struct outcome *outcome = arg;
    outcome->calls++;
    outcome->settled = settled;
    outcome->error = error;
    outcome->now = clock_now_ms(clock_);
    loop_stop(loop);
}

TEST timers_fire_in_due_order_each_at_its_own_time(void)
{
    int64_t start = clock_now_ms(clock_);
    struct note late, early, same;
    fired = 0;
    note_arm(&late, start + 600000);
    note_arm(&early, start + 60000);
    note_arm(&same, start + 600000);
    struct outcome outcome = {0};
    ASSERT_EQ(0, clock_advance_by(clock_, 700000, finished, &outcome, NULL));
    loop_run(loop, NULL);
    ASSERT(outcome.settled);
    ASSERT_EQ(1, early.order);
    ASSERT_EQ(2, late.order);
    ASSERT_EQ(3, same.order);
    ASSERT_EQ(start + 60000, early.fired_at);
    ASSERT_EQ(start + 600000, late.fired_at);
    ASSERT(outcome.now >= start + 700000 && outcome.now < start + 700000 + 1000);
    PASS();
}

static struct note chained;
static void chain_fire(void *arg)
{
    (void)arg;
    note_arm(&chained, clock_now_ms(clock_) + 1000);
}

TEST timers_made_by_timers_up_to_the_target_fire_too(void)
{
    int64_t start = clock_now_ms(clock_);
    struct virtual_timer first = {.fire = chain_fire};
    fired = 0;
    clock_arm(clock_, &first, start + 5000);
    struct outcome outcome = {0};
    clock_advance_by(clock_, 6000, finished, &outcome, NULL);
    loop_run(loop, NULL);
    ASSERT_EQ(1, fired);
    ASSERT_EQ(start + 6000, chained.fired_at);
    PASS();
}

TEST a_thousand_timers_fire_once_each_in_order_and_at_their_time(void)
{
    enum { COUNT = 1000 };
    static struct note notes[COUNT];
    clock_freeze(clock_);
    int64_t start = clock_now_ms(clock_);
    fired = 0;
    for (int i = 0; i < COUNT; i++)
        note_arm(&notes[i], start + 1 + i * 7919 % COUNT);
    struct outcome outcome = {0};
    clock_advance_by(clock_, 2 * COUNT, finished, &outcome, NULL);
    loop_run(loop, NULL);
    ASSERT_EQ(COUNT, fired);
    ASSERT(outcome.settled);
    for (int i = 0; i < COUNT; i++) {
        ASSERT_EQ(start + 1 + i * 7919 % COUNT, notes[i].fired_at);
        ASSERT_EQ(1 + i * 7919 % COUNT, notes[i].order);
    }
    PASS();
}

TEST the_clock_ends_with_the_year_9999(void)
{
    struct error err = {0};
    struct outcome outcome = {0};
    ASSERT_EQ(-EINVAL, clock_advance_to(clock_, CLOCK_END_MS + 1, finished, &outcome, &err));
    ASSERT_EQ(-EINVAL, clock_advance_by(clock_, CLOCK_END_MS, finished, &outcome, &err));
    ASSERT_EQ(-EINVAL, clock_advance_by(clock_, INT64_MAX, finished, &outcome, &err));
    ASSERT_EQ(0, clock_advance_to(clock_, CLOCK_END_MS, finished, &outcome, &err));
    loop_run(loop, NULL);
    char text[25];
    clock_format(outcome.now, text);
    ASSERT_STR_EQ("9999-12-31T23:59:59.999Z", text);
    PASS();
}

static struct task release_task;
static bool held;
static void release_later(void *arg)
{
    (void)arg;
    held = false;
    clock_release(clock_);
}
static void hold_fire(void *arg)
{
    (void)arg;
    held = true;
    clock_hold(clock_);
    release_task = (struct task){.run = release_later};
    loop_defer(loop, &release_task);
}
static void finished_unheld(void *arg, bool settled, int error)
{
    finished(arg, settled && !held, error);
}

TEST an_advance_answers_only_when_transitions_are_over(void)
{
    struct virtual_timer timer = {.fire = hold_fire};
    clock_arm(clock_, &timer, clock_now_ms(clock_) + 10);
    struct outcome outcome = {0};
    clock_advance_by(clock_, 1000, finished_unheld, &outcome, NULL);
    loop_run(loop, NULL);
    ASSERT_EQ(1, outcome.calls);
    ASSERT(outcome.settled);
    PASS();
}

TEST the_clock_never_goes_back(void)
{
    struct error err = {0};
    ASSERT_EQ(-EINVAL, clock_advance_to(clock_, clock_now_ms(clock_) - 1, finished, NULL, &err));
    ASSERT_EQ(-EINVAL, clock_advance_by(clock_, -1, finished, NULL, &err));
    ASSERT_EQ(-ENOENT, clock_advance_next(clock_, finished, NULL, &err));
    PASS();
}

TEST two_advances_add_up(void)
{
    int64_t start = clock_now_ms(clock_);
    struct outcome first = {0}, second = {0};
    clock_advance_by(clock_, 60000, finished, &first, NULL);
    clock_advance_by(clock_, 60000, finished, &second, NULL);
    while (!second.calls)
        loop_run(loop, NULL);
    ASSERT_EQ(1, first.calls);
    ASSERT(clock_now_ms(clock_) >= start + 120000);
    PASS();
}

TEST a_frozen_clock_stands_still_and_can_still_be_advanced(void)
{
    clock_freeze(clock_);
    int64_t at = clock_now_ms(clock_);
    struct outcome outcome = {0};
    clock_advance_by(clock_, 1234, finished, &outcome, NULL);
    loop_run(loop, NULL);
    ASSERT_EQ(at + 1234, clock_now_ms(clock_));
    json_t *shown = clock_describe(clock_);
    ASSERT_STR_EQ("frozen", json_string_value(json_object_get(shown, "mode")));
    json_decref(shown);
    clock_resume(clock_);
    ASSERT(clock_now_ms(clock_) >= at + 1234);
    PASS();
}

static void endless(void *arg)
{
    struct virtual_timer *timer = arg;
    clock_arm(clock_, timer, clock_now_ms(clock_));
}

TEST a_timer_that_rearms_itself_for_now_does_not_hang_the_advance(void)
{
    struct virtual_timer timer = {.fire = endless, .arg = &timer};
    clock_arm(clock_, &timer, clock_now_ms(clock_) + 1);
    struct outcome outcome = {0};
    clock_advance_by(clock_, 1000, finished, &outcome, NULL);
    loop_run(loop, NULL);
    ASSERT_EQ(-E2BIG, outcome.error);
    clock_disarm(clock_, &timer);
    PASS();
}

static void task_stop(void *arg)
{
    *(int64_t *)arg = clock_now_ms(clock_);
    loop_stop(loop);
}
static void ignore(void *arg, bool settled, int error)
{
}

TEST work_that_waits_for_the_advance_sees_the_new_time(void)
{
    int64_t start = clock_now_ms(clock_), seen = 0;
    struct task task = {.run = task_stop, .arg = &seen};
    clock_advance_by(clock_, 3600000, ignore, NULL, NULL);
    ASSERT(clock_advancing(clock_));
    clock_when_settled(clock_, &task);
    loop_run(loop, NULL);
    ASSERT(seen >= start + 3600000);
    PASS();
}

TEST durations_are_read_or_refused(void)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"90s", 90000},
        {"10m", 600000},
        {"2h30m", 9000000},
        {"1d", 86400000},
        {"250ms", 250},
        {"0s", 0},
        {"1m1s1ms", 61001},
        {"", -EINVAL},
        {"5", -EINVAL},
        {"-5s", -EINVAL},
        {"1.5h", -EINVAL},
        {"10 m", -EINVAL},
        {"10mm", -EINVAL},
        {"abc", -EINVAL},
        {"999999999999999999999999s", -ERANGE},
        {"9223372036854775807s", -ERANGE},
        {"40000d", -ERANGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ASSERT_EQm(rows[i].text, rows[i].ms, clock_parse_duration(rows[i].text));
    PASS();
}

TEST times_are_read_or_refused(void)
{
    ASSERT_EQ(1794981766975, clock_parse_time("2026-11-18T06:02:46.975Z"));
    ASSERT_EQ(1794981766000, clock_parse_time("2026-11-18T06:02:46Z"));
    ASSERT_EQ(1794981720000, clock_parse_time("2026-11-18T08:02+02:00"));
    ASSERT_EQ(1794960000000, clock_parse_time("2026-11-18"));
    static const char *const bad[] = {"",
                                      "tomorrow",
                                      "2026-13-01",
                                      "2026-02-31T00:00Z",
                                      "2026-11-18T25:00Z",
                                      "2026-11-18T06:02:46",
                                      "1900-01-01"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_EQm(bad[i], -1, clock_parse_time(bad[i]));
    char text[25];
    clock_format(1794981766975, text);
    ASSERT_STR_EQ("2026-11-18T06:02:46.975Z", text);
    PASS();
}

SUITE(clock_suite)
{
    SET_SETUP(set_up, NULL);
    SET_TEARDOWN(tear_down, NULL);
    RUN_TEST(timers_fire_in_due_order_each_at_its_own_time);
    RUN_TEST(timers_made_by_timers_up_to_the_target_fire_too);
    RUN_TEST(a_thousand_timers_fire_once_each_in_order_and_at_their_time);
    RUN_TEST(the_clock_ends_with_the_year_9999);
    RUN_TEST(an_advance_answers_only_when_transitions_are_over);
    RUN_TEST(the_clock_never_goes_back);
    RUN_TEST(two_advances_add_up);
    RUN_TEST(a_frozen_clock_stands_still_and_can_still_be_advanced);
    RUN_TEST(a_timer_that_rearms_itself_for_now_does_not_hang_the_advance);
    RUN_TEST(work_that_waits_for_the_advance_sees_the_new_time);
    RUN_TEST(durations_are_read_or_refused);
    RUN_TEST(times_are_read_or_refused);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(clock_suite);
    GREATEST_MAIN_END();
}
