/* The life of an exchange: who waits for whom, tunnels, kept connections, and what ends it. */
#include <netinet/in.h>
#include <sys/eventfd.h>

#include "proxy_hub.h"

/* Large bodies. */

static bool has_bytes(void *arg)
{
    struct client *client = arg;
    return client->in.size >= (size_t)client->times;
}

TEST a_reader_that_stops_stops_the_writer(void)
{
    ASSERT(set_up_proxy());
    size_t size = 16 * BIG;
    char *text = malloc(size);
    memset(text, 'x', size);
    int head = snprintf(text, 100, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size);
    text[head] = 'x';
    struct client *client = client_with(GET("/p/a"));
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    client->deaf = true;
    loop_unwatch(seen.loop, &client->watch);
    client_send(server, text, size);
    for (int i = 0; i < 50; i++)
        ASSERT(run_until(has_server, &(int){1}));
    ASSERTm("the writer had to wait", server->out_size > BIG);
    ASSERT(hub.exchange->client.out.size < 2 * SCRATCH_SIZE);
    client->deaf = false;
    loop_watch(seen.loop, &client->watch, client->fd, EPOLLIN);
    client->times = (int)size;
    ASSERT(run_until(has_bytes, client));
    client_free(client);
    free(text);
    tear_down_proxy();
    PASS();
}

TEST a_large_upload_arrives_whole(void)
{
    ASSERT(set_up_proxy());
    size_t size = 8 * BIG;
    char *text = malloc(size + 200);
    int head =
        snprintf(text, 200, "PUT /p/a HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", size);
    for (size_t i = 0; i < size; i++)
        text[(size_t)head + i] = (char)(i * 7 + i / 1000);
    struct client *client = client_new();
    client_send(client, text, (size_t)head + size);
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    const char *body = strstr(server->in.data, "\r\n\r\n") + 4;
    size_t before = (size_t)(body - server->in.data);
    server->times = (int)(before + size);
    ASSERT(run_until(has_bytes, server));
    ASSERT_EQ(0, memcmp(server->in.data + before, text + head, size));
    says(server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    ASSERT(gets(client, "200 OK", 1));
    client_free(client);
    free(text);
    tear_down_proxy();
    PASS();
}

/* Upgrades. */

#define UPGRADE "GET /p/ws HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define SWITCH                                                                                     \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

TEST an_upgrade_becomes_a_tunnel(void)
{
    int one = 1;
    ASSERT(set_up_proxy());
    struct client *client = client_with(UPGRADE "first");
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    ASSERT(strstr(server->in.data, "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
    ASSERT_FALSE(strstr(server->in.data, "first"));
    says(server, SWITCH "hello");
    ASSERT(gets(client, SWITCH "hello", 1));
    ASSERT(gets(server, "first", 1));
    says(client, "GET / HTTP/1.1\r\n\r\n");
    ASSERT(gets(server, "firstGET / HTTP/1.1\r\n\r\n", 1));
    ASSERT_EQ(1, hub.upgraded);
    ASSERT(hub.active >= 2);
    shutdown(client->fd, SHUT_WR);
    ASSERT(run_until(is_closed, server));
    ASSERT_EQ(3, send(server->fd, "end", 3, MSG_NOSIGNAL));
    ASSERT(gets(client, "end", 1));
    server_close(server);
    ASSERT(run_until(is_closed, client));
    ASSERT(run_until(is_done, &one));
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST a_refused_upgrade_is_an_answer(void)
{
    ASSERT(set_up_proxy());
    ASSERT_STR_EQ(
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno",
        answer_of(UPGRADE, "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno", false));
    tear_down_proxy();
    PASS();
}

TEST a_tunnel_ends_at_once_when_its_server_is_gone(void)
{
    int one = 1;
    ASSERT(set_up_proxy());
    struct client *client = client_with(UPGRADE);
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    says(server, SWITCH);
    ASSERT(gets(client, "101", 1));
    exchange_gone(hub.exchange, "gone");
    ASSERT(run_until(is_done, &one));
    ASSERT(run_until(is_closed, client));
    ASSERT_EQ(0, hub.failed);
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST idle_tunnels_hold_little_memory(void)
{
    ASSERT(sizeof(struct exchange) < 1500);
    PASS();
}

/* Kept connections. */

TEST a_stale_connection_is_replaced(void)
{
    ASSERT(set_up_proxy());
    hub.retry = hub.reused = true;
    struct client *client = client_with(GET("/p/a"));
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    server_close(server);
    while (hub.stale == 0)
        ASSERT(run_until(has_server, &(int){1}));
    exchange_reconnect(hub.exchange, new_server());
    server = server_gets(2, "GET /a HTTP/1.1\r\n");
    ASSERT(server);
    says(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    ASSERT(gets(client, "\r\n\r\nhi", 1));
    ASSERT_EQ(0, hub.failed);
    client_free(client);
    tear_down_proxy();
    PASS();
}

TEST a_request_with_a_body_is_not_sent_twice(void)
{
    ASSERT(set_up_proxy());
    hub.retry = hub.reused = true;
    const char *got =
        answer_of("POST /p/a HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhi", "", true);
    ASSERT_EQ(0, strncmp(got, "HTTP/1.1 500 ", 13));
    ASSERT_EQ(0, hub.stale);
    tear_down_proxy();
    PASS();
}

static bool none_kept(void *arg)
{
    return hub.proxy->kept_count == 0;
}

TEST kept_connections_are_found_by_all_of_their_key(void)
{
    static const struct proxy_limits limits = {.stall_ms = 1000, .idle_ms = 50};
    ASSERT(set_up_limited(&limits));
    int fd = new_server();
    kept_put(hub.proxy, &hub, 1, 8080, fd);
    ASSERT_EQ(-1, kept_take(hub.proxy, &hub, 2, 8080));
    ASSERT_EQ(-1, kept_take(hub.proxy, &hub, 1, 8081));
    ASSERT_EQ(-1, kept_take(hub.proxy, &seen, 1, 8080));
    ASSERT_EQ(fd, kept_take(hub.proxy, &hub, 1, 8080));
    kept_put(hub.proxy, &hub, 1, 8080, fd);
    ASSERT(run_until(none_kept, NULL));
    kept_put(hub.proxy, &hub, 1, 8080, new_server());
    says(hub.servers[1], "unasked");
    ASSERT(run_until(none_kept, NULL));
    tear_down_proxy();
    PASS();
}

/* Sides that stop. */

/* An upload to a server that reads its head and no more, until nothing moves. */
static struct client *stuck_upload(struct client **server, char *text, size_t size)
{
    struct client *client = client_new();
    memset(text, 'x', size);
    int head =
        snprintf(text, 100, "PUT /p/a HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", size);
    text[head] = 'x';
    client_send(client, text, (size_t)head);
    *server = server_gets(1, "\r\n\r\n");
    if (!*server)
        return client;
    loop_unwatch(seen.loop, &(*server)->watch);
    client_send(client, text + head, size - (size_t)head);
    while (!side_waits(&hub.exchange->server)) {
        if (!run_until(has_server, &(int){1}))
            break;
    }
    return client;
}

static void reset(struct client *client)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    client_free(client);
}

TEST a_client_that_breaks_off_its_upload_is_noticed_while_the_server_reads_nothing(void)
{
    int one = 1;
    struct client *server;
    char *text = malloc(16 * BIG);
    ASSERT(set_up_proxy());
    struct client *client = stuck_upload(&server, text, 16 * BIG);
    ASSERT(server && client->out_size);
    reset(client);
    ASSERT(run_until(is_done, &one));
    free(text);
    tear_down_proxy();
    PASS();
}

TEST a_server_that_does_not_take_a_body_is_a_timeout(void)
{
    static const struct proxy_limits limits = {.stall_ms = 100, .idle_ms = 50};
    struct client *server;
    char *text = malloc(16 * BIG);
    ASSERT(set_up_limited(&limits));
    struct client *client = stuck_upload(&server, text, 16 * BIG);
    ASSERT(server && client->out_size);
    ASSERT(gets(client, "HTTP/1.1 504 ", 1));
    client_free(client);
    free(text);
    tear_down_proxy();
    PASS();
}

TEST a_request_that_cannot_be_sent_is_told_at_once(void)
{
    struct client *server;
    char *text = malloc(16 * BIG);
    ASSERT(set_up_proxy());
    struct client *client = stuck_upload(&server, text, 16 * BIG);
    ASSERT(server && client->out_size);
    /* What is no socket takes nothing, and says so with an error that no server causes. */
    CLEANUP_FD int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct side *side = &hub.exchange->server;
    loop_unwatch(seen.loop, &side->watch);
    ASSERT(dup3(event, side->fd, O_CLOEXEC) >= 0);
    ASSERT_EQ(0, loop_watch(seen.loop, &side->watch, side->fd, EPOLLOUT));
    ASSERT(gets(client, "HTTP/1.1 500 ", 1));
    client_free(client);
    free(text);
    tear_down_proxy();
    PASS();
}

static bool is_unwatched(void *arg)
{
    return hub.exchange->client.watch.fd < 0;
}

TEST a_side_that_hung_up_is_not_looked_at_while_the_other_takes_nothing(void)
{
    int one = 1;
    char *text = calloc(1, 16 * BIG);
    ASSERT(set_up_proxy());
    struct client *client = client_with(UPGRADE);
    struct client *server = server_gets(1, "\r\n\r\n");
    ASSERT(server);
    says(server, SWITCH);
    ASSERT(gets(client, "101", 1));
    loop_unwatch(seen.loop, &server->watch);
    shutdown(server->fd, SHUT_WR);
    ASSERT(run_until(is_closed, client)); /* in one direction */
    client_send(client, text, 16 * BIG);
    while (!side_waits(&hub.exchange->server))
        ASSERT(run_until(has_server, &(int){1}));
    shutdown(client->fd, SHUT_WR);
    ASSERT(run_until(is_unwatched, NULL));
    server_close(server);
    ASSERT(run_until(is_done, &one));
    client_free(client);
    free(text);
    tear_down_proxy();
    PASS();
}

/* Requests that come at once. */

static int pipeline(char *text, size_t size, int count)
{
    int length = 0;
    for (int i = 0; i < count; i++)
        length +=
            snprintf(text + length, size - (size_t)length, "GET /p/%d HTTP/1.1\r\n" HOST "\r\n", i);
    return length;
}

TEST many_requests_that_come_at_once_are_answered_in_turn(void)
{
    enum { REQUESTS = 30 };
    char text[REQUESTS * 64], wanted[32];
    ASSERT(set_up_proxy());
    int before = open_descriptors();
    struct client *client = client_new();
    client_send(client, text, (size_t)pipeline(text, sizeof text, REQUESTS));
    for (int i = 0; i < REQUESTS; i++) {
        snprintf(wanted, sizeof wanted, "GET /%d ", i);
        struct client *server = server_gets(i + 1, wanted);
        ASSERTm(wanted, server);
        says(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        ASSERTm(wanted, gets(client, "\r\n\r\nok", i + 1));
    }
    client_free(client);
    for (int i = 0; i < REQUESTS; i++)
        server_close(hub.servers[i]);
    ASSERT(run_until(descriptors_are, &before));
    ASSERT_EQ(0u, proxy_count(hub.proxy));
    tear_down_proxy();
    PASS();
}

TEST a_connection_ends_before_it_has_too_many_relays(void)
{
    enum { REQUESTS = RELAYS_MAX + 10 };
    char text[REQUESTS * 64];
    int answered = 0;
    ASSERT(set_up_proxy());
    int before = open_descriptors();
    struct client *client = client_new();
    client_send(client, text, (size_t)pipeline(text, sizeof text, REQUESTS));
    while (!client->closed) {
        ASSERT(server_gets(answered + 1, "\r\n\r\n"));
        says(hub.servers[answered++], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        ASSERT(gets(client, "\r\n\r\nok", answered));
        if (answered > RELAYS_MAX)
            ASSERT(run_until(is_closed, client));
    }
    ASSERT_EQ(RELAYS_MAX + 1, answered);
    client_free(client);
    for (int i = 0; i < answered; i++)
        server_close(hub.servers[i]);
    ASSERT(run_until(descriptors_are, &before));
    tear_down_proxy();
    PASS();
}

SUITE(life)
{
    RUN_TEST(a_reader_that_stops_stops_the_writer);
    RUN_TEST(a_large_upload_arrives_whole);
    RUN_TEST(an_upgrade_becomes_a_tunnel);
    RUN_TEST(a_refused_upgrade_is_an_answer);
    RUN_TEST(a_tunnel_ends_at_once_when_its_server_is_gone);
    RUN_TEST(idle_tunnels_hold_little_memory);
    RUN_TEST(a_stale_connection_is_replaced);
    RUN_TEST(a_request_with_a_body_is_not_sent_twice);
    RUN_TEST(kept_connections_are_found_by_all_of_their_key);
    RUN_TEST(a_client_that_breaks_off_its_upload_is_noticed_while_the_server_reads_nothing);
    RUN_TEST(a_server_that_does_not_take_a_body_is_a_timeout);
    RUN_TEST(a_request_that_cannot_be_sent_is_told_at_once);
    RUN_TEST(a_side_that_hung_up_is_not_looked_at_while_the_other_takes_nothing);
    RUN_TEST(many_requests_that_come_at_once_are_answered_in_turn);
    RUN_TEST(a_connection_ends_before_it_has_too_many_relays);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    log_setup(getenv("DEBUG") ? LOG_DEBUG : LOG_WARN, LOG_TEXT);
    RUN_SUITE(life);
    GREATEST_MAIN_END();
}
