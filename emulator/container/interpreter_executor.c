#include "container/interpreter_executor.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "container/interpreter.h"

enum {
    ANSWERS_FD = 7,
    REQUESTS_FD = 8,
    SHARED_FD = 9,
    ANSWER_MAX = 64 * 1024 * 1024,
    KILL_AFTER_MS = 1000,
};

static void list_remove(struct executor *executor)
{
    for (struct executor **at = &executor->container->interpreter.executors; *at;
         at = &(*at)->next) {
        if (*at == executor) {
            *at = executor->next;
            return;
        }
    }
}

void executor_free(struct executor *executor)
{
    struct loop *loop = executor->container->loop;
    list_remove(executor);
    loop_disarm(loop, &executor->timer);
    loop_unwatch(loop, &executor->watch);
    if (executor->proc.pid)
        container_drop_proc(executor->container, &executor->proc);
    int *const fds[] = {&executor->requests, &executor->answers, &executor->shared};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
    }
    for (int i = 0; i < 2; i++)
        output_let_go(&executor->out[i], executor->container);
    free(executor);
}

static void end(struct executor *executor, int error)
{
    loop_unwatch(executor->container->loop, &executor->watch);
    loop_disarm(executor->container->loop, &executor->timer);
    executor->busy = false;
    if (!executor->released)
        executor->events->ended(executor, error);
    executor_free(executor);
}

/* It does not keep to the protocol, or does not start: its end says the rest. */
static void give_up(struct executor *executor, const char *why)
{
    if (!*executor->why)
        snprintf(executor->why, sizeof executor->why, "%s", why);
    loop_unwatch(executor->container->loop, &executor->watch);
    if (executor->proc.pid)
        ask_signal(executor->container, executor->proc.pid, SIGKILL, RT_SIGNAL_TREE, NULL, NULL);
}

/* Answers. */

/* What lies in the shared memory. */
static int read_shared(const struct executor *executor, struct buf *text, size_t size)
{
    int error = 0;
    if (size > ANSWER_MAX)
        return -EMSGSIZE;
    char *to = buf_reserve(text, size, &error);
    if (!to)
        return error;
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(executor->shared, to + done, size - done, (off_t)done);
        if (got <= 0)
            return got < 0 ? -errno : -EPROTO;
        done += (size_t)got;
    }
    buf_commit(text, size);
    return 0;
}

/* Output is kept while a request runs and dropped at other times, when it is said to be too much.
 */
static void keep_output(struct executor *executor, bool on)
{
    for (int i = 0; i < 2; i++) {
        output_drain(&executor->out[i]);
        buf_free(&executor->out[i].data);
        executor->out[i].overflow = !on;
    }
}

static void take_answer(struct executor *executor, size_t size)
{
    CLEANUP_BUF struct buf text = BUF_INIT(ANSWER_MAX + 1);
    int error = read_shared(executor, &text, size);
    if (error) {
        give_up(executor,
                error == -EMSGSIZE ? "its results are larger than 64 MiB" : strerror(-error));
        return;
    }
    for (int i = 0; i < 2; i++)
        output_drain(&executor->out[i]);
    loop_disarm(executor->container->loop, &executor->timer);
    executor->ready = true;
    executor->busy = false;
    if (!executor->released)
        executor->events->answered(executor, &text);
    if (!executor->busy)
        keep_output(executor, false);
}

/* True when a line is complete; its number is in *size. A process that was tampered with may say
 * anything here. */
static bool read_line(struct executor *executor, size_t *size)
{
    char c;
    while (executor->line_size < sizeof executor->line && read(executor->answers, &c, 1) == 1) {
        executor->line[executor->line_size++] = c;
        if (c != '\n')
            continue;
        char *last;
        executor->line[executor->line_size - 1] = '\0';
        executor->line_size = 0;
        errno = 0;
        unsigned long long number = strtoull(executor->line, &last, 10);
        if (errno == 0 && last != executor->line && *last == '\0' && executor->busy) {
            *size = number > ANSWER_MAX ? ANSWER_MAX + 1 : (size_t)number;
            return true;
        }
        break;
    }
    return false;
}

static void answers_ready(void *arg, uint32_t events)
{
    struct executor *executor = arg;
    size_t size = 0;
    if (read_line(executor, &size))
        take_answer(executor, size);
    else if (events & (EPOLLHUP | EPOLLERR))
        loop_unwatch(executor->container->loop, &executor->watch); /* its end follows */
    else if (!executor->line_size || executor->line_size == sizeof executor->line)
        give_up(executor, "the code wrote into the interpreter's own pipe");
}

/* Requests. */

static int write_shared(const struct executor *executor, const char *text, size_t size)
{
    if (ftruncate(executor->shared, 0) < 0)
        return -errno;
    for (size_t done = 0; done < size;) {
        ssize_t put = pwrite(executor->shared, text + done, size - done, (off_t)done);
        if (put < 0)
            return -errno;
        done += (size_t)put;
    }
    return 0;
}

void executor_send(struct executor *executor, const char *kind, const char *text, size_t size)
{
    char line[48];
    int length = snprintf(line, sizeof line, "%s%s%zu\n", kind, *kind ? " " : "", size);
    keep_output(executor, true);
    executor->busy = true;
    int error = write_shared(executor, text, size);
    /* Shorter than PIPE_BUF: all of it or nothing. A broken pipe means that it is about to end. */
    if (!error && write(executor->requests, line, (size_t)length) < 0 && errno != EPIPE)
        error = -errno;
    if (error)
        give_up(executor, strerror(-error));
}

/* The life of the process. */

static void process_ended(struct proc *proc, const struct rt_exit *how)
{
    struct executor *executor = (struct executor *)((char *)proc - offsetof(struct executor, proc));
    executor->how = *how;
    /* It may have answered before it ended. */
    size_t size;
    if (executor->busy && !*executor->why && read_line(executor, &size))
        take_answer(executor, size);
    for (int i = 0; i < 2; i++)
        output_drain(&executor->out[i]);
    end(executor, 0);
}

static void overdue(void *arg)
{
    give_up(arg, "it did not start in time");
}

static void spawned(void *arg, struct agent_answer *answer)
{
    struct executor *executor = arg;
    struct container *container = executor->container;
    if (answer->value < 0) {
        end(executor, answer->value);
        return;
    }
    executor->proc.pid = answer->value;
    container_add_proc(container, &executor->proc);
    for (int i = 0; i < 2; i++) {
        output_open(&executor->out[i], container->loop, steal_fd(&answer->fds[i]), OUTPUT_MAX);
        output_watch(&executor->out[i]);
    }
    executor->answers = steal_fd(&answer->fds[2]);
    executor->requests = steal_fd(&answer->fds[3]);
    executor->shared = steal_fd(&answer->fds[4]);
    executor->watch = (struct watch){.ready = answers_ready, .arg = executor, .fd = -1};
    const struct language_row *row = language_row(executor->language);
    int error = loop_watch(container->loop, &executor->watch, executor->answers, EPOLLIN);
    executor_send(executor, "", row->driver, (size_t)(row->driver_end - row->driver));
    if (error < 0 || *executor->why)
        give_up(executor, strerror(-error));
    else if (executor->released)
        executor_release(executor);
}

static int add_environment(struct environment *env, const struct container *container)
{
    static const char *const own[][2] = {{"PYTHONUNBUFFERED", "1"},
                                         {"NODE_NO_WARNINGS", "1"},
                                         {"LANG", "C.UTF-8"},
                                         {"LC_ALL", "C.UTF-8"}};
    int error = environment_add_list(env, environment_list(&container->env));
    for (size_t i = 0; i < sizeof own / sizeof *own && error == 0; i++)
        error = environment_set(env, own[i][0], own[i][1]);
    return error;
}

struct executor *executor_new(struct container *container, enum language language,
                              const struct executor_events *events, void *owner)
{
    struct executor *executor = calloc(1, sizeof *executor);
    if (!executor)
        return NULL;
    executor->container = container;
    executor->language = language;
    executor->events = events;
    executor->owner = owner;
    executor->requests = executor->answers = executor->shared = -1;
    executor->watch = WATCH_INIT;
    executor->out[0] = executor->out[1] = OUTPUT_INIT;
    executor->proc.ended = process_ended;
    executor->next = container->interpreter.executors;
    container->interpreter.executors = executor;
    return executor;
}

void executor_start(struct executor *executor)
{
    static const struct rt_slot slots[] = {{0, RT_SLOT_NULL},         {1, RT_SLOT_OUT},
                                           {2, RT_SLOT_OUT},          {ANSWERS_FD, RT_SLOT_OUT},
                                           {REQUESTS_FD, RT_SLOT_IN}, {SHARED_FD, RT_SLOT_MEMFD}};
    struct container *container = executor->container;
    CLEANUP_ENVIRONMENT struct environment env = {0};
    if (add_environment(&env, container) < 0) {
        end(executor, -ENOMEM);
        return;
    }
    struct agent_spawn spawn = {.cwd = RT_DEFAULT_DIR,
                                .argv = language_row(executor->language)->argv,
                                .env = environment_list(&env),
                                .slots = slots,
                                .slot_count = sizeof slots / sizeof *slots,
                                .flags = RT_SPAWN_SESSION | RT_SPAWN_HOME};
    executor->timer = (struct timer){.fire = overdue, .arg = executor};
    loop_arm(container->loop, &executor->timer,
             MS_NS(interpreter_setting(container, "INTERPRETER_SPAWN_TIMEOUT_MS", 60000)));
    ask_spawn(container, &spawn, spawned, executor);
}

static void kill_late(void *arg)
{
    give_up(arg, "it did not end in time");
}

void executor_release(struct executor *executor)
{
    struct container *container = executor->container;
    executor->released = true;
    executor->owner = NULL;
    if (!executor->proc.pid)
        return; /* until it is spawned */
    executor->timer.fire = kill_late;
    executor->timer.arg = executor;
    loop_arm(container->loop, &executor->timer, MS_NS(KILL_AFTER_MS));
    ask_signal(container, executor->proc.pid, SIGTERM, RT_SIGNAL_TREE, NULL, NULL);
}

void executor_describe_end(const struct executor *executor, char *to, size_t size)
{
    if (*executor->why)
        snprintf(to, size, "%s", executor->why);
    else if (executor->how.signal)
        snprintf(to, size, "signal %d", executor->how.signal);
    else
        snprintf(to, size, "exit code %d", executor->how.code);
}
