#include "http_client.h"

/* Answers. */

TEST an_answer_has_the_promised_headers(void)
{
    ASSERT(set_up());
    struct client *client = client_with("POST /a%20b?x=1&word=c%2Bd+e HTTP/1.1\r\n" HOST
                                        "X-Sent: it\r\nContent-Length: 3\r\n\r\nabc");
    ASSERT(gets(client, "{\"size\":3,\"path\":\"/a%20b\"}", 1));
    ASSERT_STR_EQ("POST /a%20b localhost c+d e it 3", seen.last);
    ASSERT(starts(client, "HTTP/1.1 200 OK\r\n"));
    ASSERT(strstr(client->in.data, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
    ASSERT(strstr(client->in.data, "X-Content-Type-Options: nosniff\r\n"));
    ASSERT(strstr(client->in.data, "Content-Type: application/json\r\n"));
    ASSERT(strstr(client->in.data, "Content-Length: 26\r\n"));
    ASSERT_FALSE(strstr(client->in.data, "Access-Control"));
    buf_clear(&client->in);
    client_send(client, GET("/html"), strlen(GET("/html")));
    ASSERT(gets(client, "<p>hi</p>", 1));
    ASSERT(strstr(client->in.data, "X-Frame-Options: DENY\r\n"));
    buf_clear(&client->in);
    client_send(client, GET("/error"), strlen(GET("/error")));
    ASSERT(gets(client, "{\"error\":\"no luck\",\"code\":\"CONFLICT\",\"hint\":\"wait\"}", 1));
    ASSERT(starts(client, "HTTP/1.1 409 "));
    client_free(client);
    tear_down();
    PASS();
}

static bool is_held(void *arg)
{
    return seen.held != NULL;
}

TEST an_answer_may_come_later(void)
{
    ASSERT(set_up());
    struct client *client = client_with(GET("/later"));
    for (int i = 0; i < 3; i++) {
        ASSERT(run_until(is_held, NULL));
        struct http_request *held = seen.held;
        seen.held = NULL;
        http_reply_text(held, 201, "text/plain", "done");
        ASSERT(gets(client, "done", i + 1));
        client_send(client, GET("/later"), strlen(GET("/later")));
    }
    ASSERT(run_until(is_held, NULL));
    ASSERT_EQ(0, seen.gone);
    client_free(client);
    tear_down();
    ASSERT_EQ(1, seen.gone);
    PASS();
}

static bool is_gone(void *arg)
{
    return seen.gone == 1;
}

TEST a_handler_is_told_when_the_client_leaves(void)
{
    ASSERT(set_up());
    int before = open_descriptors();
    struct client *client = client_with(GET("/later"));
    ASSERT(run_until(is_held, NULL));
    client_free(client);
    ASSERT(run_until(is_gone, NULL));
    ASSERT(run_until(descriptors_are, &before));
    tear_down();
    ASSERT_EQ(1, seen.gone);
    PASS();
}

TEST stopping_tells_the_handlers_that_wait(void)
{
    ASSERT(set_up());
    struct client *client = client_with(GET("/later"));
    ASSERT(run_until(is_held, NULL));
    http_free(seen.server);
    ASSERT_EQ(1, seen.gone);
    client_free(client);
    loop_free(seen.loop);
    PASS();
}

TEST a_handler_may_answer_another_request(void)
{
    ASSERT(set_up());
    struct client *first = client_with(GET("/later"));
    ASSERT(run_until(is_held, NULL));
    struct client *second = client_with(GET("/release"));
    ASSERT(gets(first, "released", 1));
    ASSERT(gets(second, "/release", 1));
    client_free(first);
    client_free(second);
    tear_down();
    PASS();
}

TEST what_is_pipelined_behind_a_late_answer_waits_for_it(void)
{
    ASSERT(set_up());
    struct client *client = client_with(GET("/later") GET("/next"));
    ASSERT(run_until(is_held, NULL));
    ASSERT_EQ(1, seen.handled[OWNER_WORKER]);
    http_reply_text(seen.held, 200, "text/plain", "done");
    ASSERT(gets(client, "/next", 1));
    ASSERT(strstr(client->in.data, "done") < strstr(client->in.data, "/next"));
    client_free(client);
    tear_down();
    PASS();
}

TEST pipelined_requests_are_answered_in_order(void)
{
    ASSERT(set_up());
    struct client *client = client_with(
        GET("/1") "POST /2 HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhi" GET("/3") GET("/4"));
    ASSERT(gets(client, "\"path\":\"/4\"}", 1));
    const char *one = strstr(client->in.data, "/1"), *two = strstr(client->in.data, "/2"),
               *three = strstr(client->in.data, "/3"), *four = strstr(client->in.data, "/4");
    ASSERT(one && one < two && two < three && three < four);
    client_free(client);
    tear_down();
    PASS();
}

TEST old_clients_and_close_are_served(void)
{
    ASSERT(set_up());
    struct client *client = client_with("GET /old HTTP/1.0\r\n\r\n");
    ASSERT(run_until(is_closed, client));
    ASSERT(strstr(buf_text(&client->in), "{\"size\":0,\"path\":\"/old\"}"));
    client_free(client);
    client = client_with("GET /new HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    ASSERT(run_until(is_closed, client));
    ASSERT(strstr(buf_text(&client->in), "{\"size\":0,\"path\":\"/new\"}"));
    client_free(client);
    client = client_with("HEAD /h HTTP/1.1\r\n" HOST "\r\nOPTIONS * HTTP/1.1\r\n" HOST "\r\n");
    ASSERT(gets(client, "\"path\":\"*\"", 1));
    ASSERT_FALSE(strstr(client->in.data, "/h"));
    client_free(client);
    client = client_with("GET http://localhost:8787?word=w HTTP/1.1\r\n" HOST "\r\n");
    ASSERT(gets(client, "\"path\":\"/\"", 1));
    ASSERT_STR_EQ("GET / localhost w - 0", seen.last);
    client_free(client);
    tear_down();
    PASS();
}

/* Bodies. */

static char *post(size_t size, const char *extra, size_t *total)
{
    char *text = malloc(size + 512);
    int head = snprintf(text, 512, "POST /b HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n%s\r\n",
                        size, extra);
    memset(text + head, 'x', size);
    *total = (size_t)head + size;
    return text;
}

TEST a_large_body_arrives_whole(void)
{
    size_t total;
    char *text = post(BIG, "", &total);
    ASSERT(set_up());
    struct client *client = client_new();
    client_send(client, text, total);
    ASSERT(gets(client, "{\"size\":1048576,", 1));
    client_send(client, text, total);
    ASSERT(gets(client, "{\"size\":1048576,", 2));
    client_free(client);
    tear_down();
    free(text);
    PASS();
}

TEST a_chunked_body_arrives_whole(void)
{
    ASSERT(set_up());
    struct client *client =
        client_with("POST /c HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\n\r\n"
                    "GET /after HTTP/1.1\r\n" HOST "\r\n");
    ASSERT(gets(client, "{\"size\":19,\"path\":\"/c\"}", 1));
    ASSERT(gets(client, "/after", 1));
    client_free(client);
    tear_down();
    PASS();
}

TEST a_body_over_the_limit_gets_413(void)
{
    size_t total;
    char *text = post(65 * BIG, "", &total);
    ASSERT(set_up());
    int before = open_descriptors();
    struct client *client = client_new();
    client_send(client, text, total);
    ASSERT(run_until(is_closed, client));
    ASSERT(starts(client, "HTTP/1.1 413 "));
    ASSERT(strstr(client->in.data, "\"code\":\"BODY_TOO_LARGE\""));
    client_free(client);
    free(text);
    ASSERT(refused("POST /b HTTP/1.1\r\n" HOST "Content-Length: 68157440\r\n"
                   "Expect: 100-continue\r\n\r\n",
                   "HTTP/1.1 413 ", "BODY_TOO_LARGE"));
    ASSERT_EQ(0, seen.handled[OWNER_WORKER]);
    ASSERT(run_until(descriptors_are, &before));
    tear_down();
    PASS();
}

TEST a_chunked_body_over_the_limit_gets_413(void)
{
    static char text[4096];
    struct http_limits limits = http_limits_default;
    limits.body_max = 1000;
    int size = snprintf(text, sizeof text,
                        "POST /c HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 11; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "64\r\n%0100d\r\n", i);
    ASSERT(set_up_with(&limits, &config));
    ASSERT(refused(text, "HTTP/1.1 413 ", "BODY_TOO_LARGE"));
    ASSERT_EQ(0, seen.handled[OWNER_WORKER]);
    tear_down();
    PASS();
}

TEST expect_gets_100_before_the_body(void)
{
    ASSERT(set_up());
    struct client *client = client_with("POST /e HTTP/1.1\r\n" HOST
                                        "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    ASSERT(gets(client, "HTTP/1.1 100 Continue\r\n\r\n", 1));
    client_send(client, "ok", 2);
    ASSERT(gets(client, "{\"size\":2,", 1));
    client_free(client);
    tear_down();
    PASS();
}

/* Who is served. */

TEST requests_are_owned_by_host_and_path_each_time(void)
{
    static const char container[] = "GET /api/ping HTTP/1.1\r\nHost: 3000-Box-k.localhost\r\n\r\n";
    static const char preview[] = "GET / HTTP/1.1\r\nHost: 8080-box-k.localhost\r\n\r\n";
    ASSERT(set_up());
    struct client *client = client_with(GET("/w"));
    ASSERT(gets(client, "/w", 1));
    client_send(client, GET("/cdn-cgi/local/info"), strlen(GET("/cdn-cgi/local/info")));
    ASSERT(gets(client, "/cdn-cgi/local/info", 1));
    client_send(client, container, strlen(container));
    ASSERT(gets(client, "/api/ping", 1));
    ASSERT_STR_EQ("GET /api/ping 3000-box-k - - 0", seen.last);
    for (int i = 0; i <= OWNER_CONTAINER; i++)
        ASSERT_EQ(1, seen.handled[i]);
    client_send(client, preview, strlen(preview));
    ASSERT(gets(client, "\"code\":\"INVALID_TOKEN\"", 1));
    ASSERT(run_until(is_closed, client));
    client_free(client);
    tear_down();
    PASS();
}

TEST foreign_hosts_origins_and_sites_get_403(void)
{
    ASSERT(set_up());
    ASSERT(refused("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 403 ",
                   "localhost, 127.0.0.1, [::1]"));
    ASSERT(refused("POST /cdn-cgi/local/reset HTTP/1.1\r\n" HOST
                   "Origin: http://8080-x-tok.localhost:8787\r\nContent-Length: 2\r\n\r\nhi",
                   "HTTP/1.1 403 ", "ORIGIN_NOT_ALLOWED"));
    ASSERT(refused(GET("/") "GET /x HTTP/1.1\r\n" HOST "Sec-Fetch-Site: cross-site\r\n\r\n",
                   "HTTP/1.1 200 ", "ORIGIN_NOT_ALLOWED"));
    ASSERT(refused("OPTIONS /x HTTP/1.1\r\n" HOST "Origin: https://evil.example\r\n\r\n",
                   "HTTP/1.1 403 ", "ORIGIN_NOT_ALLOWED"));
    ASSERT_EQ(1, seen.handled[OWNER_WORKER]);
    tear_down();
    PASS();
}

TEST a_token_is_asked_for(void)
{
    struct http_config with = config;
    with.token = "tok";
    ASSERT(set_up_with(&http_limits_default, &with));
    ASSERT(refused(GET("/"), "HTTP/1.1 401 ", "UNAUTHORIZED"));
    struct client *client =
        client_with("GET /t HTTP/1.1\r\n" HOST "Authorization: Bearer tok\r\n\r\n");
    ASSERT(gets(client, "/t", 1));
    client_free(client);
    tear_down();
    PASS();
}

/* Smuggling, as a first request and behind a good one. */

static const char *smuggling[] = {
    "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\nhello",
    "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\nhello",
    "POST / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\nhello",
    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
    "POST / HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\n" HOST "X: a\r\n Content-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\tx\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\n" HOST "X: a\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\n" HOST "\r\n",
    "GET / HTTP/1.1\r\n" HOST HOST "\r\n",
    "GET / HTTP/1.1\r\n" HOST "Host: evil.example\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET http://evil.example/ HTTP/1.1\r\n" HOST "\r\n",
    "GET /a b HTTP/1.1\r\n" HOST "\r\n",
    "GET / HTTP/1.1\r\n" HOST "X: \x01\r\n\r\n",
    "GET /\r\n\r\n",
};

TEST smuggling_gets_400_and_close(void)
{
    ASSERT(set_up());
    for (size_t i = 0; i < sizeof smuggling / sizeof smuggling[0]; i++)
        ASSERTm(smuggling[i], refused(smuggling[i], "HTTP/1.1 400 ", "\"code\":\""));
    ASSERT_EQ(0, seen.handled[OWNER_WORKER]);
    ASSERT(refused("GET / HTTP/3.0\r\n" HOST "\r\n", "HTTP/1.1 505 ", "\"code\":\""));
    tear_down();
    PASS();
}

TEST smuggling_behind_a_good_request_gets_400_and_close(void)
{
    ASSERT(set_up());
    int good = 0;
    for (size_t i = 0; i < sizeof smuggling / sizeof smuggling[0]; i++) {
        struct client *client = client_with(GET("/good"));
        ASSERT(gets(client, "/good", 1));
        buf_clear(&client->in);
        client_send(client, smuggling[i], strlen(smuggling[i]));
        ASSERTm(smuggling[i], run_until(is_closed, client));
        ASSERTm(smuggling[i], starts(client, "HTTP/1.1 400 "));
        client_free(client);
        ASSERT_EQm(smuggling[i], ++good, seen.handled[OWNER_WORKER]);
    }
    tear_down();
    PASS();
}

TEST unusual_but_correct_heads_are_served_each_time(void)
{
    static const char head[] = "GET /fine?a=b&c=d%20e&f HTTP/1.1\r\nX-Empty:\r\nX-Blank:  \r\n"
                               "hOsT:localhost:8787\r\nX-Tab:\ta \t\r\nCookie: a=b; c=d\r\n"
                               "Cookie: e\r\nX-High: \xc3\xa4\r\n\r\n";
    ASSERT(set_up());
    struct client *client = client_new();
    for (int i = 0; i < 3; i++) {
        client_send(client, head, strlen(head));
        ASSERT(gets(client, "\"path\":\"/fine\"}", i + 1));
    }
    client_free(client);
    tear_down();
    PASS();
}

TEST the_largest_head_is_served_each_time(void)
{
    static char text[HEAD_MAX + 1];
    int size = snprintf(text, sizeof text, "GET /large HTTP/1.1\r\n" HOST);
    for (int i = 0; i < HEAD_FIELDS_MAX - 2; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "X-%d: v\r\n", i);
    size += snprintf(text + size, sizeof text - (size_t)size, "Cookie: ");
    memset(text + size, 'c', (size_t)(HEAD_MAX - 4 - size));
    memcpy(text + HEAD_MAX - 4, "\r\n\r\n", 5);
    ASSERT(set_up());
    struct client *client = client_new();
    for (int i = 0; i < 3; i++) {
        client_send(client, text, HEAD_MAX);
        ASSERT(gets(client, "\"path\":\"/large\"}", i + 1));
    }
    client_free(client);
    tear_down();
    PASS();
}

/* Slow, many, and leaving clients. */

TEST slow_clients_are_dropped(void)
{
    struct http_limits limits = http_limits_default;
    limits.head_ms = limits.body_ms = limits.idle_ms = 50;
    ASSERT(set_up_with(&limits, &config));
    int before = open_descriptors();
    ASSERT(refused("GET / HTTP/1.1\r\nHost: loc", "HTTP/1.1 408 ", "REQUEST_TIMEOUT"));
    ASSERT(refused("", "HTTP/1.1 408 ", "REQUEST_TIMEOUT"));
    struct client *body = client_with("POST / HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhel");
    struct client *chunk =
        client_with("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1");
    struct client *idle = client_with(GET("/i"));
    struct client *next = client_with(GET("/n") "GET / HTTP/1.1\r\nX");
    ASSERT(run_until(is_closed, body));
    ASSERT(run_until(is_closed, chunk));
    ASSERT(run_until(is_closed, idle));
    ASSERT(run_until(is_closed, next));
    ASSERT(starts(idle, "HTTP/1.1 200 "));
    ASSERT(starts(next, "HTTP/1.1 200 "));
    ASSERT_EQ(2, seen.handled[OWNER_WORKER]);
    client_free(body);
    client_free(chunk);
    client_free(idle);
    client_free(next);
    ASSERT(run_until(descriptors_are, &before));
    tear_down();
    PASS();
}

TEST a_deadline_does_not_end_a_request_that_waits_for_its_answer(void)
{
    struct http_limits limits = http_limits_default;
    limits.head_ms = limits.body_ms = limits.idle_ms = 20;
    ASSERT(set_up_with(&limits, &config));
    struct client *slow = client_with("POST /later HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n1");
    ASSERT(run_until(is_held, NULL));
    ASSERT(refused("GET", "HTTP/1.1 408 ", "REQUEST_TIMEOUT"));
    ASSERT(refused("GET", "HTTP/1.1 408 ", "REQUEST_TIMEOUT"));
    http_reply_text(seen.held, 200, "text/plain", "at last");
    ASSERT(gets(slow, "at last", 1));
    client_free(slow);
    tear_down();
    PASS();
}

TEST the_connection_that_waits_longest_gets_503_when_there_are_too_many(void)
{
    struct http_limits limits = http_limits_default;
    struct client *waiting[4];
    limits.waiting_max = 3;
    limits.connections_max = 1;
    ASSERT(set_up_with(&limits, &config));
    for (int i = 0; i < 4; i++)
        waiting[i] = client_with("GET /later HT");
    ASSERT(gets(waiting[0], "TOO_MANY_CONNECTIONS", 1));
    ASSERT(starts(waiting[0], "HTTP/1.1 503 "));
    client_send(waiting[1], "TP/1.1\r\n" HOST "\r\n", strlen("TP/1.1\r\n" HOST "\r\n"));
    ASSERT(run_until(is_held, NULL));
    client_send(waiting[2], "TP/1.1\r\n" HOST "\r\n", strlen("TP/1.1\r\n" HOST "\r\n"));
    ASSERT(gets(waiting[2], "TOO_MANY_CONNECTIONS", 1));
    http_reply_text(seen.held, 200, "text/plain", "at last");
    ASSERT(gets(waiting[1], "at last", 1));
    for (int i = 0; i < 4; i++)
        client_free(waiting[i]);
    tear_down();
    PASS();
}

TEST an_idle_connection_makes_room_for_a_new_one(void)
{
    struct http_limits limits = http_limits_default;
    struct client *clients[20];
    limits.connections_max = 8;
    ASSERT(set_up_with(&limits, &config));
    for (int i = 0; i < 20; i++) {
        clients[i] = client_with(GET("/x"));
        ASSERT(gets(clients[i], "\"path\":\"/x\"", 1));
        ASSERT(seen.server->connections <= 9);
    }
    ASSERT(run_until(is_closed, clients[0]));
    for (int i = 0; i < 20; i++)
        client_free(clients[i]);
    tear_down();
    PASS();
}

TEST clients_that_leave_in_the_middle_leave_nothing_behind(void)
{
    static const char *parts[] = {
        "",
        "GET / HT",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhel",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        GET("/bytes"),
    };
    ASSERT(set_up());
    int before = open_descriptors();
    for (int round = 0; round < 4; round++) {
        struct client *clients[50];
        for (int i = 0; i < 50; i++)
            clients[i] = client_with(parts[i % 5]);
        struct client *probe = client_with(GET("/probe"));
        ASSERT(gets(probe, "/probe", 1));
        client_free(probe);
        for (int i = 0; i < 50; i++)
            client_free(clients[i]);
    }
    ASSERT(run_until(descriptors_are, &before));
    ASSERT_EQ(0, seen.server->connections);
    ASSERT_EQ(0, seen.server->heads.count);
    tear_down();
    PASS();
}

static bool has_backed_off(void *arg)
{
    return timer_armed(&seen.server->backoff);
}

TEST running_out_of_descriptors_is_survived(void)
{
    struct rlimit old, few;
    struct client *clients[40];
    struct http_limits limits = http_limits_default;
    limits.backoff_ms = 5;
    getrlimit(RLIMIT_NOFILE, &old);
    ASSERT(set_up_with(&limits, &config));
    few = old;
    few.rlim_cur = (rlim_t)open_descriptors() + 40 + 10;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int i = 0; i < 40; i++)
        clients[i] = client_with(GET("/x"));
    bool backed_off = run_until(has_backed_off, NULL);
    for (int i = 0; i < 35; i++)
        client_free(clients[i]);
    bool served = gets(clients[39], "\"path\":\"/x\"", 1);
    for (int i = 35; i < 40; i++)
        client_free(clients[i]);
    setrlimit(RLIMIT_NOFILE, &old);
    ASSERT(backed_off);
    ASSERT(served);
    tear_down();
    PASS();
}

/* Streams. */

TEST a_stream_flows_as_it_is_written(void)
{
    ASSERT(set_up());
    struct client *client = client_with(GET("/stream"));
    ASSERT(gets(client, "Cache-Control: no-cache\r\n", 1));
    ASSERT(gets(client, "Transfer-Encoding: chunked\r\n", 1));
    for (int i = 0; i < 5; i++) {
        stream_write(seen.stream, "data: {}\n\n", 10);
        ASSERT(gets(client, "data: {}\n\n", i + 1));
    }
    stream_end(seen.stream);
    ASSERT(gets(client, "\r\n0\r\n\r\n", 1));
    client_send(client, GET("/after"), strlen(GET("/after")));
    ASSERT(gets(client, "/after", 1));
    client_free(client);
    client = client_with("GET /stream HTTP/1.0\r\n\r\n");
    ASSERT(gets(client, "HTTP/1.1 200 OK", 1));
    stream_write(seen.stream, "plain", 5);
    ASSERT(gets(client, "plain", 1));
    stream_end(seen.stream);
    ASSERT(run_until(is_closed, client));
    client_free(client);
    tear_down();
    ASSERT_EQ(0, seen.aborted);
    PASS();
}

static bool is_aborted(void *arg)
{
    return seen.aborted == 1;
}

TEST a_stream_is_aborted_when_the_client_leaves(void)
{
    ASSERT(set_up());
    int before = open_descriptors();
    struct client *client = client_with(GET("/stream"));
    ASSERT(gets(client, "event-stream", 1));
    stream_write(seen.stream, "data: {}\n\n", 10);
    ASSERT(gets(client, "data: {}\n\n", 1));
    client_free(client);
    ASSERT(run_until(is_aborted, NULL));
    ASSERT(run_until(descriptors_are, &before));
    tear_down();
    PASS();
}

TEST a_stream_nobody_can_read_is_ended(void)
{
    ASSERT(set_up());
    struct client *client = client_with("HEAD /stream HTTP/1.1\r\n" HOST "\r\n");
    ASSERT(run_until(is_aborted, NULL));
    client_send(client, GET("/after"), strlen(GET("/after")));
    ASSERT(gets(client, "/after", 1));
    client_free(client);
    tear_down();
    PASS();
}

/* Writes until the stream says to pause, again and again until it stays so. */
static bool is_stuck(void *arg)
{
    static char data[65536];
    size_t *total = arg;
    size_t before = *total;
    for (int i = 0; i < 64 && stream_write(seen.stream, data, sizeof data) == 0; i++)
        *total += sizeof data;
    return *total == before;
}

TEST a_client_that_stops_reading_stops_the_source(void)
{
    size_t total = 0;
    ASSERT(set_up());
    struct client *client = client_with(GET("/stream"));
    ASSERT(gets(client, "event-stream", 1));
    client->deaf = true;
    loop_unwatch(seen.loop, &client->watch);
    ASSERT(run_until(is_stuck, &total));
    ASSERTm("only socket buffers and the stream's limit hold bytes", total < 32 * BIG);
    ASSERT_EQ(0, seen.aborted);
    client_free(client);
    ASSERT(run_until(is_aborted, NULL));
    tear_down();
    PASS();
}

TEST a_stream_open_at_the_end_is_aborted(void)
{
    ASSERT(set_up());
    struct client *client = client_with(GET("/stream"));
    ASSERT(gets(client, "event-stream", 1));
    tear_down();
    ASSERT_EQ(1, seen.aborted);
    close(client->fd);
    buf_free(&client->in);
    free(client);
    PASS();
}

/* Ports. */

TEST a_taken_port_is_an_error_or_probed_past(void)
{
    struct http_config with = config;
    struct error err = {0};
    ASSERT(set_up());
    with.port = http_port(seen.server);
    ASSERT_EQ(NULL, http_new(seen.loop, &with, &err));
    ASSERT_EQ(EADDRINUSE, err.code);
    ASSERT(strstr(err.text, "is already in use"));
    with.probe = 10;
    struct http_server *second = http_new(seen.loop, &with, &err);
    ASSERT(second);
    ASSERT(http_port(second) != with.port);
    http_free(second);
    tear_down();
    PASS();
}

TEST both_loopback_addresses_are_served(void)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    ASSERT(set_up());
    if (seen.server->listeners[1].fd < 0) {
        tear_down();
        SKIPm("this machine has no ::1");
    }
    to.sin6_port = htons(http_port(seen.server));
    struct client *client = client_at((struct sockaddr *)&to, sizeof to);
    client_send(client, GET("/six"), strlen(GET("/six")));
    ASSERT(gets(client, "/six", 1));
    client_free(client);
    tear_down();
    PASS();
}

TEST other_addresses_need_a_token(void)
{
    struct http_config with = config;
    struct error err = {0};
    struct loop *loop = loop_new(&err);
    with.ip = "0.0.0.0";
    ASSERT_EQ(NULL, http_new(loop, &with, &err));
    ASSERT(strstr(err.text, "token"));
    with.ip = "nonsense";
    ASSERT_EQ(NULL, http_new(loop, &with, &err));
    loop_free(loop);
    PASS();
}

SUITE(http)
{
    RUN_TEST(an_answer_has_the_promised_headers);
    RUN_TEST(an_answer_may_come_later);
    RUN_TEST(a_handler_is_told_when_the_client_leaves);
    RUN_TEST(stopping_tells_the_handlers_that_wait);
    RUN_TEST(a_handler_may_answer_another_request);
    RUN_TEST(what_is_pipelined_behind_a_late_answer_waits_for_it);
    RUN_TEST(pipelined_requests_are_answered_in_order);
    RUN_TEST(old_clients_and_close_are_served);
    RUN_TEST(a_large_body_arrives_whole);
    RUN_TEST(a_chunked_body_arrives_whole);
    RUN_TEST(a_body_over_the_limit_gets_413);
    RUN_TEST(a_chunked_body_over_the_limit_gets_413);
    RUN_TEST(expect_gets_100_before_the_body);
    RUN_TEST(requests_are_owned_by_host_and_path_each_time);
    RUN_TEST(foreign_hosts_origins_and_sites_get_403);
    RUN_TEST(a_token_is_asked_for);
    RUN_TEST(smuggling_gets_400_and_close);
    RUN_TEST(smuggling_behind_a_good_request_gets_400_and_close);
    RUN_TEST(unusual_but_correct_heads_are_served_each_time);
    RUN_TEST(the_largest_head_is_served_each_time);
    RUN_TEST(slow_clients_are_dropped);
    RUN_TEST(a_deadline_does_not_end_a_request_that_waits_for_its_answer);
    RUN_TEST(the_connection_that_waits_longest_gets_503_when_there_are_too_many);
    RUN_TEST(an_idle_connection_makes_room_for_a_new_one);
    RUN_TEST(clients_that_leave_in_the_middle_leave_nothing_behind);
    RUN_TEST(running_out_of_descriptors_is_survived);
    RUN_TEST(a_stream_flows_as_it_is_written);
    RUN_TEST(a_stream_is_aborted_when_the_client_leaves);
    RUN_TEST(a_stream_nobody_can_read_is_ended);
    RUN_TEST(a_client_that_stops_reading_stops_the_source);
    RUN_TEST(a_stream_open_at_the_end_is_aborted);
    RUN_TEST(a_taken_port_is_an_error_or_probed_past);
    RUN_TEST(both_loopback_addresses_are_served);
    RUN_TEST(other_addresses_need_a_token);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    log_setup(getenv("DEBUG") ? LOG_DEBUG : LOG_WARN, LOG_TEXT);
    RUN_SUITE(http);
    GREATEST_MAIN_END();
}
