/* The two ends of an exchange: bytes that wait, and where bodies end. */
#include <errno.h>
#include <sys/socket.h>

#include "proxy/internal.h"

int side_flush(struct side *side)
{
    while (side_waits(side)) {
        ssize_t size = send(side->fd, side->out.data + side->sent, side->out.size - side->sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return errno == EAGAIN ? 0 : -errno;
        side->sent += (size_t)size;
    }
    side->sent = 0;
    buf_free(&side->out); /* most sides have nothing waiting, and there may be many of them */
    return 0;
}

int side_send(struct side *side, const void *data, size_t size)
{
    const char *at = data;
    while (size && !side_waits(side)) {
        ssize_t taken = send(side->fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0 && errno != EAGAIN)
            return -errno;
        if (taken < 0)
            break;
        at += taken;
        size -= (size_t)taken;
    }
    return size ? buf_add(&side->out, at, size) : 0;
}

void side_shut(struct side *side)
{
    if (side->shut || side_waits(side))
        return;
    side->shut = true;
    shutdown(side->fd, SHUT_WR);
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
