/* Drives a real container in this process: calls return when they are answered. */
#ifndef CONTAINER_CLIENT_H
#define CONTAINER_CLIENT_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/loop.h"
#include "clock/clock.h"
#include "container/container.h"
#include "drivers/driver.h"

struct reply {
    struct call call;
    bool done;
    enum code code;
    json_t *body;
    char *message;
    const char *operation;
    enum content_form form;
    struct buf content;
    struct stream *stream;
    json_t *args;
};

static struct bench {
    struct loop *loop;
    struct clock *clock;
    struct driver *driver;
    struct container *container;
    char run_dir[64];
    char *gone_why;
    int waiting; /* replies still to come */
    int waiting_when_gone;
    bool ready;
    int exits;   /* session.exited notes */
    json_t *env; /* more variables for the next container, or NULL */
    bool lean;   /* it has no Python */
    char skip[512];
} bench;

static void bench_ready(void *arg)
{
    bench.ready = true;
    loop_stop(bench.loop);
}

static void bench_gone(void *arg, const char *why)
{
    bench.container = NULL;
    bench.waiting_when_gone = bench.waiting;
    bench.gone_why = strdup(why);
    loop_stop(bench.loop);
}

static void bench_note(void *arg, const char *type, json_t *data)
{
    bench.exits += strcmp(type, "session.exited") == 0;
    json_decref(data);
}

static bool bench_start(void)
{
    struct error err = {0};
    json_t *env = json_pack("{s:s,s:n}", "FROM_CLASS", "yes", "NOTHING");
    if (bench.env)
        json_object_update(env, bench.env);
    struct container_spec spec = {.hostname = "box",
                                  .version = "0.12.7",
                                  .env = env,
                                  .python = !bench.lean,
                                  .upper_bytes = 256 << 20};
    struct container_events events = {
        .ready = bench_ready, .gone = bench_gone, .note = bench_note};
    free(bench.gone_why);
    bench.gone_why = NULL;
    bench.ready = false;
    bench.container = container_start(bench.loop, bench.clock, bench.driver, &spec, events, &err);
    json_decref(env);
    if (bench.container)
        loop_run(bench.loop, &err);
    if (!bench.ready)
        snprintf(bench.skip, sizeof bench.skip, "no container: %s",
                 bench.gone_why ? bench.gone_why : err.text);
    return bench.ready;
}

static void bench_open(void)
{
    struct error err = {0};
    snprintf(bench.run_dir, sizeof bench.run_dir, "/tmp/sandpit-container-test-XXXXXX");
    bench.loop = loop_new(&err);
    bench.clock = bench.loop ? clock_new(bench.loop, &err) : NULL;
    if (bench.clock && mkdtemp(bench.run_dir))
        bench.driver = driver_bwrap_new(bench.loop, bench.run_dir, &err);
    if (!bench.driver)
        snprintf(bench.skip, sizeof bench.skip, "no driver: %s", err.text);
    else
        bench_start();
}

static void bench_stop_container(void)
{
    if (!bench.container)
        return;
    container_kill(bench.container);
    while (bench.container)
        loop_run(bench.loop, NULL);
}

static int bench_remove(const char *path, const struct stat *st, int type, struct FTW *where)
{
    return remove(path);
}

static void bench_close(void)
{
    bench_stop_container();
    driver_free(bench.driver);
    clock_free(bench.clock);
    loop_free(bench.loop);
    free(bench.gone_why);
    nftw(bench.run_dir, bench_remove, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void reply_done(struct call *call, struct answer *answer)
{
    struct reply *reply = call->arg;
    reply->code = answer->code;
    reply->body = steal_pointer(&answer->body);
    reply->message = steal_pointer(&answer->message);
    reply->operation = answer->operation;
    reply->form = answer->content_form;
    reply->content = answer->content;
    answer->content = (struct buf){0};
    if (reply->form == CONTENT_FILES) { /* for those who look into it */
        json_object_set_new(reply->body, "files",
                            json_loadb(reply->content.data, reply->content.size, 0, NULL));
        reply->form = CONTENT_NONE;
    }
    reply->stream = steal_pointer(&answer->stream);
    reply->done = true;
    bench.waiting--;
    loop_stop(bench.loop);
}

/* Takes args. */
static void ask(struct reply *reply, const char *op, json_t *args)
{
    *reply = (struct reply){.args = args};
    reply->call = (struct call){.args = args, .done = reply_done, .arg = reply};
    bench.waiting++;
    container_call(bench.container, container_op(op), &reply->call);
}

/* Waits until every reply asked for has come. */
static void await_all(void)
{
    while (bench.waiting > 0)
        loop_run(bench.loop, NULL);
}

static inline void await(struct reply *reply)
{
    while (!reply->done)
        loop_run(bench.loop, NULL);
}

static void reply_free(struct reply *reply)
{
    json_decref(reply->body);
    json_decref(reply->args);
    free(reply->message);
    buf_free(&reply->content);
    if (reply->stream)
        stream_abort(reply->stream);
    *reply = (struct reply){0};
}
#define REPLY __attribute__((cleanup(reply_free))) struct reply

static inline struct reply call(const char *op, json_t *args)
{
    struct reply reply;
    struct reply *place = calloc(1, sizeof *place);
    ask(place, op, args);
    await_all();
    reply = *place;
    free(place);
    return reply;
}

/* The body as text, timestamps replaced by T; in a ring of buffers. */
static inline const char *text_of(const struct reply *reply)
{
    static char *ring[8];
    static int next;
    struct buf text = BUF_INIT(1 << 20);
    json_t *body = json_copy(reply->body);
    if (json_object_get(body, "timestamp"))
        json_object_set_new(body, "timestamp", json_string("T"));
    if (body)
        json_write(&text, body, NULL, NULL);
    json_decref(body);
    next = (next + 1) % 8;
    free(ring[next]);
    ring[next] = buf_steal(&text);
    return ring[next];
}

static inline json_t *command_args(const char *command, const char *session)
{
    return session ? json_pack("{s:s,s:s}", "command", command, "sessionId", session)
                   : json_pack("{s:s}", "command", command);
}

static inline struct reply run_in(const char *command, const char *session)
{
    return call("execute", command_args(command, session));
}

static inline const char *member(const struct reply *reply, const char *name)
{
    const char *text = json_string_value(json_object_get(reply->body, name));
    return text ? text : "(none)";
}

static inline int exit_code(const struct reply *reply)
{
    json_t *value = json_object_get(reply->body, "exitCode");
    return value ? (int)json_integer_value(value) : -1;
}

static inline const char *code_name(const struct reply *reply)
{
    return code_row(reply->code)->name;
}

/* Runs a command that must succeed, for preparing things. */
static inline void prepare_with(const char *command)
{
    REPLY reply = run_in(command, "__DISABLE_SESSION__");
    if (exit_code(&reply) != 0)
        fprintf(stderr, "prepare: %s: %s %s\n", command, member(&reply, "stderr"),
                reply.message ? reply.message : "");
}

static inline double now_ms(void)
{
    return (double)loop_now_ns() / 1e6;
}

#define NEED_CONTAINER()                                                                           \
    if (!bench.container)                                                                          \
    SKIPm(bench.skip)

#endif
