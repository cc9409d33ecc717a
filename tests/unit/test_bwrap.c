/* The bubblewrap driver with the real bubblewrap and the real runtime. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "drivers/chain.h"
#include "drivers/driver.h"
#include "drivers/starter.h"
#include "greatest.h"

enum { DEADLINE_MS = 20000, UPPER = 64 * 1024 * 1024, OUTPUT_MAX = 1024 * 1024 };

static struct {
    struct loop *loop;
    struct driver *driver;
    struct instance *instance;
    struct agent *agent;
    char scratch[64], why[512], unique[32];
    int gones;
    bool late;
    /* The command that runs: its end is its report and the end of its output. */
    struct watch output;
    struct buf text;
    int pid, code;
    bool refused, reported;
} t;

/* --- Helpers ---------------------------------------------------------------------------------- */

static void too_late(void *arg)
{
    t.late = true;
    loop_stop(t.loop);
}

/* Runs the loop until somebody stops it; false after the deadline. */
static bool wait_for_stop(void)
{
    struct timer timer = {.fire = too_late};
    loop_arm(t.loop, &timer, MS_NS(DEADLINE_MS));
    loop_run(t.loop, NULL);
    loop_disarm(t.loop, &timer);
    return !t.late;
}

static void on_ready(void *arg, struct agent *agent)
{
    t.agent = agent;
    loop_stop(t.loop);
}

static void stop_when_finished(void)
{
    if (t.refused || (t.reported && t.output.fd < 0))
        loop_stop(t.loop);
}

static void on_exited(void *arg, int pid, const struct rt_exit *how)
{
    if (pid != t.pid)
        return;
    t.code = how->code;
    t.reported = true;
    stop_when_finished();
}

static void on_gone(void *arg, const char *why)
{
    t.gones++;
    t.agent = NULL;
    t.instance = NULL;
    snprintf(t.why, sizeof(t.why), "%s", why);
    loop_stop(t.loop);
}

static void on_output(void *arg, uint32_t events)
{
    int error;
    char *to = buf_reserve(&t.text, 4096, &error);
    ssize_t size = to ? read(t.output.fd, to, 4096) : 0;
    if (size < 0)
        return;
    if (to)
        buf_commit(&t.text, (size_t)size);
    if (size > 0)
        return;
    int fd = t.output.fd;
    loop_unwatch(t.loop, &t.output);
    close(fd);
    stop_when_finished();
}

static void on_spawned(void *arg, struct agent_answer *answer)
{
    t.pid = answer->value;
    t.refused = answer->value < 0;
    if (answer->fd_count == 1)
        loop_watch(t.loop, &t.output, steal_fd(&answer->fds[0]), EPOLLIN);
    stop_when_finished();
}

/* Runs a shell command in the container; its output is in t.text. Returns the exit code, or a
 * negative number. */
static int run(const char *command)
{
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    struct rt_slot slots[] = {{0, RT_SLOT_NULL}, {1, RT_SLOT_OUT}, {2, RT_SLOT_NULL}};
    struct agent_spawn spawn = {.cwd = "/",
                                .argv = argv,
                                .env = driver_environment(t.driver),
                                .slots = slots,
                                .slot_count = 3};
    buf_clear(&t.text);
    t.code = -1;
    t.refused = t.reported = false;
    if (!t.agent || agent_spawn(t.agent, &spawn, on_spawned, NULL) < 0)
        return -2;
    return wait_for_stop() && !t.refused ? t.code : -3;
}

static const char *output(void)
{
    return buf_text(&t.text);
}

static bool start_with(struct instance_spec spec)
{
    struct instance_events events = {.ready = on_ready, .exited = on_exited, .gone = on_gone};
    struct error err = {0};
    t.instance = driver_start(t.driver, &spec, events, &err);
    if (!t.instance)
        fprintf(stderr, "%s\n", err.text);
    return t.instance != NULL;
}

static bool start(void)
{
    struct instance_spec spec = {.hostname = "box", .python = true, .upper_bytes = UPPER};
    return start_with(spec) && wait_for_stop() && t.agent;
}

static bool end(void)
{
    int before = t.gones;
    instance_kill(t.instance);
    instance_kill(t.instance);
    return wait_for_stop() && t.gones == before + 1;
}

/* How many processes of this machine have `text` in their command line. */
static int processes_with(const char *text)
{
    CLEANUP_DIR DIR *proc = opendir("/proc");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(proc));) {
        char path[300], line[4096];
        snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
        CLEANUP_FD int fd =
            isdigit((unsigned char)entry->d_name[0]) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t size = fd < 0 ? -1 : read(fd, line, sizeof(line));
        count += size > 0 && memmem(line, (size_t)size, text, strlen(text)) != NULL;
    }
    return count;
}

static char *slurp(const char *path)
{
    struct buf text = BUF_INIT(OUTPUT_MAX);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (;;) {
        char *to = buf_reserve(&text, 4096, NULL);
        ssize_t size = fd < 0 || !to ? 0 : read(fd, to, 4096);
        if (to)
            buf_commit(&text, size > 0 ? (size_t)size : 0);
        if (size <= 0)
            return buf_steal(&text);
    }
}

static void spill(const char *path, const char *text, mode_t mode)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
}

/* A path below the scratch directory; the last few stay valid. */
static const char *scratch(const char *name)
{
    static char paths[8][256];
    static int at;
    at = (at + 1) % 8;
    snprintf(paths[at], sizeof(paths[at]), "%s/%s", t.scratch, name);
    return paths[at];
}

static void make_dirs(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s/", t.scratch, name);
    for (char *slash = path + strlen(t.scratch) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    return remove(path);
}

static void set_up(void *arg)
{
    memset(&t, 0, sizeof(t));
    struct error err = {0};
    t.text = BUF_INIT(OUTPUT_MAX);
    t.output = (struct watch){.ready = on_output, .fd = -1};
    snprintf(t.scratch, sizeof(t.scratch), "/tmp/sandpit-test-XXXXXX");
    if (!mkdtemp(t.scratch) || chmod(t.scratch, 0755) < 0)
        abort();
    /* A number of seconds that nobody else sleeps. */
    snprintf(t.unique, sizeof(t.unique), "%d%06ld", (int)getpid(), random() % 1000000);
    make_dirs("run");
    t.loop = loop_new(&err);
    t.driver = driver_bwrap_new(t.loop, scratch("run"), &err);
    if (!t.driver) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static void tear_down(void *arg)
{
    driver_free(t.driver);
    loop_free(t.loop);
    buf_free(&t.text);
    nftw(t.scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* --- What a container is ---------------------------------------------------------------------- */

TEST a_container_starts_and_runs_a_command(void)
{
    ASSERT(start());
    ASSERT_EQ(0, run("/bin/true"));
    ASSERT_EQ(3, run("echo out; exit 3"));
    ASSERT_STR_EQ("out\n", output());
    ASSERT(end());
    ASSERT_STR_EQ("killed", t.why);
    PASS();
}

TEST the_host_name_is_cleaned_and_resolves(void)
{
    struct instance_spec spec = {.hostname = "-My_Box.9-", .python = true, .upper_bytes = UPPER};
    ASSERT(start_with(spec) && wait_for_stop());
    ASSERT_EQ(0, run("uname -n; cat /etc/hostname; getent hosts mybox9 | wc -l"));
    ASSERT_STR_EQ("mybox9\nmybox9\n1\n", output());
    PASS();
}

TEST no_directory_of_the_host_shows_but_the_allowed(void)
{
    static const char allowed[] = " bin boot dev etc home lib lib32 lib64 libx32 media mnt opt "
                                  "proc root run sbin srv sys tmp usr var workspace ";
    ASSERT(start());
    ASSERT_EQ(0, run("ls -A /"));
    for (const char *name = output(); *name; name += strcspn(name, "\n") + 1) {
        char word[300];
        snprintf(word, sizeof(word), " %.*s ", (int)strcspn(name, "\n"), name);
        ASSERTm(name, strstr(allowed, word));
    }
    ASSERT_EQ(0, run("find /home /srv /mnt /media /workspace /tmp /var/log -type f | head -5"));
    ASSERT_STR_EQ("", output());
    PASS();
}

TEST secrets_of_the_host_are_not_there(void)
{
    ASSERT(start());
    ASSERT_EQ(0, run("for f in /etc/shadow /etc/gshadow /etc/ssh /etc/ssl/private /etc/sudoers "
                     "/etc/apt /etc/environment /etc/npmrc /etc/pip.conf /etc/gitconfig "
                     "/etc/machine-id /root/.ssh /root/.bashrc /root/.bash_history /work; "
                     "do [ -e $f ] && echo $f; done; true"));
    ASSERT_STR_EQ("", output());
    ASSERT_EQ(0, run("find /root -maxdepth 1 -type f"));
    ASSERT_STR_EQ("", output());
    ASSERT_EQ(0, run("cut -d: -f1 /etc/passwd | head -2; cat /etc/resolv.conf"));
    ASSERT_STR_EQ("root\ndaemon\n", output());
    PASS();
}

TEST writes_stay_in_the_container_and_end_with_it(void)
{
    if (geteuid() != 0)
        SKIPm("not root: what can be written is less, see system/test_rootless.c");
    ASSERT(start());
    char command[256];
    char *passwd = slurp("/etc/passwd");
    snprintf(command, sizeof(command),
             "for d in /usr/local /usr/bin /etc /root /opt /workspace /tmp /var/lib/dpkg "
             "/etc/alternatives; do touch $d/canary-%s || exit 1; done; echo x >> /etc/passwd; "
             "rm /usr/bin/env; mv /usr/share /usr/share2",
             t.unique);
    int code = run(command);
    char *after = slurp("/etc/passwd");
    bool same = strcmp(passwd, after) == 0;
    free(passwd);
    free(after);
    ASSERT_EQ(0, code);
    ASSERTm("the host's accounts are as they were", same);
    ASSERTm("the host's programs are as they were", access("/usr/bin/env", X_OK) == 0);
    ASSERT(access("/usr/share", F_OK) == 0 && access("/usr/share2", F_OK) < 0);
    static const char *const dirs[] = {"/usr/local", "/usr/bin", "/etc",
                                       "/root",      "/tmp",     "/etc/alternatives"};
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        snprintf(command, sizeof(command), "%s/canary-%s", dirs[i], t.unique);
        ASSERTm(dirs[i], access(command, F_OK) < 0);
    }
    ASSERT(end() && start());
    snprintf(command, sizeof(command), "find /usr/local /workspace /tmp /etc -name 'canary-%s'",
             t.unique);
    ASSERT_EQ(0, run(command));
    ASSERT_STR_EQ("", output());
    PASS();
}

TEST the_layer_has_the_size_that_was_asked_for(void)
{
    struct instance_spec spec = {.hostname = "x", .upper_bytes = 4 * 1024 * 1024};
    ASSERT(start_with(spec) && wait_for_stop());
    ASSERT(run("head -c 8000000 /dev/zero > /tmp/large") != 0);
    PASS();
}

TEST the_environment_is_the_drivers_and_nothing_of_ours(void)
{
    setenv("SANDPIT_TEST_SECRET", "hunter2", 1);
    bool started = start();
    int code = run("env");
    unsetenv("SANDPIT_TEST_SECRET");
    ASSERT(started);
    ASSERT_EQ(0, code);
    ASSERT(strstr(output(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    ASSERT(strstr(output(), "HOME=/root\n") && strstr(output(), "LANG=C.UTF-8\n"));
    ASSERT(strstr(output(), "PIP_BREAK_SYSTEM_PACKAGES=1\n"));
    ASSERT(!strstr(output(), "hunter2"));
    run("cat /proc/1/environ | tr '\\0' '\\n'");
    ASSERT(!strstr(output(), "hunter2"));
    PASS();
}

TEST bubblewrap_and_pid_1_do_not_have_our_environment(void)
{
    setenv("SANDPIT_TEST_SECRET", "hunter2", 1);
    bool started = start();
    unsetenv("SANDPIT_TEST_SECRET");
    ASSERT(started);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    int pid = -1;
    for (int level = 0; level < 2; level++) {
        char *children = slurp(path);
        pid = (int)strtol(children, NULL, 10);
        free(children);
        ASSERT(pid > 0);
        snprintf(path, sizeof(path), "/proc/%d/environ", pid);
        CLEANUP_FREE char *environment = slurp(path);
        ASSERTm("a readable environment", level == 1 || environment[0]);
        CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
        char bytes[8192];
        ssize_t size = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
        ASSERT(size <= 0 || !memmem(bytes, (size_t)size, "hunter2", 7));
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    }
    PASS();
}

TEST a_process_has_three_descriptors_and_no_way_to_pid_1(void)
{
    ASSERT(start());
    ASSERT_EQ(0, run("for f in /proc/self/fd/*; do echo ${f##*/}; done"));
    /* 3 may be the directory that the shell is reading. */
    ASSERT(strcmp(output(), "0\n1\n2\n") == 0 || strcmp(output(), "0\n1\n2\n3\n") == 0);
    ASSERT(run("ls /proc/1/fd/3 || ls /proc/1/root/etc || cat /proc/1/mem") != 0);
    ASSERT_EQ(0, run("kill -9 1; kill -TERM 1; true"));
    ASSERT_EQ(0, run("true"));
    PASS();
}

TEST the_network_is_a_loopback_of_its_own(void)
{
    ASSERT(start());
    ASSERT_EQ(0, run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"));
    ASSERT_STR_EQ("lo\n", output());
    PASS();
}

/* Only opens, never writes: were the guarantee broken, the host would not be. */
TEST settings_of_the_kernel_cannot_be_written(void)
{
    ASSERT(start());
    static const char *const files[] = {"/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches",
                                        "/proc/sysrq-trigger"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char command[128];
        snprintf(command, sizeof(command), "(exec 3>>%s) && echo open", files[i]);
        if (access(files[i], F_OK) < 0)
            continue;
        ASSERTm(files[i], run(command) != 0 || !strstr(output(), "open"));
    }
    PASS();
}

TEST a_container_cannot_mount_or_reach_devices(void)
{
    ASSERT(start());
    ASSERT(run("mount -t tmpfs none /mnt") != 0);
    ASSERT(run("mount -o remount,bind,rw /proc/sys") != 0);
    ASSERT(run("mount -t proc proc /mnt") != 0);
    ASSERT(run("mknod /tmp/m c 1 1 && exec 3</tmp/m") != 0);
    ASSERT(run("cd /; chroot /proc/1/root /bin/true && ls /proc/1/root/oldroot") != 0);
    PASS();
}

TEST python_is_there_under_both_names(void)
{
    if (access("/usr/bin/python3", X_OK) < 0)
        SKIPm("this host has no /usr/bin/python3");
    ASSERT(start());
    ASSERT_EQ(0, run("python3 -c 'print(6 * 7)'; python -c 'print(6 * 7)'"));
    ASSERT_STR_EQ("42\n42\n", output());
    PASS();
}

TEST a_lean_container_has_no_python(void)
{
    struct instance_spec spec = {.hostname = "lean", .python = false, .upper_bytes = UPPER};
    ASSERT(start_with(spec) && wait_for_stop());
    ASSERT_EQ(127, run("python3 --version"));
    ASSERT_EQ(127, run("python --version"));
    ASSERT_EQ(127, run("pip --version"));
    ASSERT_EQ(127, run("env python3 --version"));
    ASSERT_EQ(0, run("ls /usr/bin | grep -c '^python'; bash -c 'echo fine'"));
    ASSERT_STR_EQ("0\nfine\n", output());
    PASS();
}

/* --- Tools of the caller's PATH --------------------------------------------------------------- */

static void make_tool(const char *dir, const char *name)
{
    char path[128];
    make_dirs(dir);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    spill(scratch(path), "#!/bin/sh\necho $0\n", 0755);
}

static void new_driver_with_path(const char *path)
{
    CLEANUP_FREE char *old_path = strdup(getenv("PATH"));
    CLEANUP_FREE char *old_home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("PATH", path, 1);
    setenv("HOME", scratch("home"), 1);
    driver_free(t.driver);
    struct error err = {0};
    t.driver = driver_bwrap_new(t.loop, scratch("run"), &err);
    setenv("PATH", old_path, 1);
    if (old_home)
        setenv("HOME", old_home, 1);
    else
        unsetenv("HOME");
    if (!t.driver) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

TEST tools_on_path_show_read_only_with_as_little_as_possible(void)
{
    make_tool("home/.local/bin", "small-tool");
    spill(scratch("home/.local/secret"), "s", 0644);
    spill(scratch("home/secret"), "s", 0644);
    make_tool("home/.nvm/versions/v1/bin", "wide-tool");
    spill(scratch("home/.nvm/versions/v1/library"), "lib", 0644);
    make_tool("open/bin", "open-tool");
    if (chmod(scratch("open/bin"), 0777) < 0)
        FAIL();
    make_tool("home/.pyenv/shims", "shim-tool");
    make_tool("home/.pyenv/versions/3.99/bin", "python3");
    make_tool("home/.pyenv/versions/3.99/bin", "py-tool");
    spill(scratch("home/.pyenv/version"), "3.99\n", 0644);
    char path[2048];
    snprintf(path, sizeof(path), "%s:%s:%s:relative/bin:%s/:%s:%s:%s:/usr/bin",
             scratch("home/.local/bin"), scratch("home"), scratch("nothing/bin"),
             scratch("home/.nvm/versions/v1/bin"), scratch("open/bin"),
             scratch("home/.pyenv/shims"), scratch("home/.local/bin"));
    new_driver_with_path(path);
    ASSERT(start());
    ASSERT_EQ(0, run("small-tool && wide-tool && py-tool"));
    ASSERT_EQ(127, run("open-tool"));
    ASSERT_EQ(127, run("shim-tool"));
    char command[512];
    snprintf(command, sizeof(command), "cd %s/home && ls -A . .local .nvm/versions/v1", t.scratch);
    ASSERT_EQ(0, run(command));
    ASSERT(!strstr(output(), "secret"));
    ASSERT(strstr(output(), "library"));
    snprintf(command, sizeof(command), "touch %s/home/.local/bin/x", t.scratch);
    ASSERT(run(command) != 0);
    ASSERT(end());
    struct instance_spec lean = {.hostname = "lean", .upper_bytes = UPPER};
    ASSERT(start_with(lean) && wait_for_stop());
    ASSERT_EQ(0, run("small-tool"));
    ASSERT_EQ(127, run("py-tool"));
    ASSERT_EQ(127, run("python3"));
    PASS();
}

TEST a_link_on_path_shows_what_it_points_to(void)
{
    make_tool("opt/tool-1.0/bin", "linked-tool");
    if (symlink(scratch("opt/tool-1.0/bin"), scratch("link")) < 0)
        FAIL();
    new_driver_with_path(scratch("link"));
    ASSERT(start());
    ASSERT_EQ(0, run("linked-tool"));
    ASSERT(strstr(output(), "/opt/tool-1.0/bin/linked-tool"));
    PASS();
}

TEST missing_tools_are_named_in_one_line(void)
{
    new_driver_with_path("/nonexistent");
    const char *line = driver_missing_tools(t.driver);
    if (line)
        ASSERT(strncmp(line, "not on this host, so not in sandboxes: ", 39) == 0 &&
               !strchr(line, '\n') && !strstr(line, "bash"));
    PASS();
}

/* --- Ends ------------------------------------------------------------------------------------- */

TEST a_kill_ends_200_processes_before_gone(void)
{
    ASSERT(start());
    char command[256];
    snprintf(command, sizeof(command),
             "i=0; while [ $i -lt 200 ]; do setsid sleep %s & i=$((i+1)); done >/dev/null",
             t.unique);
    ASSERT_EQ(0, run(command));
    /* One that is between setsid and sleep has no command line for a moment. */
    int seen = 0;
    for (int tries = 0; seen < 200 && tries < 1000; tries++) {
        ASSERT_EQ(0, run("true"));
        seen = processes_with(t.unique);
    }
    ASSERT(seen >= 200);
    ASSERT(end());
    ASSERT_EQ(0, processes_with(t.unique));
    ASSERT_EQ(1, t.gones);
    PASS();
}

TEST a_kill_before_it_is_ready_ends_it(void)
{
    struct instance_spec spec = {.hostname = t.unique, .python = true, .upper_bytes = UPPER};
    for (int i = 0; i < 20; i++) {
        ASSERT(start_with(spec));
        /* Each a little further into the start. */
        for (int64_t until = loop_now_ns() + i * 300000; loop_now_ns() < until;)
            ;
        ASSERT(end());
        ASSERT_STR_EQ("killed", t.why);
        ASSERT(!t.agent);
    }
    ASSERT_EQ(20, t.gones);
    ASSERT_EQ(0, processes_with(t.unique));
    PASS();
}

TEST what_fails_while_starting_is_told(void)
{
    struct instance_spec spec = {.hostname = "x", .upper_bytes = 4096};
    ASSERT(start_with(spec) && wait_for_stop());
    ASSERT_EQ(1, t.gones);
    ASSERT(strstr(t.why, "did not start") && strstr(t.why, "No space left"));
    PASS();
}

TEST freeing_the_driver_leaves_no_process(void)
{
    ASSERT(start());
    char command[128];
    snprintf(command, sizeof(command), "sleep %s >/dev/null & true", t.unique);
    ASSERT_EQ(0, run(command));
    driver_free(t.driver);
    t.driver = NULL;
    ASSERT_EQ(0, t.gones);
    ASSERT_EQ(0, processes_with(t.unique));
    PASS();
}

/* Waits, with a deadline and without a sleep of a fixed length, for a condition outside our loop.
 */
static bool none_left(const char *text, int ms)
{
    int64_t until = loop_now_ns() + MS_NS(ms);
    while (processes_with(text) > 0) {
        if (loop_now_ns() > until)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return true;
}

/* An emulator of its own, in a child: says "r" when its container runs, then serves until killed.
 */
static int emulator_process(int delay_us, int *told)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -1;
    int pid = fork();
    if (pid > 0) {
        close(pair[1]);
        *told = pair[0];
        return pid;
    }
    close(pair[0]);
    struct error err = {0};
    t.loop = loop_new(&err);
    make_dirs("other");
    t.driver = driver_bwrap_new(t.loop, scratch("other"), &err);
    struct instance_spec spec = {.hostname = t.unique, .python = true, .upper_bytes = UPPER};
    if (!t.driver || !start_with(spec))
        _exit(1);
    if (delay_us >= 0) {
        for (int64_t until = loop_now_ns() + delay_us * 1000LL; loop_now_ns() < until;)
            ;
        kill(getpid(), SIGKILL);
    }
    char command[128];
    snprintf(command, sizeof(command), "setsid sleep %s >/dev/null & sleep %s >/dev/null &",
             t.unique, t.unique);
    if (!wait_for_stop() || run(command) != 0 || write(pair[1], "r", 1) != 1)
        _exit(1);
    loop_run(t.loop, NULL);
    _exit(0);
}

TEST a_killed_emulator_leaves_no_process_and_no_mount(void)
{
    char *before = slurp("/proc/self/mountinfo");
    int told;
    int pid = emulator_process(-1, &told);
    ASSERT(pid > 0);
    char byte = 0;
    ssize_t size = read(told, &byte, 1);
    close(told);
    bool running = processes_with(t.unique) >= 2;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    bool left = !none_left(t.unique, 1000);
    char *after = slurp("/proc/self/mountinfo");
    bool same = strcmp(before, after) == 0;
    free(before);
    free(after);
    ASSERT_EQ(1, size);
    ASSERT(running);
    ASSERTm("no process within a second", !left);
    ASSERTm("the same mounts", same);
    PASS();
}

TEST an_emulator_killed_during_a_start_leaves_no_process(void)
{
    for (int i = 0; i < 25; i++) {
        int told;
        int pid = emulator_process(i * 250, &told);
        ASSERT(pid > 0);
        close(told);
        int status;
        waitpid(pid, &status, 0);
        ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        /* The name of the host is an argument of bubblewrap, in every process of the start. */
        ASSERT(none_left(t.unique, 1000));
        ASSERT(none_left(scratch("other"), 1000));
    }
    PASS();
}

TEST our_mount_table_does_not_change(void)
{
    char *before = slurp("/proc/self/mountinfo");
    bool started = start();
    char *during = slurp("/proc/self/mountinfo");
    bool ended = end();
    char *after = slurp("/proc/self/mountinfo");
    bool same = strcmp(before, during) == 0 && strcmp(before, after) == 0;
    free(before);
    free(during);
    free(after);
    ASSERT(started && ended);
    ASSERT(same);
    PASS();
}

/* --- Links where bubblewrap mounts ------------------------------------------------------------ */

TEST mount_points_that_are_links_are_replaced(void)
{
    make_dirs("root");
    make_dirs("canary");
    spill(scratch("canary/file"), "here", 0644);
    char target[300];
    snprintf(target, sizeof(target), "/oldroot%s", scratch("canary"));
    static const char *const links[] = {"dev", "proc", "workspace"};
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "root/%s", links[i]);
        ASSERT_EQ(0, symlink(i == 2 ? "../canary" : target, scratch(name)));
    }
    spill(scratch("root/run"), "a file", 0644);
    ASSERT_EQ(0, symlink("nowhere", scratch("root/tmp")));
    CLEANUP_FD int root = open(scratch("root"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(0, chain_mount_points(root));
    static const char *const all[] = {"dev", "proc", "sys", "tmp", "run", "workspace"};
    for (size_t i = 0; i < 6; i++) {
        struct stat st;
        ASSERT_EQ(0, fstatat(root, all[i], &st, AT_SYMLINK_NOFOLLOW));
        ASSERTm(all[i], S_ISDIR(st.st_mode));
    }
    ASSERT_EQ(0, access(scratch("canary/file"), F_OK));
    PASS();
}

TEST links_left_by_a_container_lead_the_next_one_nowhere(void)
{
    make_dirs("canary");
    spill(scratch("canary/file"), "here", 0644);
    for (int i = 0; i < 3; i++) {
        ASSERT(start());
        char command[512];
        snprintf(command, sizeof(command),
                 "for d in workspace tmp run sys srv; do rm -rf /$d; ln -s /oldroot%s /$d; done; "
                 "rm -rf /etc/alternatives/* /var/lib; ln -s /oldroot%s /var/lib; true",
                 scratch("canary"), scratch("canary"));
        ASSERT_EQ(0, run(command));
        ASSERT(end());
    }
    ASSERT(start());
    ASSERT_EQ(0, run("test -d /workspace && ! test -L /workspace && ! test -L /tmp"));
    char *text = slurp(scratch("canary/file"));
    bool same = strcmp(text, "here") == 0;
    free(text);
    ASSERT(same);
    int count = 0;
    CLEANUP_DIR DIR *dir = opendir(scratch("canary"));
    while (dir && readdir(dir))
        count++;
    ASSERT_EQm("nothing was added", 3, count);
    PASS();
}

/* Where links in a root could lead to: a directory of this host with one file. */
static bool canary_is_untouched(void)
{
    CLEANUP_FREE char *text = slurp(scratch("canary/file"));
    int count = 0;
    CLEANUP_DIR DIR *dir = opendir(scratch("canary"));
    while (dir && readdir(dir))
        count++;
    struct stat st;
    return strcmp(text, "here") == 0 && count == 3 && stat(scratch("canary"), &st) == 0 &&
           (st.st_mode & 0777) == 0755;
}

/* Makes a link of what the profile has at this path of the tmpfs, or adds one. */
static void plant(struct starter *starter, const char *path, const char *target)
{
    struct chain_step link = {CHAIN_LINK, CHAIN_BOTH, 0, (char *)path, (char *)target};
    for (size_t i = 0; i < starter->profile.step_count; i++) {
        struct chain_step *step = &starter->profile.steps[i];
        if (step->kind != CHAIN_DIR || strcmp(step->path, path) != 0)
            continue;
        step->kind = CHAIN_LINK;
        free(step->text);
        step->text = strdup(target);
        return;
    }
    if (profile_add_step(&starter->profile, link) < 0)
        abort();
}

/* Words in front of bubblewrap's other arguments. */
static void tell_bwrap(struct starter *starter, const char *option, const char *path)
{
    memmove(starter->arguments + 2, starter->arguments,
            sizeof(starter->arguments) - 2 * sizeof(starter->arguments[0]));
    starter->arguments[0] = option;
    starter->arguments[1] = path;
}

/* One start whose runtime ends at once, because nobody is at the other end of its socket. The
 * status of the child, as waitpid gives it. */
static int start_once(const struct starter *starter)
{
    int pair[2], status = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    close(pair[0]);
    CLEANUP_FD int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct start how = {.hostname = "hostile",
                        .resolv = "",
                        .python = true,
                        .upper_bytes = UPPER,
                        .socket = pair[1],
                        .errors = nowhere};
    int pid = starter_start(starter, &how, NULL);
    close(pair[1]);
    if (pid > 0)
        waitpid(pid, &status, 0);
    return status;
}

/* As an image or an upper layer with hostile links would be (CVE-2026-87766). */
TEST links_in_a_root_lead_bubblewrap_nowhere(void)
{
    /* What bubblewrap or the chain mounts on or makes, and whether it starts all the same. */
    static const struct {
        const char *path, *dir;
        bool starts;
    } places[] = {
        {"root/dev", NULL, true},
        {"root/proc", NULL, true},
        {"root/workspace", NULL, true},
        {"root/tmp", NULL, true},
        {"root/run/lock", NULL, true},
        {"u/etc/alternatives", NULL, false},
        {"root/srv", "/srv/planted", false},
        {"u/etc/link", "/etc/link/planted", false},
        {"u/usr/link", "/usr/link/planted", false},
    };
    make_dirs("canary");
    make_dirs("hostile");
    spill(scratch("canary/file"), "here", 0644);
    char targets[5][300];
    snprintf(targets[0], sizeof(targets[0]), "/oldroot%s", scratch("canary"));
    snprintf(targets[1], sizeof(targets[1]), "%s", scratch("canary"));
    snprintf(targets[2], sizeof(targets[2]), "../../../../../../..%s", scratch("canary"));
    snprintf(targets[3], sizeof(targets[3]), "../../oldroot%s", scratch("canary"));
    snprintf(targets[4], sizeof(targets[4]), "nowhere");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        for (size_t j = 0; j < sizeof(targets) / sizeof(targets[0]); j++) {
            struct starter starter;
            ASSERT_EQ(0, starter_open(&starter, scratch("hostile"), NULL));
            plant(&starter, places[i].path, targets[j]);
            if (places[i].dir)
                tell_bwrap(&starter, "--dir", places[i].dir);
            int status = start_once(&starter);
            starter_close(&starter);
            ASSERTm(places[i].path, canary_is_untouched());
            if (places[i].starts)
                ASSERT_EQm(places[i].path, 0, status);
        }
    }
    PASS();
}

TEST a_merged_usr_is_shown_by_the_same_links(void)
{
    struct stat st;
    if (lstat("/bin", &st) < 0 || !S_ISLNK(st.st_mode))
        SKIPm("/bin of this host is no link");
    ASSERT(start());
    ASSERT_EQ(0, run("readlink /bin; /bin/sh -c 'echo fine'"));
    ASSERT_STR_EQ("usr/bin\nfine\n", output());
    PASS();
}

TEST bubblewrap_sees_nothing_of_the_host_but_its_programs(void)
{
    ASSERT(start());
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    CLEANUP_FREE char *children = slurp(path);
    int pid = (int)strtol(children, NULL, 10);
    static const char *const hidden[] = {"home", "var", "srv", "opt", "boot", "run", "work"};
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        snprintf(target, sizeof(target), "/proc/%d/root/%s", pid, hidden[i]);
        ASSERTm(hidden[i], access(target, F_OK) < 0);
    }
    if (geteuid() == 0) {
        snprintf(target, sizeof(target), "/proc/%d/root/usr/bin", pid);
        ASSERT_EQ(0, access(target, F_OK));
    }
    PASS();
}

/* The kernel's own view, without the file API: what root of the host cannot be made to do. */
TEST without_its_own_ids_a_container_is_still_held(void)
{
    if (geteuid() != 0)
        SKIPm("not root: there is no such fallback");
    setenv("SANDPIT_NO_IDMAP", "1", 1);
    driver_free(t.driver);
    struct error err = {0};
    t.driver = driver_bwrap_new(t.loop, scratch("run"), &err);
    unsetenv("SANDPIT_NO_IDMAP");
    ASSERT(t.driver);
    ASSERT(driver_warning(t.driver) && !strchr(driver_warning(t.driver), '\n'));
    ASSERT(start());
    ASSERT_EQ(0, run("cat /proc/self/uid_map | tr -s ' '"));
    ASSERT_STR_EQ(" 0 0 4294967295\n", output());
    ASSERT(run("unshare -U true") != 0);
    ASSERT(run("(exec 3>>/proc/sys/kernel/core_pattern)") != 0);
    ASSERT(run("mknod /tmp/m b 8 0") != 0);
    ASSERT_EQ(0, run("touch /usr/bin/x /etc/y && chown 33 /etc/y"));
    PASS();
}

SUITE(containers)
{
    SET_SETUP(set_up, NULL);
    SET_TEARDOWN(tear_down, NULL);
    RUN_TEST(a_container_starts_and_runs_a_command);
    RUN_TEST(the_host_name_is_cleaned_and_resolves);
    RUN_TEST(no_directory_of_the_host_shows_but_the_allowed);
    RUN_TEST(secrets_of_the_host_are_not_there);
    RUN_TEST(writes_stay_in_the_container_and_end_with_it);
    RUN_TEST(the_layer_has_the_size_that_was_asked_for);
    RUN_TEST(the_environment_is_the_drivers_and_nothing_of_ours);
    RUN_TEST(bubblewrap_and_pid_1_do_not_have_our_environment);
    RUN_TEST(a_process_has_three_descriptors_and_no_way_to_pid_1);
    RUN_TEST(the_network_is_a_loopback_of_its_own);
    RUN_TEST(settings_of_the_kernel_cannot_be_written);
    RUN_TEST(a_container_cannot_mount_or_reach_devices);
    RUN_TEST(python_is_there_under_both_names);
    RUN_TEST(a_lean_container_has_no_python);
    RUN_TEST(tools_on_path_show_read_only_with_as_little_as_possible);
    RUN_TEST(a_link_on_path_shows_what_it_points_to);
    RUN_TEST(missing_tools_are_named_in_one_line);
}

SUITE(ends)
{
    SET_SETUP(set_up, NULL);
    SET_TEARDOWN(tear_down, NULL);
    RUN_TEST(a_kill_ends_200_processes_before_gone);
    RUN_TEST(a_kill_before_it_is_ready_ends_it);
    RUN_TEST(what_fails_while_starting_is_told);
    RUN_TEST(freeing_the_driver_leaves_no_process);
    RUN_TEST(a_killed_emulator_leaves_no_process_and_no_mount);
    RUN_TEST(an_emulator_killed_during_a_start_leaves_no_process);
    RUN_TEST(our_mount_table_does_not_change);
    RUN_TEST(mount_points_that_are_links_are_replaced);
    RUN_TEST(links_left_by_a_container_lead_the_next_one_nowhere);
    RUN_TEST(links_in_a_root_lead_bubblewrap_nowhere);
    RUN_TEST(a_merged_usr_is_shown_by_the_same_links);
    RUN_TEST(bubblewrap_sees_nothing_of_the_host_but_its_programs);
    RUN_TEST(without_its_own_ids_a_container_is_still_held);
}

static bool user_namespaces_work(void)
{
    int status = 1;
    int pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static const char *reason; /* why nothing can be tested */

TEST bubblewrap_containers_need_namespaces_and_bwrap(void)
{
    SKIPm(reason);
}

SUITE(nothing)
{
    RUN_TEST(bubblewrap_containers_need_namespaces_and_bwrap);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    srandom((unsigned)getpid());
    if (geteuid() != 0 && !user_namespaces_work())
        reason = "neither root nor user namespaces: bubblewrap containers are not tested";
    else if (access("/usr/bin/bwrap", X_OK) < 0)
        reason = "no /usr/bin/bwrap: bubblewrap containers are not tested";
    if (reason) {
        RUN_SUITE(nothing);
    } else {
        RUN_SUITE(containers);
        RUN_SUITE(ends);
    }
    GREATEST_MAIN_END();
}
