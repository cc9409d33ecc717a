/* The machine's wall clock is read once. Steps of it reach neither virtual time nor any timer. The
 * linker puts __wrap_clock_gettime in the place of clock_gettime. */
#include <time.h>

#include "clock/clock.h"
#include "greatest.h"

int __real_clock_gettime(clockid_t id, struct timespec *to);
int __wrap_clock_gettime(clockid_t id, struct timespec *to);

static int64_t step_s;
static int wall_reads;

int __wrap_clock_gettime(clockid_t id, struct timespec *to)
{
    int result = __real_clock_gettime(id, to);
    if (id == CLOCK_REALTIME) {
        wall_reads++;
        to->tv_sec += step_s;
    }
    return result;
}

static struct loop *loop;
static struct clock *clock_;

static void set_up(void *arg)
{
    step_s = 0;
    wall_reads = 0;
    loop = loop_new(NULL);
    clock_ = clock_new(loop, NULL);
}

static void tear_down(void *arg)
{
    clock_free(clock_);
    loop_free(loop);
}

static void fired(void *arg)
{
    *(int64_t *)arg = clock_now_ms(clock_);
    loop_stop(loop);
}

static void too_late(void *arg)
{
    loop_stop(loop);
}

static const int64_t steps[] = {-3600, 365 * 24 * 3600, -1000000000, 0};
enum { STEPS = sizeof steps / sizeof *steps, SHORT_MS = 20, LONG_MS = 20000 };

TEST a_step_of_the_wall_clock_does_not_move_virtual_time(void)
{
    ASSERT_EQ(1, wall_reads);
    int64_t before = clock_now_ms(clock_);
    for (int i = 0; i < STEPS; i++) {
        step_s = steps[i];
        int64_t now = clock_now_ms(clock_);
        ASSERT(now >= before && now - before < LONG_MS);
        json_decref(clock_describe(clock_));
        clock_freeze(clock_);
        clock_resume(clock_);
        clock_reset(clock_);
        now = clock_now_ms(clock_);
        ASSERT(now >= before && now - before < LONG_MS);
    }
    ASSERT_EQm("it is read once", 1, wall_reads);
    PASS();
}

TEST a_step_of_the_wall_clock_fires_no_timer_and_holds_none_back(void)
{
    for (int i = 0; i < STEPS; i++) {
        int64_t soon_at = 0, late_at = 0, start = clock_now_ms(clock_);
        struct virtual_timer soon = {
            .fire = fired, .arg = &soon_at, .kind = "sleep", .sandbox = "a"};
        struct virtual_timer late = {
            .fire = fired, .arg = &late_at, .kind = "sleep", .sandbox = "b"};
        struct timer guard = {.fire = too_late};
        clock_arm(clock_, &soon, start + SHORT_MS);
        clock_arm(clock_, &late, start + 3600 * 1000);
        step_s = steps[i];
        loop_arm(loop, &guard, MS_NS(LONG_MS));
        loop_run(loop, NULL);
        loop_disarm(loop, &guard);
        clock_disarm(clock_, &late);
        ASSERT(soon_at >= start + SHORT_MS && soon_at < start + LONG_MS);
        ASSERT_EQ(0, late_at);
    }
    ASSERT_EQ(1, wall_reads);
    PASS();
}

SUITE(wall_clock_suite)
{
    SET_SETUP(set_up, NULL);
    SET_TEARDOWN(tear_down, NULL);
    RUN_TEST(a_step_of_the_wall_clock_does_not_move_virtual_time);
    RUN_TEST(a_step_of_the_wall_clock_fires_no_timer_and_holds_none_back);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(wall_clock_suite);
    GREATEST_MAIN_END();
}
