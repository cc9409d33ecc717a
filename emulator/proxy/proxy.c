#include "proxy/proxy.h"

#include <stdlib.h>

#include "proxy/internal.h"

const struct proxy_limits proxy_limits_default = {.stall_ms = 300000, .idle_ms = 4000};

static void stalled(struct expire_node *node)
{
    exchange_stalled((struct exchange *)node);
}

static void rested(struct expire_node *node)
{
    exchange_rested((struct exchange *)node);
}

struct proxy *proxy_new(struct loop *loop, const struct proxy_limits *limits)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (!proxy)
        return NULL;
    proxy->loop = loop;
    proxy->limits = *limits;
    expire_init(&proxy->stalls, loop, limits->stall_ms, stalled);
    expire_init(&proxy->rests, loop, limits->idle_ms, rested);
    kept_init(proxy);
    return proxy;
}

void proxy_free(struct proxy *proxy)
{
    if (!proxy)
        return;
    while (proxy->exchanges)
        exchange_abort(proxy->exchanges);
    kept_close(proxy);
    expire_close(&proxy->stalls);
    expire_close(&proxy->rests);
    free(proxy);
}

unsigned proxy_count(const struct proxy *proxy)
{
    return proxy->count;
}
