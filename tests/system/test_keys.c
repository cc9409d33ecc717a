/* The keys of `sandpit dev`, pressed on a terminal of the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include "greatest.h"
#include "support.h"

/* An emulator with a terminal. `emulator` is for requests to it. */
struct session {
    struct emulator emulator;
    int master, slave;
    pid_t pid;
    char seen[65536];
    size_t size;
    struct termios before;
};

/* Reads until the text is there; what was read before counts only from `from` on. */
static bool see(struct session *session, size_t from, const char *text)
{
    long long end = test_ms() + 10000;
    while (!strstr(session->seen + from, text)) {
        struct pollfd item = {.fd = session->master, .events = POLLIN};
        long long left = end - test_ms();
        if (left <= 0 || poll(&item, 1, (int)left) <= 0)
            return false;
        size_t room = sizeof session->seen - 1 - session->size;
        ssize_t got = read(session->master, session->seen + session->size, room);
        if (got <= 0)
            return false;
        session->size += (size_t)got;
        session->seen[session->size] = '\0';
    }
    return true;
}

static size_t press(struct session *session, const char *keys)
{
    size_t from = session->size;
    return write(session->master, keys, strlen(keys)) < 0 ? 0 : from;
}

/* In the child, which leads a session with the terminal in the foreground. */
static void become_emulator(const struct session *session, const char *option)
{
    const char *const argv[] = {SANDPIT_BINARY, "dev",  "--port", "0", "--ephemeral",
                                "--network",    "none", option,   NULL};
    setenv("XDG_RUNTIME_DIR", session->emulator.dir, 1);
    setenv("BROWSER", "/bin/true", 1);
    setenv("NO_COLOR", "1", 1);
    if (login_tty(session->slave) < 0 || chdir(session->emulator.dir) < 0)
        _exit(126);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

static bool open_session(struct session *session, int columns, const char *option)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    *session = (struct session){.pid = -1};
    snprintf(session->emulator.dir, sizeof session->emulator.dir, "/tmp/sandpit-keys-XXXXXX");
    if (!mkdtemp(session->emulator.dir) ||
        openpty(&session->master, &session->slave, NULL, NULL, &size) < 0)
        return false;
    fcntl(session->master, F_SETFD, FD_CLOEXEC);
    tcgetattr(session->slave, &session->before);
    session->pid = fork();
    if (session->pid == 0)
        become_emulator(session, option);
    if (!see(session, 0, "Ready on http://localhost:"))
        return false;
    const char *ready = strstr(session->seen, "Ready on http://localhost:");
    session->emulator.pid = session->pid;
    session->emulator.port = (int)strtol(ready + strlen("Ready on http://localhost:"), NULL, 10);
    return true;
}

/* Whether the terminal is as it was before. */
static bool is_restored(void *arg)
{
    const struct session *session = arg;
    struct termios now;
    return tcgetattr(session->slave, &now) == 0 && now.c_lflag == session->before.c_lflag &&
           memcmp(now.c_cc, session->before.c_cc, sizeof now.c_cc) == 0;
}

static bool is_raw(void *arg)
{
    const struct session *session = arg;
    struct termios now;
    return tcgetattr(session->slave, &now) == 0 && !(now.c_lflag & (ICANON | ECHO)) &&
           (now.c_lflag & ISIG);
}

/* The status of waitpid(), or -1. What it still writes is read, or it could not end. */
static int ended(struct session *session)
{
    int status = -1;
    long long end = test_ms() + 10000;
    while (test_ms() < end) {
        struct pollfd item = {.fd = session->master, .events = POLLIN};
        char bytes[4096];
        if (poll(&item, 1, 10) > 0 && (item.revents & POLLIN) &&
            read(session->master, bytes, sizeof bytes) < 0)
            break;
        if (waitpid(session->pid, &status, WNOHANG) == session->pid) {
            session->pid = -1;
            return status;
        }
    }
    return -1;
}

static void close_session(struct session *session)
{
    if (session->pid > 0) {
        kill(session->pid, SIGKILL);
        waitpid(session->pid, NULL, 0);
    }
    close(session->master);
    close(session->slave);
    session->emulator.pid = 0;
    emulator_clean(&session->emulator);
}
#define CLEANUP_SESSION __attribute__((cleanup(close_session)))

TEST the_keys_are_shown_in_one_line_or_below_each_other(void)
{
    CLEANUP_SESSION struct session wide;
    ASSERT(open_session(&wide, 160, NULL));
    ASSERT(see(&wide, 0, "╯"));
    ASSERT(strstr(wide.seen,
                  "│  [b] open a browser [r] reload configuration [f] fast-forward to the "
                  "next timer [c] clear console [x] to exit  │"));
    CLEANUP_SESSION struct session narrow;
    ASSERT(open_session(&narrow, 60, NULL));
    ASSERT(see(&narrow, 0, "╯"));
    ASSERT(strstr(narrow.seen, "│  [c] clear console                   │\r\n"));
    PASS();
}

TEST f_goes_to_the_next_timer(void)
{
    CLEANUP_SESSION struct session session;
    ASSERT(open_session(&session, 100, NULL));
    ASSERT(eventually(is_raw, &session, 5000));
    size_t from = press(&session, "f");
    ASSERT(see(&session, from, "no timer is pending"));
    CLEANUP_REPLY struct reply exec = post(&session.emulator, "/sandbox/box/exec", "[\"true\"]");
    ASSERT_EQ(200, exec.status);
    from = press(&session, "F");
    ASSERT(see(&session, from, "the clock is at"));
    ASSERT(strstr(session.seen, "slept: idle for 10m after execute"));
    CLEANUP_REPLY struct reply state = get(&session.emulator, "/cdn-cgi/local/sandboxes/box");
    ASSERT_STR_EQ("stopped", text_at(state.json, "state"));
    PASS();
}

TEST r_b_and_c_work_and_other_keys_do_nothing(void)
{
    CLEANUP_SESSION struct session session;
    ASSERT(open_session(&session, 100, NULL));
    ASSERT(eventually(is_raw, &session, 5000));
    CLEANUP_REPLY struct reply exec = post(&session.emulator, "/sandbox/box/exec", "[\"touch f\"]");
    press(&session, "\x1b[F"); /* the End key */
    press(&session, "zZ\r 5");
    size_t from = press(&session, "r");
    ASSERT(see(&session, from, "read again: Sandbox"));
    ASSERT(see(&session, from, "1 container keeps what it started with"));
    CLEANUP_REPLY struct reply ls = post(&session.emulator, "/sandbox/box/exec", "[\"ls\"]");
    ASSERT_STR_EQ("f", text_at(ls.json, "stdout"));
    ASSERT(!strstr(session.seen, "the clock is at"));
    press(&session, "b");
    from = press(&session, "c");
    ASSERT(see(&session, from, "\x1b[2J"));
    ASSERT(see(&session, from, "╯"));
    ASSERT(!strstr(session.seen, "no browser could be opened"));
    PASS();
}

static void put(const struct session *session, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", session->emulator.dir, name);
    FILE *file = fopen(path, "we");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

/* exec of a command in a sandbox; the output is kept. */
static const char *output_of(const struct session *session, const char *path, const char *command)
{
    char body[256];
    snprintf(body, sizeof body, "[\"%s\"]", command);
    CLEANUP_REPLY struct reply reply = post(&session->emulator, path, body);
    return keep(text_at(reply.json, "stdout"));
}

TEST r_reads_the_project_again_and_running_sandboxes_keep_what_they_started_with(void)
{
    static const char one[] = "{\"containers\": [{\"class_name\": \"Sandbox\", \"image\": \".\"}]}";
    static const char two[] = "{\"containers\": [{\"class_name\": \"Sandbox\", \"image\": \".\"},"
                              "{\"class_name\": \"Other\", \"image\": \"cloudflare/sandbox:0.6.3\"}]}";
    CLEANUP_SESSION struct session session;
    ASSERT(open_session(&session, 100, NULL));
    ASSERT(eventually(is_raw, &session, 5000));
    put(&session, "Dockerfile", "FROM cloudflare/sandbox:0.7.4\nENV GREETING=first\n");
    put(&session, "wrangler.jsonc", one);
    size_t from = press(&session, "r");
    ASSERT(see(&session, from, "wrangler.jsonc read again: Sandbox"));
    ASSERT_STR_EQ("first", output_of(&session, "/sandbox/old/exec", "echo $GREETING"));
    put(&session, "Dockerfile", "FROM cloudflare/sandbox:0.7.4\nENV GREETING=second\n");
    put(&session, "wrangler.jsonc", two);
    from = press(&session, "r");
    ASSERT(see(&session, from, "read again: Sandbox, Other"));
    ASSERT(see(&session, from, "1 container keeps what it started with"));
    ASSERT_STR_EQ("first", output_of(&session, "/sandbox/old/exec", "echo $GREETING"));
    ASSERT_STR_EQ("second", output_of(&session, "/sandbox/new/exec", "echo $GREETING"));
    ASSERT_STR_EQ("0.6.3",
                  output_of(&session, "/sandbox/x/exec?class=Other", "echo $SANDBOX_VERSION"));
    CLEANUP_REPLY struct reply stop = post(&session.emulator, "/sandbox/old/stop", "[]");
    ASSERT_STR_EQ("second", output_of(&session, "/sandbox/old/exec", "echo $GREETING"));
    put(&session, "wrangler.jsonc", "{\"containers\": 5}");
    from = press(&session, "r");
    ASSERT(see(&session, from, "wrangler.jsonc:1:16: containers must be an array"));
    ASSERT(see(&session, from, "nothing was changed"));
    ASSERT_STR_EQ("second", output_of(&session, "/sandbox/more/exec", "echo $GREETING"));
    PASS();
}

TEST r_reads_the_same_file_and_changes_nothing_when_it_is_gone(void)
{
    char dir[] = "/tmp/sandpit-keys-XXXXXX", path[64];
    ASSERT(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/wrangler.toml", dir);
    FILE *file = fopen(path, "we");
    ASSERT(file);
    fputs("[[containers]]\nclass_name = 'Sandbox'\nimage = 'cloudflare/sandbox:0.7.4'\n", file);
    fclose(file);
    CLEANUP_SESSION struct session session;
    ASSERT(open_session(&session, 100, dir));
    ASSERT(eventually(is_raw, &session, 5000));
    unlink(path);
    rmdir(dir);
    size_t from = press(&session, "r");
    ASSERT(see(&session, from, "No such file"));
    ASSERT(see(&session, from, "nothing was changed"));
    ASSERT_STR_EQ("0.7.4", output_of(&session, "/sandbox/a/exec", "echo $SANDBOX_VERSION"));
    PASS();
}

TEST the_terminal_is_restored_however_it_ends(void)
{
    static const struct {
        const char *keys; /* or NULL */
        int signal;
        bool clean; /* ends with status 0 */
    } rows[] = {
        {"x", 0, true},         {"Q", 0, true},        {"\x03", 0, true},
        {"\x1c", 0, false},     {NULL, SIGTERM, true}, {NULL, SIGHUP, true},
        {NULL, SIGABRT, false},
#ifndef __SANITIZE_ADDRESS__ /* which has a handler of its own */
        {NULL, SIGSEGV, false},
#endif
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_SESSION struct session session;
        ASSERT(open_session(&session, 100, NULL));
        ASSERT(eventually(is_raw, &session, 5000));
        if (rows[i].keys)
            press(&session, rows[i].keys);
        else
            kill(session.pid, rows[i].signal);
        int status = ended(&session);
        char which[48];
        snprintf(which, sizeof which, "row %zu ended with status 0x%x", i, (unsigned)status);
        ASSERTm(keep(which), status != -1);
        ASSERTm(keep(which), is_restored(&session));
        ASSERTm(keep(which), rows[i].clean == (status == 0));
    }
    PASS();
}

TEST it_is_restored_while_suspended_and_taken_again_afterwards(void)
{
    CLEANUP_SESSION struct session session;
    ASSERT(open_session(&session, 100, NULL));
    ASSERT(eventually(is_raw, &session, 5000));
    /* By signal: the kernel drops Ctrl-Z for a group without a parent in its session. */
    kill(session.pid, SIGTSTP);
    int status = 0;
    ASSERT_EQ(session.pid, waitpid(session.pid, &status, WUNTRACED));
    ASSERT(WIFSTOPPED(status));
    ASSERT(is_restored(&session));
    kill(session.pid, SIGCONT);
    ASSERT(eventually(is_raw, &session, 5000));
    size_t from = press(&session, "f");
    ASSERT(see(&session, from, "no timer is pending"));
    PASS();
}

TEST without_a_terminal_or_when_not_wanted_there_are_no_keys(void)
{
    CLEANUP_SESSION struct session session;
    ASSERT(open_session(&session, 100, "--no-show-interactive-dev-session"));
    CLEANUP_REPLY struct reply ready = get(&session.emulator, "/cdn-cgi/local/ready");
    ASSERT_EQ(200, ready.status);
    ASSERT(is_restored(&session));
    ASSERT(!strstr(session.seen, "[x] to exit"));
    struct emulator piped = {0};
    ASSERT_EQ(0, emulator_start(&piped, NULL));
    ASSERT_EQ(0, emulator_stop(&piped));
    emulator_clean(&piped);
    PASS();
}

SUITE(keys_suite)
{
    RUN_TEST(the_keys_are_shown_in_one_line_or_below_each_other);
    RUN_TEST(f_goes_to_the_next_timer);
    RUN_TEST(r_b_and_c_work_and_other_keys_do_nothing);
    RUN_TEST(r_reads_the_project_again_and_running_sandboxes_keep_what_they_started_with);
    RUN_TEST(r_reads_the_same_file_and_changes_nothing_when_it_is_gone);
    RUN_TEST(the_terminal_is_restored_however_it_ends);
    RUN_TEST(it_is_restored_while_suspended_and_taken_again_afterwards);
    RUN_TEST(without_a_terminal_or_when_not_wanted_there_are_no_keys);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP keys_suite: %s\n", missing);
        return 77;
    }
    RUN_SUITE(keys_suite);
    GREATEST_MAIN_END();
}
