/* The doctor's checks on machines that are made up: files below a scratch root, and tries that say
 * what they are told to. */
#include "greatest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/doctor.h"
#include "cli/locator.h"

static char root[64];

static struct {
    int user_namespace, overlay, idmapped, bind, tried;
    const char *missing_call, *address, *tools;
    int locator;
} says;

static int say_user_namespace(const struct machine *machine)
{
    says.tried++;
    return says.user_namespace;
}

static int say_overlay(const struct machine *machine)
{
    return says.overlay;
}

static int say_idmapped(const struct machine *machine)
{
    return says.idmapped;
}

static const char *say_missing(const struct machine *machine)
{
    return says.missing_call;
}

static int say_bind(const struct machine *machine, uint16_t port)
{
    return says.bind;
}

static int say_address(const struct machine *machine, const char *name, char *to, size_t size)
{
    snprintf(to, size, "%s", says.address ? says.address : "Name or service not known");
    return says.address ? 0 : -1;
}

static int say_locator(char to[PATH_MAX], struct error *err)
{
    snprintf(to, PATH_MAX, "/run/sandpit");
    return says.locator ? error_set(err, -says.locator, "'/run/sandpit' belongs to another user")
                        : 0;
}

static int say_tools(const char *scratch, char *to, size_t size, struct error *err)
{
    snprintf(to, size, "%s", says.tools);
    return 0;
}

static const struct machine_tries tries = {
    .user_namespace = say_user_namespace,
    .overlay = say_overlay,
    .idmapped = say_idmapped,
    .missing_call = say_missing,
    .bind_port = say_bind,
    .resolve = say_address,
};

enum { ROOT = 0, USER = 1001 };

static struct machine machine_of(uid_t uid)
{
    return (struct machine){.root = root,
                            .path = "/usr/bin",
                            .uid = uid,
                            .port = 8787,
                            .scratch = root,
                            .state_dir = "/state",
                            .locator = say_locator,
                            .missing_tools = say_tools,
                            .tries = &tries};
}

static void make_parents(const char *path)
{
    char part[512];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(part, 0755);
        *at = '/';
    }
}

/* A file of the machine; an executable one when the text begins with "#!". */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    make_parents(full);
    CLEANUP_FD int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                             strncmp(text, "#!", 2) == 0 ? 0755 : 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
}

static void put_link(const char *path, const char *target)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    make_parents(full);
    if (symlink(target, full) < 0)
        abort();
}

static void empty_root(void *arg)
{
    CLEANUP_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*root)
        locator_remove_tree(tmp, root + strlen("/tmp/"));
    memset(&says, 0, sizeof says);
    says.tools = "";
    snprintf(root, sizeof root, "/tmp/sandpit-doctor-test-XXXXXX");
    if (!mkdtemp(root))
        abort();
}

static struct machine_result check(const char *id, uid_t uid)
{
    struct machine machine = machine_of(uid);
    struct machine_result result = {0};
    machine_check(id)->run(&machine, &result);
    return result;
}

#define ASSERT_FOUND(RESULT, SEVERITY, REASON, FIX)                                                \
    do {                                                                                           \
        ASSERT_EQ(MACHINE_FINDING, (RESULT).outcome);                                              \
        ASSERT_EQ((SEVERITY), (RESULT).severity);                                                  \
        ASSERTm(REASON, strstr((RESULT).reason, REASON));                                          \
        ASSERTm(FIX, strstr((RESULT).fix, FIX));                                                   \
    } while (0)
#define ASSERT_FINE(RESULT)                                                                        \
    do {                                                                                           \
        ASSERT_EQ(MACHINE_OK, (RESULT).outcome);                                                   \
        ASSERT_EQ(MACHINE_NONE, (RESULT).severity);                                                \
        ASSERT((RESULT).reason[0]);                                                                \
    } while (0)

/* --- Namespaces ------------------------------------------------------------------------------- */

TEST a_kernel_that_lacks_a_call_is_an_error_that_names_it(void)
{
    put("/proc/sys/kernel/osrelease", "5.4.0-generic\n");
    ASSERT_FINE(check("kernel", USER));
    says.missing_call = "openat2 (5.6)";
    struct machine_result old = check("kernel", USER);
    ASSERT_FOUND(old, MACHINE_ERROR, "Linux 5.4.0-generic lacks openat2 (5.6)", "5.9 or newer");
    put("/.dockerenv", "");
    struct machine_result filtered = check("kernel", USER);
    ASSERT_FOUND(filtered, MACHINE_ERROR, "openat2", "seccomp=unconfined");
    PASS();
}

TEST user_namespaces_that_are_switched_off_come_with_the_sysctl(void)
{
    ASSERT_FINE(check("user-namespaces", USER));
    put("/proc/sys/kernel/unprivileged_userns_clone", "0\n");
    struct machine_result debian = check("user-namespaces", USER);
    ASSERT_FOUND(debian, MACHINE_ERROR, "unprivileged_userns_clone is 0",
                 "sudo sysctl -w kernel.unprivileged_userns_clone=1");
    ASSERT_FINE(check("user-namespaces", ROOT));
    put("/proc/sys/user/max_user_namespaces", "0\n");
    struct machine_result off = check("user-namespaces", USER);
    ASSERT_FOUND(off, MACHINE_ERROR, "max_user_namespaces is 0",
                 "sysctl -w user.max_user_namespaces=15000");
    struct machine_result root_off = check("user-namespaces", ROOT);
    ASSERT_FOUND(root_off, MACHINE_WARNING, "max_user_namespaces is 0", "sysctl");
    PASS();
}

TEST user_namespaces_that_are_refused_are_explained_by_where_this_runs(void)
{
    says.user_namespace = -EPERM;
    struct machine_result filter = check("user-namespaces", USER);
    ASSERT_FOUND(filter, MACHINE_ERROR, "Operation not permitted", "seccomp filter");
    says.user_namespace = -ENOSPC;
    struct machine_result full = check("user-namespaces", USER);
    ASSERT_FOUND(full, MACHINE_ERROR, "No space", "user.max_user_namespaces");
    says.user_namespace = -EPERM;
    put("/run/.containerenv", "");
    struct machine_result contained = check("user-namespaces", USER);
    ASSERT_FOUND(contained, MACHINE_ERROR, "this is a container", "seccomp=unconfined");
    struct machine_result contained_root = check("user-namespaces", ROOT);
    ASSERT_FOUND(contained_root, MACHINE_WARNING, "this is a container", "--privileged");
    PASS();
}

TEST apparmor_of_ubuntu_is_found_where_it_forbids_and_only_there(void)
{
    ASSERT_FINE(check("apparmor", USER));
    put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    struct machine_result allowed = check("apparmor", USER);
    ASSERT_FINE(allowed);
    ASSERT(strstr(allowed.reason, "but not those of this program"));
    ASSERT_FINE(check("apparmor", ROOT));
    says.user_namespace = -EACCES;
    struct machine_result denied = check("apparmor", USER);
    ASSERT_FOUND(denied, MACHINE_ERROR, "AppArmor forbids",
                 "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
    struct machine_result also = check("user-namespaces", USER);
    ASSERT_FOUND(also, MACHINE_ERROR, "AppArmor", "apparmor_restrict_unprivileged_userns=0");
    ASSERT_FINE(check("apparmor", ROOT));
    PASS();
}

TEST subordinate_ids_are_looked_up_by_name_and_number(void)
{
    ASSERT_FINE(check("subids", ROOT));
    struct machine_result none = check("subids", USER);
    ASSERT_FOUND(none, MACHINE_INFO, "newuidmap is not installed", "install uidmap");
    put("/usr/bin/newuidmap", "#!/bin/sh\n");
    put("/usr/bin/newgidmap", "#!/bin/sh\n");
    put("/etc/subuid", "somebody:100000:65536\n10011:1:1\n");
    put("/etc/subgid", "somebody:100000:65536\n");
    struct machine_result unlisted = check("subids", USER);
    ASSERT_FOUND(unlisted, MACHINE_INFO, "no lines", "usermod --add-subuids");
    put("/etc/subuid", "somebody:100000:65536\n1001:165536:65536\n");
    put("/etc/subgid", "1001:165536:65536\n");
    ASSERT_FINE(check("subids", USER));
    PASS();
}

TEST overlays_that_cannot_be_mounted_are_errors_with_their_remedy(void)
{
    ASSERT_FINE(check("overlay", USER));
    says.overlay = -ENODEV;
    struct machine_result module = check("overlay", ROOT);
    ASSERT_FOUND(module, MACHINE_ERROR, "as root", "modprobe overlay");
    says.overlay = -EPERM;
    struct machine_result old = check("overlay", USER);
    ASSERT_FOUND(old, MACHINE_WARNING, "in a user namespace", "5.11");
    put("/.dockerenv", "");
    struct machine_result contained = check("overlay", ROOT);
    ASSERT_FOUND(contained, MACHINE_ERROR, "Operation not permitted", "--privileged");
    PASS();
}

TEST idmapped_mounts_matter_to_root_and_are_a_warning(void)
{
    says.idmapped = -EINVAL;
    ASSERT_FINE(check("idmapped-mounts", USER));
    struct machine_result lacking = check("idmapped-mounts", ROOT);
    ASSERT_FOUND(lacking, MACHINE_WARNING, "Invalid argument", "5.19");
    put("/proc/sys/user/max_user_namespaces", "0\n");
    struct machine_result off = check("idmapped-mounts", ROOT);
    ASSERT_FOUND(off, MACHINE_WARNING, "switched off", "sysctl");
    says.idmapped = 0;
    ASSERT_FINE(check("idmapped-mounts", ROOT));
    PASS();
}

/* --- Programs --------------------------------------------------------------------------------- */

TEST a_missing_bubblewrap_comes_with_the_line_of_this_systems_packages(void)
{
    put("/usr/bin/apt-get", "");
    struct machine_result debian = check("bubblewrap", USER);
    ASSERT_FOUND(debian, MACHINE_ERROR, "not installed", "sudo apt install bubblewrap");
    struct machine_result as_root = check("bubblewrap", ROOT);
    ASSERT_STR_EQ("apt install bubblewrap", as_root.fix);
    empty_root(NULL);
    put("/usr/bin/pacman", "");
    ASSERT_STR_EQ("sudo pacman -S bubblewrap", check("bubblewrap", USER).fix);
    empty_root(NULL);
    ASSERT_STR_EQ("install bubblewrap", check("bubblewrap", USER).fix);
    ASSERT_EQ(MACHINE_COULD_NOT_RUN, check("bubblewrap-links", USER).outcome);
    PASS();
}

TEST what_bubblewrap_says_when_it_is_refused_is_translated(void)
{
    put("/usr/bin/bwrap", "#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.9.0; exit;; esac\n"
                          "echo 'bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted' >&2;"
                          " exit 1\n");
    struct machine_result apparmor = check("bubblewrap", USER);
    ASSERT_FOUND(apparmor, MACHINE_ERROR, "AppArmor", "apparmor_restrict_unprivileged_userns=0");
    put("/usr/bin/bwrap", "#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.9.0; exit;; esac\n"
                          "echo 'bwrap: what nobody foresaw' >&2; exit 1\n");
    struct machine_result other = check("bubblewrap", USER);
    ASSERT_FOUND(other, MACHINE_ERROR, "what nobody foresaw", "user-namespaces");
    put("/usr/bin/bwrap", "#!/bin/sh\necho busybox\n");
    struct machine_result fake = check("bubblewrap", USER);
    ASSERT_FOUND(fake, MACHINE_ERROR, "is no bubblewrap", "PATH");
    put("/usr/bin/bwrap", "#!/bin/sh\necho bubblewrap 0.12.1\n");
    struct machine_result good = check("bubblewrap", USER);
    ASSERT_FINE(good);
    ASSERTm(good.reason, strstr(good.reason, "0.12.1"));
    PASS();
}

/* The arguments are --bind ROOT / --dir /etc/made … */
TEST the_hole_of_bubblewrap_is_found_by_behaviour_not_by_version(void)
{
    put("/usr/bin/bwrap", "#!/bin/sh\nif [ -L \"$2/etc\" ]; then\n"
                          "  target=$(readlink \"$2/etc\"); mkdir \"${target#/oldroot}/made\"\n"
                          "else mkdir \"$2/etc/made\"; fi\nexit 1\n");
    struct machine_result follows = check("bubblewrap-links", USER);
    ASSERT_FOUND(follows, MACHINE_INFO, "follows links of the root (CVE-2026-87766)", "0.12");
    empty_root(NULL);
    put("/usr/bin/bwrap", "#!/bin/sh\n[ -L \"$2/etc\" ] || mkdir \"$2/etc/made\"\nexit 1\n");
    ASSERT_FINE(check("bubblewrap-links", USER));
    empty_root(NULL);
    put("/usr/bin/bwrap", "#!/bin/sh\nexit 1\n");
    ASSERT_EQ(MACHINE_COULD_NOT_RUN, check("bubblewrap-links", USER).outcome);
    PASS();
}

TEST missing_tools_are_an_info_with_their_packages_but_no_bash_is_an_error(void)
{
    put("/usr/bin/apt-get", "");
    ASSERT_FINE(check("tools", USER));
    says.tools = "unzip, zip, npm, npx, bun";
    struct machine_result some = check("tools", USER);
    ASSERT_FOUND(some, MACHINE_INFO, "unzip, zip, npm, npx, bun", "sudo apt install unzip zip npm");
    ASSERT_STR_EQ("sudo apt install unzip zip npm", some.fix);
    says.tools = "bun";
    struct machine_result bun = check("tools", USER);
    ASSERT_FOUND(bun, MACHINE_INFO, "bun", "PATH");
    says.tools = "bash, jq";
    struct machine_result bash = check("tools", USER);
    ASSERT_FOUND(bash, MACHINE_ERROR, "without bash no command runs", "apt install bash jq");
    PASS();
}

TEST docker_is_never_more_than_an_info(void)
{
    ASSERT_FINE(check("docker", USER));
    put("/var/run/docker.sock", "");
    struct machine_result there = check("docker", USER);
    ASSERT_FINE(there);
    ASSERT(strstr(there.reason, "docker.sock is there"));
    PASS();
}

/* --- Limits ----------------------------------------------------------------------------------- */

TEST little_memory_is_a_warning(void)
{
    ASSERT_EQ(MACHINE_COULD_NOT_RUN, check("memory", USER).outcome);
    put("/proc/meminfo", "MemTotal: 4000000 kB\nMemFree: 1000 kB\nMemAvailable:  2097152 kB\n");
    ASSERT_STR_EQ("2.0 GiB are available", check("memory", USER).reason);
    put("/proc/meminfo", "MemTotal: 4000000 kB\nMemFree: 1000 kB\nMemAvailable:  524288 kB\n");
    struct machine_result little = check("memory", USER);
    ASSERT_FOUND(little, MACHINE_WARNING, "only 512 MiB", "swap");
    PASS();
}

TEST control_groups_of_either_version_are_read(void)
{
    put("/proc/self/cgroup", "0::/user.slice/mine\n");
    put("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n");
    put("/sys/fs/cgroup/user.slice/mine/cgroup.controllers", "cpuset cpu io memory pids\n");
    ASSERT_STR_EQ("v2, with memory, pids, cpu to use", check("cgroups", ROOT).reason);
    put("/sys/fs/cgroup/user.slice/mine/cgroup.controllers", "memory pids\n");
    struct machine_result partly = check("cgroups", ROOT);
    ASSERT_FOUND(partly, MACHINE_WARNING, "v2 without all controllers: cpu of sandboxes is not",
                 "");
    put("/proc/self/mounts", "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
                             "cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n"
                             "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n");
    put("/sys/fs/cgroup/memory/tasks", "");
    put("/sys/fs/cgroup/pids/tasks", "");
    put("/sys/fs/cgroup/cpu,cpuacct/tasks", "");
    ASSERT_STR_EQ("v1, with memory, pids, cpu to use", check("cgroups", ROOT).reason);
    PASS();
}

TEST control_groups_that_may_not_be_written_are_a_warning_for_root_only(void)
{
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 ro,nosuid 0 0\n");
    put("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
    struct machine_result as_root = check("cgroups", ROOT);
    ASSERT_FOUND(as_root, MACHINE_WARNING, "v2 that may not be written to", "");
    struct machine_result as_user = check("cgroups", USER);
    ASSERT_FOUND(as_user, MACHINE_INFO, "only in each process", "Delegate=yes");
    put("/.dockerenv", "");
    ASSERT(strstr(check("cgroups", ROOT).fix, "--cgroupns=private"));
    put("/proc/self/mounts", "none / ext4 rw 0 0\n");
    struct machine_result none = check("cgroups", ROOT);
    ASSERT_FOUND(none, MACHINE_WARNING, "none without all controllers", "mount -t cgroup2");
    PASS();
}

TEST the_state_directory_must_be_writable_but_need_not_exist(void)
{
    ASSERT_FINE(check("state", USER));
    put("/state", "a file in its place");
    struct machine_result file = check("state", USER);
    ASSERT_FOUND(file, MACHINE_ERROR, "Not a directory", "--persist-to");
    struct machine machine = machine_of(USER);
    struct machine_result result = {0};
    machine.state_dir = NULL;
    machine_check("state")->run(&machine, &result);
    ASSERT_EQ(MACHINE_COULD_NOT_RUN, result.outcome);
    PASS();
}

TEST an_unsafe_locator_directory_is_an_error(void)
{
    ASSERT_FINE(check("locator", USER));
    says.locator = -ENOENT;
    ASSERT_FINE(check("locator", USER));
    says.locator = -EPERM;
    struct machine_result foreign = check("locator", USER);
    ASSERT_FOUND(foreign, MACHINE_ERROR, "belongs to another user", "/run/sandpit");
    PASS();
}

/* --- The network ------------------------------------------------------------------------------ */

TEST egress_needs_a_program_and_tun(void)
{
    put("/usr/bin/apt-get", "");
    struct machine_result neither = check("egress", USER);
    ASSERT_FOUND(neither, MACHINE_WARNING, "neither pasta nor slirp4netns", "apt install passt");
    put("/usr/bin/slirp4netns", "#!/bin/sh\n");
    struct machine_result no_tun = check("egress", USER);
    ASSERT_FOUND(no_tun, MACHINE_WARNING, "/dev/net/tun is missing", "modprobe tun");
    put("/.dockerenv", "");
    ASSERT(strstr(check("egress", USER).fix, "--device /dev/net/tun"));
    put("/dev/net/tun", "");
    ASSERT(strstr(check("egress", USER).reason, "slirp4netns and"));
    put("/usr/bin/pasta", "#!/bin/sh\n");
    ASSERT_FINE(check("egress", USER));
    ASSERT(strstr(check("egress", USER).reason, "pasta and"));
    PASS();
}

TEST names_below_localhost_must_be_this_machine(void)
{
    put("/usr/bin/apt-get", "");
    says.address = "127.0.0.1";
    ASSERT_FINE(check("localhost-names", USER));
    says.address = "::1";
    ASSERT_FINE(check("localhost-names", USER));
    says.address = "192.0.2.7";
    struct machine_result elsewhere = check("localhost-names", USER);
    ASSERT_FOUND(elsewhere, MACHINE_WARNING, "192.0.2.7, which is not this machine", "Host header");
    says.address = NULL;
    struct machine_result none = check("localhost-names", USER);
    ASSERT_FOUND(none, MACHINE_WARNING, "Name or service not known", "libnss-myhostname");
    PASS();
}

TEST a_taken_port_names_its_process_when_proc_tells(void)
{
    ASSERT_FINE(check("port", USER));
    says.bind = -EADDRINUSE;
    struct machine_result unknown = check("port", USER);
    ASSERT_FOUND(unknown, MACHINE_WARNING, "taken by another user's process", "ss -ltnp");
    put("/proc/net/tcp",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid\n"
        "   0: 0100007F:2253 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 111 1 0\n"
        "   1: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4242 1 "
        "0\n");
    put("/proc/77/comm", "node\n");
    put_link("/proc/77/fd/3", "socket:[4242]");
    struct machine_result node = check("port", USER);
    ASSERT_FOUND(node, MACHINE_WARNING, "port 8787 is taken by node (pid 77)", "kill 77");
    put("/proc/77/comm", "sandpit\n");
    struct machine_result own = check("port", USER);
    ASSERT_FOUND(own, MACHINE_INFO, "sandpit (pid 77)", "--port 0");
    says.bind = -EACCES;
    struct machine_result low = check("port", USER);
    ASSERT_FOUND(low, MACHINE_ERROR, "Permission denied", "--port");
    PASS();
}

/* --- Running ---------------------------------------------------------------------------------- */

static void hang(const struct machine *machine, struct machine_result *result)
{
    for (;;)
        pause();
}

static void crash(const struct machine *machine, struct machine_result *result)
{
    _exit(9);
}

static void leave_a_child(const struct machine *machine, struct machine_result *result)
{
    pid_t pid = fork();
    if (pid == 0)
        hang(machine, result);
    snprintf(result->reason, sizeof result->reason, "%d", pid);
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_gone(const char *pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return true;
    const char *state = strrchr(text, ')');
    return state && state[2] == 'Z'; /* its new parent has not looked yet */
}

TEST a_check_that_hangs_or_ends_is_said_not_to_have_run_and_leaves_no_process(void)
{
    static const struct machine_check rows[] = {{"a", "a", hang, 0},
                                                {"b", "b", crash, 0},
                                                {"c", "c", leave_a_child, 0},
                                                {"d", "d", crash, MACHINE_SCRATCH}};
    struct machine_result results[4];
    struct machine machine = machine_of(USER);
    machine.scratch = NULL;
    long long start = now_ms();
    machine_run(&machine, rows, 4, results, 100);
    ASSERT(now_ms() - start < 2000);
    ASSERT_EQ(MACHINE_COULD_NOT_RUN, results[0].outcome);
    ASSERT_STR_EQ("no answer within 100 ms", results[0].reason);
    ASSERT_EQ(MACHINE_COULD_NOT_RUN, results[1].outcome);
    ASSERT_EQ(MACHINE_OK, results[2].outcome);
    ASSERT_EQ(MACHINE_COULD_NOT_RUN, results[3].outcome);
    for (int i = 0; i < 1000 && !is_gone(results[2].reason); i++)
        usleep(1000);
    ASSERTm("its child lives on", is_gone(results[2].reason));
    ASSERT_EQm("no child is left to wait for", -1, waitpid(-1, NULL, WNOHANG));
    PASS();
}

TEST quick_checks_try_only_what_a_setting_makes_doubtful(void)
{
    struct machine machine = machine_of(USER);
    struct machine_result result = {0};
    machine.quick = true;
    says.user_namespace = -EPERM;
    for (size_t i = 0; i < machine_check_count; i++) {
        if (machine_checks[i].flags & MACHINE_QUICK)
            machine_checks[i].run(&machine, &result);
    }
    ASSERT_EQ(0, says.tried);
    put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    machine_check("apparmor")->run(&machine, &result);
    ASSERT_EQ(1, says.tried);
    ASSERT_FOUND(result, MACHINE_ERROR, "AppArmor", "sysctl");
    PASS();
}

TEST quick_checks_of_this_machine_take_less_than_3_ms(void)
{
    struct machine machine = machine_here();
    machine.quick = true;
    long long best = 1000000000;
    for (int turn = 0; turn < 20; turn++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (size_t i = 0; i < machine_check_count; i++) {
            struct machine_result result = {0};
            if (machine_checks[i].flags & MACHINE_QUICK)
                machine_checks[i].run(&machine, &result);
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        long long took = (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec;
        best = took < best ? took : best;
    }
    ASSERT(best < 3000000);
    PASS();
}

TEST errors_of_a_start_lead_to_the_checks_that_know_their_cause(void)
{
    static const struct {
        const char *error, *first;
    } rows[] = {
        {"bwrap: setting up uid map: Permission denied", "user-namespaces"},
        {"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "apparmor"},
        {"mount 'root/usr': No such device", "overlay"},
        {"execute '/usr/bin/bwrap': No such file or directory", "bubblewrap"},
        {"start a container process: Cannot allocate memory", "memory"},
        {"close 'descriptors': Function not implemented", "kernel"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct machine_check checks[4];
        size_t count = machine_checks_for(rows[i].error, checks, 4);
        ASSERTm(rows[i].error, count > 0);
        ASSERT_STR_EQ(rows[i].first, checks[0].id);
        for (size_t j = 1; j < count; j++)
            ASSERTm("a check comes once", strcmp(checks[j].id, checks[j - 1].id) != 0);
    }
    struct machine_check none[1];
    ASSERT_EQ(0, (int)machine_checks_for("the moon was in the way", none, 1));
    CLEANUP_FREE char *hint = doctor_hint(NULL, "the moon was in the way");
    ASSERTm(hint, strstr(hint, "sandpit doctor"));
    PASS();
}

TEST a_hint_names_only_what_is_really_wrong(void)
{
    CLEANUP_FREE char *wrong = doctor_hint(NULL, "bwrap: whatever it is");
    struct machine machine = machine_here();
    struct machine_result result;
    machine_run(&machine, machine_check("bubblewrap"), 1, &result, 4000);
    if (result.severity >= MACHINE_WARNING)
        ASSERTm("bubblewrap is to blame", strstr(wrong, "docs/doctor.md#bubblewrap"));
    else
        ASSERT_STR_EQ("`sandpit doctor` tells what this machine lacks", wrong);
    PASS();
}

/* --- How it looks ----------------------------------------------------------------------------- */

static const struct machine_check sample_checks[] = {{.id = "one", .title = "first"},
                                                     {.id = "two", .title = "second"},
                                                     {.id = "three", .title = "third"},
                                                     {.id = "four", .title = "fourth"},
                                                     {.id = "five", .title = "fifth"}};
static const struct machine_result sample[] = {
    {.outcome = MACHINE_OK, .reason = "is there"},
    {.outcome = MACHINE_FINDING, .severity = MACHINE_INFO, .reason = "so it is"},
    {.outcome = MACHINE_COULD_NOT_RUN, .reason = "too slow"},
    {.outcome = MACHINE_FINDING, .severity = MACHINE_WARNING, .reason = "odd", .fix = "do a"},
    {.outcome = MACHINE_FINDING, .severity = MACHINE_ERROR, .reason = "bad", .fix = "do b"},
};

TEST text_shows_a_line_each_with_the_fix_below_and_a_closing_line(void)
{
    CLEANUP_BUF struct buf text = BUF_INIT(65536);
    ASSERT_EQ(0, doctor_text(&text, sample_checks, sample, 5, false));
    ASSERT_STR_EQ("✓ first: is there\n"
                  "i second: so it is\n"
                  "? third: too slow\n"
                  "! fourth: odd\n"
                  "    fix: do a\n"
                  "    docs/doctor.md#four\n"
                  "✗ fifth: bad\n"
                  "    fix: do b\n"
                  "    docs/doctor.md#five\n"
                  "\n"
                  "1 error, 1 warning, 1 check could not run: sandpit or its sandboxes will not "
                  "start.\n",
                  buf_text(&text));
    buf_clear(&text);
    ASSERT_EQ(0, doctor_text(&text, sample_checks, sample, 2, true));
    ASSERT(strstr(buf_text(&text), "\033[32m✓\033[0m first"));
    ASSERT(strstr(buf_text(&text), "Nothing is wrong with this machine.\n"));
    PASS();
}

TEST the_exit_status_tells_clean_findings_and_could_not_run(void)
{
    ASSERT_EQ(DOCTOR_CLEAN, doctor_status(sample, 2));
    ASSERT_EQ(DOCTOR_COULD_NOT_RUN, doctor_status(sample, 3));
    ASSERT_EQ(DOCTOR_FINDINGS, doctor_status(sample, 4));
    ASSERT_EQ(DOCTOR_FINDINGS, doctor_status(sample + 4, 1));
    PASS();
}

TEST json_has_every_field_of_every_check(void)
{
    CLEANUP_JSON json_t *json = doctor_json(sample_checks, sample, 5);
    ASSERT(json_is_false(json_object_get(json, "ok")));
    const json_t *checks = json_object_get(json, "checks");
    ASSERT_EQ(5, (int)json_array_size(checks));
    const json_t *four = json_array_get(checks, 3), *one = json_array_get(checks, 0);
    static const struct {
        const char *name, *value;
    } fields[] = {{"id", "four"},         {"title", "fourth"}, {"result", "finding"},
                  {"reason", "odd"},      {"fix", "do a"},     {"docs", "docs/doctor.md#four"},
                  {"severity", "warning"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        ASSERT_STR_EQ(fields[i].value, json_string_value(json_object_get(four, fields[i].name)));
    ASSERT(json_is_null(json_object_get(one, "severity")));
    ASSERT(json_is_null(json_object_get(one, "fix")));
    ASSERT_STR_EQ("could-not-run",
                  json_string_value(json_object_get(json_array_get(checks, 2), "result")));
    CLEANUP_JSON json_t *clean = doctor_json(sample_checks, sample, 2);
    ASSERT(json_is_true(json_object_get(clean, "ok")));
    PASS();
}

SUITE(doctor_suite)
{
    SET_SETUP(empty_root, NULL);
    RUN_TEST(a_kernel_that_lacks_a_call_is_an_error_that_names_it);
    RUN_TEST(user_namespaces_that_are_switched_off_come_with_the_sysctl);
    RUN_TEST(user_namespaces_that_are_refused_are_explained_by_where_this_runs);
    RUN_TEST(apparmor_of_ubuntu_is_found_where_it_forbids_and_only_there);
    RUN_TEST(subordinate_ids_are_looked_up_by_name_and_number);
    RUN_TEST(overlays_that_cannot_be_mounted_are_errors_with_their_remedy);
    RUN_TEST(idmapped_mounts_matter_to_root_and_are_a_warning);
    RUN_TEST(a_missing_bubblewrap_comes_with_the_line_of_this_systems_packages);
    RUN_TEST(what_bubblewrap_says_when_it_is_refused_is_translated);
    RUN_TEST(the_hole_of_bubblewrap_is_found_by_behaviour_not_by_version);
    RUN_TEST(missing_tools_are_an_info_with_their_packages_but_no_bash_is_an_error);
    RUN_TEST(docker_is_never_more_than_an_info);
    RUN_TEST(little_memory_is_a_warning);
    RUN_TEST(control_groups_of_either_version_are_read);
    RUN_TEST(control_groups_that_may_not_be_written_are_a_warning_for_root_only);
    RUN_TEST(the_state_directory_must_be_writable_but_need_not_exist);
    RUN_TEST(an_unsafe_locator_directory_is_an_error);
    RUN_TEST(egress_needs_a_program_and_tun);
    RUN_TEST(names_below_localhost_must_be_this_machine);
    RUN_TEST(a_taken_port_names_its_process_when_proc_tells);
    RUN_TEST(a_check_that_hangs_or_ends_is_said_not_to_have_run_and_leaves_no_process);
    RUN_TEST(quick_checks_try_only_what_a_setting_makes_doubtful);
    RUN_TEST(quick_checks_of_this_machine_take_less_than_3_ms);
    RUN_TEST(errors_of_a_start_lead_to_the_checks_that_know_their_cause);
    RUN_TEST(a_hint_names_only_what_is_really_wrong);
    RUN_TEST(text_shows_a_line_each_with_the_fix_below_and_a_closing_line);
    RUN_TEST(the_exit_status_tells_clean_findings_and_could_not_run);
    RUN_TEST(json_has_every_field_of_every_check);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(doctor_suite);
    CLEANUP_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*root)
        locator_remove_tree(tmp, root + strlen("/tmp/"));
    GREATEST_MAIN_END();
}
