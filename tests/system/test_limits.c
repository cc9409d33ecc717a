/* Limits with the real kernel: memory, processes, CPU and disk, and what is left of them. */
#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { ANSWER_LIMIT_MS = 100, SAMPLES = 25 };

static struct emulator emulator;
static const char *const arguments[] = {"--memory", "256M", "--pids", "150", NULL};

/* --- Helpers ---------------------------------------------------------------------------------- */

static struct reply call(const char *id, const char *method, const char *body)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/%s", id, method);
    return post(&emulator, path, body);
}

/* Runs a command, given as it is typed. */
static struct reply run(const char *id, const char *command)
{
    CLEANUP_JSON json_t *body = json_pack("[s]", command);
    CLEANUP_FREE char *text = json_dumps(body, 0);
    return call(id, "exec", text);
}

static struct reply sandbox(const char *id)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", id);
    return get(&emulator, path);
}

static long long kills_of(const char *id)
{
    CLEANUP_REPLY struct reply reply = sandbox(id);
    return number_at(reply.json, "oomKills");
}

/* How many control groups there are whose name begins with this. */
static int groups_with(const char *prefix)
{
    static const char *const bases[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids",
                                        "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"};
    int count = 0;
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        CLEANUP_DIR DIR *list = opendir(bases[i]);
        for (struct dirent *item; list && (item = readdir(list));)
            count += strncmp(item->d_name, prefix, strlen(prefix)) == 0;
    }
    return count;
}

static bool no_groups(void *arg)
{
    return groups_with(arg) == 0;
}

static void group_prefix(char *to, size_t size, int pid)
{
    snprintf(to, size, "sandpit-%d-", pid);
}

/* A line of the emulator's log with this text, or NULL. */
static const char *logged(const struct emulator *of, const char *text)
{
    static char line[1024];
    CLEANUP_FILE FILE *log = fopen(of->log, "re");
    while (log && fgets(line, sizeof line, log)) {
        if (strstr(line, text))
            return line;
    }
    return NULL;
}

/* --- Memory ----------------------------------------------------------------------------------- */

TEST a_memory_hog_is_ended_and_its_caller_told_why(void)
{
    CLEANUP_REPLY struct reply before = run("hog", "echo ok");
    ASSERTm("no hint without a reason", !at(before.json, "hint"));
    CLEANUP_REPLY struct reply hog = run("hog", "tail /dev/zero");
    ASSERT_EQ(200, hog.status);
    ASSERT_EQ(137, number_at(hog.json, "exitCode"));
    ASSERTm(keep(hog.body), strstr(text_at(hog.json, "hint"), "ran out of its 256 MiB of memory"));
    CLEANUP_REPLY struct reply after = run("hog", "echo still here; false");
    ASSERT_STR_EQ("still here", text_at(after.json, "stdout"));
    ASSERTm("only the call during which it happened", !at(after.json, "hint"));
    CLEANUP_REPLY struct reply shown = sandbox("hog");
    ASSERT_EQ(1, number_at(shown.json, "oomKills"));
    ASSERT_EQ(256, number_at(shown.json, "limits.memoryMiB"));
    ASSERT_EQ(150, number_at(shown.json, "limits.pids"));
    ASSERT_EQ(128, number_at(shown.json, "limits.diskMiB"));
    ASSERT(json_is_null(at(shown.json, "limits.cpus")));
    ASSERT_STR_EQ("healthy", text_at(shown.json, "state"));
    CLEANUP_REPLY struct reply events = get(&emulator, "/cdn-cgi/local/events");
    ASSERT(strstr(events.body, "\"container.oom\""));
    ASSERT(strstr(events.body, "{\"kills\":1,\"memoryMiB\":256}"));
    PASS();
}

TEST a_shell_that_ran_out_of_memory_says_so(void)
{
    CLEANUP_REPLY struct reply first = run("shell", "true");
    CLEANUP_REPLY struct reply ended = run("shell", "exec tail /dev/zero");
    ASSERT_EQ(410, ended.status);
    ASSERT_STR_EQ("SESSION_TERMINATED", text_at(ended.json, "code"));
    ASSERTm(keep(ended.body), strstr(text_at(ended.json, "hint"), "256 MiB of memory"));
    CLEANUP_REPLY struct reply next = run("shell", "echo fresh");
    ASSERT_STR_EQ("fresh", text_at(next.json, "stdout"));
    PASS();
}

TEST the_containers_own_face_keeps_to_its_fields(void)
{
    CLEANUP_REPLY struct reply first = run("face", "true");
    CLEANUP_REPLY struct reply shown = sandbox("face");
    char host[256];
    const char *url = text_at(shown.json, "containerUrl");
    snprintf(host, sizeof host, "Host: %s\r\n", url + strlen("http://"));
    CLEANUP_REPLY struct reply hog =
        request(&emulator, "POST", "/api/execute", host, "{\"command\":\"tail /dev/zero\"}");
    ASSERT_EQ(137, number_at(hog.json, "exitCode"));
    ASSERT(!at(hog.json, "hint"));
    PASS();
}

TEST other_sandboxes_do_not_notice_a_hog(void)
{
    CLEANUP_REPLY struct reply one = run("calm", "echo a > /tmp/a");
    CLEANUP_REPLY struct reply hog = run("hog", "tail /dev/zero");
    ASSERT_EQ(137, number_at(hog.json, "exitCode"));
    CLEANUP_REPLY struct reply two = run("calm", "cat /tmp/a");
    ASSERT_STR_EQ("a", text_at(two.json, "stdout"));
    ASSERT_EQ(0, kills_of("calm"));
    PASS();
}

/* Files are in memory, too: they must be full before it is. */
TEST a_full_disk_comes_before_a_lack_of_memory(void)
{
    CLEANUP_REPLY struct reply full =
        run("disk", "for d in /workspace /tmp /var/tmp /root; do head -c 200M /dev/zero > $d/big; "
                    "echo $?; rm -f $d/big; done; head -c 200M /dev/zero > /workspace/big; "
                    "echo more > /workspace/more");
    ASSERT_STR_EQ("1\n1\n1\n1", text_at(full.json, "stdout"));
    ASSERTm(keep(full.body), strstr(text_at(full.json, "stderr"), "No space left on device"));
    ASSERT_EQ(1, number_at(full.json, "exitCode"));
    ASSERT_EQ(0, kills_of("disk"));
    CLEANUP_REPLY struct reply more = run("disk", "rm /workspace/big; echo x > /workspace/x; cat "
                                                  "/workspace/x");
    ASSERT_STR_EQ("x", text_at(more.json, "stdout"));
    PASS();
}

/* --- Processes -------------------------------------------------------------------------------- */

TEST processes_beyond_the_limit_are_refused(void)
{
    CLEANUP_REPLY struct reply many =
        run("many", "perl -e 'my @p; for my $i (1..400) { my $p = fork(); "
                    "if (!defined $p) { print \"$i $!\"; last } "
                    "if (!$p) { sleep 60; exit } push @p, $p } kill 9, @p; wait for @p;'");
    int count = 0;
    ASSERTm(keep(many.body), sscanf(text_at(many.json, "stdout"), "%d", &count) == 1);
    ASSERTm(keep(many.body), count > 120 && count <= 150);
    ASSERTm(keep(many.body),
            strstr(text_at(many.json, "stdout"), "Resource temporarily unavailable"));
    CLEANUP_REPLY struct reply after = run("many", "echo fine");
    ASSERT_STR_EQ("fine", text_at(after.json, "stdout"));
    PASS();
}

static long long timed(struct reply (*ask)(void), const char *expected, bool *right)
{
    long long start = test_ms();
    CLEANUP_REPLY struct reply reply = ask();
    long long ms = test_ms() - start;
    *right = reply.status == 200 && reply.body && strstr(reply.body, expected);
    return ms;
}

static struct reply ask_health(void)
{
    return get(&emulator, "/cdn-cgi/local/health");
}

static struct reply ask_neighbour(void)
{
    return run("neighbour", "echo n$((40+2))");
}

/* The slowest answer of several, in ms; -1 when one was wrong. */
static long long slowest(struct reply (*ask)(void), const char *expected)
{
    long long most = 0;
    for (int i = 0; i < SAMPLES && most >= 0; i++) {
        bool right = false;
        long long ms = timed(ask, expected, &right);
        most = !right ? -1 : ms > most ? ms : most;
    }
    return most;
}

/* All processes in all containers, by the kernel's count. Command lines would not do: to read one
 * means to wait for a process that is busy forking. */
static int processes_inside(void)
{
    char pattern[128];
    int count = 0;
    glob_t found = {0};
    snprintf(pattern, sizeof pattern, "/sys/fs/cgroup/{pids/,}sandpit-%d-*/*/pids.current",
             emulator.pid);
    glob(pattern, GLOB_BRACE, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        CLEANUP_FILE FILE *file = fopen(found.gl_pathv[i], "re");
        int here = 0;
        if (file && fscanf(file, "%d", &here) == 1)
            count += here;
    }
    globfree(&found);
    return count;
}

static bool bomb_burns(void *arg)
{
    return processes_inside() >= 100;
}

/* The bomb is defused before anything is judged, so that a failure does not go on burning. */
TEST a_fork_bomb_leaves_the_others_answering_within_100_ms(void)
{
    bool right = false;
    timed(ask_neighbour, "n42", &right);
    CLEANUP_REPLY struct reply bomb = run("bomb", "perl -e 'fork while 1' sandpit-bomb & echo lit");
    bool burns = eventually(bomb_burns, NULL, 5000);
    long long health = slowest(ask_health, "\"");
    long long neighbour = slowest(ask_neighbour, "n42");
    bool still = eventually(bomb_burns, NULL, 2000);
    long long start = test_ms();
    CLEANUP_REPLY struct reply destroyed = call("bomb", "destroy", "[]");
    long long destroy = test_ms() - start;
    printf("    slowest of %d under a fork bomb: health %lld ms, exec elsewhere %lld ms; "
           "its destroy %lld ms\n",
           SAMPLES, health, neighbour, destroy);
    ASSERT(right);
    ASSERT_STR_EQ("lit", text_at(bomb.json, "stdout"));
    ASSERTm("it went off", burns);
    ASSERTm("it still burned at the end", still);
    ASSERTm("health", health >= 0 && health < ANSWER_LIMIT_MS);
    ASSERTm("exec elsewhere", neighbour >= 0 && neighbour < ANSWER_LIMIT_MS);
    ASSERT_EQ(200, destroyed.status);
    ASSERT_EQ(0, processes_with("sandpit-bomb"));
    CLEANUP_REPLY struct reply again = run("bomb", "echo reborn");
    ASSERT_STR_EQ("reborn", text_at(again.json, "stdout"));
    PASS();
}

/* More orphans one after another than processes are allowed: each must be reaped in time. */
TEST orphans_without_end_are_reaped(void)
{
    const char *counts = getenv("SANDPIT_COUNTS");
    int count = counts && strcmp(counts, "long") == 0 ? 10000 : 2000;
    char command[512];
    snprintf(command, sizeof command,
             "perl -MPOSIX -e 'for my $i (1..%d) { my $p = fork(); "
             "while (!defined $p) { select undef, undef, undef, 0.001; $p = fork() } "
             "if (!$p) { POSIX::setsid() if $i %% 3 == 0; fork(); POSIX::_exit(0) } "
             "waitpid $p, 0 } print \"made\"'",
             count);
    CLEANUP_REPLY struct reply made = run("orphans", command);
    ASSERT_STR_EQm(keep(made.body), "made", text_at(made.json, "stdout"));
    CLEANUP_REPLY struct reply left =
        run("orphans", "for i in 1 2 3 4 5 6 7 8 9 10; do n=$(cat /proc/[0-9]*/stat 2>/dev/null | "
                       "grep -c ') Z '); [ $n = 0 ] && break; sleep 0.1; done; echo $n");
    ASSERT_STR_EQ("0", text_at(left.json, "stdout"));
    PASS();
}

TEST a_tree_that_ignores_term_is_killed_with_its_session(void)
{
    CLEANUP_REPLY struct reply made = call("tree", "createSession", "[{\"id\": \"s\"}]");
    ASSERT_EQ(200, made.status);
    CLEANUP_REPLY struct reply started = call(
        "tree", "exec",
        "[\"trap '' TERM; bash -c \\\"trap '' TERM; bash -c \\\\\\\"trap '' TERM; sleep 76543 & "
        "sleep 76543 & wait\\\\\\\" & wait\\\" & echo up\", {\"sessionId\": \"s\"}]");
    ASSERT_STR_EQm(keep(started.body), "up", text_at(started.json, "stdout"));
    /* Two shells that name them, and themselves. */
    ASSERT(processes_become("sleep 76543", 4, 5000));
    CLEANUP_REPLY struct reply deleted = call("tree", "deleteSession", "[\"s\"]");
    ASSERT_EQm(keep(deleted.body), 200, deleted.status);
    ASSERT(processes_become("sleep 76543", 0, 5000));
    CLEANUP_REPLY struct reply codes =
        run("tree", "sh -c 'kill -9 $$'; echo $?; sh -c 'kill $$'; echo $?");
    ASSERT_STR_EQ("137\n143", text_at(codes.json, "stdout"));
    PASS();
}

/* --- Other settings --------------------------------------------------------------------------- */

static int write_project(const struct emulator *of, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/wrangler.jsonc", of->dir);
    CLEANUP_FILE FILE *file = fopen(path, "we");
    return file && fputs(text, file) >= 0 ? 0 : -1;
}

/* Everything here is asked of another emulator, with a project. */
static struct emulator project;

static const json_t *limits_of_class(struct reply *reply, const char *class)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/exec?class=%s", class, class);
    CLEANUP_REPLY struct reply started = post(&project, path, "[\"true\"]");
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s?class=%s", class, class);
    *reply = get(&project, path);
    return at(reply->json, "limits");
}

static const char project_text[] =
    "{\"name\": \"p\", \"containers\": ["
    "{\"class_name\": \"small\", \"image\": \"docker.io/cloudflare/sandbox:0.12.7\","
    " \"instance_type\": \"basic\"},"
    "{\"class_name\": \"own\", \"image\": \"docker.io/cloudflare/sandbox:0.12.7\","
    " \"instance_type\": {\"vcpu\": 0.25, \"memory_mib\": 64, \"disk_mb\": 10}}]}";

TEST an_instance_type_sets_the_limits(void)
{
    snprintf(project.dir, sizeof project.dir, "/tmp/sandpit-test-XXXXXX");
    ASSERT(mkdtemp(project.dir));
    ASSERT_EQ(0, write_project(&project, project_text));
    ASSERT_EQ(0, emulator_start(&project, NULL));
    CLEANUP_REPLY struct reply a, b;
    const json_t *small = limits_of_class(&a, "small");
    ASSERT_STR_EQm(keep(a.body), "basic", text_at(small, "instanceType"));
    ASSERT_EQ(1024, number_at(small, "memoryMiB"));
    ASSERT_EQ(1024, number_at(small, "pids"));
    ASSERT_EQ(512, number_at(small, "diskMiB"));
    ASSERT(json_real_value(at(small, "cpus")) == 0.25);
    const json_t *own = limits_of_class(&b, "own");
    ASSERT_EQm(keep(b.body), 64, number_at(own, "memoryMiB"));
    ASSERT_EQ(9, number_at(own, "diskMiB"));
    ASSERT(logged(&project, "limits of own: 64 MiB memory, 1024 processes, 0.25 CPU, 9 MiB disk"));
    PASS();
}

/* Wall time and CPU time of a second of work, as the process itself sees them. */
TEST cpu_is_shared_out_as_the_type_says(void)
{
    CLEANUP_REPLY struct reply spun =
        post(&project, "/sandbox/own/exec?class=own",
             "[\"perl -MTime::HiRes=time -e '$e = time + 1.5; 1 while time < $e; "
             "($u, $s) = times; printf \\\"%.2f\\\", ($u + $s) / 1.5'\"]");
    double share = strtod(text_at(spun.json, "stdout"), NULL);
    printf("    share of CPU with a limit of 0.25: %.2f\n", share);
    ASSERTm(keep(spun.body), share > 0.10 && share < 0.40);
    PASS();
}

TEST what_a_killed_emulator_left_is_reaped_at_the_next_start(void)
{
    char old[64];
    group_prefix(old, sizeof old, project.pid);
    ASSERT(groups_with(old) > 0);
    emulator_kill(&project);
    ASSERTm("nobody takes them away by itself", groups_with(old) > 0);
    ASSERT_EQ(0, emulator_restart(&project, NULL));
    ASSERT(eventually(no_groups, old, 5000));
    char fresh[64];
    group_prefix(fresh, sizeof fresh, project.pid);
    ASSERT(groups_with(fresh) > 0);
    ASSERT_EQ(0, emulator_stop(&project));
    ASSERTm("a clean end leaves nothing", groups_with(fresh) == 0);
    PASS();
}

TEST limits_can_be_turned_off(void)
{
    static const char *const none[] = {"--no-limits", NULL};
    ASSERT_EQ(0, emulator_restart(&project, none));
    CLEANUP_REPLY struct reply a;
    const json_t *limits = limits_of_class(&a, "small");
    ASSERT(json_is_null(at(limits, "memoryMiB")));
    ASSERT(json_is_null(at(limits, "cpus")));
    ASSERT(json_is_null(at(limits, "pids")));
    ASSERT_EQ(0, emulator_stop(&project));
    PASS();
}

TEST a_wrong_limit_is_refused_in_one_line(void)
{
    const char *argv[] = {SANDPIT_BINARY, "dev", "--ephemeral", "--memory", "5", NULL};
    CLEANUP_FREE char *errors = NULL;
    ASSERT_EQ(1, run_command(&project, argv, NULL, &errors));
    ASSERTm(keep(errors), strstr(errors, "--memory takes a size from 16M"));
    emulator_clean(&project);
    PASS();
}

SUITE(limits)
{
    RUN_TEST(a_memory_hog_is_ended_and_its_caller_told_why);
    RUN_TEST(a_shell_that_ran_out_of_memory_says_so);
    RUN_TEST(the_containers_own_face_keeps_to_its_fields);
    RUN_TEST(other_sandboxes_do_not_notice_a_hog);
    RUN_TEST(a_full_disk_comes_before_a_lack_of_memory);
    RUN_TEST(processes_beyond_the_limit_are_refused);
    RUN_TEST(a_fork_bomb_leaves_the_others_answering_within_100_ms);
    RUN_TEST(orphans_without_end_are_reaped);
    RUN_TEST(a_tree_that_ignores_term_is_killed_with_its_session);
    RUN_TEST(an_instance_type_sets_the_limits);
    RUN_TEST(cpu_is_shared_out_as_the_type_says);
    RUN_TEST(what_a_killed_emulator_left_is_reaped_at_the_next_start);
    RUN_TEST(limits_can_be_turned_off);
    RUN_TEST(a_wrong_limit_is_refused_in_one_line);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP limits: %s\n", missing);
        return 77;
    }
    if (emulator_start(&emulator, arguments) < 0) {
        printf("the emulator did not start: see %s\n", emulator.log);
        return 1;
    }
    missing = logged(&emulator, "no control group for");
    if (missing) {
        printf("SKIP limits: %s\n", missing);
        emulator_stop(&emulator);
        emulator_clean(&emulator);
        return 77;
    }
    RUN_SUITE(limits);
    if (emulator_stop(&emulator) != 0) {
        printf("the emulator did not end cleanly: see %s\n", emulator.log);
        return 1;
    }
    emulator_clean(&emulator);
    GREATEST_MAIN_END();
}
