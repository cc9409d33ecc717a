/* What the SDK says about ports, tokens and preview URLs. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "greatest.h"
#include "objects/port_rules.h"

static uint16_t check(const char *version, const char *json, struct error *err)
{
    CLEANUP_JSON json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    return port_check(port_rules_of(version), value, err);
}

TEST ports_are_from_1024_to_65535_and_not_reserved(void)
{
    static const struct {
        const char *version, *json;
        uint16_t port;
    } rows[] = {
        {NULL, "8080", 8080},  {NULL, "1024", 1024},    {NULL, "65535", 65535},
        {NULL, "8787", 8787},  {NULL, "3000", 0},       {NULL, "1023", 0},
        {NULL, "65536", 0},    {NULL, "0", 0},          {NULL, "-1", 0},
        {NULL, "80.5", 0},     {NULL, "1e9", 0},        {NULL, "\"8080\"", 0},
        {NULL, "null", 0},     {NULL, "true", 0},       {NULL, "8080.0", 8080},
        {"0.7.1", "8787", 0},  {"0.7.2", "8787", 8787}, {"0.7", "8787", 8787},
        {"0.4.18", "8787", 0}, {"1.0", "8787", 8787},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err = {0};
        ASSERT_EQm(rows[i].json, rows[i].port, check(rows[i].version, rows[i].json, &err));
        if (!rows[i].port)
            ASSERTm(err.text, strncmp(err.text, "Invalid port number: ", 21) == 0);
    }
    struct error err = {0};
    check(NULL, "3000", &err);
    ASSERT(strstr(err.text, "Port 3000 is reserved"));
    PASS();
}

TEST each_line_of_the_sdk_has_its_rules(void)
{
    static const struct {
        const char *version;
        bool hyphens, custom, registry;
        enum after_restart after;
    } rows[] = {
        {"0.4.0", true, false, true, RESTART_FORGOTTEN},
        {"0.6.11", true, false, true, RESTART_FORGOTTEN},
        {"0.7.0", true, true, true, RESTART_FORGOTTEN},
        {"0.7", true, true, true, RESTART_FORGOTTEN},
        {"0.8.12", false, true, true, RESTART_FORGOTTEN},
        {"0.8.13", false, true, false, RESTART_LIVES},
        {"0.8", false, true, false, RESTART_LIVES},
        {"0.10.3", false, true, false, RESTART_LIVES},
        {"0.11.0", false, true, false, RESTART_STALE},
        {"0.12", false, true, false, RESTART_STALE},
        {NULL, false, true, false, RESTART_STALE},
        {"nonsense", false, true, false, RESTART_STALE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct port_rules *rules = port_rules_of(rows[i].version);
        ASSERT_EQm(rows[i].version, rows[i].hyphens, rules->hyphens);
        ASSERT_EQm(rows[i].version, rows[i].custom, rules->custom_tokens);
        ASSERT_EQm(rows[i].version, rows[i].registry, rules->registry);
        ASSERT_EQm(rows[i].version, rows[i].after, rules->after);
    }
    PASS();
}

TEST custom_tokens_have_1_to_16_characters_of_the_alphabet(void)
{
    const struct port_rules *now = port_rules_of(NULL), *old = port_rules_of("0.7.4");
    struct error empty = {0}, longer = {0}, other = {0}, err = {0};
    ASSERT_EQ(0, token_check(now, "a", &err));
    ASSERT_EQ(0, token_check(now, "abc_123_abc_1234", &err));
    ASSERT_EQ(-EINVAL, token_check(now, "", &empty));
    ASSERT_EQ(-EINVAL, token_check(now, "abc_123_abc_12345", &longer));
    ASSERT_EQ(-EINVAL, token_check(now, "Abc", &other));
    ASSERT_EQ(-EINVAL, token_check(now, "a-b", &err));
    ASSERT_EQ(-EINVAL, token_check(now, "a\xc3\xa9", &err));
    ASSERT_EQ(0, token_check(old, "a-b", &err));
    ASSERT(strcmp(empty.text, longer.text) != 0 && strcmp(longer.text, other.text) != 0 &&
           strcmp(empty.text, other.text) != 0);
    PASS();
}

TEST made_tokens_have_16_characters_of_the_alphabet(void)
{
    const struct port_rules *now = port_rules_of(NULL), *old = port_rules_of("0.7.4");
    bool hyphen = false;
    struct error err = {0};
    random_seed(7);
    for (int i = 0; i < 2000; i++) {
        char token[TOKEN_LENGTH + 1];
        token_make(now, token);
        ASSERT_EQ(TOKEN_LENGTH, strlen(token));
        ASSERT_EQm(token, 0, token_check(now, token, &err));
        token_make(old, token);
        ASSERT_EQm(token, 0, token_check(old, token, &err));
        hyphen = hyphen || strchr(token, '-');
    }
    ASSERT(hyphen);
    PASS();
}

TEST tokens_are_the_same_only_when_all_of_them_is(void)
{
    ASSERT(token_same("abc", "abc", 3));
    ASSERT_FALSE(token_same("abc", "abd", 3));
    ASSERT_FALSE(token_same("abc", "ab", 2));
    ASSERT_FALSE(token_same("abc", "abcd", 4));
    ASSERT_FALSE(token_same("abc", "", 0));
    ASSERT_FALSE(token_same("", "", 0));
    ASSERT_FALSE(token_same("abc", "ABC", 3));
    char longer[200];
    memset(longer, 'a', sizeof longer);
    ASSERT_FALSE(token_same("abc", longer, sizeof longer));
    PASS();
}

/* Stops, compares, and stops again. The first comparison is for what is set up only once. */
static void compare_between_stops(const char *stored, const char *given, size_t size)
{
    volatile bool same;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(1);
    for (int i = 0; i < 2; i++) {
        raise(SIGSTOP);
        same = token_same(stored, given, size);
        (void)same;
    }
    raise(SIGSTOP);
    _exit(0);
}

/* Steps the child until it stops by itself; how many instructions that took, or -1. */
static int step_to_stop(pid_t child)
{
    for (int steps = 1; steps < 1000000; steps++) {
        int status;
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0 || waitpid(child, &status, 0) < 0 ||
            !WIFSTOPPED(status))
            return -1;
        if (WSTOPSIG(status) == SIGSTOP)
            return steps;
    }
    return -1;
}

/* How many instructions a comparison takes, which no load of the machine changes; -1 = it cannot be
 * told. */
static int steps_to_compare(const char *stored, const char *text, size_t size)
{
    char given[64] = ""; /* at the same place for all, as the C library's copies look at that */
    int status, steps = -1;
    memcpy(given, text, size);
    pid_t child = fork();
    if (child == 0)
        compare_between_stops(stored, given, size);
    if (child < 0)
        return -1;
    if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        if (step_to_stop(child) > 0)
            steps = step_to_stop(child);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return steps;
}

/* ABUSE.md F1: time does not tell how much of a guess was right. */
TEST comparing_tokens_takes_as_long_wherever_they_differ(void)
{
    static const char stored[] = "abcdefghijklmnop";
    static const char *const guesses[] = {"Xbcdefghijklmnop", "abcdefgXijklmnop",
                                          "abcdefghijklmnoX", "XXXXXXXXXXXXXXXX"};
    int right = steps_to_compare(stored, stored, TOKEN_LENGTH);
    if (right < 0)
        SKIPm("no process can be traced here");
    for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++) {
        ASSERT_FALSE(token_same(stored, guesses[i], TOKEN_LENGTH));
        ASSERT_EQm(guesses[i], right, steps_to_compare(stored, guesses[i], TOKEN_LENGTH));
    }
    int none = steps_to_compare(stored, "XXXX", 4);
    ASSERT_EQ(none, steps_to_compare(stored, "abcd", 4));
    ASSERT_EQ(steps_to_compare("", "XXXX", 4), steps_to_compare("", "abcd", 4)); /* none stored */
    PASS();
}

/* The URL for a hostname, or the error. */
static const char *url_for(const char *hostname, struct buf *to)
{
    struct preview_host host;
    struct error err = {0};
    if (preview_host_parse(hostname, &host, &err) < 0)
        return "error";
    preview_url(to, &host, "8080-my-box-tok");
    return buf_text(to);
}

TEST urls_are_those_of_the_hostname(void)
{
    static const struct {
        const char *hostname, *url;
    } rows[] = {
        {"localhost:8787", "http://8080-my-box-tok.localhost:8787/"},
        {"localhost", "http://8080-my-box-tok.localhost/"},
        {"LocalHost:1", "http://8080-my-box-tok.localhost:1/"},
        {"127.0.0.1:8787", "http://8080-my-box-tok.localhost:8787/"},
        {"0.0.0.0:8787", "http://8080-my-box-tok.localhost:8787/"},
        {"[::1]:8787", "http://8080-my-box-tok.localhost:8787/"},
        {"::1", "http://8080-my-box-tok.localhost/"},
        {"example.com", "https://8080-my-box-tok.example.com/"},
        {"Example.COM:8443", "https://8080-my-box-tok.example.com:8443/"},
        {"192.168.1.5:8787", "http://192.168.1.5:8787/cdn-cgi/local/preview/8080-my-box-tok/"},
        {"[fe80::1]:80", "http://[fe80::1]:80/cdn-cgi/local/preview/8080-my-box-tok/"},
        {"", "error"},
        {"exa mple.com", "error"},
        {"example.com/x", "error"},
        {"example..com", "error"},
        {".example.com", "error"},
        {"user@example.com", "error"},
        {"example.com:80:80", "error"},
        {"example.com:", "error"},
        {"example.com:x", "error"},
        {"example.com:65536", "error"},
        {"[::1", "error"},
        {"a\r\nb.com", "error"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_BUF struct buf text = BUF_INIT(1024);
        ASSERT_STR_EQ(rows[i].url, url_for(rows[i].hostname, &text));
    }
    PASS();
}

TEST domains_that_will_not_do_are_told_apart(void)
{
    static const struct {
        const char *hostname;
        bool workers_dev, nested;
    } rows[] = {
        {"a.workers.dev", true, true},    {"a.b.workers.dev:443", true, true},
        {"workers.dev", false, false},    {"example.com", false, false},
        {"dev.example.com", false, true}, {"notworkers.dev", false, false},
        {"localhost:8787", false, false}, {"example.co.uk", false, false},
        {"a.example.co.uk", false, true}, {"dev.example.io", false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct preview_host host;
        struct error err = {0};
        ASSERT_EQm(rows[i].hostname, 0, preview_host_parse(rows[i].hostname, &host, &err));
        ASSERT_EQm(rows[i].hostname, rows[i].workers_dev, preview_host_is_workers_dev(&host));
        ASSERT_EQm(rows[i].hostname, rows[i].nested, preview_host_is_nested(&host));
    }
    PASS();
}

/* All splits of a label as "port id token|…". */
static const char *splits(const char *version, const char *label, struct buf *to)
{
    const struct port_rules *rules = port_rules_of(version);
    struct label_split split;
    if (!label_begin(rules, label, &split))
        return "none";
    while (label_next(rules, &split))
        buf_addf(to, "%u %.*s %.*s|", split.port, (int)split.id_size, split.rest,
                 (int)split.token_size, split.token);
    return buf_text(to);
}

TEST labels_are_split_at_their_hyphens(void)
{
    static const struct {
        const char *version, *label, *splits;
    } rows[] = {
        {NULL, "8080-box-tok", "8080 box tok|"},
        {NULL, "8080-my-box-2-tok", "8080 my-box-2 tok|"},
        {NULL, "8080-a-b", "8080 a b|"},
        {NULL, "65535-a-b", "65535 a b|"},
        {NULL, "8080-box", ""},
        {NULL, "8080-box-", ""},
        {NULL, "8080--tok", ""},
        {NULL, "8080", "none"},
        {NULL, "", "none"},
        {NULL, "box-tok", "none"},
        {NULL, "0-box-tok", "none"},
        {NULL, "80-box-tok", "none"},
        {NULL, "08080-box-tok", "none"},
        {NULL, "65536-box-tok", "none"},
        {NULL, "3000-box-tok", "none"},
        {NULL, "8080-box-TOK", ""},
        {NULL, "8080-box-t.k", ""},
        {"0.7", "8080-my-box-a-b", "8080 my-box-a b|8080 my-box a-b|8080 my box-a-b|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_BUF struct buf text = BUF_INIT(1024);
        ASSERT_STR_EQ(rows[i].splits, splits(rows[i].version, rows[i].label, &text));
    }
    PASS();
}

SUITE(port_rules)
{
    RUN_TEST(ports_are_from_1024_to_65535_and_not_reserved);
    RUN_TEST(each_line_of_the_sdk_has_its_rules);
    RUN_TEST(custom_tokens_have_1_to_16_characters_of_the_alphabet);
    RUN_TEST(made_tokens_have_16_characters_of_the_alphabet);
    RUN_TEST(tokens_are_the_same_only_when_all_of_them_is);
    RUN_TEST(comparing_tokens_takes_as_long_wherever_they_differ);
    RUN_TEST(urls_are_those_of_the_hostname);
    RUN_TEST(domains_that_will_not_do_are_told_apart);
    RUN_TEST(labels_are_split_at_their_hyphens);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(port_rules);
    GREATEST_MAIN_END();
}
