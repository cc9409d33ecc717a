#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, SIGNALS_MAX = 8 };

struct caught {
    int signal;
    void (*caught)(void *arg, int signal);
    void *arg;
};

struct loop {
    int epoll;
    bool stopped;
    /* The batch being delivered: loop_unwatch() blanks entries of it, so that a callback never sees
     * a watch that an earlier callback of the same batch has dropped. */
    struct epoll_event batch[BATCH];
    int batch_size;
    /* Binary heap of armed timers, from index 1; a timer's slot is its index. */
    struct timer **heap;
    int heap_size, heap_capacity;
    struct task *first, **last;
    sigset_t signals;
    struct watch signal_watch;
    struct caught caught[SIGNALS_MAX];
    int caught_count;
};

int64_t loop_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct loop *loop_new(struct error *err)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop) {
        error_errno(err, ENOMEM, "event loop");
        return NULL;
    }
    loop->last = &loop->first;
    loop->signal_watch = WATCH_INIT;
    sigemptyset(&loop->signals);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0) {
        error_errno(err, errno, "epoll_create1");
        free(loop);
        return NULL;
    }
    return loop;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    if (loop->signal_watch.fd >= 0)
        close(loop->signal_watch.fd);
    close(loop->epoll);
    free(loop->heap);
    free(loop);
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
}

/* Descriptors. */

int loop_watch(struct loop *loop, struct watch *watch, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    watch->fd = fd;
    return 0;
}

int loop_rewatch(struct loop *loop, struct watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    return epoll_ctl(loop->epoll, EPOLL_CTL_MOD, watch->fd, &event) < 0 ? -errno : 0;
}

void loop_unwatch(struct loop *loop, struct watch *watch)
{
    if (watch->fd < 0)
        return;
    /* Closed before it was unwatched, a file that somebody else holds too would be reported on. */
    bool was_open = epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL) == 0 || errno != EBADF;
    assert(was_open);
    (void)was_open;
    watch->fd = -1;
    for (int i = 0; i < loop->batch_size; i++) {
        if (loop->batch[i].data.ptr == watch)
            loop->batch[i].data.ptr = NULL;
    }
}

/* Timers. */

static void heap_put(struct loop *loop, int slot, struct timer *timer)
{
    loop->heap[slot] = timer;
    timer->slot = slot;
}

static void heap_up(struct loop *loop, int slot)
{
    struct timer *timer = loop->heap[slot];
    while (slot > 1 && loop->heap[slot / 2]->due_ns > timer->due_ns) {
        heap_put(loop, slot, loop->heap[slot / 2]);
        slot /= 2;
    }
    heap_put(loop, slot, timer);
}

static void heap_down(struct loop *loop, int slot)
{
    struct timer *timer = loop->heap[slot];
    for (;;) {
        int child = slot * 2;
        if (child > loop->heap_size)
            break;
        if (child < loop->heap_size && loop->heap[child + 1]->due_ns < loop->heap[child]->due_ns)
            child++;
        if (loop->heap[child]->due_ns >= timer->due_ns)
            break;
        heap_put(loop, slot, loop->heap[child]);
        slot = child;
    }
    heap_put(loop, slot, timer);
}

int loop_arm(struct loop *loop, struct timer *timer, int64_t in_ns)
{
    loop_disarm(loop, timer);
    if (loop->heap_size + 1 >= loop->heap_capacity) {
        int capacity = loop->heap_capacity ? loop->heap_capacity * 2 : 16;
        struct timer **heap = realloc(loop->heap, (size_t)capacity * sizeof(struct timer *));
        if (!heap)
            return -ENOMEM;
        loop->heap = heap;
        loop->heap_capacity = capacity;
    }
    timer->due_ns = loop_now_ns() + (in_ns > 0 ? in_ns : 0);
    loop->heap_size++;
    heap_put(loop, loop->heap_size, timer);
    heap_up(loop, loop->heap_size);
    return 0;
}

void loop_disarm(struct loop *loop, struct timer *timer)
{
    int slot = timer->slot;
    if (!slot)
        return;
    timer->slot = 0;
    struct timer *moved = loop->heap[loop->heap_size--];
    if (moved == timer)
        return;
    heap_put(loop, slot, moved);
    heap_up(loop, slot);
    heap_down(loop, moved->slot);
}

static void run_timers(struct loop *loop)
{
    int64_t now = loop_now_ns();
    while (loop->heap_size && loop->heap[1]->due_ns <= now && !loop->stopped) {
        struct timer *timer = loop->heap[1];
        loop_disarm(loop, timer);
        timer->fire(timer->arg);
    }
}

/* How long epoll may wait, in ms: rounded up, so that a timer is never polled for early. */
static int wait_ms(const struct loop *loop)
{
    if (loop->first)
        return 0;
    if (!loop->heap_size)
        return -1;
    int64_t left = loop->heap[1]->due_ns - loop_now_ns();
    if (left <= 0)
        return 0;
    int64_t ms = (left + 999999) / 1000000;
    return ms > 3600000 ? 3600000 : (int)ms;
}

/* Tasks. */

void loop_defer(struct loop *loop, struct task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    task->next = NULL;
    *loop->last = task;
    loop->last = &task->next;
}

void loop_cancel(struct loop *loop, struct task *task)
{
    if (!task->queued)
        return;
    for (struct task **at = &loop->first; *at; at = &(*at)->next) {
        if (*at != task)
            continue;
        *at = task->next;
        if (loop->last == &task->next)
            loop->last = at;
        break;
    }
    task->queued = false;
}

/* Runs what was queued before this turn; what these tasks queue waits for the next one, so that
 * descriptors are served in between. */
static void run_tasks(struct loop *loop)
{
    struct task *end = NULL;
    for (struct task *task = loop->first; task; task = task->next)
        end = task;
    while (loop->first && !loop->stopped) {
        struct task *task = loop->first;
        loop_cancel(loop, task);
        task->run(task->arg);
        if (task == end)
            break;
    }
}

/* Signals and children. */

static void signal_ready(void *arg, uint32_t events)
{
    struct loop *loop = arg;
    struct signalfd_siginfo info;
    while (read(loop->signal_watch.fd, &info, sizeof info) == sizeof info) {
        for (int i = 0; i < loop->caught_count; i++) {
            if (loop->caught[i].signal == (int)info.ssi_signo)
                loop->caught[i].caught(loop->caught[i].arg, loop->caught[i].signal);
        }
    }
}

int loop_signal(struct loop *loop, int signal, void (*caught)(void *arg, int signal), void *arg)
{
    if (loop->caught_count == SIGNALS_MAX)
        return -ENOSPC;
    sigaddset(&loop->signals, signal);
    if (sigprocmask(SIG_BLOCK, &loop->signals, NULL) < 0)
        return -errno;
    int fd = signalfd(loop->signal_watch.fd, &loop->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    loop->caught[loop->caught_count++] = (struct caught){signal, caught, arg};
    if (loop->signal_watch.fd >= 0)
        return 0;
    loop->signal_watch = (struct watch){.ready = signal_ready, .arg = loop, .fd = -1};
    return loop_watch(loop, &loop->signal_watch, fd, EPOLLIN);
}

static void child_ready(void *arg, uint32_t events)
{
    struct child *child = arg;
    siginfo_t info = {0};
    if (waitid((idtype_t)P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return;
    loop_child_forget(child);
    child->ended(child->arg, info.si_code, info.si_status);
}

int loop_child(struct loop *loop, struct child *child, int pid, struct error *err)
{
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (child->pidfd < 0)
        return error_errno(err, errno, "watch process %d", pid);
    child->pid = pid;
    child->loop = loop;
    child->watch = (struct watch){.ready = child_ready, .arg = child, .fd = -1};
    int result = loop_watch(loop, &child->watch, child->pidfd, EPOLLIN);
    if (result < 0) {
        close(child->pidfd);
        child->pidfd = -1;
        return error_errno(err, -result, "watch process %d", pid);
    }
    return 0;
}

void loop_child_forget(struct child *child)
{
    if (!child->loop)
        return;
    loop_unwatch(child->loop, &child->watch);
    close(child->pidfd);
    child->pidfd = -1;
    child->loop = NULL;
}

int loop_run(struct loop *loop, struct error *err)
{
    loop->stopped = false;
    while (!loop->stopped) {
        int count = epoll_wait(loop->epoll, loop->batch, BATCH, wait_ms(loop));
        if (count < 0 && errno != EINTR)
            return error_errno(err, errno, "epoll_wait");
        loop->batch_size = count > 0 ? count : 0;
        for (int i = 0; i < loop->batch_size && !loop->stopped; i++) {
            struct watch *watch = loop->batch[i].data.ptr;
            if (watch)
                watch->ready(watch->arg, loop->batch[i].events);
        }
        loop->batch_size = 0;
        run_timers(loop);
        run_tasks(loop);
    }
    return 0;
}
