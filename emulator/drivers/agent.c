#include "drivers/agent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/cleanup.h"

enum {
    TABLE_START = 16, /* slots; always a power of two */
    TABLE_MAX = 65536,
    QUEUE_MAX = 4 * 1024 * 1024,
    /* Messages taken in one turn of the loop, so that a flood from one container does not hold up
     * the others. */
    TURN_MESSAGES = 64,
    TARGET_MAX = 4096, /* of a symbolic link */
};

struct pending {
    agent_done *done;
    void *arg;
    uint32_t id; /* 0: the slot is free */
    uint16_t op;
    uint16_t fds; /* descriptors that a good answer carries */
};

struct queued {
    struct queued *next;
    size_t size;
    unsigned char bytes[];
};

struct agent {
    struct loop *loop;
    struct watch watch;
    struct agent_events events;
    struct pending *table; /* the slot of an id is id & (slots - 1) */
    uint32_t slots, used, last_id;
    struct queued *head, **tail;
    size_t queue_bytes;
    unsigned depth; /* callbacks on the stack; the memory outlives them */
    bool greeted, lost, freed;
};

/* One message on its way out or in. There is one thread, a request is sent or copied before it
 * returns, and callbacks never run the loop, so one of each serves every agent. */
static unsigned char outgoing[RT_MESSAGE_MAX] __attribute__((aligned(16)));
static unsigned char incoming[RT_MESSAGE_MAX] __attribute__((aligned(16)));

/* What an answer to each request must look like; checked before its callback sees it. */
static const struct {
    uint16_t least, most; /* bytes of payload in a good answer */
    uint16_t fds;         /* descriptors in a good answer; a spawn's depend on its slots */
} shapes[] = {
    [RT_SPAWN] = {0, 0, 0},
    [RT_FIFOS] = {0, 0, 2},
    [RT_SIGNAL] = {0, 0, 0},
    [RT_OPEN] = {sizeof(struct rt_stat), sizeof(struct rt_stat), 1},
    [RT_STAT] = {sizeof(struct rt_stat), sizeof(struct rt_stat), 0},
    [RT_LIST] = {0, 0, 1},
    [RT_MKDIR] = {0, 0, 0},
    [RT_RENAME] = {0, 0, 0},
    [RT_REMOVE] = {0, 0, 0},
    [RT_READLINK] = {0, TARGET_MAX, 0},
    [RT_CONNECT] = {0, 0, 1},
    [RT_END] = {0, 0, 0},
};

static void enter(struct agent *agent)
{
    agent->depth++;
}

static void leave(struct agent *agent)
{
    if (--agent->depth > 0 || !agent->freed)
        return;
    free(agent->table);
    free(agent);
}

static void queue_clear(struct agent *agent)
{
    while (agent->head) {
        struct queued *next = agent->head->next;
        free(agent->head);
        agent->head = next;
    }
    agent->tail = &agent->head;
    agent->queue_bytes = 0;
}

/* Stops all traffic and answers what is pending with -EPIPE. */
static void shut(struct agent *agent)
{
    agent->lost = true;
    int fd = agent->watch.fd;
    if (fd >= 0) {
        loop_unwatch(agent->loop, &agent->watch);
        close(fd);
    }
    queue_clear(agent);
    for (uint32_t i = 0; i < agent->slots && agent->used > 0; i++) {
        struct pending *slot = &agent->table[i];
        if (slot->id == 0)
            continue;
        slot->id = 0;
        agent->used--;
        struct agent_answer answer = {.value = -EPIPE};
        if (slot->done)
            slot->done(slot->arg, &answer);
    }
}

/* Only ever from ready(), which keeps the memory. */
static void lose(struct agent *agent, const char *why)
{
    if (agent->lost)
        return;
    shut(agent);
    if (!agent->freed && agent->events.lost)
        agent->events.lost(agent->events.arg, why);
}

void agent_free(struct agent *agent)
{
    if (!agent || agent->freed)
        return;
    enter(agent);
    agent->freed = true;
    shut(agent);
    leave(agent);
}

/* --- Answers ---------------------------------------------------------------------------------- */

struct message {
    struct rt_head head;
    struct agent_answer answer;
};

static void close_fds(struct agent_answer *answer)
{
    for (size_t i = 0; i < answer->fd_count && i < RT_FDS_MAX; i++) {
        if (answer->fds[i] >= 0)
            close(answer->fds[i]);
    }
    answer->fd_count = 0;
}

static void take_fds(struct msghdr *header, struct agent_answer *answer)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (answer->fd_count < RT_FDS_MAX)
                answer->fds[answer->fd_count++] = fd;
            else
                close(fd);
        }
    }
}

/* Returns NULL, or what is wrong with an answer. */
static const char *check_answer(const struct message *message, const struct pending *slot)
{
    const struct rt_head *head = &message->head;
    if (head->op != slot->op)
        return "the runtime broke the protocol: answer to another operation";
    if (head->value < 0) {
        if (message->answer.fd_count != 0 || head->size != 0)
            return "the runtime broke the protocol: error with contents";
        return NULL;
    }
    if (head->size < shapes[head->op].least || head->size > shapes[head->op].most)
        return "the runtime broke the protocol: answer of a wrong size";
    if (message->answer.fd_count != slot->fds)
        return "the runtime broke the protocol: wrong number of descriptors";
    return NULL;
}

static const char *answered(struct agent *agent, struct message *message)
{
    uint32_t id = message->head.id;
    struct pending *slot = agent->slots ? &agent->table[id & (agent->slots - 1)] : NULL;
    if (!slot || slot->id != id)
        return "the runtime broke the protocol: answer to nothing asked";
    const char *wrong = check_answer(message, slot);
    if (wrong)
        return wrong;
    struct pending taken = *slot;
    slot->id = 0;
    agent->used--;
    if (taken.done)
        taken.done(taken.arg, &message->answer);
    return NULL;
}

/* The two things that the runtime says unasked. */
static const char *announced(struct agent *agent, struct message *message)
{
    const struct rt_head *head = &message->head;
    if (message->answer.fd_count != 0)
        return "the runtime broke the protocol: descriptors that nobody asked for";
    if (head->op == RT_HELLO && !agent->greeted) {
        if (head->value != RT_VERSION)
            return "the runtime speaks another version of the protocol";
        agent->greeted = true;
        if (agent->events.hello)
            agent->events.hello(agent->events.arg);
        return NULL;
    }
    if (head->op != RT_EXIT || !agent->greeted)
        return "the runtime broke the protocol: unexpected message";
    if (head->size != sizeof(struct rt_exit) || head->value <= 0)
        return "the runtime broke the protocol: bad exit report";
    if (agent->events.exited)
        agent->events.exited(agent->events.arg, head->value, message->answer.payload);
    return NULL;
}

static const char *dispatch(struct agent *agent, struct message *message, size_t size)
{
    struct rt_head *head = &message->head;
    if (size >= sizeof(*head))
        memcpy(head, incoming, sizeof(*head));
    if (size < sizeof(*head) || head->size != size - sizeof(*head))
        return "the runtime broke the protocol: wrong message size";
    message->answer.value = head->value;
    message->answer.payload = incoming + sizeof(*head);
    message->answer.size = head->size;
    if (head->id == 0)
        return announced(agent, message);
    if (head->op >= sizeof(shapes) / sizeof(shapes[0]))
        return "the runtime broke the protocol: unknown operation";
    return answered(agent, message);
}

/* Takes one message; false when there is none, or no agent any more. */
static bool receive(struct agent *agent)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * RT_FDS_MAX)];
    } control;
    struct iovec part = {.iov_base = incoming, .iov_len = sizeof(incoming)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    ssize_t size = recvmsg(agent->watch.fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    /* The kernel may be short of memory for a moment; the message stays. */
    if (size < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS))
        return false;
    if (size <= 0) {
        lose(agent, AGENT_CLOSED);
        return false;
    }
    struct message message = {.answer.value = 0};
    take_fds(&header, &message.answer);
    const char *wrong = header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)
                            ? "the runtime broke the protocol: message too large"
                            : dispatch(agent, &message, (size_t)size);
    close_fds(&message.answer);
    if (wrong && !agent->lost)
        lose(agent, wrong);
    return !agent->lost;
}

/* --- Requests --------------------------------------------------------------------------------- */

static int transmit(struct agent *agent, const void *bytes, size_t size)
{
    ssize_t sent;
    do
        sent = send(agent->watch.fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static void flush(struct agent *agent)
{
    while (agent->head) {
        int error = transmit(agent, agent->head->bytes, agent->head->size);
        if (error == -EAGAIN)
            return;
        if (error) {
            lose(agent, "the runtime's socket failed");
            return;
        }
        struct queued *sent = agent->head;
        agent->head = sent->next;
        agent->queue_bytes -= sent->size;
        free(sent);
    }
    agent->tail = &agent->head;
    loop_rewatch(agent->loop, &agent->watch, EPOLLIN);
}

static int enqueue(struct agent *agent, size_t size)
{
    if (agent->queue_bytes + size > QUEUE_MAX)
        return -ENOBUFS;
    struct queued *queued = malloc(sizeof(*queued) + size);
    if (!queued)
        return -ENOMEM;
    if (!agent->head) {
        int error = loop_rewatch(agent->loop, &agent->watch, EPOLLIN | EPOLLOUT);
        if (error) {
            free(queued);
            return error;
        }
    }
    queued->next = NULL;
    queued->size = size;
    memcpy(queued->bytes, outgoing, size);
    *agent->tail = queued;
    agent->tail = &queued->next;
    agent->queue_bytes += size;
    return 0;
}

static void ready(void *arg, uint32_t events)
{
    struct agent *agent = arg;
    enter(agent);
    if (events & EPOLLOUT)
        flush(agent);
    for (int i = 0; !agent->lost && i < TURN_MESSAGES; i++) {
        if (!receive(agent))
            break;
    }
    leave(agent);
}

static int grow(struct agent *agent)
{
    uint32_t slots = agent->slots ? agent->slots * 2 : TABLE_START;
    if (slots > TABLE_MAX)
        return -ENOBUFS;
    struct pending *table = calloc(slots, sizeof(*table));
    if (!table)
        return -ENOMEM;
    for (uint32_t i = 0; i < agent->slots; i++) {
        if (agent->table[i].id)
            table[agent->table[i].id & (slots - 1)] = agent->table[i];
    }
    free(agent->table);
    agent->table = table;
    agent->slots = slots;
    return 0;
}

/* 0 is no id: it marks what the runtime says unasked. */
static uint32_t next_id(struct agent *agent)
{
    if (++agent->last_id == 0)
        agent->last_id = 1;
    return agent->last_id;
}

/* Finds the next id whose slot is free. Ids whose slot is taken are passed over, so a request that
 * stays long does not make the table grow. */
static int reserve(struct agent *agent, struct pending **slot)
{
    if (agent->used == agent->slots) {
        int error = grow(agent);
        if (error)
            return error;
    }
    do
        *slot = &agent->table[next_id(agent) & (agent->slots - 1)];
    while ((*slot)->id != 0);
    return 0;
}

struct request {
    enum rt_op op;
    int value;
    size_t size; /* of the payload, which is in outgoing, after the head */
    size_t fds;
    agent_done *done;
    void *arg;
};

static int post(struct agent *agent, const struct request *request, uint32_t id)
{
    struct rt_head head = {.id = id,
                           .op = (uint16_t)request->op,
                           .value = request->value,
                           .size = (uint32_t)request->size};
    memcpy(outgoing, &head, sizeof(head));
    size_t size = sizeof(head) + request->size;
    int error = agent->head ? -EAGAIN : transmit(agent, outgoing, size);
    return error == -EAGAIN ? enqueue(agent, size) : error;
}

static int ask(struct agent *agent, const struct request *request)
{
    if (agent->lost)
        return -EPIPE;
    struct pending *slot;
    int error = reserve(agent, &slot);
    if (!error)
        error = post(agent, request, agent->last_id);
    if (error)
        return error;
    *slot = (struct pending){.done = request->done,
                             .arg = request->arg,
                             .id = agent->last_id,
                             .op = (uint16_t)request->op,
                             .fds = (uint16_t)request->fds};
    agent->used++;
    return 0;
}

/* Appends to the payload in outgoing; -E2BIG when it does not fit. */
static int put(struct request *request, const void *data, size_t size)
{
    size_t at = sizeof(struct rt_head) + request->size;
    if (size > sizeof(outgoing) - at)
        return -E2BIG;
    memcpy(outgoing + at, data, size);
    request->size += size;
    return 0;
}

static int put_list(struct request *request, const char *const *list, uint16_t *count)
{
    for (*count = 0; list && list[*count]; ++*count) {
        int error =
            *count == UINT16_MAX ? -E2BIG : put(request, list[*count], strlen(list[*count]) + 1);
        if (error)
            return error;
    }
    return 0;
}

static size_t slot_fds(const struct agent_spawn *spawn)
{
    size_t count = spawn->flags & RT_SPAWN_PTY ? 1 : 0;
    for (size_t i = 0; i < spawn->slot_count; i++)
        count += spawn->slots[i].kind != RT_SLOT_NULL;
    return count;
}

struct agent *agent_new(struct loop *loop, int fd, struct agent_events events)
{
    struct agent *agent = calloc(1, sizeof(*agent));
    if (!agent) {
        close(fd);
        return NULL;
    }
    agent->loop = loop;
    agent->events = events;
    agent->tail = &agent->head;
    agent->watch = (struct watch){.ready = ready, .arg = agent, .fd = -1};
    if (loop_watch(loop, &agent->watch, fd, EPOLLIN) < 0) {
        close(fd);
        free(agent);
        return NULL;
    }
    return agent;
}

int agent_spawn(struct agent *agent, const struct agent_spawn *spawn, agent_done *done, void *arg)
{
    if (spawn->slot_count > RT_SLOTS_MAX || !spawn->argv || !spawn->argv[0])
        return -EINVAL;
    struct rt_spawn fixed = {.flags = spawn->flags,
                             .uid = spawn->uid,
                             .gid = spawn->gid,
                             .rows = spawn->rows,
                             .columns = spawn->columns,
                             .slot_count = (uint32_t)spawn->slot_count};
    if (spawn->slot_count)
        memcpy(fixed.slots, spawn->slots, spawn->slot_count * sizeof(*spawn->slots));
    struct request request = {.op = RT_SPAWN, .fds = slot_fds(spawn), .done = done, .arg = arg};
    const char *cwd = spawn->cwd ? spawn->cwd : RT_DEFAULT_DIR;
    int error = put(&request, &fixed, sizeof(fixed));
    if (!error)
        error = put(&request, cwd, strlen(cwd) + 1);
    if (!error)
        error = put_list(&request, spawn->argv, &fixed.argc);
    if (!error)
        error = put_list(&request, spawn->env, &fixed.envc);
    if (error)
        return error;
    memcpy(outgoing + sizeof(struct rt_head), &fixed, sizeof(fixed));
    return ask(agent, &request);
}

int agent_fifos(struct agent *agent, agent_done *done, void *arg)
{
    return ask(agent, &(struct request){
                          .op = RT_FIFOS, .fds = shapes[RT_FIFOS].fds, .done = done, .arg = arg});
}

int agent_fifos_three(struct agent *agent, agent_done *done, void *arg)
{
    return ask(agent, &(struct request){
                          .op = RT_FIFOS, .value = 3, .fds = 3, .done = done, .arg = arg});
}

void agent_fifos_drop(struct agent *agent, int number)
{
    /* Nothing answers this one. When it cannot be sent, two names stay in the container's /dev. */
    if (!agent->lost)
        post(agent, &(struct request){.op = RT_FIFOS_DROP, .value = number}, next_id(agent));
}

int agent_signal(struct agent *agent, int pid, int signal, uint32_t scope, agent_done *done,
                 void *arg)
{
    struct rt_signal fixed = {.pid = pid, .signal = signal, .scope = scope};
    struct request request = {.op = RT_SIGNAL, .done = done, .arg = arg};
    int error = put(&request, &fixed, sizeof(fixed));
    return error ? error : ask(agent, &request);
}

int agent_end(struct agent *agent, const struct rt_end *what, agent_done *done, void *arg)
{
    struct request request = {.op = RT_END, .done = done, .arg = arg};
    int error = put(&request, what, sizeof(*what));
    return error ? error : ask(agent, &request);
}

int agent_path(struct agent *agent, enum rt_op op, const struct rt_path *how, const char *path,
               const char *second, agent_done *done, void *arg)
{
    struct request request = {.op = op, .fds = shapes[op].fds, .done = done, .arg = arg};
    int error = put(&request, how, sizeof(*how));
    if (!error)
        error = put(&request, path, strlen(path) + 1);
    if (!error && second)
        error = put(&request, second, strlen(second) + 1);
    return error ? error : ask(agent, &request);
}

int agent_connect(struct agent *agent, uint16_t port, bool ipv6, agent_done *done, void *arg)
{
    struct rt_connect fixed = {.port = port, .ipv6 = ipv6};
    struct request request = {
        .op = RT_CONNECT, .fds = shapes[RT_CONNECT].fds, .done = done, .arg = arg};
    int error = put(&request, &fixed, sizeof(fixed));
    return error ? error : ask(agent, &request);
}
