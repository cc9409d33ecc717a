#include "drivers/network_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "drivers/network.h"

enum { SAID_MAX = 1024, FAILED = 127, FIRST_FREE_FD = 16 };

/* Where the descriptors of the child are until it executes the helper. */
enum { SLOT_READY = 3, SLOT_NETNS, SLOT_USERNS, SLOT_OWNER, SLOTS };

struct network_helper {
    struct network_helper *next, **link;
    struct loop *loop;
    struct network_helper_events events;
    struct network_helper_start start;
    const char *name;
    struct child child;
    struct watch ready, errors;
    struct timer late;
    char said[SAID_MAX]; /* the beginning of its standard error */
    size_t said_size;
    bool asking; /* the runtime has not given its namespace yet */
    bool stopped;
};

/* --- The child -------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void give_up(const char *what)
{
    const char *parts[] = {what, ": ", strerror(errno), "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0)
            break;
    }
    _exit(FAILED);
}

static void reset_signals(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &usual, NULL); /* fails for the two that cannot be changed */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void arrange_descriptors(const int wanted[SLOTS])
{
    int high[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        high[i] = wanted[i] < 0 ? -1 : fcntl(wanted[i], F_DUPFD, FIRST_FREE_FD);
        if (wanted[i] >= 0 && high[i] < 0)
            _exit(FAILED);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (high[i] >= 0)
            dup2(high[i], i);
    }
    syscall(SYS_close_range, SLOTS, ~0U, 0);
}

/* Gives the network namespace a name that only this process has. */
static void name_namespace(bool userns)
{
    if (userns && setns(SLOT_USERNS, CLONE_NEWUSER) < 0)
        give_up("enter the container's user namespace");
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        give_up("mount namespace");
    if (mount("tmpfs", NETWORK_DIR, "tmpfs", MS_NODEV | MS_NOSUID | MS_NOEXEC, "mode=755") < 0)
        give_up("tmpfs on " NETWORK_DIR);
    int fd = open(NETWORK_NAMESPACE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char from[32];
    snprintf(from, sizeof from, "/proc/self/fd/%d", SLOT_NETNS);
    if (fd < 0 || mount(from, NETWORK_NAMESPACE, NULL, MS_BIND, NULL) < 0)
        give_up("bind the network namespace");
    close(fd);
}

/* The parent-death signal comes last: a change of credentials would clear it. */
static void die_with_owner(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct pollfd gone = {.fd = SLOT_OWNER, .events = POLLIN};
    if (poll(&gone, 1, 0) != 0)
        _exit(FAILED);
}

__attribute__((noreturn)) static void run(const struct network_helper_start *start,
                                          const int wanted[SLOTS])
{
    static char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
    const char *argv[NETWORK_ARGUMENTS];
    bool userns = wanted[SLOT_USERNS] >= 0;
    network_arguments(start->network, !userns, argv);
    setsid();
    reset_signals();
    arrange_descriptors(wanted);
    umask(022);
    name_namespace(userns);
    die_with_owner();
    bool keeps_slot = network_ready_fd(start->network) == SLOT_READY;
    syscall(SYS_close_range, SLOT_READY + keeps_slot, ~0U, 0);
    execve(start->program, (char *const *)argv, env);
    give_up("execute");
}

/* --- Its life --------------------------------------------------------------------------------- */

static void drop(struct loop *loop, struct watch *watch)
{
    int fd = watch->fd;
    loop_unwatch(loop, watch);
    if (fd >= 0)
        close(fd);
}

static void release(struct network_helper *helper)
{
    loop_disarm(helper->loop, &helper->late);
    drop(helper->loop, &helper->ready);
    drop(helper->loop, &helper->errors);
    *helper->link = helper->next;
    if (helper->next)
        helper->next->link = helper->link;
    free(helper);
}

static void tell(struct network_helper *helper, enum network_state state, const char *why)
{
    if (!helper->stopped)
        helper->events.state(helper->events.arg, state, why);
}

static void ready_readable(void *arg, uint32_t events)
{
    struct network_helper *helper = arg;
    char text[64];
    ssize_t size = read(helper->ready.fd, text, sizeof text);
    if (size < 0)
        return;
    drop(helper->loop, &helper->ready);
    if (size == 0)
        return; /* it failed; its end says how */
    loop_disarm(helper->loop, &helper->late);
    tell(helper, NETWORK_UP, NULL);
}

static void is_late(void *arg)
{
    struct network_helper *helper = arg;
    log_debug("%s: not ready within %d ms", helper->name, NETWORK_WAIT_MS);
    tell(helper, NETWORK_LATE, NULL);
}

/* Keeps the beginning of what it says, logs that, and drops the rest. */
static void errors_readable(void *arg, uint32_t events)
{
    struct network_helper *helper = arg;
    for (int turns = 0; turns < 16 && helper->errors.fd >= 0; turns++) {
        char text[512];
        ssize_t size = read(helper->errors.fd, text, sizeof text);
        if (size < 0)
            return;
        if (size == 0) {
            drop(helper->loop, &helper->errors);
            return;
        }
        size_t room = sizeof helper->said - 1 - helper->said_size;
        size_t taken = (size_t)size < room ? (size_t)size : room;
        memcpy(helper->said + helper->said_size, text, taken);
        helper->said_size += taken;
        if (taken)
            log_debug("%s: %.*s", helper->name, (int)taken, text);
    }
}

/* The last line that means something: pasta also complains about a system log that is not there. */
static void last_words(struct network_helper *helper, char *to, size_t size)
{
    errors_readable(helper, 0);
    helper->said[helper->said_size] = '\0';
    to[0] = '\0';
    for (size_t i = 0; i < helper->said_size; i++) {
        unsigned char c = (unsigned char)helper->said[i];
        if (c != '\n' && (c < ' ' || c > '~'))
            helper->said[i] = '?';
    }
    char *rest = helper->said;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (*line && strncmp(line, "Failed to send", 14) != 0)
            snprintf(to, size, "%s", line);
    }
}

static void child_ended(void *arg, int code, int status)
{
    struct network_helper *helper = arg;
    char words[200], why[320];
    if (!helper->stopped) {
        last_words(helper, words, sizeof words);
        snprintf(why, sizeof why, "%s %s %d%s%s", helper->name,
                 code == CLD_EXITED ? "exited with" : "was ended by signal", status,
                 *words ? ": " : "", words);
        tell(helper, NETWORK_FAILED, why);
    }
    release(helper);
}

int network_helper_check(int netns, struct error *err)
{
    struct stat theirs, ours;
    int type = ioctl(netns, NS_GET_NSTYPE);
    if (type < 0)
        return error_errno(err, errno, "network namespace of the container");
    if (type != CLONE_NEWNET)
        return error_set(err, EINVAL, "what the container gave is no network namespace");
    if (fstat(netns, &theirs) < 0 || stat("/proc/self/ns/net", &ours) < 0)
        return error_errno(err, errno, "network namespace");
    if (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino)
        return error_set(err, EINVAL, "the container is in the network namespace of this host");
    return 0;
}

/* The pipes: one end for us, watched, the other for the child. */
static int open_pipe(struct loop *loop, struct watch *watch, int *theirs, struct error *err)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "pipe");
    *theirs = pair[1];
    /* The one behind /proc/self/fd/1 is opened again, perhaps by another user of this host. */
    fchmod(pair[1], 0622);
    int error = loop_watch(loop, watch, pair[0], EPOLLIN);
    if (error) {
        close(pair[0]);
        return error_errno(err, -error, "watch");
    }
    return 0;
}

static int launch(struct network_helper *helper, int netns, struct error *err)
{
    const struct network_helper_start *start = &helper->start;
    CLEANUP_FD int ready = -1;
    CLEANUP_FD int errors = -1;
    CLEANUP_FD int userns = -1;
    int result = open_pipe(helper->loop, &helper->ready, &ready, err);
    if (result == 0)
        result = open_pipe(helper->loop, &helper->errors, &errors, err);
    if (result < 0)
        return result;
    /* Who is not root here has power over the namespace only in the one that owns it. */
    if (geteuid() != 0 && (userns = ioctl(netns, NS_GET_USERNS)) < 0)
        return error_errno(err, errno, "user namespace of the container");
    int output = network_ready_fd(start->network) == STDOUT_FILENO ? ready : start->null;
    const int wanted[SLOTS] = {start->null, output, errors, ready, netns, userns, start->owner};
    int pid = fork();
    if (pid < 0)
        return error_errno(err, errno, "fork");
    if (pid == 0)
        run(start, wanted);
    result = loop_child(helper->loop, &helper->child, pid, err);
    if (result < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return result;
}

static void namespace_given(void *arg, struct agent_answer *answer)
{
    struct network_helper *helper = arg;
    struct error err = {0};
    helper->asking = false;
    if (helper->stopped) {
        release(helper);
        return;
    }
    int result = answer->value;
    if (result == -EPIPE)
        return; /* the container ends, and stops its helper */
    if (result < 0)
        error_errno(&err, -result, "network namespace of the container");
    else if ((result = network_helper_check(answer->fds[0], &err)) == 0)
        result = launch(helper, answer->fds[0], &err);
    if (result < 0) {
        tell(helper, NETWORK_FAILED, err.text);
        release(helper);
    }
}

static struct network_helper *helper_new(struct loop *loop,
                                         const struct network_helper_start *start,
                                         struct network_helper_events events)
{
    struct network_helper *helper = calloc(1, sizeof *helper);
    if (!helper)
        return NULL;
    helper->next = *start->all;
    helper->link = start->all;
    if (helper->next)
        helper->next->link = &helper->next;
    *start->all = helper;
    helper->loop = loop;
    helper->events = events;
    helper->start = *start;
    helper->name = network_name(start->network);
    helper->child = (struct child){.ended = child_ended, .arg = helper, .pidfd = -1};
    helper->ready = (struct watch){.ready = ready_readable, .arg = helper, .fd = -1};
    helper->errors = (struct watch){.ready = errors_readable, .arg = helper, .fd = -1};
    helper->late = (struct timer){.fire = is_late, .arg = helper};
    return helper;
}

struct network_helper *network_helper_start(struct loop *loop, struct agent *agent,
                                            const struct network_helper_start *start,
                                            struct network_helper_events events, struct error *err)
{
    const struct rt_path how = {.open_flags = O_RDONLY};
    struct network_helper *helper = helper_new(loop, start, events);
    if (!helper) {
        error_errno(err, ENOMEM, "network");
        return NULL;
    }
    int result = loop_arm(loop, &helper->late, MS_NS(NETWORK_WAIT_MS));
    if (result == 0)
        result =
            agent_path(agent, RT_OPEN, &how, "/proc/self/ns/net", NULL, namespace_given, helper);
    if (result < 0) {
        error_errno(err, -result, "start %s", helper->name);
        release(helper);
        return NULL;
    }
    helper->asking = true;
    return helper;
}

void network_helper_stop(struct network_helper *helper)
{
    if (!helper || helper->stopped)
        return;
    helper->stopped = true;
    loop_disarm(helper->loop, &helper->late);
    if (helper->child.pidfd >= 0)
        syscall(SYS_pidfd_send_signal, helper->child.pidfd, SIGKILL, NULL, 0);
    else if (!helper->asking)
        release(helper);
}

void network_helpers_free(struct network_helper **all)
{
    while (*all) {
        struct network_helper *helper = *all;
        int pid = helper->child.pid;
        loop_child_forget(&helper->child);
        waitpid(pid, NULL, 0);
        release(helper);
    }
}
