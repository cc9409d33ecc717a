/* The output of a process on its way into the transcripts. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "container/output.h"
#include "container/process.h"

enum {
    PIECE = 64 * 1024,
    TURN_MAX = 512 * 1024, /* read in one turn of the loop */
    /* What waits for the client of a streamed command before its pipes wait too. */
    HOLD_AT = 1024 * 1024,
    /* Of all transcripts of a container. Beyond it those of the oldest that ended go, then the
     * older part of whoever writes, whose clients and lines then get less room too. */
    LOGS_MAX = 64 * 1024 * 1024,
    LOG_LEAST = 64 * 1024,
};

static const char *const names[] = {"stdout", "stderr"};

/* One for the process: everything runs on one thread and nothing stays in it. */
static char piece[PIECE];

/* Bounds. */

static void count(struct process *process)
{
    size_t now = process->out[0].text.size + process->out[1].text.size;
    process->container->log_bytes += now - process->counted;
    process->counted = now;
}

static void trim(struct process *process, size_t keep)
{
    for (int i = 0; i < 2; i++)
        transcript_trim(&process->out[i], process_held(process, i), keep);
    count(process);
}

static void bound(struct process *process)
{
    const struct container *container = process->container;
    trim(process, TRANSCRIPT_KEPT);
    for (struct process *old = container->processes; old && container->log_bytes > LOGS_MAX;
         old = old->next) {
        if (!process_is_over(old) || old->followers || old->counted == 0)
            continue;
        transcript_clear(&old->out[0]);
        transcript_clear(&old->out[1]);
        count(old);
    }
    if (container->log_bytes > LOGS_MAX)
        trim(process, LOG_LEAST);
    if (container->log_bytes <= LOGS_MAX)
        return;
    /* A thousand lines that do not end would be more than this machine has. */
    transcript_part(&process->out[0]);
    transcript_part(&process->out[1]);
    trim(process, LOG_LEAST);
}

/* Reading. */

/* Whether more than this part of what may wait for the holder does. */
static bool is_behind(const struct process *process, int which, size_t part)
{
    uint64_t held = process_held(process, which), ready = process->out[which].ready;
    size_t most = process->container->log_bytes > LOGS_MAX ? LOG_LEAST : HOLD_AT;
    return held < ready && ready - held > most / part;
}

static long take(struct process_pipe *pipe, size_t most)
{
    struct process *process = pipe->process;
    int which = pipe == &process->pipes[1];
    long got = read(pipe->fd, piece, most < PIECE ? most : PIECE);
    if (got <= 0)
        return got == 0 ? 0 : -errno;
    transcript_add(&process->out[which], piece, (size_t)got);
    container_output(process->container, process->id, names[which], piece, (size_t)got);
    bound(process);
    return got;
}

static void hold(struct process_pipe *pipe)
{
    loop_unwatch(pipe->process->container->loop, &pipe->watch);
    pipe->held = true;
}

static void on_readable(void *arg, uint32_t events)
{
    struct process_pipe *pipe = arg;
    struct process *process = pipe->process;
    int which = pipe == &process->pipes[1];
    long got = 1;
    for (size_t sum = 0; sum < TURN_MAX && got > 0 && !is_behind(process, which, 1);) {
        got = take(pipe, PIECE);
        sum += got > 0 ? (size_t)got : 0;
    }
    if (got == 0 || (got < 0 && got != -EAGAIN && got != -EINTR))
        loop_unwatch(process->container->loop, &pipe->watch);
    else if (is_behind(process, which, 1))
        hold(pipe);
    process_wake(process);
}

static int watch(struct process_pipe *pipe)
{
    pipe->held = false;
    pipe->watch = (struct watch){.ready = on_readable, .arg = pipe, .fd = -1};
    return loop_watch(pipe->process->container->loop, &pipe->watch, pipe->fd, EPOLLIN);
}

int process_read(struct process *process, int which, int fd)
{
    process->pipes[which].fd = fd;
    return watch(&process->pipes[which]);
}

void process_go_on(struct process *process)
{
    for (int i = 0; i < 2; i++) {
        if (process->pipes[i].held && !is_behind(process, i, 4))
            watch(&process->pipes[i]);
    }
}

/* What was written before the end is in the pipe by now; what comes later is not the process's. */
static void read_rest(struct process_pipe *pipe)
{
    struct output rest = OUTPUT_INIT;
    struct container *container = pipe->process->container;
    int left = 0;
    loop_unwatch(container->loop, &pipe->watch);
    pipe->held = false;
    long got = 1;
    if (ioctl(pipe->fd, FIONREAD, &left) < 0)
        left = 0;
    while (left > 0 && got > 0) {
        got = take(pipe, (size_t)left);
        left -= got > 0 ? (int)got : 0;
    }
    rest.loop = container->loop;
    rest.ended = read(pipe->fd, piece, 1) == 0;
    rest.fd = steal_fd(&pipe->fd);
    output_let_go(&rest, container);
}

void process_read_rest(struct process *process)
{
    for (int i = 0; i < 2; i++) {
        if (process->pipes[i].fd >= 0) {
            read_rest(&process->pipes[i]);
            container_output(process->container, process->id, names[i], NULL, 0);
        }
        transcript_finish(&process->out[i]);
    }
    bound(process);
}

void process_add_line(struct process *process, const char *text)
{
    transcript_finish(&process->out[1]);
    const struct buf *err = &process->out[1].text;
    if (err->size > 0 && err->data[err->size - 1] != '\n')
        transcript_add(&process->out[1], "\n", 1);
    transcript_add(&process->out[1], text, strlen(text));
    if (process->out[1].by_line)
        transcript_add(&process->out[1], "\n", 1);
    count(process);
}
