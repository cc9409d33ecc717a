/* POST /api/read/stream: the file as server-sent events. The status is always 200; what goes wrong
 * is an event too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "container/detect.h"
#include "container/errnos.h"
#include "container/mime.h"
#include "container/read.h"
#include "container/session.h"

enum {
    PIECE = 65535, /* a multiple of 3, so that base64 pieces join */
    STREAM_LIMIT = 256 * 1024,
    FRAME_MAX = 1024 * 1024,
    TURN_FRAMES = 16, /* written in one turn of the loop */
    UTF8_TAIL_MAX = 3,
};

struct read_stream {
    struct file_job file;
    int fd;
    int64_t size;
    struct stream *stream; /* NULL until the call is answered */
    struct detect detect;
    struct task task;
    char *piece;  /* UTF8_TAIL_MAX + PIECE bytes */
    size_t have;  /* bytes in it */
    int64_t done; /* bytes read */
    bool base64;
    bool first_read; /* the first piece lies there already */
    bool writing;    /* the sink may leave inside a write: then the job ends after it */
    bool left;       /* it did */
};

/* Frames. */

static void send_json(struct stream *stream, json_t *event)
{
    CLEANUP_BUF struct buf frame = BUF_INIT(FRAME_MAX);
    buf_adds(&frame, "data: ");
    if (event && json_write(&frame, event, NULL, NULL) == 0 && buf_adds(&frame, "\n\n") == 0)
        stream_write(stream, frame.data, frame.size);
    json_decref(event);
}

static void send_error(struct stream *stream, const char *text)
{
    send_json(stream, json_pack("{s:s,s:s}", "type", "error", "error", text));
}

/* 0 or 1 as stream_write(), or a negative errno. */
static int send_chunk(struct read_stream *job, const char *data, size_t size)
{
    CLEANUP_BUF struct buf frame = BUF_INIT(FRAME_MAX);
    int result = buf_adds(&frame, "data: {\"type\":\"chunk\",\"data\":\"");
    if (result == 0)
        result =
            job->base64 ? base64_encode(&frame, data, size) : jsonstr_escape(&frame, data, size);
    if (result == 0)
        result = buf_adds(&frame, "\"}\n\n");
    return result < 0 ? result : stream_write(job->stream, frame.data, frame.size);
}

/* The call's answer is the stream, made when the first event is known. Events are written from the
 * loop, when the taker has made itself the sink. */
static void start_stream(struct job *job, struct stream **stream, struct stream_source source)
{
    *stream = stream_new(STREAM_LIMIT, source);
    if (!*stream) {
        job_error(job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    struct answer answer = {.code = CODE_OK, .stream = *stream};
    struct call *call = steal_pointer(&job->call);
    call_finish(call, &answer);
}

/* A stream with one event, for what is wrong from the start. */

struct error_stream {
    struct job job;
    struct stream *stream;
    struct task task;
    char *text;
    bool writing;
};

static void error_release(struct job *job)
{
    struct error_stream *error = (struct error_stream *)job;
    loop_cancel(job->container->loop, &error->task);
    if (error->stream)
        stream_end(error->stream);
    free(error->text);
}

static const struct job_kind error_kind = {
    .op = "readStream",
    .size = sizeof(struct error_stream),
    .release = error_release,
};

static void error_send(void *arg)
{
    struct error_stream *error = arg;
    error->writing = true;
    send_error(error->stream, error->text ? error->text : "Out of memory");
    job_end(&error->job);
}

static void error_aborted(void *arg)
{
    struct error_stream *error = arg;
    if (!error->writing)
        job_end(&error->job);
}

static void answer_with_error(struct container *container, struct call *call, char *text)
{
    struct error_stream *error = job_new(container, call, &error_kind);
    if (!error) {
        free(text);
        return;
    }
    error->text = text;
    error->task = (struct task){.run = error_send, .arg = error};
    loop_defer(container->loop, &error->task);
    start_stream(&error->job, &error->stream,
                 (struct stream_source){.aborted = error_aborted, .arg = error});
}

/* Ends a job that has not begun to stream; its call gets the stream with the error. */
static void fail(struct read_stream *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void fail(struct read_stream *job, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    struct container *container = job->file.job.container;
    struct call *call = steal_pointer(&job->file.job.call);
    job_end(&job->file.job);
    answer_with_error(container, call, text);
}

/* The stream of the file. */

static void release(struct job *base)
{
    struct read_stream *job = (struct read_stream *)base;
    loop_cancel(base->container->loop, &job->task);
    detect_close(&job->detect);
    if (job->fd >= 0)
        close(job->fd);
    free(job->piece);
    job->writing = true;
    if (job->stream) {
        if (base->container->closed)
            send_error(job->stream, "The container went away");
        stream_end(job->stream);
    }
}

static void finish(struct read_stream *job, int error)
{
    job->writing = true;
    if (error)
        send_error(job->stream, errno_text(error));
    else
        send_json(job->stream,
                  json_pack("{s:s,s:I}", "type", "complete", "bytesRead", (json_int_t)job->done));
    job_end(&job->file.job);
}

/* How many bytes at the end are the beginning of a character whose rest is still to come. */
static size_t cut_character(const char *data, size_t size)
{
    for (size_t back = 1; back <= UTF8_TAIL_MAX && back <= size; back++) {
        unsigned char c = (unsigned char)data[size - back];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        return length > back ? back : 0;
    }
    return 0;
}

/* Fills the piece; how many bytes came, or a negative errno. */
static long fill(struct read_stream *job)
{
    size_t got = 0;
    while (got < PIECE) {
        ssize_t part = read(job->fd, job->piece + job->have, PIECE - got);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -errno;
        if (part == 0)
            break;
        job->have += (size_t)part;
        got += (size_t)part;
    }
    job->done += (int64_t)got;
    return (long)got;
}

/* One frame: as stream_write(), 2 when the file is over, or a negative errno. */
static int send_piece(struct read_stream *job)
{
    long got = job->first_read ? (long)job->have : fill(job);
    job->first_read = false;
    if (got < 0)
        return (int)got;
    if (got == 0 && job->have == 0)
        return 2;
    /* At the end nothing more completes a character: it is replaced like any other bad byte. */
    size_t keep = job->base64 || got == 0 ? 0 : cut_character(job->piece, job->have);
    size_t size = job->have - keep;
    int result = size ? send_chunk(job, job->piece, size) : 0;
    memmove(job->piece, job->piece + size, keep);
    job->have = keep;
    return result;
}

static void pump(void *arg)
{
    struct read_stream *job = arg;
    int result = 0;
    job->writing = true;
    for (int i = 0; i < TURN_FRAMES && result == 0 && !job->left; i++)
        result = send_piece(job);
    job->writing = false;
    if (job->left)
        job_end(&job->file.job);
    else if (result == 0)
        loop_defer(job->file.job.container->loop, &job->task);
    else if (result == 2)
        finish(job, 0);
    else if (result < 0)
        finish(job, -result);
    /* Else it is 1, and resume() comes. */
}

static void resume(void *arg)
{
    struct read_stream *job = arg;
    loop_defer(job->file.job.container->loop, &job->task);
}

static void aborted(void *arg)
{
    struct read_stream *job = arg;
    job->left = true;
    if (!job->writing)
        job_end(&job->file.job);
}

static void send_metadata(void *arg)
{
    struct read_stream *job = arg;
    job->task.run = pump;
    const char *type = job->detect.type;
    job->writing = true;
    send_json(job->stream, json_pack("{s:s,s:s,s:I,s:b,s:s}", "type", "metadata", "mimeType", type,
                                     "size", (json_int_t)job->size, "isBinary", job->base64,
                                     "encoding", job->base64 ? "base64" : "utf-8"));
    job->writing = false;
    if (job->left)
        job_end(&job->file.job);
    else
        loop_defer(job->file.job.container->loop, &job->task);
}

static void detected(void *arg, const char *type)
{
    struct read_stream *job = arg;
    job->base64 = !mime_is_text(type);
    if (type != job->detect.type)
        snprintf(job->detect.type, sizeof job->detect.type, "%s", type);
    job_leave_session(&job->file.job);
    job->task = (struct task){.run = send_metadata, .arg = job};
    loop_defer(job->file.job.container->loop, &job->task);
    start_stream(&job->file.job, &job->stream,
                 (struct stream_source){.resume = resume, .aborted = aborted, .arg = job});
}

static void opened(void *arg, struct agent_answer *answer)
{
    struct read_stream *job = arg;
    if (job_lost(&job->file.job, answer))
        return;
    int error;
    const char *why = read_refusal(answer, &error);
    if (error) {
        fail(job, "%s: %s, open '%s'", errno_name(error), errno_text(error), job->file.path);
        return;
    }
    if (why) {
        fail(job, "%s: %s", why, job->file.path);
        return;
    }
    job->size = ((const struct rt_stat *)answer->payload)->size;
    job->fd = steal_fd(&answer->fds[0]);
    job->piece = malloc(UTF8_TAIL_MAX + PIECE);
    long got = job->piece ? fill(job) : -ENOMEM;
    if (got < 0) {
        fail(job, "%s: %s, read '%s'", errno_name((int)-got), errno_text((int)-got),
             job->file.path);
        return;
    }
    job->first_read = true;
    detect_start(&job->detect, &job->file, job->piece, job->have, detected, job);
}

static void begin(struct job *job)
{
    file_ask((struct file_job *)job, RT_OPEN, (struct rt_path){.open_flags = O_RDONLY}, opened);
}

static void refuse(struct job *job, const char *why)
{
    fail((struct read_stream *)job, "%s", why);
}

static const struct job_kind read_stream_kind = {
    .op = "readStream",
    .size = sizeof(struct read_stream),
    .begin = begin,
    .refuse = refuse,
    .release = release,
};

/* What is wrong with the arguments, as text; NULL when nothing is. */
static char *problem_with(const struct call *call)
{
    json_t *path = json_object_get(call->args, "path");
    json_t *session = json_object_get(call->args, "sessionId");
    char *text = NULL;
    const char *why;
    if (!json_is_string(path))
        return strdup("'path' is required and must be a string");
    why = path_problem(json_string_value(path), json_string_length(path));
    if (why) {
        if (asprintf(&text, "Invalid path format for '%s': %s", json_string_value(path), why) < 0)
            text = strdup(why);
        return text;
    }
    if (session && !json_is_null(session) &&
        (!json_is_string(session) || text_is_blank(json_string_value(session))))
        return strdup("sessionId must not be empty or whitespace");
    return NULL;
}

void op_read_stream(struct container *container, struct call *call)
{
    char *problem = problem_with(call);
    if (problem) {
        answer_with_error(container, call, problem);
        return;
    }
    struct read_stream *job = file_job_new(container, call, &read_stream_kind, "path", NULL);
    if (!job)
        return;
    job->fd = -1;
    file_submit(&job->file);
}
