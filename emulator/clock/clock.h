/* The two kinds of time. clock_now_ms() is virtual wall time: everything we report uses it. Virtual
 * timers run on it and can be fast-forwarded; real timers are the loop's. */
#ifndef SANDPIT_CLOCK_CLOCK_H
#define SANDPIT_CLOCK_CLOCK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"

struct clock;

/* A one-shot virtual timer, owned by the caller; zeroed = unarmed. */
struct virtual_timer {
    void (*fire)(void *arg);
    void *arg;
    const char *kind;    /* "sleep", "alarm"… for the list of pending timers */
    const char *sandbox; /* id, for the same list */
    int64_t due_ms;
    uint64_t sequence; /* timers due at one moment fire in the order they were armed */
    int slot;
};

struct clock *clock_new(struct loop *loop, struct error *err);
void clock_free(struct clock *clock);

int64_t clock_now_ms(const struct clock *clock);
/* "2026-11-18T06:02:46.975Z", 24 characters and a NUL. */
void clock_format(int64_t ms, char to[25]);
/* The last moment of the year 9999, for which that has room. The clock does not go beyond. */
#define CLOCK_END_MS INT64_C(253402300799999)
/* The current time as a JSON string; new reference. */
json_t *clock_timestamp(const struct clock *clock);

int clock_arm(struct clock *clock, struct virtual_timer *timer, int64_t due_ms);
void clock_disarm(struct clock *clock, struct virtual_timer *timer);

/* A transition (a container that stops or starts) that an advance must wait for. */
void clock_hold(struct clock *clock);
void clock_release(struct clock *clock);

/* Moves to `to_ms`, firing what is due on the way, and calls done() when every transition that was
 * started is over, or after 15 s of real time with settled false. Other advances queue behind it.
 * -EINVAL for a time before now or after the year 9999, -E2BIG when more than 100,000 timers fired (then done is told). */
typedef void clock_done(void *arg, bool settled, int error);
int clock_advance_to(struct clock *clock, int64_t to_ms, clock_done *done, void *arg,
                     struct error *err);
/* As above, relative to the time at which the advance begins (others may run first). */
int clock_advance_by(struct clock *clock, int64_t by_ms, clock_done *done, void *arg,
                     struct error *err);
/* To the earliest pending timer; -ENOENT when there is none. */
int clock_advance_next(struct clock *clock, clock_done *done, void *arg, struct error *err);
bool clock_advancing(const struct clock *clock);
/* Runs the task once no advance is under way (at once, through the loop, when none is). */
void clock_when_settled(struct clock *clock, struct task *task);

void clock_freeze(struct clock *clock);
void clock_resume(struct clock *clock);
bool clock_frozen(const struct clock *clock);
/* Back to real time; for POST /reset, when no timer is armed. */
void clock_reset(struct clock *clock);
/* {now, mode, offsetMs, pending: [{at, sandbox, kind}]}; new reference. */
json_t *clock_describe(const struct clock *clock);

/* "90s", "10m", "2h30m", "1d", "250ms"; a number without a unit is refused. Milliseconds, or -EINVAL, -ERANGE. */
int64_t clock_parse_duration(const char *text);
/* "2026-11-18T06:02:46.975Z" and its shorter and ±hh:mm forms; -1 when it is none. */
int64_t clock_parse_time(const char *text);

#endif
