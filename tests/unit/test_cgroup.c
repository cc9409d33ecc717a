/* Control groups on a tree of plain files that plays the kernel: version 1, version 2, both, none.
 * The real version 1 is in system/test_limits.c; version 2 is tested here only. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "drivers/cgroup.h"
#include "greatest.h"

enum { DEADLINE_MS = 5000 };
#define MIB (1024ULL * 1024)

static struct {
    struct loop *loop;
    struct cgroups *groups;
    char root[64], own[96];
    int busy; /* how often a removal is refused */
    int make_error;
    bool no_swap; /* the kernel does not account for it */
    unsigned kills;
    int told;
} t;

/* --- The kernel ------------------------------------------------------------------------------- */

static const char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last few stay valid. */
static const char *path_of(const char *format, ...)
{
    static char texts[8][512];
    static int next;
    char *to = texts[next++ % 8];
    size_t used = (size_t)snprintf(to, 512, "%s/", t.root);
    va_list args;
    va_start(args, format);
    vsnprintf(to + used, 512 - used, format, args);
    va_end(args);
    return to;
}

static void spill(const char *path, const char *text)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
}

static const char *slurp(const char *path)
{
    static char texts[4][512];
    static int next;
    char *to = texts[next++ % 4];
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, to, 511);
    snprintf(to + (size > 0 ? size : 0), 16, "%s", size < 0 ? "(no file)" : "");
    return to;
}

/* What the kernel puts into a new group; only version 2 has it in one place. */
static const char *const files_1[] = {"cgroup.procs", "tasks", "cgroup.event_control"};
static const char *const files_2[] = {"cgroup.procs",    "cgroup.kill", "cgroup.subtree_control",
                                      "memory.swap.max", "memory.max",  "pids.max",
                                      "cpu.max"};

static void populate(const char *path, const char *const *files, size_t count)
{
    char file[512];
    for (size_t i = 0; i < count; i++) {
        snprintf(file, sizeof file, "%s/%s", path, files[i]);
        spill(file, "");
    }
}
#define POPULATE(PATH, FILES) populate(PATH, FILES, sizeof(FILES) / sizeof(FILES[0]))

static void spill_in(const char *dir, const char *file, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    spill(path, text);
}

static int kernel_make(const char *path)
{
    if (t.make_error)
        return -t.make_error;
    if (mkdir(path, 0755) < 0)
        return -errno;
    if (strstr(path, "/memory/")) {
        POPULATE(path, files_1);
        spill_in(path, "memory.limit_in_bytes", "");
        if (!t.no_swap)
            spill_in(path, "memory.memsw.limit_in_bytes", "");
        spill_in(path, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    } else if (strstr(path, "/pids/")) {
        POPULATE(path, files_1);
        spill_in(path, "pids.max", "max");
    } else if (strstr(path, "/cpu/")) {
        POPULATE(path, files_1);
        spill_in(path, "cpu.cfs_period_us", "100000");
        spill_in(path, "cpu.cfs_quota_us", "-1");
    } else {
        POPULATE(path, files_2);
        spill_in(path, "memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n");
    }
    return 0;
}

/* A group with a group in it stays; its files are no hindrance. */
static int kernel_remove(const char *path)
{
    if (t.busy > 0) {
        t.busy--;
        return -EBUSY;
    }
    CLEANUP_DIR DIR *list = opendir(path);
    if (!list)
        return -errno;
    for (struct dirent *item; (item = readdir(list));) {
        if (item->d_type == DT_DIR && item->d_name[0] != '.')
            return -EBUSY;
    }
    rewinddir(list);
    for (struct dirent *item; (item = readdir(list));)
        unlinkat(dirfd(list), item->d_name, 0);
    return rmdir(path) < 0 ? -errno : 0;
}

static const struct cgroup_ops kernel = {kernel_make, kernel_remove};

/* --- Helpers ---------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *where)
{
    return remove(path);
}

static void setup(void *arg)
{
    memset(&t, 0, sizeof t);
    snprintf(t.root, sizeof t.root, "/tmp/sandpit-cgroup-XXXXXX");
    if (!mkdtemp(t.root))
        abort();
    reaper_own_name(t.own, sizeof t.own);
    t.loop = loop_new(NULL);
}

static void teardown(void *arg)
{
    cgroups_free(t.groups);
    t.groups = NULL;
    loop_free(t.loop);
    nftw(t.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void version_1(const char *name)
{
    mkdir(path_of("%s", name), 0755);
    spill(path_of("%s/cgroup.procs", name), "");
}

static void all_of_version_1(void)
{
    version_1("memory");
    version_1("pids");
    version_1("cpu");
}

static void version_2(const char *controllers)
{
    spill(path_of("cgroup.controllers"), controllers);
    spill(path_of("cgroup.subtree_control"), "");
}

static void begin(void)
{
    t.groups = cgroups_new(t.loop, t.root, &kernel);
}

static struct cgroup *one(struct instance_limits limits)
{
    struct error err = {0};
    struct cgroup *group = cgroup_new(t.groups, &limits, &err);
    if (!group)
        fprintf(stderr, "%s\n", err.text);
    return group;
}

/* The only group of a container in this parent. */
static const char *inner(const char *parent)
{
    static char found[512];
    found[0] = '\0';
    CLEANUP_DIR DIR *list = opendir(parent);
    for (struct dirent *item; list && (item = readdir(list));) {
        if (item->d_type == DT_DIR && item->d_name[0] != '.')
            snprintf(found, sizeof found, "%.200s/%.200s", parent, item->d_name);
    }
    return found;
}

static const char *value(const char *parent, const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%.400s/%s", inner(parent), file);
    return slurp(path);
}

static void overdue(void *arg)
{
    loop_stop(t.loop);
}

/* Runs the loop until it is stopped, or for `ms`. */
static void run_for(int ms)
{
    struct timer timer = {.fire = overdue};
    loop_arm(t.loop, &timer, MS_NS(ms));
    loop_run(t.loop, NULL);
    loop_disarm(t.loop, &timer);
}

static void killed(void *arg, unsigned kills)
{
    t.kills = kills;
    t.told++;
    loop_stop(t.loop);
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

static const struct instance_limits typical = {256 * MIB, 100, 250};

/* --- Tests ------------------------------------------------------------------------------------ */

TEST version_1_gets_exactly_its_files(void)
{
    all_of_version_1();
    begin();
    ASSERTm("everything can be limited", cgroups_note(t.groups) == NULL);
    struct cgroup *group = one(typical);
    ASSERT(group);
    const char *memory = path_of("memory/%s", t.own), *pids = path_of("pids/%s", t.own);
    const char *cpu = path_of("cpu/%s", t.own);
    ASSERT_STR_EQ("268435456", value(memory, "memory.limit_in_bytes"));
    ASSERT_STR_EQ("268435456", value(memory, "memory.memsw.limit_in_bytes"));
    ASSERT_STR_EQ("100", value(pids, "pids.max"));
    ASSERT_STR_EQm("not before the start is over", "-1", value(cpu, "cpu.cfs_quota_us"));
    cgroup_limit_cpu(group, &typical);
    ASSERT_STR_EQ("100000", value(cpu, "cpu.cfs_period_us"));
    ASSERT_STR_EQ("25000", value(cpu, "cpu.cfs_quota_us"));
    cgroup_free(group);
    ASSERT_STR_EQm("removed with the container", "", inner(memory));
    ASSERT_STR_EQ("", inner(cpu));
    PASS();
}

TEST version_2_gets_exactly_its_files(void)
{
    version_2("cpuset cpu io memory hugetlb pids rdma\n");
    begin();
    ASSERT(cgroups_note(t.groups) == NULL);
    const char *own = path_of("%s", t.own);
    /* A file keeps what the kernel takes away: +memory, +pids and +cpu over one another. */
    ASSERT_STR_EQ("+cpusry", slurp(path_of("cgroup.subtree_control")));
    ASSERT_STR_EQ("+cpusry", slurp(path_of("%s/cgroup.subtree_control", t.own)));
    struct cgroup *group = one(typical);
    ASSERT(group);
    int entries[CGROUP_TREES];
    ASSERT_EQm("one hierarchy, one entry", 1, (int)cgroup_entries(group, entries));
    ASSERT_STR_EQ("268435456", value(own, "memory.max"));
    ASSERT_STR_EQ("0", value(own, "memory.swap.max"));
    ASSERT_STR_EQ("100", value(own, "pids.max"));
    cgroup_limit_cpu(group, &typical);
    ASSERT_STR_EQ("25000 100000", value(own, "cpu.max"));
    cgroup_free(group);
    ASSERT_STR_EQ("", inner(own));
    PASS();
}

TEST no_limit_leaves_the_files_alone(void)
{
    all_of_version_1();
    begin();
    struct instance_limits none = {0};
    struct cgroup *group = one(none);
    cgroup_limit_cpu(group, &none);
    ASSERT_STR_EQ("", value(path_of("memory/%s", t.own), "memory.limit_in_bytes"));
    ASSERT_STR_EQ("max", value(path_of("pids/%s", t.own), "pids.max"));
    ASSERT_STR_EQ("-1", value(path_of("cpu/%s", t.own), "cpu.cfs_quota_us"));
    cgroup_free(group);
    PASS();
}

TEST a_tiny_share_of_cpu_is_what_the_kernel_takes(void)
{
    all_of_version_1();
    begin();
    struct instance_limits tiny = {.cpu_millis = 1};
    struct cgroup *group = one(tiny);
    cgroup_limit_cpu(group, &tiny);
    ASSERT_STR_EQ("1000", value(path_of("cpu/%s", t.own), "cpu.cfs_quota_us"));
    cgroup_free(group);
    PASS();
}

TEST what_writes_0_to_the_entries_is_in(void)
{
    all_of_version_1();
    begin();
    struct cgroup *group = one(typical);
    int entries[CGROUP_TREES];
    size_t count = cgroup_entries(group, entries);
    ASSERT_EQ(3, (int)count);
    for (size_t i = 0; i < count; i++) {
        ASSERT(fcntl(entries[i], F_GETFD) & FD_CLOEXEC);
        ASSERT_EQ(1, (int)write(entries[i], "0", 1));
    }
    ASSERT_STR_EQ("0", value(path_of("memory/%s", t.own), "tasks"));
    ASSERT_STR_EQ("0", value(path_of("cpu/%s", t.own), "tasks"));
    cgroup_entered(group);
    ASSERT_EQ(0, (int)cgroup_entries(group, entries));
    ASSERT_EQ(-1, fcntl(entries[0], F_GETFD));
    cgroup_free(group);
    PASS();
}

TEST missing_controllers_are_named_and_left_to_others(void)
{
    version_1("pids");
    begin();
    ASSERT(cgroups_note(t.groups));
    ASSERTm(cgroups_note(t.groups), strstr(cgroups_note(t.groups), "memory, cpu"));
    ASSERTm(cgroups_note(t.groups), strstr(cgroups_note(t.groups), "this machine has none"));
    struct instance_limits beyond = cgroups_beyond(t.groups, typical);
    ASSERT_EQ(256 * MIB, beyond.memory_bytes);
    ASSERT_EQ(0, (int)beyond.pids);
    ASSERT_EQ(250, (int)beyond.cpu_millis);
    struct cgroup *group = one(typical);
    ASSERT_STR_EQ("100", value(path_of("pids/%s", t.own), "pids.max"));
    ASSERT_EQ(0, (int)cgroup_kills(group));
    cgroup_free(group);
    PASS();
}

TEST nothing_at_all_is_no_error(void)
{
    begin();
    ASSERT(cgroups_note(t.groups));
    struct cgroup *group = one(typical);
    int entries[CGROUP_TREES];
    ASSERT_EQ(0, (int)cgroup_entries(group, entries));
    ASSERT_EQ(100, (int)cgroups_beyond(t.groups, typical).pids);
    cgroup_limit_cpu(group, &typical);
    cgroup_free(group);
    PASS();
}

TEST a_tree_we_may_not_write_is_no_error(void)
{
    all_of_version_1();
    t.make_error = EACCES;
    begin();
    t.make_error = 0;
    ASSERT(cgroups_note(t.groups));
    ASSERTm(cgroups_note(t.groups), strstr(cgroups_note(t.groups), "Permission denied"));
    struct cgroup *group = one(typical);
    ASSERT(group);
    cgroup_free(group);
    PASS();
}

/* A hybrid machine: some controllers in version 1, the rest in "unified". */
TEST both_versions_share_the_work(void)
{
    version_1("memory");
    mkdir(path_of("unified"), 0755);
    spill(path_of("unified/cgroup.controllers"), "pids memory\n");
    spill(path_of("unified/cgroup.subtree_control"), "");
    begin();
    ASSERTm(cgroups_note(t.groups), strstr(cgroups_note(t.groups), "group for cpu ("));
    struct cgroup *group = one(typical);
    ASSERT_STR_EQ("268435456", value(path_of("memory/%s", t.own), "memory.limit_in_bytes"));
    ASSERT_STR_EQ("100", value(path_of("unified/%s", t.own), "pids.max"));
    ASSERT_STR_EQ("", value(path_of("unified/%s", t.own), "memory.max"));
    cgroup_free(group);
    PASS();
}

TEST without_swap_accounting_memory_is_still_limited(void)
{
    version_1("memory");
    t.no_swap = true;
    begin();
    struct cgroup *group = one(typical);
    ASSERT(group);
    const char *memory = path_of("memory/%s", t.own);
    ASSERT_STR_EQ("268435456", value(memory, "memory.limit_in_bytes"));
    ASSERT_STR_EQ("(no file)", value(memory, "memory.memsw.limit_in_bytes"));
    cgroup_free(group);
    PASS();
}

TEST a_group_that_cannot_be_made_fails_the_start_with_its_reason(void)
{
    all_of_version_1();
    begin();
    t.make_error = ENOSPC;
    struct error err = {0};
    ASSERT(!cgroup_new(t.groups, &typical, &err));
    ASSERTm(err.text, strstr(err.text, "make a control group"));
    ASSERTm(err.text, strstr(err.text, "No space left"));
    t.make_error = 0;
    struct cgroup *group = one(typical);
    ASSERTm("and the next one works", group);
    cgroup_free(group);
    PASS();
}

TEST version_1_tells_kills_once_they_are_counted(void)
{
    all_of_version_1();
    begin();
    struct cgroup *group = one(typical);
    cgroup_on_kill(group, killed, NULL);
    const char *memory = path_of("memory/%s", t.own);
    int event = -1, file = -1;
    ASSERT_EQ(2, sscanf(value(memory, "cgroup.event_control"), "%d %d", &event, &file));
    uint64_t count = 1;
    /* The kernel signals first and counts then. */
    ASSERT_EQ(8, (int)write(event, &count, 8));
    run_for(20);
    ASSERT_EQ(0, t.told);
    spill_in(inner(memory), "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    run_for(DEADLINE_MS);
    ASSERT_EQ(1, t.told);
    ASSERT_EQ(2, (int)t.kills);
    ASSERT_EQ(2, (int)cgroup_kills(group));
    cgroup_free(group);
    PASS();
}

TEST version_2_tells_kills(void)
{
    version_2("memory pids cpu\n");
    begin();
    struct cgroup *group = one(typical), *other = one(typical);
    cgroup_on_kill(group, killed, NULL);
    cgroup_free(other);
    char events[512];
    snprintf(events, sizeof events, "%.400s/memory.events", inner(path_of("%s", t.own)));
    spill(events, "low 0\nhigh 0\nmax 7\noom 3\noom_kill 3\noom_group_kill 0\n");
    run_for(DEADLINE_MS);
    ASSERT_EQ(3, (int)t.kills);
    spill(events, "oom_kill 4\n");
    ASSERT_EQm("also as the first line", 4, (int)cgroup_kills(group));
    cgroup_free(group);
    PASS();
}

static bool gone_soon(const char *path)
{
    for (int i = 0; i < 200 && there(path); i++)
        run_for(5);
    return !there(path);
}

TEST a_busy_group_is_removed_later(void)
{
    all_of_version_1();
    begin();
    struct cgroup *group = one(typical);
    char memory[512];
    snprintf(memory, sizeof memory, "%s", inner(path_of("memory/%s", t.own)));
    t.busy = 9;
    cgroup_free(group);
    ASSERT(there(memory));
    ASSERT(gone_soon(memory));
    ASSERT_EQ(0, t.busy);
    PASS();
}

TEST the_parent_groups_go_with_the_emulator(void)
{
    all_of_version_1();
    begin();
    struct cgroup *group = one(typical);
    t.busy = 4;
    cgroup_free(group);
    cgroups_free(t.groups);
    t.groups = NULL;
    ASSERT(!there(path_of("memory/%s", t.own)));
    ASSERT(!there(path_of("pids/%s", t.own)));
    ASSERT(!there(path_of("cpu/%s", t.own)));
    PASS();
}

/* A process that waits to be killed. */
static int victim(void)
{
    int pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    return pid;
}

static void make_leftover(const char *parent, int member)
{
    char path[512], text[16];
    kernel_make(parent);
    snprintf(path, sizeof path, "%s/7", parent);
    kernel_make(path);
    snprintf(text, sizeof text, "0\n%d\n", member);
    spill_in(path, "cgroup.procs", text);
}

TEST what_a_killed_emulator_left_is_killed_and_removed(void)
{
    all_of_version_1();
    unsigned long long namespace = strtoull(strrchr(t.own, '-') + 1, NULL, 10);
    const char *dead = path_of("memory/sandpit-%d-%llu-%llu", getpid(), 1ULL, namespace);
    const char *older = path_of("pids/sandpit-999999999-5-%llu", namespace);
    const char *foreign = path_of("memory/sandpit-%d-1-%llu", getpid(), namespace + 1);
    const char *other = path_of("memory/system.slice");
    int pid = victim();
    make_leftover(dead, pid);
    make_leftover(older, 0);
    make_leftover(foreign, 0);
    make_leftover(other, 0);
    t.busy = 1; /* the process is there at the first try */
    begin();
    int status = 0;
    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ASSERT(gone_soon(dead));
    ASSERT(gone_soon(older));
    ASSERTm("of another pid namespace", there(foreign));
    ASSERTm("of somebody else", there(other));
    PASS();
}

TEST the_groups_of_a_running_emulator_stay(void)
{
    all_of_version_1();
    begin();
    struct cgroup *group = one(typical);
    struct cgroups *second = cgroups_new(t.loop, t.root, &kernel);
    ASSERT(there(inner(path_of("memory/%s", t.own))));
    cgroup_free(group);
    cgroups_free(t.groups);
    t.groups = second;
    PASS();
}

TEST version_2_kills_by_its_file(void)
{
    version_2("memory pids cpu\n");
    unsigned long long namespace = strtoull(strrchr(t.own, '-') + 1, NULL, 10);
    const char *dead = path_of("sandpit-%d-1-%llu", getpid(), namespace);
    make_leftover(dead, 0);
    CLEANUP_FD int file =
        open(path_of("sandpit-%d-1-%llu/7/cgroup.kill", getpid(), namespace), O_RDONLY | O_CLOEXEC);
    t.busy = 2;
    begin();
    char text[4] = "";
    ASSERT_EQ(1, (int)read(file, text, sizeof text));
    ASSERT_STR_EQ("1", text);
    ASSERT(gone_soon(dead));
    PASS();
}

SUITE(cgroup)
{
    SET_SETUP(setup, NULL);
    SET_TEARDOWN(teardown, NULL);
    RUN_TEST(version_1_gets_exactly_its_files);
    RUN_TEST(version_2_gets_exactly_its_files);
    RUN_TEST(no_limit_leaves_the_files_alone);
    RUN_TEST(a_tiny_share_of_cpu_is_what_the_kernel_takes);
    RUN_TEST(what_writes_0_to_the_entries_is_in);
    RUN_TEST(missing_controllers_are_named_and_left_to_others);
    RUN_TEST(nothing_at_all_is_no_error);
    RUN_TEST(a_tree_we_may_not_write_is_no_error);
    RUN_TEST(both_versions_share_the_work);
    RUN_TEST(without_swap_accounting_memory_is_still_limited);
    RUN_TEST(a_group_that_cannot_be_made_fails_the_start_with_its_reason);
    RUN_TEST(version_1_tells_kills_once_they_are_counted);
    RUN_TEST(version_2_tells_kills);
    RUN_TEST(a_busy_group_is_removed_later);
    RUN_TEST(the_parent_groups_go_with_the_emulator);
    RUN_TEST(what_a_killed_emulator_left_is_killed_and_removed);
    RUN_TEST(the_groups_of_a_running_emulator_stay);
    RUN_TEST(version_2_kills_by_its_file);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(cgroup);
    GREATEST_MAIN_END();
}
