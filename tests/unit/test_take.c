/* Connections that are taken from libmicrohttpd and given back. */
#include "http_client.h"

/* The taken socket answers with "[rest]" and, unless `keep`, is given back. */
static struct {
    struct http_request *request; /* of /slow/…: taken when the test says so */
    int count, fd;
    char rest[256];
    bool keep;
} taken;

static void on_taken(void *arg, struct http_taken_socket *socket)
{
    char answer[512];
    taken.count++;
    taken.fd = socket->fd;
    snprintf(taken.rest, sizeof taken.rest, "%.*s", (int)socket->rest_size,
             socket->rest_size ? socket->rest : "");
    if (socket->fd < 0)
        return;
    int size =
        snprintf(answer, sizeof answer, "HTTP/1.1 299 Raw\r\nContent-Length: %zu\r\n\r\n[%s]",
                 strlen(taken.rest) + 2, taken.rest);
    if (send(socket->fd, answer, (size_t)size, MSG_NOSIGNAL) != size || taken.keep)
        return;
    http_give(seen.server, socket->fd);
}

static bool early(void *arg, enum http_owner owner, const struct http_request *request)
{
    return strncmp(http_path(request), "/raw", 4) == 0 ||
           strncmp(http_path(request), "/slow", 5) == 0 ||
           strncmp(http_path(request), "/no", 3) == 0;
}

static void on_slow_gone(void *arg)
{
    taken.request = NULL;
}

static void handle_raw(void *arg, struct http_request *request)
{
    if (strncmp(http_path(request), "/raw", 4) == 0) {
        http_take(request, on_taken, NULL);
    } else if (strncmp(http_path(request), "/slow", 5) == 0) {
        taken.request = request;
        http_on_gone(request, on_slow_gone, NULL);
    } else {
        handle(OWNER_WORKER, request);
    }
}

static bool set_up_raw(void)
{
    struct http_config with = config;
    with.early = early;
    with.handle[OWNER_WORKER] = handle_raw;
    memset(&taken, 0, sizeof taken);
    return set_up_with(&http_limits_default, &with);
}

static bool is_slow(void *arg)
{
    return taken.request != NULL;
}

static bool is_taken(void *arg)
{
    return taken.count == *(int *)arg;
}

TEST a_first_request_is_taken_and_its_connection_goes_on(void)
{
    ASSERT(set_up_raw());
    int before = open_descriptors();
    struct client *client = client_with(GET("/raw/1"));
    ASSERT(gets(client, "299 Raw\r\nContent-Length: 2\r\n\r\n[]", 1));
    client_send(client, GET("/html"), strlen(GET("/html")));
    ASSERT(gets(client, "<p>hi</p>", 1));
    client_send(client, GET("/raw/2"), strlen(GET("/raw/2")));
    ASSERT(gets(client, "299 Raw", 2));
    ASSERT_FALSE(strstr(client->in.data, "101"));
    ASSERT_EQ(2, taken.count);
    ASSERT_EQ(0u, seen.server->raw);
    client_free(client);
    ASSERT(run_until(descriptors_are, &before));
    tear_down();
    PASS();
}

TEST what_was_read_beyond_the_head_comes_with_the_socket(void)
{
    ASSERT(set_up_raw());
    taken.keep = true;
    struct client *client = client_with(GET("/html") "POST /raw HTTP/1.1\r\n" HOST
                                                     "Content-Length: 5\r\n\r\nhello" GET("/x"));
    ASSERT(gets(client, "[hello" GET("/x") "]", 1));
    ASSERT_EQ(1u, seen.server->raw);
    http_close(seen.server, taken.fd);
    client_free(client);
    tear_down();
    PASS();
}

TEST a_chunked_body_stays_as_it_was_sent(void)
{
    ASSERT(set_up_raw());
    taken.keep = true;
    struct client *client =
        client_with("POST /raw HTTP/1.1\r\n" HOST
                    "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n");
    ASSERT(gets(client, "[5;x=y\r\nhello\r\n0\r\n\r\n]", 1));
    http_close(seen.server, taken.fd);
    client_free(client);
    tear_down();
    PASS();
}

TEST a_request_may_be_taken_later(void)
{
    int two = 2;
    ASSERT(set_up_raw());
    struct client *client = client_with(GET("/slow"));
    for (int i = 0; i < 2; i++) {
        ASSERT(run_until(is_slow, NULL));
        ASSERT_EQ(0, http_take(taken.request, on_taken, NULL));
        taken.request = NULL;
        ASSERT(gets(client, "299 Raw", i + 1));
        client_send(client, GET("/slow"), strlen(GET("/slow")));
    }
    ASSERT(run_until(is_slow, NULL));
    client_free(client);
    ASSERT(run_until(is_taken, &two));
    tear_down();
    ASSERT_EQ(NULL, taken.request);
    PASS();
}

TEST http_1_0_is_taken_with_its_body(void)
{
    ASSERT(set_up_raw());
    struct client *client = client_with("POST /raw HTTP/1.0\r\nContent-Length: 4\r\n\r\nbody");
    ASSERT(gets(client, "[body]", 1));
    client_free(client);
    tear_down();
    PASS();
}

TEST an_answer_before_the_body_keeps_the_connection(void)
{
    ASSERT(set_up_raw());
    struct client *client =
        client_with("POST /no HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc" GET("/no/2"));
    ASSERT(gets(client, "{\"size\":0,\"path\":\"/no/2\"}", 1));
    ASSERT(gets(client, "200 OK", 2));
    client_free(client);
    tear_down();
    PASS();
}

TEST a_large_body_is_read_and_dropped_before_the_answer(void)
{
    ASSERT(set_up_raw());
    size_t size = 8 * BIG;
    char *text = NULL;
    int head = asprintf(&text, "POST /no HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", size);
    text = realloc(text, (size_t)head + size);
    memset(text + head, 'x', size);
    struct client *client = client_new();
    client_send(client, text, (size_t)head + size);
    ASSERT(gets(client, "\"path\":\"/no\"}", 1));
    client_free(client);
    free(text);
    tear_down();
    PASS();
}

TEST stopping_closes_what_was_given_back(void)
{
    ASSERT(set_up_raw());
    struct client *client = client_with(GET("/raw"));
    ASSERT(gets(client, "299 Raw", 1));
    tear_down();
    char byte;
    ASSERT_EQ(0, recv(client->fd, &byte, 1, 0));
    close(client->fd);
    buf_free(&client->in);
    free(client);
    PASS();
}

TEST a_thousand_takes_leak_nothing(void)
{
    ASSERT(set_up_raw());
    int before = open_descriptors();
    struct client *client = client_with(GET("/raw"));
    for (int i = 1; i < 1000; i++) {
        ASSERT(gets(client, "[]", 1));
        buf_clear(&client->in);
        client_send(client, GET("/raw"), strlen(GET("/raw")));
    }
    ASSERT(gets(client, "[]", 1));
    client_free(client);
    ASSERT(run_until(descriptors_are, &before));
    ASSERT_EQ(0u, seen.server->connections);
    tear_down();
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    log_setup(getenv("DEBUG") ? LOG_DEBUG : LOG_WARN, LOG_TEXT);
    RUN_TEST(a_first_request_is_taken_and_its_connection_goes_on);
    RUN_TEST(what_was_read_beyond_the_head_comes_with_the_socket);
    RUN_TEST(a_chunked_body_stays_as_it_was_sent);
    RUN_TEST(a_request_may_be_taken_later);
    RUN_TEST(http_1_0_is_taken_with_its_body);
    RUN_TEST(an_answer_before_the_body_keeps_the_connection);
    RUN_TEST(a_large_body_is_read_and_dropped_before_the_answer);
    RUN_TEST(stopping_closes_what_was_given_back);
    RUN_TEST(a_thousand_takes_leak_nothing);
    GREATEST_MAIN_END();
}
