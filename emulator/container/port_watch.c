/* POST /api/port-watch: looks at a port again and again until it is ready, and tells it as
 * server-sent events. POST /api/port-check, of SDKs 0.6.3 to 0.6.6: looks once. Both run in real
 * time, as the processes in the container do. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "container/port_check.h"
#include "container/process.h"

enum {
    STREAM_LIMIT = 16 * 1024,
    FRAME_MAX = 4 * 1024,
    INTERVAL_MS = 500,
    INTERVAL_MIN_MS = 100,
    INTERVAL_MAX_MS = 10 * 1000,
};

struct port_watch {
    struct job job;
    struct port_wish wish;
    const char *process_id; /* in job.args; or NULL */
    int64_t interval_ms;
    struct stream *stream;
    struct port_check *check;
    struct task task;
    struct timer again;
    bool writing; /* the client may leave inside a write: then the job ends after it */
    bool left;    /* it did */
};

static void release(struct job *job)
{
    struct port_watch *watch = (struct port_watch *)job;
    struct loop *loop = job->container->loop;
    port_check_drop(&watch->check);
    loop_cancel(loop, &watch->task);
    loop_disarm(loop, &watch->again);
    watch->writing = true;
    if (watch->stream)
        stream_end(watch->stream);
}

/* Takes the event. False when the client has left, and the job is gone. */
static bool tell(struct port_watch *watch, json_t *event)
{
    CLEANUP_BUF struct buf frame = BUF_INIT(FRAME_MAX);
    buf_adds(&frame, "data: ");
    watch->writing = true;
    if (event && json_write(&frame, event, NULL, NULL) == 0 && buf_adds(&frame, "\n\n") == 0)
        stream_write(watch->stream, frame.data, frame.size);
    watch->writing = false;
    json_decref(event);
    if (watch->left)
        job_end(&watch->job);
    return !watch->left;
}

static void tell_last(struct port_watch *watch, json_t *event)
{
    if (tell(watch, event))
        job_end(&watch->job);
}

static json_t *port_of(const struct port_watch *watch)
{
    return json_object_get(watch->job.args, "port");
}

static json_t *error_event(const struct port_watch *watch, const char *text)
{
    return json_pack("{s:s,s:O*,s:s}", "type", "error", "port", port_of(watch), "error", text);
}

/* False when the process, if one was named, cannot open the port any more: the job has ended. */
static bool process_may_serve(struct port_watch *watch)
{
    if (!watch->process_id)
        return true;
    const struct process *process = process_find(watch->job.container, watch->process_id);
    if (!process) {
        tell_last(watch, error_event(watch, "Process not found"));
        return false;
    }
    if (!process_is_over(process))
        return true;
    json_t *code = process->exit_code >= 0 ? json_integer(process->exit_code) : NULL;
    tell_last(watch, json_pack("{s:s,s:O*,s:o*}", "type", "process_exited", "port", port_of(watch),
                               "exitCode", code));
    return false;
}

static void checked(void *arg, const struct port_result *result)
{
    struct port_watch *watch = arg;
    if (result->ready) {
        json_t *status = result->status ? json_integer(result->status) : NULL;
        tell_last(watch, json_pack("{s:s,s:O*,s:o*}", "type", "ready", "port", port_of(watch),
                                   "statusCode", status));
    } else if (!watch->wish.port) {
        tell_last(watch, error_event(watch, result->error));
    } else if (loop_arm(watch->job.container->loop, &watch->again, MS_NS(watch->interval_ms)) < 0) {
        tell_last(watch, error_event(watch, "Out of memory"));
    }
}

static void look(void *arg)
{
    struct port_watch *watch = arg;
    if (process_may_serve(watch))
        port_check_start(&watch->check, watch->job.container, &watch->wish, checked, watch);
}

static void begin(void *arg)
{
    struct port_watch *watch = arg;
    if (tell(watch, json_pack("{s:s,s:O*}", "type", "watching", "port", port_of(watch))))
        look(watch);
}

static void aborted(void *arg)
{
    struct port_watch *watch = arg;
    watch->left = true;
    if (!watch->writing)
        job_end(&watch->job);
}

static const struct job_kind watch_kind = {
    .op = "portWatch",
    .size = sizeof(struct port_watch),
    .release = release,
};

static int64_t clamp_interval(double ms)
{
    if (!(ms > INTERVAL_MIN_MS))
        return INTERVAL_MIN_MS;
    return ms > INTERVAL_MAX_MS ? INTERVAL_MAX_MS : (int64_t)ms;
}

void op_port_watch(struct container *container, struct call *call)
{
    struct port_wish wish;
    const char *process_id = NULL;
    double interval_ms = INTERVAL_MS;
    if (!port_wish_read(call, &wish) || !arg_text(call, "processId", false, &process_id) ||
        !arg_number(call, "interval", &interval_ms))
        return;
    struct port_watch *watch = job_new(container, call, &watch_kind);
    if (!watch)
        return;
    watch->wish = wish;
    watch->process_id = process_id && *process_id ? process_id : NULL;
    watch->interval_ms = clamp_interval(interval_ms);
    watch->again = (struct timer){.fire = look, .arg = watch};
    watch->task = (struct task){.run = begin, .arg = watch};
    watch->stream =
        stream_new(STREAM_LIMIT, (struct stream_source){.aborted = aborted, .arg = watch});
    if (!watch->stream) {
        job_error(&watch->job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    loop_defer(container->loop, &watch->task); /* when the taker has made itself the sink */
    struct answer answer = {.code = CODE_OK, .stream = watch->stream};
    call_finish(steal_pointer(&watch->job.call), &answer);
}

/* One look. */

struct port_once {
    struct job job;
    struct port_check *check;
};

static void release_once(struct job *job)
{
    port_check_drop(&((struct port_once *)job)->check);
}

static const struct job_kind once_kind = {
    .op = "portCheck",
    .size = sizeof(struct port_once),
    .release = release_once,
};

static void checked_once(void *arg, const struct port_result *result)
{
    struct port_once *once = arg;
    json_t *status = result->status ? json_integer(result->status) : NULL;
    job_result(&once->job, json_pack("{s:b,s:o*,s:s*}", "ready", result->ready, "statusCode",
                                     status, "error", *result->error ? result->error : NULL));
}

void op_port_check(struct container *container, struct call *call)
{
    struct port_wish wish;
    if (!port_wish_read(call, &wish))
        return;
    struct port_once *once = job_new(container, call, &once_kind);
    if (once)
        port_check_start(&once->check, container, &wish, checked_once, once);
}
