/* Bodies as streams, with a handler that takes them when and as fast as the test wants. */
#include "http_client.h"

#define PUT_HEAD "PUT /up HTTP/1.1\r\n" HOST

/* What the sink did. */
static struct {
    struct http_request *request;
    struct stream *stream;
    size_t taken;
    unsigned sum;
    bool paused; /* the sink takes nothing */
    bool ended, failed;
    size_t unsent; /* by the client, and since when */
    int64_t since_ns;
    size_t answer_at; /* answers with an error when so many bytes came; 0 = never */
} sink;

static void sink_gone(void *arg)
{
    seen.gone++;
    sink.request = NULL;
}

static void sink_drop(void)
{
    struct stream *stream = sink.stream;
    sink.stream = NULL;
    if (stream)
        stream_abort(stream);
}

static void sink_refuse(void)
{
    struct http_request *request = sink.request;
    sink.request = NULL;
    sink_drop();
    http_set_header(request, "X-More", "yes");
    http_reply_error(request, 507, "FULL", NULL, "no room");
}

static void sink_take(void *arg)
{
    static char data[10000];
    long size = 0;
    while (sink.stream && !sink.paused &&
           (size = stream_take(sink.stream, data, sizeof data)) > 0) {
        for (long i = 0; i < size; i++)
            sink.sum = sink.sum * 31 + (unsigned char)data[i];
        sink.taken += (size_t)size;
        if (sink.answer_at && sink.taken >= sink.answer_at) {
            sink_refuse();
            return;
        }
    }
    if (size >= 0)
        return;
    sink.ended = true;
    sink.failed = stream_failed(sink.stream);
    sink_drop();
    if (sink.request && !sink.failed)
        http_reply_json(sink.request, 200, json_pack("{s:i}", "taken", (int)sink.taken));
    sink.request = NULL;
}

static void sink_start(void)
{
    sink.stream = http_take_stream(sink.request);
    stream_set_sink(sink.stream, (struct stream_sink){sink_take, NULL});
    sink_take(NULL);
}

static bool wants_stream(void *arg, const struct http_request *request)
{
    return strcmp(http_path(request), "/other") != 0;
}

static void handle_upload(void *arg, struct http_request *request)
{
    const char *path = http_path(request);
    if (strcmp(path, "/other") == 0) {
        handle(OWNER_WORKER, request);
    } else if (strcmp(path, "/refuse") == 0) {
        http_reply_error(request, 400, "NO", NULL, "not wanted");
    } else {
        sink.request = request;
        http_on_gone(request, sink_gone, NULL);
        if (strcmp(path, "/up") == 0)
            sink_start();
    }
}

static bool set_up_uploads(int body_ms)
{
    struct http_config with = config;
    struct http_limits limits = http_limits_default;
    with.handle[OWNER_WORKER] = handle_upload;
    with.streams[OWNER_WORKER] = wants_stream;
    limits.body_ms = body_ms;
    memset(&sink, 0, sizeof sink);
    return set_up_with(&limits, &with);
}

static char *body_of(const char *head, size_t size, size_t *whole)
{
    char *text = malloc(strlen(head) + 64 + size);
    int used = snprintf(text, strlen(head) + 64, "%sContent-Length: %zu\r\n\r\n", head, size);
    for (size_t i = 0; i < size; i++)
        text[used + (int)i] = (char)(i * 7 + i / 256);
    *whole = (size_t)used + size;
    return text;
}

static unsigned sum_of(const char *data, size_t size)
{
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + (unsigned char)data[i];
    return sum;
}

TEST a_body_beyond_the_limit_of_others_arrives_whole(void)
{
    enum { SIZE = 80 * BIG };
    ASSERT(set_up_uploads(30000));
    size_t whole;
    char *text = body_of(PUT_HEAD, SIZE, &whole);
    struct client *client = client_new();
    client_send(client, text, whole);
    ASSERT(gets(client, "{\"taken\":83886080}", 1));
    ASSERT_EQ(sum_of(text + whole - SIZE, SIZE), sink.sum);
    /* And the connection goes on. */
    static const char again[] = PUT_HEAD "Content-Length: 3\r\n\r\nabc";
    sink.taken = 0;
    client_send(client, again, strlen(again));
    ASSERT(gets(client, "{\"taken\":3}", 1));
    free(text);
    client_free(client);
    tear_down();
    PASS();
}

TEST an_empty_body_is_a_stream_that_ends(void)
{
    ASSERT(set_up_uploads(30000));
    struct client *client = client_with(PUT_HEAD "Content-Length: 0\r\n\r\n" PUT_HEAD "\r\n");
    ASSERT(gets(client, "{\"taken\":0}", 2));
    client_free(client);
    tear_down();
    PASS();
}

static bool is_waiting(void *arg)
{
    return sink.request != NULL;
}

TEST a_body_waits_for_a_handler_that_takes_it_later(void)
{
    ASSERT(set_up_uploads(30000));
    size_t whole;
    for (size_t size = 10; size <= BIG; size *= 1000) {
        char *text = body_of("PUT /later HTTP/1.1\r\n" HOST, size, &whole);
        struct client *client = client_new();
        sink.taken = sink.sum = 0;
        client_send(client, text, whole);
        ASSERT(run_until(is_waiting, NULL));
        int turns = 20;
        while (turns--) /* let the bytes come */
            run_until(is_waiting, NULL);
        sink_start();
        ASSERT(gets(client, "{\"taken\":", 1));
        ASSERT_EQ(size, sink.taken);
        ASSERT_EQ(sum_of(text + whole - size, size), sink.sum);
        free(text);
        client_free(client);
    }
    tear_down();
    PASS();
}

/* Of a client between two pieces; longer than a busy machine keeps this process waiting. */
enum { SLOW_MS = 500 };

static bool sender_is_stuck(void *arg)
{
    struct client *client = arg;
    if (client->out_size != sink.unsent)
        sink.since_ns = loop_now_ns();
    sink.unsent = client->out_size;
    return loop_now_ns() - sink.since_ns > MS_NS(2 * SLOW_MS);
}

/* The deadline is for clients: this one waits longer than that for the sink. */
TEST a_slow_sink_holds_the_client_back_and_is_not_its_fault(void)
{
    enum { SIZE = 64 * BIG };
    ASSERT(set_up_uploads(SLOW_MS));
    size_t whole;
    char *text = body_of(PUT_HEAD, SIZE, &whole);
    struct client *client = client_new();
    sink.paused = true;
    client_send(client, text, whole);
    ASSERT(run_until(sender_is_stuck, client));
    ASSERTm("only socket buffers and the stream hold bytes", client->out_size > 32 * BIG);
    ASSERT_FALSE(client->closed);
    sink.paused = false;
    sink_take(NULL);
    ASSERT(gets(client, "{\"taken\":67108864}", 1));
    ASSERT_EQ(sum_of(text + whole - SIZE, SIZE), sink.sum);
    free(text);
    client_free(client);
    tear_down();
    PASS();
}

static bool has_ended(void *arg)
{
    return sink.ended;
}

TEST a_client_that_leaves_or_stalls_fails_the_stream(void)
{
    for (int stalls = 0; stalls < 2; stalls++) {
        ASSERT(set_up_uploads(stalls ? 40 : 30000));
        int before = open_descriptors();
        struct client *client = client_with(PUT_HEAD "Content-Length: 100\r\n\r\nabc");
        ASSERT(run_until(is_waiting, NULL));
        if (!stalls)
            client_free(client);
        ASSERT(run_until(has_ended, NULL));
        ASSERT(sink.failed);
        ASSERT_EQ(1, seen.gone);
        if (stalls)
            client_free(client);
        ASSERT(run_until(descriptors_are, &before));
        tear_down();
    }
    PASS();
}

TEST broken_chunks_fail_the_stream(void)
{
    ASSERT(set_up_uploads(30000));
    struct client *client =
        client_with(PUT_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n");
    ASSERT(run_until(has_ended, NULL));
    ASSERT(sink.failed);
    ASSERT_EQ(3, sink.taken);
    client_free(client);
    tear_down();
    PASS();
}

TEST a_refusal_is_seen_however_much_follows(void)
{
    static const struct {
        const char *head;
        size_t size, at;
        bool closes;
    } rows[] = {
        {"PUT /refuse HTTP/1.1\r\n" HOST, 10, 0, false},
        {"PUT /refuse HTTP/1.1\r\n" HOST, 60000, 0, false},
        {"PUT /refuse HTTP/1.1\r\n" HOST, 8 * BIG, 0, true},
        {PUT_HEAD, 8 * BIG, BIG, true},
        {PUT_HEAD, 8 * BIG, 8 * BIG - 100, false},
        {PUT_HEAD, 8 * BIG, 8 * BIG, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ASSERT(set_up_uploads(30000));
        size_t whole;
        char *text = body_of(rows[i].head, rows[i].size, &whole);
        struct client *client = client_new();
        sink.answer_at = rows[i].at;
        client_send(client, text, whole);
        ASSERT(
            gets(client, rows[i].at ? "{\"error\":\"no room\"" : "{\"error\":\"not wanted\"", 1));
        ASSERT(starts(client, rows[i].at ? "HTTP/1.1 507 " : "HTTP/1.1 400 "));
        ASSERT_EQ(rows[i].at != 0, strstr(client->in.data, "X-More: yes") != NULL);
        ASSERT_EQ(rows[i].closes, strstr(client->in.data, "Connection: close") != NULL);
        if (rows[i].closes) {
            ASSERT(run_until(is_closed, client));
        } else {
            static const char next[] = "PUT /other HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx";
            client_send(client, next, strlen(next));
            ASSERT(gets(client, "{\"size\":1,\"path\":\"/other\"}", 1));
        }
        ASSERT_EQ(0, seen.gone);
        free(text);
        client_free(client);
        tear_down();
    }
    PASS();
}

TEST a_paused_body_can_be_refused(void)
{
    ASSERT(set_up_uploads(30000));
    size_t whole;
    char *text = body_of(PUT_HEAD, 64 * BIG, &whole);
    struct client *client = client_new();
    sink.paused = true;
    client_send(client, text, whole);
    ASSERT(run_until(sender_is_stuck, client));
    sink_refuse();
    ASSERT(gets(client, "no room", 1));
    free(text);
    client_free(client);
    tear_down();
    PASS();
}

TEST expect_gets_the_refusal_instead_of_100(void)
{
    ASSERT(set_up_uploads(30000));
    ASSERT(refused("PUT /refuse HTTP/1.1\r\n" HOST
                   "Expect: 100-continue\r\nContent-Length: 100000000\r\n\r\n",
                   "HTTP/1.1 400 ", "not wanted"));
    struct client *client =
        client_with(PUT_HEAD "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    ASSERT(gets(client, "100 Continue", 1));
    client_send(client, "abc", 3);
    ASSERT(gets(client, "{\"taken\":3}", 1));
    client_free(client);
    tear_down();
    PASS();
}

TEST other_paths_keep_their_limit(void)
{
    ASSERT(set_up_uploads(30000));
    ASSERT(refused("PUT /other HTTP/1.1\r\n" HOST "Content-Length: 100000000\r\n\r\n",
                   "HTTP/1.1 413 ", "BODY_TOO_LARGE"));
    tear_down();
    PASS();
}

TEST the_end_of_the_server_fails_what_is_open(void)
{
    for (int paused = 0; paused < 2; paused++) {
        ASSERT(set_up_uploads(30000));
        size_t whole;
        char *text = body_of(PUT_HEAD, 64 * BIG, &whole);
        struct client *client = client_new();
        sink.paused = paused;
        client_send(client, text, paused ? whole : 1000);
        ASSERT(run_until(paused ? sender_is_stuck : is_waiting, client));
        loop_unwatch(seen.loop, &client->watch);
        http_free(seen.server);
        ASSERT_EQ(1, seen.gone);
        sink.paused = false;
        if (sink.stream)
            sink_take(NULL);
        ASSERT(sink.failed);
        client_free(client);
        loop_free(seen.loop);
        free(text);
    }
    PASS();
}

SUITE(uploads)
{
    log_setup(getenv("DEBUG") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
    RUN_TEST(a_body_beyond_the_limit_of_others_arrives_whole);
    RUN_TEST(an_empty_body_is_a_stream_that_ends);
    RUN_TEST(a_body_waits_for_a_handler_that_takes_it_later);
    RUN_TEST(a_slow_sink_holds_the_client_back_and_is_not_its_fault);
    RUN_TEST(a_client_that_leaves_or_stalls_fails_the_stream);
    RUN_TEST(broken_chunks_fail_the_stream);
    RUN_TEST(a_refusal_is_seen_however_much_follows);
    RUN_TEST(a_paused_body_can_be_refused);
    RUN_TEST(expect_gets_the_refusal_instead_of_100);
    RUN_TEST(other_paths_keep_their_limit);
    RUN_TEST(the_end_of_the_server_fails_what_is_open);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(uploads);
    GREATEST_MAIN_END();
}
