/* The two ends of an exchange: bytes that wait, and where bodies end. */
#include <errno.h>
#include <sys/socket.h>

#include "proxy/internal.h"

/* How much of what is offered was taken; the rest of it stays where it is. */
static size_t consume(struct side *side, size_t taken)
{
    size_t waiting = side->out.size - side->sent;
    if (taken < waiting) {
        side->sent += taken;
        return 0;
    }
    side->sent = 0;
    buf_free(&side->out); /* most sides have nothing waiting, and there may be many of them */
    return taken - waiting;
}

int side_send(struct side *side, const void *data, size_t size)
{
    const char *at = data;
    while (!side->blocked && (size || side_waits(side))) {
        struct iovec parts[2] = {{side->out.data + side->sent, side->out.size - side->sent},
                                 {(char *)at, size}};
        bool waits = side_waits(side);
        struct msghdr message = {.msg_iov = waits ? parts : parts + 1,
                                 .msg_iovlen = (size_t)(waits + (size > 0))};
        ssize_t taken = sendmsg(side->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0 && errno != EAGAIN)
            return -errno;
        side->blocked = taken < 0;
        size_t used = taken > 0 ? consume(side, (size_t)taken) : 0;
        at += used;
        size -= used;
    }
    return size ? buf_add(&side->out, at, size) : 0;
}

int side_flush(struct side *side)
{
    side->blocked = false;
    return side_send(side, NULL, 0);
}

void side_shut(struct side *side)
{
    if (side->shut || side_waits(side))
        return;
    side->shut = true;
    shutdown(side->fd, SHUT_WR);
}

struct frame frame_of(const struct response *response, bool is_head)
{
    struct frame frame = {.kind = FRAME_CLOSE};
    if (is_head || response->status == 204 || response->status == 304)
        frame.kind = FRAME_NONE;
    else if (response->chunked)
        frame.kind = FRAME_CHUNKED;
    else if (response->length >= 0)
        frame = (struct frame){.kind = FRAME_LENGTH, .left = (uint64_t)response->length};
    frame.done = frame.kind == FRAME_NONE || (frame.kind == FRAME_LENGTH && frame.left == 0);
    return frame;
}

long frame_take(struct frame *frame, const char *data, size_t size, struct buf *plain)
{
    switch (frame->kind) {
    case FRAME_NONE:
        return 0;
    case FRAME_LENGTH:
        size = size < frame->left ? size : (size_t)frame->left;
        frame->left -= size;
        frame->done = frame->left == 0;
        return (long)size;
    case FRAME_CHUNKED: {
        long taken = chunked_scan(&frame->chunked, data, size, plain);
        frame->done = frame->chunked.done;
        return taken;
    }
    case FRAME_CLOSE:
        break;
    }
    return (long)size;
}
