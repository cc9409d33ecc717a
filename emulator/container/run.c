#include "container/run.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { TERM_GRACE_MS = 5000, KILL_GRACE_MS = 1000 };

static void finish(struct run *run, int error, const struct rt_exit *how)
{
    loop_disarm(run->container->loop, &run->timer);
    for (int i = 0; i < 2; i++) {
        output_drain(&run->out[i]);
        output_unwatch(&run->out[i]);
    }
    run->done(run, error, how);
}

static void process_ended(struct proc *proc, const struct rt_exit *how)
{
    finish((struct run *)((char *)proc - offsetof(struct run, proc)), 0, how);
}

static void overdue(void *arg)
{
    struct run *run = arg;
    struct loop *loop = run->container->loop;
    if (run->stage == 2) {
        /* Not even SIGKILL ended it: whoever waits has waited long enough. */
        struct rt_exit how = {.code = 128 + SIGKILL, .signal = SIGKILL};
        container_drop_proc(run->container, &run->proc);
        finish(run, 0, &how);
        return;
    }
    int stage = run->stage++;
    loop_arm(loop, &run->timer, MS_NS(stage == 0 ? TERM_GRACE_MS : KILL_GRACE_MS));
    ask_signal(run->container, run->proc.pid, stage == 0 ? SIGTERM : SIGKILL, RT_SIGNAL_GROUP, NULL,
               NULL);
}

static void spawned(void *arg, struct agent_answer *answer)
{
    struct run *run = arg;
    if (answer->value < 0) {
        finish(run, answer->value, NULL);
        return;
    }
    struct container *container = run->container;
    run->proc.pid = answer->value;
    container_add_proc(container, &run->proc);
    for (int i = 0; i < 2; i++) {
        output_open(&run->out[i], container->loop, steal_fd(&answer->fds[i]), run->output_max);
        output_watch(&run->out[i]);
    }
    if (run->timeout_ms) {
        run->timer = (struct timer){.fire = overdue, .arg = run};
        loop_arm(container->loop, &run->timer, MS_NS(run->timeout_ms));
    }
}

void run_start(struct run *run, struct container *container, const char *const *argv,
               const char *cwd, const char *const *env)
{
    static const struct rt_slot slots[] = {{0, RT_SLOT_NULL}, {1, RT_SLOT_OUT}, {2, RT_SLOT_OUT}};
    run->container = container;
    run->proc.ended = process_ended;
    run->out[0] = run->out[1] = OUTPUT_INIT;
    struct agent_spawn spawn = {.cwd = cwd && *cwd ? cwd : RT_DEFAULT_DIR,
                                .argv = argv,
                                .env = env ? env : environment_list(&container->env),
                                .slots = slots,
                                .slot_count = sizeof slots / sizeof *slots,
                                .flags = RT_SPAWN_GROUP};
    ask_spawn(container, &spawn, spawned, run);
}

static void directory_known(void *arg, struct agent_answer *answer)
{
    struct run *run = arg;
    if (answer->value < 0 || !memchr(answer->payload, '\0', answer->size)) {
        finish(run, answer->value < 0 ? answer->value : -EPROTO, NULL);
        return;
    }
    /* The answer's bytes do not survive the next request. */
    CLEANUP_FREE char *cwd = strdup(answer->payload);
    if (cwd)
        run_start(run, run->container, run->argv, cwd, NULL);
    else
        finish(run, -ENOMEM, NULL);
}

void run_start_beside(struct run *run, struct container *container, const char *const *argv,
                      int base_pid)
{
    if (!base_pid) {
        run_start(run, container, argv, NULL, NULL);
        return;
    }
    run->container = container;
    run->out[0] = run->out[1] = OUTPUT_INIT;
    for (size_t i = 0; argv[i] && i + 1 < sizeof run->argv / sizeof *run->argv; i++)
        run->argv[i] = argv[i];
    char link[32];
    snprintf(link, sizeof link, "/proc/%d/cwd", base_pid);
    ask_path(container, RT_READLINK, (struct rt_path){0}, link, NULL, directory_known, run);
}

void run_close(struct run *run)
{
    if (!run->container)
        return;
    loop_disarm(run->container->loop, &run->timer);
    if (run->proc.pid)
        container_drop_proc(run->container, &run->proc);
    for (int i = 0; i < 2; i++)
        output_let_go(&run->out[i], run->container);
    run->container = NULL;
}
