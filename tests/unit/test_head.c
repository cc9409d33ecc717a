#include <stdlib.h>
#include <string.h>

#include "greatest.h"
#include "http/head.h"

#define HOST "Host: localhost:8787\r\n"

/* Checks a copy of exactly this size, so that a sanitizer sees any read past it. */
static enum head_state check(const char *text, size_t size, struct head *head, int *status,
                             char **copy)
{
    const struct refusal *why = NULL;
    char *data = malloc(size ? size : 1);
    memcpy(data, text, size);
    enum head_state state = head_check(data, size, head, &why);
    *status = state == HEAD_BAD ? why->status : 0;
    if (copy)
        *copy = data;
    else
        free(data);
    return state;
}

static const char *good[] = {
    "GET / HTTP/1.1\r\n" HOST "\r\n",
    "\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
    "POST /sandbox/a/exec?x=1&y=%20 HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n",
    "POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775807\r\n\r\n",
    "POST / HTTP/1.1\r\n" HOST "transfer-encoding:\tChunked \r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET http://localhost:8787/x HTTP/1.1\r\n" HOST "\r\n",
    "GET HTTP://LOCALHOST:8787 HTTP/1.1\r\n" HOST "\r\n",
    "OPTIONS * HTTP/1.1\r\n" HOST "\r\n",
    "M-SEARCH / HTTP/1.1\r\n" HOST "X-Empty:\r\nX-Blank:   \r\nX-High: \xc3\xa4\r\n\r\n",
    "GET / HTTP/1.1\r\n" HOST "Cookie: a\r\nCookie: b\r\nConnection: close\r\n"
    "Connection: te\r\n\r\n",
};

static const struct {
    int status;
    const char *text;
} bad[] = {
    {400, "GET / HTTP/1.1\nHost: localhost\n\n"},
    {400, "GET / HTTP/1.1\r\nHost: localhost\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: local\rhost\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n" HOST "X Y: a\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n" HOST ": a\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n" HOST "nonsense\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n" HOST "X: a\x01"
          "b\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n" HOST "X: a\x7f\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n" HOST HOST "\r\n"},
    {400, "GET / HTTP/1.1\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: user@localhost\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
    {400, "GET http://user@localhost:8787/ HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET http://evil.example/ HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET http:/// HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET ftp://localhost/ HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET localhost:8787 HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET * HTTP/1.1\r\n" HOST "\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775808\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: "
          "chunked\r\n\r\n"},
    {400, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n"},
    {400, "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\n" HOST "Origin: http://a\r\nOrigin: http://b\r\n\r\n"},
    {400, "GET /\r\n\r\n"},
    {400, "GET /\r\n"},
    {400, "GET  / HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /a b HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /#x HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET / http/1.1\r\n" HOST "\r\n"},
    {400, "GET / HTTP/1.1 \r\n" HOST "\r\n"},
    {400, "G(T / HTTP/1.1\r\n" HOST "\r\n"},
    {400, " GET / HTTP/1.1\r\n" HOST "\r\n"},
    {400, "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"},
    {400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    {400, "\x16\x03\x01"},
    {501, "CONNECT localhost:8787 HTTP/1.1\r\n" HOST "\r\n"},
    {505, "GET / HTTP/2.0\r\n" HOST "\r\n"},
    {505, "GET / HTTP/1.2\r\n" HOST "\r\n"},
    {505, "GET / HTTP/0.9\r\n" HOST "\r\n"},
};

TEST good_heads_are_complete_and_nothing_shorter_is(void)
{
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct head head;
        int status;
        size_t size = strlen(good[i]);
        ASSERT_EQm(good[i], HEAD_COMPLETE, check(good[i], size, &head, &status, NULL));
        ASSERT_EQm(good[i], size, head.size);
        for (size_t cut = 0; cut < size; cut++)
            ASSERT_EQm(good[i], HEAD_INCOMPLETE, check(good[i], cut, &head, &status, NULL));
    }
    PASS();
}

TEST bad_heads_are_refused_with_their_status(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct head head;
        int status;
        ASSERT_EQm(bad[i].text, HEAD_BAD,
                   check(bad[i].text, strlen(bad[i].text), &head, &status, NULL));
        ASSERT_EQm(bad[i].text, bad[i].status, status);
    }
    PASS();
}

TEST nul_bytes_are_refused(void)
{
    static const char path[] = "GET /a\0b HTTP/1.1\r\n" HOST "\r\n";
    static const char value[] = "GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n";
    struct head head;
    int status;
    ASSERT_EQ(HEAD_BAD, check(path, sizeof path - 1, &head, &status, NULL));
    ASSERT_EQ(HEAD_BAD, check(value, sizeof value - 1, &head, &status, NULL));
    PASS();
}

static bool is(struct span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.at, text, span.size) == 0;
}

TEST parts_are_found(void)
{
    static const char text[] = "POST http://localhost:8787/p/%41?q=1?2 HTTP/1.1\r\n"
                               "hOST:localhost:8787\r\nOrigin:  http://localhost:8787 \r\n"
                               "Sec-Fetch-Site: none\r\nAuthorization: Bearer x\r\n"
                               "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                               "Content-Length: 007\r\n\r\nrest";
    struct head head;
    int status;
    char *copy;
    ASSERT_EQ(HEAD_COMPLETE, check(text, sizeof text - 1, &head, &status, &copy));
    ASSERT(is(head.method, "POST"));
    ASSERT(is(head.path, "/p/%41"));
    ASSERT(is(head.query, "q=1?2"));
    ASSERT(is(head.host, "localhost:8787"));
    ASSERT(is(head.origin, "http://localhost:8787"));
    ASSERT(is(head.fetch_site, "none"));
    ASSERT(is(head.authorization, "Bearer x"));
    ASSERT(is(head.upgrade, "websocket"));
    ASSERT(head.upgrades && !head.close && !head.keep_alive && !head.nominates);
    ASSERT_EQ(7, head.length);
    ASSERT_EQ(1, head.minor);
    ASSERT_FALSE(head.chunked);
    ASSERT_EQ(sizeof text - 1 - 4, head.size);
    free(copy);
    PASS();
}

/* "GET /aaa… HTTP/1.1" with this much target, and a header with this much value. */
static char *long_head(size_t target, size_t value, size_t *size)
{
    static const char middle[] = " HTTP/1.1\r\n" HOST "X: ", end[] = "\r\n\r\n";
    char *text = malloc(target + value + 64), *to = text;
    to = mempcpy(to, "GET /", 5);
    memset(to, 'a', target - 1);
    to = mempcpy(to + target - 1, middle, sizeof middle - 1);
    memset(to, 'v', value);
    to = mempcpy(to + value, end, sizeof end - 1);
    *size = (size_t)(to - text);
    return text;
}

static int status_of(size_t target, size_t value, size_t cut)
{
    struct head head;
    int status;
    size_t size;
    char *text = long_head(target, value, &size);
    enum head_state state = check(text, cut && cut < size ? cut : size, &head, &status, NULL);
    free(text);
    return state == HEAD_COMPLETE ? 200 : state == HEAD_INCOMPLETE ? 100 : status;
}

TEST sizes_are_limited(void)
{
    size_t size, fixed;
    free(long_head(1, 1, &size));
    fixed = size - 2;
    ASSERT_EQ(200, status_of(HEAD_TARGET_MAX, 10, 0));
    ASSERT_EQ(414, status_of(HEAD_TARGET_MAX + 1, 10, 0));
    ASSERT_EQ(414, status_of(65536, 10, HEAD_MAX + 1));
    ASSERT_EQ(200, status_of(1, HEAD_MAX - 1 - fixed, 0));
    ASSERT_EQ(431, status_of(1, HEAD_MAX - fixed, 0));
    ASSERT_EQ(431, status_of(1, 102400, HEAD_MAX + 1));
    ASSERT_EQ(100, status_of(1, 102400, HEAD_MAX - 1));
    PASS();
}

static int status_with_fields(int count)
{
    struct head head;
    int status;
    char text[4096];
    size_t size = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 1; i < count; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "A%d: b\r\n", i);
    size += (size_t)snprintf(text + size, sizeof text - size, "\r\n");
    check(text, size, &head, &status, NULL);
    return status;
}

TEST the_number_of_headers_is_limited(void)
{
    ASSERT_EQ(0, status_with_fields(HEAD_FIELDS_MAX));
    ASSERT_EQ(431, status_with_fields(HEAD_FIELDS_MAX + 1));
    PASS();
}

SUITE(head)
{
    RUN_TEST(good_heads_are_complete_and_nothing_shorter_is);
    RUN_TEST(bad_heads_are_refused_with_their_status);
    RUN_TEST(nul_bytes_are_refused);
    RUN_TEST(parts_are_found);
    RUN_TEST(sizes_are_limited);
    RUN_TEST(the_number_of_headers_is_limited);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(head);
    GREATEST_MAIN_END();
}
