/* The event loop: one thread, one epoll, real (monotonic) timers, deferred work and signals. All
 * state of the emulator is changed from its callbacks and nowhere else. */
#ifndef SANDPIT_BASE_LOOP_H
#define SANDPIT_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct loop;

/* A watched descriptor. The struct belongs to the caller and must outlive the watch; the loop never
 * closes the descriptor. Unwatching in a callback, even of another watch, is safe. */
struct watch {
    void (*ready)(void *arg, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLRDHUP… */
    void *arg;
    int fd; /* -1 while not watched */
};
#define WATCH_INIT ((struct watch){.fd = -1})

/* A one-shot real timer, owned by the caller. */
struct timer {
    void (*fire)(void *arg);
    void *arg;
    int64_t due_ns; /* CLOCK_MONOTONIC */
    int slot;       /* 0 while not armed: a zeroed struct is an unarmed timer */
};

/* Work that runs before the loop next waits; owned by the caller. */
struct task {
    void (*run)(void *arg);
    void *arg;
    struct task *next;
    bool queued;
};

struct loop *loop_new(struct error *err);
void loop_free(struct loop *loop);
/* Runs until loop_stop(). */
int loop_run(struct loop *loop, struct error *err);
void loop_stop(struct loop *loop);

int loop_watch(struct loop *loop, struct watch *watch, int fd, uint32_t events);
int loop_rewatch(struct loop *loop, struct watch *watch, uint32_t events);
void loop_unwatch(struct loop *loop, struct watch *watch);

int64_t loop_now_ns(void);
int loop_arm(struct loop *loop, struct timer *timer, int64_t in_ns);
void loop_disarm(struct loop *loop, struct timer *timer);
static inline bool timer_armed(const struct timer *timer)
{
    return timer->slot != 0;
}

void loop_defer(struct loop *loop, struct task *task);
void loop_cancel(struct loop *loop, struct task *task);

/* Blocks the signal and delivers it to the callback from the loop. At most 8 signals. */
int loop_signal(struct loop *loop, int signal, void (*caught)(void *arg, int signal), void *arg);

/* Calls back once when the child has ended, with waitid's code and status, and reaps it. The struct
 * belongs to the caller; loop_child_forget() drops the watch without reaping. */
struct child {
    void (*ended)(void *arg, int code, int status); /* CLD_EXITED, CLD_KILLED, CLD_DUMPED */
    void *arg;
    int pid;
    int pidfd;
    struct loop *loop;
    struct watch watch;
};
int loop_child(struct loop *loop, struct child *child, int pid, struct error *err);
void loop_child_forget(struct child *child);

#define MS_NS(ms) ((int64_t)(ms)*1000000)

#endif
