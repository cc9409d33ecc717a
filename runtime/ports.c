#include "runtime/runtime.h"

#include <netinet/in.h>
#include <sys/socket.h>

static int listen_on(const struct sockaddr *address, socklen_t size)
{
    CLEANUP_FD int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int off = 0;
    int held;

    if (fd < 0)
        return -errno;
    if (address->sa_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0)
        return -errno;
    if (bind(fd, address, size) < 0 || listen(fd, 16) < 0)
        return -errno;
    held = fd;
    fd = -1;
    return held;
}

/* The control port belongs to the platform: in production a bind to it fails, so it does here. */
int ports_hold(void)
{
    struct sockaddr_in6 both = {.sin6_family = AF_INET6,
                                .sin6_port = htons(RT_CONTROL_PORT),
                                .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons(RT_CONTROL_PORT),
                               .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = listen_on((const struct sockaddr *)&both, sizeof both);

    return fd >= 0 ? fd : listen_on((const struct sockaddr *)&four, sizeof four);
}

bool ports_turn_away(int fd)
{
    enum { BATCH = 16 };

    for (int i = 0; i < BATCH; i++) {
        int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

        if (connection >= 0)
            close(connection);
        else if (errno == EAGAIN)
            return true;
        else if (errno != ECONNABORTED && errno != EINTR)
            return false;
    }
    return true;
}

int ports_connect(const struct request *request, struct answer *answer)
{
    struct reader in = reader_of(request);
    struct rt_connect to;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr *address = (const struct sockaddr *)&four;
    socklen_t size = sizeof four;
    CLEANUP_FD int fd = -1;

    if (!reader_take(&in, &to, sizeof to) || in.left || to.ipv6 > 1)
        return -EBADMSG;
    four.sin_port = six.sin6_port = htons(to.port);
    if (to.ipv6) {
        address = (const struct sockaddr *)&six;
        size = sizeof six;
    }
    fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, address, size) < 0 && errno != EINPROGRESS)
        return -errno;
    answer_fd(answer, fd);
    fd = -1;
    return 0;
}
