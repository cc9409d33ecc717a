#include "container/session.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { WAITING_MAX = 10000, KILL_GRACE_MS = 1000 };

/* The table of sessions. */

struct session *session_find(const struct container *container, const char *id)
{
    for (struct session *session = container->sessions; session; session = session->next) {
        if (strcmp(session->id, id) == 0)
            return session;
    }
    return NULL;
}

json_t *sessions_ids(const struct container *container)
{
    json_t *ids = json_array();
    for (const struct session *session = container->sessions; session; session = session->next)
        json_array_append_new(ids, json_string(session->id));
    return ids;
}

void session_list(struct session *session)
{
    struct session **at = &session->container->sessions;
    while (*at)
        at = &(*at)->next;
    *at = session;
}

void session_unlist(struct session *session)
{
    for (struct session **at = &session->container->sessions; *at; at = &(*at)->next) {
        if (*at == session) {
            *at = session->next;
            return;
        }
    }
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void session_free(struct session *session)
{
    struct container *container = session->container;
    loop_disarm(container->loop, &session->kill_timer);
    loop_unwatch(container->loop, &session->status_watch);
    if (session->shell.pid)
        container_drop_proc(container, &session->shell);
    if (session->has_fifos) {
        close_fd(&session->fifos.fd[0]);
        close_fd(&session->fifos.fd[1]);
        if (!container->lost)
            agent_fifos_drop(container->agent, session->fifos.number);
    }
    close_fd(&session->input);
    close_fd(&session->status);
    close_fd(&session->command);
    free(session->id);
    free(session);
}

void sessions_close(struct container *container)
{
    while (container->sessions) {
        struct session *session = container->sessions;
        container->sessions = session->next;
        session_free(session);
    }
}

/* The queue. */

static void queue_add(struct session *session, struct job *job)
{
    job->session = session;
    job->queue_next = NULL;
    *session->tail = job;
    session->tail = &job->queue_next;
    session->waiting++;
}

static void queue_remove(struct session *session, struct job *job)
{
    for (struct job **at = &session->head; *at; at = &(*at)->queue_next) {
        if (*at != job)
            continue;
        *at = job->queue_next;
        if (session->tail == &job->queue_next)
            session->tail = at;
        session->waiting--;
        return;
    }
}

void session_forget(struct session *session, struct job *job)
{
    if (session->running == job)
        session->running = NULL;
    else if (session->creator == job)
        session->creator = NULL;
    else
        queue_remove(session, job);
    job->session = NULL;
}

/* Refuses everything that waits, first come first. */
void session_refuse_all(struct session *session, const char *why)
{
    struct job *job;
    while ((job = session->head)) {
        queue_remove(session, job);
        job->session = NULL;
        job->kind->refuse(job, why);
    }
}

static struct job *find_deletion(const struct session *session)
{
    for (struct job *job = session->head; job; job = job->queue_next) {
        if (job->kind == &session_deletion)
            return job;
    }
    return NULL;
}

static void answer_destroyed(struct job *job, const char *id)
{
    if (job->call)
        job_error(job, CODE_SESSION_DESTROYED, NULL, json_pack("{s:s}", "sessionId", id),
                  "Session '%s' was destroyed", id);
    else
        job_end(job);
}

/* A command that timed out holds the shell and a deletion waits: it goes first, and whoever was
 * between the two finds the session destroyed. Answers come last, because they may bring calls. */
static void let_deletion_pass(struct session *session, struct job *deletion)
{
    struct job *stale = session->running;
    struct job *passed = session->head == deletion ? NULL : session->head;
    stale->session = NULL;
    while (session->head != deletion) {
        session->head->session = NULL;
        if (session->head->queue_next == deletion) {
            session->head->queue_next = NULL;
            session->head = deletion;
        } else {
            session->head = session->head->queue_next;
        }
        session->waiting--;
    }
    queue_remove(session, deletion);
    session->running = deletion;
    deletion->kind->begin(deletion);
    job_end(stale);
    while (passed) {
        struct job *next = passed->queue_next;
        answer_destroyed(passed, session->id);
        passed = next;
    }
}

static void timer_fired(void *arg)
{
    struct job *job = arg;
    job->kind->timed_out(job);
}

void session_passed_on(struct session *session)
{
    struct job *deletion = NULL;
    if (session->running && !session->running->call && !session->dead)
        deletion = find_deletion(session);
    if (deletion) {
        let_deletion_pass(session, deletion);
        return;
    }
    struct job *job = session->running;
    if (!job || !job->call) {
        for (job = session->head; job && !job->call;)
            job = job->queue_next;
    }
    if (!job || !job->timeout_ms || !job->kind->timed_out || timer_armed(&job->timer))
        return;
    job->timer = (struct timer){.fire = timer_fired, .arg = job};
    loop_arm(session->container->loop, &job->timer, MS_NS(job->timeout_ms));
}

void session_pump(struct session *session)
{
    if (session->pumping || session->container->lost)
        return;
    session->pumping = true;
    while (session->head && !session->running && session->shell.pid && !session->dead &&
           !session->broken) {
        if (!session->has_fifos) {
            session_fetch_fifos(session);
            break;
        }
        struct job *job = session->head;
        queue_remove(session, job);
        session->running = job;
        session->used = true;
        job->kind->begin(job);
    }
    session->pumping = false;
    session_passed_on(session);
}

void session_enqueue(struct session *session, struct job *job)
{
    if (session->waiting >= WAITING_MAX) {
        job->kind->refuse(job, "too many calls wait for this session");
        return;
    }
    if (!job->timeout_ms)
        job->timeout_ms = session->timeout_ms;
    queue_add(session, job);
    session_pump(session);
}

void session_submit(struct job *job, const char *id, const char *cwd)
{
    int error = 0;
    struct session *session = session_find(job->container, id);
    if (!session)
        session = session_new(job->container, id, cwd, NULL, job->timeout_ms, NULL, &error);
    if (session)
        session_enqueue(session, job);
    else
        session_refuse(job, error);
}

void session_refuse(struct job *job, int error)
{
    if (error == -EPIPE)
        job_interrupted(job);
    else
        job->kind->refuse(job, strerror(-error));
}

void session_requeue(struct session *session, struct job *job)
{
    session->running = NULL;
    session->broken = true;
    job->retried = true;
    job->session = session;
    job->queue_next = session->head;
    session->head = job;
    if (!job->queue_next)
        session->tail = &job->queue_next;
    session->waiting++;
}

void session_move_queue(struct session *from)
{
    while (from->head && from->head->kind == &session_deletion) {
        struct job *job = from->head;
        queue_remove(from, job);
        job->session = NULL;
        job->kind->refuse(job, "the shell has ended");
    }
    /* A shell that ends before it served anybody would only be followed by others like it. */
    if (!from->used)
        session_refuse_all(from, "the shell ended as soon as it started");
    if (!from->head)
        return;
    int error = 0;
    struct session *fresh = session_find(from->container, from->id);
    if (!fresh)
        fresh = session_new(from->container, from->id, NULL, NULL, 0, NULL, &error);
    while (from->head) {
        struct job *job = from->head;
        queue_remove(from, job);
        job->session = NULL;
        if (fresh)
            queue_add(fresh, job);
        else
            session_refuse(job, error);
    }
    if (fresh)
        session_pump(fresh);
}

static void kill_overdue(void *arg)
{
    struct session *session = arg;
    /* Again and again, because the request itself may fail; the end of the shell disarms it. */
    loop_arm(session->container->loop, &session->kill_timer, MS_NS(KILL_GRACE_MS));
    /* An idle shell ends without its input, and needs no request for that. Not the first time: its
     * children would be orphans before the kill finds them by their parents. */
    if (session->kill_asked)
        close_fd(&session->input);
    session->kill_asked = true;
    ask_signal(session->container, session->shell.pid, SIGKILL, RT_SIGNAL_TREE, NULL, NULL);
}

void session_destroy(struct session *session)
{
    struct container *container = session->container;
    ask_signal(container, session->shell.pid, SIGTERM, RT_SIGNAL_TREE, NULL, NULL);
    session->kill_timer = (struct timer){.fire = kill_overdue, .arg = session};
    if (loop_arm(container->loop, &session->kill_timer, MS_NS(KILL_GRACE_MS)) < 0)
        kill_overdue(session);
}
