/* What the parts of the runtime share. The runtime is PID 1 of a container: one thread, one poll
 * loop, nothing but libc. A handler of a request returns the value of the answer (0 or more, or a
 * negative errno) and fills a struct answer; main.c sends it. */
#ifndef SANDPIT_RUNTIME_RUNTIME_H
#define SANDPIT_RUNTIME_RUNTIME_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "runtime/protocol.h"

static inline void runtime_cleanup_fd(const int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
    }
}
#define CLEANUP_FD __attribute__((cleanup(runtime_cleanup_fd)))

/* message.c: bounded requests in, answers out. */
struct request {
    uint32_t id;
    uint16_t op;
    int32_t value;
    char *payload; /* valid until the next message_receive */
    size_t size;
};
struct answer {
    char payload[PATH_MAX];
    size_t size;
    int fds[RT_FDS_MAX]; /* closed once sent */
    size_t fd_count;
    bool later; /* the handler answers by itself, or the request has no answer */
};
/* A cursor over a payload. Each take fails (false, NULL) when what is left is too short. */
struct reader {
    char *at;
    size_t left;
};

/* 0; -EAGAIN when nothing waits; -EPIPE when the emulator is gone; -EBADMSG when the message made
 * no sense (and was answered so). */
int message_receive(struct request *request);
void message_answer(uint32_t id, uint16_t op, int value, struct answer *answer);
void message_value(uint32_t id, uint16_t op, int value);
void message_exit(pid_t pid, int wait_status);
void answer_fd(struct answer *answer, int fd); /* takes the descriptor */
struct reader reader_of(const struct request *request);
bool reader_take(struct reader *reader, void *out, size_t size);
char *reader_string(struct reader *reader);

/* privileges.c */
void privileges_limit(void);

/* spawn.c; spawn_init opens what every spawn uses. */
void spawn_init(void);
int spawn_request(const struct request *request, struct answer *answer);

/* reap.c: the processes we must tell of. */
int reap_reserve(void);                                /* room for one more, or -EAGAIN, -ENOMEM */
void reap_spawned(pid_t pid);                          /* after reap_reserve */
void reap_worker(pid_t pid, uint32_t id, uint16_t op); /* its exit status answers that request */
bool reap_knows(pid_t pid);              /* spawned on request and not reported ended */
int reap_answer_when_empty(uint32_t id); /* RT_SIGNAL_ALL */
bool reap_run(void);                     /* true: there may be more to reap at once */
/* Forks a worker with no signal blocked and no descriptor but the two kept (-1: none). 0 in it. */
pid_t reap_fork(int keep, int keep_too);

/* tree.c: processes, each behind its parent, so read backwards it is leaves first. */
struct tree {
    pid_t *pids;
    size_t count, room;
};
void tree_add(struct tree *tree, pid_t pid);
void tree_add_children(struct tree *tree, pid_t pid);

/* signals.c */
int signals_request(const struct request *request, struct answer *answer);

/* end.c */
int end_request(const struct request *request, struct answer *answer);

/* paths.c */
int paths_open(const struct request *request, struct answer *answer);
int paths_stat(const struct request *request, struct answer *answer);
int paths_mkdir(const struct request *request, struct answer *answer);
int paths_rename(const struct request *request, struct answer *answer);
int paths_readlink(const struct request *request, struct answer *answer);
/* One path request taken apart: the directory to start at (AT_FDCWD for an absolute path) is
 * returned in *base, to be closed with CLEANUP_FD. */
int paths_parse(const struct request *request, uint32_t flags, struct rt_path *how, char **path,
                char **second, int *base);
void paths_fill_stat(struct rt_stat *out, const struct stat *st);

/* listing.c, remove.c */
int listing_request(const struct request *request, struct answer *answer);
int remove_request(const struct request *request, struct answer *answer);

/* walk.c: depth first, links never followed, however deep, with a bounded number of open
 * directories. Both callbacks get the directory that holds `name`; leave gets -1 when that was
 * moved away meanwhile. */
struct walk_visitor {
    /* 1: descend, 0: go on, negative errno: end the walk. */
    int (*entry)(void *arg, int dir, const char *name);
    /* After everything below `name` was visited, or when it could not be entered (error). */
    int (*leave)(void *arg, int dir, const char *name, int error);
    void *arg;
};
int walk_tree(int top, const struct walk_visitor *visitor); /* takes top */

/* ports.c, fifos.c */
int ports_hold(void);         /* a listening descriptor, or a negative errno */
bool ports_turn_away(int fd); /* false: accepting fails, try again later */
int ports_connect(const struct request *request, struct answer *answer);
void fifos_init(void);
int fifos_make(const struct request *request, struct answer *answer);
int fifos_drop(const struct request *request, struct answer *answer);

#endif
