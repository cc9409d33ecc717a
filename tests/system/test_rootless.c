/* The real program as an ordinary user. Run by root, it becomes one that owns nothing but a scratch
 * directory; run by an ordinary user, it stays that one. Each way that containers can be had
 * without root is tried: one id, subordinate ids, and no overlays. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

enum { NOBODYS_UID = 61234 };

static struct emulator emulator;
static bool full, overlays; /* what this turn is about */

static struct reply run_in(const char *box, const char *command)
{
    char path[64];
    json_t *arguments = json_pack("[s]", command);
    char *body = json_dumps(arguments, 0);
    json_decref(arguments);
    snprintf(path, sizeof path, "/sandbox/%s/exec", box);
    struct reply reply = post(&emulator, path, body);
    free(body);
    return reply;
}

TEST a_command_runs_as_root_of_its_namespace(void)
{
    CLEANUP_REPLY struct reply reply = run_in("a", "id -u; awk '{print $1}' /proc/self/uid_map");
    ASSERT_EQ(200, reply.status);
    ASSERT_STR_EQ(full ? "0\n0\n1" : "0\n0", text_at(reply.json, "stdout"));
    CLEANUP_REPLY struct reply tools = run_in("a", "bash -c 'ls / >/dev/null && git --version'");
    ASSERT_EQ(0, number_at(tools.json, "exitCode"));
    PASS();
}

TEST a_session_keeps_its_state_and_a_file_comes_back(void)
{
    CLEANUP_REPLY struct reply first = run_in("s", "cd /tmp; export X=7; f() { echo f$X; }");
    CLEANUP_REPLY struct reply second = run_in("s", "pwd; f");
    ASSERT_STR_EQ("/tmp\nf7", text_at(second.json, "stdout"));
    CLEANUP_REPLY struct reply wrote =
        post(&emulator, "/sandbox/s/writeFile", "[\"/workspace/d/x\",\"hello\"]");
    ASSERT_EQ(200, wrote.status);
    CLEANUP_REPLY struct reply got = post(&emulator, "/sandbox/s/readFile", "[\"/workspace/d/x\"]");
    ASSERT_STR_EQ("hello", text_at(got.json, "content"));
    PASS();
}

TEST what_can_be_written_is_as_documented(void)
{
    CLEANUP_REPLY struct reply reply =
        run_in("w", "for f in /etc/new /root/new /home/new /opt/new /tmp/new /workspace/new "
                    "/var/log/new; do touch $f || echo no $f; done; echo x >> /etc/passwd || echo "
                    "no /etc/passwd; touch /usr/local/bin/new 2>/dev/null && echo usr");
    ASSERT_STR_EQ(overlays ? "usr" : "", text_at(reply.json, "stdout"));
    CLEANUP_REPLY struct reply owner = run_in("w", "touch /tmp/o; chown 33:33 /tmp/o; stat -c %u "
                                                   "/tmp/o");
    ASSERT_STR_EQ(full ? "33" : "0", text_at(owner.json, "stdout"));
    ASSERT(access("/usr/local/bin/new", F_OK) < 0);
    PASS();
}

/* It reserves much more address space than it uses, which the limit of memory must not count. */
TEST node_runs_within_the_limit_of_memory(void)
{
    CLEANUP_REPLY struct reply reply = run_in(
        "node", "command -v node >/dev/null || exit 1; node -e 'const a = []; for (let i = 0; "
                "i < 2e6; i++) a.push({i}); console.log(a.length)'");
    if (reply.status == 410)
        SKIPm("node is not on this host");
    ASSERT_STR_EQm(keep(text_at(reply.json, "stderr")), "2000000", text_at(reply.json, "stdout"));
    PASS();
}

TEST files_are_gone_after_idle_sleep(void)
{
    CLEANUP_REPLY struct reply wrote = run_in("idle", "echo here > /workspace/x");
    ASSERT_EQ(0, number_at(wrote.json, "exitCode"));
    CLEANUP_REPLY struct reply advanced =
        post(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\":\"11m\"}");
    ASSERT_EQm(keep(advanced.body), 200, advanced.status);
    CLEANUP_REPLY struct reply after = run_in("idle", "ls /workspace | wc -l");
    ASSERT_STR_EQ("0", text_at(after.json, "stdout"));
    PASS();
}

TEST attacks_are_refused_here_too(void)
{
    CLEANUP_REPLY struct reply reply =
        run_in("attack", "unshare -U true 2>&1; mount -t tmpfs none /mnt 2>&1; mknod /tmp/d b 8 0 "
                         "2>&1; (exec 3>>/proc/sys/kernel/core_pattern) 2>&1; grep -c . "
                         "/proc/keys; awk '/^NoNewPrivs|^Seccomp:/ {print $2}' /proc/self/status");
    const char *text = text_at(reply.json, "stdout");
    ASSERTm(keep(text), strstr(text, "unshare failed"));
    ASSERTm(keep(text), strstr(text, "mknod: ") && strstr(text, "core_pattern: "));
    ASSERTm(keep(text), strstr(text, "\n0\n1\n2"));
    PASS();
}

TEST a_command_that_times_out_and_a_kill_leave_nothing(void)
{
    char command[128], unique[32];
    snprintf(unique, sizeof unique, "%d.5", 200000 + (int)getpid());
    snprintf(command, sizeof command,
             "setsid sleep %s >/dev/null 2>&1 & sleep %s >/dev/null 2>&1 &", unique, unique);
    CLEANUP_REPLY struct reply reply = run_in("kill", command);
    ASSERT_EQ(0, number_at(reply.json, "exitCode"));
    ASSERT(processes_become(unique, 2, 5000));
    CLEANUP_REPLY struct reply gone = post(&emulator, "/sandbox/kill/destroy", "[]");
    ASSERT_EQ(200, gone.status);
    ASSERT(processes_become(unique, 0, 1000));
    PASS();
}

TEST what_is_limited_is_said_once(void)
{
    char text[16384] = "";
    FILE *log = fopen(emulator.log, "re");
    size_t size = log ? fread(text, 1, sizeof text - 1, log) : 0;
    if (log)
        fclose(log);
    text[size] = '\0';
    char *said = strstr(text, "docs/rootless.md");
    ASSERT(said && !strstr(said + 1, "docs/rootless.md"));
    ASSERT_EQm(keep(text), full, strstr(text, "one user id") == NULL);
    ASSERT_EQm(keep(text), overlays, strstr(text, "no overlays") == NULL);
    PASS();
}

/* The last of its suite. */
TEST a_killed_emulator_leaves_no_process(void)
{
    char command[128], unique[32];
    snprintf(unique, sizeof unique, "%d.25", 300000 + (int)getpid());
    snprintf(command, sizeof command, "setsid sleep %s >/dev/null 2>&1 &", unique);
    CLEANUP_REPLY struct reply reply = run_in("left", command);
    ASSERT(processes_become(unique, 1, 5000));
    emulator_kill(&emulator);
    ASSERT(processes_become(unique, 0, 1000));
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    CLEANUP_REPLY struct reply again = run_in("left", "echo back");
    ASSERT_STR_EQ("back", text_at(again.json, "stdout"));
    PASS();
}

SUITE(rootless)
{
    RUN_TEST(a_command_runs_as_root_of_its_namespace);
    RUN_TEST(a_session_keeps_its_state_and_a_file_comes_back);
    RUN_TEST(what_can_be_written_is_as_documented);
    RUN_TEST(node_runs_within_the_limit_of_memory);
    RUN_TEST(files_are_gone_after_idle_sleep);
    RUN_TEST(attacks_are_refused_here_too);
    RUN_TEST(a_command_that_times_out_and_a_kill_leave_nothing);
    RUN_TEST(what_is_limited_is_said_once);
    RUN_TEST(a_killed_emulator_leaves_no_process);
}

static int spill(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    int result = file && fputs(text, file) >= 0 ? 0 : -1;
    return file && fclose(file) == 0 ? result : -1;
}

/* An account with subordinate ids, for this process and what it starts. */
static const char *pretend_account(void)
{
    static char dir[] = "/tmp/sandpit-test-XXXXXX";
    static const struct {
        const char *name, *target, *text;
    } files[] = {
        {"passwd", "/etc/passwd",
         "root:x:0:0::/root:/bin/sh\nsandpit-test:x:61234:61234::/tmp:/bin/sh\n"},
        {"subuid", "/etc/subuid", "sandpit-test:300000:65536\n"},
        {"subgid", "/etc/subgid", "sandpit-test:300000:65536\n"},
    };
    if (access("/usr/bin/newuidmap", X_OK) < 0 || access("/usr/bin/newgidmap", X_OK) < 0)
        return "newuidmap and newgidmap are not installed";
    if (access("/etc/subuid", F_OK) < 0 || access("/etc/subgid", F_OK) < 0)
        return "there is no /etc/subuid";
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        !mkdtemp(dir))
        return "no mount namespace";
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
        if (spill(path, files[i].text) < 0 || chmod(path, 0644) < 0 ||
            mount(path, files[i].target, NULL, MS_BIND, NULL) < 0)
            return "the account could not be made";
        unlink(path);
    }
    rmdir(dir);
    return NULL;
}

GREATEST_MAIN_DEFS();

static void choose(bool with_subids, bool with_overlays)
{
    full = with_subids;
    overlays = with_overlays;
    unsetenv("SANDPIT_NO_SUBIDS");
    unsetenv("SANDPIT_NO_OVERLAY");
    if (!full)
        setenv("SANDPIT_NO_SUBIDS", "1", 1);
    if (!overlays)
        setenv("SANDPIT_NO_OVERLAY", "1", 1);
}

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    emulator.uid = geteuid() == 0 ? NOBODYS_UID : 0;
    if (!emulator_runs_as(emulator.uid)) {
        printf("SKIP rootless: another user cannot execute %s\n", SANDPIT_BINARY);
        return 77;
    }
    choose(false, true);
    SYSTEM_SUITE(emulator, rootless);
    choose(false, false);
    SYSTEM_SUITE(emulator, rootless);
    const char *lacking = geteuid() == 0 ? pretend_account() : "not root: no account to pretend";
    if (lacking) {
        printf("SKIP rootless with subordinate ids: %s\n", lacking);
    } else {
        choose(true, true);
        SYSTEM_SUITE(emulator, rootless);
    }
    GREATEST_MAIN_END();
}
