/* What readiness checks read of a server that may be anything, and where they go next. */
#include "container/port_http.h"

#include <errno.h>
#include <string.h>

#include "greatest.h"

static int parse(const char *text, struct port_head *head)
{
    return port_head_parse(text, strlen(text), head);
}

TEST a_head_is_whole_at_its_empty_line(void)
{
    static const char text[] = "HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n";
    struct port_head head;
    for (size_t size = 0; size < sizeof text - 1; size++)
        ASSERT_EQ(0, port_head_parse(text, size, &head));
    ASSERT_EQ(1, parse(text, &head));
    ASSERT_EQ(204, head.status);
    ASSERT_EQ(NULL, head.location);
    PASS();
}

TEST lenient_servers_are_understood(void)
{
    static const char *const texts[] = {"HTTP/1.0 200 OK\n\n", "HTTP/1.1 200\r\n\r\n",
                                        "HTTP/1.1 200 \r\n\r\n", "HTTP/1.1 200 a b c\r\n\r\nbody"};
    struct port_head head;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ASSERT_EQm(texts[i], 1, parse(texts[i], &head));
        ASSERT_EQ(200, head.status);
    }
    PASS();
}

TEST what_is_not_http_is_told_at_once(void)
{
    static const char *const texts[] = {"SSH-2.0-OpenSSH",
                                        "\x15\x03\x01",
                                        "H2",
                                        "HTTP/2 200\r\n",
                                        "HTTP/1.1 20\r\n\r\n",
                                        "HTTP/1.1 2000 OK\r\n\r\n",
                                        "HTTP/1.1 099 no\r\n\r\n",
                                        "HTTP/1.1  200\r\n\r\n",
                                        "HTTP/1.x 200 OK\r\n\r\n",
                                        "\r\nHTTP/1.1 200 OK\r\n\r\n"};
    struct port_head head;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ASSERT_EQm(texts[i], -EBADMSG, parse(texts[i], &head));
    PASS();
}

TEST interim_answers_are_passed_over(void)
{
    struct port_head head;
    ASSERT_EQ(0, parse("HTTP/1.1 103 Early Hints\r\nLocation: /no\r\n\r\n", &head));
    ASSERT_EQ(1, parse("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLocation: /no\r\n\r\n"
                       "HTTP/1.1 404 Not Found\r\n\r\n",
                       &head));
    ASSERT_EQ(404, head.status);
    ASSERT_EQ(NULL, head.location);
    ASSERT_EQ(1, parse("HTTP/1.1 101 Switching\r\n\r\n\x81", &head));
    ASSERT_EQ(101, head.status);
    ASSERT_EQ(-EBADMSG, parse("HTTP/1.1 100 Continue\r\n\r\nrubbish", &head));
    PASS();
}

TEST the_first_location_counts(void)
{
    struct port_head head;
    ASSERT_EQ(1, parse("HTTP/1.1 302 Found\r\nX-Location: /x\r\nlOcAtIoN: \t /a b \r\n"
                       "Location: /c\r\n\r\n",
                       &head));
    ASSERT_EQ(4, head.location_size);
    ASSERT_EQ(0, memcmp(head.location, "/a b", 4));
    PASS();
}

TEST paths_become_targets(void)
{
    static const struct {
        const char *path, *target;
    } rows[] = {
        {"/", "/"},
        {"", "/"},
        {"health", "/health"},
        {"/a/./b/../c", "/a/c"},
        {"/../../x", "/x"},
        {"/a/..", "/"},
        {"/a/b/.", "/a/b/"},
        {"/%2e%2E/x", "/x"},
        {"/...", "/..."},
        {"/a\\b", "/a/b"},
        {"/a b?c d#e", "/a%20b?c%20d"},
        {"/?q='x'&r=..", "/?q=%27x%27&r=.."},
        {"/\xc3\xa4", "/%C3%A4"},
        {"/x\r\nX-Evil: 1", "/xX-Evil:%201"},
        {"/x HTTP/1.1\r\n\r\nGET /y", "/x%20HTTP/1.1GET%20/y"},
        {"//a//b", "//a//b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_BUF struct buf to = BUF_INIT(PORT_TARGET_MAX);
        ASSERT_EQ(0, port_target(&to, rows[i].path, strlen(rows[i].path)));
        ASSERT_STR_EQm(rows[i].path, rows[i].target, buf_text(&to));
    }
    PASS();
}

TEST a_path_that_is_too_long_is_refused(void)
{
    char path[PORT_TARGET_MAX + 2];
    memset(path, 'a', sizeof path);
    CLEANUP_BUF struct buf to = BUF_INIT(PORT_TARGET_MAX);
    ASSERT_EQ(-EMSGSIZE, port_target(&to, path, sizeof path));
    PASS();
}

TEST redirects_stay_in_the_container_or_are_told_apart(void)
{
    static const struct {
        const char *location;
        int leads;
        int port;
        const char *target;
    } rows[] = {
        {"/login", 1, 8080, "/login"},
        {"next", 1, 8080, "/a/next"},
        {"../up?x=1", 1, 8080, "/up?x=1"},
        {"?y=2", 1, 8080, "/a/b?y=2"},
        {"", 1, 8080, "/a/b?q=1"},
        {"#part", 1, 8080, "/a/b?q=1"},
        {"http://localhost:8080/x", 1, 8080, "/x"},
        {"HTTP://LOCALHOST:9000", 1, 9000, "/"},
        {"http://127.0.0.1/x", 1, 80, "/x"},
        {"//[::1]:81/x", 1, 81, "/x"},
        {"http://localhost:/x", 1, 80, "/x"},
        {"/\\localhost:82/x", 1, 82, "/x"},
        {"https://localhost:8080/", 0, 8080, ""},
        {"http://example.com/", 0, 8080, ""},
        {"http://example.com:8080/", 0, 8080, ""},
        {"http://localhost:8080@example.com/", 0, 8080, ""},
        {"http://user@localhost/", 0, 8080, ""},
        {"http://localhost.example.com/", 0, 8080, ""},
        {"javascript:alert(1)", 0, 8080, ""},
        {"http://localhost:0/", -EINVAL, 8080, ""},
        {"http://localhost:65536/", -EINVAL, 8080, ""},
        {"http://localhost:99999999999999999999/", -EINVAL, 8080, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_BUF struct buf to = BUF_INIT(PORT_TARGET_MAX);
        uint16_t port = 8080;
        ASSERT_EQm(
            rows[i].location, rows[i].leads,
            port_redirect("/a/b?q=1", rows[i].location, strlen(rows[i].location), &port, &to));
        ASSERT_EQm(rows[i].location, rows[i].port, port);
        ASSERT_STR_EQm(rows[i].location, rows[i].target, buf_text(&to));
    }
    PASS();
}

SUITE(port_http)
{
    RUN_TEST(a_head_is_whole_at_its_empty_line);
    RUN_TEST(lenient_servers_are_understood);
    RUN_TEST(what_is_not_http_is_told_at_once);
    RUN_TEST(interim_answers_are_passed_over);
    RUN_TEST(the_first_location_counts);
    RUN_TEST(paths_become_targets);
    RUN_TEST(a_path_that_is_too_long_is_refused);
    RUN_TEST(redirects_stay_in_the_container_or_are_told_apart);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(port_http);
    GREATEST_MAIN_END();
}
