#include "drivers/chain_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/protocol.h"

enum { FIRST_FREE_FD = 16, OWNER_FD = CHAIN_FILTER_FD + 1 };

void chain_fail(const char *what, const char *path)
{
    int code = errno;
    const char *text = strerrordesc_np(code);
    const char *parts[] = {what, " '", path, "': ", text ? text : "unknown error", "\n"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0)
            break;
    }
    _exit(CHAIN_FAILED);
}

static void die_with_owner(int owner)
{
    /* The owner may have died before the kernel was asked. Its pid says nothing here: seen from a
     * new pid namespace every outer parent is 0. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct pollfd gone = {.fd = owner, .events = POLLIN};
    if (poll(&gone, 1, 0) != 0)
        _exit(CHAIN_FAILED);
}

/* "0" is whoever writes it, which holds in any pid namespace. */
static void enter_groups(const struct chain *chain)
{
    for (size_t i = 0; i < chain->group_count; i++) {
        if (write(chain->groups[i], "0", 1) < 0) {
            int code = errno; /* standard error is still the emulator's */
            dup2(chain->errors, STDERR_FILENO);
            errno = code;
            chain_fail("enter", "control group");
        }
    }
}

/* Last of all: the count of processes is that of the user namespace we are in by then. Address space
 * that is only reserved is not counted: Node, Go and Java reserve much more than they use. */
static void limit_itself(const struct chain *chain)
{
    struct rlimit memory = {chain->memory_bytes, chain->memory_bytes};
    struct rlimit pids = {chain->pids, chain->pids};
    if (chain->memory_bytes && setrlimit(RLIMIT_DATA, &memory) < 0)
        chain_fail("limit", "memory");
    if (chain->pids && setrlimit(RLIMIT_NPROC, &pids) < 0)
        chain_fail("limit", "processes");
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

/* Puts the descriptors where they belong and drops all others. */
static void arrange_descriptors(const struct chain *chain)
{
    const int wanted[] = {chain->null,    chain->null,   chain->errors, chain->socket,
                          chain->runtime, chain->filter, chain->owner};
    enum { COUNT = sizeof(wanted) / sizeof(wanted[0]) };
    int high[COUNT];
    for (int i = 0; i < COUNT; i++) {
        high[i] = fcntl(wanted[i], F_DUPFD, FIRST_FREE_FD);
        if (high[i] < 0) {
            int code = errno;
            dup2(chain->errors, STDERR_FILENO);
            errno = code;
            chain_fail("arrange", "descriptors");
        }
    }
    for (int i = 0; i < COUNT; i++)
        dup2(high[i], i);
    fcntl(OWNER_FD, F_SETFD, FD_CLOEXEC);
    if (syscall(SYS_close_range, COUNT, ~0U, 0) < 0)
        chain_fail("close", "descriptors");
}

__attribute__((noreturn)) static void run(const struct chain *chain)
{
    die_with_owner(chain->owner);
    setsid();
    reset_signals();
    enter_groups(chain);
    arrange_descriptors(chain);
    if (userns_begin(chain->userns) < 0)
        chain_fail("map", "ids of the user namespace");
    chain_build_root(chain);
    die_with_owner(OWNER_FD); /* another user is told nothing of the death of a parent */
    limit_itself(chain);
    execve(chain->program, chain->argv, chain->env);
    chain_fail("execute", chain->program);
}

int chain_clone(const struct chain *chain, struct error *err)
{
    int pid = userns_clone(chain->userns, err);
    if (pid == 0)
        run(chain);
    return pid;
}
