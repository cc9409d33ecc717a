/* What passes through an exchange, what is refused, and when it ends. */
#include "proxy/fetch.h"
#include "proxy_hub.h"

/* Requests. */

TEST a_request_arrives_with_its_edits(void)
{
    ASSERT(set_up_proxy());
    hub.token = "secret-token";
    struct client *client =
        client_with("GET /p/a%20b?x=1&y HTTP/1.1\r\n" HOST
                    "X-One: 1\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n"
                    "Cookie: a=b\r\nAuthorization: Bearer secret-token\r\nX-Sneaky: "
                    "asecret-tokenb\r\nX-Added: no\r\nUpgrade: h2c\r\nX-One: 2\r\n\r\n");
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    ASSERT_STR_EQ("GET /a%20b?x=1&y HTTP/1.1\r\nHost: localhost:8080\r\nX-One: 1\r\nCookie: a=b\r\n"
                  "X-One: 2\r\nX-Added: yes\r\n\r\n",
                  buf_text(&server->in));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST connection_cannot_take_the_framing_away(void)
{
    ASSERT(set_up_proxy());
    struct client *client = client_with("POST /p/a HTTP/1.1\r\n" HOST
                                        "Connection: content-length, transfer-encoding\r\n"
                                        "Content-Length: 3\r\n\r\nabc");
    struct client *server = server_gets(1, "abc");
    ASSERT(server && strstr(server->in.data, "Content-Length: 3\r\n"));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST connection_counts_however_often_it_is_sent(void)
{
    ASSERT(set_up_proxy());
    struct client *client =
        client_with("GET /p/a HTTP/1.1\r\n" HOST "Connection: X-One\r\nX-One: 1\r\nX-Two: 2\r\n"
                    "Connection: close, X-Two\r\nX-Three: 3\r\n\r\n");
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    ASSERT_STR_EQ("GET /a HTTP/1.1\r\nHost: localhost:8080\r\nX-Three: 3\r\nX-Added: yes\r\n\r\n",
                  buf_text(&server->in));
    says(server, "HTTP/1.1 200 OK\r\nConnection: X-One\r\nX-One: 1\r\nContent-Length: 0\r\n"
                 "Connection: X-Two\r\nX-Two: 2\r\nX-Three: 3\r\n\r\n");
    ASSERT(run_until(is_closed, client));
    ASSERT_STR_EQ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Three: 3\r\nConnection: close\r\n\r\n",
                  buf_text(&client->in));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST bodies_and_the_next_request_keep_apart(void)
{
    int one = 1;
    ASSERT(set_up_proxy());
    struct client *client = client_with("POST /p/a HTTP/1.1\r\n" HOST
                                        "Content-Length: 5\r\n\r\nhello" GET("/html") GET("/p/b"));
    struct client *server = server_gets(1, "hello");
    ASSERT(server);
    says(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ASSERT(gets(client, "\r\n\r\nok", 1));
    ASSERT(run_until(is_done, &one));
    ASSERT(gets(client, "<p>hi</p>", 1));
    server = server_gets(2, "GET /b HTTP/1.1");
    ASSERT(server);
    ASSERT_FALSE(strstr(hub.servers[0]->in.data, "html"));
    says(server, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend");
    ASSERT(gets(client, "\r\n\r\nend", 1));
    client_send(client, GET("/html"), strlen(GET("/html")));
    ASSERT(gets(client, "<p>hi</p>", 2));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST a_chunked_upload_passes_as_it_is(void)
{
    ASSERT(set_up_proxy());
    struct client *client = client_with("PUT /p/a HTTP/1.1\r\n" HOST
                                        "Transfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n");
    struct client *server = server_gets(1, "abc\r\n");
    ASSERT(server);
    says(client, "2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n" GET("/html"));
    ASSERT(gets(server, "3;x=\"y\"\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n", 1));
    says(server, "HTTP/1.1 204 No Content\r\n\r\n");
    ASSERT(gets(client, "204 No Content\r\n\r\n", 1));
    ASSERT(gets(client, "<p>hi</p>", 1));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST wrong_chunks_of_a_client_end_both(void)
{
    static const char *const bad[] = {"x\r\n",
                                      "3\nabc",
                                      "-1\r\n",
                                      "0x3\r\nabc\r\n",
                                      "3\r\nabcd\r\n",
                                      "fffffffffffffffff\r\n",
                                      "\r\n",
                                      "0\r\n folded: 1\r\n\r\n",
                                      "0\r\nX : 1\r\n\r\n",
                                      "1 2\rx"};
    ASSERT(set_up_proxy());
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
        int n = i + 1;
        char text[256];
        snprintf(text, sizeof text,
                 "PUT /p/a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%s", bad[i]);
        struct client *client = client_with(text);
        ASSERTm(bad[i], run_until(is_closed, client));
        ASSERT(run_until(is_done, &n));
        client_free(client);
    }
    ASSERT_EQ(0u, proxy_count(hub.proxy));
    tear_down_proxy();
    PASS();
}

TEST a_client_that_leaves_ends_the_exchange(void)
{
    int one = 1, two = 2, before;
    ASSERT(set_up_proxy());
    before = open_descriptors();
    struct client *client = client_with(GET("/p/a"));
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    client_free(client);
    ASSERT(run_until(is_done, &one));
    ASSERT(run_until(is_closed, server));
    client = client_with("PUT /p/a HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nabc");
    ASSERT(server_gets(2, "abc"));
    client_free(client);
    ASSERT(run_until(is_done, &two));
    server_close(hub.servers[0]);
    server_close(hub.servers[1]);
    ASSERT(run_until(descriptors_are, &before));
    tear_down_proxy();
    PASS();
}

TEST http_1_0_clients_get_no_chunks(void)
{
    ASSERT(set_up_proxy());
    struct client *client = client_with("POST /p/a HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi");
    struct client *server = server_gets(1, "\r\n\r\nhi");
    ASSERT(server);
    says(server,
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    ASSERT(run_until(is_closed, client));
    ASSERT_STR_EQ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde", buf_text(&client->in));
    client_free(client);
    tear_down_proxy();
    PASS();
}

/* Answers. */

TEST answers_pass_as_they_are(void)
{
    static const struct {
        const char *answer;
        bool closes;
        const char *expected; /* NULL = the same */
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\nhi",
         false, NULL},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2;e\r\nhi\r\n0\r\nX: "
         "1\r\n\r\n",
         false, NULL},
        {"HTTP/1.1 307 Temporary Redirect\r\nLocation: /dashboard\r\nContent-Length: 0\r\n\r\n",
         false, NULL},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\nETag: x\r\n\r\n", false, NULL},
        {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
         false, NULL},
        {"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", false,
         "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\r\nhi",
         false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
        {"HTTP/1.0 200 OK\r\nX: y\r\n\r\nuntil the end", true,
         "HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\nuntil the end"},
        {"HTTP/1.1 200 OK\r\n\r\nuntil the end", true,
         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end"},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nextra", false,
         "HTTP/1.1 204 No Content\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nSmuggled: 1\r\n\r\n",
         false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
        {"HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nhi", false,
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
    };
    ASSERT(set_up_proxy());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *expected = rows[i].expected ? rows[i].expected : rows[i].answer;
        ASSERT_STR_EQ(expected, answer_of(GET("/p/a"), rows[i].answer, rows[i].closes));
    }
    ASSERT_EQ(0, hub.failed);
    tear_down_proxy();
    PASS();
}

TEST head_has_no_body(void)
{
    ASSERT(set_up_proxy());
    ASSERT_STR_EQ("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n",
                  answer_of("HEAD /p/a HTTP/1.1\r\n" HOST "\r\n",
                            "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", false));
    tear_down_proxy();
    PASS();
}

TEST hostile_answers_are_refused(void)
{
    static const char *const bad[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
        "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: \x01\r\n\r\n",
        "HTTP/2 200\r\n\r\n\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "garbage without an end",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        "\r\n\r\n",
    };
    ASSERT(set_up_proxy());
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int n = (int)i + 1;
        struct client *client = client_with(GET("/p/a"));
        struct client *server = server_gets(n, "\r\n\r\n");
        ASSERT(server);
        says(server, bad[i]);
        ASSERTm(bad[i], run_until(is_closed, client));
        ASSERTm(bad[i], starts(client, "HTTP/1.1 502 Bad Gateway\r\n"));
        ASSERTm(bad[i], strstr(buf_text(&client->in), "\r\n\r\nno answer"));
        ASSERT(run_until(is_done, &n));
        client_free(client);
    }
    ASSERT_EQ(0, hub.reusable);
    tear_down_proxy();
    PASS();
}

TEST a_server_that_says_more_than_its_answer_is_not_asked_again(void)
{
    static const char *const more[] = {
        "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokx",
    };
    ASSERT(set_up_proxy());
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        int n = (int)i + 1;
        struct client *client = client_with(GET("/p/a"));
        struct client *server = server_gets(n, "\r\n\r\n");
        ASSERT(server);
        says(server, more[i]);
        ASSERT(run_until(is_done, &n));
        client_free(client);
    }
    ASSERT_EQ(0, hub.reusable);
    tear_down_proxy();
    PASS();
}

TEST an_endless_head_is_refused(void)
{
    ASSERT(set_up_proxy());
    CLEANUP_BUF struct buf text = BUF_INIT(BIG);
    buf_adds(&text, "HTTP/1.1 200 OK\r\nX: ");
    while (text.size < RESPONSE_HEAD_MAX + 1000)
        buf_addc(&text, 'x');
    struct client *client = client_with(GET("/p/a"));
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    client_send(server, text.data, text.size);
    ASSERT(run_until(is_closed, client));
    ASSERT(starts(client, "HTTP/1.1 502 "));
    ASSERT_STR_EQ("its head is larger than 64 KiB", hub.why);
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST endless_informational_answers_are_refused(void)
{
    ASSERT(set_up_proxy());
    CLEANUP_BUF struct buf text = BUF_INIT(BIG);
    for (int i = 0; i < 100; i++)
        buf_adds(&text, "HTTP/1.1 102 Processing\r\n\r\n");
    struct client *client = client_with(GET("/p/a"));
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    client_send(server, text.data, text.size);
    ASSERT(run_until(is_closed, client));
    ASSERT(strstr(buf_text(&client->in), "HTTP/1.1 502 "));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST a_head_may_come_byte_by_byte(void)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
                               "3\r\n\r\nabc";
    ASSERT(set_up_proxy());
    struct client *client = client_with(GET("/p/a"));
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        ASSERT_EQ(1, send(server->fd, text + i, 1, MSG_NOSIGNAL));
        ASSERT(run_until(has_server, &(int){1}));
    }
    ASSERT(gets(client, text, 1));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST a_cut_answer_is_seen_as_cut(void)
{
    static const char *const cut[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\nmore",
    };
    ASSERT(set_up_proxy());
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        const char *got = answer_of(GET("/p/a"), cut[i], true);
        ASSERTm(got, i == 2 || strstr(got, "half")); /* a piece with a fault is not passed on */
        ASSERTm(got, !strstr(got, "more") && !strstr(got, "\r\n0\r\n\r\n"));
    }
    ASSERT_EQ(0, hub.reusable);
    tear_down_proxy();
    PASS();
}

TEST a_server_that_closes_without_an_answer_is_told(void)
{
    ASSERT(set_up_proxy());
    const char *got = answer_of(GET("/p/a"), "", true);
    ASSERT_EQ(0, strncmp(got, "HTTP/1.1 500 ", 13));
    got = answer_of(GET("/p/a"), "HTTP/1.1 200 OK\r\nX", true);
    ASSERT_EQ(0, strncmp(got, "HTTP/1.1 500 ", 13));
    tear_down_proxy();
    PASS();
}

TEST a_server_that_says_nothing_is_a_timeout(void)
{
    static const struct proxy_limits limits = {.stall_ms = 50, .idle_ms = 50};
    ASSERT(set_up_limited(&limits));
    struct client *client = client_with(GET("/p/a"));
    ASSERT(run_until(is_closed, client));
    ASSERT(starts(client, "HTTP/1.1 504 "));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST an_answer_before_the_end_of_the_request_arrives(void)
{
    ASSERT(set_up_proxy());
    struct client *client =
        client_with("PUT /p/a HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc");
    struct client *server = server_gets(1, "abc");
    ASSERT(server);
    says(server, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
    ASSERT(run_until(is_closed, client));
    ASSERT_STR_EQ(
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
        buf_text(&client->in));
    client_free(client);
    tear_down_proxy();
    PASS();
}

/* Fetches. */

static struct {
    int done, status;
    char error[100], body[100];
} fetched;

static void on_fetched(void *arg, const struct fetch_result *result)
{
    fetched.done++;
    fetched.status = result->error ? 0 : result->response->status;
    snprintf(fetched.error, sizeof fetched.error, "%s", result->error ? result->error : "");
    snprintf(fetched.body, sizeof fetched.body, "%s", result->error ? "" : buf_text(result->body));
}

static bool is_fetched(void *arg)
{
    return fetched.done > 0;
}

TEST a_fetch_reads_every_kind_of_answer(void)
{
    static const struct {
        const char *answer;
        int status;
        const char *body;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi"},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", 404, ""},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", 200,
         "hi"},
        {"HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", 0, ""},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nlarge", 0, ""},
        {"nonsense\r\n\r\n", 0, ""},
        {"", 0, ""},
    };
    ASSERT(set_up_proxy());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf request = BUF_INIT(1000);
        memset(&fetched, 0, sizeof fetched);
        buf_adds(&request, GET("/x"));
        ASSERT(fetch_new(seen.loop, new_server(), &request, false, 1000, 10000, on_fetched, NULL));
        struct client *server = server_gets(hub.count, "\r\n\r\n");
        ASSERT(server);
        says(server, rows[i].answer);
        server_close(server);
        ASSERT(run_until(is_fetched, NULL));
        ASSERT_EQm(rows[i].answer, rows[i].status, fetched.status);
        ASSERT_STR_EQ(rows[i].body, fetched.body);
        ASSERT_EQ(rows[i].status == 0, fetched.error[0] != '\0');
    }
    tear_down_proxy();
    PASS();
}

SUITE(proxy)
{
    RUN_TEST(a_request_arrives_with_its_edits);
    RUN_TEST(connection_cannot_take_the_framing_away);
    RUN_TEST(connection_counts_however_often_it_is_sent);
    RUN_TEST(bodies_and_the_next_request_keep_apart);
    RUN_TEST(a_chunked_upload_passes_as_it_is);
    RUN_TEST(wrong_chunks_of_a_client_end_both);
    RUN_TEST(a_client_that_leaves_ends_the_exchange);
    RUN_TEST(http_1_0_clients_get_no_chunks);
    RUN_TEST(answers_pass_as_they_are);
    RUN_TEST(head_has_no_body);
    RUN_TEST(hostile_answers_are_refused);
    RUN_TEST(a_server_that_says_more_than_its_answer_is_not_asked_again);
    RUN_TEST(an_endless_head_is_refused);
    RUN_TEST(endless_informational_answers_are_refused);
    RUN_TEST(a_head_may_come_byte_by_byte);
    RUN_TEST(a_cut_answer_is_seen_as_cut);
    RUN_TEST(a_server_that_closes_without_an_answer_is_told);
    RUN_TEST(a_server_that_says_nothing_is_a_timeout);
    RUN_TEST(an_answer_before_the_end_of_the_request_arrives);
    RUN_TEST(a_fetch_reads_every_kind_of_answer);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    log_setup(getenv("DEBUG") ? LOG_DEBUG : LOG_WARN, LOG_TEXT);
    RUN_SUITE(proxy);
    GREATEST_MAIN_END();
}
