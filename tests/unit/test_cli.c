#include "greatest.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/quote.h"
#include "cli/client.h"
#include "cli/locator.h"
#include "cli/options.h"
#include "cli/text.h"

static char scratch[] = "/tmp/sandpit-cli-XXXXXX";

/* Options. */

struct parsed {
    bool flag, on;
    const char *text, *mode;
    long number;
    struct opt_list list;
    struct opt_rest rest;
    int code;
    char *argv[32];
};

/* Splits the line at spaces and parses it; messages go nowhere. */
static void parse(struct parsed *to, const char *line, bool rest)
{
    static char copy[512];
    *to = (struct parsed){.on = true};
    const struct opt rows[] = {
        OPT_FLAG("flag", 'f', &to->flag, "a flag"),
        OPT_FLAG("on", 0, &to->on, "a flag that is on"),
        OPT_TEXT("text", 't', &to->text, "T", "a text"),
        OPT_CHOICE("mode", 0, &to->mode, "on|off", "one of two"),
        OPT_NUMBER("number", 'n', &to->number, 0, 100, "N", "a number"),
        OPT_LIST("item", 'i', &to->list, "I", "several"),
        OPT_END,
    };
    const struct opt_command command = {.synopsis = "sandpit try",
                                        .about = "Tries.",
                                        .rows = rows,
                                        .more = opt_wrangler,
                                        .max = rest ? 1 : 2,
                                        .rest = rest};
    snprintf(copy, sizeof copy, "try %s", line);
    int argc = 0;
    for (char *at = copy, *word; (word = strsep(&at, " "));) {
        if (*word)
            to->argv[argc++] = word;
    }
    fflush(stderr);
    fflush(stdout);
    int saved[] = {dup(1), dup(2)};
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nothing, 1);
    dup2(nothing, 2);
    to->code = opt_parse(&command, argc, to->argv, &to->rest);
    fflush(stdout);
    dup2(saved[0], 1);
    dup2(saved[1], 2);
    close(saved[0]);
    close(saved[1]);
    close(nothing);
}

TEST options_are_read_in_every_spelling(void)
{
    struct parsed got;
    parse(&got, "a --flag --no-on --text=x --number 7 -i1 -i 2 --item=3 --mode off b", false);
    ASSERT_EQ(OPT_GO, got.code);
    ASSERT(got.flag);
    ASSERT_FALSE(got.on);
    ASSERT_STR_EQ("x", got.text);
    ASSERT_STR_EQ("off", got.mode);
    ASSERT_EQ(7, got.number);
    ASSERT_EQ(3, got.list.count);
    ASSERT_STR_EQ("3", got.list.items[2]);
    ASSERT_EQ(2, got.rest.argument_count);
    ASSERT_STR_EQ("b", got.rest.arguments[1]);
    parse(&got, "-ft value --on=false -- --flag", false);
    ASSERT_EQ(OPT_GO, got.code);
    ASSERT(got.flag);
    ASSERT_FALSE(got.on);
    ASSERT_STR_EQ("value", got.text);
    ASSERT_STR_EQ("--flag", got.rest.arguments[0]);
    parse(&got, "--text= --flag=true -", false);
    ASSERT_EQ(OPT_GO, got.code);
    ASSERT_STR_EQ("", got.text);
    ASSERT_STR_EQ("-", got.rest.arguments[0]);
    PASS();
}

TEST the_rest_of_a_command_line_is_left_alone(void)
{
    struct parsed got;
    parse(&got, "-f box ls -la --flag", true);
    ASSERT_EQ(OPT_GO, got.code);
    ASSERT_EQ(1, got.rest.argument_count);
    ASSERT_STR_EQ("box", got.rest.arguments[0]);
    ASSERT_EQ(3, got.rest.rest_count);
    ASSERT_STR_EQ("-la", got.rest.rest[1]);
    parse(&got, "box -f -- -x -- y", true);
    ASSERT_EQ(OPT_GO, got.code);
    ASSERT(got.flag);
    ASSERT_EQ(3, got.rest.rest_count);
    ASSERT_STR_EQ("--", got.rest.rest[1]);
    parse(&got, "box", true);
    ASSERT_EQ(0, got.rest.rest_count);
    PASS();
}

TEST wrong_options_exit_with_2_and_help_with_0(void)
{
    static const char *const wrong[] = {
        "--nothing", "--number",      "--number x",   "--number=101", "--number=-1",
        "--number=", "--mode on|off", "--mode=",      "--flag=maybe", "-x",
        "--no-text", "a b c",         "--no-nothing",
    };
    struct parsed got;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        parse(&got, wrong[i], false);
        ASSERT_EQm(wrong[i], 2, got.code);
    }
    parse(&got, "--help", false);
    ASSERT_EQ(0, got.code);
    parse(&got, "-h", false);
    ASSERT_EQ(0, got.code);
    PASS();
}

TEST wranglers_flags_are_taken_and_ignored(void)
{
    struct parsed got;
    parse(&got, "--minify --inspector-port 9229 -e staging --no-bundle --var A:b dir", false);
    ASSERT_EQ(OPT_GO, got.code);
    ASSERT_EQ(1, got.rest.argument_count);
    ASSERT_STR_EQ("dir", got.rest.arguments[0]);
    PASS();
}

/* Text. */

TEST words_are_quoted_for_a_shell(void)
{
    static const struct {
        const char *word, *quoted;
    } rows[] = {
        {"ls", "ls"},     {"-la", "-la"},     {"/a/b.c", "/a/b.c"},   {"", "''"},
        {"a b", "'a b'"}, {"$(x)", "'$(x)'"}, {"it's", "'it'\\''s'"}, {"a\nb", "'a\nb'"},
        {"~", "'~'"},     {"a=b", "'a=b'"},   {"\"", "'\"'"},         {"h\xC3\xA9", "'h\xC3\xA9'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_BUF struct buf to = BUF_INIT(100);
        ASSERT_EQ(0, quote_word(&to, rows[i].word));
        ASSERT_STR_EQ(rows[i].quoted, buf_text(&to));
    }
    CLEANUP_BUF struct buf all = BUF_INIT(100);
    ASSERT_EQ(0, text_quote_all(&all, (char *[]){"echo", "a b", "c"}, 3));
    ASSERT_STR_EQ("echo 'a b' c", buf_text(&all));
    PASS();
}

TEST durations_read_well(void)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {{-5, "0ms"},        {850, "850ms"},     {42500, "42s"},      {60000, "1m"},
                {598000, "9m 58s"}, {7500000, "2h 5m"}, {273600000, "3d 4h"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        text_duration(rows[i].ms, text);
        ASSERT_STR_EQ(rows[i].text, text);
    }
    PASS();
}

/* The locator. */

static void scratch_path(char to[PATH_MAX], const char *name)
{
    snprintf(to, PATH_MAX, "%s/%s", scratch, name);
}

static bool exists(const char *name)
{
    char path[PATH_MAX];
    struct stat status;
    scratch_path(path, name);
    return lstat(path, &status) == 0;
}

static void put(const char *name, const char *text)
{
    char path[PATH_MAX];
    scratch_path(path, name);
    CLEANUP_FILE FILE *file = fopen(path, "we");
    if (file)
        fputs(text, file);
}

static int write_entry(int port, const char *project)
{
    struct locator_entry entry = {.port = port};
    struct error err = {0};
    snprintf(entry.url, sizeof entry.url, "http://localhost:%d", port);
    snprintf(entry.project, sizeof entry.project, "%s", project);
    snprintf(entry.token, sizeof entry.token, "secret");
    return locator_write(&entry, &err);
}

TEST an_emulator_is_found_by_its_locator(void)
{
    struct error err = {0};
    struct locator_entry found;
    ASSERT_EQ(-ENOENT, locator_find(NULL, 0, &found, &err));
    ASSERT_EQ(0, write_entry(8787, scratch));
    ASSERT_EQm(err.text, 0, locator_find(NULL, 0, &found, &err));
    ASSERT_EQ(8787, found.port);
    ASSERT_EQ(getpid(), found.pid);
    ASSERT_STR_EQ("http://localhost:8787", found.url);
    ASSERT_STR_EQ("secret", found.token);
    ASSERT_EQ(0, locator_find(scratch, 0, &found, &err));
    ASSERT_EQ(0, locator_find(NULL, 8787, &found, &err));
    ASSERT_EQ(-ENOENT, locator_find(NULL, 8788, &found, &err));
    ASSERT_EQ(-ENOENT, locator_find("/", 0, &found, &err));
    locator_remove();
    ASSERT_EQ(-ENOENT, locator_find(NULL, 0, &found, &err));
    PASS();
}

TEST stale_entries_are_skipped_and_deleted(void)
{
    struct error err = {0};
    struct locator_entry found;
    char text[128], name[64];
    locator_find(NULL, 0, &found, &err);
    snprintf(name, sizeof name, "sandpit/%d.json", getppid());
    snprintf(text, sizeof text, "{\"pid\": %d, \"startTime\": 1, \"port\": 1}", getppid());
    put(name, text);
    put("sandpit/999999999.json", "{\"pid\": 999999999, \"startTime\": 1, \"port\": 1}");
    put("sandpit/999999998.json", "no JSON");
    put("sandpit/notes.txt", "not ours");
    ASSERT_EQ(-ENOENT, locator_find(NULL, 0, &found, &err));
    ASSERT_FALSE(exists(name));
    ASSERT_FALSE(exists("sandpit/999999999.json"));
    ASSERT_FALSE(exists("sandpit/999999998.json"));
    ASSERT(exists("sandpit/notes.txt"));
    PASS();
}

/* Another process with an entry, alive until its pipe closes. */
static pid_t start_other(int port, const char *project, int *hold)
{
    int told[2], held[2];
    if (pipe2(told, O_CLOEXEC) < 0 || pipe2(held, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    char byte = 0;
    if (pid == 0) {
        close(held[1]);
        write_entry(port, project);
        if (write(told[1], &byte, 1) == 1 && read(held[0], &byte, 1) >= 0)
            _exit(0);
        _exit(1);
    }
    close(held[0]);
    close(told[1]);
    if (read(told[0], &byte, 1) != 1)
        pid = -1;
    close(told[0]);
    *hold = held[1];
    return pid;
}

TEST several_emulators_are_told_apart_by_the_current_directory(void)
{
    struct error err = {0};
    struct locator_entry found;
    int hold = -1;
    char here[PATH_MAX], inner[PATH_MAX];
    ASSERT(getcwd(here, sizeof here));
    scratch_path(inner, "project");
    mkdir(inner, 0700);
    ASSERT_EQ(0, write_entry(8787, "/nowhere"));
    pid_t pid = start_other(8788, inner, &hold);
    ASSERT(pid > 0);
    int without = locator_find(NULL, 0, &found, &err);
    int changed = chdir(inner);
    int within = locator_find(NULL, 0, &found, NULL);
    int back = chdir(here);
    close(hold);
    waitpid(pid, NULL, 0);
    locator_remove();
    rmdir(inner);
    ASSERT_EQ(0, changed | back);
    ASSERT_EQ(-EEXIST, without);
    ASSERT(strstr(err.text, "--port 8787") && strstr(err.text, "--port 8788"));
    ASSERT_EQ(0, within);
    ASSERT_EQ(8788, found.port);
    PASS();
}

TEST an_unsafe_directory_is_refused(void)
{
    struct error err = {0};
    char path[PATH_MAX], moved[PATH_MAX];
    ASSERT_EQ(0, locator_dir(path, &err));
    chmod(path, 0755);
    ASSERT_EQ(-EPERM, locator_dir(path, &err));
    chmod(path, 0700);
    ASSERT_EQ(0, locator_dir(path, &err));
    scratch_path(moved, "moved");
    ASSERT_EQ(0, rename(path, moved));
    ASSERT_EQ(0, symlink(moved, path));
    int linked = locator_dir(path, &err);
    unlink(path);
    ASSERT_EQ(0, rename(moved, path));
    ASSERT_EQ(-EPERM, linked);
    if (geteuid() == 0) {
        ASSERT_EQ(0, chown(path, 12345, 12345));
        int foreign = locator_dir(path, &err);
        ASSERT_EQ(0, chown(path, 0, 0));
        ASSERT_EQ(-EPERM, foreign);
    }
    PASS();
}

TEST run_directories_of_dead_processes_are_removed(void)
{
    struct error err = {0};
    char path[PATH_MAX], stale[PATH_MAX], target[PATH_MAX];
    ASSERT_EQ(0, locator_dir(path, &err));
    scratch_path(stale, "sandpit/run-999999999-5");
    mkdir(stale, 0700);
    scratch_path(stale, "sandpit/run-999999999-5/deep");
    mkdir(stale, 0500);
    put("kept", "x");
    scratch_path(target, "kept");
    scratch_path(stale, "sandpit/run-999999999-5/link");
    ASSERT_EQ(0, symlink(target, stale));
    scratch_path(stale, "sandpit/run-999999999-5/out");
    ASSERT_EQ(0, symlink(scratch, stale));
    ASSERT_EQm(err.text, 0, locator_run_dir(path, sizeof path, &err));
    struct stat status;
    ASSERT_EQ(0, stat(path, &status));
    ASSERT_EQ(0700, status.st_mode & 0777);
    ASSERT_FALSE(exists("sandpit/run-999999999-5"));
    ASSERT(exists("kept"));
    locator_remove();
    ASSERT(stat(path, &status) < 0);
    PASS();
}

/* The client. */

TEST urls_are_checked(void)
{
    struct client client;
    ASSERT_EQ(0, client_parse_url("http://localhost:8787", &client, NULL));
    ASSERT_STR_EQ("localhost", client.host);
    ASSERT_EQ(8787, client.port);
    ASSERT_EQ(0, client_parse_url("http://[::1]:99/", &client, NULL));
    ASSERT_STR_EQ("[::1]", client.host);
    ASSERT_EQ(0, client_parse_url("http://127.0.0.1", &client, NULL));
    ASSERT_EQ(80, client.port);
    static const char *const wrong[] = {"localhost:1", "https://localhost", "http://",
                                        "http://x:0",  "http://x:70000",    "http://x:1/path",
                                        "http://x:-1", "http://[::1",       "http://x:1#frag"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ASSERT_EQm(wrong[i], -EINVAL, client_parse_url(wrong[i], &client, NULL));
    PASS();
}

static int listen_loopback(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 4) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return -1;
    *port = ntohs(address.sin_port);
    return fd;
}

/* Answers one request with these bytes, in a process of its own. */
static pid_t serve_once(int fd, const char *bytes)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    char request[4096];
    ssize_t got = recv(peer, request, sizeof request, 0);
    ssize_t sent = got > 0 ? send(peer, bytes, strlen(bytes), MSG_NOSIGNAL) : -1;
    shutdown(peer, SHUT_WR);
    _exit(sent > 0 ? 0 : 1);
}

TEST answers_are_read_whole_or_refused(void)
{
    static const struct {
        const char *bytes, *body;
        int result;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "{}", 0},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n",
         "{}", 0},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n[]", "[]",
         0},
        {"HTTP/1.1 200 OK\r\n\r\n[1]", "[1]", 0},
        {"HTTP/1.1 204 No Content\r\n\r\n", "", 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", NULL, -EPROTO},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", NULL, -EPROTO},
        {"SSH-2.0-x\r\n", NULL, -EPROTO},
        {"HTTP/1.1 200 OK\r\nConte", NULL, -EPROTO},
    };
    struct client client = {.host = "127.0.0.1"};
    CLEANUP_FD int fd = listen_loopback(&client.port);
    ASSERT(fd >= 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err = {0};
        CLEANUP_ANSWER struct client_answer answer = {0};
        pid_t pid = serve_once(fd, rows[i].bytes);
        int result = client_request(&client, "GET", "/", NULL, 10000, &answer, &err);
        waitpid(pid, NULL, 0);
        ASSERT_EQm(rows[i].bytes, rows[i].result, result);
        if (rows[i].body)
            ASSERT_STR_EQm(rows[i].bytes, rows[i].body, buf_text(&answer.body));
    }
    PASS();
}

TEST a_silent_server_runs_into_the_deadline_and_a_closed_port_is_named(void)
{
    struct error err = {0};
    struct client client = {.host = "localhost"};
    int fd = listen_loopback(&client.port);
    ASSERT(fd >= 0);
    CLEANUP_ANSWER struct client_answer answer = {0};
    ASSERT_EQ(-ETIMEDOUT, client_request(&client, "GET", "/", NULL, 20, &answer, &err));
    close(fd);
    ASSERT_EQ(-ECONNREFUSED, client_request(&client, "GET", "/", NULL, 20, &answer, &err));
    ASSERT(strstr(err.text, "no sandpit is running"));
    PASS();
}

SUITE(cli)
{
    RUN_TEST(options_are_read_in_every_spelling);
    RUN_TEST(the_rest_of_a_command_line_is_left_alone);
    RUN_TEST(wrong_options_exit_with_2_and_help_with_0);
    RUN_TEST(wranglers_flags_are_taken_and_ignored);
    RUN_TEST(words_are_quoted_for_a_shell);
    RUN_TEST(durations_read_well);
    RUN_TEST(an_emulator_is_found_by_its_locator);
    RUN_TEST(stale_entries_are_skipped_and_deleted);
    RUN_TEST(several_emulators_are_told_apart_by_the_current_directory);
    RUN_TEST(an_unsafe_directory_is_refused);
    RUN_TEST(run_directories_of_dead_processes_are_removed);
    RUN_TEST(urls_are_checked);
    RUN_TEST(answers_are_read_whole_or_refused);
    RUN_TEST(a_silent_server_runs_into_the_deadline_and_a_closed_port_is_named);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    if (!mkdtemp(scratch) || setenv("XDG_RUNTIME_DIR", scratch, 1) < 0)
        return 1;
    unsetenv("SANDPIT_URL");
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(cli);
    CLEANUP_FD int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    locator_remove_tree(tmp, strrchr(scratch, '/') + 1);
    GREATEST_MAIN_END();
}
