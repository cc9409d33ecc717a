/* The shell of a session: how it starts, is fed, answers and ends. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "base/journal.h"
#include "container/session.h"

enum { COMMAND_FD = 9, COMMAND_KEPT = 4096, INLINE_MAX = 40 };

/* The pair of FIFOs. */

static void fifos_fetched(void *arg, struct agent_answer *answer)
{
    struct session *session = arg;
    session->fetching = false;
    if (session->dead) {
        if (answer->value >= 0)
            agent_fifos_drop(session->container->agent, answer->value);
        session_free(session);
        return;
    }
    if (answer->value < 0) {
        if (answer->value != -EPIPE)
            session_refuse_all(session, strerror(-answer->value));
        return;
    }
    session->fifos.number = answer->value;
    session->fifos.fd[0] = steal_fd(&answer->fds[0]);
    session->fifos.fd[1] = steal_fd(&answer->fds[1]);
    session->has_fifos = true;
    session_pump(session);
}

void session_fetch_fifos(struct session *session)
{
    if (session->fetching)
        return;
    session->fetching = true;
    ask_fifos(session->container, fifos_fetched, session);
}

void session_give_back(struct session *session, const struct fifos *fifos, bool reusable)
{
    if (reusable) {
        session->fifos = *fifos;
        session->has_fifos = true;
        return;
    }
    if (!session->container->lost)
        agent_fifos_drop(session->container->agent, fifos->number);
    session_fetch_fifos(session);
}

/* Feeding the shell. The command is evaluated in the shell itself, so that cd, export and functions
 * stay. Its status is echoed by a line of its own: an expansion error such as $((1/0)) makes bash
 * drop the rest of the line it is on. The shell's own standard output is the status pipe, which a
 * command never sees: it has its own. bash reads a pipe one byte at a time, so what is the same
 * each time is said once, and a long command comes by the memfd. */
static const char first_line[] =
    "builtin readonly __q='{ builtin eval \"$__w\";}</dev/null >\"" RT_FIFO_DIR
    "/$__n.1\" 2>\"" RT_FIFO_DIR "/$__n.2\" 9<&-' "
    "__r='IFS= builtin read -r -d \"\" -u 9' "
    "__b='{ builtin eval \"$__w\";}</dev/null >/dev/null 2>&1 9<&-';"
    "__e(){ builtin echo .$?;};builtin readonly -f __e\n";
#define TELL "__e\n"
static const char inline_line[] = "__w='%s';builtin eval \"$__q\"\n" TELL;
static const char plain_line[] = "builtin eval \"$__r __w;$__q\"\n" TELL;
static const char wrapped_line[] =
    "__s=1;builtin eval \"$__r __c;$__r __w;$__q\"\nbuiltin echo .$__s\n";

static const char background_line[] =
    "__s=1;builtin eval \"$__r __c;$__r __w;$__b\"\nbuiltin echo .$__s\n";

/* Whether the command can stand between quotes, and is not better read at once. */
static bool fits_inline(const char *command)
{
    size_t size = 0;
    for (; command[size]; size++) {
        if (size == INLINE_MAX || command[size] < ' ' || command[size] > '~' ||
            command[size] == '\'')
            return false;
    }
    return true;
}

/* The shell shares the position, so it is set and never moved by writing. It reads up to the last
 * NUL: what an earlier command left behind that is only given back when it is much. */
static int write_fields(struct session *session, const char *command, const char *wrapper)
{
    int fd = session->command;
    if (session->command_size > COMMAND_KEPT && ftruncate(fd, 0) < 0)
        return -errno;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    struct iovec fields[2] = {{(char *)command, strlen(command) + 1}};
    if (wrapper)
        fields[1] = (struct iovec){(char *)wrapper, strlen(wrapper) + 1};
    size_t offset = 0;
    for (int i = 0; i < 2; i++) {
        const char *from = fields[i].iov_base;
        size_t left = fields[i].iov_len;
        while (left > 0) {
            long put = pwrite(fd, from, left, (off_t)offset);
            if (put < 0)
                return -errno;
            from += put;
            offset += (size_t)put;
            left -= (size_t)put;
            session->command_size = offset;
        }
    }
    return 0;
}

static int write_line(struct session *session, const char *format, const char *command)
{
    char line[768], number[32] = "";
    if (session->fifos.number != session->told_number)
        snprintf(number, sizeof number, "__n=%d;", session->fifos.number);
    int size = snprintf(line, sizeof line, "%s%s", session->primed ? "" : first_line, number);
    size += snprintf(line + size, sizeof line - (size_t)size, format, command);
    /* Shorter than PIPE_BUF: all of it or nothing. */
    if (write(session->input, line, (size_t)size) < 0)
        return -errno;
    session->primed = true;
    session->told_number = session->fifos.number;
    return 0;
}

int session_feed(struct session *session, const char *command, const char *wrapper,
                 struct fifos *fifos)
{
    session->in_line = !wrapper && fits_inline(command);
    int result = session->in_line ? 0 : write_fields(session, command, wrapper);
    if (result == 0)
        result = write_line(
            session, wrapper ? wrapped_line : session->in_line ? inline_line : plain_line, command);
    if (result < 0)
        return result;
    session->line_size = 0;
    *fifos = session->fifos;
    session->has_fifos = false;
    return 0;
}

int session_feed_background(struct session *session, const char *command, const char *wrapper)
{
    session->in_line = false;
    int result = write_fields(session, command, wrapper);
    if (result == 0)
        result = write_line(session, background_line, "");
    if (result == 0)
        session->line_size = 0;
    return result;
}

/* The status pipe. Whatever runs in the container may have got at it, and a trap that runs between
 * two commands prints there: a line that is no dot and a number is passed over, and one that nobody
 * waits for changes nothing. */

/* Reads what is there; the last exit code in it, -EAGAIN, or -EPIPE when the pipe has ended. */
static int read_status(struct session *session)
{
    char bytes[32];
    long got = read(session->status, bytes, sizeof bytes);
    if (got <= 0)
        return got == 0 ? -EPIPE : -EAGAIN;
    int code = -EAGAIN;
    for (long i = 0; i < got; i++) {
        if (bytes[i] != '\n') {
            if (session->line_size < sizeof session->line - 1)
                session->line[session->line_size++] = bytes[i];
            continue;
        }
        session->line[session->line_size] = '\0';
        session->line_size = 0;
        char *end, *digits = session->line + 1;
        long value = *session->line == '.' ? strtol(digits, &end, 10) : -1;
        if (value >= 0 && value <= 255 && end != digits && *end == '\0')
            code = (int)value;
    }
    return code;
}

static void status_ready(void *arg, uint32_t events)
{
    struct session *session = arg;
    int code = read_status(session);
    if (code == -EPIPE) {
        /* The command was `exec`, or took the pipe away: the end of the process says the rest. */
        loop_unwatch(session->container->loop, &session->status_watch);
        return;
    }
    struct job *job = session->running;
    if (code >= 0 && job && job->kind->status)
        job->kind->status(job, code);
}

/* The life of the shell. */

static void tell_exit(struct session *session, const struct rt_exit *how)
{
    struct container *container = session->container;
    char *what = NULL;
    if (asprintf(&what, "session %s exited with %d", session->id, how->code) >= 0) {
        journal_note(JOURNAL_EXIT, clock_now_ms(container->clock), container->hostname, what);
        free(what);
    }
    container_note(container, "session.exited",
                   json_pack("{s:s,s:i}", "sessionId", session->id, "exitCode", how->code));
}

/* Whether the shell may have begun the last command: it has read the memfd, or the line with the
 * command to its end. A first byte says nothing, since a read that waits takes what has come before
 * it heeds SIGKILL. */
static bool may_have_begun(const struct session *session)
{
    int left = 0;
    if (!session->in_line)
        return lseek(session->command, 0, SEEK_CUR) != 0;
    return ioctl(session->input, FIONREAD, &left) < 0 || left <= (int)strlen(TELL);
}

/* A command that the shell did not begin may run in another one. */
static bool take_back(struct session *session, struct job *job)
{
    if (!job || !job->kind->status || job->retried || !job->call || may_have_begun(session))
        return false;
    job->kind->release(job);
    session_requeue(session, job);
    return true;
}

static void shell_ended(struct proc *proc, const struct rt_exit *how)
{
    struct session *session = (struct session *)((char *)proc - offsetof(struct session, shell));
    session->dead = true;
    loop_unwatch(session->container->loop, &session->status_watch);
    loop_disarm(session->container->loop, &session->kill_timer);
    session_unlist(session);
    int code = read_status(session);
    struct job *job = session->running;
    session->running = NULL;
    if (job)
        job->session = NULL;
    if (take_back(session, job))
        job = NULL;
    if (session->container->stopping) {
        while (session->head)
            job_interrupted(session->head);
    }
    tell_exit(session, how);
    session_move_queue(session);
    /* The command may have ended, and said so, before the shell did. */
    if (job && code >= 0 && job->kind->status)
        job->kind->status(job, code);
    else if (job && job->kind->shell_ended)
        job->kind->shell_ended(job, how);
    if (!session->fetching)
        session_free(session);
}

static void shell_failed(struct session *session, int error)
{
    session_unlist(session);
    session->dead = true;
    struct job *creator = session->creator;
    if (creator) {
        session_forget(session, creator);
        session_refuse(creator, error);
    }
    session_refuse_all(session, strerror(-error));
    session_free(session);
}

static void shell_spawned(void *arg, struct agent_answer *answer)
{
    struct session *session = arg;
    struct container *container = session->container;
    if (answer->value < 0) {
        if (session->starting)
            session->start_error = answer->value;
        else if (answer->value != -EPIPE) /* else the container is going, with everybody in it */
            shell_failed(session, answer->value);
        return;
    }
    session->shell.pid = answer->value;
    session->input = steal_fd(&answer->fds[0]);
    session->status = steal_fd(&answer->fds[1]);
    session->command = steal_fd(&answer->fds[2]);
    session->status_watch = (struct watch){.ready = status_ready, .arg = session, .fd = -1};
    int error = loop_watch(container->loop, &session->status_watch, session->status, EPOLLIN);
    if (error < 0) { /* nobody would hear it; without its input it ends by itself */
        session->shell.pid = 0;
        shell_failed(session, error);
        return;
    }
    container_add_proc(container, &session->shell);
    container_note(container, "session.created", json_pack("{s:s}", "sessionId", session->id));
    session_fetch_fifos(session);
    struct job *creator = session->creator;
    if (creator) {
        session_forget(session, creator);
        creator->kind->begin(creator);
    }
}

static int spawn_shell(struct session *session, const char *cwd, const json_t *variables)
{
    struct container *container = session->container;
    CLEANUP_ENVIRONMENT struct environment env = {0};
    int result = environment_add_list(&env, environment_list(&container->env));
    if (result == 0)
        result = environment_add_json(&env, variables, false);
    if (result == 0)
        result = environment_set(&env, "LANG", "C.UTF-8");
    if (result == 0)
        result = environment_set(&env, "LC_ALL", "C.UTF-8");
    if (result < 0)
        return result;
    static const char *const argv[] = {"bash", "--norc", NULL};
    static const struct rt_slot slots[] = {
        {0, RT_SLOT_IN}, {1, RT_SLOT_OUT}, {2, RT_SLOT_NULL}, {COMMAND_FD, RT_SLOT_MEMFD}};
    struct agent_spawn spawn = {.cwd = cwd && *cwd ? cwd : RT_DEFAULT_DIR,
                                .argv = argv,
                                .env = environment_list(&env),
                                .slots = slots,
                                .slot_count = sizeof slots / sizeof *slots,
                                .flags = RT_SPAWN_SESSION | RT_SPAWN_HOME};
    ask_spawn(container, &spawn, shell_spawned, session);
    return 0;
}

static int64_t default_timeout(const struct container *container)
{
    const char *text = environment_get(&container->env, "COMMAND_TIMEOUT_MS");
    long long ms = text ? strtoll(text, NULL, 10) : 0;
    return ms > 0 ? ms : 0;
}

struct session *session_new(struct container *container, const char *id, const char *cwd,
                            const json_t *env, int64_t timeout_ms, struct job *creator, int *error)
{
    *error = -ENOMEM;
    struct session *session = calloc(1, sizeof *session);
    if (!session || !(session->id = strdup(id))) {
        free(session);
        return NULL;
    }
    session->container = container;
    session->input = session->status = session->command = -1;
    session->status_watch = WATCH_INIT;
    session->shell.ended = shell_ended;
    session->tail = &session->head;
    session->timeout_ms = timeout_ms > 0 ? timeout_ms : default_timeout(container);
    session->starting = true;
    *error = spawn_shell(session, cwd, env);
    if (*error == 0)
        *error = session->start_error;
    session->starting = false;
    if (*error < 0) {
        session_free(session);
        return NULL;
    }
    session->creator = creator;
    if (creator)
        creator->session = session;
    session_list(session);
    return session;
}
