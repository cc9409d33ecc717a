#include "clock/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/journal.h"

enum { TIMERS_PER_ADVANCE = 100000, SETTLE_MS = 15000 };

enum goal { GOAL_TO, GOAL_BY, GOAL_NEXT };

struct advance {
    enum goal goal;
    int64_t ms;
    clock_done *done;
    void *arg;
    struct advance *next;
};

struct clock {
    struct loop *loop;
    /* Virtual time is a wall time read once plus the monotonic clock plus what advances and freezes
     * added, so that a step of the machine's wall clock does not reach us. */
    int64_t anchor_wall_ms, anchor_ns;
    int64_t offset_ms;
    int64_t pinned_ms; /* the time while frozen or advancing */
    bool frozen, advancing;

    struct virtual_timer **heap; /* from index 1, by (due, sequence) */
    int heap_size, heap_capacity;
    uint64_t sequence;
    struct timer wake; /* fires the earliest virtual timer while the clock runs by itself */

    struct advance *first, **last; /* the first one is under way when advancing */
    int64_t target_ms;
    int fired;
    bool stepping; /* in advance_step(): releases made by fired timers need no other step */
    int holds;
    struct timer settle;
    struct task step;
    struct task *waiting, **waiting_last;
};

static void advance_step(void *arg);
static void advance_unsettled(void *arg);
static void wake_fire(void *arg);

static int64_t real_ms(const struct clock *clock)
{
    return clock->anchor_wall_ms + (loop_now_ns() - clock->anchor_ns) / 1000000;
}

int64_t clock_now_ms(const struct clock *clock)
{
    if (clock->frozen || clock->advancing)
        return clock->pinned_ms;
    return real_ms(clock) + clock->offset_ms;
}

struct clock *clock_new(struct loop *loop, struct error *err)
{
    struct clock *clock = calloc(1, sizeof *clock);
    if (!clock) {
        error_errno(err, ENOMEM, "clock");
        return NULL;
    }
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock->loop = loop;
    clock->anchor_wall_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    clock->anchor_ns = loop_now_ns();
    clock->wake = (struct timer){.fire = wake_fire, .arg = clock};
    clock->settle = (struct timer){.fire = advance_unsettled, .arg = clock};
    clock->step = (struct task){.run = advance_step, .arg = clock};
    clock->last = &clock->first;
    clock->waiting_last = &clock->waiting;
    return clock;
}

void clock_free(struct clock *clock)
{
    if (!clock)
        return;
    loop_disarm(clock->loop, &clock->wake);
    loop_disarm(clock->loop, &clock->settle);
    loop_cancel(clock->loop, &clock->step);
    while (clock->first) {
        struct advance *advance = clock->first;
        clock->first = advance->next;
        free(advance);
    }
    free(clock->heap);
    free(clock);
}

/* The heap of virtual timers. */

static bool before(const struct virtual_timer *a, const struct virtual_timer *b)
{
    return a->due_ms < b->due_ms || (a->due_ms == b->due_ms && a->sequence < b->sequence);
}

static void heap_put(struct clock *clock, int slot, struct virtual_timer *timer)
{
    clock->heap[slot] = timer;
    timer->slot = slot;
}

static void heap_up(struct clock *clock, int slot)
{
    struct virtual_timer *timer = clock->heap[slot];
    while (slot > 1 && before(timer, clock->heap[slot / 2])) {
        heap_put(clock, slot, clock->heap[slot / 2]);
        slot /= 2;
    }
    heap_put(clock, slot, timer);
}

static void heap_down(struct clock *clock, int slot)
{
    struct virtual_timer *timer = clock->heap[slot];
    for (;;) {
        int child = slot * 2;
        if (child > clock->heap_size)
            break;
        if (child < clock->heap_size && before(clock->heap[child + 1], clock->heap[child]))
            child++;
        if (!before(clock->heap[child], timer))
            break;
        heap_put(clock, slot, clock->heap[child]);
        slot = child;
    }
    heap_put(clock, slot, timer);
}

/* Sets the real timer for the earliest virtual one; a frozen or advancing clock needs none. */
static void rearm_wake(struct clock *clock)
{
    if (clock->frozen || clock->advancing || !clock->heap_size) {
        loop_disarm(clock->loop, &clock->wake);
        return;
    }
    int64_t in_ms = clock->heap[1]->due_ms - clock_now_ms(clock);
    loop_arm(clock->loop, &clock->wake, in_ms > 0 ? MS_NS(in_ms) : 0);
}

int clock_arm(struct clock *clock, struct virtual_timer *timer, int64_t due_ms)
{
    clock_disarm(clock, timer);
    if (clock->heap_size + 1 >= clock->heap_capacity) {
        int capacity = clock->heap_capacity ? clock->heap_capacity * 2 : 16;
        size_t size = (size_t)capacity * sizeof(struct virtual_timer *);
        struct virtual_timer **heap = realloc(clock->heap, size);
        if (!heap)
            return -ENOMEM;
        clock->heap = heap;
        clock->heap_capacity = capacity;
    }
    timer->due_ms = due_ms;
    timer->sequence = ++clock->sequence;
    clock->heap_size++;
    heap_put(clock, clock->heap_size, timer);
    heap_up(clock, clock->heap_size);
    if (timer->slot == 1)
        rearm_wake(clock);
    return 0;
}

void clock_disarm(struct clock *clock, struct virtual_timer *timer)
{
    int slot = timer->slot;
    if (!slot)
        return;
    timer->slot = 0;
    struct virtual_timer *moved = clock->heap[clock->heap_size--];
    if (moved != timer) {
        heap_put(clock, slot, moved);
        heap_up(clock, slot);
        heap_down(clock, moved->slot);
    }
    if (slot == 1)
        rearm_wake(clock);
}

static void wake_fire(void *arg)
{
    struct clock *clock = arg;
    int64_t now = clock_now_ms(clock);
    while (clock->heap_size && clock->heap[1]->due_ms <= now && !clock->advancing &&
           !clock->frozen) {
        struct virtual_timer *timer = clock->heap[1];
        clock_disarm(clock, timer);
        timer->fire(timer->arg);
    }
    rearm_wake(clock);
}

/* Advancing. */

static void advance_begin(struct clock *clock)
{
    struct advance *advance = clock->first;
    int64_t now = clock_now_ms(clock);
    clock->pinned_ms = now;
    clock->advancing = true;
    clock->fired = 0;
    switch (advance->goal) {
    case GOAL_TO:
        clock->target_ms = advance->ms;
        break;
    case GOAL_BY:
        clock->target_ms = now + advance->ms;
        break;
    case GOAL_NEXT:
        clock->target_ms = clock->heap_size ? clock->heap[1]->due_ms : now;
        break;
    }
    if (clock->target_ms > CLOCK_END_MS)
        clock->target_ms = CLOCK_END_MS;
    /* Queued behind another one, it may find its time already past: then there is nothing to do. */
    if (clock->target_ms < now)
        clock->target_ms = now;
    rearm_wake(clock);
    loop_arm(clock->loop, &clock->settle, MS_NS(SETTLE_MS));
    loop_defer(clock->loop, &clock->step);
}

static void run_waiting(struct clock *clock)
{
    struct task *task = clock->waiting;
    clock->waiting = NULL;
    clock->waiting_last = &clock->waiting;
    while (task) {
        struct task *next = task->next;
        task->queued = false;
        loop_defer(clock->loop, task);
        task = next;
    }
}

static void advance_end(struct clock *clock, bool settled, int error)
{
    struct advance *advance = clock->first;
    clock->first = advance->next;
    if (!clock->first)
        clock->last = &clock->first;
    loop_disarm(clock->loop, &clock->settle);
    loop_cancel(clock->loop, &clock->step);
    clock->advancing = false;
    clock->offset_ms = clock->pinned_ms - real_ms(clock);
    advance->done(advance->arg, settled, error);
    free(advance);
    if (clock->first) {
        advance_begin(clock);
    } else {
        rearm_wake(clock);
        run_waiting(clock);
    }
}

static void advance_step(void *arg)
{
    struct clock *clock = arg;
    clock->stepping = true;
    while (clock->heap_size && clock->heap[1]->due_ms <= clock->target_ms) {
        if (clock->fired == TIMERS_PER_ADVANCE) {
            clock->stepping = false;
            advance_end(clock, false, -E2BIG);
            return;
        }
        struct virtual_timer *timer = clock->heap[1];
        clock_disarm(clock, timer);
        if (timer->due_ms > clock->pinned_ms)
            clock->pinned_ms = timer->due_ms;
        clock->fired++;
        timer->fire(timer->arg);
    }
    clock->stepping = false;
    /* Transitions may still arm timers up to the target: the time stays where it is until then. */
    if (clock->holds == 0) {
        clock->pinned_ms = clock->target_ms;
        advance_end(clock, true, 0);
    }
}

static void advance_unsettled(void *arg)
{
    struct clock *clock = arg;
    clock->pinned_ms = clock->target_ms;
    advance_end(clock, false, 0);
}

void clock_hold(struct clock *clock)
{
    clock->holds++;
}

void clock_release(struct clock *clock)
{
    clock->holds--;
    if (clock->holds == 0 && clock->advancing && !clock->stepping)
        loop_defer(clock->loop, &clock->step);
}

static int advance_add(struct clock *clock, enum goal goal, int64_t ms, clock_done *done, void *arg,
                       struct error *err)
{
    struct advance *advance = malloc(sizeof *advance);
    if (!advance)
        return error_errno(err, ENOMEM, "advance");
    *advance = (struct advance){.goal = goal, .ms = ms, .done = done, .arg = arg};
    journal_note(JOURNAL_CLOCK, clock_now_ms(clock), "", "advance");
    *clock->last = advance;
    clock->last = &advance->next;
    if (!clock->advancing)
        advance_begin(clock);
    return 0;
}

int clock_advance_to(struct clock *clock, int64_t to_ms, clock_done *done, void *arg,
                     struct error *err)
{
    if (to_ms < clock_now_ms(clock))
        return error_set(err, EINVAL, "the clock does not go back");
    if (to_ms > CLOCK_END_MS)
        return error_set(err, EINVAL, "the clock ends with the year 9999");
    return advance_add(clock, GOAL_TO, to_ms, done, arg, err);
}

int clock_advance_by(struct clock *clock, int64_t by_ms, clock_done *done, void *arg,
                     struct error *err)
{
    if (by_ms < 0)
        return error_set(err, EINVAL, "the clock does not go back");
    if (by_ms > CLOCK_END_MS - clock_now_ms(clock))
        return error_set(err, EINVAL, "the clock ends with the year 9999");
    return advance_add(clock, GOAL_BY, by_ms, done, arg, err);
}

int clock_advance_next(struct clock *clock, clock_done *done, void *arg, struct error *err)
{
    if (!clock->heap_size)
        return error_set(err, ENOENT, "no timer is pending");
    return advance_add(clock, GOAL_NEXT, 0, done, arg, err);
}

bool clock_advancing(const struct clock *clock)
{
    return clock->advancing;
}

void clock_when_settled(struct clock *clock, struct task *task)
{
    if (!clock->advancing) {
        loop_defer(clock->loop, task);
        return;
    }
    task->next = NULL;
    task->queued = true;
    *clock->waiting_last = task;
    clock->waiting_last = &task->next;
}

void clock_freeze(struct clock *clock)
{
    if (clock->frozen)
        return;
    clock->pinned_ms = clock_now_ms(clock);
    clock->frozen = true;
    journal_note(JOURNAL_CLOCK, clock->pinned_ms, "", "freeze");
    rearm_wake(clock);
}

void clock_resume(struct clock *clock)
{
    if (!clock->frozen)
        return;
    journal_note(JOURNAL_CLOCK, clock->pinned_ms, "", "resume");
    clock->frozen = false;
    clock->offset_ms = clock->pinned_ms - real_ms(clock);
    rearm_wake(clock);
}

bool clock_frozen(const struct clock *clock)
{
    return clock->frozen;
}

void clock_reset(struct clock *clock)
{
    clock->frozen = false;
    clock->offset_ms = 0;
    rearm_wake(clock);
}

static int by_due(const void *a, const void *b)
{
    return before(*(struct virtual_timer *const *)a, *(struct virtual_timer *const *)b) ? -1 : 1;
}

json_t *clock_describe(const struct clock *clock)
{
    json_t *pending = json_array();
    size_t count = (size_t)clock->heap_size;
    struct virtual_timer **sorted = malloc((count + 1) * sizeof(struct virtual_timer *));
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = clock->heap[i + 1];
    if (sorted)
        qsort(sorted, count, sizeof *sorted, by_due);
    for (size_t i = 0; sorted && i < count; i++) {
        char at[25];
        clock_format(sorted[i]->due_ms, at);
        json_array_append_new(pending, json_pack("{s:s, s:s?, s:s?}", "at", at, "sandbox",
                                                 sorted[i]->sandbox, "kind", sorted[i]->kind));
    }
    free(sorted);
    char now[25];
    clock_format(clock_now_ms(clock), now);
    return json_pack("{s:s, s:s, s:I, s:o}", "now", now, "mode", clock->frozen ? "frozen" : "real",
                     "offsetMs", (json_int_t)(clock_now_ms(clock) - real_ms(clock)), "pending",
                     pending);
}
