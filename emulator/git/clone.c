#include "git/clone.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"

enum {
    LINE_MAX_BYTES = 256 * 1024,
    FAILED = 127,
    FIRST_FREE_FD = 16,
    /* For the helper to end its children and itself: some milliseconds. */
    GONE_MS = 2000,
};

/* Where the helper finds its descriptors: request, lines, errors, the container's mounts. */
enum { SLOT_REQUEST, SLOT_LINES, SLOT_ERRORS, SLOT_MOUNTS, SLOTS };

struct git_clone {
    struct loop *loop;
    struct git_clone_events events;
    struct child child;
    struct watch lines;
    struct buf text;
    char scratch[PATH_MAX];
    char why[200]; /* empty while it was not killed */
    bool ended;
};

/* --- The process ------------------------------------------------------------------------------ */

/* The request goes through a file: URLs may carry passwords, and command lines are public. */
static int request_file(const json_t *request, struct error *err)
{
    CLEANUP_FREE char *text = json_dumps(request, JSON_COMPACT);
    CLEANUP_FD int fd = memfd_create("sandpit-git-request", MFD_CLOEXEC);
    if (!text || fd < 0)
        return error_errno(err, text ? errno : ENOMEM, "request");
    size_t size = strlen(text);
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(fd, text + done, size - done);
        if (wrote < 0)
            return error_errno(err, errno, "request");
        done += (size_t)wrote;
    }
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, errno, "request");
    return steal_fd(&fd);
}

/* Variables that the helper gets when this process has them. */
static const char *const passed[] = {"http_proxy",   "https_proxy", "HTTPS_PROXY", "all_proxy",
                                     "ALL_PROXY",    "no_proxy",    "NO_PROXY",    "SSL_CERT_FILE",
                                     "SSL_CERT_DIR", "HOME",        "ASAN_OPTIONS"};
enum { PASSED = sizeof passed / sizeof *passed };

static void free_environment(char **env)
{
    for (size_t i = 0; env[i]; i++)
        free(env[i]);
    free(env);
}

static char **environment(bool ssh_agent)
{
    char **env = calloc(PASSED + 4, sizeof *env);
    size_t count = 0;
    if (!env)
        return NULL;
    env[count++] = strdup("PATH=/usr/bin:/bin");
    env[count++] = strdup("LC_ALL=C");
    for (size_t i = 0; i <= PASSED; i++) {
        const char *name = i < PASSED ? passed[i] : "SSH_AUTH_SOCK";
        const char *value = i < PASSED || ssh_agent ? getenv(name) : NULL;
        if (value && asprintf(&env[count], "%s=%s", name, value) >= 0)
            count++;
    }
    env[count] = NULL;
    return env;
}

__attribute__((noreturn)) static void become_helper(const char *program, char *const env[],
                                                    const int wanted[SLOTS], pid_t parent)
{
    char *const argv[] = {"sandpit-git", NULL};
    struct sigaction usual = {.sa_handler = SIG_DFL};
    int high[SLOTS];
    sigset_t none;
    setsid();
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < SLOTS; i++) {
        high[i] = wanted[i] < 0 ? -1 : fcntl(wanted[i], F_DUPFD, FIRST_FREE_FD);
        if (wanted[i] >= 0 && high[i] < 0)
            _exit(FAILED);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (high[i] >= 0)
            dup2(high[i], i);
        else
            close(i);
    }
    syscall(SYS_close_range, SLOTS, ~0U, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* it ends its children and waits for them */
    if (getppid() == parent)
        execve(program, argv, env);
    _exit(FAILED);
}

/* Returns the pid; *lines is the end to read. */
static int launch(const struct git_settings *settings, const json_t *request, int mounts,
                  int *lines, struct error *err)
{
    int pair[2];
    CLEANUP_FD int file = request_file(request, err);
    if (file < 0)
        return file;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, errno, "pipe");
    CLEANUP_FD int reading = pair[0], writing = pair[1];
    char **env = environment(settings->ssh_agent);
    if (!env)
        return error_errno(err, ENOMEM, "environment");
    const int wanted[SLOTS] = {file, writing, STDERR_FILENO, mounts};
    pid_t parent = getpid();
    int pid = fork();
    if (pid == 0)
        become_helper(settings->program, env, wanted, parent);
    int error = errno;
    free_environment(env);
    if (pid < 0)
        return error_errno(err, error, "fork");
    *lines = steal_fd(&reading);
    return pid;
}

/* --- Scratch directories ---------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    remove(path);
    return 0;
}

static void remove_scratch(const char *path)
{
    if (*path)
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static int make_scratch(struct git_clone *clone, const char *run_dir, struct error *err)
{
    snprintf(clone->scratch, sizeof clone->scratch, "%s/git-XXXXXX", run_dir);
    if (mkdtemp(clone->scratch))
        return 0;
    clone->scratch[0] = '\0';
    return error_errno(err, errno, "scratch directory below '%s'", run_dir);
}

/* --- The clone -------------------------------------------------------------------------------- */

static void close_lines(struct git_clone *clone)
{
    int fd = clone->lines.fd;
    loop_unwatch(clone->loop, &clone->lines);
    if (fd >= 0)
        close(fd);
}

static void clone_free(struct git_clone *clone)
{
    close_lines(clone);
    buf_free(&clone->text);
    remove_scratch(clone->scratch);
    free(clone);
}

/* Its children hold the pipe too, so that its end means theirs. */
static void finish(struct git_clone *clone)
{
    if (!clone->ended || clone->lines.fd >= 0)
        return;
    struct git_clone_events events = clone->events;
    char why[sizeof clone->why];
    memcpy(why, clone->why, sizeof why);
    clone_free(clone);
    if (events.ended)
        events.ended(events.arg, *why ? why : NULL);
}

static void take_line(struct git_clone *clone, const char *text, size_t size)
{
    CLEANUP_JSON json_t *line = json_loadb(text, size, 0, NULL);
    if (!json_is_object(line))
        git_clone_kill(clone, "the git helper said something strange");
    else if (clone->events.line && !*clone->why)
        clone->events.line(clone->events.arg, line);
}

static void take_lines(struct git_clone *clone)
{
    char *newline;
    while ((newline = memchr(clone->text.data, '\n', clone->text.size))) {
        size_t size = (size_t)(newline - clone->text.data);
        take_line(clone, clone->text.data, size);
        buf_drop(&clone->text, size + 1);
    }
}

static void lines_readable(void *arg, uint32_t events)
{
    struct git_clone *clone = arg;
    char *room = buf_reserve(&clone->text, 16384, NULL);
    if (!room) {
        git_clone_kill(clone, "the git helper said too much");
        buf_clear(&clone->text);
        return;
    }
    ssize_t size = read(clone->lines.fd, room, 16384);
    if (size > 0) {
        buf_commit(&clone->text, (size_t)size);
        take_lines(clone);
    } else if (size == 0 || errno != EAGAIN) {
        close_lines(clone);
        finish(clone);
    }
}

static void child_ended(void *arg, int code, int status)
{
    struct git_clone *clone = arg;
    clone->ended = true;
    if (!*clone->why && (code != CLD_EXITED || status == FAILED))
        snprintf(clone->why, sizeof clone->why, "the git helper %s %d",
                 code == CLD_EXITED ? "exited with" : "was ended by signal", status);
    finish(clone);
}

static int begin(struct git_clone *clone, const struct git_settings *settings, json_t *request,
                 int mounts, struct error *err)
{
    int lines = -1;
    int result = make_scratch(clone, settings->run_dir, err);
    if (result < 0)
        return result;
    json_object_set_new(request, "scratch", json_string(clone->scratch));
    json_object_set_new(request, "agent", json_boolean(settings->ssh_agent));
    int pid = launch(settings, request, mounts, &lines, err);
    if (pid < 0)
        return pid;
    fcntl(lines, F_SETFL, O_NONBLOCK);
    result = loop_watch(clone->loop, &clone->lines, lines, EPOLLIN);
    if (result < 0) {
        close(lines);
        error_errno(err, -result, "watch");
    } else {
        result = loop_child(clone->loop, &clone->child, pid, err);
    }
    if (result < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return result;
}

struct git_clone *git_clone_start(struct loop *loop, const struct git_settings *settings,
                                  json_t *request, int mount_namespace,
                                  struct git_clone_events events, struct error *err)
{
    struct git_clone *clone = calloc(1, sizeof *clone);
    if (!clone) {
        error_errno(err, ENOMEM, "git");
        return NULL;
    }
    clone->loop = loop;
    clone->events = events;
    clone->text = BUF_INIT(LINE_MAX_BYTES);
    clone->child = (struct child){.ended = child_ended, .arg = clone, .pidfd = -1};
    clone->lines = (struct watch){.ready = lines_readable, .arg = clone, .fd = -1};
    if (begin(clone, settings, request, mount_namespace, err) < 0) {
        error_wrap(err, "git helper");
        clone_free(clone);
        return NULL;
    }
    return clone;
}

void git_clone_kill(struct git_clone *clone, const char *why)
{
    if (*clone->why)
        return;
    snprintf(clone->why, sizeof clone->why, "%s", why);
    if (!clone->ended)
        syscall(SYS_pidfd_send_signal, clone->child.pidfd, SIGTERM, NULL, 0);
}

void git_clone_stop(struct git_clone *clone)
{
    char rest[4096];
    if (!clone->ended) {
        int pid = clone->child.pid;
        struct pollfd gone = {.fd = clone->child.pidfd, .events = POLLIN};
        kill(pid, SIGTERM);
        if (poll(&gone, 1, GONE_MS) != 1)
            kill(pid, SIGKILL);
        loop_child_forget(&clone->child);
        waitpid(pid, NULL, 0);
    }
    struct pollfd end = {.fd = clone->lines.fd, .events = POLLIN};
    while (clone->lines.fd >= 0 && poll(&end, 1, GONE_MS) == 1) {
        if (read(clone->lines.fd, rest, sizeof rest) <= 0)
            break;
    }
    clone_free(clone);
}

/* --- For the command line --------------------------------------------------------------------- */

static void read_lines(int fd, void (*line)(void *arg, const json_t *line), void *arg)
{
    CLEANUP_FILE FILE *file = fdopen(fd, "r");
    CLEANUP_FREE char *text = NULL;
    size_t room = 0;
    ssize_t size;
    if (!file)
        close(fd);
    while (file && (size = getline(&text, &room, file)) > 0) {
        CLEANUP_JSON json_t *value = json_loadb(text, (size_t)size, 0, NULL);
        if (json_is_object(value))
            line(arg, value);
    }
}

int git_helper_run(const struct git_settings *settings, json_t *request,
                   void (*line)(void *arg, const json_t *line), void *arg, struct error *err)
{
    int lines = -1, status = 0;
    json_object_set_new(request, "agent", json_boolean(settings->ssh_agent));
    int pid = launch(settings, request, -1, &lines, err);
    if (pid < 0)
        return error_wrap(err, "git helper");
    read_lines(lines, line, arg);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

char *git_helper_program(struct error *err)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size < 0) {
        error_errno(err, errno, "this program");
        return NULL;
    }
    path[size] = '\0';
    char *slash = strrchr(path, '/'), *program = NULL;
    if (asprintf(&program, "%.*s/sandpit-git", (int)(slash ? slash - path : 0), path) < 0) {
        error_errno(err, ENOMEM, "git helper");
        return NULL;
    }
    return program;
}
