/* Ending a process with all that it started. A forked worker does it, so that the waiting is simple
 * and nobody else waits; its exit status is the answer. */
#include "runtime/runtime.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

enum { KILL_GRACE_MS = 5000, SLICE_MS = 50 };

/* A process that was found, known by a descriptor: its number may be another's when it is gone. */
struct member {
    pid_t pid;
    int fd; /* -1: there was none left; then the number must do */
    bool told;
};

struct hunt {
    struct rt_end what;
    struct member *members;
    size_t count, room;
};

static int pidfd_of(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void tell(const struct member *member, int number)
{
    if (member->fd >= 0)
        syscall(SYS_pidfd_send_signal, member->fd, number, NULL, 0);
    else
        kill(member->pid, number);
}

static bool is_alive(const struct member *member)
{
    struct pollfd end = {.fd = member->fd, .events = POLLIN};

    if (member->fd < 0)
        return kill(member->pid, 0) == 0;
    return poll(&end, 1, 0) == 0;
}

/* --- Finding ---------------------------------------------------------------------------------- */

static bool is_pipe_of(const struct hunt *hunt, const struct stat *st)
{
    if (!S_ISFIFO(st->st_mode) || st->st_dev != hunt->what.device)
        return false;
    for (int i = 0; i < 2; i++)
        if (hunt->what.pipes[i] && st->st_ino == hunt->what.pipes[i])
            return true;
    return false;
}

static bool holds_pipe(const struct hunt *hunt, pid_t pid)
{
    char path[32];
    struct dirent *entry;
    struct stat st;
    bool found = false;
    DIR *open_files;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    open_files = opendir(path);
    if (!open_files)
        return false;
    while (!found && (entry = readdir(open_files)))
        if (entry->d_name[0] != '.' && fstatat(dirfd(open_files), entry->d_name, &st, 0) == 0)
            found = is_pipe_of(hunt, &st);
    closedir(open_files);
    return found;
}

static void add_holders(const struct hunt *hunt, struct tree *found)
{
    struct dirent *entry;
    DIR *processes;

    if (!hunt->what.pipes[0] && !hunt->what.pipes[1])
        return;
    processes = opendir("/proc");
    if (!processes)
        return;
    while ((entry = readdir(processes))) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);

        if (pid > 1 && *end == '\0' && holds_pipe(hunt, (pid_t)pid))
            tree_add(found, (pid_t)pid);
    }
    closedir(processes);
}

/* PID 1, ourselves, and what others asked for are none of this. */
static bool is_ours(const struct hunt *hunt, pid_t pid)
{
    return pid > 1 && pid != getpid() && (pid == hunt->what.pid || !reap_knows(pid));
}

static bool is_member(const struct hunt *hunt, pid_t pid)
{
    for (size_t i = 0; i < hunt->count; i++)
        if (hunt->members[i].pid == pid && is_alive(&hunt->members[i]))
            return true;
    return false;
}

/* Takes the descriptor. */
static void add_member(struct hunt *hunt, pid_t pid, int fd)
{
    if (hunt->count == hunt->room) {
        size_t room = hunt->room ? hunt->room * 2 : 64;
        struct member *grown = realloc(hunt->members, room * sizeof *grown);

        if (!grown) {
            kill(pid, SIGKILL); /* nobody could wait for it, but it ends */
            close(fd);
            return;
        }
        hunt->members = grown;
        hunt->room = room;
    }
    hunt->members[hunt->count++] = (struct member){.pid = pid, .fd = fd};
}

static void add_found(struct hunt *hunt, pid_t pid, bool stop)
{
    int fd;

    if (!is_ours(hunt, pid) || is_member(hunt, pid))
        return;
    fd = pidfd_of(pid);
    if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOMEM)
        return;
    if (stop)
        kill(pid, SIGSTOP);
    add_member(hunt, pid, fd);
}

/* Adds whoever came since, and says whether somebody lives. A process that is told to stop finishes
 * no fork after that, so stopping each one before its children are read leaves no way to slip out.
 */
static bool gather(struct hunt *hunt, bool stop)
{
    struct tree found = {0};
    bool alive = false;

    add_holders(hunt, &found);
    for (size_t i = 0; i < found.count; i++)
        add_found(hunt, found.pids[i], stop);
    for (size_t i = 0; i < hunt->count; i++) {
        if (!is_alive(&hunt->members[i]))
            continue;
        alive = true;
        if (stop)
            tell(&hunt->members[i], SIGSTOP);
        found.count = 0;
        tree_add_children(&found, hunt->members[i].pid);
        for (size_t k = 0; k < found.count; k++)
            add_found(hunt, found.pids[k], stop);
    }
    free(found.pids);
    return alive;
}

/* --- Ending ----------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Each once; with SIGKILL all, since a stopped one has not seen the milder signal. Parents come
 * before their children: a shell that sees its child end first says so, or goes on. */
static void tell_all(struct hunt *hunt, int number)
{
    for (size_t i = 0; i < hunt->count; i++) {
        struct member *member = &hunt->members[i];

        if (!member->told || number == SIGKILL)
            tell(member, number);
        member->told = true;
    }
}

/* Until all that are known have ended. All have to, so one after the other is as good as any. Not
 * for long: those that live may start others. */
static void wait_a_while(const struct hunt *hunt, int64_t deadline)
{
    int64_t until = now_ms() + SLICE_MS < deadline ? now_ms() + SLICE_MS : deadline;

    for (size_t i = hunt->count; i-- > 0;) {
        struct pollfd end = {.fd = hunt->members[i].fd, .events = POLLIN};
        int64_t left = until - now_ms();

        if (left <= 0)
            return;
        if (end.fd >= 0)
            poll(&end, 1, (int)left);
        else if (is_alive(&hunt->members[i]))
            poll(NULL, 0, (int)left);
    }
}

/* False when somebody lives on after the time. */
static bool end_by(struct hunt *hunt, int number, int64_t grace_ms)
{
    int64_t deadline = now_ms() + grace_ms;

    while (gather(hunt, number == SIGKILL)) {
        tell_all(hunt, number);
        if (now_ms() >= deadline)
            return false;
        wait_a_while(hunt, deadline);
    }
    return true;
}

/* Whether this is the process that was meant: one that holds the FIFO holds it as long as it lives,
 * and its descriptor was taken before we looked. */
static bool is_proven(const struct rt_end *what)
{
    char path[48];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)what->pid, RT_PROOF_FD);
    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_dev == what->device &&
           st.st_ino == what->proof;
}

/* The root may be gone already while those that it started are not. */
static void add_root(struct hunt *hunt, int fd)
{
    if (fd < 0)
        return;
    if (hunt->what.proof && !is_proven(&hunt->what))
        close(fd);
    else
        add_member(hunt, hunt->what.pid, fd);
}

static __attribute__((noreturn)) void work(struct hunt *hunt, int root)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    add_root(hunt, root);
    if (hunt->what.grace_ms > 0 && end_by(hunt, SIGTERM, hunt->what.grace_ms))
        _exit(0);
    _exit(end_by(hunt, SIGKILL, KILL_GRACE_MS) ? ETIME : ETIMEDOUT);
}

/* There is no room for a worker, most likely because these processes took it: they end the hard way
 * at once, and nobody waits. */
static int end_at_once(struct hunt *hunt, int root)
{
    add_root(hunt, root);
    gather(hunt, true);
    tell_all(hunt, SIGKILL);
    for (size_t i = 0; i < hunt->count; i++)
        if (hunt->members[i].fd >= 0)
            close(hunt->members[i].fd);
    free(hunt->members);
    return -ETIME;
}

int end_request(const struct request *request, struct answer *answer)
{
    struct reader in = reader_of(request);
    struct hunt hunt = {0};
    const struct rt_end *what = &hunt.what;
    CLEANUP_FD int root = -1;
    pid_t worker;
    int error;

    if (!reader_take(&in, &hunt.what, sizeof hunt.what) || in.left)
        return -EBADMSG;
    if (what->pid < 0 || what->pid == 1)
        return -EINVAL;
    if (what->pid > 0 && (what->proof != 0) == reap_knows(what->pid))
        return what->proof ? -EPERM : -ESRCH;
    if (what->pid > 0)
        root = pidfd_of(what->pid);
    error = reap_reserve();
    if (error)
        return error;
    worker = reap_fork(root, -1);
    if (worker == 0)
        work(&hunt, root);
    if (worker < 0) {
        error = end_at_once(&hunt, root);
        root = -1;
        return error;
    }
    reap_worker(worker, request->id, RT_END);
    answer->later = true;
    return 0;
}
