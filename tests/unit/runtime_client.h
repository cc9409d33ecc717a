/* A blocking client of the runtime for tests: starts the real binary as PID 1 of a bubblewrap
 * sandbox whose root is all tmpfs, and speaks raw messages. Nothing on the host is written. */
#ifndef SANDPIT_TESTS_RUNTIME_CLIENT_H
#define SANDPIT_TESTS_RUNTIME_CLIENT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/protocol.h"

enum { CLIENT_PATIENCE_MS = 15000, CLIENT_EXITS_MAX = 1024 };

struct reply {
    struct rt_head head;
    char payload[8192];
    int fds[RT_FDS_MAX];
    size_t fd_count;
};

/* Otherwise bubblewrap is PID 1 and the runtime a process like others. */
static bool box_as_pid_1 = true;

static struct {
    int fd;
    pid_t pid;
    uint32_t last_id;
    struct {
        int pid;
        struct rt_exit how;
    } exits[CLIENT_EXITS_MAX];
    size_t exit_count;
} box;

static inline void give_up(const char *what)
{
    fprintf(stderr, "runtime client: %s\n", what);
    exit(1);
}

static inline void reply_close(struct reply *reply)
{
    for (size_t i = 0; i < reply->fd_count; i++)
        close(reply->fds[i]);
    reply->fd_count = 0;
}

/* False when the runtime is gone. */
static inline bool box_receive(struct reply *reply)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * RT_FDS_MAX)];
    } control;
    struct iovec data[2] = {{.iov_base = &reply->head, .iov_len = sizeof reply->head},
                            {.iov_base = reply->payload, .iov_len = sizeof reply->payload}};
    struct msghdr message = {.msg_iov = data,
                             .msg_iovlen = 2,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct pollfd ready = {.fd = box.fd, .events = POLLIN};
    ssize_t got;

    reply->fd_count = 0;
    if (poll(&ready, 1, CLIENT_PATIENCE_MS) != 1)
        give_up("no message in time");
    got = recvmsg(box.fd, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return false;
    if ((size_t)got != sizeof reply->head + reply->head.size || (message.msg_flags & MSG_CTRUNC))
        give_up("a message of a wrong size");
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        reply->fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(reply->fds, CMSG_DATA(c), reply->fd_count * sizeof(int));
    }
    return true;
}

static inline void box_note_exit(const struct reply *reply)
{
    if (box.exit_count == CLIENT_EXITS_MAX)
        give_up("too many exits");
    box.exits[box.exit_count].pid = reply->head.value;
    memcpy(&box.exits[box.exit_count++].how, reply->payload, sizeof(struct rt_exit));
}

static inline void box_raw(const void *data, size_t size)
{
    if (send(box.fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        give_up("send failed");
}

static inline uint32_t box_send(enum rt_op op, int value, const void *payload, size_t size)
{
    static char message[RT_MESSAGE_MAX];
    struct rt_head head = {
        .id = ++box.last_id, .op = (uint16_t)op, .value = value, .size = (uint32_t)size};

    memcpy(message, &head, sizeof head);
    if (size)
        memcpy(message + sizeof head, payload, size);
    box_raw(message, sizeof head + size);
    return head.id;
}

/* The answer with that id; exits that come first are kept. */
static inline void box_await(uint32_t id, struct reply *reply)
{
    for (;;) {
        if (!box_receive(reply))
            give_up("the runtime is gone");
        if (reply->head.id == id)
            return;
        if (reply->head.op != RT_EXIT || reply->head.id != 0)
            give_up("an answer nobody asked for");
        box_note_exit(reply);
    }
}

static inline int box_call(enum rt_op op, const void *payload, size_t size, struct reply *reply)
{
    box_await(box_send(op, 0, payload, size), reply);
    return reply->head.value;
}

static inline struct rt_exit box_wait_exit(int pid)
{
    struct reply reply;

    for (;;) {
        for (size_t i = 0; i < box.exit_count; i++) {
            if (box.exits[i].pid == pid) {
                struct rt_exit how = box.exits[i].how;

                box.exits[i] = box.exits[--box.exit_count];
                return how;
            }
        }
        if (!box_receive(&reply))
            give_up("the runtime is gone");
        if (reply.head.op != RT_EXIT)
            give_up("expected an exit");
        box_note_exit(&reply);
    }
}

static inline void box_exec(int socket)
{
    /* Without a user namespace root keeps the right to change users. */
    const char *unshare = geteuid() == 0 ? "--unshare-pid" : "--unshare-all";
    const char *place = box_as_pid_1 ? "--as-pid-1" : "--unshare-ipc";
    const char *const argv[] = {
        "bwrap",     unshare,        "--unshare-net", place,        "--die-with-parent",
        "--symlink", "usr/bin",      "/bin",          "--symlink",  "usr/lib",
        "/lib",      "--symlink",    "usr/lib64",     "/lib64",     "--ro-bind",
        "/usr",      "/usr",         "--dev",         "/dev",       "--proc",
        "/proc",     "--tmpfs",      "/tmp",          "--dir",      "/workspace",
        "--ro-bind", RUNTIME_BINARY, "/init",         "--clearenv", "--",
        "/init",     NULL,
    };

    if (socket == RT_SOCKET_FD)
        fcntl(socket, F_SETFD, 0);
    else
        dup2(socket, RT_SOCKET_FD);
    execvp("bwrap", (char *const *)argv);
    _exit(127);
}

/* False when the sandbox cannot be had here. */
static inline bool box_start(void)
{
    struct reply hello;
    int pair[2];

    memset(&box, 0, sizeof box);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        give_up("no socketpair");
    box.fd = pair[0];
    box.pid = fork();
    if (box.pid == 0)
        box_exec(pair[1]);
    close(pair[1]);
    if (!box_receive(&hello)) {
        close(box.fd);
        waitpid(box.pid, NULL, 0);
        return false;
    }
    if (hello.head.op != RT_HELLO || hello.head.value != RT_VERSION || hello.head.id != 0)
        give_up("no hello");
    return true;
}

/* Returns the wait status of the sandbox after its socket was closed. */
static inline int box_stop(void)
{
    int status = -1;

    close(box.fd);
    if (waitpid(box.pid, &status, 0) != box.pid)
        give_up("the sandbox got lost");
    return status;
}

/* For SET_SETUP and SET_TEARDOWN: a container for each test. */
static inline void start_box(void *unused)
{
    if (!box_start())
        give_up("bubblewrap could not start a sandbox");
}

static inline void stop_box(void *unused)
{
    box_stop();
}

/* For main: false, with a line that says so, where there is no bubblewrap to test in. */
static inline bool box_available(void)
{
    if (!box_start()) {
        printf("SKIP: bubblewrap cannot start a sandbox here\n");
        return false;
    }
    box_stop();
    return true;
}
enum { BOX_SKIPPED = 77 }; /* what main returns then; ctest knows the number */

/* ---- requests ---- */

struct text {
    char bytes[64 * 1024];
    size_t size;
};

static inline void text_add(struct text *text, const void *bytes, size_t size)
{
    if (text->size + size > sizeof text->bytes)
        give_up("text too long");
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

/* Both lists are NULL-terminated; argc and envc are filled in here. A user of 0 stands for ours,
 * which bubblewrap keeps. */
static inline int box_spawn(struct rt_spawn how, const char *cwd, const char *const *argv,
                            const char *const *env, struct reply *reply)
{
    static struct text request;

    request.size = 0;
    if (how.uid == 0) {
        how.uid = geteuid();
        how.gid = getegid();
    }
    for (how.argc = 0; argv[how.argc]; how.argc++)
        ;
    for (how.envc = 0; env && env[how.envc]; how.envc++)
        ;
    text_add(&request, &how, sizeof how);
    text_add(&request, cwd, strlen(cwd) + 1);
    for (int i = 0; i < how.argc; i++)
        text_add(&request, argv[i], strlen(argv[i]) + 1);
    for (int i = 0; i < how.envc; i++)
        text_add(&request, env[i], strlen(env[i]) + 1);
    return box_call(RT_SPAWN, request.bytes, request.size, reply);
}

static inline int box_path(enum rt_op op, struct rt_path how, const char *path, const char *second,
                           struct reply *reply)
{
    static struct text request;

    request.size = 0;
    text_add(&request, &how, sizeof how);
    text_add(&request, path, strlen(path) + 1);
    if (second)
        text_add(&request, second, strlen(second) + 1);
    return box_call(op, request.bytes, request.size, reply);
}

static inline int box_signal(int pid, int number, uint32_t scope)
{
    struct rt_signal how = {.pid = pid, .signal = number, .scope = scope};
    struct reply reply;

    return box_call(RT_SIGNAL, &how, sizeof how, &reply);
}

/* Until end of file; the descriptor is non-blocking and is closed. */
static inline size_t read_all(int fd, char *out, size_t room)
{
    size_t size = 0;

    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (poll(&ready, 1, CLIENT_PATIENCE_MS) != 1)
            give_up("no end of file in time");
        got = read(fd, out + size, room - 1 - size);
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    out[size] = '\0';
    close(fd);
    return size;
}

static const struct rt_spawn plain = {
    .slot_count = 3,
    .slots = {{0, RT_SLOT_NULL}, {1, RT_SLOT_OUT}, {2, RT_SLOT_NULL}},
};
static const char *const plain_env[] = {"PATH=/usr/bin:/bin", "HOME=/tmp", NULL};

/* Starts bash -c; *out is its standard output. */
static inline int shell_start(const char *script, int *out)
{
    struct reply reply;
    const char *argv[] = {"bash", "-c", script, NULL};
    int pid = box_spawn(plain, "/workspace", argv, plain_env, &reply);

    if (pid <= 0 || reply.fd_count != 1)
        give_up("bash did not start");
    *out = reply.fds[0];
    return pid;
}

/* Runs bash -c to its end; the output without its last newline, in one static buffer. */
static inline const char *shell(const char *script)
{
    static char text[64 * 1024];
    int out;
    int pid = shell_start(script, &out);
    size_t size = read_all(out, text, sizeof text);

    if (size > 0 && text[size - 1] == '\n')
        text[size - 1] = '\0';
    box_wait_exit(pid);
    return text;
}

#endif
