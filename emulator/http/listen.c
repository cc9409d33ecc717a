#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "http/internal.h"

enum { BACKLOG = 1024, ANY_PORT_TRIES = 32 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool parse_ip(const char *ip, union address *to)
{
    *to = (union address){0};
    if (inet_pton(AF_INET, ip, &to->v4.sin_addr) == 1) {
        to->v4.sin_family = AF_INET;
        return true;
    }
    to->v6.sin6_family = AF_INET6;
    return inet_pton(AF_INET6, ip, &to->v6.sin6_addr) == 1;
}

static socklen_t address_size(const union address *address)
{
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

/* A listening socket, or a negative errno. */
static int listen_on(union address address, uint16_t port)
{
    int on = 1;
    CLEANUP_FD int fd =
        socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address.any.sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
        address.v6.sin6_port = htons(port);
    } else {
        address.v4.sin_port = htons(port);
    }
    if (bind(fd, &address.any, address_size(&address)) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return steal_fd(&fd);
}

static int bound_port(int fd)
{
    union address address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, &address.any, &size) < 0)
        return -errno;
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

/* Both loopback addresses on one port. A machine without ::1 gets 127.0.0.1 alone. */
static int listen_loopback(struct http_server *server, uint16_t port)
{
    union address v4, v6;
    parse_ip("127.0.0.1", &v4);
    parse_ip("::1", &v6);
    CLEANUP_FD int first = listen_on(v4, port);
    if (first < 0)
        return first;
    int bound = bound_port(first);
    if (bound < 0)
        return bound;
    int second = listen_on(v6, (uint16_t)bound);
    if (second < 0 && second != -EADDRNOTAVAIL && second != -EAFNOSUPPORT)
        return second;
    server->listeners[0].fd = steal_fd(&first);
    server->listeners[1].fd = second < 0 ? -1 : second;
    server->port = (uint16_t)bound;
    return 0;
}

static int listen_once(struct http_server *server, uint16_t port)
{
    union address address;
    if (!server->config.ip)
        return listen_loopback(server, port);
    parse_ip(server->config.ip, &address);
    int fd = listen_on(address, port);
    if (fd < 0)
        return fd;
    server->listeners[0].fd = fd;
    server->port = (uint16_t)bound_port(fd);
    return 0;
}

/* A port the kernel picks for one address may be taken on the other; then it picks again. */
static int listen_any(struct http_server *server)
{
    int result = -EADDRINUSE;
    for (int i = 0; i < ANY_PORT_TRIES && result == -EADDRINUSE; i++)
        result = listen_once(server, 0);
    return result;
}

static int listen_probing(struct http_server *server)
{
    const struct http_config *config = &server->config;
    if (config->port == 0)
        return listen_any(server);
    int result = -EADDRINUSE;
    for (int i = 0; i <= config->probe && result == -EADDRINUSE; i++) {
        if (config->port + i <= 65535)
            result = listen_once(server, (uint16_t)(config->port + i));
    }
    if (result == -EADDRINUSE && config->probe > 0)
        result = listen_any(server);
    return result;
}

int listen_open(struct http_server *server, struct error *err)
{
    union address address;
    const char *ip = server->config.ip;
    if (ip && !parse_ip(ip, &address))
        return error_set(err, EINVAL, "'%s' is not an IP address", ip);
    if (ip && !owner_is_loopback(ip) && !server->config.token)
        return error_set(err, EINVAL, "listening on %s needs a token: others can reach it", ip);
    int result = listen_probing(server);
    if (result == -EADDRINUSE)
        return error_set(err, EADDRINUSE, "port %u is already in use", server->config.port);
    if (result < 0)
        return error_errno(err, -result, "listen on %s port %u", ip ? ip : "localhost",
                           server->config.port);
    return 0;
}

void listen_close(struct http_server *server)
{
    for (int i = 0; i < 2; i++) {
        struct listener *listener = &server->listeners[i];
        loop_unwatch(server->loop, &listener->watch);
        cleanup_fd(&listener->fd);
        listener->fd = -1;
    }
}
