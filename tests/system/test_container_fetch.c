/* containerFetch with its answer as JSON, and how long a port is waited for. */
#include "proxy_box.h"

TEST container_fetch_answers_with_json(void)
{
    CLEANUP_REPLY struct reply r =
        post(&emulator, "/sandbox/p/containerFetch",
             "[\"http://any/x?y=1\", {\"method\": \"POST\", \"headers\": {\"X-Mine\": \"1\"}, "
             "\"body\": \"h\\u00e9\"}, 8080]");
    ASSERT_EQ(200, r.status);
    ASSERT_EQ(200, number_at(r.json, "status"));
    ASSERT_STR_EQ("application/json", text_at(r.json, "headers.content-type"));
    CLEANUP_JSON json_t *seen = json_loads(text_at(r.json, "body"), 0, NULL);
    ASSERT_STR_EQ("POST", text_at(seen, "method"));
    ASSERT_STR_EQ("/x?y=1", text_at(seen, "url"));
    ASSERT_STR_EQ("1", text_at(seen, "headers.x-mine"));
    ASSERT_STR_EQ("3", text_at(seen, "headers.content-length"));
    CLEANUP_REPLY struct reply to = post(&emulator, "/sandbox/p/containerFetch", "[\"/to\", 8080]");
    ASSERT(strstr(text_at(to.json, "body"), "/seen?by=redirect"));
    CLEANUP_REPLY struct reply manual =
        post(&emulator, "/sandbox/p/containerFetch", "[\"/to\", {\"redirect\": \"manual\"}, 8080]");
    ASSERT_EQ(307, number_at(manual.json, "status"));
    CLEANUP_REPLY struct reply bytes =
        post(&emulator, "/sandbox/p/containerFetch", "[\"/bytes\", {}, 8080]");
    ASSERT_STR_EQ("iVD/AA==", text_at(bytes.json, "body"));
    ASSERT_STR_EQ("base64", text_at(bytes.json, "encoding"));
    ASSERT_STR_EQ("a=1, b=2", text_at(bytes.json, "headers.set-cookie"));
    PASS();
}

TEST container_fetch_refuses_what_it_cannot_do(void)
{
    static const struct {
        const char *body;
        int status;
    } rows[] = {{"[\"/\"]", 400},
                {"[\"/\", {}, 3000]", 400},
                {"[\"/\", {}, 80]", 400},
                {"[\"/\", {}, 8080.5]", 400},
                {"[\"/a b\", {}, 8080]", 400},
                {"[\"/\", {\"headers\": {\"X\": \"a\\r\\nY: b\"}}, 8080]", 400},
                {"[\"/\", {\"headers\": {\"X Y\": \"a\"}}, 8080]", 400},
                {"[\"/\", {\"method\": \"GET / HTTP/1.1\\r\\nX:\"}, 8080]", 400},
                {"[\"/\", {}, 9999]", 502}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply r = post(&emulator, "/sandbox/p/containerFetch", rows[i].body);
        ASSERT_EQm(rows[i].body, rows[i].status, r.status);
    }
    PASS();
}

TEST a_sleeping_sandbox_is_started_and_its_port_waited_for(void)
{
    CLEANUP_FD int fd = dial(&emulator);
    const char *text = "GET /sandbox/fresh/proxy/8080/late HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char got[4096] = "";
    ASSERT_EQ(0, send_all(fd, text, strlen(text)));
    while (strcmp(state_of("fresh"), "healthy") != 0)
        poll(NULL, 0, 5);
    const char *failed = start_server("fresh");
    ASSERT_EQm(failed, NULL, failed);
    ASSERT(reads(fd, "\"/late\"", got, sizeof got));
    ASSERT_EQ(0, strncmp(got, "HTTP/1.1 200 ", 13));
    PASS();
}

/* Begins a call and leaves its end to the caller. */
static int begin_fetch(const char *id, const char *body)
{
    char text[512];
    int fd = dial(&emulator);
    int size = snprintf(text, sizeof text,
                        "POST /sandbox/%s/containerFetch HTTP/1.1\r\nHost: localhost\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        id, strlen(body), body);
    return send_all(fd, text, (size_t)size) == 0 ? fd : -1;
}

static bool something_in_flight(void *id)
{
    return inflight(id) > 0;
}

TEST container_fetch_waits_for_the_port_of_a_container_that_it_starts(void)
{
    CLEANUP_FD int fd = begin_fetch("early", "[\"/late\", {}, 8080]");
    ASSERT(fd >= 0);
    while (strcmp(state_of("early"), "healthy") != 0)
        poll(NULL, 0, 5);
    const char *failed = start_server("early");
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_REPLY struct reply r = read_reply(fd);
    ASSERT_EQ(200, r.status);
    ASSERT(strstr(text_at(r.json, "body"), "/late"));
    PASS();
}

TEST a_port_that_never_opens_is_given_up_when_its_time_is_over(void)
{
    static const char *const timeouts =
        "[{\"portReadyTimeoutMS\": 10000, \"waitIntervalMS\": 100}]";
    const char *get_text = "GET /sandbox/shut-1/proxy/9999/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    CLEANUP_REPLY struct reply one =
        post(&emulator, "/sandbox/shut-1/setContainerTimeouts", timeouts);
    CLEANUP_REPLY struct reply two =
        post(&emulator, "/sandbox/shut-2/setContainerTimeouts", timeouts);
    ASSERT_EQ(200, one.status);
    ASSERT_EQ(200, two.status);
    long long before = test_ms();
    CLEANUP_FD int forwarded = dial(&emulator);
    ASSERT_EQ(0, send_all(forwarded, get_text, strlen(get_text)));
    CLEANUP_FD int fetched = begin_fetch("shut-2", "[\"/\", {}, 9999]");
    CLEANUP_REPLY struct reply forward = read_reply(forwarded);
    CLEANUP_REPLY struct reply fetch = read_reply(fetched);
    long long passed = test_ms() - before;
    ASSERT_EQ(502, forward.status);
    ASSERT_EQ(502, fetch.status);
    ASSERT_STR_EQ("SERVICE_NOT_RESPONDING", text_at(fetch.json, "code"));
    ASSERT(passed >= 10000 && passed < 20000);
    ASSERT_EQ(0, inflight("shut-1") + inflight("shut-2"));
    PASS();
}

/* While the server does not answer, while the port is waited for, and while the container starts.
 */
TEST container_fetch_ends_when_its_client_leaves(void)
{
    static const struct {
        const char *id, *body;
    } rows[] = {{"p", "[\"/hang\", {}, 8080]"},
                {"left", "[\"/\", {}, 9999]"},
                {"left-early", "[\"/\", {}, 9999]"}};
    int before = emulator_files(&emulator);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_FD int fd = begin_fetch(rows[i].id, rows[i].body);
        ASSERTm(rows[i].id, eventually(something_in_flight, (void *)rows[i].id, 5000));
        while (i == 1 && strcmp(state_of(rows[i].id), "healthy") != 0)
            poll(NULL, 0, 5);
        cleanup_fd(&fd);
        fd = -1;
        ASSERTm(rows[i].id, eventually(nothing_in_flight, (void *)rows[i].id, 5000));
        char path[64];
        snprintf(path, sizeof path, "/sandbox/%s/destroy", rows[i].id);
        if (i > 0) {
            CLEANUP_REPLY struct reply gone = post(&emulator, path, "[]");
        }
    }
    for (int i = 0; i < 100 && emulator_files(&emulator) > before + 2; i++)
        poll(NULL, 0, 50);
    ASSERT(emulator_files(&emulator) <= before + 2);
    PASS();
}

TEST the_end_of_the_container_ends_a_fetch(void)
{
    CLEANUP_FD int fd = begin_fetch("ends", "[\"/\", {}, 9999]");
    while (strcmp(state_of("ends"), "healthy") != 0)
        poll(NULL, 0, 5);
    CLEANUP_REPLY struct reply gone = post(&emulator, "/sandbox/ends/destroy", "[]");
    CLEANUP_REPLY struct reply r = read_reply(fd);
    ASSERT(r.status >= 400);
    ASSERT_EQ(0, inflight("ends"));
    PASS();
}

SUITE(container_fetch_suite)
{
    const char *failed = start_server("p");
    if (failed) {
        printf("SKIP container_fetch: no server can be started with node: %s\n", failed);
        skipped = true;
        return;
    }
    RUN_TEST(container_fetch_answers_with_json);
    RUN_TEST(container_fetch_refuses_what_it_cannot_do);
    RUN_TEST(a_sleeping_sandbox_is_started_and_its_port_waited_for);
    RUN_TEST(container_fetch_waits_for_the_port_of_a_container_that_it_starts);
    RUN_TEST(a_port_that_never_opens_is_given_up_when_its_time_is_over);
    RUN_TEST(container_fetch_ends_when_its_client_leaves);
    RUN_TEST(the_end_of_the_container_ends_a_fetch);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, container_fetch_suite);
    if (skipped)
        return 77;
    GREATEST_MAIN_END();
}
