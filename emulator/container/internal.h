/* What the files of this layer share: the container itself, the jobs that calls become, and the
 * requests to the runtime. */
#ifndef SANDPIT_CONTAINER_INTERNAL_H
#define SANDPIT_CONTAINER_INTERNAL_H

#include <stdarg.h>

#include "container/container.h"
#include "container/environment.h"
#include "container/interpreter.h"
#include "container/written.h"
#include "drivers/agent.h"

#define SESSION_DISABLED "__DISABLE_SESSION__"
#define SESSION_DEFAULT "default"

struct session;
struct job;
struct drain;
struct process;

/* A process that the runtime spawned for us. */
struct proc {
    int pid; /* 0 while there is none */
    void (*ended)(struct proc *proc, const struct rt_exit *how);
    struct proc *next;
};

struct container {
    struct loop *loop;
    struct clock *clock;
    struct instance *instance;
    struct agent *agent; /* NULL until ready */
    struct container_events events;
    char *hostname;
    char *version;
    const struct git_settings *git; /* or NULL: no clones */
    struct environment env;
    struct session *sessions;      /* in the order they were made */
    struct job *jobs, **jobs_last; /* oldest first */
    struct proc *procs;
    struct drain *drains; /* newest first */
    size_t drain_count;
    struct interpreter interpreter;
    json_t *exposed; /* ports of older SDKs: [{port, name}], or NULL */
    struct process *processes; /* oldest first */
    size_t process_count;
    size_t log_bytes, command_bytes; /* of all of them */
    size_t processes_forgotten;
    int asked;             /* requests that the runtime has not answered yet */
    uint64_t memory_bytes; /* its limit, 0 = none */
    unsigned kills;        /* processes that the kernel ended for lack of memory */
    bool gone;             /* the tree is gone; the rest follows when asked is 0 */
    char *gone_why;        /* or NULL */
    bool stopping;
    bool lost;   /* the runtime does not answer any more */
    bool closed; /* every call is being answered with OPERATION_INTERRUPTED */
    struct timer stop_timer;
    bool overdue, in_time;        /* a stop: the grace is over; all ended within it */
    int exit_code;                /* of PID 1, once it is gone */
    const char *interrupt_reason; /* or NULL */
    int root; /* its root directory, to see what was written; -1 = not known */
    struct written written;
};

void container_add_proc(struct container *container, struct proc *proc);
void container_drop_proc(struct container *container, struct proc *proc);
/* Frees the container when its tree is gone and no answer can come any more. */
void container_settle(struct container *container);
/* Counts the processes that the kernel ended for lack of memory anew. */
unsigned container_kills(struct container *container);
void container_note(struct container *container, const char *type, json_t *data);
/* What a background process wrote: see struct container_events. */
void container_output(struct container *container, const char *source, const char *stream,
                      const char *data, size_t size);

/* Requests to the runtime. The callback always comes exactly once, perhaps before these return, and
 * the container stays alive until then. */
void ask_spawn(struct container *container, const struct agent_spawn *spawn, agent_done *done,
               void *arg);
void ask_fifos(struct container *container, agent_done *done, void *arg);
void ask_fifos_three(struct container *container, agent_done *done, void *arg);
void ask_end(struct container *container, const struct rt_end *what, agent_done *done, void *arg);
void ask_signal(struct container *container, int pid, int signal, uint32_t scope, agent_done *done,
                void *arg);
void ask_path(struct container *container, enum rt_op op, struct rt_path how, const char *path,
              const char *second, agent_done *done, void *arg);
/* A socket on its way to a port of the container's loopback: connecting may still be going on. */
void ask_connect(struct container *container, uint16_t port, bool ipv6, agent_done *done,
                 void *arg);

/* What a kind of job does; all but `release` are only for jobs that enter a session's queue. */
struct job_kind {
    const char *op; /* the name of the operation */
    size_t size;    /* of the struct whose first member is the struct job */
    /* Its turn: the shell runs and is free. The job holds the session until it ends. */
    void (*begin)(struct job *job);
    /* The shell reported the end of the command. */
    void (*status)(struct job *job, int exit_code);
    /* The shell ended while the job held it; the job holds nothing now. */
    void (*shell_ended)(struct job *job, const struct rt_exit *how);
    /* Its timeout passed, counted from when nothing unanswered was before it. */
    void (*timed_out)(struct job *job);
    /* The session cannot serve it. Must end the job. */
    void (*refuse)(struct job *job, const char *why);
    /* Gives back what the operation holds beside the struct. */
    void (*release)(struct job *job);
};

/* A call being worked on. It may outlive its answer: a command that timed out runs on. */
struct job {
    const struct job_kind *kind;
    struct container *container;
    struct call *call; /* NULL once answered */
    json_t *args;      /* our own reference */
    struct job *next, **link;
    struct session *session; /* which it waits for or holds */
    struct job *queue_next;
    struct timer timer;
    int64_t timeout_ms; /* 0 = none */
    unsigned kills;     /* container->kills when it began */
    bool retried;       /* it met a shell that was dying, and waits for another */
};

void *job_new(struct container *container, struct call *call, const struct job_kind *kind);
/* Ends the job without an answer (it was given before, or there is none to give). */
void job_end(struct job *job);
/* End the job, let its session go on, and answer. */
void job_finish(struct job *job, struct answer *answer);
void job_result(struct job *job, json_t *body);
void job_error(struct job *job, enum code code, const char *operation, json_t *context,
               const char *format, ...) __attribute__((format(printf, 5, 6)));
void job_interrupted(struct job *job);
json_t *job_interrupted_context(const struct container *container, const char *op);
/* Answers and leaves the job running. */
void job_reply_error(struct job *job, enum code code, const char *operation, json_t *context,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Lets the job's session go on; the job itself goes on too. */
void job_leave_session(struct job *job);
/* The runtime could not be asked because it is gone: then the job was ended as interrupted. */
bool job_lost(struct job *job, const struct agent_answer *answer);

static inline json_t *job_timestamp(const struct job *job)
{
    return clock_timestamp(job->container->clock);
}

/* Arguments. Each answers with VALIDATION_FAILED and gives false when the value has a wrong type.
 * Absent and null leave *value as it was, unless `required`. */
bool arg_text(struct call *call, const char *name, bool required, const char **value);
bool arg_number(struct call *call, const char *name, double *value);
bool arg_flag(struct call *call, const char *name, bool *value);
/* An object of strings and nulls. */
bool arg_env(struct call *call, const char *name, const json_t **value);
void arg_invalid(struct call *call, const char *field, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
json_t *arg_invalid_context(const char *field, const char *message, const char *code);
bool text_is_blank(const char *text);
/* A timeout in whole ms: 0 (none) for what is not positive, at most a year. */
int64_t timeout_of(double ms);

/* The operations, by file. */
void op_ping(struct container *container, struct call *call);
void op_version(struct container *container, struct call *call);
void op_session_create(struct container *container, struct call *call);
void op_session_list(struct container *container, struct call *call);
void op_session_delete(struct container *container, struct call *call);
void op_execute(struct container *container, struct call *call);
void op_read(struct container *container, struct call *call);
void op_read_stream(struct container *container, struct call *call);
void op_read_raw(struct container *container, struct call *call);
void op_write(struct container *container, struct call *call);
void op_write_stream(struct container *container, struct call *call);
void op_delete(struct container *container, struct call *call);
void op_rename(struct container *container, struct call *call);
void op_move(struct container *container, struct call *call);
void op_mkdir(struct container *container, struct call *call);
void op_list_files(struct container *container, struct call *call);
void op_exists(struct container *container, struct call *call);
void op_context_create(struct container *container, struct call *call);
void op_context_list(struct container *container, struct call *call);
void op_context_delete(struct container *container, struct call *call);
void op_execute_code(struct container *container, struct call *call);
void op_git_checkout(struct container *container, struct call *call);
void op_expose_port(struct container *container, struct call *call);
void op_exposed_ports(struct container *container, struct call *call);
void op_unexpose_port(struct container *container, struct call *call);
void op_port_watch(struct container *container, struct call *call);
void op_port_check(struct container *container, struct call *call);
void op_process_start(struct container *container, struct call *call);
void op_execute_stream(struct container *container, struct call *call);
void op_process_kill(struct container *container, struct call *call);
void op_process_kill_all(struct container *container, struct call *call);
void op_process_stream(struct container *container, struct call *call);
void op_process_list(struct container *container, struct call *call);
void op_process_get(struct container *container, struct call *call);
void op_process_logs(struct container *container, struct call *call);

#endif
