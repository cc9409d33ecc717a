/* `sandpit doctor` on the machine that runs the tests, as root and as somebody else; and what the
 * emulator says of the same findings. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { SOMEBODY = 1001, OUTPUT_MAX = 1 << 20, LIMIT_MS = 5000 };

static const char *const ids[] = {
    "kernel",  "user-namespaces", "apparmor", "subids", "bubblewrap", "bubblewrap-links",
    "overlay", "idmapped-mounts", "cgroups",  "memory", "egress",     "localhost-names",
    "port",    "state",           "locator",  "tools",  "docker"};
enum { IDS = sizeof ids / sizeof *ids };

/* A directory with a home, a place for scratch files and one for locators, all empty. */
struct place {
    char dir[64], home[96], tmp[96], run[96];
};

struct run {
    int status;
    long long ms;
    char *out;
    json_t *json;
};

static void run_free(struct run *run)
{
    free(run->out);
    json_decref(run->json);
}
#define CLEANUP_RUN __attribute__((cleanup(run_free)))

static void place_make(struct place *place, uid_t owner)
{
    snprintf(place->dir, sizeof place->dir, "/tmp/sandpit-test-XXXXXX");
    if (!mkdtemp(place->dir) || chmod(place->dir, 0755) < 0)
        abort();
    snprintf(place->home, sizeof place->home, "%s/home", place->dir);
    snprintf(place->tmp, sizeof place->tmp, "%s/tmp", place->dir);
    snprintf(place->run, sizeof place->run, "%s/run", place->dir);
    const char *const dirs[] = {place->home, place->tmp, place->run};
    for (int i = 0; i < 3; i++) {
        if (mkdir(dirs[i], 0700) < 0 || chown(dirs[i], owner, owner) < 0)
            abort();
    }
}

/* Removes the directories; false when one of them is not empty any more. */
static bool place_clean(struct place *place)
{
    return rmdir(place->home) == 0 && rmdir(place->tmp) == 0 && rmdir(place->run) == 0 &&
           rmdir(place->dir) == 0;
}

__attribute__((noreturn)) static void exec_doctor(const struct place *place, uid_t uid, int out,
                                                  const char *const *options)
{
    const char *argv[16] = {SANDPIT_BINARY, "doctor"};
    for (int count = 2; *options && count < 15; options++)
        argv[count++] = *options;
    dup2(out, STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    setenv("HOME", place->home, 1);
    setenv("TMPDIR", place->tmp, 1);
    setenv("XDG_RUNTIME_DIR", place->run, 1);
    unsetenv("XDG_STATE_HOME");
    if (uid != geteuid() && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0))
        _exit(126);
    if (chdir(place->home) == 0)
        execv(SANDPIT_BINARY, (char *const *)argv);
    _exit(127);
}

static struct run doctor(const struct place *place, uid_t uid, const char *const *options)
{
    struct run run = {.out = calloc(1, OUTPUT_MAX)};
    long long start = test_ms();
    CLEANUP_FILE FILE *file = tmpfile();
    pid_t pid = fork();
    if (pid == 0)
        exec_doctor(place, uid, fileno(file), options);
    waitpid(pid, &run.status, 0);
    run.ms = test_ms() - start;
    run.status = WIFEXITED(run.status) ? WEXITSTATUS(run.status) : -1;
    rewind(file);
    if (fread(run.out, 1, OUTPUT_MAX - 1, file) > 0 && *run.out == '{')
        run.json = json_loads(run.out, 0, NULL);
    return run;
}

static const json_t *row(const struct run *run, const char *id)
{
    size_t index;
    json_t *one;
    json_array_foreach(json_object_get(run->json, "checks"), index, one)
    {
        if (strcmp(text_at(one, "id"), id) == 0)
            return one;
    }
    return NULL;
}

/* What the exit status has to be. */
static int expected_status(const struct run *run)
{
    int status = 0;
    size_t index;
    json_t *one;
    json_array_foreach(json_object_get(run->json, "checks"), index, one)
    {
        const char *severity = text_at(one, "severity");
        if (strcmp(severity, "error") == 0 || strcmp(severity, "warning") == 0)
            return 1;
        if (strcmp(text_at(one, "result"), "could-not-run") == 0)
            status = 2;
    }
    return status;
}

/* NULL, or what is wrong with the JSON. */
static const char *wrong_with(const struct run *run)
{
    static char message[256];
    if (!run->json)
        return "the output is no JSON";
    for (int i = 0; i < IDS; i++) {
        const json_t *one = row(run, ids[i]);
        snprintf(message, sizeof message, "%s: %s", ids[i], text_at(one, "reason"));
        bool found = strcmp(text_at(one, "result"), "finding") == 0;
        if (!one || !*text_at(one, "title") || !*text_at(one, "reason") || !*text_at(one, "docs") ||
            json_is_string(json_object_get(one, "severity")) != found)
            return message;
        if (found && strcmp(text_at(one, "severity"), "info") != 0 && !*text_at(one, "fix"))
            return message;
    }
    if (json_array_size(json_object_get(run->json, "checks")) != IDS)
        return "there are other checks than this test knows";
    if (json_is_true(json_object_get(run->json, "ok")) != (run->status == 0))
        return "ok and the exit status differ";
    return run->status == expected_status(run) ? NULL : "the exit status does not fit the findings";
}

static char *mounts(void)
{
    char *text = calloc(1, OUTPUT_MAX);
    CLEANUP_FILE FILE *file = fopen("/proc/self/mountinfo", "re");
    if (!file || fread(text, 1, OUTPUT_MAX - 1, file) == 0)
        abort();
    return text;
}

static const char *const as_json[] = {"--json", NULL};
static const char *const as_text[] = {NULL};

TEST json_has_every_check_in_time_and_nothing_is_left_behind(void)
{
    struct place place;
    place_make(&place, geteuid());
    CLEANUP_FREE char *before = mounts();
    CLEANUP_RUN struct run run = doctor(&place, geteuid(), as_json);
    CLEANUP_FREE char *after = mounts();
    ASSERTm("files are left behind", place_clean(&place));
    ASSERTm("mounts have changed", strcmp(before, after) == 0);
    ASSERTm(keep(wrong_with(&run)), !wrong_with(&run));
    ASSERT(run.ms < LIMIT_MS);
    PASS();
}

TEST an_ordinary_user_gets_the_same_checks_and_leaves_nothing_either(void)
{
    if (geteuid() != 0)
        SKIPm("not root: cannot become somebody else");
    struct place place;
    place_make(&place, SOMEBODY);
    CLEANUP_RUN struct run run = doctor(&place, SOMEBODY, as_json);
    ASSERTm("files are left behind", place_clean(&place));
    if (run.status == 127)
        SKIPm("an ordinary user cannot execute the program where it was built");
    ASSERTm(keep(wrong_with(&run)), !wrong_with(&run));
    ASSERT(run.ms < LIMIT_MS);
    ASSERT_STR_EQ("needed by root only", text_at(row(&run, "idmapped-mounts"), "reason"));
    PASS();
}

TEST text_has_a_mark_for_each_check_and_no_colours_in_a_pipe(void)
{
    struct place place;
    place_make(&place, geteuid());
    CLEANUP_RUN struct run run = doctor(&place, geteuid(), as_text);
    ASSERT(place_clean(&place));
    int marks = 0;
    for (const char *line = run.out; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        marks += strncmp(line, "✓ ", 4) == 0 || strncmp(line, "✗ ", 4) == 0 ||
                 strncmp(line, "! ", 2) == 0 || strncmp(line, "i ", 2) == 0 ||
                 strncmp(line, "? ", 2) == 0;
    }
    ASSERT_EQ(IDS, marks);
    ASSERT_EQ(NULL, strchr(run.out, '\x1b'));
    PASS();
}

TEST a_taken_port_is_reported_with_the_pid(void)
{
    struct place place;
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof here;
    char number[16], wanted[64];
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(0, bind(fd, (struct sockaddr *)&here, sizeof here));
    ASSERT_EQ(0, listen(fd, 1));
    ASSERT_EQ(0, getsockname(fd, (struct sockaddr *)&here, &size));
    snprintf(number, sizeof number, "%u", ntohs(here.sin_port));
    snprintf(wanted, sizeof wanted, "(pid %d)", getpid());
    place_make(&place, geteuid());
    const char *const options[] = {"--json", "--port", number, NULL};
    CLEANUP_RUN struct run run = doctor(&place, geteuid(), options);
    ASSERT(place_clean(&place));
    const json_t *port = row(&run, "port");
    ASSERT_STR_EQ("warning", text_at(port, "severity"));
    ASSERTm(keep(text_at(port, "reason")), strstr(text_at(port, "reason"), wanted));
    ASSERTm(keep(text_at(port, "fix")), strstr(text_at(port, "fix"), "--port 0"));
    ASSERT_EQ(1, run.status);
    PASS();
}

TEST a_wrong_option_exits_with_2(void)
{
    struct place place;
    place_make(&place, geteuid());
    const char *const options[] = {"--port", "many", NULL};
    CLEANUP_RUN struct run run = doctor(&place, geteuid(), options);
    ASSERT(place_clean(&place));
    ASSERT_EQ(2, run.status);
    PASS();
}

TEST every_check_has_a_heading_in_the_document(void)
{
    CLEANUP_FREE char *text = calloc(1, OUTPUT_MAX);
    CLEANUP_FILE FILE *file = fopen(SANDPIT_SOURCE "/docs/doctor.md", "re");
    ASSERTm("docs/doctor.md is missing", file);
    ASSERT(fread(text, 1, OUTPUT_MAX - 1, file) > 0);
    for (int i = 0; i < IDS; i++) {
        char heading[64];
        snprintf(heading, sizeof heading, "\n## %s\n", ids[i]);
        ASSERTm(ids[i], strstr(text, heading));
    }
    PASS();
}

/* --- The emulator ----------------------------------------------------------------------------- */

static bool log_says(const struct emulator *emulator, const char *text)
{
    CLEANUP_FREE char *log = calloc(1, OUTPUT_MAX);
    CLEANUP_FILE FILE *file = fopen(emulator->log, "re");
    return file && fread(log, 1, OUTPUT_MAX - 1, file) > 0 && strstr(log, text);
}

static void put(const char *path, const char *text, mode_t mode)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
}

/* A machine with little memory, for this process and what it starts. */
static const char *with_little_memory(void *arg)
{
    const char *file = arg;
    struct emulator emulator = {0};
    put(file, "MemTotal: 200000 kB\nMemFree: 1 kB\nMemAvailable: 102400 kB\n", 0600);
    if (mount(file, "/proc/meminfo", NULL, MS_BIND, NULL) < 0)
        return "mount on /proc/meminfo";
    if (emulator_start(&emulator, NULL) < 0)
        return "the emulator did not start";
    bool said = log_says(&emulator, "only 100 MiB of memory are available");
    emulator_stop(&emulator);
    emulator_clean(&emulator);
    return said ? NULL : "dev did not say that memory is scarce";
}

TEST dev_says_at_its_start_what_matters(void)
{
    char dir[] = "/tmp/sandpit-test-XXXXXX", file[64];
    ASSERT(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/meminfo", dir);
    const char *wrong = in_namespaces(CLONE_NEWNS, with_little_memory, file);
    unlink(file);
    rmdir(dir);
    ASSERTm(wrong, !wrong);
    PASS();
}

TEST dev_says_nothing_on_a_machine_where_all_is_well(void)
{
    static const char *const quick[] = {"kernel", "user-namespaces", "apparmor", "memory"};
    struct emulator emulator = {0};
    struct place place;
    place_make(&place, geteuid());
    CLEANUP_RUN struct run run = doctor(&place, geteuid(), as_json);
    ASSERT(place_clean(&place));
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++) {
        if (strcmp(text_at(row(&run, quick[i]), "result"), "ok") != 0)
            SKIPm("on this machine all is not well: see sandpit doctor");
    }
    ASSERT_EQ(0, emulator_start(&emulator, NULL));
    bool said = log_says(&emulator, "; fix:");
    emulator_stop(&emulator);
    emulator_clean(&emulator);
    ASSERT_FALSE(said);
    PASS();
}

/* The directory that containers are made in disappears under a running emulator. */
TEST a_container_that_does_not_start_comes_with_a_hint(void)
{
    struct emulator emulator = {0};
    ASSERT_EQ(0, emulator_start(&emulator, NULL));
    char command[256];
    snprintf(command, sizeof command, "rmdir %s/sandpit/run-*/mnt", emulator.run_root);
    const char *const argv[] = {"sh", "-c", command, NULL};
    int removed = run_command(&emulator, argv, NULL, NULL);
    CLEANUP_REPLY struct reply reply = post(&emulator, "/sandbox/a/exec", "[\"true\"]");
    bool logged = log_says(&emulator, "sandbox a: `sandpit doctor` tells");
    emulator_stop(&emulator);
    emulator_clean(&emulator);
    ASSERT_EQ(0, removed);
    ASSERT_EQ(500, reply.status);
    ASSERTm(keep(reply.body), strstr(text_at(reply.json, "error"), "Container failed to start"));
    ASSERTm(keep(reply.body), strstr(text_at(reply.json, "hint"), "sandpit doctor"));
    ASSERT(logged);
    PASS();
}

static bool write_text(const char *path, const char *text)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Becomes an ordinary user in a world where user namespaces are switched off. */
static bool leave_namespaces(void)
{
    char map[32];
    snprintf(map, sizeof map, "%d %d 1", SOMEBODY, SOMEBODY);
    return setgroups(0, NULL) == 0 && setgid(SOMEBODY) == 0 && setuid(SOMEBODY) == 0 &&
           prctl(PR_SET_DUMPABLE, 1) == 0 && unshare(CLONE_NEWUSER) == 0 &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", map) &&
           write_text("/proc/self/gid_map", map) &&
           write_text("/proc/sys/user/max_user_namespaces", "0");
}

/* What a command of sandpit prints there, on either output; its exit status. */
static int without_namespaces(const struct place *place, const char *const *argv, char **out)
{
    int status = -1;
    CLEANUP_FILE FILE *file = tmpfile();
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fileno(file), STDOUT_FILENO);
        dup2(fileno(file), STDERR_FILENO);
        setenv("HOME", place->home, 1);
        setenv("TMPDIR", place->tmp, 1);
        setenv("XDG_RUNTIME_DIR", place->run, 1);
        if (!leave_namespaces())
            _exit(126);
        if (chdir(place->home) == 0)
            execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    *out = calloc(1, OUTPUT_MAX);
    rewind(file);
    if (fread(*out, 1, OUTPUT_MAX - 1, file) == 0)
        **out = '\0';
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST an_emulator_that_cannot_start_containers_says_why_and_how_to_repair_it(void)
{
    static const char fix[] = "sudo sysctl -w user.max_user_namespaces=15000";
    const char *const doctor_argv[] = {SANDPIT_BINARY, "doctor", NULL};
    const char *const dev_argv[] = {SANDPIT_BINARY, "dev", "--port", "0", "--ephemeral", NULL};
    struct place place;
    CLEANUP_FREE char *found = NULL, *said = NULL;
    place_make(&place, SOMEBODY);
    int doctor_status = without_namespaces(&place, doctor_argv, &found);
    int dev_status = without_namespaces(&place, dev_argv, &said);
    const char *const remove[] = {"rm", "-rf", place.dir, NULL};
    struct emulator here = {.dir = "/tmp"};
    run_command(&here, remove, NULL, NULL);
    if (doctor_status == 126 || doctor_status == 127)
        SKIPm("cannot become an ordinary user without user namespaces here");
    ASSERT_EQm(keep(found), 1, doctor_status);
    ASSERTm(keep(found), strstr(found, "✗ user namespaces: user namespaces are switched off"));
    ASSERTm(keep(found), strstr(found, fix));
    ASSERT_EQm(keep(said), 1, dev_status);
    ASSERTm(keep(said), strstr(said, "user.max_user_namespaces is 0"));
    ASSERTm(keep(said), strstr(said, fix));
    PASS();
}

SUITE(doctor_suite)
{
    RUN_TEST(json_has_every_check_in_time_and_nothing_is_left_behind);
    RUN_TEST(an_ordinary_user_gets_the_same_checks_and_leaves_nothing_either);
    RUN_TEST(text_has_a_mark_for_each_check_and_no_colours_in_a_pipe);
    RUN_TEST(a_taken_port_is_reported_with_the_pid);
    RUN_TEST(a_wrong_option_exits_with_2);
    RUN_TEST(every_check_has_a_heading_in_the_document);
}

SUITE(dev_suite)
{
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP dev_suite: %s\n", missing);
        return;
    }
    RUN_TEST(dev_says_at_its_start_what_matters);
    RUN_TEST(dev_says_nothing_on_a_machine_where_all_is_well);
    RUN_TEST(a_container_that_does_not_start_comes_with_a_hint);
    RUN_TEST(an_emulator_that_cannot_start_containers_says_why_and_how_to_repair_it);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(doctor_suite);
    RUN_SUITE(dev_suite);
    GREATEST_MAIN_END();
}
