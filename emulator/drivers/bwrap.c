#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "drivers/cgroup.h"
#include "drivers/driver.h"
#include "drivers/network.h"
#include "drivers/network_helper.h"
#include "drivers/starter.h"

enum {
    HELLO_MS = 30000,
    /* From the end of the socket to the end of the tree, which ends by itself when PID 1 does. */
    GRACE_MS = 1000,
    ERROR_TEXT_MAX = 4096,
    WHY_MAX = 1024,
    /* Room for one message and the kernel's own accounting. */
    SOCKET_BUFFER = 2 * RT_MESSAGE_MAX,
};

struct driver {
    struct loop *loop;
    struct starter starter;
    struct cgroups *groups;
    char *networks[NETWORK_SLIRP4NETNS + 1]; /* the programs, once they were needed */
    struct network_helper *helpers;
    struct instance *instances;
};

struct instance {
    struct driver *driver;
    struct instance *next, **link;
    struct instance_events events;
    struct agent *agent;
    struct child child;
    enum instance_network network;
    struct network_helper *helper; /* NULL when there is none, or none any more */
    struct cgroup *group;
    struct instance_limits limits;
    unsigned kills; /* told so far */
    struct timer timer;
    struct watch errors;
    char error_text[ERROR_TEXT_MAX];
    size_t error_size;
    char why[WHY_MAX]; /* empty until something decides the end */
    bool ready, ended, lost;
    int code, status; /* of the child, when ended */
};

/* --- The driver ------------------------------------------------------------------------------- */

static int prepare(struct driver *driver, const char *run_dir, struct error *err)
{
    driver->groups = cgroups_new(driver->loop, CGROUP_ROOT, NULL);
    return driver->groups ? starter_open(&driver->starter, run_dir, err)
                          : error_errno(err, ENOMEM, "driver");
}

struct driver *driver_bwrap_new(struct loop *loop, const char *run_dir, struct error *err)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    if (!driver) {
        error_errno(err, ENOMEM, "driver");
        return NULL;
    }
    driver->loop = loop;
    driver->starter = starter_closed;
    if (prepare(driver, run_dir, err) < 0) {
        error_wrap(err, "bubblewrap driver");
        driver_free(driver);
        return NULL;
    }
    return driver;
}

const char *driver_missing_tools(const struct driver *driver)
{
    return driver->starter.profile.missing;
}

const char *driver_warning(const struct driver *driver)
{
    return driver->starter.warning;
}

const char *driver_limited(const struct driver *driver)
{
    return driver->starter.limited;
}

const char *driver_limits_note(const struct driver *driver)
{
    return cgroups_note(driver->groups);
}

const char *const *driver_environment(const struct driver *driver)
{
    return (const char *const *)driver->starter.profile.env;
}

/* --- The end of an instance ------------------------------------------------------------------- */

static void instance_free(struct instance *instance)
{
    network_helper_stop(steal_pointer(&instance->helper));
    loop_disarm(instance->driver->loop, &instance->timer);
    int errors = instance->errors.fd;
    loop_unwatch(instance->driver->loop, &instance->errors);
    if (errors >= 0)
        close(errors);
    agent_free(instance->agent);
    cgroup_free(instance->group);
    *instance->link = instance->next;
    if (instance->next)
        instance->next->link = instance->link;
    free(instance);
}

/* Keeps the beginning of what the chain, bubblewrap and the runtime say, and drops the rest. */
static void read_errors(void *arg, uint32_t events)
{
    struct instance *instance = arg;
    char rest[512];
    for (int turns = 0; turns < 16 && instance->errors.fd >= 0; turns++) {
        size_t room = sizeof(instance->error_text) - 1 - instance->error_size;
        char *to = room ? instance->error_text + instance->error_size : rest;
        ssize_t size = read(instance->errors.fd, to, room ? room : sizeof(rest));
        if (size < 0)
            return;
        if (size == 0) {
            int fd = instance->errors.fd;
            loop_unwatch(instance->driver->loop, &instance->errors);
            close(fd);
            return;
        }
        if (room)
            instance->error_size += (size_t)size;
    }
}

/* One line of the text on standard error, or "". */
static const char *error_line(struct instance *instance)
{
    char *text = instance->error_text;
    size_t size = instance->error_size;
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == ' '))
        size--;
    text[size] = '\0';
    for (size_t i = 0; i < size; i++)
        text[i] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
    return text;
}

/* PID 1 is the last that the kernel chooses, so whoever is left then has no use. */
static const char *lack_of_memory(const struct instance *instance, char *to, size_t size)
{
    bool killed = instance->code == CLD_EXITED ? instance->status == 128 + SIGKILL
                                               : instance->status == SIGKILL;
    to[0] = '\0';
    if (killed && instance->kills)
        snprintf(to, size, "out of memory (limit %llu MiB): ",
                 (unsigned long long)(instance->limits.memory_bytes >> 20));
    return to;
}

static void explain(struct instance *instance, char *to, size_t size)
{
    char end[64], memory[64];
    const char *line = error_line(instance);
    const char *colon = *line ? ": " : "";
    if (instance->why[0]) {
        snprintf(to, size, "%s", instance->why);
        return;
    }
    if (instance->code == CLD_EXITED)
        snprintf(end, sizeof(end), "exited with %d", instance->status);
    else
        snprintf(end, sizeof(end), "was ended by signal %d", instance->status);
    snprintf(to, size, "%s%s %s%s%s", lack_of_memory(instance, memory, sizeof(memory)),
             instance->ready ? "runtime" : "container did not start: it", end, colon, line);
}

static void tell_kills(void *arg, unsigned kills)
{
    struct instance *instance = arg;
    if (kills <= instance->kills)
        return;
    instance->kills = kills;
    if (instance->events.out_of_memory)
        instance->events.out_of_memory(instance->events.arg, kills);
}

unsigned instance_kills(struct instance *instance)
{
    return cgroup_kills(instance->group);
}

int instance_exit_code(const struct instance *instance)
{
    return instance->code == CLD_EXITED ? instance->status : 128 + instance->status;
}

/* The child is PID 1 of the enclosing pid namespace, so its end is reported when nothing of the
 * container runs any more; then the socket is at its end too, and what the runtime said last has
 * been read. */
static void finish(struct instance *instance)
{
    if (!instance->ended || !instance->lost)
        return;
    char why[WHY_MAX + ERROR_TEXT_MAX];
    read_errors(instance, 0);
    tell_kills(instance, instance_kills(instance));
    explain(instance, why, sizeof(why));
    if (instance->events.gone)
        instance->events.gone(instance->events.arg, why);
    instance_free(instance);
}

static void end_tree(struct instance *instance, const char *why)
{
    if (instance->ended)
        return;
    if (!instance->why[0])
        snprintf(instance->why, sizeof(instance->why), "%s", why);
    network_helper_stop(steal_pointer(&instance->helper));
    kill(instance->child.pid, SIGKILL);
}

void instance_kill(struct instance *instance)
{
    end_tree(instance, "killed");
}

static void child_ended(void *arg, int code, int status)
{
    struct instance *instance = arg;
    instance->ended = true;
    instance->code = code;
    instance->status = status;
    network_helper_stop(steal_pointer(&instance->helper));
    finish(instance);
}

static void timer_fired(void *arg)
{
    struct instance *instance = arg;
    char why[WHY_MAX];
    if (instance->lost) {
        end_tree(instance, AGENT_CLOSED);
        return;
    }
    read_errors(instance, 0);
    const char *line = error_line(instance);
    snprintf(why, sizeof(why), "Container startup timeout: no answer within %d s%s%.800s",
             HELLO_MS / 1000, *line ? ": " : "", line);
    end_tree(instance, why);
}

/* --- The life of an instance ------------------------------------------------------------------ */

static void network_state(void *arg, enum network_state state, const char *why)
{
    struct instance *instance = arg;
    if (state == NETWORK_FAILED)
        instance->helper = NULL;
    if (instance->events.network && !instance->lost)
        instance->events.network(instance->events.arg, state, why);
}

/* Its start overlaps with that of the first shell. */
static void start_network(struct instance *instance)
{
    struct driver *driver = instance->driver;
    if (instance->network == NETWORK_NONE || instance->why[0])
        return;
    char **program = &driver->networks[instance->network];
    if (!*program)
        *program = network_program(instance->network, getenv("PATH"));
    struct error err = {0};
    struct network_helper_start start = {.network = instance->network,
                                         .program = *program,
                                         .owner = driver->starter.owner,
                                         .null = driver->starter.null,
                                         .all = &driver->helpers};
    struct network_helper_events events = {network_state, instance};
    if (!*program)
        error_set(&err, ENOENT, "%s is not installed", network_name(instance->network));
    else
        instance->helper =
            network_helper_start(driver->loop, instance->agent, &start, events, &err);
    if (!instance->helper)
        network_state(instance, NETWORK_FAILED, err.text);
}

static void agent_hello(void *arg)
{
    struct instance *instance = arg;
    loop_disarm(instance->driver->loop, &instance->timer);
    cgroup_limit_cpu(instance->group, &instance->limits);
    instance->ready = true;
    start_network(instance);
    if (instance->events.ready && !instance->why[0])
        instance->events.ready(instance->events.arg, instance->agent);
}

static void agent_exited(void *arg, int pid, const struct rt_exit *how)
{
    struct instance *instance = arg;
    if (instance->events.exited)
        instance->events.exited(instance->events.arg, pid, how);
}

/* Normally PID 1 has ended and its tree follows at once; a runtime that broke the protocol or only
 * closed its socket is ended by us. */
static void agent_lost(void *arg, const char *why)
{
    struct instance *instance = arg;
    instance->lost = true;
    if (strcmp(why, AGENT_CLOSED) != 0)
        end_tree(instance, why);
    if (!instance->ended)
        loop_arm(instance->driver->loop, &instance->timer, MS_NS(GRACE_MS));
    finish(instance);
}

static int clone_chain(struct instance *instance, const struct instance_spec *spec, int socket,
                       int errors, struct error *err)
{
    struct driver *driver = instance->driver;
    struct instance_limits beyond = cgroups_beyond(driver->groups, spec->limits);
    int groups[CGROUP_TREES];
    struct start start = {.hostname = spec->hostname,
                          .resolv = network_resolv(spec->network),
                          .python = spec->python,
                          .upper_bytes = spec->upper_bytes,
                          .socket = socket,
                          .errors = errors,
                          .groups = groups,
                          .group_count = cgroup_entries(instance->group, groups),
                          .memory_bytes = beyond.memory_bytes,
                          .pids = beyond.pids};
    int pid = starter_start(&driver->starter, &start, err);
    cgroup_entered(instance->group);
    return pid;
}

static void widen_socket(int fd)
{
    int size = SOCKET_BUFFER;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

/* Watches everything and then clones, so that a failure needs no unwinding of a process. */
static int launch(struct instance *instance, const struct instance_spec *spec, struct error *err)
{
    struct loop *loop = instance->driver->loop;
    int pair[2], pipe[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return error_errno(err, errno, "socket to the runtime");
    CLEANUP_FD int socket = pair[1];
    widen_socket(pair[0]);
    widen_socket(pair[1]);
    struct agent_events events = {agent_hello, agent_exited, agent_lost, instance};
    instance->agent = agent_new(loop, pair[0], events);
    if (!instance->agent)
        return error_errno(err, ENOMEM, "agent");
    if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int errors = pipe[1];
    int error = loop_watch(loop, &instance->errors, pipe[0], EPOLLIN);
    if (error) {
        close(pipe[0]);
        return error_errno(err, -error, "watch standard error");
    }
    error = loop_arm(loop, &instance->timer, MS_NS(HELLO_MS));
    if (error)
        return error_errno(err, -error, "start timeout");
    instance->limits = spec->limits;
    instance->group = cgroup_new(instance->driver->groups, &spec->limits, err);
    if (!instance->group)
        return error_wrap(err, "limits");
    cgroup_on_kill(instance->group, tell_kills, instance);
    int pid = clone_chain(instance, spec, socket, errors, err);
    if (pid < 0)
        return pid;
    error = loop_child(loop, &instance->child, pid, err);
    if (error) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return error;
}

struct instance *driver_start(struct driver *driver, const struct instance_spec *spec,
                              struct instance_events events, struct error *err)
{
    struct instance *instance = calloc(1, sizeof(*instance));
    if (!instance) {
        error_errno(err, ENOMEM, "start container");
        return NULL;
    }
    instance->driver = driver;
    instance->events = events;
    instance->network = spec->network;
    instance->timer = (struct timer){.fire = timer_fired, .arg = instance};
    instance->errors = (struct watch){.ready = read_errors, .arg = instance, .fd = -1};
    instance->child = (struct child){.ended = child_ended, .arg = instance, .pidfd = -1};
    instance->next = driver->instances;
    instance->link = &driver->instances;
    if (instance->next)
        instance->next->link = &instance->next;
    driver->instances = instance;
    if (launch(instance, spec, err) < 0) {
        error_wrap(err, "start container");
        instance_free(instance);
        return NULL;
    }
    return instance;
}

/* Containers that still run are ended without a callback, and waited for: a few milliseconds, after
 * which nothing of them is left. */
void driver_free(struct driver *driver)
{
    if (!driver)
        return;
    while (driver->instances) {
        struct instance *instance = driver->instances;
        instance->events = (struct instance_events){0};
        if (!instance->ended) {
            int pid = instance->child.pid;
            kill(pid, SIGKILL);
            loop_child_forget(&instance->child);
            waitpid(pid, NULL, 0);
        }
        instance->lost = true;
        instance_free(instance);
    }
    network_helpers_free(&driver->helpers);
    cgroups_free(driver->groups);
    starter_close(&driver->starter);
    for (size_t i = 0; i < sizeof(driver->networks) / sizeof(driver->networks[0]); i++)
        free(driver->networks[i]);
    free(driver);
}
