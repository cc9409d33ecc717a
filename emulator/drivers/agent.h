/* The emulator's end of the runtime socket (runtime/protocol.h): sends requests, matches answers by
 * id, and treats what comes back as hostile: bounded, typed, and fatal for that container when
 * wrong.
 *
 * Every request returns 0 or a negative errno; when it returns 0 the callback is called exactly
 * once, later, from the loop. A lost runtime answers every pending request with -EPIPE. */
#ifndef SANDPIT_DRIVERS_AGENT_H
#define SANDPIT_DRIVERS_AGENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "runtime/protocol.h"

struct agent;

struct agent_answer {
    int value; /* 0 or more, or a negative errno */
    const void *payload;
    size_t size;
    /* The callee takes what it wants by steal_fd(); the rest is closed after the callback. */
    int fds[RT_FDS_MAX];
    size_t fd_count;
};
typedef void agent_done(void *arg, struct agent_answer *answer);

/* `why` of lost() when the socket closed; anything else is a broken protocol. */
#define AGENT_CLOSED "the runtime closed its socket"

struct agent_events {
    void (*hello)(void *arg);
    void (*exited)(void *arg, int pid, const struct rt_exit *how);
    /* The socket closed or the runtime broke the protocol (`why`). Called once; nothing follows. */
    void (*lost)(void *arg, const char *why);
    void *arg;
};

/* Takes the socket. */
struct agent *agent_new(struct loop *loop, int fd, struct agent_events events);
/* Pending requests are answered with -EPIPE first. Safe in any callback. */
void agent_free(struct agent *agent);

struct agent_spawn {
    const char *cwd;
    const char *const *argv; /* NULL-terminated, as env */
    const char *const *env;
    const struct rt_slot *slots;
    size_t slot_count;
    uint32_t flags, uid, gid;
    uint16_t rows, columns;
};
/* -E2BIG when it does not fit RT_MESSAGE_MAX. */
int agent_spawn(struct agent *agent, const struct agent_spawn *spawn, agent_done *done, void *arg);
int agent_fifos(struct agent *agent, agent_done *done, void *arg);
int agent_fifos_three(struct agent *agent, agent_done *done, void *arg);
void agent_fifos_drop(struct agent *agent, int number);
int agent_signal(struct agent *agent, int pid, int signal, uint32_t scope, agent_done *done,
                 void *arg); /* done may be NULL */
/* The path operations: RT_OPEN, RT_STAT, RT_LIST, RT_MKDIR, RT_REMOVE, RT_READLINK; and RT_RENAME,
 * the only one with a second path. */
int agent_path(struct agent *agent, enum rt_op op, const struct rt_path *how, const char *path,
               const char *second, agent_done *done, void *arg);
int agent_end(struct agent *agent, const struct rt_end *what, agent_done *done, void *arg);
int agent_connect(struct agent *agent, uint16_t port, bool ipv6, agent_done *done, void *arg);

#endif
