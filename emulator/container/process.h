/* Background processes: what POST /api/process/start, execute with `background`, and every streamed
 * command make. A record stays when its process has ended, for the life of the container, until
 * there are too many. */
#ifndef SANDPIT_CONTAINER_PROCESS_H
#define SANDPIT_CONTAINER_PROCESS_H

#include "container/internal.h"
#include "container/transcript.h"

struct follower;

enum process_status {
    PROCESS_RUNNING,
    PROCESS_COMPLETED, /* exit code 0 */
    PROCESS_FAILED,    /* another one */
    PROCESS_KILLED,    /* by us, or exit code 137 or 143 */
    PROCESS_ERROR,     /* it did not start, or its session was deleted */
};

/* Who waits for the end of a process that is being ended. Zeroed = waits for nothing. */
struct process_waiter {
    void (*over)(struct process_waiter *waiter);
    void *arg;
    struct process *process; /* NULL once told */
    struct process_waiter *next;
};

/* One of its two outputs while it runs. */
struct process_pipe {
    struct process *process;
    int fd;
    struct watch watch;
    bool held; /* not read, because the holder is behind */
};

struct process {
    struct container *container;
    struct process *next; /* in the order they were started */
    char *id;
    char *command;
    char *session_id; /* SESSION_DISABLED without one */
    bool streamed;    /* its client reads the output as it comes */
    bool replaced;    /* another took its id: neither listed nor found */
    int pid;          /* 0 = not known (yet) */
    enum process_status status;
    int exit_code; /* -1 = none */
    int64_t started_ms, ended_ms;
    int64_t born_ns;          /* the same moment in real time */
    struct transcript out[2]; /* standard output and standard error */
    size_t counted;           /* bytes of both in container->log_bytes */
    int asked;                /* requests to the runtime that name it; it is not freed before */

    struct job *start; /* the call that waits for its start, or NULL */
    bool fed;          /* in a session: the shell has the command */
    struct process_pipe pipes[2];
    int fifos;     /* the number of its FIFOs, 0 = none */
    int status_fd; /* in a session: where the wrapper tells its pid and the exit code */
    struct watch status_watch;
    char line[16]; /* of that, up to its newline */
    size_t line_size;
    struct proc proc;   /* without a session */
    struct timer timer; /* for its start, or the timeout without a session */
    int64_t timeout_ms;

    bool ending;                /* the runtime was asked to end it */
    bool timed_out;             /* so it is ended */
    int end_tries;              /* that were themselves ended from inside the container */
    enum process_status end_as; /* what it is when it was ended */
    uint32_t end_grace_ms;
    struct process_waiter *waiters;

    struct follower *followers;
    struct follower *holder; /* for whom the pipes wait: the client of a streamed command */
};

/* By id, as it stands in a path; NULL when there is none. */
struct process *process_find(const struct container *container, const char *id);
static inline bool process_is_over(const struct process *process)
{
    return process->status != PROCESS_RUNNING;
}
const char *process_status_name(enum process_status status);

/* Answers PROCESS_NOT_FOUND. */
void process_unknown(struct call *call, const char *id);
/* The one that args.processId names; NULL after an error was answered. */
struct process *process_of_call(struct container *container, struct call *call);

/* process.c: the life of a record. */

/* Takes the place of one with the same id. NULL after an error was answered. */
struct process *process_new(struct container *container, struct call *call, const char *id,
                            const char *command, const char *session_id);
/* It has ended: what is left in its pipes is read, and everybody is told. */
void process_finish(struct process *process, enum process_status status, int exit_code);
/* By its own exit code. */
void process_exited(struct process *process, int exit_code);
/* It did not start, or cannot go on: `why` becomes a line of its standard error. */
void process_fail(struct process *process, const char *why);
/* Those who wait for its end hear of it, or that it cannot be ended. */
void process_tell_waiters(struct process *process);
size_t processes_running(const struct container *container);
/* Of these, those that the runtime did not spawn for us. */
size_t processes_in_sessions(const struct container *container);
void processes_close(struct container *container);

/* process_pipes.c: its output on the way into the transcripts. */
int process_read(struct process *process, int which, int fd); /* takes the descriptor */
/* Reads what is there, and lets go of the pipe: what still holds it writes to nowhere. */
void process_read_rest(struct process *process);
/* A line of our own, at the end of standard error. */
void process_add_line(struct process *process, const char *text);
/* After the holder took something, or left. */
void process_go_on(struct process *process);

/* process_end.c */

/* Ends the process and all that it started; the waiter, which may be NULL, is told when it is over.
 * A process that already is being ended only gets the waiter. */
void process_end(struct process *process, enum process_status as, uint32_t grace_ms,
                 struct process_waiter *waiter);
/* Its pid is known now: if its end was asked for, here it comes. */
void process_end_started(struct process *process);
/* The wrapper is gone without a word: what it started is ended too. */
void process_end_rest(struct process *process);
void process_wait_no_more(struct process_waiter *waiter);

/* Several at once. */
struct process_ends {
    struct process_waiter *waiters;
    size_t count, left;
    void (*over)(void *arg);
    void *arg;
};
/* Ends all that run, or those of one session. over() is called when none is left, not before this
 * returns: 0 when there is none to wait for, else how many, or -ENOMEM. */
long process_end_all(struct process_ends *ends, struct container *container, const char *session_id,
                     enum process_status as, uint32_t grace_ms);
void process_ends_close(struct process_ends *ends);

/* process_follow.c */

/* Output came, or the end. */
void process_wake(struct process *process);
/* Answers the job's call with the events of a streamed command, and ends the job. */
void process_answer_stream(struct process *process, struct job *job);
/* What the holder has not taken yet begins here. */
uint64_t process_held(const struct process *process, int which);

#endif
