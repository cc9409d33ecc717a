/* Requests to the runtime: each holds the container until it is answered, so that an answer never
 * finds it freed. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "container/internal.h"

struct ask {
    struct container *container;
    agent_done *done;
    void *arg;
};

static void answered(void *arg, struct agent_answer *answer)
{
    struct ask ask = *(struct ask *)arg;
    free(arg);
    if (answer->value == -EPIPE)
        ask.container->lost = true;
    if (ask.done)
        ask.done(ask.arg, answer);
    ask.container->asked--;
    container_settle(ask.container);
}

static struct ask *ask_new(struct container *container, agent_done *done, void *arg)
{
    struct ask *ask = calloc(1, sizeof *ask);
    if (ask)
        *ask = (struct ask){container, done, arg};
    return ask;
}

/* The request could not be sent: the same callback hears why. */
static void refuse(struct ask *ask, struct container *container, agent_done *done, void *arg,
                   int error)
{
    struct agent_answer answer = {.value = error};
    container->asked++;
    if (ask) {
        answered(ask, &answer);
        return;
    }
    if (done)
        done(arg, &answer);
    container->asked--;
    container_settle(container);
}

#define ASK(container, done, arg, request)                                                         \
    do {                                                                                           \
        struct ask *ask = ask_new(container, done, arg);                                           \
        int result = !ask ? -ENOMEM : !(container)->agent || (container)->lost ? -EPIPE : request; \
        if (result < 0)                                                                            \
            refuse(ask, container, done, arg, result);                                             \
        else                                                                                       \
            (container)->asked++;                                                                  \
    } while (0)

void ask_spawn(struct container *container, const struct agent_spawn *spawn, agent_done *done,
               void *arg)
{
    ASK(container, done, arg, agent_spawn(container->agent, spawn, answered, ask));
}

void ask_fifos(struct container *container, agent_done *done, void *arg)
{
    ASK(container, done, arg, agent_fifos(container->agent, answered, ask));
}

void ask_fifos_three(struct container *container, agent_done *done, void *arg)
{
    ASK(container, done, arg, agent_fifos_three(container->agent, answered, ask));
}

void ask_end(struct container *container, const struct rt_end *what, agent_done *done, void *arg)
{
    ASK(container, done, arg, agent_end(container->agent, what, answered, ask));
}

void ask_signal(struct container *container, int pid, int signal, uint32_t scope, agent_done *done,
                void *arg)
{
    ASK(container, done, arg, agent_signal(container->agent, pid, signal, scope, answered, ask));
}

void ask_path(struct container *container, enum rt_op op, struct rt_path how, const char *path,
              const char *second, agent_done *done, void *arg)
{
    ASK(container, done, arg, agent_path(container->agent, op, &how, path, second, answered, ask));
}

void ask_connect(struct container *container, uint16_t port, bool ipv6, agent_done *done, void *arg)
{
    ASK(container, done, arg, agent_connect(container->agent, port, ipv6, answered, ask));
}
