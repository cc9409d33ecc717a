/* The output of a process as events: GET /api/process/{id}/stream, and the answer of a streamed
 * command. Every follower reads from the transcripts at a position of its own. One that is slow
 * finds that something was dropped, and says so; only the client of a streamed command is waited
 * for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "container/process.h"

enum {
    STREAM_LIMIT = 256 * 1024,
    PIECE = 64 * 1024,             /* of a line, escaped at once */
    CHUNK_MAX = 64 * 1024,         /* of an event without a session */
    BATCH = 32 * 1024,             /* of frames, written at once */
    BATCH_MAX = 255 * 1024 * 1024, /* the first event has the command, however long */
    TURN_BATCHES = 16,
};

static const char *const types[] = {"stdout", "stderr"};

struct follower {
    struct job job;
    struct process *process;
    struct follower *next; /* of the same process */
    struct stream *stream;
    struct task task;
    bool command;       /* the events of a streamed command; else those of a log */
    uint64_t at[2];     /* what comes next */
    uint64_t replay[2]; /* what is before this comes as one event */
    int open;           /* whose event is being written, or -1 */
    uint64_t until;     /* where that event ends */
    int turn;           /* who is asked first */
    bool greeted;
    bool paused;  /* the sink has enough for now */
    bool writing; /* the sink may leave inside a write: then the job ends after it */
    bool left;    /* it did */
    bool broken;  /* events are missing */
};

uint64_t process_held(const struct process *process, int which)
{
    if (process->holder)
        return process->holder->at[which];
    return process->streamed && process->start ? 0 : UINT64_MAX;
}

void process_wake(struct process *process)
{
    for (struct follower *follower = process->followers; follower; follower = follower->next)
        loop_defer(process->container->loop, &follower->task);
}

/* Frames. */

static void add_time(const struct follower *follower, struct buf *to)
{
    char time[25];
    clock_format(clock_now_ms(follower->job.container->clock), time);
    buf_adds(to, "\"timestamp\":\"");
    buf_adds(to, time);
    buf_adds(to, "\"}\n\n");
}

static void add_text(struct buf *to, const char *key, const char *text)
{
    buf_addf(to, "\"%s\":\"", key);
    jsonstr_escape(to, text, strlen(text));
    buf_adds(to, "\",");
}

static void add_head(const struct follower *follower, struct buf *to)
{
    const struct process *process = follower->process;
    if (follower->command) {
        buf_adds(to, "data: {\"type\":\"start\",");
        add_text(to, "command", process->command);
    } else {
        buf_adds(to, "data: {\"type\":\"process_info\",");
        add_text(to, "processId", process->id);
        add_text(to, "command", process->command);
        add_text(to, "status", process_status_name(process->status));
    }
    add_time(follower, to);
}

static void add_end(const struct follower *follower, struct buf *to)
{
    const struct process *process = follower->process;
    const char *status = process_status_name(process->status);
    bool has_code = process->exit_code >= 0;
    buf_adds(to, "data: {");
    if (follower->command) {
        buf_adds(to, "\"type\":\"complete\",");
    } else {
        buf_adds(to, "\"type\":\"exit\",");
        add_text(to, "processId", process->id);
    }
    if (has_code)
        buf_addf(to, "\"exitCode\":%d,", process->exit_code);
    if (!follower->command && has_code)
        buf_addf(to, "\"data\":\"Process %s with exit code %d\",", status, process->exit_code);
    else if (!follower->command)
        buf_addf(to, "\"data\":\"Process %s\",", status);
    add_time(follower, to);
}

static void add_lost(const struct follower *follower, struct buf *to)
{
    buf_adds(to, "data: {\"type\":\"error\",\"error\":\"The container went away\",");
    if (!follower->command)
        add_text(to, "processId", follower->process->id);
    add_time(follower, to);
}

/* Output. */

/* Where an event that begins here ends. */
static uint64_t event_end(const struct follower *follower, int which)
{
    const struct transcript *log = &follower->process->out[which];
    uint64_t at = follower->at[which] < log->base ? log->base : follower->at[which];
    if (at < follower->replay[which])
        return follower->replay[which];
    size_t size;
    const char *text = transcript_at(log, at, &size);
    if (log->by_line) {
        const char *newline = memchr(text, '\n', size);
        return newline ? at + (uint64_t)(newline + 1 - text) : log->ready;
    }
    return at + transcript_whole(text, size, CHUNK_MAX);
}

static bool has_more(const struct follower *follower, int which)
{
    return follower->process->out[which].ready > follower->at[which];
}

static void open_event(struct follower *follower, int which, struct buf *to)
{
    follower->open = which;
    follower->until = event_end(follower, which);
    buf_addf(to, "data: {\"type\":\"%s\",\"data\":\"", types[which]);
}

static void close_event(struct follower *follower, struct buf *to)
{
    buf_adds(to, "\",");
    if (!follower->command)
        add_text(to, "processId", follower->process->id);
    add_time(follower, to);
    follower->turn = !follower->open;
    follower->open = -1;
}

/* A part of the event that is open. What it wanted may have been dropped since. */
static void add_part(struct follower *follower, struct buf *to)
{
    int which = follower->open;
    const struct transcript *log = &follower->process->out[which];
    uint64_t *at = &follower->at[which];
    if (*at < log->base) {
        CLEANUP_BUF struct buf gap = BUF_INIT(128);
        transcript_gap(&gap, log->base - *at);
        jsonstr_escape(to, buf_text(&gap), gap.size);
        *at = log->base;
    }
    if (*at < follower->until) {
        size_t size;
        const char *text = transcript_at(log, *at, &size);
        if (size > follower->until - *at)
            size = (size_t)(follower->until - *at);
        size = transcript_whole(text, size, PIECE);
        jsonstr_escape(to, text, size);
        *at += size;
    }
    if (*at >= follower->until)
        close_event(follower, to);
}

/* Adds frames until there are enough for one write; false when there is nothing more for now. */
static bool add_frames(struct follower *follower, struct buf *to)
{
    if (!follower->greeted)
        add_head(follower, to);
    follower->greeted = true;
    while (to->size < BATCH && !to->error) {
        int which = follower->turn;
        if (follower->open >= 0)
            add_part(follower, to);
        else if (has_more(follower, which) || has_more(follower, which = !which))
            open_event(follower, which, to);
        else
            return false;
    }
    return true;
}

/* The life of a follower. */

/* As stream_write(). The sink may have taken all of it before that returns. */
static int write_frames(struct follower *follower, const struct buf *frames)
{
    follower->paused = true;
    int result = stream_write(follower->stream, frames->data, frames->size);
    if (result != 1)
        follower->paused = false;
    return result;
}

static void pump(void *arg)
{
    struct follower *follower = arg;
    struct process *process = follower->process;
    bool more = true, over = false;
    int result = 0;
    if (follower->paused)
        return;
    follower->writing = true;
    for (int i = 0; i < TURN_BATCHES && more && result == 0 && !follower->left; i++) {
        CLEANUP_BUF struct buf frames = BUF_INIT(BATCH_MAX);
        more = add_frames(follower, &frames);
        over = !more && process_is_over(process);
        if (over)
            add_end(follower, &frames);
        result = frames.error;
        if (result == 0 && frames.size > 0)
            result = write_frames(follower, &frames);
    }
    follower->writing = false;
    follower->broken = result < 0;
    process_go_on(process);
    if (over || follower->left || result < 0)
        job_end(&follower->job);
    else if (more && result == 0)
        loop_defer(process->container->loop, &follower->task);
    /* Else resume() or process_wake() comes. */
}

static void resume(void *arg)
{
    struct follower *follower = arg;
    follower->paused = false;
    loop_defer(follower->job.container->loop, &follower->task);
}

static void aborted(void *arg)
{
    struct follower *follower = arg;
    follower->left = true;
    if (!follower->writing)
        job_end(&follower->job);
}

static void end_stream(struct follower *follower)
{
    CLEANUP_BUF struct buf frame = BUF_INIT(BATCH_MAX);
    follower->writing = true;
    if ((follower->open >= 0 || follower->broken) && !follower->left) {
        stream_fail(follower->stream); /* perhaps in the middle of an event */
        return;
    }
    if (follower->job.container->closed && !follower->left) {
        add_lost(follower, &frame);
        stream_write(follower->stream, buf_text(&frame), frame.size);
    }
    stream_end(follower->stream);
}

static void release(struct job *job)
{
    struct follower *follower = (struct follower *)job;
    struct process *process = follower->process;
    loop_cancel(job->container->loop, &follower->task);
    if (!process)
        return;
    for (struct follower **at = &process->followers; *at; at = &(*at)->next) {
        if (*at == follower) {
            *at = follower->next;
            break;
        }
    }
    if (process->holder == follower)
        process->holder = NULL;
    process_go_on(process);
    if (follower->stream)
        end_stream(follower);
}

static const struct job_kind follow_kind = {
    .op = "processStream",
    .size = sizeof(struct follower),
    .release = release,
};

static void follow(struct container *container, struct call *call, struct process *process,
                   bool command)
{
    struct follower *follower = job_new(container, call, &follow_kind);
    if (!follower)
        return;
    struct job *job = &follower->job;
    follower->command = command;
    follower->open = -1;
    follower->task = (struct task){.run = pump, .arg = follower};
    follower->stream =
        stream_new(STREAM_LIMIT,
                   (struct stream_source){.resume = resume, .aborted = aborted, .arg = follower});
    if (!follower->stream) {
        job_error(job, CODE_INTERNAL_ERROR, NULL, NULL, "Out of memory");
        return;
    }
    follower->process = process;
    follower->next = process->followers;
    process->followers = follower;
    if (command)
        process->holder = follower;
    for (int i = 0; i < 2 && !command; i++)
        follower->replay[i] = process->out[i].ready;
    loop_defer(container->loop, &follower->task);
    struct answer answer = {.code = CODE_OK, .stream = follower->stream};
    call_finish(steal_pointer(&job->call), &answer);
}

void process_answer_stream(struct process *process, struct job *job)
{
    struct container *container = job->container;
    struct call *call = steal_pointer(&job->call);
    job_end(job);
    follow(container, call, process, true);
}

void op_process_stream(struct container *container, struct call *call)
{
    struct process *process = process_of_call(container, call);
    if (process)
        follow(container, call, process, false);
}
