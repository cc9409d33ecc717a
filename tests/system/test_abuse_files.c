/* Abuse of the file API: links, races, special files, odd names, files that change while they are
 * read. Whatever a sandbox does, its files are its own, and the server goes on. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "counts.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static char canary[96]; /* a directory of this host, with a file `secret` */
static int watcher = -1;

static struct reply call(const char *method, json_t *arguments)
{
    char path[96];
    snprintf(path, sizeof path, "/sandbox/files/%s", method);
    CLEANUP_JSON json_t *owned = arguments;
    CLEANUP_FREE char *text = json_dumps(owned, 0);
    return post(&emulator, path, text ? text : "[]");
}

static struct reply shell(const char *command)
{
    return call("exec", json_pack("[s]", command));
}

static const char *output(const char *command)
{
    CLEANUP_REPLY struct reply reply = shell(command);
    return keep(reply.status == 200 ? text_at(reply.json, "stdout") : reply.body);
}

static int write_secret(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/secret", canary);
    CLEANUP_FILE FILE *file = fopen(path, "we");
    return file && fputs("host", file) >= 0 ? 0 : -1;
}

/* The host's directory has been neither read nor changed: the kernel would have told. This look is
 * itself an event, which is taken away again. */
static bool canary_is_untouched(void)
{
    char path[128], text[16] = "", told[4096];
    struct pollfd poller = {.fd = watcher, .events = POLLIN};
    bool quiet = poll(&poller, 1, 0) == 0;
    snprintf(path, sizeof path, "%s/secret", canary);
    FILE *file = fopen(path, "re");
    bool same = file && fgets(text, sizeof text, file) && strcmp(text, "host") == 0;
    if (file)
        fclose(file);
    while (read(watcher, told, sizeof told) > 0)
        ;
    return quiet && same;
}

static int make_canary(void)
{
    snprintf(canary, sizeof canary, "/tmp/sandpit-canary-XXXXXX");
    watcher = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watcher < 0 || !mkdtemp(canary) || write_secret() < 0)
        return -1;
    chmod(canary, 0777); /* only the boundary is in the way */
    return 0;
}

/* Watches from here on; what this test itself did before is no event. */
static void watch_canary(void)
{
    inotify_add_watch(watcher, canary,
                      IN_ACCESS | IN_OPEN | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE |
                          IN_MOVE);
}

static void drop_canary(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/secret", canary);
    close(watcher);
    unlink(path);
    rmdir(canary);
}

/* Links. */

TEST no_kind_of_link_leads_any_call_outside(void)
{
    char command[1024];
    snprintf(
        command, sizeof command,
        "mkdir -p /workspace/l && cd /workspace/l && ln -sfn %s/secret final && ln -sfn %s dir "
        "&& ln -sfn /proc/self/root root && ln -sfn /proc/1/root one && ln -sfn "
        "../../../../../../../..%s up && ln -sfn /proc/self/cwd/../.. cwd && ln -sfn loop loop",
        canary, canary, canary);
    CLEANUP_REPLY struct reply made = shell(command);
    ASSERT_EQ(0, number_at(made.json, "exitCode"));
    char through[4][256];
    snprintf(through[0], sizeof through[0], "/workspace/l/final");
    snprintf(through[1], sizeof through[1], "/workspace/l/dir/secret");
    snprintf(through[2], sizeof through[2], "/workspace/l/root%s/secret", canary);
    snprintf(through[3], sizeof through[3], "/workspace/l/up/secret");
    for (size_t i = 0; i < 4; i++) {
        CLEANUP_REPLY struct reply read = call("readFile", json_pack("[s]", through[i]));
        ASSERT_FALSEm(through[i], read.body && strstr(read.body, "\"content\":\"host\""));
        CLEANUP_REPLY struct reply stream = call("readFileStream", json_pack("[s]", through[i]));
        ASSERT_FALSEm(through[i], stream.body && strstr(stream.body, "\"host\""));
        CLEANUP_REPLY struct reply put = call("writeFile", json_pack("[s, s]", through[i], "box"));
        CLEANUP_REPLY struct reply move =
            call("moveFile", json_pack("[s, s]", through[i], "/workspace/l/moved"));
        CLEANUP_REPLY struct reply gone = call("deleteFile", json_pack("[s]", through[i]));
    }
    CLEANUP_REPLY struct reply one = call("listFiles", json_pack("[s]", "/workspace/l/one"));
    ASSERT(one.status >= 400 || !strstr(one.body, "sandpit-canary"));
    ASSERT(canary_is_untouched());
    PASS();
}

TEST a_loop_of_links_is_an_error_with_a_code(void)
{
    CLEANUP_REPLY struct reply made =
        shell("mkdir -p /workspace/l; ln -sfn loop /workspace/l/loop");
    CLEANUP_REPLY struct reply read = call("readFile", json_pack("[s]", "/workspace/l/loop"));
    ASSERT_STR_EQ("TOO_MANY_LINKS", text_at(read.json, "code"));
    CLEANUP_REPLY struct reply list = call("listFiles", json_pack("[s]", "/workspace/l/loop"));
    ASSERT(list.status >= 400);
    CLEANUP_REPLY struct reply exists = call("exists", json_pack("[s]", "/workspace/l/loop"));
    ASSERT(json_is_false(at(exists.json, "exists")));
    PASS();
}

/* A directory and a link to the host's take turns under the same name while every call is made on a
 * path through it. */
TEST a_directory_that_turns_into_a_link_is_never_followed_outside(void)
{
    int rounds = counts_now().swaps;
    char command[1024];
    snprintf(
        command, sizeof command,
        "rm -rf /workspace/race && mkdir -p /workspace/race && cd /workspace/race && mkdir real "
        "&& echo mine > real/secret && ln -s %s bad && ln -s real d && (while :; do ln -sfn "
        "real n && mv -T n d; ln -sfn bad n && mv -T n d; done) >/dev/null 2>&1 & echo $!",
        canary);
    CLEANUP_REPLY struct reply racing =
        call("exec", json_pack("[s, {s:s}]", command, "session", "race"));
    ASSERT_EQm(keep(racing.body), 0, number_at(racing.json, "exitCode"));
    static const char path[] = "/workspace/race/d/secret";
    int seen = 0;
    for (int i = 0; i < rounds; i++) {
        CLEANUP_REPLY struct reply read = call("readFile", json_pack("[s]", path));
        ASSERT(read.status == 200 || read.status == 404 || read.status == 500);
        ASSERT_FALSE(strstr(read.body, "\"content\":\"host\""));
        seen += read.status == 200;
        CLEANUP_REPLY struct reply put = call("writeFile", json_pack("[s, s]", path, "mine\n"));
        ASSERT(put.status);
        CLEANUP_REPLY struct reply list = call("listFiles", json_pack("[s]", "/workspace/race/d"));
        ASSERT(list.status);
        if (i % 8 == 0) {
            CLEANUP_REPLY struct reply gone = call("deleteFile", json_pack("[s]", path));
            ASSERT(gone.status);
        }
    }
    snprintf(command, sizeof command, "kill %s", text_at(racing.json, "stdout"));
    CLEANUP_REPLY struct reply ended = shell(command);
    ASSERT(seen > 0);
    ASSERT(canary_is_untouched());
    PASS();
}

TEST a_hard_link_to_a_file_of_the_host_changes_only_the_sandboxs(void)
{
    struct stat before, after;
    ASSERT_EQ(0, stat("/usr/bin/env", &before));
    CLEANUP_REPLY struct reply linked = shell(
        "ln /usr/bin/env /usr/bin/env-too; ln /usr/bin/env /workspace/env-too; ls -d /*/env-too "
        "/usr/bin/env-too");
    static const char *const paths[] = {"/usr/bin/env-too", "/workspace/env-too", "/usr/bin/env"};
    for (size_t i = 0; i < 3; i++) {
        CLEANUP_REPLY struct reply put = call("writeFile", json_pack("[s, s]", paths[i], "broken"));
        ASSERT(put.status);
    }
    ASSERT_EQ(0, stat("/usr/bin/env", &after));
    ASSERT_EQ(before.st_size, after.st_size);
    ASSERT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    ASSERT_EQ(before.st_nlink, after.st_nlink);
    PASS();
}

/* Files that are none, or endless. */

TEST special_and_endless_files_are_answered_in_time_and_without_memory(void)
{
    CLEANUP_REPLY struct reply made =
        shell("cd /workspace; mkfifo fifo; truncate -s 1T sparse.bin; "
              "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; true");
    static const char *const paths[] = {
        "/workspace/fifo", "/workspace/sock",      "/dev/zero", "/dev/full", "/dev/tty",
        "/proc/kmsg",      "/workspace/sparse.bin"};
    long before = emulator_memory(&emulator, "VmHWM");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        long long start = test_ms();
        CLEANUP_REPLY struct reply read = call("readFile", json_pack("[s]", paths[i]));
        ASSERTm(paths[i], read.status >= 400);
        CLEANUP_REPLY struct reply exists = call("exists", json_pack("[s]", paths[i]));
        ASSERT_EQm(paths[i], 200, exists.status);
        ASSERTm(paths[i], test_ms() - start < 5000);
    }
    ASSERT(emulator_memory(&emulator, "VmHWM") - before < 32 * 1024);
    PASS();
}

static bool is_idle(void *arg)
{
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/files");
    return number_at(shown.json, "inflight") == 0;
}

TEST a_terabyte_is_streamed_as_long_as_somebody_reads_and_no_longer(void)
{
    static const char body[] = "[\"/workspace/sparse.bin\"]";
    char head[256], piece[65536];
    long before = emulator_memory(&emulator, "VmHWM");
    int size = snprintf(head, sizeof head,
                        "POST /sandbox/files/readFileStream HTTP/1.1\r\nHost: localhost\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        sizeof body - 1, body);
    int fd = dial(&emulator);
    ASSERT_EQ(0, send_all(fd, head, (size_t)size));
    size_t got = 0;
    for (ssize_t part; got < 32 << 20 && (part = read(fd, piece, sizeof piece)) > 0;)
        got += (size_t)part;
    close(fd);
    ASSERT(got >= 32 << 20);
    ASSERTm("the call ends with its reader", eventually(is_idle, NULL, 10000));
    ASSERT(emulator_memory(&emulator, "VmHWM") - before < 16 * 1024 * MEMORY_FACTOR);
    PASS();
}

/* Names. */

TEST every_call_treats_an_odd_name_alike(void)
{
    char longest[300], over[300];
    memset(longest, 'n', sizeof longest);
    memset(over, 'n', sizeof over);
    memcpy(longest, "/workspace/", 11);
    memcpy(over, "/workspace/", 11);
    longest[11 + 255] = '\0';
    over[11 + 256] = '\0';
    struct {
        const char *path;
        const char *code;    /* NULL = it can be written and read */
        const char *removal; /* of what `rm` says */
    } rows[] = {
        {longest, NULL, NULL},
        {over, "NAME_TOO_LONG", "FILESYSTEM_ERROR"},
        {"/workspace/new\nline", NULL, NULL},
        {"/workspace/..odd", NULL, NULL},
        {"/workspace/x/../../workspace//y/./z", NULL, NULL},
        {"/workspace/../../../workspace/top", NULL, NULL},
        {"/workspace/-rf", NULL, NULL},
        {"/workspace/$(id)`id`'\"*?", NULL, NULL},
        {"/workspace/ü\xf0\x9f\x98\x80", NULL, NULL},
        {"", "VALIDATION_FAILED", "VALIDATION_FAILED"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply put =
            call("writeFile", json_pack("[s, s]", rows[i].path, "odd"));
        CLEANUP_REPLY struct reply read = call("readFile", json_pack("[s]", rows[i].path));
        CLEANUP_REPLY struct reply gone = call("deleteFile", json_pack("[s]", rows[i].path));
        if (rows[i].code) {
            ASSERT_STR_EQm(rows[i].path, rows[i].code, text_at(put.json, "code"));
            ASSERT_STR_EQm(rows[i].path, rows[i].code, text_at(read.json, "code"));
            ASSERT_STR_EQm(rows[i].path, rows[i].removal, text_at(gone.json, "code"));
        } else {
            ASSERT_EQm(rows[i].path, 200, put.status);
            ASSERT_STR_EQm(rows[i].path, "odd", text_at(read.json, "content"));
            ASSERT_EQm(rows[i].path, 200, gone.status);
        }
    }
    PASS();
}

TEST the_longest_paths_have_one_answer_each(void)
{
    /* PATH_MAX counts the NUL, so 4095 bytes are the most that the kernel takes. */
    static const struct {
        size_t size;
        int status;
        const char *code;
    } rows[] = {
        {4095, 404, "FILE_NOT_FOUND"},
        {4096, 400, "NAME_TOO_LONG"},
        {4097, 400, "VALIDATION_FAILED"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[4200];
        for (size_t c = 0; c < rows[i].size; c++)
            path[c] = c % 2 ? 'a' : '/';
        path[rows[i].size] = '\0';
        for (int again = 0; again < 3; again++) {
            CLEANUP_REPLY struct reply read = call("readFile", json_pack("[s]", path));
            ASSERT_STR_EQ(rows[i].code, text_at(read.json, "code"));
            ASSERT_EQ(rows[i].status, read.status);
        }
    }
    PASS();
}

TEST names_that_are_no_utf8_do_not_break_a_listing(void)
{
    CLEANUP_REPLY struct reply made = shell("mkdir -p /workspace/bytes && cd /workspace/bytes && "
                                            "touch good $'bad\\377name' $'tab\\tname'");
    CLEANUP_REPLY struct reply list = call("listFiles", json_pack("[s]", "/workspace/bytes"));
    ASSERT_EQm(keep(list.body), 200, list.status);
    ASSERT(list.json);
    ASSERT(strstr(list.body, "\"good\""));
    PASS();
}

TEST a_tree_of_4096_directories_can_be_listed_and_left(void)
{
    ASSERT_STR_EQ("made", output("python3 -c '\nimport os\nos.mkdir(\"/workspace/deep\")\n"
                                 "os.chdir(\"/workspace/deep\")\nfor i in range(4096):\n"
                                 " os.mkdir(\"d\")\n os.chdir(\"d\")'; echo made"));
    CLEANUP_REPLY struct reply list =
        call("listFiles", json_pack("[s, {s:b}]", "/workspace/deep", "recursive", 1));
    ASSERT_EQ(200, list.status);
    ASSERT_EQ(4096, number_at(list.json, "count"));
    ASSERT_STR_EQ("", output("rm -rf /workspace/deep"));
    PASS();
}

TEST a_directory_of_many_entries_is_whole_or_refused(void)
{
    int entries = counts_now().entries;
    char command[256];
    snprintf(command, sizeof command,
             "mkdir -p /workspace/many && cd /workspace/many && seq %d | xargs touch; echo made",
             entries);
    ASSERT_STR_EQ("made", output(command));
    CLEANUP_REPLY struct reply list = call("listFiles", json_pack("[s]", "/workspace/many"));
    if (list.status == 200)
        ASSERT_EQ(entries, number_at(list.json, "count"));
    else
        ASSERTm(keep(list.body), *text_at(list.json, "code"));
    CLEANUP_REPLY struct reply alive = get(&emulator, "/cdn-cgi/local/health");
    ASSERT_EQ(200, alive.status);
    ASSERT_STR_EQ("", output("rm -rf /workspace/many"));
    PASS();
}

/* Files that change. */

TEST a_file_that_shrinks_and_grows_while_it_is_read_keeps_the_connection_in_step(void)
{
    CLEANUP_REPLY struct reply changing =
        call("exec",
             json_pack("[s, {s:s}]",
                       "cd /workspace; (while :; do truncate -s 0 moving.bin; truncate -s 9000000 "
                       "moving.bin; truncate -s 100 moving.bin; done) >/dev/null 2>&1 & echo $!",
                       "session", "moving"));
    static const char *const bodies[] = {"[\"/workspace/moving.bin\"]", "[\"echo in step\"]"};
    static const char *const methods[] = {"readFile", "exec"};
    for (int i = 0; i < 40; i++) {
        int fd = dial(&emulator);
        for (int k = 0; k < 2; k++) {
            char head[256];
            int size = snprintf(head, sizeof head,
                                "POST /sandbox/files/%s HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: %zu\r\n\r\n%s",
                                methods[k], strlen(bodies[k]), bodies[k]);
            ASSERT_EQ(0, send_all(fd, head, (size_t)size));
            CLEANUP_REPLY struct reply reply = read_reply(fd);
            if (reply.status == 0)
                break; /* it closed instead: also in step */
            ASSERT(reply.size > 2);
            ASSERTm("an answer is whole",
                    reply.body[0] == '{' && reply.body[reply.size - 1] == '}');
            if (k == 1)
                ASSERT_STR_EQ("in step", text_at(reply.json, "stdout"));
        }
        close(fd);
    }
    char command[64];
    snprintf(command, sizeof command, "kill %s", text_at(changing.json, "stdout"));
    CLEANUP_REPLY struct reply ended = shell(command);
    PASS();
}

TEST a_shorter_text_leaves_nothing_of_the_longer(void)
{
    CLEANUP_FREE char *large = malloc(1 << 20);
    memset(large, 'L', 1 << 20);
    large[(1 << 20) - 1] = '\0';
    CLEANUP_REPLY struct reply first =
        call("writeFile", json_pack("[s, s]", "/workspace/tail.txt", large));
    CLEANUP_REPLY struct reply second =
        call("writeFile", json_pack("[s, s]", "/workspace/tail.txt", "short"));
    ASSERT_EQ(200, second.status);
    CLEANUP_REPLY struct reply read = call("readFile", json_pack("[s]", "/workspace/tail.txt"));
    ASSERT_STR_EQ("short", text_at(read.json, "content"));
    ASSERT_EQ(5, number_at(read.json, "size"));
    PASS();
}

TEST a_body_beyond_the_limit_is_refused_with_413_and_writes_nothing(void)
{
    CLEANUP_REPLY struct reply before =
        call("writeFile", json_pack("[s, s]", "/workspace/kept.txt", "kept"));
    char head[256], piece[65536];
    memset(piece, 'x', sizeof piece);
    int fd = dial(&emulator);
    int size = snprintf(head, sizeof head,
                        "POST /sandbox/files/writeFile HTTP/1.1\r\nHost: localhost\r\n"
                        "Content-Length: 2147483649\r\n\r\n[\"/workspace/kept.txt\", \"");
    ASSERT_EQ(0, send_all(fd, head, (size_t)size));
    for (int i = 0; i < 1024 && send_all(fd, piece, sizeof piece) == 0; i++)
        ;
    CLEANUP_REPLY struct reply refused = read_reply(fd);
    close(fd);
    ASSERT(refused.status == 413 || refused.status == 0);
    CLEANUP_REPLY struct reply read = call("readFile", json_pack("[s]", "/workspace/kept.txt"));
    ASSERT_STR_EQ("kept", text_at(read.json, "content"));
    PASS();
}

SUITE(abuse_files)
{
    RUN_TEST(no_kind_of_link_leads_any_call_outside);
    RUN_TEST(a_loop_of_links_is_an_error_with_a_code);
    RUN_TEST(a_directory_that_turns_into_a_link_is_never_followed_outside);
    RUN_TEST(a_hard_link_to_a_file_of_the_host_changes_only_the_sandboxs);
    RUN_TEST(special_and_endless_files_are_answered_in_time_and_without_memory);
    RUN_TEST(a_terabyte_is_streamed_as_long_as_somebody_reads_and_no_longer);
    RUN_TEST(every_call_treats_an_odd_name_alike);
    RUN_TEST(the_longest_paths_have_one_answer_each);
    RUN_TEST(names_that_are_no_utf8_do_not_break_a_listing);
    RUN_TEST(a_tree_of_4096_directories_can_be_listed_and_left);
    RUN_TEST(a_directory_of_many_entries_is_whole_or_refused);
    RUN_TEST(a_file_that_shrinks_and_grows_while_it_is_read_keeps_the_connection_in_step);
    RUN_TEST(a_shorter_text_leaves_nothing_of_the_longer);
    RUN_TEST(a_body_beyond_the_limit_is_refused_with_413_and_writes_nothing);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    if (make_canary() < 0) {
        printf("no canary below /tmp\n");
        return 1;
    }
    watch_canary();
    SYSTEM_SUITE(emulator, abuse_files);
    drop_canary();
    GREATEST_MAIN_END();
}
