/* Events as users get them: lines, streams, a file, the command, the console. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

enum { FILE_BYTES_MAX = 4 << 20, WAIT_MS = 10000 };

static struct emulator emulator;

static struct reply exec(const char *box, const char *command)
{
    char path[160], body[512];
    snprintf(path, sizeof path, "/sandbox/%s/exec", box);
    snprintf(body, sizeof body, "[\"%s\"]", command);
    return post(&emulator, path, body);
}

static long long last_seq(void)
{
    CLEANUP_REPLY struct reply all = get(&emulator, "/cdn-cgi/local/events");
    long long seq = 0;
    for (const char *at = all.body; at && *at; at += strcspn(at, "\n") + 1) {
        CLEANUP_JSON json_t *event = json_loadb(at, strcspn(at, "\n"), 0, NULL);
        seq = number_at(event, "seq");
    }
    return seq;
}

/* All of a file, NUL-terminated; NULL when there is none. */
static char *read_all(const char *path)
{
    CLEANUP_FILE FILE *file = fopen(path, "re");
    CLEANUP_BUF struct buf text = BUF_INIT(FILE_BYTES_MAX);
    char piece[4096];
    size_t size;
    while (file && (size = fread(piece, 1, sizeof piece, file)) > 0)
        buf_add(&text, piece, size);
    return file ? strdup(buf_text(&text)) : NULL;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        count++;
    return count;
}

/* Lines. */

TEST events_have_numbers_without_gaps_and_times_that_never_go_back(void)
{
    CLEANUP_REPLY struct reply a = exec("one", "true");
    ASSERT_EQ(200, a.status);
    CLEANUP_REPLY struct reply b =
        post(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"10m\"}");
    CLEANUP_REPLY struct reply c = exec("one", "true");
    CLEANUP_REPLY struct reply all = get(&emulator, "/cdn-cgi/local/events");
    ASSERT_EQ(200, all.status);
    long long seq = 0;
    char before[32] = "";
    for (const char *at = all.body; *at; at += strcspn(at, "\n") + 1) {
        CLEANUP_JSON json_t *event = json_loadb(at, strcspn(at, "\n"), 0, NULL);
        ASSERT(event);
        ASSERT_EQ(1, (int)number_at(event, "v"));
        ASSERT_EQ(++seq, number_at(event, "seq"));
        ASSERT(strcmp(before, text_at(event, "at")) <= 0);
        snprintf(before, sizeof before, "%s", text_at(event, "at"));
    }
    ASSERT(seq >= 6);
    PASS();
}

TEST events_are_chosen_by_number_sandbox_type_and_age(void)
{
    CLEANUP_REPLY struct reply a = exec("two", "true");
    CLEANUP_REPLY struct reply own = get(&emulator, "/cdn-cgi/local/events?sandbox=two");
    ASSERT(count_of(own.body, "\n") >= 3);
    ASSERT_EQ(count_of(own.body, "\n"), count_of(own.body, "\"sandbox\":\"two\""));
    CLEANUP_REPLY struct reply typed =
        get(&emulator, "/cdn-cgi/local/events?sandbox=two&type=container.");
    ASSERT_EQ(2, count_of(typed.body, "\n"));
    char path[96];
    snprintf(path, sizeof path, "/cdn-cgi/local/events?after=%lld", last_seq() - 1);
    CLEANUP_REPLY struct reply last = get(&emulator, path);
    ASSERT_EQ(1, count_of(last.body, "\n"));
    CLEANUP_REPLY struct reply none =
        get(&emulator, "/cdn-cgi/local/events?after=99999999999999999999");
    ASSERT_EQm("a number that is none", 400, none.status);
    CLEANUP_REPLY struct reply far = get(&emulator, "/cdn-cgi/local/events?after=99999999");
    ASSERT_EQ(200, far.status);
    ASSERT_STR_EQ("", far.body);
    CLEANUP_REPLY struct reply past =
        post(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"1m\"}");
    CLEANUP_REPLY struct reply young = get(&emulator, "/cdn-cgi/local/events?since=30s");
    ASSERT_STR_EQ("", young.body);
    static const char *const bad[] = {
        "after=-1", "after=x", "after=", "follow=yes", "since=soon", "since=5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(path, sizeof path, "/cdn-cgi/local/events?%s", bad[i]);
        CLEANUP_REPLY struct reply refused = get(&emulator, path);
        ASSERT_EQm(bad[i], 400, refused.status);
        ASSERT_STR_EQ("INVALID_QUERY", text_at(refused.json, "code"));
    }
    PASS();
}

/* Streams. */

static int follow(const char *query)
{
    char head[256];
    int size =
        snprintf(head, sizeof head, "GET /cdn-cgi/local/%s HTTP/1.1\r\nHost: localhost:%d\r\n\r\n",
                 query, emulator.port);
    int fd = dial(&emulator);
    if (fd >= 0 && send_all(fd, head, (size_t)size) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Reads on until the text was there; NULL when that takes too long. */
static const char *read_until(int fd, struct buf *seen, const char *text)
{
    long long until = test_ms() + WAIT_MS;
    while (!strstr(buf_text(seen), text) && test_ms() < until) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        char piece[4096];
        if (poll(&item, 1, 100) <= 0)
            continue;
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0)
            break;
        buf_add(seen, piece, (size_t)got);
    }
    return strstr(buf_text(seen), text);
}

TEST a_follower_gets_what_was_and_then_what_comes(void)
{
    CLEANUP_REPLY struct reply a = exec("three", "true");
    CLEANUP_FD int fd = follow("events?follow=1&sandbox=three&type=container.");
    CLEANUP_BUF struct buf seen = BUF_INIT(FILE_BYTES_MAX);
    ASSERT(read_until(fd, &seen, "container.healthy"));
    ASSERT(strstr(buf_text(&seen), "text/event-stream"));
    ASSERT(strstr(buf_text(&seen), "\nid: "));
    CLEANUP_REPLY struct reply stop = post(&emulator, "/cdn-cgi/local/sandboxes/three/stop", "");
    ASSERT(read_until(fd, &seen, "container.stopped"));
    ASSERT_EQm("only what was asked for", NULL, strstr(buf_text(&seen), "session."));
    PASS();
}

TEST a_follower_with_nothing_to_see_gets_its_head_at_once(void)
{
    char query[64];
    snprintf(query, sizeof query, "events?follow=1&after=%lld", last_seq());
    CLEANUP_FD int fd = follow(query);
    CLEANUP_BUF struct buf seen = BUF_INIT(FILE_BYTES_MAX);
    ASSERT(read_until(fd, &seen, "\r\n\r\n"));
    CLEANUP_REPLY struct reply a = exec("four", "true");
    ASSERT(read_until(fd, &seen, "container.starting"));
    PASS();
}

static bool files_at_most(void *arg)
{
    return emulator_files(&emulator) <= *(int *)arg;
}

TEST followers_that_leave_are_forgotten_and_too_many_are_refused(void)
{
    int before = emulator_files(&emulator), fds[256];
    for (int i = 0; i < 256; i++) {
        fds[i] = follow("events?follow=1");
        ASSERT(fds[i] >= 0);
        CLEANUP_BUF struct buf seen = BUF_INIT(FILE_BYTES_MAX);
        ASSERT(read_until(fds[i], &seen, "200 OK"));
    }
    CLEANUP_REPLY struct reply refused = get(&emulator, "/cdn-cgi/local/events?follow=1");
    ASSERT_EQ(503, refused.status);
    ASSERT_STR_EQ("TOO_MANY_FOLLOWERS", text_at(refused.json, "code"));
    for (int i = 0; i < 256; i++)
        close(fds[i]);
    ASSERT(eventually(files_at_most, &before, WAIT_MS));
    CLEANUP_FD int fd = follow("events?follow=1");
    CLEANUP_BUF struct buf seen = BUF_INIT(FILE_BYTES_MAX);
    ASSERT(read_until(fd, &seen, "200 OK"));
    PASS();
}

TEST a_follower_that_reads_late_stops_nobody_and_catches_up(void)
{
    CLEANUP_FD int fd = follow("events?follow=1");
    for (int i = 0; i < 200; i++) {
        CLEANUP_REPLY struct reply on = post(&emulator, "/sandbox/flip/setKeepAlive", "[true]");
        CLEANUP_REPLY struct reply off = post(&emulator, "/sandbox/flip/setKeepAlive", "[false]");
        ASSERT_EQ(200, off.status);
    }
    CLEANUP_BUF struct buf seen = BUF_INIT(FILE_BYTES_MAX);
    char last[64];
    snprintf(last, sizeof last, "\"seq\":%lld,", last_seq());
    ASSERTm("it can still catch up", read_until(fd, &seen, last));
    PASS();
}

/* The command. */

static int sandpit(char **out, char **errors, const char *a, const char *b, const char *c,
                   const char *d)
{
    const char *const argv[] = {SANDPIT_BINARY, a, b, c, d, NULL};
    return run_command(&emulator, argv, out, errors);
}

TEST the_command_prints_readable_lines_or_json(void)
{
    CLEANUP_REPLY struct reply a = exec("five", "true");
    CLEANUP_FREE char *out = NULL, *json = NULL, *errors = NULL, *wrong = NULL;
    ASSERT_EQ(0, sandpit(&out, NULL, "events", "--sandbox=five", NULL, NULL));
    ASSERT(strstr(out, "  five "));
    ASSERT(strstr(out, "container.starting"));
    ASSERT_EQm("no colours in a pipe", NULL, strchr(out, '\x1b'));
    ASSERT_EQ(0, sandpit(&json, NULL, "events", "--json", "--sandbox=five", "--type=container."));
    ASSERT_EQ(2, count_of(json, "{\"v\":1,"));
    ASSERT_EQ(2, sandpit(NULL, &wrong, "events", "--after=x", NULL, NULL));
    ASSERT_EQ(1, sandpit(NULL, &errors, "events", "--since=x", NULL, NULL));
    ASSERT(strstr(errors, "duration"));
    PASS();
}

TEST the_command_follows_until_the_emulator_ends(void)
{
    struct emulator other = {0};
    ASSERT_EQ(0, emulator_start(&other, NULL));
    CLEANUP_REPLY struct reply used = post(&other, "/sandbox/x/exec", "[\"true\"]");
    char script[512]; /* the emulator ends once the follower has shown that it follows */
    snprintf(script, sizeof script,
             "%s events -f --port %d --json | while read -r line; do echo \"$line\"; "
             "case $line in *container.healthy*) kill -TERM %d;; esac; done",
             SANDPIT_BINARY, other.port, other.pid);
    const char *const argv[] = {"sh", "-c", script, NULL};
    CLEANUP_FREE char *out = NULL;
    run_command(&other, argv, &out, NULL);
    ASSERTm(keep(out), strstr(out, "container.starting"));
    ASSERTm(keep(out), strstr(out, "container.destroyed"));
    emulator_stop(&other);
    emulator_clean(&other);
    PASS();
}

/* The file. */

TEST the_events_file_holds_every_event_as_it_was(void)
{
    struct emulator other = {0};
    char option[160], path[128];
    snprintf(other.dir, sizeof other.dir, "/tmp/sandpit-test-XXXXXX");
    ASSERT(mkdtemp(other.dir));
    snprintf(path, sizeof path, "%s/events.ndjson", other.dir);
    snprintf(option, sizeof option, "--events-file=%s", path);
    const char *const extra[] = {option, NULL};
    ASSERT_EQ(0, emulator_start(&other, extra));
    CLEANUP_REPLY struct reply a = post(&other, "/sandbox/f/exec", "[\"true\"]");
    ASSERT_EQ(200, a.status);
    CLEANUP_REPLY struct reply all = get(&other, "/cdn-cgi/local/events");
    CLEANUP_FREE char *file = read_all(path);
    ASSERT(file);
    ASSERT_STR_EQ(all.body, file);
    emulator_stop(&other);
    CLEANUP_FREE char *after = read_all(path);
    ASSERTm("the end is in it too", strstr(after, "container.destroyed"));
    emulator_clean(&other);
    PASS();
}

TEST a_full_disk_turns_the_events_file_off_with_one_warning(void)
{
    struct emulator other = {0};
    static const char *const extra[] = {"--events-file=/dev/full", NULL};
    ASSERT_EQ(0, emulator_start(&other, extra));
    for (int i = 0; i < 3; i++) {
        CLEANUP_REPLY struct reply a = post(&other, "/sandbox/f/exec", "[\"true\"]");
        ASSERT_EQ(200, a.status);
        CLEANUP_REPLY struct reply b = post(&other, "/sandbox/f/stop", "[]");
    }
    CLEANUP_FREE char *log = read_all(other.log);
    ASSERT_EQ(1, count_of(log, "no more events go to '/dev/full'"));
    ASSERT_EQ(0, emulator_stop(&other));
    emulator_clean(&other);
    static const char *const nowhere[] = {"--events-file=/nonexistent/dir/file", NULL};
    struct emulator third = {0};
    ASSERTm("a file that cannot be opened is an error", emulator_start(&third, nowhere) < 0);
    emulator_clean(&third);
    PASS();
}

/* The console. */

TEST the_console_names_the_sandbox_and_colours_it_only_when_asked(void)
{
    struct emulator other = {0};
    static const char *const extra[] = {"--log-level=info", NULL};
    ASSERT_EQ(0, emulator_start(&other, extra));
    CLEANUP_REPLY struct reply a = post(&other, "/sandbox/red/exec", "[\"true\"]");
    CLEANUP_REPLY struct reply b =
        post(&other, "/cdn-cgi/local/clock/advance", "{\"by\": \"10m\"}");
    ASSERT_EQm(keep(a.body), 200, a.status);
    ASSERT_EQm(keep(b.body), 200, b.status);
    emulator_stop(&other);
    CLEANUP_FREE char *log = read_all(other.log);
    ASSERTm(keep(log), strstr(log, "[red] started for execute"));
    ASSERTm(keep(log), strstr(log, "[red] slept: idle for 10m after execute"));
    ASSERTm(keep(log), strstr(log, "POST /sandbox/red/exec 200 OK ("));
    ASSERT_EQ(NULL, strchr(log, '\x1b'));
    setenv("FORCE_COLOR", "1", 1);
    int started = emulator_restart(&other, extra);
    unsetenv("FORCE_COLOR");
    ASSERT_EQ(0, started);
    CLEANUP_REPLY struct reply c = post(&other, "/sandbox/red/exec", "[\"true\"]");
    CLEANUP_REPLY struct reply d = post(&other, "/sandbox/red/stop", "[]");
    ASSERT_EQm(keep(c.body), 200, c.status);
    ASSERT_EQm(keep(d.body), 200, d.status);
    emulator_stop(&other);
    CLEANUP_FREE char *coloured = read_all(other.log);
    const char *first = strstr(coloured, "[red]\x1b[0m started");
    const char *second = strstr(coloured, "[red]\x1b[0m stopped");
    ASSERTm(keep(coloured), first && second);
    ASSERTm("always the same colour", strncmp(first - 5, second - 5, 5) == 0 && first[-1] == 'm');
    emulator_clean(&other);
    PASS();
}

/* The table of types. */

TEST the_page_has_the_table_that_the_program_prints(void)
{
    CLEANUP_FREE char *out = NULL, *page = read_all(SANDPIT_SOURCE "/docs/events.md");
    ASSERT_EQ(0, sandpit(&out, NULL, "events", "--types", NULL, NULL));
    ASSERT(page);
    ASSERTm("sandpit events --types", strstr(page, out));
    PASS();
}

/* Every type that a file says: the first text with a dot after the name of a function that notes.
 */
static int check_types(const char *source, const char *page, char *missing, size_t size)
{
    static const char *const functions[] = {"object_note(", "container_note(", "events_add("};
    int count = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        for (const char *at = source; (at = strstr(at, functions[i])); at++) {
            const char *end = strchr(at, ';'), *quote = at;
            while ((quote = strchr(quote, '"')) && quote < end) {
                static const char letters[] =
                    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.";
                size_t length = strspn(quote + 1, letters);
                char row[96];
                snprintf(row, sizeof row, "| `%.*s` |", (int)length, quote + 1);
                if (quote[length + 1] == '"' && memchr(quote + 1, '.', length)) {
                    count++;
                    if (!*missing && !strstr(page, row))
                        snprintf(missing, size, "docs/events.md has no row %s", row);
                }
                quote = strchr(quote + 1, '"');
                quote = quote ? quote + 1 : end;
            }
        }
    }
    return count;
}

TEST every_type_that_a_source_file_says_is_in_the_table(void)
{
    static const char *const folders[] = {"objects", "container", "worker", "control"};
    static char missing[160];
    CLEANUP_FREE char *page = read_all(SANDPIT_SOURCE "/docs/events.md");
    int count = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[512];
        snprintf(path, sizeof path, SANDPIT_SOURCE "/emulator/%s", folders[i]);
        CLEANUP_DIR DIR *dir = opendir(path);
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            size_t length = strlen(entry->d_name);
            if (length < 3 || strcmp(entry->d_name + length - 2, ".c") != 0)
                continue;
            snprintf(path, sizeof path, SANDPIT_SOURCE "/emulator/%s/%s", folders[i],
                     entry->d_name);
            CLEANUP_FREE char *source = read_all(path);
            count += source ? check_types(source, page, missing, sizeof missing) : 0;
        }
    }
    ASSERTm(missing, !*missing);
    ASSERTm("hardly any types were found: has their form changed?", count > 15);
    PASS();
}

SUITE(events_suite)
{
    RUN_TEST(events_have_numbers_without_gaps_and_times_that_never_go_back);
    RUN_TEST(events_are_chosen_by_number_sandbox_type_and_age);
    RUN_TEST(a_follower_gets_what_was_and_then_what_comes);
    RUN_TEST(a_follower_with_nothing_to_see_gets_its_head_at_once);
    RUN_TEST(followers_that_leave_are_forgotten_and_too_many_are_refused);
    RUN_TEST(a_follower_that_reads_late_stops_nobody_and_catches_up);
    RUN_TEST(the_command_prints_readable_lines_or_json);
    RUN_TEST(the_command_follows_until_the_emulator_ends);
    RUN_TEST(the_events_file_holds_every_event_as_it_was);
    RUN_TEST(a_full_disk_turns_the_events_file_off_with_one_warning);
    RUN_TEST(the_console_names_the_sandbox_and_colours_it_only_when_asked);
    RUN_TEST(the_page_has_the_table_that_the_program_prints);
    RUN_TEST(every_type_that_a_source_file_says_is_in_the_table);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, events_suite);
    GREATEST_MAIN_END();
}
