#include "drivers/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "drivers/chain.h"
#include "drivers/seccomp.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

enum { TRY_MS = 10000, TRY_BYTES = 16 * 1024 * 1024, HOSTNAME_BYTES = 63 };

const struct starter starter_closed = {
    .null = -1, .owner = -1, .runtime = -1, .filter = -1, .userns = {.outer = -1}};

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

/* --- A start ---------------------------------------------------------------------------------- */

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

/* bubblewrap reads the filter to its end, so each start needs an open file of its own. */
static int open_again(int fd, struct error *err)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    return again >= 0 ? again : error_errno(err, errno, "open the system call filter");
}

int starter_start(const struct starter *starter, const struct start *start, struct error *err)
{
    char hostname[HOSTNAME_BYTES + 1], line[HOSTNAME_BYTES + 2], hosts[256], tmpfs[64];
    clean_hostname(hostname, start->hostname);
    snprintf(line, sizeof(line), "%s\n", hostname);
    snprintf(hosts, sizeof(hosts),
             "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t%s\n",
             hostname);
    snprintf(tmpfs, sizeof(tmpfs), "mode=755,size=%llu", (unsigned long long)start->upper_bytes);
    /* The first keeps the devices of a /dev that is there already. */
    const char *bind = starter->userns.kind == USERNS_MAPPED ? "--dev-bind" : "--bind";
    const char *argv[6 + STARTER_ARGUMENTS] = {"bwrap", bind,         "/" CHAIN_ROOT,
                                               "/",     "--hostname", hostname};
    memcpy(argv + 6, starter->arguments, sizeof(starter->arguments));
    const struct chain_file files[] = {
        {"hostname", line}, {"hosts", hosts}, {"resolv.conf", start->resolv}};
    CLEANUP_FD int filter = open_again(starter->filter, err);
    if (filter < 0)
        return filter;
    struct chain chain = {.userns = &starter->userns,
                          .overlays = starter->overlays,
                          .run_dir = starter->run_dir,
                          .tmpfs = tmpfs,
                          .steps = starter->profile.steps,
                          .step_count = starter->profile.step_count,
                          .when = start->python ? CHAIN_PYTHON : CHAIN_LEAN,
                          .files = files,
                          .file_count = sizeof(files) / sizeof(files[0]),
                          .program = starter->program,
                          .argv = (char *const *)argv,
                          .env = starter->profile.env,
                          .null = starter->null,
                          .errors = start->errors,
                          .socket = start->socket,
                          .runtime = starter->runtime,
                          .filter = filter,
                          .owner = starter->owner,
                          .groups = start->groups,
                          .group_count = start->group_count,
                          .memory_bytes = start->memory_bytes,
                          .pids = start->pids};
    return chain_clone(&chain, err);
}

/* --- The boundary ----------------------------------------------------------------------------- */

/* From the best to the least. */
struct boundary {
    enum userns_kind kind;
    bool overlays;
};
static const struct boundary of_root[] = {{USERNS_MAPPED, true}, {USERNS_NONE, true}};
static const struct boundary of_user[] = {
    {USERNS_FULL, true}, {USERNS_SINGLE, true}, {USERNS_FULL, false}, {USERNS_SINGLE, false}};

static void read_line(int fd, char *text, size_t size)
{
    ssize_t got = read(fd, text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* Waits for the end of a child; what went wrong is the first line of its output. */
static int await_end(int pid, int errors, struct error *err)
{
    char text[256];
    int status = 0;
    CLEANUP_FD int ended = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poller = {.fd = ended, .events = POLLIN};
    bool late = ended < 0 || poll(&poller, 1, TRY_MS) <= 0;
    if (late)
        kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (late)
        return error_set(err, ETIMEDOUT, "no end within %d s", TRY_MS / 1000);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    read_line(errors, text, sizeof(text));
    return error_set(err, EPERM, "%s", *text ? text : "it ended without a word");
}

/* One whole start. The runtime ends by itself because its socket has no other end. */
static int try_start(const struct starter *starter, struct error *err)
{
    int pair[2], lines[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, errno, "socket");
    close(pair[0]);
    CLEANUP_FD int socket = pair[1];
    if (pipe2(lines, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int reading = lines[0];
    CLEANUP_FD int writing = lines[1];
    struct start start = {.hostname = "try",
                          .resolv = "",
                          .python = true,
                          .upper_bytes = TRY_BYTES,
                          .socket = socket,
                          .errors = writing};
    int pid = starter_start(starter, &start, err);
    return pid < 0 ? pid : await_end(pid, reading, err);
}

static int fit_profile(struct starter *starter, struct error *err)
{
    profile_free(&starter->profile);
    int error = profile_build(&starter->profile, starter->run_dir, err);
    if (error)
        return error;
    if (geteuid() == 0)
        error = profile_give_etc(starter->run_dir, starter->userns.base);
    else if (starter->overlays)
        error = profile_open_usr(&starter->profile);
    else
        error = profile_copy_etc(&starter->profile, starter->run_dir);
    return error ? error_errno(err, -error, "host profile") : 0;
}

static int try_boundary(struct starter *starter, const struct boundary *boundary, struct error *err)
{
    userns_close(&starter->userns);
    cleanup_fd(&starter->filter);
    starter->overlays = boundary->overlays;
    starter_arguments(starter->arguments, boundary->kind != USERNS_MAPPED);
    starter->filter = seccomp_filter(boundary->kind == USERNS_NONE, err);
    if (starter->filter < 0)
        return starter->filter;
    int error = userns_open(&starter->userns, boundary->kind, err);
    if (!error)
        error = fit_profile(starter, err);
    return error ? error : try_start(starter, err);
}

/* For tests: what runs where the kernel forbids the better ones. */
static bool skipped(const struct boundary *boundary)
{
    return (boundary->kind == USERNS_MAPPED && getenv("SANDPIT_NO_IDMAP")) ||
           (boundary->kind == USERNS_FULL && getenv("SANDPIT_NO_SUBIDS")) ||
           (boundary->overlays && geteuid() != 0 && getenv("SANDPIT_NO_OVERLAY"));
}

static int say(char **to, const char *text, const char *detail)
{
    if (asprintf(to, "%s%s", text, detail) < 0) {
        *to = NULL;
        return -ENOMEM;
    }
    return 0;
}

static int explain(struct starter *starter, const struct error *first)
{
    if (starter->userns.kind == USERNS_NONE)
        return say(&starter->warning,
                   "root in a sandbox is root of this host, held only by capabilities and a system "
                   "call filter; run only what you trust. Why: ",
                   first->text);
    if (geteuid() == 0)
        return 0;
    return say(&starter->limited,
               starter->overlays
                   ? "not root: files of this host cannot be changed in sandboxes, no dpkg"
                   : "not root and no overlays: /usr is read-only in sandboxes, lean images have "
                     "Python, no dpkg",
               starter->userns.kind == USERNS_FULL ? " (docs/rootless.md)"
                                                   : ", one user id (docs/rootless.md)");
}

static int choose(struct starter *starter, struct error *err)
{
    bool root = geteuid() == 0;
    const struct boundary *list = root ? of_root : of_user;
    size_t count = (root ? sizeof(of_root) : sizeof(of_user)) / sizeof(*list);
    struct error first = {.text = "switched off"}, last = {0};
    for (size_t i = 0; i < count; i++) {
        if (skipped(&list[i]))
            continue;
        last = (struct error){0};
        if (try_boundary(starter, &list[i], &last) == 0)
            return explain(starter, &first) < 0 ? error_errno(err, ENOMEM, "driver") : 0;
        if (!first.code)
            first = last;
    }
    return error_set(err, last.code ? last.code : EPERM, "no container can be started: %s%s",
                     last.text,
                     root ? "" : " (are user namespaces allowed here? 'sandpit doctor' tells)");
}

/* --- For the process -------------------------------------------------------------------------- */

/* bubblewrap and its libraries must be in the trees that the chain shows it. */
static bool is_system(const char *path)
{
    return strncmp(path, "/usr/", 5) == 0 || strncmp(path, "/bin/", 5) == 0;
}

static char *find_bwrap(void)
{
    char path[PATH_MAX], real[PATH_MAX];
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t size = strcspn(at, ":");
        int length = snprintf(path, sizeof(path), "%.*s/bwrap", (int)size, at);
        if (*at == '/' && length < (int)sizeof(path) && access(path, X_OK) == 0 &&
            realpath(path, real) && is_system(real))
            return strdup(real);
        at += size + (at[size] == ':');
    }
    return access("/usr/bin/bwrap", X_OK) == 0 ? strdup("/usr/bin/bwrap") : NULL;
}

static int prepare(struct starter *starter, const char *run_dir, struct error *err)
{
    starter->program = find_bwrap();
    if (!starter->program)
        return error_set(err, ENOENT,
                         "bubblewrap (bwrap) is not installed: install it, on Debian "
                         "and Ubuntu with 'apt install bubblewrap'");
    starter->run_dir = realpath(run_dir, NULL);
    if (!starter->run_dir)
        return error_errno(err, errno, "run directory '%s'", run_dir);
    char mnt[PATH_MAX];
    snprintf(mnt, sizeof(mnt), "%s/mnt", starter->run_dir);
    if (mkdir(mnt, 0700) < 0 && errno != EEXIST)
        return error_errno(err, errno, "make '%s'", mnt);
    starter->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    starter->owner = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (starter->null < 0 || starter->owner < 0)
        return error_errno(err, errno, "driver");
    starter->runtime = runtime_memfd(err);
    return starter->runtime < 0 ? starter->runtime : 0;
}

int starter_open(struct starter *starter, const char *run_dir, struct error *err)
{
    *starter = starter_closed;
    int error = prepare(starter, run_dir, err);
    return error ? error : choose(starter, err);
}

void starter_close(struct starter *starter)
{
    profile_free(&starter->profile);
    userns_close(&starter->userns);
    cleanup_fd(&starter->null);
    cleanup_fd(&starter->owner);
    cleanup_fd(&starter->filter);
    free(starter->run_dir);
    free(starter->program);
    free(starter->warning);
    free(starter->limited);
    *starter = starter_closed;
}
