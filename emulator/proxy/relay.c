/* Requests that were read ahead, on their way back to the door. */
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/internal.h"

/* The same for every descriptor of a socket. */
static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) < 0 ? 0 : cookie;
}

/* How many relays a client's requests have come through. */
static unsigned relays_before(const struct proxy *proxy, int client)
{
    uint64_t cookie = cookie_of(client);
    for (const struct exchange *at = proxy->exchanges; at; at = at->next) {
        if (at->relays && at->door == cookie)
            return at->relays;
    }
    return 0;
}

/* The client sent its next request together with this one, and it was read then: it cannot be put
 * back, so it reaches the door through a tunnel. The request behind it does so through another, and
 * each lasts as long as the connection. */
void relay_rest(struct exchange *exchange, int client)
{
    int pair[2];
    unsigned before = relays_before(exchange->proxy, client);
    if (before >= RELAYS_MAX ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        http_shut(exchange->http, client);
        return;
    }
    struct exchange *relay =
        exchange_make(exchange->proxy, exchange->http, client, pair[0], (struct proxy_events){0});
    if (!relay) {
        close(pair[1]);
        return;
    }
    relay->state = EXCHANGE_TUNNEL;
    relay->relays = before + 1;
    relay->door = cookie_of(pair[1]);
    relay->asked = relay->answer = (struct frame){.kind = FRAME_CLOSE};
    relay->rest = exchange->rest;
    relay->rest_at = exchange->rest_at;
    exchange->rest = BUF_INIT(0);
    exchange_wake(relay);
    http_welcome(exchange->http, pair[1]);
}
