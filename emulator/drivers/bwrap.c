#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "drivers/chain.h"
#include "drivers/driver.h"
#include "drivers/profile.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

enum {
    HELLO_MS = 30000,
    /* From the end of the socket to the end of the tree, which ends by itself when PID 1 does. */
    GRACE_MS = 1000,
    ERROR_TEXT_MAX = 4096,
    WHY_MAX = 1024,
    HOSTNAME_BYTES = 63,
    /* Room for one message and the kernel's own accounting. */
    SOCKET_BUFFER = 2 * RT_MESSAGE_MAX,
};

struct driver {
    struct loop *loop;
    struct profile profile;
    char *run_dir, *root, *program;
    int null, owner;
    struct instance *instances;
};

struct instance {
    struct driver *driver;
    struct instance *next, **link;
    struct instance_events events;
    struct agent *agent;
    struct child child;
    struct timer timer;
    struct watch errors;
    char error_text[ERROR_TEXT_MAX];
    size_t error_size;
    char why[WHY_MAX]; /* empty until something decides the end */
    bool ready, ended, lost;
    int code, status; /* of the child, when ended */
};

extern const unsigned char runtime_blob_start[], runtime_blob_end[];

/* The runtime in a sealed memfd, once for the process: no container can change what the next one
 * is started from. Opened for reading only. */
static int runtime_memfd(struct error *err)
{
    static int shared = -1;
    if (shared >= 0)
        return shared;
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    CLEANUP_FD int fd = memfd_create("sandpit-runtime", flags | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before 6.3 every memfd can be executed */
        fd = memfd_create("sandpit-runtime", flags);
    if (fd < 0)
        return error_errno(err, errno, "memfd for the runtime");
    for (const unsigned char *at = runtime_blob_start; at < runtime_blob_end;) {
        ssize_t size = write(fd, at, (size_t)(runtime_blob_end - at));
        if (size < 0)
            return error_errno(err, errno, "copy the runtime");
        at += size;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, errno, "seal the runtime");
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    shared = open(path, O_RDONLY | O_CLOEXEC);
    return shared >= 0 ? shared : error_errno(err, errno, "open the runtime");
}

/* --- The driver ------------------------------------------------------------------------------- */

static char *find_program(const char *name, const char *fallback)
{
    char path[PATH_MAX];
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t size = strcspn(at, ":");
        int length = snprintf(path, sizeof(path), "%.*s/%s", (int)size, at, name);
        if (*at == '/' && length < (int)sizeof(path) && access(path, X_OK) == 0)
            return strdup(path);
        at += size + (at[size] == ':');
    }
    return access(fallback, X_OK) == 0 ? strdup(fallback) : NULL;
}

static int prepare(struct driver *driver, const char *run_dir, struct error *err)
{
    if (geteuid() != 0)
        return error_set(err, EPERM,
                         "this version needs root for bubblewrap containers, whose "
                         "files are an overlay of this host: run it as root");
    driver->program = find_program("bwrap", "/usr/bin/bwrap");
    if (!driver->program)
        return error_set(err, ENOENT,
                         "bubblewrap (bwrap) is not installed: install it, on Debian "
                         "and Ubuntu with 'apt install bubblewrap'");
    driver->run_dir = realpath(run_dir, NULL);
    if (!driver->run_dir)
        return error_errno(err, errno, "run directory '%s'", run_dir);
    if (asprintf(&driver->root, "%s/mnt/" CHAIN_ROOT, driver->run_dir) < 0) {
        driver->root = NULL;
        return error_errno(err, ENOMEM, "driver");
    }
    char mnt[PATH_MAX];
    snprintf(mnt, sizeof(mnt), "%s/mnt", driver->run_dir);
    if (mkdir(mnt, 0700) < 0 && errno != EEXIST)
        return error_errno(err, errno, "make '%s'", mnt);
    driver->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    driver->owner = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (driver->null < 0 || driver->owner < 0)
        return error_errno(err, errno, "driver");
    int runtime = runtime_memfd(err);
    return runtime < 0 ? runtime : profile_build(&driver->profile, driver->run_dir, err);
}

struct driver *driver_bwrap_new(struct loop *loop, const char *run_dir, struct error *err)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    if (!driver) {
        error_errno(err, ENOMEM, "driver");
        return NULL;
    }
    driver->loop = loop;
    driver->null = driver->owner = -1;
    if (prepare(driver, run_dir, err) < 0) {
        error_wrap(err, "bubblewrap driver");
        driver_free(driver);
        return NULL;
    }
    return driver;
}

const char *driver_missing_tools(const struct driver *driver)
{
    return driver->profile.missing;
}

const char *const *driver_environment(const struct driver *driver)
{
    return (const char *const *)driver->profile.env;
}

/* --- The end of an instance ------------------------------------------------------------------- */

static void instance_free(struct instance *instance)
{
    loop_disarm(instance->driver->loop, &instance->timer);
    int errors = instance->errors.fd;
    loop_unwatch(instance->driver->loop, &instance->errors);
    if (errors >= 0)
        close(errors);
    agent_free(instance->agent);
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

static void explain(struct instance *instance, char *to, size_t size)
{
    char end[64];
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
    snprintf(to, size, "%s %s%s%s", instance->ready ? "runtime" : "container did not start: it",
             end, colon, line);
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

static void agent_hello(void *arg)
{
    struct instance *instance = arg;
    loop_disarm(instance->driver->loop, &instance->timer);
    instance->ready = true;
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

static void clean_hostname(char *to, const char *from)
{
    size_t size = 0;
    for (; from && *from && size < HOSTNAME_BYTES; from++) {
        char c = *from >= 'A' && *from <= 'Z' ? (char)(*from - 'A' + 'a') : *from;
        bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && size > 0);
        if (fine)
            to[size++] = c;
    }
    while (size > 0 && to[size - 1] == '-')
        size--;
    to[size] = '\0';
    if (size == 0)
        snprintf(to, HOSTNAME_BYTES + 1, "sandbox");
}

/* Docker's default capabilities: enough for package managers and servers, none that reaches the
 * host or lets a process look into PID 1. */
#define CAPABILITY(name) "--cap-add", "CAP_" name

/* bubblewrap's arguments after the root and the host name, which differ. */
static const char *const fixed_arguments[] = {
    /* clang-format off */
    "--dev", "/dev",
    "--proc", "/proc",
    /* Root may write the kernel's settings without any capability. */
    "--ro-bind", "/proc/sys", "/proc/sys",
    "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
    "--die-with-parent", "--as-pid-1",
    "--cap-drop", "ALL",
    CAPABILITY("CHOWN"), CAPABILITY("DAC_OVERRIDE"), CAPABILITY("FSETID"), CAPABILITY("FOWNER"),
    CAPABILITY("MKNOD"), CAPABILITY("NET_RAW"), CAPABILITY("SETGID"), CAPABILITY("SETUID"),
    CAPABILITY("SETFCAP"), CAPABILITY("SETPCAP"), CAPABILITY("NET_BIND_SERVICE"),
    CAPABILITY("SYS_CHROOT"), CAPABILITY("KILL"), CAPABILITY("AUDIT_WRITE"),
    "--chdir", "/",
    "--", "/proc/self/fd/4", NULL,
    /* clang-format on */
};
_Static_assert(CHAIN_RUNTIME_FD == 4, "the last argument");

static int clone_chain(struct driver *driver, const struct instance_spec *spec, int socket,
                       int errors, struct error *err)
{
    char hostname[HOSTNAME_BYTES + 1], hostname_line[HOSTNAME_BYTES + 2], hosts[256], tmpfs[64];
    clean_hostname(hostname, spec->hostname);
    snprintf(hostname_line, sizeof(hostname_line), "%s\n", hostname);
    snprintf(hosts, sizeof(hosts),
             "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t%s\n",
             hostname);
    snprintf(tmpfs, sizeof(tmpfs), "mode=755,size=%llu", (unsigned long long)spec->upper_bytes);
    const char *argv[6 + sizeof(fixed_arguments) / sizeof(fixed_arguments[0])] = {
        "bwrap", "--bind", driver->root, "/", "--hostname", hostname};
    memcpy(argv + 6, fixed_arguments, sizeof(fixed_arguments));
    const struct chain_file files[] = {{CHAIN_UPPER "/etc/hostname", hostname_line},
                                       {CHAIN_UPPER "/etc/hosts", hosts}};
    struct chain chain = {.run_dir = driver->run_dir,
                          .tmpfs = tmpfs,
                          .steps = driver->profile.steps,
                          .step_count = driver->profile.step_count,
                          .when = spec->python ? CHAIN_PYTHON : CHAIN_LEAN,
                          .files = files,
                          .file_count = sizeof(files) / sizeof(files[0]),
                          .program = driver->program,
                          .argv = (char *const *)argv,
                          .env = driver->profile.env,
                          .null = driver->null,
                          .errors = errors,
                          .socket = socket,
                          .runtime = runtime_memfd(err),
                          .owner = driver->owner};
    return chain_clone(&chain, err);
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
    int pid = clone_chain(instance->driver, spec, socket, errors, err);
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
    profile_free(&driver->profile);
    cleanup_fd(&driver->null);
    cleanup_fd(&driver->owner);
    free(driver->run_dir);
    free(driver->root);
    free(driver->program);
    free(driver);
}
