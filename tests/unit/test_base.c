/* The small parts everything stands on: errors, buffers, random, log, journal. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/journal.h"
#include "base/log.h"
#include "base/random.h"
#include "greatest.h"

/* ---- error ---- */

TEST an_error_gains_context_on_the_way_up(void)
{
    struct error err = {0};
    ASSERT_EQ(-ENOENT, error_errno(&err, ENOENT, "open '%s'", "/x"));
    ASSERT_EQ(-ENOENT, error_wrap(&err, "start sandbox '%s'", "a"));
    ASSERT_EQ(ENOENT, err.code);
    ASSERT_STR_EQ("start sandbox 'a': open '/x': No such file or directory", err.text);
    PASS();
}

TEST an_error_may_be_of_no_interest(void)
{
    ASSERT_EQ(-EINVAL, error_set(NULL, EINVAL, "bad %d", 1));
    ASSERT_EQ(-EIO, error_errno(NULL, EIO, "read"));
    ASSERT_LT(error_wrap(NULL, "outer"), 0);
    PASS();
}

TEST an_error_text_is_cut_not_overrun(void)
{
    struct error err = {0};
    char large[2000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    ASSERT_EQ(-EIO, error_errno(&err, EIO, "%s", large));
    ASSERT_EQ(sizeof err.text - 1, strlen(err.text));
    ASSERT_EQ(-EIO, error_wrap(&err, "%s", large));
    ASSERT_EQ(sizeof err.text - 1, strlen(err.text));
    PASS();
}

SUITE(errors)
{
    RUN_TEST(an_error_gains_context_on_the_way_up);
    RUN_TEST(an_error_may_be_of_no_interest);
    RUN_TEST(an_error_text_is_cut_not_overrun);
}

/* ---- buf ---- */

TEST a_buffer_ends_in_nul_and_grows(void)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(10000);
    ASSERT_STR_EQ("", buf_text(&buf));
    for (int i = 0; i < 1000; i++)
        ASSERT_EQ(0, buf_addf(&buf, "%03d,", i));
    ASSERT_EQ(4000u, buf.size);
    ASSERT_EQ('\0', buf.data[buf.size]);
    ASSERT_STRN_EQ("000,001,", buf.data, 8);
    ASSERT_STR_EQ("999,", buf.data + 3996);
    PASS();
}

TEST a_buffer_keeps_its_maximum_exactly(void)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(100);
    for (int i = 0; i < 100; i++)
        ASSERT_EQ(0, buf_addc(&buf, 'x'));
    ASSERT_EQ(-EMSGSIZE, buf_addc(&buf, 'x'));
    ASSERT_EQ(-EMSGSIZE, buf_adds(&buf, "more"));
    ASSERT_EQ(-EMSGSIZE, buf_addf(&buf, "%d", 1));
    ASSERT_EQ(100u, buf.size);
    ASSERT_EQ(-EMSGSIZE, buf_add(&buf, NULL, 0)); /* nothing more after an error */
    PASS();
}

TEST a_huge_reservation_is_refused(void)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(100);
    int error = 0;
    ASSERT_EQ(0, buf_adds(&buf, "abc"));
    ASSERT_EQ(NULL, buf_reserve(&buf, SIZE_MAX, &error));
    ASSERT_EQ(-EMSGSIZE, error);
    ASSERT_EQ(NULL, buf_reserve(&buf, 98, NULL));
    ASSERT_STR_EQ("abc", buf_text(&buf));
    PASS();
}

TEST dropping_and_clearing_keep_the_nul(void)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(100);
    ASSERT_EQ(0, buf_adds(&buf, "hello world"));
    buf_drop(&buf, 6);
    ASSERT_STR_EQ("world", buf_text(&buf));
    buf_drop(&buf, 100);
    ASSERT_STR_EQ("", buf_text(&buf));
    ASSERT_EQ(0, buf_adds(&buf, "again"));
    buf_clear(&buf);
    ASSERT_EQ(0u, buf.size);
    ASSERT_STR_EQ("", buf_text(&buf));
    PASS();
}

TEST stealing_leaves_an_empty_buffer(void)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(100);
    ASSERT_EQ(0, buf_adds(&buf, "mine"));
    CLEANUP_FREE char *text = buf_steal(&buf);
    ASSERT_STR_EQ("mine", text);
    ASSERT_EQ(0u, buf.size);
    ASSERT_EQ(0, buf_adds(&buf, "new"));
    ASSERT_STR_EQ("mine", text);
    buf_free(&buf);
    CLEANUP_FREE char *none = buf_steal(&buf);
    ASSERT_STR_EQ("", none);
    PASS();
}

SUITE(buffers)
{
    RUN_TEST(a_buffer_ends_in_nul_and_grows);
    RUN_TEST(a_buffer_keeps_its_maximum_exactly);
    RUN_TEST(a_huge_reservation_is_refused);
    RUN_TEST(dropping_and_clearing_keep_the_nul);
    RUN_TEST(stealing_leaves_an_empty_buffer);
}

/* ---- random ---- */

static const char BASE36[] = "0123456789abcdefghijklmnopqrstuvwxyz";

/* Runs first: nothing takes a seed back. */
TEST without_a_seed_nothing_repeats(void)
{
    unsigned char a[300] = {0}, b[300] = {0};
    random_bytes(a, sizeof a);
    random_bytes(b, sizeof b);
    ASSERT(memcmp(a, b, sizeof a) != 0);
    ASSERT(memcmp(a + 256, b + 256, 44) != 0);
    char one[37], two[37];
    random_uuid(one);
    random_uuid(two);
    ASSERT(strcmp(one, two) != 0);
    PASS();
}

TEST a_seed_repeats_bytes_texts_and_uuids(void)
{
    unsigned char bytes[2][33];
    char texts[2][21], uuids[2][37];
    for (int i = 0; i < 2; i++) {
        random_seed(42);
        random_bytes(bytes[i], 33);
        random_text(texts[i], 20, BASE36);
        random_uuid(uuids[i]);
    }
    ASSERT_MEM_EQ(bytes[0], bytes[1], 33);
    ASSERT_STR_EQ(texts[0], texts[1]);
    ASSERT_STR_EQ(uuids[0], uuids[1]);
    random_seed(43);
    random_bytes(bytes[1], 33);
    ASSERT(memcmp(bytes[0], bytes[1], 33) != 0);
    PASS();
}

/* Recorded runs are replayed by later versions, on other machines. */
TEST a_seed_means_the_same_everywhere(void)
{
    unsigned char bytes[8];
    random_seed(0);
    random_bytes(bytes, sizeof bytes);
    ASSERT_MEM_EQ("\xb4\xf2\x75\xcb\x36\x5f\xec\x99", bytes, 8);
    PASS();
}

TEST a_text_has_its_length_and_alphabet(void)
{
    char text[65];
    for (size_t length = 0; length <= 64; length++) {
        random_text(text, length, BASE36);
        ASSERT_EQ(length, strlen(text));
        ASSERT_EQ(length, strspn(text, BASE36));
    }
    random_text(text, 5, "z");
    ASSERT_STR_EQ("zzzzz", text);
    random_text(text, 5, "");
    ASSERT_STR_EQ("", text);
    PASS();
}

TEST every_letter_is_equally_likely(void)
{
    static char text[36 * 10000 + 1];
    int counts[256] = {0};
    random_seed(7);
    random_text(text, sizeof text - 1, BASE36);
    for (const char *at = text; *at; at++)
        counts[(unsigned char)*at]++;
    /* Five standard deviations; a plain modulo would give the first four letters 14 % more. */
    for (const char *at = BASE36; *at; at++)
        ASSERT_IN_RANGE(10000, counts[(unsigned char)*at], 500);
    PASS();
}

TEST a_uuid_is_version_4(void)
{
    char uuid[37];
    for (int i = 0; i < 200; i++) {
        random_uuid(uuid);
        ASSERT_EQ(36u, strlen(uuid));
        ASSERT_EQ(36u, strspn(uuid, "0123456789abcdef-"));
        ASSERT(uuid[8] == '-' && uuid[13] == '-' && uuid[18] == '-' && uuid[23] == '-');
        ASSERT_EQ('4', uuid[14]);
        ASSERT(strchr("89ab", uuid[19]));
    }
    PASS();
}

SUITE(randoms)
{
    RUN_TEST(without_a_seed_nothing_repeats);
    RUN_TEST(a_seed_repeats_bytes_texts_and_uuids);
    RUN_TEST(a_seed_means_the_same_everywhere);
    RUN_TEST(a_text_has_its_length_and_alphabet);
    RUN_TEST(every_letter_is_equally_likely);
    RUN_TEST(a_uuid_is_version_4);
}

/* ---- log ---- */

/* While a log test runs, stderr is a datagram socket: each write(2) is one message on it. */
static int log_end = -1, real_stderr = -1;
static char line[20000];

static void capture_log(void *arg)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(pair[1], STDERR_FILENO);
    close(pair[1]);
    log_end = pair[0];
    unsetenv("FORCE_COLOR");
    unsetenv("NO_COLOR");
    log_setup(LOG_DEBUG, LOG_TEXT);
}

static void release_log(void *arg)
{
    dup2(real_stderr, STDERR_FILENO);
    close(steal_fd(&real_stderr));
    close(steal_fd(&log_end));
    log_set_clock(NULL, NULL);
}

/* The next line logged, "" when there is none. */
static const char *logged(void)
{
    ssize_t size = recv(log_end, line, sizeof line - 1, MSG_DONTWAIT);
    line[size > 0 ? size : 0] = '\0';
    return line;
}

static long long fixed_time(void *arg)
{
    return *(long long *)arg;
}

TEST each_level_has_its_look(void)
{
    log_debug("a %d", 1);
    ASSERT_STR_EQ("[sandpit:debug] a 1\n", logged());
    log_info("b");
    ASSERT_STR_EQ("[sandpit:info] b\n", logged());
    log_plain("Ready on http://localhost:%d", 8787);
    ASSERT_STR_EQ("Ready on http://localhost:8787\n", logged());
    log_warn("c");
    ASSERT_STR_EQ("▲ [WARNING] c\n", logged());
    log_error("d");
    ASSERT_STR_EQ("✘ [ERROR] d\n", logged());
    ASSERT_STR_EQ("", logged());
    PASS();
}

TEST lower_levels_are_silent(void)
{
    log_setup(LOG_WARN, LOG_TEXT);
    log_debug("x");
    log_info("x");
    log_plain("x");
    ASSERT_STR_EQ("", logged());
    ASSERT_FALSE(log_enabled(LOG_LOG));
    ASSERT(log_enabled(LOG_WARN));
    log_warn("y");
    ASSERT_STR_EQ("▲ [WARNING] y\n", logged());
    log_setup(LOG_NONE, LOG_TEXT);
    log_error("x");
    log_write(LOG_NONE, "x");
    ASSERT_STR_EQ("", logged());
    PASS();
}

TEST the_six_level_words_are_known(void)
{
    static const char *const words[] = {"debug", "log", "info", "warn", "error", "none"};
    for (int i = 0; i < 6; i++)
        ASSERT_EQ(i, log_level_parse(words[i]));
    ASSERT_EQ(-1, log_level_parse("verbose"));
    ASSERT_EQ(-1, log_level_parse(""));
    ASSERT_EQ(-1, log_level_parse("INFO"));
    PASS();
}

TEST a_sandbox_cannot_steer_the_terminal(void)
{
    log_plain("%s", "\x1b[2J\x07 \r\x7f \xc2\x9b"
                    "31m \x9b \xf0\x9f\x98\x80 \xc3\xa9");
    ASSERT_STR_EQ("\\x1b[2J\\x07 \\x0d\\x7f \\x9b31m \xef\xbf\xbd \xf0\x9f\x98\x80 \xc3\xa9\n",
                  logged());
    log_plain("two\nlines\tand \\ \"quotes\"");
    ASSERT_STR_EQ("two\nlines\tand \\ \"quotes\"\n", logged());
    PASS();
}

TEST colours_follow_the_environment(void)
{
    ASSERT_FALSE(log_colours(log_end));
    setenv("FORCE_COLOR", "1", 1);
    ASSERT(log_colours(log_end));
    log_warn("a\x1b[0m");
    ASSERT_STR_EQ("\x1b[33m▲ [WARNING]\x1b[0m a\\x1b[0m\n", logged());
    log_error("b");
    ASSERT_STR_EQ("\x1b[31m✘ [ERROR]\x1b[0m b\n", logged());
    log_plain("c");
    ASSERT_STR_EQ("c\n", logged());
    setenv("FORCE_COLOR", "0", 1);
    ASSERT_FALSE(log_colours(log_end));
    unsetenv("FORCE_COLOR");
    PASS();
}

TEST colours_need_a_terminal_and_no_veto(void)
{
    CLEANUP_FD int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0)
        SKIPm("no pseudo-terminals here");
    setenv("TERM", "xterm", 1);
    ASSERT(log_colours(terminal));
    setenv("NO_COLOR", "1", 1);
    ASSERT_FALSE(log_colours(terminal));
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    ASSERT_FALSE(log_colours(terminal));
    PASS();
}

TEST a_json_line_is_one_object_with_the_clocks_time(void)
{
    long long now = 1767225600123;
    log_set_clock(fixed_time, &now);
    log_setup(LOG_DEBUG, LOG_JSON);
    log_warn("say \"hi\"\\\n\t%s", "\x1b[0m\x7f\xc2\x9b\xff\xc3\xa9");
    ASSERT_STR_EQ("{\"level\":\"warn\",\"time\":\"2026-01-01T00:00:00.123Z\",\"msg\":\"say "
                  "\\\"hi\\\"\\\\\\n\\t\\u001b[0m\\u007f\\u009b\xef\xbf\xbd\xc3\xa9\"}\n",
                  logged());
    CLEANUP_JSON json_t *parsed = json_loads(line, 0, NULL);
    ASSERT_STR_EQ("say \"hi\"\\\n\t\x1b[0m\x7f\xc2\x9b\xef\xbf\xbd\xc3\xa9",
                  json_string_value(json_object_get(parsed, "msg")));
    PASS();
}

TEST without_a_clock_the_real_time_is_shown(void)
{
    log_setup(LOG_DEBUG, LOG_JSON);
    log_plain("x");
    CLEANUP_JSON json_t *parsed = json_loads(logged(), 0, NULL);
    ASSERT_STR_EQ("log", json_string_value(json_object_get(parsed, "level")));
    const char *shown = json_string_value(json_object_get(parsed, "time"));
    ASSERT(shown);
    ASSERT_EQ(24u, strlen(shown));
    ASSERT_GT(strcmp(shown, "2020-01-01"), 0);
    PASS();
}

/* `unit` repeated to `size` bytes, malloc'd. */
static char *repeated(const char *unit, size_t size)
{
    char *text = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = unit[i % strlen(unit)];
    text[size] = '\0';
    return text;
}

TEST a_long_line_is_cut_between_characters(void)
{
    CLEANUP_FREE char *fits = repeated("x", 8192);
    log_plain("%s", fits);
    ASSERT_EQ(8193u, strlen(logged()));
    CLEANUP_FREE char *more = repeated("x", 8193);
    log_plain("%s", more);
    ASSERT_EQ(8192u + 4, strlen(logged()));
    ASSERT_STR_EQ("x…\n", line + 8191);
    CLEANUP_FREE char *wide = repeated("\xf0\x9f\x98\x80", 40000);
    log_plain("z%s", wide);
    ASSERT_EQ(1 + 2047u * 4 + 4, strlen(logged()));
    ASSERT_STR_EQ("\xf0\x9f\x98\x80…\n", line + 1 + 2046 * 4);
    PASS();
}

TEST a_long_line_of_escapes_is_cut_too(void)
{
    CLEANUP_FREE char *codes = repeated("\x1b", 8000);
    log_error("%s", codes);
    ASSERT_EQ(strlen("✘ [ERROR] ") + 8192 + 4, strlen(logged()));
    log_setup(LOG_DEBUG, LOG_JSON);
    log_error("%s", codes);
    CLEANUP_JSON json_t *parsed = json_loads(logged(), 0, NULL);
    ASSERT_EQ(8192u / 6 + 3, json_string_length(json_object_get(parsed, "msg")));
    PASS();
}

TEST logging_keeps_errno(void)
{
    errno = ENOTTY;
    log_warn("x");
    ASSERT_EQ(ENOTTY, errno);
    logged();
    PASS();
}

SUITE(logs)
{
    SET_SETUP(capture_log, NULL);
    SET_TEARDOWN(release_log, NULL);
    RUN_TEST(each_level_has_its_look);
    RUN_TEST(lower_levels_are_silent);
    RUN_TEST(the_six_level_words_are_known);
    RUN_TEST(a_sandbox_cannot_steer_the_terminal);
    RUN_TEST(colours_follow_the_environment);
    RUN_TEST(colours_need_a_terminal_and_no_veto);
    RUN_TEST(a_json_line_is_one_object_with_the_clocks_time);
    RUN_TEST(without_a_clock_the_real_time_is_shown);
    RUN_TEST(a_long_line_is_cut_between_characters);
    RUN_TEST(a_long_line_of_escapes_is_cut_too);
    RUN_TEST(logging_keeps_errno);
}

/* ---- journal ---- */

static char folder[64], path[128];

static void make_folder(void *arg)
{
    snprintf(folder, sizeof folder, "/tmp/test-base-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/journal", folder);
}

static void drop_folder(void *arg)
{
    journal_close();
    unlink(path);
    rmdir(folder);
}

/* What the journal holds, malloc'd. */
static char *journal_text(void)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = calloc(1, 65536);
    if (fd >= 0 && read(fd, text, 65535) < 0)
        abort();
    return text;
}

TEST each_note_is_one_json_line(void)
{
    struct error err = {0};
    ASSERT_EQ(0, journal_open(path, &err));
    journal_note(JOURNAL_REQUEST, 1000, "my-box", "POST /api/execute");
    journal_note(JOURNAL_CLOCK, 2000, "", "advance \"10m\"\n");
    journal_note(JOURNAL_FAULT, 3000, "b", "x\xff");
    journal_note(JOURNAL_EXIT, 4000, "b", "12 0");
    CLEANUP_FREE char *text = journal_text();
    ASSERT_STR_EQ(
        "{\"kind\":\"request\",\"at\":1000,\"subject\":\"my-box\",\"what\":\"POST /api/execute\"}\n"
        "{\"kind\":\"clock\",\"at\":2000,\"subject\":\"\",\"what\":\"advance \\\"10m\\\"\\n\"}\n"
        "{\"kind\":\"fault\",\"at\":3000,\"subject\":\"b\",\"what\":\"x\xef\xbf\xbd\"}\n"
        "{\"kind\":\"exit\",\"at\":4000,\"subject\":\"b\",\"what\":\"12 0\"}\n",
        text);
    PASS();
}

TEST a_journal_is_private_and_appended_to(void)
{
    struct error err = {0};
    struct stat info;
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(0, journal_open(path, &err));
        journal_note(JOURNAL_EXIT, i, "", "");
        journal_close();
    }
    ASSERT_EQ(0, stat(path, &info));
    ASSERT_EQ(0600u, info.st_mode & 0777);
    CLEANUP_FREE char *text = journal_text();
    ASSERT_STR_EQ("{\"kind\":\"exit\",\"at\":0,\"subject\":\"\",\"what\":\"\"}\n"
                  "{\"kind\":\"exit\",\"at\":1,\"subject\":\"\",\"what\":\"\"}\n",
                  text);
    PASS();
}

TEST without_a_journal_nothing_is_written(void)
{
    journal_note(JOURNAL_REQUEST, 1, "a", "b");
    ASSERT_EQ(-1, access(path, F_OK));
    PASS();
}

TEST a_journal_that_cannot_be_opened_is_an_error(void)
{
    struct error err = {0};
    char missing[160];
    snprintf(missing, sizeof missing, "%s/none/journal", folder);
    ASSERT_EQ(-ENOENT, journal_open(missing, &err));
    ASSERT(strstr(err.text, "No such file"));
    PASS();
}

TEST a_full_disk_ends_the_journal_loudly(void)
{
    if (access("/dev/full", W_OK) != 0)
        SKIPm("no /dev/full here");
    struct error err = {0};
    ASSERT_EQ(0, journal_open("/dev/full", &err));
    capture_log(NULL);
    journal_note(JOURNAL_REQUEST, 1, "a", "b");
    logged();
    release_log(NULL);
    ASSERT_STR_EQ("✘ [ERROR] The journal ends here: No space left on device\n", line);
    PASS();
}

SUITE(journals)
{
    SET_SETUP(make_folder, NULL);
    SET_TEARDOWN(drop_folder, NULL);
    RUN_TEST(each_note_is_one_json_line);
    RUN_TEST(a_journal_is_private_and_appended_to);
    RUN_TEST(without_a_journal_nothing_is_written);
    RUN_TEST(a_journal_that_cannot_be_opened_is_an_error);
    RUN_TEST(a_full_disk_ends_the_journal_loudly);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(errors);
    RUN_SUITE(buffers);
    RUN_SUITE(randoms);
    RUN_SUITE(logs);
    RUN_SUITE(journals);
    GREATEST_MAIN_END();
}
