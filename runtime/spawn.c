#include "runtime/runtime.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    TARGET_MAX = 63, /* the highest descriptor a slot may name */
    TABLE_MAX = RT_SLOTS_MAX + 3, /* a pty takes 0, 1 and 2 */
};

/* Everything a child needs is made ready here before vfork: it borrows our memory until exec, so it
 * only makes system calls and leaves its errno in `error`. */
struct plan {
    struct rt_spawn how;
    const char *cwd;
    char **argv, **env; /* one allocation */
    struct {
        int source, target;
        bool owned; /* source is ours to close */
    } table[TABLE_MAX];
    size_t table_count;
    volatile int error;
};

/* Opened before the sandbox could put something else in its place. */
static int null_fd = -1;

void spawn_init(void)
{
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
}

static void plan_free(struct plan *plan)
{
    free(plan->argv);
    for (size_t i = 0; i < plan->table_count; i++)
        if (plan->table[i].owned)
            close(plan->table[i].source);
}

static void plan_give(struct plan *plan, int source, int target, bool owned)
{
    plan->table[plan->table_count].source = source;
    plan->table[plan->table_count].target = target;
    plan->table[plan->table_count].owned = owned;
    plan->table_count++;
}

static bool slots_make_sense(const struct rt_spawn *how)
{
    int lowest = how->flags & RT_SPAWN_PTY ? 3 : 0;
    uint64_t taken = 0;

    if (how->slot_count > RT_SLOTS_MAX)
        return false;
    for (uint32_t i = 0; i < how->slot_count; i++) {
        const struct rt_slot *slot = &how->slots[i];

        if (slot->fd < lowest || slot->fd > TARGET_MAX || (taken & UINT64_C(1) << slot->fd))
            return false;
        if (slot->kind < RT_SLOT_NULL || slot->kind > RT_SLOT_MEMFD)
            return false;
        taken |= UINT64_C(1) << slot->fd;
    }
    return true;
}

static int plan_parse(struct plan *plan, const struct request *request)
{
    const uint32_t flags = RT_SPAWN_GROUP | RT_SPAWN_SESSION | RT_SPAWN_PTY | RT_SPAWN_HOME;
    struct reader in = reader_of(request);
    struct rt_spawn *how = &plan->how;

    if (!reader_take(&in, how, sizeof *how) || (how->flags & ~flags) || how->argc == 0 ||
        !slots_make_sense(how))
        return -EBADMSG;
    plan->cwd = reader_string(&in);
    if (!plan->cwd)
        return -EBADMSG;
    plan->argv = calloc((size_t)how->argc + how->envc + 2, sizeof *plan->argv);
    if (!plan->argv)
        return -ENOMEM;
    plan->env = plan->argv + how->argc + 1;
    for (int i = 0; i < how->argc; i++)
        if (!(plan->argv[i] = reader_string(&in)))
            return -EBADMSG;
    for (int i = 0; i < how->envc; i++)
        if (!(plan->env[i] = reader_string(&in)))
            return -EBADMSG;
    return in.left ? -EBADMSG : 0;
}

/* Only the emulator's end is non-blocking: the two ends of a pipe are separate open files. */
static int open_pipe(struct plan *plan, const struct rt_slot *slot, struct answer *answer)
{
    int ours = slot->kind == RT_SLOT_IN; /* which of the two the emulator gets */
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    fcntl(ends[ours], F_SETFL, O_NONBLOCK);
    answer_fd(answer, ends[ours]);
    plan_give(plan, ends[!ours], slot->fd, true);
    return 0;
}

static int open_slot(struct plan *plan, const struct rt_slot *slot, struct answer *answer)
{
    int fd;

    switch (slot->kind) {
    case RT_SLOT_NULL:
        if (null_fd < 0)
            return -ENOENT;
        plan_give(plan, null_fd, slot->fd, false);
        return 0;
    case RT_SLOT_IN:
    case RT_SLOT_OUT:
        return open_pipe(plan, slot, answer);
    default:
        fd = memfd_create("sandpit", MFD_CLOEXEC);
        if (fd < 0)
            return -errno;
        answer_fd(answer, fd);
        plan_give(plan, fd, slot->fd, false);
        return 0;
    }
}

/* The peer comes from the master itself, so no path of the sandbox is trusted for it. */
static int open_pty(struct plan *plan, struct answer *answer)
{
    const struct rt_spawn *how = &plan->how;
    struct winsize size = {
        .ws_row = how->rows ? how->rows : 24,
        .ws_col = how->columns ? how->columns : 80,
    };
    CLEANUP_FD int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    int unlock = 0;
    int peer;

    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (peer < 0)
        return -errno;
    for (int target = 0; target < 3; target++)
        plan_give(plan, peer, target, target == 0);
    if (ioctl(peer, TIOCSWINSZ, &size) < 0)
        return -errno;
    if (how->uid != geteuid() && fchown(peer, how->uid, how->gid) < 0)
        return -errno;
    answer_fd(answer, master);
    master = -1;
    return 0;
}

static int plan_open(struct plan *plan, struct answer *answer)
{
    int error = 0;

    if (plan->how.flags & RT_SPAWN_PTY)
        error = open_pty(plan, answer);
    for (uint32_t i = 0; i < plan->how.slot_count && !error; i++)
        error = open_slot(plan, &plan->how.slots[i], answer);
    return error;
}

/* A target may be the number of a source still to be placed, so all sources first move above every
 * target. Whatever is in no slot is closed. */
static int place_descriptors(const struct plan *plan)
{
    int moved[TABLE_MAX], above = 0;
    uint64_t taken = 0;
    unsigned from = 0;

    for (size_t i = 0; i < plan->table_count; i++) {
        if ((int)plan->table[i].target >= above)
            above = (int)plan->table[i].target + 1;
    }
    for (size_t i = 0; i < plan->table_count; i++) {
        moved[i] = fcntl(plan->table[i].source, F_DUPFD_CLOEXEC, above);
        if (moved[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i < plan->table_count; i++) {
        if (dup2(moved[i], plan->table[i].target) < 0)
            return -errno;
        taken |= UINT64_C(1) << plan->table[i].target;
    }
    for (unsigned fd = 0; fd <= TARGET_MAX; fd++) {
        if (!(taken & UINT64_C(1) << fd))
            continue;
        if (fd > from)
            close_range(from, fd - 1, 0);
        from = fd + 1;
    }
    close_range(from, ~0U, 0);
    return 0;
}

static int join_session(const struct plan *plan)
{
    uint32_t flags = plan->how.flags;

    if (flags & (RT_SPAWN_SESSION | RT_SPAWN_PTY)) {
        if (setsid() < 0)
            return -errno;
    } else if ((flags & RT_SPAWN_GROUP) && setpgid(0, 0) < 0) {
        return -errno;
    }
    if ((flags & RT_SPAWN_PTY) && ioctl(0, TIOCSCTTY, 0) < 0)
        return -errno;
    return 0;
}

/* By bare system calls: libc's own would keep the ids of all threads in step, and there are none.
 */
static int switch_user(const struct plan *plan)
{
    uint32_t uid = plan->how.uid;
    uint32_t gid = plan->how.gid;

    if (uid == geteuid() && gid == getegid())
        return 0;
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
        syscall(SYS_setresuid, uid, uid, uid) < 0)
        return -errno;
    return 0;
}

static const char *variable(char *const *env, const char *name)
{
    size_t size = strlen(name);

    for (; *env; env++)
        if (strncmp(*env, name, size) == 0 && (*env)[size] == '=')
            return *env + size + 1;
    return NULL;
}

static int enter_directory(const struct plan *plan)
{
    const char *home = variable(plan->env, "HOME");
    int error;

    if (plan->cwd[0] == '/' || chdir(RT_DEFAULT_DIR) == 0) {
        if (!plan->cwd[0] || chdir(plan->cwd) == 0)
            return 0;
    }
    error = -errno;
    if (!(plan->how.flags & RT_SPAWN_HOME))
        return error;
    if ((home && chdir(home) == 0) || chdir("/root") == 0 || chdir("/") == 0)
        return 0;
    return error;
}

/* As a shell looks a command up, with the PATH that the process will have. */
static int execute(const struct plan *plan)
{
    const char *name = plan->argv[0];
    size_t name_size = strlen(name) + 1;
    const char *at = variable(plan->env, "PATH");
    char path[PATH_MAX];
    int error = -ENOENT;

    if (strchr(name, '/')) {
        execve(name, plan->argv, plan->env);
        return -errno;
    }
    if (!at)
        at = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    for (bool more = name[0] != '\0'; more;) {
        size_t size = strcspn(at, ":");
        size_t slash = size > 0;

        if (size + slash + name_size <= sizeof path) {
            memcpy(path, at, size);
            memcpy(path + size, "/", slash);
            memcpy(path + size + slash, name, name_size);
            execve(path, plan->argv, plan->env);
            if (errno == EACCES)
                error = -EACCES;
            else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
                return -errno;
        }
        more = at[size] == ':';
        at += size + more;
    }
    return error;
}

/* When memory runs out, the kernel shall choose what we started before it chooses us. Anybody may
 * raise the number of his own process; that it does not work is no reason not to start. */
static void stand_before_init(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, "500", 3) < 0)
        errno = 0;
    close(fd);
}

static __attribute__((noreturn, noinline)) void become(struct plan *plan)
{
    sigset_t none;
    int error = place_descriptors(plan);

    stand_before_init();
    if (!error)
        error = join_session(plan);
    if (!error)
        error = switch_user(plan);
    if (!error)
        error = enter_directory(plan);
    if (!error) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        error = execute(plan);
    }
    plan->error = error;
    _exit(127);
}

/* vfork returns when the child has replaced itself or failed, so that an answer tells which; and it
 * copies no page tables. */
static int start(struct plan *plan)
{
    pid_t pid = vfork();

    if (pid == 0)
        become(plan);
    if (pid < 0)
        return -errno;
    if (plan->error) {
        waitpid(pid, NULL, 0);
        return plan->error;
    }
    reap_spawned(pid);
    return pid;
}

int spawn_request(const struct request *request, struct answer *answer)
{
    struct plan plan = {0};
    int result = plan_parse(&plan, request);

    if (!result)
        result = plan_open(&plan, answer);
    if (!result)
        result = reap_reserve();
    if (!result)
        result = start(&plan);
    plan_free(&plan);
    return result;
}
