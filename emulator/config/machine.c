/* The table of checks, and how they are run. */
#include "config/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/machine_internal.h"

const struct machine_check machine_checks[] = {
    {"kernel", "kernel", machine_check_kernel, MACHINE_QUICK},
    {"user-namespaces", "user namespaces", machine_check_user_namespaces, MACHINE_QUICK},
    {"apparmor", "AppArmor", machine_check_apparmor, MACHINE_QUICK},
    {"subids", "subordinate ids", machine_check_subids, 0},
    {"bubblewrap", "bubblewrap", machine_check_bubblewrap, 0},
    {"bubblewrap-links", "bubblewrap and links", machine_check_links, MACHINE_SCRATCH},
    {"overlay", "overlay mounts", machine_check_overlay, 0},
    {"idmapped-mounts", "id-mapped mounts", machine_check_idmapped, 0},
    {"cgroups", "control groups", machine_check_cgroups, 0},
    {"memory", "memory", machine_check_memory, MACHINE_QUICK},
    {"egress", "network of sandboxes", machine_check_egress, 0},
    {"localhost-names", "names below localhost", machine_check_names, 0},
    {"port", "port", machine_check_port, 0},
    {"state", "state directory", machine_check_state, 0},
    {"locator", "locator directory", machine_check_locator, 0},
    {"tools", "tools of the image", machine_check_tools, MACHINE_SCRATCH},
    {"docker", "Docker", machine_check_docker, 0},
};
const size_t machine_check_count = sizeof machine_checks / sizeof *machine_checks;

const struct machine_tries machine_real_tries = {
    .user_namespace = machine_try_user_namespace,
    .overlay = machine_try_overlay,
    .idmapped = machine_try_idmapped,
    .missing_call = machine_try_calls,
    .bind_port = machine_try_port,
    .resolve = machine_try_resolve,
};

/* What the start of a container says when it fails, and the check that may know why. */
static const struct {
    const char *text, *id;
} causes[] = {
    {"RTM_NEWADDR", "apparmor"},
    {"uid map", "user-namespaces"},
    {"uid_map", "user-namespaces"},
    {"user namespace", "user-namespaces"},
    {"new namespace", "user-namespaces"},
    {"idmap", "idmapped-mounts"},
    {"mount_setattr", "idmapped-mounts"},
    {"overlay", "overlay"},
    {"mount 'root/", "overlay"},
    {"Cannot allocate memory", "memory"},
    {"start a container process", "user-namespaces"},
    {"descriptors", "kernel"},
    {"not implemented", "kernel"},
    {"control group", "cgroups"},
    {"execute '", "bubblewrap"},
    {"bwrap:", "bubblewrap"},
    {"No space left", "user-namespaces"},
    {"Operation not permitted", "bubblewrap"},
};

struct machine machine_here(void)
{
    const char *path = getenv("PATH");
    return (struct machine){
        .root = "",
        .path = path && *path ? path : "/usr/local/bin:/usr/bin:/bin",
        .uid = geteuid(),
        .tries = &machine_real_tries,
    };
}

const struct machine_check *machine_check(const char *id)
{
    for (size_t i = 0; i < machine_check_count; i++) {
        if (strcmp(machine_checks[i].id, id) == 0)
            return &machine_checks[i];
    }
    return NULL;
}

size_t machine_checks_for(const char *error, struct machine_check *to, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof causes / sizeof *causes && count < max; i++) {
        bool known = !strstr(error, causes[i].text);
        for (size_t j = 0; j < count && !known; j++)
            known = strcmp(to[j].id, causes[i].id) == 0;
        if (!known)
            to[count++] = *machine_check(causes[i].id);
    }
    return count;
}

/* --- Running ---------------------------------------------------------------------------------- */

enum { AT_ONCE = 32, END_MS = 200 };
_Static_assert(sizeof machine_checks / sizeof *machine_checks <= AT_ONCE, "all run side by side");

struct running {
    pid_t pid;
    int fd; /* -1 when it is done */
};

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A process group of its own, so that all it starts can be ended with it; and no signal that was
 * blocked or ignored for our sake. */
__attribute__((noreturn)) static void
run_child(const struct machine *machine, const struct machine_check *check, int to, pid_t parent)
{
    struct machine_result result = {0};
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if ((check->flags & MACHINE_SCRATCH) && !machine->scratch)
        machine_could_not(&result, "there is no directory to try it in");
    else
        check->run(machine, &result);
    _exit(write(to, &result, sizeof result) == (ssize_t)sizeof result ? 0 : 1);
}

static void start(const struct machine *machine, const struct machine_check *check,
                  struct running *running, struct machine_result *result)
{
    int pair[2];
    *running = (struct running){.fd = -1};
    machine_could_not(result, "the check ended without a result");
    if (pipe2(pair, O_CLOEXEC) < 0) {
        machine_could_not(result, "no pipe for it: %s", strerrordesc_np(errno));
        return;
    }
    pid_t parent = getpid();
    running->pid = fork();
    if (running->pid == 0)
        run_child(machine, check, pair[1], parent);
    close(pair[1]);
    if (running->pid < 0) {
        machine_could_not(result, "no process for it: %s", strerrordesc_np(errno));
        close(pair[0]);
        return;
    }
    setpgid(running->pid, running->pid); /* whichever of the two comes first */
    running->fd = pair[0];
}

/* The result is one write that fits a pipe, so it comes whole or not at all. */
static void collect(struct running *running, struct machine_result *result)
{
    struct machine_result got;
    if (read(running->fd, &got, sizeof got) == (ssize_t)sizeof got)
        *result = got;
    close(running->fd);
    running->fd = -1;
    kill(-running->pid, SIGKILL);
    waitpid(running->pid, NULL, 0);
}

static void wait_some(struct running *running, struct machine_result *results, size_t count,
                      int timeout)
{
    struct pollfd polls[AT_ONCE];
    for (size_t i = 0; i < count; i++)
        polls[i] = (struct pollfd){.fd = running[i].fd, .events = POLLIN};
    if (poll(polls, count, timeout) <= 0)
        return;
    for (size_t i = 0; i < count; i++) {
        if (running[i].fd >= 0 && polls[i].revents)
            collect(&running[i], &results[i]);
    }
}

static size_t left(const struct running *running, size_t count)
{
    size_t open = 0;
    for (size_t i = 0; i < count; i++)
        open += running[i].fd >= 0;
    return open;
}

/* A process that hangs in the kernel (a dead network file system) does not die of a signal; it is
 * left to init then. */
static void give_up(struct running *running)
{
    kill(-running->pid, SIGKILL);
    for (int ms = 0; waitpid(running->pid, NULL, WNOHANG) == 0 && ms < END_MS; ms++)
        poll(NULL, 0, 1);
    close(running->fd);
}

void machine_run(const struct machine *machine, const struct machine_check *checks, size_t count,
                 struct machine_result *results, int deadline_ms)
{
    struct running running[AT_ONCE];
    count = count < AT_ONCE ? count : AT_ONCE;
    long long end = now_ms() + deadline_ms;
    fflush(NULL); /* nothing that is buffered is written twice */
    for (size_t i = 0; i < count; i++)
        start(machine, &checks[i], &running[i], &results[i]);
    for (long long now = now_ms(); now < end && left(running, count) > 0; now = now_ms())
        wait_some(running, results, count, (int)(end - now));
    for (size_t i = 0; i < count; i++) {
        if (running[i].fd < 0)
            continue;
        machine_could_not(&results[i], "no answer within %d ms", deadline_ms);
        give_up(&running[i]);
    }
}
