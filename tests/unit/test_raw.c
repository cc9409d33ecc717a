/* Requests that go from the door to a server without libmicrohttpd, and those that follow them on
 * the same connection. */
#include "base/cleanup.h"
#include "http_client.h"
#include "proxy/edit.h"
#include "proxy/internal.h"

#define AT(host) "Host: " host ".localhost:8787\r\n"
#define RAW(path, host) "GET " path " HTTP/1.1\r\n" AT(host) "\r\n"

enum { SERVERS = 16 };
static struct {
    struct proxy *proxy;
    struct client *servers[SERVERS];
    int count;
    struct exchange *exchange;
    char label[HTTP_LABEL_MAX + 1]; /* of the exchange */
    struct proxy_request forward;
    int idle, next, left, done, reusable;
} hub;

static int new_server(void)
{
    int pair[2];
    struct client *server = calloc(1, sizeof *server);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    server->in = BUF_INIT(64 * BIG);
    server->fd = pair[0];
    server->watch = (struct watch){.ready = client_ready, .arg = server, .fd = -1};
    loop_watch(seen.loop, &server->watch, server->fd, EPOLLIN);
    hub.servers[hub.count++] = server;
    return pair[1];
}

static int make_forward(const struct http_raw *raw)
{
    struct edit edit = {.path = raw->path, .query = raw->head->query, .host = "localhost:8080"};
    return edit_raw(raw, &edit, &hub.forward);
}

static void on_raw(void *arg, struct http_raw *raw);

static void on_idle(void *arg)
{
    hub.idle++;
}

static void on_next(void *arg)
{
    char data[HEAD_MAX + 1];
    struct head head;
    struct http_raw raw;
    hub.next++;
    bool read = http_raw_next(seen.server, exchange_client(hub.exchange), data, &head, &raw);
    bool same = read && strcmp(raw.label, hub.label) == 0 && make_forward(&raw) == 0;
    if (same && (hub.forward.repeatable || exchange_is_fresh(hub.exchange))) {
        exchange_again(hub.exchange, &hub.forward);
        return;
    }
    if (same)
        buf_free(&hub.forward.head);
    hub.left++;
    raw.fd = exchange_leave(hub.exchange);
    if (read)
        on_raw(NULL, &raw);
    else
        http_give(seen.server, raw.fd);
}

static void on_done(void *arg, int reusable)
{
    hub.done++;
    hub.reusable += reusable >= 0;
    cleanup_fd(&reusable);
}

static void on_raw(void *arg, struct http_raw *raw)
{
    if (strcmp(raw->label, "refused") == 0) {
        http_raw_reply(raw->server, raw->fd, 410, "text/plain", "gone", 4);
        return;
    }
    memcpy(hub.label, raw->label, sizeof hub.label);
    if (make_forward(raw) < 0)
        abort();
    struct exchange_start start = {
        .http = raw->server,
        .client = raw->fd,
        .server = new_server(),
        .request = &hub.forward,
        .events = {.idle = on_idle, .next = on_next, .done = on_done},
    };
    hub.exchange = exchange_new(hub.proxy, &start);
}

static bool set_up_limited(int idle_ms, const struct http_limits *http)
{
    struct http_config with = config;
    struct proxy_limits limits = proxy_limits_default;
    limits.idle_ms = idle_ms;
    with.raw = on_raw;
    memset(&hub, 0, sizeof hub);
    if (!set_up_with(http, &with))
        return false;
    hub.proxy = proxy_new(seen.loop, &limits);
    return hub.proxy != NULL;
}

static bool set_up_raw(int idle_ms)
{
    return set_up_limited(idle_ms, &http_limits_default);
}

static void tear_down_raw(void)
{
    proxy_free(hub.proxy);
    for (int i = 0; i < hub.count; i++)
        client_free(hub.servers[i]);
    tear_down();
}

static bool has_server(void *arg)
{
    return hub.count >= *(int *)arg;
}

static struct client *server_gets(int n, const char *text, int times)
{
    if (!run_until(has_server, &n))
        return NULL;
    return gets(hub.servers[n - 1], text, times) ? hub.servers[n - 1] : NULL;
}

static void says(struct client *client, const char *text)
{
    client_send(client, text, strlen(text));
}

static bool is_idle(void *arg)
{
    return hub.idle >= *(int *)arg;
}

static bool is_done(void *arg)
{
    return hub.done >= *(int *)arg;
}

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

TEST a_head_is_edited_and_the_body_stays_in_the_socket(void)
{
    ASSERT(set_up_raw(4000));
    struct client *client = client_with("\r\nPOST /a?b HTTP/1.1\r\n" AT(
        "8080-x-y") "X-One:  1 \r\nConnection: keep-alive, X-Hop\r\nX-Hop: "
                    "1\r\nContent-Length: 5\r\n\r\nhello");
    struct client *server = server_gets(1, "hello", 1);
    ASSERT(server);
    ASSERT_STR_EQ("POST /a?b HTTP/1.1\r\nHost: localhost:8080\r\nX-One: 1\r\nContent-Length: "
                  "5\r\n\r\nhello",
                  buf_text(&server->in));
    ASSERT_STR_EQ("8080-x-y", hub.label);
    says(server, OK);
    ASSERT(gets(client, "\r\n\r\nok", 1));
    client_free(client);
    tear_down_raw();
    PASS();
}

TEST the_next_request_has_the_same_server(void)
{
    ASSERT(set_up_raw(4000));
    struct client *client = client_with(RAW("/1", "8080-x-y"));
    for (int i = 1; i <= 5; i++) {
        struct client *server = server_gets(1, "\r\n\r\n", i);
        ASSERT(server);
        says(server, OK);
        ASSERT(gets(client, "\r\n\r\nok", i));
        ASSERT(run_until(is_idle, &i));
        says(client, RAW("/more", "8080-x-y"));
    }
    ASSERT(server_gets(1, "GET /more HTTP/1.1\r\nHost: localhost:8080\r\n\r\n", 5));
    ASSERT_EQ(1, hub.count);
    client_free(client);
    tear_down_raw();
    PASS();
}

TEST requests_that_come_at_once_are_answered_in_turn(void)
{
    ASSERT(set_up_raw(4000));
    struct client *client = client_with(RAW("/1", "8080-x-y") RAW("/2", "8080-x-y") GET("/html"));
    struct client *server = server_gets(1, "GET /1 ", 1);
    ASSERT(server);
    ASSERT_FALSE(strstr(server->in.data, "/2"));
    says(server, OK);
    ASSERT(server_gets(1, "GET /2 ", 1));
    says(server, OK);
    ASSERT(gets(client, "<p>hi</p>", 1));
    ASSERT_EQ(2, hub.next);
    client_free(client);
    tear_down_raw();
    PASS();
}

TEST another_owner_or_label_leaves_the_exchange(void)
{
    int one = 1;
    ASSERT(set_up_raw(4000));
    struct client *client = client_with(RAW("/1", "8080-x-y"));
    struct client *server = server_gets(1, "\r\n\r\n", 1);
    says(server, OK);
    ASSERT(run_until(is_idle, &one));
    says(client, RAW("/2", "8080-other-y"));
    server = server_gets(2, "GET /2 ", 1);
    ASSERT(server);
    ASSERT_EQ(1, hub.reusable); /* the first is free for others */
    says(server, OK);
    ASSERT(gets(client, "\r\n\r\nok", 2));
    says(client, GET("/html"));
    ASSERT(gets(client, "<p>hi</p>", 1));
    ASSERT_EQ(2, hub.left);
    client_free(client);
    tear_down_raw();
    PASS();
}

TEST a_server_that_closes_or_chatters_between_requests_is_dropped(void)
{
    for (int chatter = 0; chatter < 2; chatter++) {
        int one = 1;
        ASSERT(set_up_raw(4000));
        struct client *client = client_with(RAW("/1", "8080-x-y"));
        struct client *server = server_gets(1, "\r\n\r\n", 1);
        says(server, OK);
        ASSERT(gets(client, "\r\n\r\nok", 1));
        ASSERT(run_until(is_idle, &one));
        if (chatter) {
            says(server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong");
        } else {
            loop_unwatch(seen.loop, &server->watch);
            close(server->fd);
            server->fd = -1;
        }
        ASSERT(run_until(is_done, &one));
        ASSERT_EQ(0, hub.reusable);
        says(client, RAW("/2", "8080-x-y"));
        server = server_gets(2, "GET /2 ", 1);
        ASSERT(server);
        says(server, OK);
        ASSERT(gets(client, "\r\n\r\nok", 2));
        ASSERT_FALSE(strstr(client->in.data, "wrong"));
        client_free(client);
        tear_down_raw();
    }
    PASS();
}

TEST what_must_not_be_sent_twice_does_not_go_to_a_server_that_closed(void)
{
    int one = 1;
    ASSERT(set_up_raw(4000));
    struct client *client = client_with(RAW("/1", "8080-x-y"));
    struct client *server = server_gets(1, "\r\n\r\n", 1);
    says(server, OK);
    ASSERT(gets(client, "\r\n\r\nok", 1));
    ASSERT(run_until(is_idle, &one));
    /* Both at once, and the client is looked at first. */
    says(client, "POST /2 HTTP/1.1\r\n" AT("8080-x-y") "Content-Length: 2\r\n\r\nhi");
    loop_unwatch(seen.loop, &server->watch);
    close(server->fd);
    server->fd = -1;
    server = server_gets(2, "\r\n\r\nhi", 1);
    ASSERT(server);
    says(server, OK);
    ASSERT(gets(client, "\r\n\r\nok", 2));
    client_free(client);
    tear_down_raw();
    PASS();
}

TEST an_answer_with_something_behind_it_is_the_last_of_its_connection(void)
{
    int one = 1;
    ASSERT(set_up_raw(4000));
    struct client *client = client_with(RAW("/1", "8080-x-y"));
    struct client *server = server_gets(1, "\r\n\r\n", 1);
    says(server, OK "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong");
    ASSERT(gets(client, "\r\n\r\nok", 1));
    ASSERT(run_until(is_done, &one));
    ASSERT_EQ(0, hub.idle);
    says(client, RAW("/2", "8080-x-y"));
    server = server_gets(2, "GET /2 ", 1);
    ASSERT(server);
    says(server, OK);
    ASSERT(gets(client, "\r\n\r\nok", 2));
    ASSERT_FALSE(strstr(client->in.data, "wrong"));
    client_free(client);
    tear_down_raw();
    PASS();
}

TEST an_idle_exchange_gives_its_client_back_to_the_door(void)
{
    int one = 1;
    ASSERT(set_up_raw(20));
    struct client *client = client_with(RAW("/1", "8080-x-y"));
    struct client *server = server_gets(1, "\r\n\r\n", 1);
    says(server, OK);
    ASSERT(run_until(is_done, &one));
    ASSERT_EQ(0, (int)proxy_count(hub.proxy));
    says(client, GET("/html"));
    ASSERT(gets(client, "<p>hi</p>", 1));
    client_free(client);
    tear_down_raw();
    PASS();
}

TEST connections_between_requests_make_room_for_new_ones(void)
{
    enum { IDLE = 4 };
    static const char rest[] = " HTTP/1.1\r\n" HOST "\r\n";
    struct http_limits limits = http_limits_default;
    struct client *idle[IDLE], *slow[2];
    limits.waiting_max = IDLE;
    ASSERT(set_up_limited(20, &limits));
    for (int i = 0; i < IDLE; i++) {
        int done = i + 1;
        idle[i] = client_with(RAW("/1", "8080-x-y"));
        struct client *server = server_gets(i + 1, "\r\n\r\n", 1);
        ASSERT(server);
        says(server, OK);
        ASSERT(run_until(is_done, &done));
    }
    for (int i = 0; i < 2; i++) {
        slow[i] = client_with("GET /html");
        ASSERT(run_until(is_closed, idle[i])); /* the one that is idle longest */
    }
    for (int i = 0; i < 2; i++) {
        says(slow[i], rest);
        ASSERT(gets(slow[i], "<p>hi</p>", 1));
        client_free(slow[i]);
    }
    for (int i = 0; i < IDLE; i++)
        client_free(idle[i]);
    tear_down_raw();
    PASS();
}

TEST a_client_that_leaves_while_idle_leaves_a_server_for_others(void)
{
    int one = 1;
    ASSERT(set_up_raw(4000));
    struct client *client = client_with(RAW("/1", "8080-x-y"));
    struct client *server = server_gets(1, "\r\n\r\n", 1);
    says(server, OK);
    ASSERT(gets(client, "\r\n\r\nok", 1));
    ASSERT(run_until(is_idle, &one));
    client_free(client);
    ASSERT(run_until(is_done, &one));
    ASSERT_EQ(1, hub.reusable);
    tear_down_raw();
    PASS();
}

TEST a_raw_answer_closes_the_connection(void)
{
    ASSERT(set_up_raw(4000));
    struct client *client = client_with(RAW("/1", "refused"));
    ASSERT(gets(client, "HTTP/1.1 410 Gone", 1));
    ASSERT(gets(client, "\r\n\r\ngone", 1));
    ASSERT(run_until(is_closed, client));
    client_free(client);
    tear_down_raw();
    PASS();
}

SUITE(raw)
{
    RUN_TEST(a_head_is_edited_and_the_body_stays_in_the_socket);
    RUN_TEST(the_next_request_has_the_same_server);
    RUN_TEST(requests_that_come_at_once_are_answered_in_turn);
    RUN_TEST(another_owner_or_label_leaves_the_exchange);
    RUN_TEST(a_server_that_closes_or_chatters_between_requests_is_dropped);
    RUN_TEST(what_must_not_be_sent_twice_does_not_go_to_a_server_that_closed);
    RUN_TEST(an_answer_with_something_behind_it_is_the_last_of_its_connection);
    RUN_TEST(an_idle_exchange_gives_its_client_back_to_the_door);
    RUN_TEST(connections_between_requests_make_room_for_new_ones);
    RUN_TEST(a_client_that_leaves_while_idle_leaves_a_server_for_others);
    RUN_TEST(a_raw_answer_closes_the_connection);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    log_setup(LOG_WARN, LOG_TEXT);
    RUN_SUITE(raw);
    GREATEST_MAIN_END();
}
