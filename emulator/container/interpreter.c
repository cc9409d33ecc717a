/* Contexts are made, listed and deleted here; interpreter_run.c runs code in them. */
#include "container/interpreter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/random.h"
#include "container/interpreter_context.h"
#include "container/interpreter_pool.h"

enum { CONTEXTS_MAX = 1000, COMPLAINT_MAX = 2000 };

int64_t interpreter_setting(const struct container *container, const char *name, int64_t fallback)
{
    const char *text = environment_get(&container->env, name);
    char *end;
    if (!text || !*text)
        return fallback;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return errno || *end || value < 0 ? fallback : value;
}

void interpreter_open(struct container *container)
{
    for (int language = 0; language < LANGUAGE_COUNT; language++)
        pool_fill(container, (enum language)language);
}

static void context_free(struct context *context)
{
    free(context->cwd);
    free(context);
}

void interpreter_close(struct container *container)
{
    struct interpreter *interpreter = &container->interpreter;
    while (interpreter->contexts) {
        struct context *next = interpreter->contexts->next;
        context_free(interpreter->contexts);
        interpreter->contexts = next;
    }
    while (interpreter->executors)
        executor_free(interpreter->executors);
}

size_t interpreter_processes(const struct container *container)
{
    size_t count = 0;
    for (const struct executor *executor = container->interpreter.executors; executor;
         executor = executor->next)
        count += executor->proc.pid != 0;
    return count;
}

struct context *context_find(const struct container *container, const char *id)
{
    struct context *context = container->interpreter.contexts;
    while (context && strcmp(context->id, id) != 0)
        context = context->next;
    return context;
}

/* Making one. */

struct creation {
    struct job job;
    enum language language;
    const char *cwd;
    const json_t *env;
    struct executor *executor;
    bool set_up;
};

static void creation_release(struct job *job)
{
    struct creation *creation = (struct creation *)job;
    if (creation->executor)
        executor_release(creation->executor);
}

static const struct job_kind creation_kind = {
    .op = "createContext",
    .size = sizeof(struct creation),
    .release = creation_release,
};

static struct context *context_new(struct creation *creation)
{
    struct container *container = creation->job.container;
    struct context *context = calloc(1, sizeof *context);
    char *cwd = strdup(creation->cwd);
    if (!context || !cwd) {
        free(context);
        free(cwd);
        return NULL;
    }
    context->container = container;
    context->language = creation->language;
    context->cwd = cwd;
    context->tail = &context->head;
    random_uuid(context->id);
    struct context **at = &container->interpreter.contexts;
    while (*at)
        at = &(*at)->next;
    *at = context;
    container->interpreter.context_count++;
    context_adopt(context, steal_pointer(&creation->executor));
    return context;
}

static void finish(struct creation *creation)
{
    struct container *container = creation->job.container;
    struct context *context = context_new(creation);
    if (!context) {
        job_error(&creation->job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    const char *language = language_row(context->language)->name;
    enum language used = context->language;
    container_note(container, "interpreter.created",
                   json_pack("{s:s,s:s}", "contextId", context->id, "language", language));
    job_result(&creation->job, json_pack("{s:b,s:s,s:s,s:s,s:o}", "success", 1, "contextId",
                                         context->id, "language", language, "cwd", context->cwd,
                                         "timestamp", job_timestamp(&creation->job)));
    pool_fill(container, used);
}

/* The process is there. It may have been started before anybody knew of this context's directory
 * and variables. */
static void prepare(struct creation *creation)
{
    bool plain = strcmp(creation->cwd, RT_DEFAULT_DIR) == 0 && json_object_size(creation->env) == 0;
    if (creation->set_up || plain) {
        finish(creation);
        return;
    }
    creation->set_up = true;
    CLEANUP_JSON json_t *wanted =
        json_pack("{s:s,s:O*}", "cwd", creation->cwd, "env", creation->env);
    CLEANUP_BUF struct buf text = BUF_INIT(64 << 20);
    if (!wanted || json_write(&text, wanted, NULL, NULL) < 0) {
        job_error(&creation->job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    executor_send(creation->executor, "setup", text.data, text.size);
}

static void answered(struct executor *executor, struct buf *text)
{
    prepare(executor->owner);
}

/* The last of what it wrote to standard error, as text. */
static char *complaint_of(const struct executor *executor)
{
    const struct buf *data = &executor->out[1].data;
    size_t size = data->size < COMPLAINT_MAX ? data->size : COMPLAINT_MAX;
    CLEANUP_BUF struct buf clean = BUF_INIT(4 * COMPLAINT_MAX);
    if (size)
        jsonstr_clean(&clean, data->data + data->size - size, size, true);
    while (clean.size && clean.data[clean.size - 1] == '\n')
        clean.data[--clean.size] = '\0';
    return strdup(buf_text(&clean));
}

static void not_installed(struct creation *creation)
{
    if (creation->language == LANGUAGE_PYTHON) {
        job_error(&creation->job, CODE_PYTHON_NOT_AVAILABLE, NULL, NULL,
                  "Python interpreter not available: this image has no python3. Use an image whose "
                  "tag ends in -python");
        return;
    }
    const char *program = language_row(creation->language)->program;
    CLEANUP_FREE char *why = NULL;
    if (asprintf(&why, "%s is not installed", program) < 0)
        why = NULL;
    job_error(&creation->job, CODE_INTERNAL_ERROR, NULL, json_pack("{s:s*}", "originalError", why),
              "No %s runtime found: %s is not installed", language_row(creation->language)->name,
              program);
}

static void ended(struct executor *executor, int error)
{
    struct creation *creation = executor->owner;
    struct container *container = executor->container;
    enum language language = creation->language;
    creation->executor = NULL;
    if (error == -EPIPE || container->stopping) {
        job_interrupted(&creation->job);
        return;
    }
    if (error == -ENOENT || error == -EACCES) {
        not_installed(creation);
        return;
    }
    char how[200];
    executor_describe_end(executor, how, sizeof how);
    CLEANUP_FREE char *complaint = complaint_of(executor);
    const char *why = error ? strerror(-error) : complaint && *complaint ? complaint : how;
    job_error(&creation->job, CODE_INTERNAL_ERROR, NULL, json_pack("{s:s}", "originalError", why),
              "The %s interpreter did not start (%s): %s", language_row(language)->name,
              error ? "it could not be run" : how, why);
}

static const struct executor_events creation_events = {answered, ended};

static void begin(struct creation *creation)
{
    struct container *container = creation->job.container;
    struct executor *executor = pool_take(container, creation->language);
    if (executor) {
        executor->events = &creation_events;
        executor->owner = creation;
        creation->executor = executor;
        if (executor->ready)
            prepare(creation);
        return;
    }
    const char *refusal = pool_full(container, creation->language) ? "its limit is reached" : NULL;
    if (!refusal &&
        !(executor = executor_new(container, creation->language, &creation_events, creation)))
        refusal = "out of memory";
    if (refusal) {
        job_error(&creation->job, CODE_INTERNAL_ERROR, NULL,
                  json_pack("{s:s}", "originalError", refusal),
                  "No more %s processes can be started: %s", language_row(creation->language)->name,
                  refusal);
        return;
    }
    creation->executor = executor;
    executor_start(executor);
}

void op_context_create(struct container *container, struct call *call)
{
    const char *name = NULL, *cwd = RT_DEFAULT_DIR;
    const json_t *env = NULL;
    enum language language;
    if (!arg_text(call, "language", false, &name) || !arg_text(call, "cwd", false, &cwd) ||
        !arg_env(call, "env_vars", &env))
        return;
    if (container->interpreter.context_count >= CONTEXTS_MAX) {
        call_error(call, CODE_INTERNAL_ERROR, NULL,
                   json_pack("{s:s}", "originalError", "too many contexts"),
                   "A container has at most %d contexts; delete some", CONTEXTS_MAX);
        return;
    }
    language_find(name, &language); /* what it does not know is Python, as in the original */
    struct creation *creation = job_new(container, call, &creation_kind);
    if (!creation)
        return;
    creation->language = language;
    creation->cwd = *cwd ? cwd : RT_DEFAULT_DIR;
    creation->env = env;
    if (language == LANGUAGE_PYTHON && container->interpreter.lean) {
        not_installed(creation);
        return;
    }
    container->interpreter.used[language] = true;
    begin(creation);
}

/* The rest. */

void op_context_list(struct container *container, struct call *call)
{
    json_t *list = json_array();
    for (const struct context *context = container->interpreter.contexts; context;
         context = context->next)
        json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "id", context->id, "language",
                                              language_row(context->language)->name, "cwd",
                                              context->cwd));
    call_result(call, json_pack("{s:b,s:o,s:o}", "success", 1, "contexts", list, "timestamp",
                                clock_timestamp(container->clock)));
}

void op_context_delete(struct container *container, struct call *call)
{
    const char *id = NULL;
    if (!arg_text(call, "id", true, &id))
        return;
    struct context *context = context_find(container, id);
    if (!context) {
        call_error(call, CODE_CONTEXT_NOT_FOUND, NULL, json_pack("{s:s}", "contextId", id),
                   "Context %s not found", id);
        return;
    }
    struct context **at = &container->interpreter.contexts;
    while (*at != context)
        at = &(*at)->next;
    *at = context->next;
    container->interpreter.context_count--;
    context_refuse_all(context, CODE_INTERNAL_ERROR, "Context %s was deleted", id);
    if (context->executor)
        executor_release(context->executor);
    container_note(container, "interpreter.deleted", json_pack("{s:s}", "contextId", context->id));
    call_result(call, json_pack("{s:b,s:s,s:o}", "success", 1, "contextId", context->id,
                                "timestamp", clock_timestamp(container->clock)));
    context_free(context);
}
