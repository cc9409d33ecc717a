/* The runtime, as PID 1 of a real sandbox. Each test has a container of its own. */
#include "runtime_client.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

#include "greatest.h"

/* ---- life and messages ---- */

TEST exits_when_its_socket_closes(void)
{
    int status = box_stop();

    ASSERTm("the runtime ended by itself", WIFEXITED(status));
    ASSERT_EQ(0, WEXITSTATUS(status));
    ASSERT(box_start());
    PASS();
}

TEST it_is_pid_1_and_holds_nothing_of_the_host(void)
{
    const char *argv[] = {"bash", "-c", "read -r; readlink /proc/1/fd/* | sed 's/:.*//' | sort -u",
                          NULL};
    struct rt_spawn how = plain;
    struct reply reply;
    char text[256];
    int pid;

    ASSERT_STR_EQ("init", shell("cat /proc/1/comm"));
    if (geteuid() != 0)
        SKIPm("only root may look at the descriptors of PID 1");
    how.slots[0].kind = RT_SLOT_IN;
    pid = box_spawn(how, "/", argv, plain_env, &reply);
    ASSERT(pid > 0);
    /* With the next answer the runtime has closed its copies of what it just handed out. */
    ASSERT_EQ(1, box_signal(pid, 0, RT_SIGNAL_PROCESS));
    ASSERT_EQ(1, write(reply.fds[0], "\n", 1));
    read_all(reply.fds[1], text, sizeof text);
    ASSERT_STR_EQ("/dev/null\nanon_inode\nsocket\n", text);
    box_wait_exit(pid);
    close(reply.fds[0]);
    PASS();
}

TEST as_another_pid_it_answers_for_its_own_tree_only(void)
{
    char text[16];
    int status;
    int out;
    int pid;

    box_stop();
    box_as_pid_1 = false;
    start_box(NULL);
    box_as_pid_1 = true;
    /* Its parent ends at once, so this one is an orphan: ours, not PID 1's. */
    pid = shell_start("(setsid sleep 1000 &)", &out);
    ASSERT_EQ(0, box_wait_exit(pid).code);
    ASSERT_EQ(0, box_signal(0, SIGKILL, RT_SIGNAL_ALL));
    ASSERT_EQ(0, read_all(out, text, sizeof text));
    ASSERT_STR_EQ("bwrap", shell("cat /proc/1/comm"));
    status = box_stop();
    ASSERT(WIFEXITED(status));
    ASSERT_EQ(0, WEXITSTATUS(status));
    start_box(NULL);
    PASS();
}

TEST malformed_messages_are_answered_and_survived(void)
{
    static char big[RT_MESSAGE_MAX + 4096];
    struct reply reply;
    struct rt_head head = {.id = 7, .op = RT_SPAWN, .size = 99};
    struct rt_spawn how = plain;
    const char *argv[] = {"true", NULL};

    box_raw("xyz", 3); /* shorter than a head: answered without an id */
    ASSERT(box_receive(&reply));
    ASSERT_EQ(-EBADMSG, reply.head.value);
    box_raw(&head, sizeof head); /* a size that lies */
    box_await(7, &reply);
    ASSERT_EQ(-EBADMSG, reply.head.value);
    memcpy(big, &head, sizeof head);
    if (send(box.fd, big, sizeof big, MSG_NOSIGNAL) > 0) { /* longer than any message may be */
        box_await(7, &reply);
        ASSERT_EQ(-EBADMSG, reply.head.value);
    }
    for (int op = 0; op < 40; op++) { /* an empty payload, for each operation */
        if (op == RT_FIFOS || op == RT_FIFOS_DROP)
            continue;
        ASSERT_EQ(-EBADMSG, box_call((enum rt_op)op, NULL, 0, &reply));
        ASSERT_EQ(-EBADMSG, box_call((enum rt_op)op, "abc", 3, &reply));
        memset(big, 0xff, 4096);
        ASSERT_EQ(-EBADMSG, box_call((enum rt_op)op, big, 4096, &reply));
    }
    how.slots[1].fd = 0; /* one descriptor twice */
    ASSERT_EQ(-EBADMSG, box_spawn(how, "/", argv, plain_env, &reply));
    how.slots[1].fd = 64;
    ASSERT_EQ(-EBADMSG, box_spawn(how, "/", argv, plain_env, &reply));
    how.slots[1].fd = -1;
    ASSERT_EQ(-EBADMSG, box_spawn(how, "/", argv, plain_env, &reply));
    how.slots[1] = (struct rt_slot){1, 77};
    ASSERT_EQ(-EBADMSG, box_spawn(how, "/", argv, plain_env, &reply));
    how.slot_count = UINT32_MAX;
    ASSERT_EQ(-EBADMSG, box_spawn(how, "/", argv, plain_env, &reply));
    ASSERT_STR_EQ("alive", shell("echo alive"));
    PASS();
}

TEST random_payloads_never_stop_it(void)
{
    unsigned char noise[600];
    struct reply reply;
    uint32_t state = 12345;

    for (int round = 0; round < 3000; round++) {
        enum rt_op op = (enum rt_op)(round % 16);
        size_t size = round * 7 % sizeof noise;

        for (size_t i = 0; i < size; i++) {
            state = state * 1664525 + 1013904223;
            noise[i] = state >> 28 ? 0 : (unsigned char)(state >> 20); /* mostly zeros */
        }
        if (op == RT_FIFOS_DROP || op == RT_SIGNAL)
            continue;
        box_call(op, noise, size, &reply);
        reply_close(&reply);
    }
    ASSERT_STR_EQ("alive", shell("echo alive"));
    PASS();
}

/* ---- spawn ---- */

TEST exit_codes_and_signals_are_reported(void)
{
    struct rt_exit how;
    int out;
    int pid = shell_start("exit 42", &out);

    how = box_wait_exit(pid);
    close(out);
    ASSERT_EQ(42, how.code);
    ASSERT_EQ(0, how.signal);
    pid = shell_start("kill -SEGV $$", &out);
    how = box_wait_exit(pid);
    close(out);
    ASSERT_EQ(128 + SIGSEGV, how.code);
    ASSERT_EQ(SIGSEGV, how.signal);
    PASS();
}

TEST spawn_failures_are_told_at_once(void)
{
    static const struct {
        const char *cwd, *program;
        int expected;
    } cases[] = {
        {"/workspace", "no-such-program", -ENOENT},
        {"/workspace", "/nowhere/x", -ENOENT},
        {"/workspace", "/usr", -EACCES},
        {"/no/such/dir", "true", -ENOENT},
        {"/dev/null", "true", -ENOTDIR},
        {"/workspace", "", -ENOENT},
    };
    struct reply reply;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *argv[] = {cases[i].program, NULL};

        ASSERT_EQ(cases[i].expected, box_spawn(plain, cases[i].cwd, argv, plain_env, &reply));
        ASSERT_EQ(0, reply.fd_count);
    }
    PASS();
}

TEST a_missing_directory_falls_back_to_home_when_asked(void)
{
    const char *argv[] = {"pwd", NULL};
    struct rt_spawn how = plain;
    struct reply reply;
    char text[256];
    int pid;

    how.flags = RT_SPAWN_HOME;
    pid = box_spawn(how, "/no/such", argv, plain_env, &reply);
    ASSERT(pid > 0);
    read_all(reply.fds[0], text, sizeof text);
    ASSERT_STR_EQ("/tmp\n", text);
    box_wait_exit(pid);
    pid = box_spawn(how, "/no/such", argv, NULL, &reply); /* no HOME, and no /root here */
    ASSERT(pid > 0);
    read_all(reply.fds[0], text, sizeof text);
    ASSERT_STR_EQ("/\n", text);
    box_wait_exit(pid);
    PASS();
}

TEST a_command_is_found_in_the_path_of_its_own_environment(void)
{
    const char *argv[] = {"mine", NULL};
    const char *env[] = {"PATH=/nowhere:/tmp/x:/usr/bin", NULL};
    struct reply reply;
    char text[64];
    int pid;

    shell("mkdir /tmp/x; printf '#!/bin/sh\\necho found' >/tmp/x/mine; chmod 755 /tmp/x/mine");
    ASSERT_EQ(-ENOENT, box_spawn(plain, "/", argv, plain_env, &reply));
    pid = box_spawn(plain, "/", argv, env, &reply);
    ASSERT(pid > 0);
    read_all(reply.fds[0], text, sizeof text);
    ASSERT_STR_EQ("found\n", text);
    box_wait_exit(pid);
    PASS();
}

TEST a_process_has_its_slots_and_nothing_else(void)
{
    const char *argv[] = {"ls", "/proc/self/fd", NULL};
    struct rt_spawn how = plain;
    struct reply reply;
    char text[256];
    int pid = box_spawn(how, "/", argv, plain_env, &reply);

    ASSERT(pid > 0);
    read_all(reply.fds[0], text, sizeof text);
    ASSERT_STR_EQ("0\n1\n2\n3\n", text); /* 3 is the directory that ls reads */
    box_wait_exit(pid);
    ASSERT_STR_EQ("2", shell("grep -Ec 'Sig(Blk|Ign):.0{16}$' /proc/self/status"));
    ASSERT_STR_EQ("0022", shell("umask"));
    PASS();
}

TEST slots_reach_any_descriptor_in_any_order(void)
{
    const char *argv[] = {"bash", "-c", "read -r -u 3 b; read -r -u 9 a; echo $a:$b >&63; echo o",
                          NULL};
    struct rt_spawn how = {
        .slot_count = 6,
        .slots = {{63, RT_SLOT_OUT},
                  {9, RT_SLOT_MEMFD},
                  {3, RT_SLOT_IN},
                  {2, RT_SLOT_NULL},
                  {1, RT_SLOT_OUT},
                  {0, RT_SLOT_NULL}},
    };
    struct reply reply;
    char text[256];
    int pid = box_spawn(how, "/", argv, plain_env, &reply);

    ASSERT(pid > 0);
    ASSERT_EQ(4, reply.fd_count); /* 63, 9, 3, 1 */
    /* The process waits for 3, so 9 is filled by the time it looks there. */
    ASSERT_EQ(5, pwrite(reply.fds[1], "text\n", 5, 0));
    ASSERT_EQ(3, write(reply.fds[2], "in\n", 3));
    ASSERT(fcntl(reply.fds[2], F_GETFL) & O_NONBLOCK);
    ASSERT(fcntl(reply.fds[0], F_GETFL) & O_NONBLOCK);
    read_all(reply.fds[0], text, sizeof text);
    ASSERT_STR_EQ("text:in\n", text);
    ASSERT_EQ(5, lseek(reply.fds[1], 0, SEEK_CUR)); /* one position for both sides */
    read_all(reply.fds[3], text, sizeof text);
    ASSERT_STR_EQ("o\n", text);
    box_wait_exit(pid);
    close(reply.fds[1]);
    close(reply.fds[2]);
    PASS();
}

TEST the_other_end_of_a_pipe_blocks(void)
{
    ASSERT_STR_EQ("True", shell("python3 -c 'import os; print(os.get_blocking(1))'"));
    PASS();
}

TEST groups_and_sessions_are_made_as_asked(void)
{
    static const struct {
        uint32_t flags;
        const char *expected;
    } cases[] = {{0, "no no\n"}, {RT_SPAWN_GROUP, "yes no\n"}, {RT_SPAWN_SESSION, "yes yes\n"}};
    const char *argv[] = {"python3", "-c",
                          "import os; p = os.getpid(); w = {True: 'yes', False: 'no'};"
                          "print(w[os.getpgid(0) == p], w[os.getsid(0) == p])",
                          NULL};
    struct reply reply;
    char text[64];

    for (size_t i = 0; i < 3; i++) {
        struct rt_spawn how = plain;
        int pid;

        how.flags = cases[i].flags;
        pid = box_spawn(how, "/", argv, plain_env, &reply);
        ASSERT(pid > 0);
        read_all(reply.fds[0], text, sizeof text);
        ASSERT_STR_EQ(cases[i].expected, text);
        box_wait_exit(pid);
    }
    PASS();
}

TEST a_pty_is_a_controlling_terminal_with_a_size(void)
{
    struct rt_spawn how = {.flags = RT_SPAWN_PTY, .rows = 7, .columns = 33};
    const char *argv[] = {"bash", "-c",
                          "stty size; echo tty >/dev/tty; ls /proc/self/fd | tr '\\n' ,", NULL};
    struct reply reply;
    char text[256];
    int pid = box_spawn(how, "/", argv, plain_env, &reply);

    ASSERT(pid > 0);
    ASSERT_EQ(1, reply.fd_count);
    ASSERT(fcntl(reply.fds[0], F_GETFL) & O_NONBLOCK);
    read_all(reply.fds[0], text, sizeof text);
    ASSERT_STR_EQ("7 33\r\ntty\r\n0,1,2,3,", text);
    ASSERT_EQ(0, box_wait_exit(pid).code);
    PASS();
}

TEST another_user_has_no_groups_left(void)
{
    struct rt_spawn how = plain;
    const char *argv[] = {"id", "-G", NULL};
    struct reply reply;
    char text[64];
    int pid;

    how.uid = how.gid = 1234;
    pid = box_spawn(how, "/", argv, plain_env, &reply);
    if (pid == -EPERM || pid == -EINVAL)
        SKIPm("no privilege to change user here");
    ASSERT(pid > 0);
    read_all(reply.fds[0], text, sizeof text);
    ASSERT_STR_EQ("1234\n", text);
    box_wait_exit(pid);
    PASS();
}

TEST two_hundred_quick_spawns_are_all_reported_once(void)
{
    const char *argv[] = {"true", NULL};
    struct reply reply;
    int pids[200];

    for (int i = 0; i < 200; i++) {
        pids[i] = box_spawn(plain, "/", argv, plain_env, &reply);
        ASSERT(pids[i] > 0);
        ASSERT_EQ(1, reply.fd_count);
        reply_close(&reply);
    }
    for (int i = 0; i < 200; i++)
        ASSERT_EQ(0, box_wait_exit(pids[i]).code);
    ASSERT_EQ(0, box.exit_count);
    ASSERT_STR_EQ("2", shell("set -- /proc/[0-9]*; echo $#")); /* PID 1 and this shell */
    PASS();
}

TEST orphans_are_reaped_and_not_reported(void)
{
    ASSERT_STR_EQ("", shell("for i in 1 2 3 4 5; do (setsid bash -c 'exit 3' &) ; done"));
    /* PID 1 and this shell; a zombie would keep it waiting. */
    ASSERT_STR_EQ("2", shell("while set -- /proc/[0-9]*; [ $# -gt 2 ]; do :; done; echo $#"));
    ASSERT_EQ(0, box.exit_count);
    PASS();
}

/* ---- signals ---- */

TEST only_processes_spawned_on_request_can_be_signalled(void)
{
    struct rt_exit how;
    int out;
    int pid = shell_start("echo ready; exec sleep 1000", &out);

    ASSERT_EQ(-ESRCH, box_signal(1, SIGKILL, RT_SIGNAL_PROCESS));
    ASSERT_EQ(-ESRCH, box_signal(-1, SIGKILL, RT_SIGNAL_GROUP));
    ASSERT_EQ(-ESRCH, box_signal(0, SIGKILL, RT_SIGNAL_GROUP));
    ASSERT_EQ(-ESRCH, box_signal(pid + 1, SIGKILL, RT_SIGNAL_TREE));
    ASSERT_EQ(-EINVAL, box_signal(pid, 999, RT_SIGNAL_PROCESS));
    ASSERT_EQ(1, box_signal(pid, 0, RT_SIGNAL_PROCESS));
    ASSERT_EQ(1, box_signal(pid, SIGTERM, RT_SIGNAL_PROCESS));
    how = box_wait_exit(pid);
    ASSERT_EQ(143, how.code);
    ASSERT_EQ(-ESRCH, box_signal(pid, 0, RT_SIGNAL_PROCESS));
    close(out);
    PASS();
}

TEST a_group_is_signalled_as_a_whole(void)
{
    struct rt_spawn how = plain;
    const char *argv[] = {"bash", "-c", "sleep 1000 & echo ready; wait", NULL};
    struct reply reply;
    char text[16];
    struct pollfd ready;
    int pid;

    how.flags = RT_SPAWN_GROUP;
    pid = box_spawn(how, "/", argv, plain_env, &reply);
    ASSERT(pid > 0);
    ready = (struct pollfd){.fd = reply.fds[0], .events = POLLIN};
    ASSERT_EQ(1, poll(&ready, 1, CLIENT_PATIENCE_MS));
    ASSERT_EQ(6, read(reply.fds[0], text, 6));
    ASSERT_EQ(1, box_signal(pid, SIGTERM, RT_SIGNAL_GROUP));
    box_wait_exit(pid);
    ASSERT_EQ(0, read_all(reply.fds[0], text, sizeof text)); /* the sleep held it open, too */
    PASS();
}

TEST a_tree_that_ignores_term_dies_by_kill(void)
{
    const char *script = "trap '' TERM; setsid bash -c 'trap \"\" TERM; setsid bash -c \""
                         "echo up; while :; do sleep 1000; done\"; :'; :";
    char text[64];
    int out;
    int pid = shell_start(script, &out);
    struct pollfd ready = {.fd = out, .events = POLLIN};

    ASSERT_EQ(1, poll(&ready, 1, CLIENT_PATIENCE_MS));
    ASSERT_EQ(3, read(out, text, 3));
    ASSERT(box_signal(pid, SIGTERM, RT_SIGNAL_TREE) >= 3);
    ASSERT_EQ(1, box_signal(pid, 0, RT_SIGNAL_PROCESS)); /* still there */
    ASSERT(box_signal(pid, SIGKILL, RT_SIGNAL_TREE) >= 3);
    ASSERT_EQ(137, box_wait_exit(pid).code);
    ASSERT_EQ(0, read_all(out, text, sizeof text)); /* end of file: nobody holds it */
    PASS();
}

TEST a_forking_tree_cannot_outrun_kill(void)
{
    char text[4096];
    int out;
    int pid = shell_start("while :; do (while :; do (sleep 0.001); done) & (sleep 0.001); "
                          "[ $((n++)) -eq 20 ] && echo up && wait; done",
                          &out);
    struct pollfd ready = {.fd = out, .events = POLLIN};

    ASSERT_EQ(1, poll(&ready, 1, CLIENT_PATIENCE_MS));
    ASSERT(box_signal(pid, SIGKILL, RT_SIGNAL_TREE) > 20);
    box_wait_exit(pid);
    read_all(out, text, sizeof text); /* ends only when every one is gone */
    PASS();
}

TEST signal_all_answers_when_nothing_is_left(void)
{
    struct rt_signal how = {.signal = SIGTERM, .scope = RT_SIGNAL_ALL};
    struct reply reply;
    uint32_t term;
    uint32_t kill_all;
    int out;
    int stubborn =
        shell_start("trap '' TERM; (setsid sleep 1000 &); echo up; while :; do sleep 1000;"
                    " done",
                    &out);
    struct pollfd ready = {.fd = out, .events = POLLIN};
    int meek;
    int other;

    ASSERT_EQ(1, poll(&ready, 1, CLIENT_PATIENCE_MS));
    meek = shell_start("exec sleep 1000", &other);
    term = box_send(RT_SIGNAL, 0, &how, sizeof how);
    ASSERT_EQ(143, box_wait_exit(meek).code);
    how.signal = SIGKILL;
    kill_all = box_send(RT_SIGNAL, 0, &how, sizeof how);
    ASSERT_EQ(137, box_wait_exit(stubborn).code); /* exits come before the answers */
    box_await(term, &reply);
    ASSERT_EQ(0, reply.head.value);
    box_await(kill_all, &reply);
    ASSERT_EQ(0, reply.head.value);
    ASSERT_EQ(0, box_signal(0, SIGTERM, RT_SIGNAL_ALL)); /* at once, with nobody there */
    close(out);
    close(other);
    ASSERT_STR_EQ("alive", shell("echo alive"));
    PASS();
}

/* ---- ending ---- */

static int box_end(struct rt_end what)
{
    struct reply reply;

    return box_call(RT_END, &what, sizeof what, &reply);
}

static struct rt_end holders_of(int fd)
{
    struct stat st;

    fstat(fd, &st);
    return (struct rt_end){.device = st.st_dev, .pipes = {st.st_ino}};
}

/* Starts it and waits for its first three bytes. */
static int start_until_up(const char *script, int *out)
{
    char text[8];
    int pid = shell_start(script, out);
    struct pollfd ready = {.fd = *out, .events = POLLIN};

    if (poll(&ready, 1, CLIENT_PATIENCE_MS) != 1 || read(*out, text, 3) != 3)
        give_up("it did not come up");
    return pid;
}

TEST an_end_is_answered_when_tree_and_daemons_are_gone(void)
{
    char text[64];
    int out;
    int pid = start_until_up("(setsid sleep 1000 &); setsid sleep 1000 & echo up; wait", &out);
    struct rt_end what = holders_of(out);

    what.pid = pid;
    what.grace_ms = 5000;
    ASSERT_EQ(0, box_end(what));
    ASSERT_EQ(143, box_wait_exit(pid).code);
    ASSERT_EQ(0, read_all(out, text, sizeof text));
    PASS();
}

TEST an_end_kills_who_ignores_term_after_the_grace(void)
{
    char text[64];
    int out;
    int pid = start_until_up("trap '' TERM; echo up; while :; do sleep 1000; done", &out);

    ASSERT_EQ(-ETIME, box_end((struct rt_end){.pid = pid, .grace_ms = 50}));
    ASSERT_EQ(137, box_wait_exit(pid).code);
    ASSERT_EQ(0, read_all(out, text, sizeof text));
    PASS();
}

TEST an_end_outruns_a_forking_tree(void)
{
    char text[4096];
    int out;
    int pid =
        start_until_up("trap '' TERM; echo up; while :; do (while :; do (sleep 0.001); done) & "
                       "sleep 0.01; [ $((n++)) -gt 20 ] && wait; done",
                       &out);
    struct rt_end what = holders_of(out);

    what.pid = pid;
    ASSERT_EQ(-ETIME, box_end(what));
    box_wait_exit(pid);
    read_all(out, text, sizeof text); /* ends only when every one is gone */
    PASS();
}

TEST an_end_touches_nobody_who_was_not_meant(void)
{
    int out;
    int bystander = start_until_up("echo up; exec sleep 1000", &out);
    char script[128];
    int child = (int)strtol(shell("sleep 1000 >/dev/null 2>&1 & echo $!"), NULL, 10);

    ASSERT_EQ(-EINVAL, box_end((struct rt_end){.pid = 1}));
    ASSERT_EQ(-EINVAL, box_end((struct rt_end){.pid = -1}));
    ASSERT_EQ(-ESRCH, box_end((struct rt_end){.pid = 999999}));
    ASSERT_EQ(-ESRCH, box_end((struct rt_end){.pid = child})); /* not spawned on request */
    ASSERT_EQ(-EPERM, box_end((struct rt_end){.pid = bystander, .proof = 1}));
    /* A pid that is another's by now does not hold the FIFO. */
    ASSERT_EQ(-ETIME, box_end((struct rt_end){.pid = child, .proof = 12345, .device = 1}));
    snprintf(script, sizeof script, "kill -0 %d && kill -0 %d && echo both", child, bystander);
    ASSERT_STR_EQ("both", shell(script));
    /* Nor is one that was spawned on request taken for a daemon of somebody else. */
    ASSERT_EQ(-ETIME, box_end(holders_of(out)));
    ASSERT_STR_EQ("both", shell(script));
    close(out);
    PASS();
}

TEST the_proof_names_the_wrapper(void)
{
    struct reply reply;
    struct stat st;
    char script[256], text[64];
    int out;
    uint32_t id = box_send(RT_FIFOS, 3, NULL, 0);

    box_await(id, &reply);
    ASSERT_EQ(3, reply.fd_count);
    snprintf(script, sizeof script,
             "(echo $BASHPID >&7; sleep 1000; :) 7>/dev/.sandpit/%d.3 >/dev/null 2>&1 & echo up; "
             "exec sleep 1000",
             reply.head.value);
    int pid = start_until_up(script, &out);
    struct pollfd ready = {.fd = reply.fds[2], .events = POLLIN};
    ASSERT_EQ(1, poll(&ready, 1, CLIENT_PATIENCE_MS));
    ssize_t got = read(reply.fds[2], text, sizeof text - 1);
    ASSERT(got > 0);
    text[got] = '\0';
    fstat(reply.fds[2], &st);
    ASSERT_EQ(0, box_end((struct rt_end){.pid = (int)strtol(text, NULL, 10),
                                         .grace_ms = 5000,
                                         .device = st.st_dev,
                                         .proof = st.st_ino}));
    ASSERT_EQ(1, box_signal(pid, 0, RT_SIGNAL_PROCESS)); /* its parent is as it was */
    reply_close(&reply);
    close(out);
    PASS();
}

/* ---- FIFOs and ports ---- */

TEST fifo_pairs_are_made_read_and_dropped(void)
{
    struct reply reply;
    char text[256];
    char script[256];
    int number;

    shell("rmdir /dev/.sandpit");
    number = box_call(RT_FIFOS, NULL, 0, &reply);
    ASSERT(number > 0);
    ASSERT_EQ(2, reply.fd_count);
    snprintf(script, sizeof script,
             "cd /dev/.sandpit; stat -c '%%a %%F' . %d.1; echo o >%d.1; echo e >%d.2", number,
             number, number);
    ASSERT_STR_EQ("700 directory\n600 fifo", shell(script));
    ASSERT_EQ(2, read(reply.fds[0], text, sizeof text));
    ASSERT_EQ('o', text[0]);
    ASSERT_EQ(2, read(reply.fds[1], text, sizeof text));
    ASSERT_EQ('e', text[0]);
    reply_close(&reply);
    box_send(RT_FIFOS_DROP, number, NULL, 0);
    ASSERT_STR_EQ("", shell("ls -A /dev/.sandpit"));
    PASS();
}

TEST port_3000_is_taken_and_closes_what_connects(void)
{
    ASSERT_STR_EQ("98 98",
                  shell("python3 -c '\n"
                        "import socket\n"
                        "def t(f, a):\n"
                        "  s = socket.socket(f)\n"
                        "  s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                        "  try: s.bind((a, 3000)); s.listen(); return 0\n"
                        "  except OSError as e: return e.errno\n"
                        "print(t(socket.AF_INET, \"127.0.0.1\"), t(socket.AF_INET6, \"::\"))'"));
    ASSERT_STR_EQ("closed", shell("exec 5<>/dev/tcp/127.0.0.1/3000; read -r -u 5 || echo closed"));
    PASS();
}

TEST connect_reaches_a_server_inside_only(void)
{
    struct rt_connect to = {.port = 8080};
    struct reply reply;
    struct pollfd ready;
    int failure = 0;
    socklen_t size = sizeof failure;
    char text[64];
    int out;
    int pid;

    ASSERT_EQ(0, box_call(RT_CONNECT, &to, sizeof to, &reply)); /* in progress */
    ready = (struct pollfd){.fd = reply.fds[0], .events = POLLOUT};
    ASSERT_EQ(1, poll(&ready, 1, CLIENT_PATIENCE_MS));
    ASSERT_EQ(0, getsockopt(reply.fds[0], SOL_SOCKET, SO_ERROR, &failure, &size));
    ASSERT_EQ(ECONNREFUSED, failure);
    reply_close(&reply);
    pid = shell_start("exec python3 -c '\n"
                      "import socket\n"
                      "s = socket.socket(); s.bind((\"127.0.0.1\", 8080)); s.listen()\n"
                      "print(\"up\", flush=True)\n"
                      "c, a = s.accept(); c.sendall(b\"hello\"); c.close()'",
                      &out);
    ready = (struct pollfd){.fd = out, .events = POLLIN};
    ASSERT_EQ(1, poll(&ready, 1, CLIENT_PATIENCE_MS));
    ASSERT_EQ(0, box_call(RT_CONNECT, &to, sizeof to, &reply));
    ASSERT_EQ(1, reply.fd_count);
    ASSERT(fcntl(reply.fds[0], F_GETFL) & O_NONBLOCK);
    read_all(reply.fds[0], text, sizeof text);
    ASSERT_STR_EQ("hello", text);
    box_wait_exit(pid);
    close(out);
    to.ipv6 = 2;
    ASSERT_EQ(-EBADMSG, box_call(RT_CONNECT, &to, sizeof to, &reply));
    PASS();
}

SUITE(life)
{
    SET_SETUP(start_box, NULL);
    SET_TEARDOWN(stop_box, NULL);
    RUN_TEST(exits_when_its_socket_closes);
    RUN_TEST(it_is_pid_1_and_holds_nothing_of_the_host);
    RUN_TEST(as_another_pid_it_answers_for_its_own_tree_only);
    RUN_TEST(malformed_messages_are_answered_and_survived);
    RUN_TEST(random_payloads_never_stop_it);
}

SUITE(spawning)
{
    SET_SETUP(start_box, NULL);
    SET_TEARDOWN(stop_box, NULL);
    RUN_TEST(exit_codes_and_signals_are_reported);
    RUN_TEST(spawn_failures_are_told_at_once);
    RUN_TEST(a_missing_directory_falls_back_to_home_when_asked);
    RUN_TEST(a_command_is_found_in_the_path_of_its_own_environment);
    RUN_TEST(a_process_has_its_slots_and_nothing_else);
    RUN_TEST(slots_reach_any_descriptor_in_any_order);
    RUN_TEST(the_other_end_of_a_pipe_blocks);
    RUN_TEST(groups_and_sessions_are_made_as_asked);
    RUN_TEST(a_pty_is_a_controlling_terminal_with_a_size);
    RUN_TEST(another_user_has_no_groups_left);
    RUN_TEST(two_hundred_quick_spawns_are_all_reported_once);
    RUN_TEST(orphans_are_reaped_and_not_reported);
}

SUITE(signals)
{
    SET_SETUP(start_box, NULL);
    SET_TEARDOWN(stop_box, NULL);
    RUN_TEST(only_processes_spawned_on_request_can_be_signalled);
    RUN_TEST(a_group_is_signalled_as_a_whole);
    RUN_TEST(a_tree_that_ignores_term_dies_by_kill);
    RUN_TEST(a_forking_tree_cannot_outrun_kill);
    RUN_TEST(signal_all_answers_when_nothing_is_left);
}

SUITE(ending)
{
    SET_SETUP(start_box, NULL);
    SET_TEARDOWN(stop_box, NULL);
    RUN_TEST(an_end_is_answered_when_tree_and_daemons_are_gone);
    RUN_TEST(an_end_kills_who_ignores_term_after_the_grace);
    RUN_TEST(an_end_outruns_a_forking_tree);
    RUN_TEST(an_end_touches_nobody_who_was_not_meant);
    RUN_TEST(the_proof_names_the_wrapper);
}

SUITE(fifos_and_ports)
{
    SET_SETUP(start_box, NULL);
    SET_TEARDOWN(stop_box, NULL);
    RUN_TEST(fifo_pairs_are_made_read_and_dropped);
    RUN_TEST(port_3000_is_taken_and_closes_what_connects);
    RUN_TEST(connect_reaches_a_server_inside_only);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    if (!box_available())
        return BOX_SKIPPED;
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(life);
    RUN_SUITE(spawning);
    RUN_SUITE(signals);
    RUN_SUITE(ending);
    RUN_SUITE(fifos_and_ports);
    GREATEST_MAIN_END();
}
