/* Processes under attack: what a command can say about its directory, its variables and its user,
 * output without end, and calls that meet a container on its way out. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

/* A sanitizer keeps what was freed for a while. */
#ifdef __SANITIZE_ADDRESS__
enum { MEBI = 1024 * 1024, MOST_KIB = 2048 * 1024, LEFT_KIB = 1536 * 1024 };
#else
enum { MEBI = 1024 * 1024, MOST_KIB = 288 * 1024, LEFT_KIB = 32 * 1024 };
#endif

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

/* exec with options; takes them. */
static struct reply exec_with(const char *box, const char *command, json_t *options)
{
    json_t *arguments = json_pack("[s, o]", command, options);
    char *text = json_dumps(arguments, 0);
    struct reply reply = call(box, "exec", text);
    free(text);
    json_decref(arguments);
    return reply;
}

static json_t *sessionless(json_t *options)
{
    json_object_set_new(options, "enableDefaultSession", json_false());
    return options;
}

/* Directories. */

TEST directories_of_proc_lead_nowhere_outside(void)
{
    static const char *const paths[] = {
        "/proc/self/fd/0",
        "/proc/self/fd/1",
        "/proc/self/fd/3",
        "/proc/self/fd/7",
        "/proc/self/fd/8",
        "/proc/self/fd/9",
        "/proc/self/fd/10",
        "/proc/1/root",
        "/proc/1/cwd",
        "/proc/1/fd/3",
        "/proc/self/root",
        "/proc/self/cwd",
        "/proc/2/root",
        "/proc/1/root/..",
        "/../../..",
        "/dev/fd/3",
        "/proc/thread-self/root/../../../..",
    };
    char marker[128];
    snprintf(marker, sizeof marker, "%s/canary", emulator.dir);
    FILE *canary = fopen(marker, "we");
    ASSERT(canary);
    fclose(canary);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (int without = 0; without < 2; without++) {
            char command[300];
            snprintf(command, sizeof command,
                     "ls -d ./%s /%s .%s 2>/dev/null; cat ./log 2>/dev/null; echo end", marker,
                     marker, marker);
            json_t *options = json_pack("{s:s}", "cwd", paths[i]);
            CLEANUP_REPLY struct reply reply =
                exec_with("where", command, without ? sessionless(options) : options);
            ASSERTm(paths[i], reply.status == 200 || reply.status == 500 || reply.status == 400);
            ASSERTm(paths[i], !strstr(text_at(reply.json, "stdout"), "canary"));
        }
        CLEANUP_REPLY struct reply session = call("where", "exec", "[\"pwd\"]");
        ASSERT_EQm(paths[i], 200, session.status);
    }
    PASS();
}

TEST neither_pid_1_nor_the_emulator_can_be_reached_through_proc(void)
{
    char command[600];
    snprintf(command, sizeof command,
             "ls /proc/1/fd /proc/1/root/ 2>&1 | head -3; cat /proc/1/environ 2>&1;"
             "(exec 3>/proc/1/exe) 2>&1; (exec 3>/proc/1/mem) 2>&1; (exec 3</proc/1/maps) 2>&1;"
             "[ -e /proc/%d/exe ] && readlink /proc/%d/exe; true",
             emulator.pid, emulator.pid);
    CLEANUP_REPLY struct reply reply = exec_with("where", command, json_object());
    const char *out = text_at(reply.json, "stdout");
    ASSERT_EQ(200, reply.status);
    ASSERTm(keep(out), !strstr(out, "sandpit/objects"));
    ASSERTm(keep(out), !strstr(out, "bin/sandpit"));
    ASSERTm(keep(out), strstr(out, "/proc/1/exe: Permission denied") ||
                           strstr(out, "/proc/1/exe: Text file busy"));
    ASSERTm(keep(out), strstr(out, "/proc/1/mem: Permission denied"));
    CLEANUP_REPLY struct reply own = exec_with(
        "where", "cp /bin/sleep /tmp/own; /tmp/own 5 & (exec 3>/proc/$!/exe) 2>&1; kill $!",
        json_object());
    ASSERTm("a program that runs is not written",
            strstr(text_at(own.json, "stdout"), "Text file busy") ||
                strstr(text_at(own.json, "stdout"), "Permission denied"));
    CLEANUP_REPLY struct reply again = call("where", "exec", "[\"echo alive\"]");
    ASSERT_STR_EQ("alive", text_at(again.json, "stdout"));
    PASS();
}

TEST every_kind_of_process_has_three_descriptors(void)
{
    static const char list[] = "ls /proc/self/fd | grep -v '^[012]$' | wc -l; ls /proc/self/fd";
    CLEANUP_REPLY struct reply a = exec_with("where", list, json_object());
    /* ls itself opens the directory it lists. */
    ASSERT_STR_EQ("1\n0\n1\n2\n3", text_at(a.json, "stdout"));
    CLEANUP_REPLY struct reply b = exec_with("where", list, sessionless(json_object()));
    ASSERTm(keep(text_at(b.json, "stdout")),
            strncmp(text_at(b.json, "stdout"), "1\n0\n1\n2\n3", 9) == 0);
    CLEANUP_REPLY struct reply c =
        exec_with("where", "(setsid sh -c 'ls /proc/self/fd' </dev/null) ", json_object());
    ASSERT_STR_EQ("0\n1\n2\n3", text_at(c.json, "stdout"));
    PASS();
}

/* Users and variables. */

TEST no_user_can_be_chosen(void)
{
    static const char *const users[] = {"root;id", "4294967296", "-1", "", "nobody", "0:0"};
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        CLEANUP_REPLY struct reply reply =
            exec_with("where", "id -u", json_pack("{s:s}", "user", users[i]));
        ASSERTm(users[i], reply.status == 400 || (reply.status == 200 &&
                                                  strcmp(text_at(reply.json, "stdout"), "0") == 0));
    }
    PASS();
}

static const char *const hostile_values[] = {
    "/tmp/evil.so",
    "a=b=c",
    "line one\nline two",
    "$(touch /tmp/pwned)",
    "`touch /tmp/pwned`",
    "'; touch /tmp/pwned; '",
    "\"; touch /tmp/pwned; \"",
    "() { :; }; touch /tmp/pwned",
    "\\",
    "",
    " -e ",
    "$'\\x27'",
    "!!",
    "\t\r\x1b[2J\x7f",
};

/* The value as a process sees it, in the environment itself. */
static const char *seen_as(const char *value, bool without)
{
    json_t *options = json_pack("{s:{s:s}}", "env", "EVIL", value);
    CLEANUP_REPLY struct reply reply =
        exec_with("vars", "printf '<%s>' \"$EVIL\"; ls /tmp/pwned 2>/dev/null",
                  without ? sessionless(options) : options);
    char expected[256];
    snprintf(expected, sizeof expected, "<%s>", value);
    const char *out = text_at(reply.json, "stdout");
    if (reply.status >= 400 && reply.status < 500)
        return NULL;
    return strcmp(out, expected) == 0 ? NULL : keep(reply.body);
}

TEST values_of_variables_are_literal(void)
{
    for (size_t i = 0; i < sizeof hostile_values / sizeof *hostile_values; i++) {
        for (int without = 0; without < 2; without++) {
            const char *wrong = seen_as(hostile_values[i], without);
            ASSERTm(wrong, !wrong);
        }
    }
    PASS();
}

TEST names_of_variables_are_names(void)
{
    static const char *const names[] = {
        "A=B",
        "A B",
        "A\nB",
        "1A",
        "",
        "A;touch /tmp/pwned",
        "$(touch /tmp/pwned)",
        "A-B",
        "é",
        "BASH_FUNC_ls%%",
        "a[$(touch /tmp/pwned)]",
        "A+",
        "-x",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int without = 0; without < 2; without++) {
            json_t *options = json_pack("{s:{s:s}}", "env", names[i], "x");
            CLEANUP_REPLY struct reply reply = exec_with("vars", "env; ls /tmp/pwned 2>/dev/null",
                                                         without ? sessionless(options) : options);
            ASSERTm(names[i], reply.status >= 400);
            ASSERTm(names[i], *text_at(reply.json, "error"));
        }
        json_t *vars = json_pack("[{s:s}]", names[i], "x");
        char *text = json_dumps(vars, 0);
        CLEANUP_REPLY struct reply set = call("vars", "setEnvVars", text);
        free(text);
        json_decref(vars);
        ASSERTm(names[i], set.status >= 400);
    }
    CLEANUP_REPLY struct reply clean =
        exec_with("vars", "ls /tmp/pwned 2>/dev/null; env | grep -c pwned", json_object());
    ASSERT_STR_EQ("0", text_at(clean.json, "stdout"));
    PASS();
}

TEST loader_variables_are_the_commands_own(void)
{
    /* A library that is not there makes the loader complain in the command, and nowhere else. */
    static const char *const names[] = {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV",
                                        "ENV",        "PROMPT_COMMAND"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int without = 0; without < 2; without++) {
            json_t *options = json_pack("{s:{s:s}}", "env", names[i], "/tmp/none.so");
            char command[64];
            snprintf(command, sizeof command, "echo \"$%s\"; touch /tmp/done", names[i]);
            CLEANUP_REPLY struct reply reply =
                exec_with("vars", command, without ? sessionless(options) : options);
            ASSERTm(names[i], reply.status == 200 || (reply.status >= 400 && reply.status < 500));
            if (reply.status == 200)
                ASSERTm(keep(reply.body), strstr(text_at(reply.json, "stdout"), "tmp"));
        }
    }
    CLEANUP_REPLY struct reply after =
        exec_with("vars", "echo \"<$LD_PRELOAD$BASH_ENV>\"", json_object());
    ASSERT_STR_EQ("<>", text_at(after.json, "stdout"));
    CLEANUP_REPLY struct reply file = call("vars", "readFile", "[\"/tmp/done\"]");
    ASSERT_EQ(200, file.status);
    PASS();
}

TEST a_value_of_a_mebibyte_arrives_or_is_refused(void)
{
    char *big = malloc(MEBI + 1);
    memset(big, 'v', MEBI);
    big[MEBI] = '\0';
    for (int without = 0; without < 2; without++) {
        json_t *options = json_pack("{s:{s:s}}", "env", "BIG", big);
        CLEANUP_REPLY struct reply reply =
            exec_with("vars", "echo ${#BIG}", without ? sessionless(options) : options);
        bool whole = reply.status == 200 && strcmp(text_at(reply.json, "stdout"), "1048576") == 0;
        ASSERTm(keep(reply.body), whole || (reply.status >= 400 && *text_at(reply.json, "error")));
    }
    json_t *vars = json_pack("[{s:s}]", "BIG", big);
    char *text = json_dumps(vars, 0);
    CLEANUP_REPLY struct reply set = call("bigvars", "setEnvVars", text);
    free(text);
    json_decref(vars);
    free(big);
    ASSERTm(keep(set.body), set.status == 200 || set.status >= 400);
    CLEANUP_REPLY struct reply after = exec_with("vars", "echo alive", json_object());
    ASSERT_STR_EQ("alive", text_at(after.json, "stdout"));
    CLEANUP_REPLY struct reply there = call("bigvars", "exec", "[\"echo ${#BIG}\"]");
    ASSERTm(keep(there.body), strcmp(text_at(there.json, "stdout"), "1048576") == 0 ||
                                  strcmp(text_at(there.json, "stdout"), "0") == 0 ||
                                  there.status >= 400);
    PASS();
}

/* Time. */

TEST a_timeout_is_kept_whoever_holds_the_output(void)
{
    static const char *const commands[] = {
        "setsid sleep 31415 & sleep 31415",
        "(trap '' TERM; sleep 31415) & sleep 31415",
        "sleep 31415 & disown; exec 3>&1; sleep 31415",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        long long start = test_ms();
        json_t *options = json_pack("{s:i}", "timeout", 300);
        CLEANUP_REPLY struct reply reply = exec_with("late", commands[i], sessionless(options));
        ASSERT_EQm(keep(reply.body), 200, reply.status);
        ASSERT_EQm(commands[i], 124, number_at(reply.json, "exitCode"));
        ASSERTm(commands[i], test_ms() - start < 8000);
        start = test_ms();
        CLEANUP_REPLY struct reply in_session =
            exec_with(i == 0   ? "late-0"
                      : i == 1 ? "late-1"
                               : "late-2",
                      commands[i], json_pack("{s:i}", "timeout", 300));
        ASSERT_EQm(keep(in_session.body), 500, in_session.status);
        ASSERTm(commands[i], strstr(in_session.body, "timeout"));
        ASSERTm(commands[i], test_ms() - start < 5000);
    }
    static const char *const boxes[] = {"late", "late-0", "late-1", "late-2"};
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        CLEANUP_REPLY struct reply gone = call(boxes[i], "destroy", "[]");
        ASSERT_EQ(200, gone.status);
    }
    ASSERT_EQ(0, processes_with("sleep 31415"));
    PASS();
}

/* Output. */

static bool is_idle(void *arg)
{
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/flood");
    return number_at(shown.json, "inflight") == 0;
}

TEST a_gibibyte_for_a_reader_who_left_stays_out_of_memory(void)
{
    static const char body[] =
        "[\"head -c 1073741824 /dev/zero | tr '\\\\0' x; echo done >/tmp/d\"]";
    CLEANUP_REPLY struct reply warm = call("flood", "exec", "[\"true\"]");
    int files = emulator_files(&emulator);
    long before = emulator_memory(&emulator, "VmRSS");
    for (int i = 0; i < 2; i++) { /* once left at once, once stayed for the answer */
        char head[256];
        int size = snprintf(head, sizeof head,
                            "POST /sandbox/flood/exec HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            sizeof body - 1, body);
        int fd = dial(&emulator);
        send_all(fd, head, (size_t)size);
        if (i == 1) {
            CLEANUP_REPLY struct reply reply = read_reply(fd);
            ASSERT_EQm(keep(reply.body), 500, reply.status);
            ASSERT(strstr(reply.body, "64 MiB"));
        }
        close(fd);
        CLEANUP_REPLY struct reply health = get(&emulator, "/cdn-cgi/local/health");
        ASSERT_EQ(200, health.status);
        ASSERT(eventually(is_idle, NULL, 60000));
    }
    CLEANUP_REPLY struct reply next = call("flood", "exec", "[\"cat /tmp/d\"]");
    ASSERT_STR_EQ("done", text_at(next.json, "stdout"));
    long most = emulator_memory(&emulator, "VmHWM"), after = emulator_memory(&emulator, "VmRSS");
    printf("a_gibibyte…: %ld KiB before, %ld at most, %ld after\n", before, most, after);
    ASSERTm("two streams of 64 MiB and what growing them takes", most - before < MOST_KIB);
    ASSERTm("given back", after - before < LEFT_KIB);
    ASSERTm("no descriptor was left", emulator_files(&emulator) <= files + 2);
    PASS();
}

/* Ends. */

TEST a_session_that_ended_by_itself_can_be_deleted_listed_and_used(void)
{
    for (int i = 0; i < 50; i++) {
        CLEANUP_REPLY struct reply made = call("ends", "createSession", "[{\"id\": \"s\"}]");
        ASSERT_EQ(200, made.status);
        /* Its end and the deletion are on their way at the same time. */
        CLEANUP_REPLY struct reply quit =
            call("ends", "exec",
                 i % 2 ? "[\"exit 3\", {\"sessionId\": \"s\"}]"
                       : "[\"(sleep 0.00$((RANDOM % 9)); kill -9 $$) & true\","
                         " {\"sessionId\": \"s\"}]");
        ASSERT(quit.status == 200 || quit.status == 410);
        CLEANUP_REPLY struct reply gone = call("ends", "deleteSession", "[\"s\"]");
        ASSERTm(keep(gone.body), gone.status == 200 || gone.status >= 400);
        ASSERT(*gone.body);
    }
    CLEANUP_REPLY struct reply alive = call("ends", "exec", "[\"echo alive\"]");
    ASSERT_STR_EQ("alive", text_at(alive.json, "stdout"));
    PASS();
}

struct worker {
    pthread_t thread;
    int from, answered, interrupted;
    char wrong[512];
};
static int worker_stop;

/* Every answer is a result or one of the two defined ends. */
static void *keep_calling(void *arg)
{
    struct worker *worker = arg;
    static const char *const commands[] = {
        "[\"echo x; sleep 0.002\"]",
        "[\"sleep 27182 & echo x\"]",
        "[\"echo x\", {\"enableDefaultSession\": false}]",
        "[\"echo x; sleep 0.02\", {\"enableDefaultSession\": false}]",
    };
    while (!__atomic_load_n(&worker_stop, __ATOMIC_RELAXED)) {
        CLEANUP_REPLY struct reply reply = call("dying", "exec", commands[worker->from]);
        const char *code = text_at(reply.json, "code");
        if (reply.status == 200 && text_at(reply.json, "stdout")[0] == 'x' &&
            number_at(reply.json, "exitCode") == 0)
            worker->answered++;
        else if (strcmp(code, "OPERATION_INTERRUPTED") == 0 ||
                 strcmp(code, "CONTAINER_UNAVAILABLE") == 0)
            worker->interrupted++;
        else if (!*worker->wrong)
            snprintf(worker->wrong, sizeof worker->wrong, "%d %.480s", reply.status,
                     reply.body ? reply.body : "no answer");
    }
    return NULL;
}

TEST calls_that_meet_a_container_on_its_way_out_get_a_defined_end(void)
{
    enum { WORKERS = 4, ROUNDS = 100 };
    struct worker workers[WORKERS] = {0};
    int answered = 0, interrupted = 0;
    __atomic_store_n(&worker_stop, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].from = i;
        pthread_create(&workers[i].thread, NULL, keep_calling, &workers[i]);
    }
    int failed = 0;
    for (int i = 0; i < ROUNDS && !failed; i++) {
        static const char *const ways[] = {
            "/cdn-cgi/local/sandboxes/dying/stop", "/cdn-cgi/local/sandboxes/dying/destroy",
            "/sandbox/dying/destroy", "/cdn-cgi/local/clock/advance"};
        /* The last call may still wait for a fresh container, so 404 is for an unknown id only. */
        CLEANUP_REPLY struct reply reply =
            post(&emulator, ways[i % 4], i % 4 == 3 ? "{\"by\": \"11m\"}" : "[]");
        failed = reply.status != 200 && !(reply.status == 404 && i < 8) ? reply.status : 0;
        if (i % 8 == 0) {
            CLEANUP_REPLY struct reply one = call("dying", "exec", "[\"true\"]");
        }
    }
    __atomic_store_n(&worker_stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        answered += workers[i].answered;
        interrupted += workers[i].interrupted;
    }
    printf("calls_that_meet…: %d results, %d interrupted\n", answered, interrupted);
    ASSERT_EQ(0, failed);
    for (int i = 0; i < WORKERS; i++)
        ASSERTm(keep(workers[i].wrong), !*workers[i].wrong);
    ASSERT(answered > 0 && interrupted > 0);
    CLEANUP_REPLY struct reply last = call("dying", "destroy", "[]");
    ASSERT_EQ(200, last.status);
    ASSERTm("no orphan", processes_become("sleep 27182", 0, 2000));
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/dying");
    ASSERT_EQ(0, number_at(shown.json, "inflight"));
    PASS();
}

TEST a_killed_emulator_can_be_started_again_at_once(void)
{
    for (int i = 0; i < 5; i++) {
        CLEANUP_REPLY struct reply started =
            call("again", "exec", "[\"setsid sleep 16180 & (sleep 16180 &) ; echo up\"]");
        ASSERT_STR_EQ("up", text_at(started.json, "stdout"));
        emulator_kill(&emulator);
        ASSERT_EQ(0, emulator_restart(&emulator, NULL));
        ASSERTm("the old tree is gone within a second", processes_become("sleep 16180", 0, 1000));
        CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/again");
        ASSERT_EQ(200, shown.status);
    }
    PASS();
}

SUITE(abuse_process_suite)
{
    RUN_TEST(directories_of_proc_lead_nowhere_outside);
    RUN_TEST(neither_pid_1_nor_the_emulator_can_be_reached_through_proc);
    RUN_TEST(every_kind_of_process_has_three_descriptors);
    RUN_TEST(no_user_can_be_chosen);
    RUN_TEST(values_of_variables_are_literal);
    RUN_TEST(names_of_variables_are_names);
    RUN_TEST(loader_variables_are_the_commands_own);
    RUN_TEST(a_value_of_a_mebibyte_arrives_or_is_refused);
    RUN_TEST(a_timeout_is_kept_whoever_holds_the_output);
    RUN_TEST(a_gibibyte_for_a_reader_who_left_stays_out_of_memory);
    RUN_TEST(a_session_that_ended_by_itself_can_be_deleted_listed_and_used);
    RUN_TEST(calls_that_meet_a_container_on_its_way_out_get_a_defined_end);
    RUN_TEST(a_killed_emulator_can_be_started_again_at_once);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, abuse_process_suite);
    GREATEST_MAIN_END();
}
