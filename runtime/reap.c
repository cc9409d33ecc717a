#include "runtime/runtime.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The processes that somebody waits for, sorted by pid. Pids mostly grow, so an insert is usually
 * an append. Everything else that ends here (orphans, listing workers) is reaped unseen. */
struct known {
    pid_t pid;
    uint32_t id; /* 0: spawned on request; else a worker whose end answers this request */
    uint16_t op;
};

enum { KNOWN_MAX = 65536, WAITING_MAX = 16 };

static struct known *known;
static size_t known_count, known_room;
static uint32_t waiting[WAITING_MAX]; /* requests to answer when no process is left */
static size_t waiting_count;

/* Where pid is, or belongs. */
static size_t known_at(pid_t pid)
{
    size_t low = 0;
    size_t high = known_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (known[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int reap_reserve(void)
{
    size_t room = known_room ? known_room * 2 : 32;
    struct known *grown;

    if (known_count < known_room)
        return 0;
    if (known_count >= KNOWN_MAX)
        return -EAGAIN;
    grown = realloc(known, room * sizeof *known);
    if (!grown)
        return -ENOMEM;
    known = grown;
    known_room = room;
    return 0;
}

static void add(struct known entry)
{
    size_t at = known_at(entry.pid);

    memmove(&known[at + 1], &known[at], (known_count - at) * sizeof *known);
    known[at] = entry;
    known_count++;
}

void reap_spawned(pid_t pid)
{
    add((struct known){.pid = pid});
}

void reap_worker(pid_t pid, uint32_t id, uint16_t op)
{
    add((struct known){.pid = pid, .id = id, .op = op});
}

bool reap_knows(pid_t pid)
{
    size_t at = known_at(pid);

    return at < known_count && known[at].pid == pid && known[at].id == 0;
}

pid_t reap_fork(int keep, int keep_too)
{
    sigset_t none;
    pid_t pid = fork();
    int low = keep < keep_too ? keep : keep_too;
    int high = keep < keep_too ? keep_too : keep;

    if (pid != 0)
        return pid < 0 ? -errno : pid;
    if (low > RT_SOCKET_FD)
        close_range(RT_SOCKET_FD, (unsigned)low - 1, 0);
    else
        low = RT_SOCKET_FD - 1;
    if (high > low + 1)
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    close_range((unsigned)(high > low ? high : low) + 1, ~0U, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return 0;
}

static void report(pid_t pid, int status)
{
    size_t at = known_at(pid);
    struct known entry;

    if (at == known_count || known[at].pid != pid)
        return;
    entry = known[at];
    known_count--;
    memmove(&known[at], &known[at + 1], (known_count - at) * sizeof *known);
    if (entry.id == 0)
        message_exit(pid, status);
    else
        message_value(entry.id, entry.op, WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR);
}

static bool nothing_left(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

static void answer_waiting(void)
{
    if (waiting_count == 0 || !nothing_left())
        return;
    for (size_t i = 0; i < waiting_count; i++)
        message_value(waiting[i], RT_SIGNAL, 0);
    waiting_count = 0;
}

int reap_answer_when_empty(uint32_t id)
{
    if (waiting_count == WAITING_MAX)
        return -EBUSY;
    waiting[waiting_count++] = id;
    answer_waiting();
    return 0;
}

bool reap_run(void)
{
    enum { BATCH = 512 };

    for (int i = 0; i < BATCH; i++) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid <= 0) {
            answer_waiting();
            return false;
        }
        report(pid, status);
    }
    return true;
}
