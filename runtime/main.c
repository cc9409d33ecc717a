/* PID 1 of a container: spawns, reaps, opens and connects on request, and hands the descriptors
 * out. It knows no HTTP, no JSON and no policy. */
#include "runtime/runtime.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

typedef int handler(const struct request *request, struct answer *answer);

static handler *const handlers[] = {
    [RT_SPAWN] = spawn_request,    [RT_FIFOS] = fifos_make,        [RT_FIFOS_DROP] = fifos_drop,
    [RT_SIGNAL] = signals_request, [RT_OPEN] = paths_open,         [RT_STAT] = paths_stat,
    [RT_LIST] = listing_request,   [RT_MKDIR] = paths_mkdir,       [RT_RENAME] = paths_rename,
    [RT_REMOVE] = remove_request,  [RT_READLINK] = paths_readlink, [RT_CONNECT] = ports_connect,
    [RT_END] = end_request,
};

static void dispatch(const struct request *request)
{
    /* Not zeroed as a whole: the payload is a page. */
    struct answer answer;
    int value = -EBADMSG;

    answer.size = 0;
    answer.fd_count = 0;
    answer.later = false;
    if (request->op < sizeof handlers / sizeof handlers[0] && handlers[request->op])
        value = handlers[request->op](request, &answer);
    if (!answer.later)
        message_answer(request->id, request->op, value, &answer);
}

/* A bounded number for each turn, so that reaping goes on beside a busy emulator. False when the
 * emulator is gone. */
static bool serve(void)
{
    enum { BATCH = 32 };
    struct request request;

    for (int i = 0; i < BATCH; i++) {
        int error = message_receive(&request);

        if (error == -EPIPE)
            return false;
        if (error == -EAGAIN)
            break;
        if (error == 0)
            dispatch(&request);
    }
    return true;
}

/* Every signal is blocked and has its default action, whatever we inherited: children undo the one
 * and keep the other. SIGCHLD comes by descriptor; the kernel shields PID 1 from the rest. */
static int take_signals(void)
{
    sigset_t all;
    sigset_t child;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A path like /proc/self/fd/2 is resolved by us, so nothing of the host may stay open here. */
static void drop_inherited(void)
{
    int null;

    close_range(RT_SOCKET_FD + 1, ~0U, 0);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < RT_SOCKET_FD; fd++) {
        if (null >= 0)
            dup2(null, fd);
        else
            close(fd);
    }
    if (null > RT_SOCKET_FD)
        close(null);
    fcntl(RT_SOCKET_FD, F_SETFD, FD_CLOEXEC);
    fcntl(RT_SOCKET_FD, F_SETFL, fcntl(RT_SOCKET_FD, F_GETFL) & ~O_NONBLOCK);
}

static void drain(int signals)
{
    struct signalfd_siginfo info[8];

    while (read(signals, info, sizeof info) > 0)
        ;
}

static void loop(int signals, int port)
{
    enum { SOCKET, SIGNALS, PORT, WATCHED, PORT_PAUSE_MS = 100 };
    struct pollfd watched[WATCHED] = {
        [SOCKET] = {.fd = RT_SOCKET_FD, .events = POLLIN},
        [SIGNALS] = {.fd = signals, .events = POLLIN},
        [PORT] = {.fd = port, .events = POLLIN}, /* poll skips a negative one */
    };
    bool more = false;

    for (;;) {
        int wait = more ? 0 : watched[PORT].events ? -1 : PORT_PAUSE_MS;

        if (poll(watched, WATCHED, wait) < 0)
            continue;
        if (watched[SIGNALS].revents)
            drain(signals);
        if (watched[SIGNALS].revents || more)
            more = reap_run();
        if (watched[SOCKET].revents && !serve())
            return;
        if (!watched[PORT].events)
            watched[PORT].events = POLLIN;
        else if (watched[PORT].revents && !ports_turn_away(port))
            watched[PORT].events = 0;
    }
}

int main(void)
{
    int signals;
    int port;

    if (fcntl(RT_SOCKET_FD, F_GETFD) < 0)
        return 1;
    drop_inherited();
    privileges_limit();
    prctl(PR_SET_DUMPABLE, 0);
    if (getpid() != 1) /* orphans come to PID 1 by themselves */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    umask(022);
    setgroups(0,
              NULL); /* refused where a user namespace forbids it; there are none to lose there */
    if (chdir("/") < 0)
        return 1;
    signals = take_signals();
    if (signals < 0)
        return 1;
    spawn_init();
    fifos_init();
    port = ports_hold();
    message_value(0, RT_HELLO, RT_VERSION);
    loop(signals, port);
    return 0;
}
