#include <stdio.h>
#include <string.h>

#include "greatest.h"
#include "http/owner.h"

#define CONTROL "/cdn-cgi/local/clock"

/* What is expected: a status, or the owner when it is served. */
enum { WORKER = -1, CONTROLLER = -2, CONTAINER = -3, PREVIEW = -4 };

struct row {
    int expected;
    const char *host, *path, *extra;
};

static const struct row rows[] = {
    {WORKER, "localhost:8787", "/", ""},
    {WORKER, "LOCALHOST:8787", "/api/execute", ""},
    {WORKER, "localhost.:8787", "/", ""},
    {WORKER, "localhost", "/", ""},
    {WORKER, "127.0.0.1:8787", "/", ""},
    {WORKER, "[::1]:8787", "/", ""},
    {WORKER, "[::1]", "/cdn-cgi/locale", ""},
    {CONTROLLER, "localhost:8787", "/cdn-cgi/local", ""},
    {CONTROLLER, "localhost:8787", CONTROL, ""},
    {CONTROLLER, "localhost:8787", "/cdn-cgi/local?x=/", ""},
    {CONTAINER, "3000-box-s3cret.localhost:8787", "/api/execute", ""},
    {CONTAINER, "3000-Box-s3cret.LOCALHOST", CONTROL, ""},
    {404, "8080-box-token.localhost:8787", "/", ""},
    {404, "evil.localhost:8787", CONTROL, ""},
    {404, "3000-.localhost:8787", "/", ""},
    {404, "3000-a.b.localhost:8787", "/", ""},
    {404, "3000-a%41.localhost:8787", "/", ""},
    {403, "evil.example", CONTROL, ""},
    {403, "evil.example:8787", "/", "Origin: http://evil.example:8787\r\n"},
    {403, "evil.example", "/", "X-Forwarded-Host: localhost\r\n"},
    {403, "localhost.evil.example", "/", ""},
    {403, "evillocalhost", "/", ""},
    {403, "127.0.0.2:8787", "/", ""},
    {403, "127.1:8787", "/", ""},
    {403, "0.0.0.0:8787", "/", ""},
    {403, "[::1", "/", ""},
    {403, "[::1]x:8787", "/", ""},
    {403, "localhost:", "/", ""},
    {403, "localhost:87a7", "/", ""},
    {403, "localhost:65536", "/", ""},
    {403, "", "/", ""},
    {403, ".localhost", "/", ""},

    {CONTROLLER, "localhost:8787", CONTROL, "Origin: http://localhost:8787\r\n"},
    {CONTROLLER, "localhost:8787", CONTROL, "Origin: http://127.0.0.1:8787\r\n"},
    {CONTROLLER, "localhost:8787", CONTROL, "Origin: http://[::1]:8787\r\n"},
    {CONTROLLER, "localhost:8787", CONTROL, "Origin: https://localhost:8787\r\n"},
    {CONTROLLER, "localhost", CONTROL, "Origin: http://localhost\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: http://localhost:8788\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: http://localhost\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: null\r\n"},
    {403, "localhost:8787", CONTROL, "Origin:\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: http://8080-x-tok.localhost:8787\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: http://evil.example:8787\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: http://localhost:8787.evil.example\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: http://localhost:8787@evil\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: ftp://localhost:8787\r\n"},
    {403, "localhost:8787", CONTROL, "Origin: http://\r\n"},
    {403, "localhost:8787", "/", "Origin: http://evil.example\r\n"},
    {403, "3000-a-b.localhost:8787", "/", "Origin: http://localhost:8787\r\n"},
    {403, "3000-a-b.localhost:8787", "/", "Origin: http://3000-a-b.localhost:8787\r\n"},

    {WORKER, "localhost:8787", "/x", "Sec-Fetch-Site: none\r\n"},
    {WORKER, "localhost:8787", "/x", "Sec-Fetch-Site: same-origin\r\n"},
    {403, "localhost:8787", "/x", "Sec-Fetch-Site: same-site\r\n"},
    {403, "localhost:8787", "/x", "Sec-Fetch-Site: cross-site\r\n"},
    {403, "localhost:8787", "/", "Sec-Fetch-Site: cross-site\r\n"},
    {403, "localhost:8787", "/x",
     "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"},
    {403, "localhost:8787", CONTROL,
     "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"},
    {403, "localhost:8787", "/",
     "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n"},
    {WORKER, "localhost:8787", "/",
     "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"},
    {403, "3000-a-b.localhost:8787", "/", "Sec-Fetch-Site: cross-site\r\n"},
};

static int ask(const struct owner_rules *rules, const char *method, const struct row *row,
               struct owner_answer *answer, struct refusal *why)
{
    char text[1024];
    struct head head;
    const struct refusal *fault = NULL;
    int size = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method,
                        row->path, row->host, row->extra);
    if (head_check(text, (size_t)size, &head, &fault) != HEAD_COMPLETE)
        return 0;
    if (!owner_find(rules, &head, answer, why))
        return why->status;
    return answer->owner == OWNER_WORKER    ? WORKER
           : answer->owner == OWNER_CONTROL ? CONTROLLER
           : answer->owner == OWNER_PREVIEW ? PREVIEW
                                            : CONTAINER;
}

TEST each_host_path_and_origin_has_one_answer(void)
{
    struct owner_rules rules;
    owner_rules_init(&rules, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct owner_answer answer;
        struct refusal why;
        char message[256];
        snprintf(message, sizeof message, "%s %s %s", rows[i].host, rows[i].path, rows[i].extra);
        ASSERT_EQm(message, rows[i].expected, ask(&rules, "GET", &rows[i], &answer, &why));
    }
    PASS();
}

TEST a_link_may_not_lead_to_a_post(void)
{
    static const struct row row = {
        403, "localhost:8787", "/",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"};
    struct owner_rules rules;
    struct owner_answer answer;
    struct refusal why;
    owner_rules_init(&rules, NULL, NULL);
    ASSERT_EQ(403, ask(&rules, "POST", &row, &answer, &why));
    ASSERT_STR_EQ("ORIGIN_NOT_ALLOWED", why.code);
    PASS();
}

TEST a_refused_host_is_told_the_allowed_ones(void)
{
    static const struct row row = {403, "evil.example", "/", ""};
    struct owner_rules rules;
    struct owner_answer answer;
    struct refusal why;
    owner_rules_init(&rules, "192.168.7.7", "secret");
    ASSERT_EQ(403, ask(&rules, "GET", &row, &answer, &why));
    ASSERT_STR_EQ("HOST_NOT_ALLOWED", why.code);
    ASSERT(strstr(why.hint, "localhost, 127.0.0.1, [::1], 192.168.7.7"));
    PASS();
}

TEST labels_are_lower_case(void)
{
    static const struct row container = {CONTAINER, "3000-My-Box-SECRET.localhost:1", "/", ""};
    static const struct row plain = {WORKER, "127.0.0.1:1", "/", ""};
    struct owner_rules rules;
    struct owner_answer answer;
    struct refusal why;
    owner_rules_init(&rules, NULL, NULL);
    ASSERT_EQ(CONTAINER, ask(&rules, "GET", &container, &answer, &why));
    ASSERT_STR_EQ("3000-my-box-secret", answer.label);
    ASSERT_EQ(WORKER, ask(&rules, "GET", &plain, &answer, &why));
    ASSERT_STR_EQ("localhost", answer.label);
    PASS();
}

static bool knows_example(void *arg, struct span domain)
{
    return span_is(domain, "example.com");
}

TEST previews_are_found_by_name_domain_and_path(void)
{
    static const struct {
        struct row row;
        const char *label, *path;
    } cases[] = {
        {{PREVIEW, "8080-Box-TOK.localhost:1", "/a?b", "Origin: http://evil.example\r\n"},
         "8080-box-tok",
         "/a"},
        {{PREVIEW, "x.LOCALHOST.", CONTROL, "Sec-Fetch-Site: cross-site\r\n"}, "x", CONTROL},
        {{PREVIEW, "8080-a.b-tok.localhost", "/", ""}, "8080-a", "/"},
        {{PREVIEW, "8080-b-t.Example.com:443", "/cdn-cgi/local/preview/x/", ""},
         "8080-b-t",
         "/cdn-cgi/local/preview/x/"},
        {{PREVIEW, "8080-b-t.example.com.", "/", ""}, "8080-b-t", "/"},
        {{PREVIEW, "localhost", "/cdn-cgi/local/preview/8080-B-t/x/y", ""}, "8080-B-t", "/x/y"},
        {{PREVIEW, "[::1]:1", "/cdn-cgi/local/preview/8080-b-t", ""}, "8080-b-t", "/"},
        {{PREVIEW, "localhost", "/cdn-cgi/local/preview", ""}, "", "/"},
        {{PREVIEW, "localhost", "/cdn-cgi/local/preview//x", ""}, "", "/x"},
        {{CONTROLLER, "localhost", "/cdn-cgi/local/previews", ""}, NULL, NULL},
        {{CONTAINER, "3000-a-b.localhost", "/", ""}, NULL, NULL},
        {{403, "example.com", "/", ""}, NULL, NULL},
        {{403, "8080-b-t.x.example.com", "/", ""}, NULL, NULL},
        {{403, "8080-b-t.example.org", "/", ""}, NULL, NULL},
        {{403, ".", "/", ""}, NULL, NULL},
        {{PREVIEW,
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.localhost",
          "/", ""},
         "",
         "/"},
    };
    struct owner_rules rules;
    owner_rules_init(&rules, NULL, "secret");
    rules.token = NULL;
    rules.previews = true;
    rules.has_domain = knows_example;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct owner_answer answer;
        struct refusal why;
        const struct row *row = &cases[i].row;
        ASSERT_EQm(row->host, row->expected, ask(&rules, "GET", row, &answer, &why));
        if (row->expected != PREVIEW)
            continue;
        ASSERT_STR_EQ(cases[i].label, answer.label);
        ASSERTm(row->path, answer.path.size == strlen(cases[i].path)); /* its bytes are ask()'s */
        ASSERT_EQ(strncmp(row->path, "/cdn-cgi/local/preview", 22) == 0 &&
                      strcasestr(row->host, "example") == NULL,
                  answer.by_path);
    }
    PASS();
}

TEST a_token_is_asked_for_but_not_by_containers(void)
{
    static const struct row cases[] = {
        {401, "localhost", "/", ""},
        {401, "localhost", CONTROL, "Authorization: Bearer wrong\r\n"},
        {401, "localhost", CONTROL, "Authorization: Bearer secre\r\n"},
        {401, "localhost", CONTROL, "Authorization: Bearer secrets\r\n"},
        {401, "localhost", CONTROL, "Authorization: Basic secret\r\n"},
        {401, "localhost", CONTROL, "Authorization: Bearer\r\n"},
        {WORKER, "localhost", "/", "Authorization: Bearer secret\r\n"},
        {CONTROLLER, "localhost", CONTROL, "Authorization: bearer secret\r\n"},
        {CONTAINER, "3000-a-b.localhost", "/", ""},
    };
    struct owner_rules rules;
    owner_rules_init(&rules, NULL, "secret");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct owner_answer answer;
        struct refusal why;
        ASSERT_EQm(cases[i].extra, cases[i].expected, ask(&rules, "GET", &cases[i], &answer, &why));
    }
    PASS();
}

TEST another_address_is_served_only_when_it_is_listened_on(void)
{
    static const struct row one = {WORKER, "192.168.7.7:8787", "/",
                                   "Origin: http://192.168.7.7:8787\r\n"};
    static const struct row other = {403, "192.168.7.8:8787", "/", ""};
    static const struct row v6 = {WORKER, "[fd00::1]:8787", "/", ""};
    static const struct row name = {403, "evil.example:8787", "/", ""};
    struct owner_rules rules;
    struct owner_answer answer;
    struct refusal why;
    owner_rules_init(&rules, "192.168.7.7", NULL);
    ASSERT_EQ(WORKER, ask(&rules, "GET", &one, &answer, &why));
    ASSERT_EQ(403, ask(&rules, "GET", &other, &answer, &why));
    owner_rules_init(&rules, "127.0.0.1", NULL);
    ASSERT_EQ(403, ask(&rules, "GET", &one, &answer, &why));
    owner_rules_init(&rules, "fd00::1", NULL);
    ASSERT_EQ(WORKER, ask(&rules, "GET", &v6, &answer, &why));
    owner_rules_init(&rules, "0.0.0.0", NULL);
    ASSERT_EQ(WORKER, ask(&rules, "GET", &other, &answer, &why));
    ASSERT_EQ(403, ask(&rules, "GET", &name, &answer, &why));
    PASS();
}

SUITE(owner)
{
    RUN_TEST(each_host_path_and_origin_has_one_answer);
    RUN_TEST(a_link_may_not_lead_to_a_post);
    RUN_TEST(a_refused_host_is_told_the_allowed_ones);
    RUN_TEST(labels_are_lower_case);
    RUN_TEST(previews_are_found_by_name_domain_and_path);
    RUN_TEST(a_token_is_asked_for_but_not_by_containers);
    RUN_TEST(another_address_is_served_only_when_it_is_listened_on);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(owner);
    GREATEST_MAIN_END();
}
