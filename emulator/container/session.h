/* A session is one bash: jobs take turns in it in the order they came.
 *
 * The shell reads its lines from its standard input; a command that is not short lies in a memfd,
 * its output goes to a pair of FIFOs and its status comes back on a pipe. A pair is used
 * again when no process holds it after a command; a background job keeps its pair, and the session
 * gets a new one. */
#ifndef SANDPIT_CONTAINER_SESSION_H
#define SANDPIT_CONTAINER_SESSION_H

#include "container/internal.h"
#include "container/output.h"

/* The standard output and error of commands. */
struct fifos {
    int number; /* RT_FIFO_DIR/<number>.1 and .2 */
    int fd[2];
};

struct session {
    struct container *container;
    struct session *next;
    char *id;
    int64_t timeout_ms; /* for commands that name none; 0 = none */
    struct proc shell;
    int input, status, command; /* descriptors; see the recipe in shell.c */
    size_t command_size;        /* of what was last written to `command` */
    int told_number;            /* of the pair that the shell knows of */
    struct watch status_watch;
    char line[8]; /* of the status pipe, up to its newline */
    size_t line_size;
    struct fifos fifos;
    bool has_fifos, fetching;
    bool pumping;
    bool dead;       /* the shell has ended */
    bool broken;     /* it does not read any more, and its end is about to be told */
    bool starting;   /* inside session_new() */
    bool used;       /* a job has begun */
    bool kill_asked; /* of the runtime, at least once */
    bool primed;     /* the shell knows what is the same for each command */
    bool in_line;    /* the last command was in its line, not in the memfd */
    int start_error;
    struct job *creator; /* to be told when the shell runs */
    struct job *running; /* holds the shell */
    struct job *head, **tail;
    size_t waiting;
    struct timer kill_timer;
};

struct session *session_find(const struct container *container, const char *id);
/* `env` may be NULL; `creator` too, else it begins when the shell runs. NULL with a negative errno
 * in *error when it could not even be asked for; the creator is not told then. */
struct session *session_new(struct container *container, const char *id, const char *cwd,
                            const json_t *env, int64_t timeout_ms, struct job *creator, int *error);
/* Finds the session or makes it, and puts the job in its queue. */
void session_submit(struct job *job, const char *id, const char *cwd);
/* Puts the job in the queue. A deletion does not wait for a command that timed out. */
void session_enqueue(struct session *session, struct job *job);
extern const struct job_kind session_deletion;

/* Takes the job out of the session that it waits for or holds. */
void session_forget(struct session *session, struct job *job);
/* Starts the next job when the shell is free. */
void session_pump(struct session *session);
/* A job was answered but goes on: the time of the next one starts. */
void session_passed_on(struct session *session);

/* For the job that holds the session: runs `command` (and, when not NULL, `wrapper` around it,
 * which evaluates $__c and leaves the status in $__s). The pair is the job's until
 * session_give_back(). -errno when the shell cannot be fed. */
int session_feed(struct session *session, const char *command, const char *wrapper,
                 struct fifos *fifos);
/* The same for a command that the wrapper puts in the background: the shell's output goes nowhere,
 * and the session keeps its pair. */
int session_feed_background(struct session *session, const char *command, const char *wrapper);
/* `reusable`: no process holds the pair. */
void session_give_back(struct session *session, const struct fifos *fifos, bool reusable);
/* Ends the shell and all its children; the job that holds the session is told when it is over. */
void session_destroy(struct session *session);

/* Ends the job with an error that says why its session could not be had. */
void session_refuse(struct job *job, int error);

/* Between session.c and shell.c. */
void session_list(struct session *session);
void session_unlist(struct session *session);
void session_free(struct session *session);
void session_fetch_fifos(struct session *session);
/* Refuses everything that waits, first come first. */
void session_refuse_all(struct session *session, const char *why);
/* Those who waited for a shell that ended go on in a fresh one; a deletion first in line has
 * nothing left to delete. */
void session_move_queue(struct session *from);
/* The shell died before it read the command: the job waits, first in line, for another. */
void session_requeue(struct session *session, struct job *job);

void sessions_close(struct container *container);
/* New reference. */
json_t *sessions_ids(const struct container *container);

#endif
