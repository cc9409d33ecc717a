/* Any messages as what a container's PID 1 answers: the agent never reads past them, answers each
 * request exactly once, and a container that breaks the protocol loses its agent, nothing else.
 * Without libFuzzer, -DFUZZ_MAIN makes a program that reads the files it is given. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REQUESTS = 10 };
static struct loop *loop;
static int answers[REQUESTS];

static void answered(void *arg, struct agent_answer *answer)
{
    int *count = arg;
    if (++*count != 1)
        abort();
    /* What a caller may read without a look of its own. */
    static volatile unsigned char sink;
    for (size_t i = 0; i < answer->size; i++)
        sink = ((const unsigned char *)answer->payload)[i];
    (void)sink;
}

static void exited(void *arg, int pid, const struct rt_exit *how)
{
    if (pid <= 0 && how->code == -1)
        abort();
}

static void hello(void *arg)
{
}

static void lost(void *arg, const char *why)
{
    if (!why)
        abort();
    loop_stop(loop);
}

static void ask(struct agent *agent)
{
    static const char *const argv[] = {"true", NULL}, *const env[] = {NULL};
    static const struct rt_slot slots[] = {{0, RT_SLOT_NULL}, {1, RT_SLOT_OUT}};
    struct agent_spawn spawn = {
        .cwd = "/", .argv = argv, .env = env, .slots = slots, .slot_count = 2};
    struct rt_path how = {0};
    int asked = 0;
    agent_spawn(agent, &spawn, answered, &answers[asked++]);
    agent_fifos(agent, answered, &answers[asked++]);
    agent_signal(agent, 2, 15, RT_SIGNAL_TREE, answered, &answers[asked++]);
    agent_path(agent, RT_OPEN, &how, "/x", NULL, answered, &answers[asked++]);
    agent_path(agent, RT_STAT, &how, "/x", NULL, answered, &answers[asked++]);
    agent_path(agent, RT_LIST, &how, "/x", NULL, answered, &answers[asked++]);
    agent_path(agent, RT_READLINK, &how, "/x", NULL, answered, &answers[asked++]);
    agent_connect(agent, 8080, false, answered, &answers[asked++]);
    agent_fifos_three(agent, answered, &answers[asked++]);
    agent_end(agent, &(struct rt_end){.pid = 2}, answered, &answers[asked++]);
}

/* Each message: one byte that says how long it is, in steps of four bytes, then its bytes. */
static void send_messages(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        size_t length = (size_t)data[0] * 4;
        data++;
        size--;
        if (length > size)
            length = size;
        if (send(fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;
        data += length;
        size -= length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds[2];
    if (!loop)
        loop = loop_new(NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        abort();
    memset(answers, 0, sizeof answers);
    struct agent_events events = {hello, exited, lost, NULL};
    struct agent *agent = agent_new(loop, fds[0], events);
    ask(agent);
    send_messages(fds[1], data, size);
    close(fds[1]);
    loop_run(loop, NULL);
    agent_free(agent);
    for (int i = 0; i < REQUESTS; i++) {
        if (answers[i] != 1)
            abort();
    }
    return 0;
}

#ifdef FUZZ_MAIN
int main(int argc, char **argv)
{
    static char bytes[1 << 20];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file)
            return 1;
        LLVMFuzzerTestOneInput((const uint8_t *)bytes, fread(bytes, 1, sizeof bytes, file));
        fclose(file);
    }
    return 0;
}
#endif
