#include "runtime/runtime.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* One message at a time is in hand, so one buffer serves them all. It is never written before a
 * message of that size comes, so its pages cost nothing until then. */
static char buffer[RT_MESSAGE_MAX] __attribute__((aligned(16)));

int message_receive(struct request *request)
{
    struct iovec data = {.iov_base = buffer, .iov_len = sizeof buffer};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    struct rt_head head = {0};
    ssize_t got = recvmsg(RT_SOCKET_FD, &message, MSG_DONTWAIT);

    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
    if (got == 0)
        return -EPIPE;
    if ((size_t)got >= sizeof head)
        memcpy(&head, buffer, sizeof head);
    if ((size_t)got < sizeof head || (message.msg_flags & MSG_TRUNC) || head.id == 0 ||
        head.size != (size_t)got - sizeof head) {
        message_value(head.id, head.id ? head.op : 0, -EBADMSG);
        return -EBADMSG;
    }
    *request = (struct request){
        .id = head.id,
        .op = head.op,
        .value = head.value,
        .payload = buffer + sizeof head,
        .size = head.size,
    };
    return 0;
}

/* The kernel bounds the descriptors in flight of an unprivileged user; the emulator is about to
 * read some, so a short wait is the answer. Any other failure means that the emulator is gone, and
 * the next receive says so. */
static bool send_patiently(const struct msghdr *message)
{
    enum { TRIES = 2000 };

    for (int i = 0; i < TRIES; i++) {
        if (sendmsg(RT_SOCKET_FD, message, MSG_NOSIGNAL) >= 0)
            return true;
        if (errno != ETOOMANYREFS && errno != ENOBUFS && errno != ENOMEM)
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

static bool send_with_fds(const struct rt_head *head, const struct answer *answer)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * RT_FDS_MAX)];
    } control = {0};
    struct iovec data[2] = {
        {.iov_base = (void *)head, .iov_len = sizeof *head},
        {.iov_base = (void *)answer->payload, .iov_len = head->size},
    };
    struct msghdr message = {.msg_iov = data, .msg_iovlen = 2};
    size_t size = sizeof(int) * answer->fd_count;

    if (size > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(size);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(&control.header), answer->fds, size);
    }
    return send_patiently(&message);
}

static void send_plain(struct rt_head *head, void *payload)
{
    struct iovec data[2] = {
        {.iov_base = head, .iov_len = sizeof *head},
        {.iov_base = payload, .iov_len = head->size},
    };
    struct msghdr message = {.msg_iov = data, .msg_iovlen = 2};

    send_patiently(&message);
}

void message_answer(uint32_t id, uint16_t op, int value, struct answer *answer)
{
    struct rt_head head = {.id = id, .op = op, .value = value};

    if (value < 0) { /* a failure carries nothing */
        send_plain(&head, NULL);
    } else {
        head.size = (uint32_t)answer->size;
        if (!send_with_fds(&head, answer))
            message_value(id, op, -EAGAIN);
    }
    for (size_t i = 0; i < answer->fd_count; i++)
        close(answer->fds[i]);
    answer->fd_count = 0;
}

void message_value(uint32_t id, uint16_t op, int value)
{
    struct rt_head head = {.id = id, .op = op, .value = value};

    send_plain(&head, NULL);
}

void message_exit(pid_t pid, int wait_status)
{
    struct rt_exit how = {.code = WEXITSTATUS(wait_status)};
    struct rt_head head = {.op = RT_EXIT, .value = pid, .size = sizeof how};

    if (WIFSIGNALED(wait_status)) {
        how.signal = WTERMSIG(wait_status);
        how.code = 128 + how.signal;
    }
    send_plain(&head, &how);
}

void answer_fd(struct answer *answer, int fd)
{
    answer->fds[answer->fd_count++] = fd;
}

struct reader reader_of(const struct request *request)
{
    return (struct reader){.at = request->payload, .left = request->size};
}

bool reader_take(struct reader *reader, void *out, size_t size)
{
    if (reader->left < size)
        return false;
    memcpy(out, reader->at, size);
    reader->at += size;
    reader->left -= size;
    return true;
}

char *reader_string(struct reader *reader)
{
    char *start = reader->at;
    const char *end = memchr(start, '\0', reader->left);

    if (!end)
        return NULL;
    reader->left -= (size_t)(end - start) + 1;
    reader->at += end - start + 1;
    return start;
}
