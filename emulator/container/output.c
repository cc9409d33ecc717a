#include "container/output.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "container/internal.h"

enum {
    PIECE = 64 * 1024,
    /* How much one readiness event may read before others get their turn. */
    TURN_MAX = 1024 * 1024,
    /* Background pipes drained for one container. Beyond it the oldest is closed. */
    DRAINS_MAX = 1024,
};

/* One for the process: everything runs on one thread and nothing stays in it. */
static char piece[PIECE];

static void keep(struct output *output, const char *data, size_t size)
{
    if (output->overflow)
        return;
    if (buf_add(&output->data, data, size) < 0) {
        output->overflow = true;
        buf_free(&output->data);
    }
}

/* One read. Returns its size, 0 at the end, or a negative errno. */
static long take_once(struct output *output, size_t most)
{
    long got = read(output->fd, piece, most < sizeof piece ? most : sizeof piece);
    if (got < 0) {
        output->broken |= errno != EAGAIN && errno != EINTR;
        return -errno;
    }
    keep(output, piece, (size_t)got);
    return got;
}

/* Reads at most `most` bytes; returns what the last read said. */
static long take(struct output *output, size_t most)
{
    long got = 0;
    while (most > 0) {
        got = take_once(output, most);
        if (got <= 0)
            break;
        most -= (size_t)got;
    }
    return got;
}

static void on_readable(void *arg, uint32_t events)
{
    struct output *output = arg;
    long result = take(output, TURN_MAX);
    if (result > 0 || result == -EAGAIN || result == -EINTR)
        return;
    loop_unwatch(output->loop, &output->watch);
    output->ended = true;
    if (output->on_end)
        output->on_end(output->arg);
}

void output_open(struct output *output, struct loop *loop, int fd, size_t max)
{
    *output = OUTPUT_INIT;
    output->loop = loop;
    output->fd = fd;
    output->data = BUF_INIT(max);
}

int output_watch(struct output *output)
{
    if (output->watch.fd >= 0)
        return 0;
    output->ended = false;
    output->watch = (struct watch){.ready = on_readable, .arg = output, .fd = -1};
    return loop_watch(output->loop, &output->watch, output->fd, EPOLLIN);
}

void output_unwatch(struct output *output)
{
    if (output->loop)
        loop_unwatch(output->loop, &output->watch);
}

void output_drain(struct output *output)
{
    if (output->fd < 0)
        return;
    long result = take_once(output, PIECE);
    int left = 0;
    if (result == PIECE && ioctl(output->fd, FIONREAD, &left) == 0 && left > 0)
        result = take(output, (size_t)left);
    /* Only a background job can have written more by now; it is not part of the result. */
    if (result > 0)
        result = read(output->fd, piece, sizeof piece);
    output->ended = result == 0;
}

json_t *output_json(struct output *output, bool session)
{
    CLEANUP_BUF struct buf clean = BUF_INIT(OUTPUT_MAX);
    int result = 0;
    if (!output->overflow)
        result = jsonstr_clean(&clean, buf_text(&output->data), output->data.size, session);
    buf_free(&output->data);
    if (output->overflow || output->broken || result < 0)
        return NULL;
    size_t size = clean.size;
    if (session && size > 0 && clean.data[size - 1] == '\n')
        size--;
    return json_stringn_nocheck(buf_text(&clean), size);
}

void output_close(struct output *output)
{
    output_unwatch(output);
    if (output->fd >= 0)
        close(output->fd);
    output->fd = -1;
    buf_free(&output->data);
}

/* Draining to nowhere. */

struct drain {
    struct container *container;
    struct drain *next;
    struct watch watch;
    int fd;
};

static void drain_close(struct drain *drain)
{
    struct container *container = drain->container;
    for (struct drain **at = &container->drains; *at; at = &(*at)->next) {
        if (*at == drain) {
            *at = drain->next;
            break;
        }
    }
    container->drain_count--;
    loop_unwatch(container->loop, &drain->watch);
    close(drain->fd);
    free(drain);
}

static void drain_readable(void *arg, uint32_t events)
{
    struct drain *drain = arg;
    long got = read(drain->fd, piece, sizeof piece);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        drain_close(drain);
}

static void drain_close_oldest(struct container *container)
{
    struct drain *last = container->drains;
    while (last->next)
        last = last->next;
    drain_close(last);
}

void output_let_go(struct output *output, struct container *container)
{
    output_unwatch(output);
    struct drain *drain =
        output->fd < 0 || output->ended || container->closed ? NULL : calloc(1, sizeof *drain);
    if (!drain) {
        output_close(output);
        return;
    }
    if (container->drain_count >= DRAINS_MAX)
        drain_close_oldest(container);
    *drain = (struct drain){.container = container, .next = container->drains};
    drain->watch = (struct watch){.ready = drain_readable, .arg = drain, .fd = -1};
    drain->fd = steal_fd(&output->fd);
    container->drains = drain;
    container->drain_count++;
    if (loop_watch(container->loop, &drain->watch, drain->fd, EPOLLIN) < 0)
        drain_close(drain);
    output_close(output);
}

void drains_close(struct container *container)
{
    while (container->drains)
        drain_close(container->drains);
}
