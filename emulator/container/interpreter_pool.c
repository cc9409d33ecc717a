#include "container/interpreter_pool.h"

#include <stdio.h>
#include <stdlib.h>

#include "container/interpreter.h"

enum { POOL_MAX = 64 };

/* By default one waits once the language is used, so that a sandbox that runs no code pays nothing.
 */
static int64_t wanted(const struct container *container, enum language language)
{
    char name[64];
    if (language == LANGUAGE_PYTHON && container->interpreter.lean)
        return 0;
    snprintf(name, sizeof name, "%s_POOL_MIN_SIZE", language_row(language)->prefix);
    int64_t count = interpreter_setting(container, name, container->interpreter.used[language]);
    return count < POOL_MAX ? count : POOL_MAX;
}

static void answered(struct executor *executor, struct buf *text)
{
    pool_fill(executor->container, executor->language);
}

/* Not tried again: whoever asks for a context hears why. */
static void ended(struct executor *executor, int error)
{
}

static const struct executor_events waiting = {answered, ended};

static bool waits(const struct executor *executor, enum language language)
{
    return executor->language == language && executor->events == &waiting && !executor->released &&
           !*executor->why;
}

struct executor *pool_take(struct container *container, enum language language)
{
    struct executor *found = NULL;
    for (struct executor *executor = container->interpreter.executors; executor;
         executor = executor->next) {
        if (waits(executor, language) && (!found || executor->ready))
            found = executor;
    }
    return found;
}

bool pool_full(const struct container *container, enum language language)
{
    char name[64];
    snprintf(name, sizeof name, "%s_POOL_MAX_SIZE", language_row(language)->prefix);
    int64_t most = interpreter_setting(container, name, INT64_MAX), count = 0;
    for (const struct executor *executor = container->interpreter.executors; executor;
         executor = executor->next)
        count += executor->language == language && !executor->released;
    return count >= most;
}

void pool_fill(struct container *container, enum language language)
{
    int64_t count = 0;
    for (const struct executor *executor = container->interpreter.executors; executor;
         executor = executor->next) {
        if (executor->language != language || executor->released)
            continue;
        if (!executor->ready)
            return; /* filled when it is */
        count += executor->events == &waiting;
    }
    if (container->stopping || container->lost || count >= wanted(container, language) ||
        pool_full(container, language))
        return;
    struct executor *executor = executor_new(container, language, &waiting, NULL);
    if (executor)
        executor_start(executor);
}
