/* The agent against a fake runtime: the other end of a socketpair, driven by hand. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/agent.h"
#include "greatest.h"

static struct {
    struct loop *loop;
    struct agent *agent;
    int peer;
    int hellos, exits, losses, answers;
    int exit_pid;
    struct rt_exit exit;
    char why[128];
    int value;
    size_t size, fd_count;
    int order[32];
    int taken; /* a descriptor that the callback kept */
    bool free_in_callback, ask_in_callback;
    int asked;
} t;

static void stop(void *arg)
{
    loop_stop(arg);
}

/* Delivers what is there now. */
static void spin(void)
{
    struct task task = {.run = stop, .arg = t.loop};
    loop_defer(t.loop, &task);
    loop_run(t.loop, NULL);
}

static void on_hello(void *arg)
{
    t.hellos++;
    if (t.free_in_callback)
        agent_free(t.agent);
}

static void on_exited(void *arg, int pid, const struct rt_exit *how)
{
    t.exits++;
    t.exit_pid = pid;
    t.exit = *how;
}

static void on_lost(void *arg, const char *why)
{
    t.losses++;
    snprintf(t.why, sizeof(t.why), "%s", why);
    if (t.free_in_callback)
        agent_free(t.agent);
}

static void on_answer(void *arg, struct agent_answer *answer)
{
    if (t.answers < 32)
        t.order[t.answers] = (int)(intptr_t)arg;
    t.answers++;
    t.value = answer->value;
    t.size = answer->size;
    t.fd_count = answer->fd_count;
    if (answer->fd_count > 0) {
        t.taken = answer->fds[0];
        answer->fds[0] = -1;
    }
    if (t.ask_in_callback)
        t.asked = agent_fifos(t.agent, on_answer, NULL);
    if (t.free_in_callback)
        agent_free(t.agent);
}

static void say(uint32_t id, uint16_t op, int value, const void *payload, size_t size)
{
    char bytes[256];
    struct rt_head head = {.id = id, .op = op, .value = value, .size = (uint32_t)size};
    memcpy(bytes, &head, sizeof(head));
    if (size)
        memcpy(bytes + sizeof(head), payload, size);
    send(t.peer, bytes, sizeof(head) + size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* As say(), with `count` copies of a descriptor. */
static void say_fds(uint32_t id, uint16_t op, const void *payload, size_t size, size_t count)
{
    char bytes[256];
    struct rt_head head = {.id = id, .op = op, .size = (uint32_t)size};
    memcpy(bytes, &head, sizeof(head));
    if (size)
        memcpy(bytes + sizeof(head), payload, size);
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * 16)];
    } control = {0};
    struct iovec part = {bytes, sizeof(head) + size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(int), &t.peer, sizeof(int));
    sendmsg(t.peer, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The next request as the runtime sees it; its id, or 0 when there is none. */
static uint32_t heard(struct rt_head *head, char *payload, size_t room)
{
    static char bytes[RT_MESSAGE_MAX];
    ssize_t size = recv(t.peer, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (size < (ssize_t)sizeof(*head))
        return 0;
    memcpy(head, bytes, sizeof(*head));
    size_t rest = (size_t)size - sizeof(*head);
    if (payload)
        memcpy(payload, bytes + sizeof(*head), rest < room ? rest : room);
    return head->id;
}

static void set_up(void *arg)
{
    memset(&t, 0, sizeof(t));
    t.taken = -1;
    int pair[2];
    t.loop = loop_new(NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    t.peer = pair[1];
    struct agent_events events = {on_hello, on_exited, on_lost, NULL};
    t.agent = agent_new(t.loop, pair[0], events);
}

static void greet(void)
{
    say(0, RT_HELLO, RT_VERSION, NULL, 0);
    spin();
}

static void tear_down(void *arg)
{
    t.ask_in_callback = false;
    if (!t.free_in_callback)
        agent_free(t.agent);
    if (t.peer >= 0)
        close(t.peer);
    if (t.taken >= 0)
        close(t.taken);
    loop_free(t.loop);
}

static uint32_t ask_stat(void)
{
    struct rt_path how = {0};
    struct rt_head head;
    if (agent_path(t.agent, RT_STAT, &how, "/x", NULL, on_answer, NULL) != 0)
        return 0;
    return heard(&head, NULL, 0);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST a_spawn_request_carries_what_the_protocol_says(void)
{
    greet();
    const char *argv[] = {"sh", "-c", NULL}, *env[] = {"A=1", NULL};
    struct rt_slot slots[] = {{0, RT_SLOT_NULL}, {1, RT_SLOT_OUT}, {9, RT_SLOT_MEMFD}};
    struct agent_spawn spawn = {
        .cwd = "/w", .argv = argv, .env = env, .slots = slots, .slot_count = 3, .uid = 7};
    ASSERT_EQ(0, agent_spawn(t.agent, &spawn, on_answer, NULL));
    struct rt_head head;
    char payload[256] = {0};
    uint32_t id = heard(&head, payload, sizeof(payload));
    ASSERT(id != 0);
    ASSERT_EQ(RT_SPAWN, head.op);
    struct rt_spawn fixed;
    memcpy(&fixed, payload, sizeof(fixed));
    ASSERT_EQ(2, fixed.argc);
    ASSERT_EQ(1, fixed.envc);
    ASSERT_EQ(3, fixed.slot_count);
    ASSERT_EQ(7, fixed.uid);
    ASSERT_EQ(0, memcmp(payload + sizeof(fixed), "/w\0sh\0-c\0A=1", 13));
    ASSERT_EQ(sizeof(fixed) + 13, head.size);
    say_fds(id, RT_SPAWN, NULL, 0, 2);
    spin();
    ASSERT_EQ(1, t.answers);
    ASSERT_EQ(2, t.fd_count);
    ASSERT(fcntl(t.taken, F_GETFD) & FD_CLOEXEC);
    PASS();
}

TEST a_spawn_that_does_not_fit_is_refused_and_nothing_is_sent(void)
{
    greet();
    char *large = malloc(RT_MESSAGE_MAX);
    memset(large, 'x', RT_MESSAGE_MAX - 1);
    large[RT_MESSAGE_MAX - 1] = '\0';
    const char *argv[] = {"sh", large, NULL};
    struct agent_spawn spawn = {.argv = argv};
    int result = agent_spawn(t.agent, &spawn, on_answer, NULL);
    free(large);
    struct rt_head head;
    ASSERT_EQ(-E2BIG, result);
    ASSERT_EQ(0, heard(&head, NULL, 0));
    PASS();
}

TEST answers_in_any_order_find_their_callback(void)
{
    greet();
    uint32_t ids[20];
    struct rt_path how = {0};
    struct rt_head head;
    for (int i = 0; i < 20; i++) {
        ASSERT_EQ(0,
                  agent_path(t.agent, RT_MKDIR, &how, "/x", NULL, on_answer, (void *)(intptr_t)i));
        ids[i] = heard(&head, NULL, 0);
    }
    for (int i = 19; i >= 0; i--)
        say(ids[i], RT_MKDIR, 0, NULL, 0);
    spin();
    ASSERT_EQ(20, t.answers);
    for (int i = 0; i < 20; i++)
        ASSERT_EQ(19 - i, t.order[i]);
    PASS();
}

TEST an_error_answer_reaches_the_callback_as_a_negative_errno(void)
{
    greet();
    say(ask_stat(), RT_STAT, -ENOENT, NULL, 0);
    spin();
    ASSERT_EQ(1, t.answers);
    ASSERT_EQ(-ENOENT, t.value);
    ASSERT_EQ(0, t.losses);
    PASS();
}

TEST a_request_that_stays_long_does_not_disturb_the_others(void)
{
    greet();
    ASSERT_EQ(0, agent_fifos(t.agent, on_answer, NULL));
    struct rt_head head;
    uint32_t old = heard(&head, NULL, 0);
    struct rt_stat st = {0};
    for (int i = 0; i < 1000; i++) {
        uint32_t id = ask_stat();
        ASSERT(id != 0 && id != old);
        say(id, RT_STAT, 0, &st, sizeof(st));
        spin();
    }
    ASSERT_EQ(1000, t.answers);
    say_fds(old, RT_FIFOS, NULL, 0, 2);
    spin();
    ASSERT_EQ(1001, t.answers);
    ASSERT_EQ(0, t.losses);
    PASS();
}

TEST an_exit_report_is_passed_on(void)
{
    greet();
    struct rt_exit how = {.code = 137, .signal = 9};
    say(0, RT_EXIT, 42, &how, sizeof(how));
    spin();
    ASSERT_EQ(1, t.exits);
    ASSERT_EQ(42, t.exit_pid);
    ASSERT_EQ(137, t.exit.code);
    PASS();
}

TEST requests_that_cannot_be_sent_wait_in_order(void)
{
    greet();
    char path[4000];
    memset(path, 'p', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    struct rt_path how = {0};
    int asked = 0;
    while (agent_path(t.agent, RT_REMOVE, &how, path, NULL, on_answer, NULL) == 0)
        asked++;
    ASSERTm("bounded by bytes", asked > 1000 && asked < 2000);
    uint32_t last = 0;
    int got = 0;
    struct rt_head head;
    for (int idle = 0; idle < 3; spin()) {
        uint32_t id = heard(&head, NULL, 0);
        idle = id ? 0 : idle + 1;
        if (!id)
            continue;
        ASSERT(id > last);
        last = id;
        got++;
    }
    ASSERT_EQ(asked, got);
    ASSERT_EQ(0, agent_fifos(t.agent, on_answer, NULL));
    PASS();
}

TEST a_full_queue_is_enobufs(void)
{
    greet();
    struct rt_path how = {0};
    char *path = calloc(1, 100 * 1024);
    memset(path, 'p', 100 * 1024 - 1);
    int result;
    while ((result = agent_path(t.agent, RT_REMOVE, &how, path, NULL, on_answer, NULL)) == 0)
        ;
    free(path);
    ASSERT_EQ(-ENOBUFS, result);
    ASSERT_EQ(0, t.losses);
    PASS();
}

TEST a_closed_socket_answers_all_pending_and_is_reported_once(void)
{
    greet();
    for (int i = 0; i < 20; i++)
        ASSERT_EQ(0, agent_fifos(t.agent, on_answer, NULL));
    close(t.peer);
    t.peer = -1;
    t.ask_in_callback = true;
    spin();
    spin();
    ASSERT_EQ(20, t.answers);
    ASSERT_EQ(-EPIPE, t.value);
    ASSERT_EQ(-EPIPE, t.asked);
    ASSERT_EQ(1, t.losses);
    ASSERT_STR_EQ(AGENT_CLOSED, t.why);
    ASSERT_EQ(-EPIPE, agent_fifos(t.agent, on_answer, NULL));
    agent_fifos_drop(t.agent, 1);
    PASS();
}

TEST dropping_fifos_asks_for_no_answer_and_has_an_id(void)
{
    greet();
    agent_fifos_drop(t.agent, 5);
    struct rt_head head;
    ASSERT(heard(&head, NULL, 0) != 0);
    ASSERT_EQ(RT_FIFOS_DROP, head.op);
    ASSERT_EQ(5, head.value);
    agent_free(t.agent);
    t.free_in_callback = true;
    ASSERT_EQ(0, t.answers);
    PASS();
}

TEST the_agent_may_be_freed_in_the_callback_of(const char *which)
{
    if (strcmp(which, "hello") != 0)
        greet();
    t.free_in_callback = true;
    if (strcmp(which, "hello") == 0) {
        greet();
    } else if (strcmp(which, "lost") == 0) {
        say(99, RT_STAT, 0, NULL, 0);
    } else {
        for (int i = 0; i < 3; i++)
            ASSERT_EQ(0, agent_fifos(t.agent, on_answer, NULL));
        if (strcmp(which, "answer") == 0)
            say(1, RT_FIFOS, -EIO, NULL, 0);
        else
            close(t.peer), t.peer = -1;
    }
    spin();
    spin();
    ASSERT_EQ(strcmp(which, "lost") == 0, t.losses);
    ASSERT_EQ(strcmp(which, "answer") == 0 || strcmp(which, "pending") == 0 ? 3 : 0, t.answers);
    PASS();
}

/* Each of these ends the connection, with its reason, and with no callback but -EPIPE. */
enum hostile {
    WRONG_ID,
    WRONG_OP,
    SHORT_STAT,
    LONG_STAT,
    ERROR_WITH_PAYLOAD,
    UNKNOWN_OP,
    WRONG_HEAD_SIZE,
    SHORT_HEAD,
    UNASKED_FDS,
    TOO_MANY_FDS,
    EVEN_MORE_FDS,
    SHORT_EXIT,
    EXIT_OF_NOBODY,
    SECOND_HELLO,
    TOO_LARGE,
    ANSWERED_TWICE,
    HOSTILE_COUNT
};

static void say_raw(size_t size)
{
    int room = 1024 * 1024;
    setsockopt(t.peer, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
    char *bytes = calloc(1, size);
    send(t.peer, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    free(bytes);
}

static void be_hostile(enum hostile kind, uint32_t id)
{
    struct rt_stat st[2] = {0};
    struct rt_exit how = {0};
    struct rt_head head = {.id = id, .op = RT_STAT, .size = 9000};
    switch (kind) {
    case WRONG_ID:
        say(id + 16, RT_STAT, 0, st, sizeof(st[0]));
        break;
    case WRONG_OP:
        say(id, RT_MKDIR, 0, NULL, 0);
        break;
    case SHORT_STAT:
        say(id, RT_STAT, 0, st, sizeof(st[0]) - 1);
        break;
    case LONG_STAT:
        say(id, RT_STAT, 0, st, sizeof(st));
        break;
    case ERROR_WITH_PAYLOAD:
        say(id, RT_STAT, -ENOENT, st, sizeof(st[0]));
        break;
    case UNKNOWN_OP:
        say(id, 999, 0, NULL, 0);
        break;
    case WRONG_HEAD_SIZE:
        send(t.peer, &head, sizeof(head), MSG_DONTWAIT);
        break;
    case SHORT_HEAD:
        say_raw(3);
        break;
    case UNASKED_FDS:
        say_fds(0, RT_EXIT, &how, sizeof(how), 1);
        break;
    case TOO_MANY_FDS:
        say_fds(id, RT_STAT, st, sizeof(st[0]), 1);
        break;
    case EVEN_MORE_FDS:
        say_fds(id, RT_STAT, st, sizeof(st[0]), 12);
        break;
    case SHORT_EXIT:
        say(0, RT_EXIT, 42, &how, sizeof(how) - 1);
        break;
    case EXIT_OF_NOBODY:
        say(0, RT_EXIT, -1, &how, sizeof(how));
        break;
    case SECOND_HELLO:
        say(0, RT_HELLO, RT_VERSION, NULL, 0);
        break;
    case TOO_LARGE:
        say_raw(RT_MESSAGE_MAX + 1);
        break;
    case ANSWERED_TWICE:
        say(id, RT_STAT, 0, st, sizeof(st[0]));
        say(id, RT_STAT, 0, st, sizeof(st[0]));
        break;
    case HOSTILE_COUNT:
        break;
    }
}

TEST a_hostile_answer_loses_the_runtime_and_leaks_nothing(enum hostile kind)
{
    greet();
    uint32_t id = ask_stat();
    int before = open_descriptors();
    be_hostile(kind, id);
    spin();
    spin();
    ASSERT_EQm("lost once", 1, t.losses);
    ASSERTm("with a reason", strcmp(t.why, AGENT_CLOSED) != 0 && t.why[0]);
    ASSERT_EQm("the pending request is answered once", 1, t.answers);
    ASSERT_EQ(kind == ANSWERED_TWICE ? 0 : -EPIPE, t.value);
    ASSERT_EQ(0, t.exits);
    ASSERT_EQm("only the socket is closed", before - 1, open_descriptors());
    PASS();
}

TEST another_protocol_version_is_refused(void)
{
    say(0, RT_HELLO, RT_VERSION + 1, NULL, 0);
    spin();
    ASSERT_EQ(0, t.hellos);
    ASSERT_EQ(1, t.losses);
    PASS();
}

TEST nothing_is_believed_before_hello(void)
{
    struct rt_exit how = {0};
    say(0, RT_EXIT, 42, &how, sizeof(how));
    spin();
    ASSERT_EQ(0, t.exits);
    ASSERT_EQ(1, t.losses);
    PASS();
}

TEST a_flood_leaves_the_loop_to_others(void)
{
    greet();
    struct rt_exit how = {0};
    for (int i = 0; i < 200; i++)
        say(0, RT_EXIT, 42, &how, sizeof(how));
    spin();
    ASSERTm("one turn takes a part", t.exits > 0 && t.exits < 200);
    int turns = 0;
    for (; t.exits < 200 && turns < 20; turns++)
        spin();
    ASSERT_EQ(200, t.exits);
    ASSERT_EQ(0, t.losses);
    PASS();
}

SUITE(agent)
{
    SET_SETUP(set_up, NULL);
    SET_TEARDOWN(tear_down, NULL);
    RUN_TEST(a_spawn_request_carries_what_the_protocol_says);
    RUN_TEST(a_spawn_that_does_not_fit_is_refused_and_nothing_is_sent);
    RUN_TEST(answers_in_any_order_find_their_callback);
    RUN_TEST(an_error_answer_reaches_the_callback_as_a_negative_errno);
    RUN_TEST(a_request_that_stays_long_does_not_disturb_the_others);
    RUN_TEST(an_exit_report_is_passed_on);
    RUN_TEST(requests_that_cannot_be_sent_wait_in_order);
    RUN_TEST(a_full_queue_is_enobufs);
    RUN_TEST(a_closed_socket_answers_all_pending_and_is_reported_once);
    RUN_TEST(dropping_fifos_asks_for_no_answer_and_has_an_id);
    RUN_TEST1(the_agent_may_be_freed_in_the_callback_of, "hello");
    RUN_TEST1(the_agent_may_be_freed_in_the_callback_of, "answer");
    RUN_TEST1(the_agent_may_be_freed_in_the_callback_of, "pending");
    RUN_TEST1(the_agent_may_be_freed_in_the_callback_of, "lost");
    for (enum hostile kind = 0; kind < HOSTILE_COUNT; kind++)
        RUN_TEST1(a_hostile_answer_loses_the_runtime_and_leaks_nothing, kind);
    RUN_TEST(another_protocol_version_is_refused);
    RUN_TEST(nothing_is_believed_before_hello);
    RUN_TEST(a_flood_leaves_the_loop_to_others);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(agent);
    GREATEST_MAIN_END();
}
