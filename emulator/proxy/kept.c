/* Connections of servers between two requests. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "proxy/internal.h"

struct kept {
    struct expire_node idle; /* first, so that the node is the connection */
    struct proxy *proxy;
    struct kept *next, *previous;
    struct watch watch;
    const void *key;
    unsigned life;
    uint16_t port;
    int fd;
};

static int kept_release(struct kept *kept)
{
    struct proxy *proxy = kept->proxy;
    int fd = kept->fd;
    *(kept->previous ? &kept->previous->next : &proxy->kept) = kept->next;
    if (kept->next)
        kept->next->previous = kept->previous;
    proxy->kept_count--;
    expire_stop(&kept->idle);
    loop_unwatch(proxy->loop, &kept->watch);
    free(kept);
    return fd;
}

/* The server closed it, or said something unasked. */
static void kept_ready(void *arg, uint32_t events)
{
    close(kept_release(arg));
}

static void kept_expired(struct expire_node *node)
{
    close(kept_release((struct kept *)node));
}

void kept_put(struct proxy *proxy, const void *key, unsigned life, uint16_t port, int fd)
{
    struct kept *kept = proxy->kept_count < KEPT_MAX ? calloc(1, sizeof *kept) : NULL;
    if (!kept) {
        close(fd);
        return;
    }
    *kept = (struct kept){.proxy = proxy,
                          .next = proxy->kept,
                          .watch = {kept_ready, kept, -1},
                          .key = key,
                          .life = life,
                          .port = port,
                          .fd = fd};
    if (kept->next)
        kept->next->previous = kept;
    proxy->kept = kept;
    proxy->kept_count++;
    expire_start(&proxy->idle, &kept->idle);
    if (loop_watch(proxy->loop, &kept->watch, fd, EPOLLIN | EPOLLRDHUP) < 0)
        close(kept_release(kept));
}

int kept_take(struct proxy *proxy, const void *key, unsigned life, uint16_t port)
{
    for (struct kept *kept = proxy->kept; kept; kept = kept->next) {
        if (kept->key == key && kept->life == life && kept->port == port)
            return kept_release(kept);
    }
    return -1;
}

void kept_init(struct proxy *proxy)
{
    expire_init(&proxy->idle, proxy->loop, proxy->limits.idle_ms, kept_expired);
}

void kept_close(struct proxy *proxy)
{
    while (proxy->kept)
        close(kept_release(proxy->kept));
    expire_close(&proxy->idle);
}
