/* Previews of real servers: what passes, and where they are found. */
#include "preview_box.h"

/* What passes. */

TEST a_request_passes_with_the_headers_that_the_sdk_adds(void)
{
    char headers[512], url[256];
    snprintf(headers, sizeof headers,
             "%sCookie: a=1; b=2\r\nX-Sandbox-Preview-Token: forged\r\nX-Sandbox-Name: forged\r\n"
             "X-Forwarded-Host: forged\r\n",
             host_of("p"));
    CLEANUP_REPLY struct reply r = request(&emulator, "GET", "/a%20b?x=1&y", headers, NULL);
    ASSERT_EQ(200, r.status);
    ASSERT_STR_EQ("/a%20b?x=1&y", text_at(r.json, "url"));
    ASSERT_STR_EQ("localhost:8080", text_at(r.json, "headers.host"));
    ASSERT_STR_EQ("a=1; b=2", text_at(r.json, "headers.cookie"));
    snprintf(url, sizeof url, "http://8080-p-tok.localhost:%d/a%%20b?x=1&y", emulator.port);
    ASSERT_STR_EQ(url, text_at(r.json, "headers.x-original-url"));
    ASSERT_STR_EQ("8080-p-tok.localhost", text_at(r.json, "headers.x-forwarded-host"));
    ASSERT_STR_EQ("http", text_at(r.json, "headers.x-forwarded-proto"));
    ASSERT_STR_EQ("p", text_at(r.json, "headers.x-sandbox-name"));
    ASSERT_EQ(NULL, json_object_get(at(r.json, "headers"), "x-sandbox-preview-token"));
    PASS();
}

TEST methods_and_bodies_pass(void)
{
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE"};
    size_t size = 300000;
    CLEANUP_FREE char *body = malloc(size);
    for (size_t i = 0; i < size; i++)
        body[i] = (char)(i * 31 + i / 997);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char got[16];
        CLEANUP_REPLY struct reply r =
            request_bytes(&emulator, methods[i], "/echo", host_of("p"), body, size);
        ASSERT_EQ(200, r.status);
        ASSERT_STR_EQ(methods[i], header_of(&r, "X-Got", got, sizeof got));
        ASSERT_EQ(size, r.size);
        ASSERT_EQ(0, memcmp(body, r.body, size));
    }
    char chunked[512];
    snprintf(chunked, sizeof chunked,
             "POST /echo HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
             "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-T: 1\r\n\r\n",
             host_of("p"));
    CLEANUP_REPLY struct reply r = raw(&emulator, chunked, strlen(chunked), 5000);
    ASSERT_EQ(200, r.status);
    ASSERT(strstr(r.body, "hello") && strstr(r.body, "world"));
    CLEANUP_REPLY struct reply head = request(&emulator, "HEAD", "/", host_of("p"), NULL);
    ASSERT_EQ(200, head.status);
    PASS();
}

TEST answers_pass_untouched(void)
{
    char value[128];
    CLEANUP_REPLY struct reply moved = visit("p", "/to");
    ASSERT_EQ(307, moved.status);
    ASSERT_STR_EQ("/seen?by=redirect", header_of(&moved, "Location", value, sizeof value));
    CLEANUP_REPLY struct reply bytes = visit("p", "/bytes");
    ASSERT_STR_EQ("image/png", header_of(&bytes, "Content-Type", value, sizeof value));
    ASSERT(strcasestr(bytes.head, "set-cookie: a=1\r\n") &&
           strcasestr(bytes.head, "set-cookie: b=2\r\n"));
    ASSERT_FALSE(strcasestr(bytes.head, "content-security-policy"));
    CLEANUP_REPLY struct reply hints = raw(
        &emulator,
        keep("GET /hints HTTP/1.1\r\nHost: 8080-p-tok.localhost\r\nConnection: "
             "close\r\n\r\n"),
        strlen("GET /hints HTTP/1.1\r\nHost: 8080-p-tok.localhost\r\nConnection: close\r\n\r\n"),
        5000);
    ASSERT_EQ(103, hints.status);
    PASS();
}

TEST a_connection_is_kept_on_both_sides(void)
{
    CLEANUP_FD int fd = dial(&emulator);
    long long sockets = -1;
    for (int i = 0; i < 20; i++) {
        char text[256];
        int size = snprintf(text, sizeof text, "GET /%d HTTP/1.1\r\n%s\r\n", i, host_of("p"));
        ASSERT_EQ(0, send_all(fd, text, (size_t)size));
        CLEANUP_REPLY struct reply r = read_reply(fd);
        ASSERT_EQ(200, r.status);
        if (sockets >= 0)
            ASSERT_EQ(sockets, number_at(r.json, "sockets"));
        sockets = number_at(r.json, "sockets");
    }
    close(steal_fd(&fd));
    CLEANUP_REPLY struct reply other = visit("p", "/");
    ASSERT_EQ(sockets, number_at(other.json, "sockets")); /* the pool has it */
    PASS();
}

/* ABUSE.md E10. */
TEST requests_of_one_connection_go_to_whom_each_is_for(void)
{
    const struct {
        const char *path, *host;
        int status;
        const char *text;
    } rows[] = {
        {"/1", host_of("p"), 200, "\"/1\""},
        {"/cdn-cgi/local/health", "Host: localhost\r\n", 200, "status"},
        {"/2", host_of("p"), 200, "\"/2\""},
        {"/health", "Host: localhost\r\n", 200, "ok"},
        {"/cdn-cgi/local/preview/8080-p-tok/3", "Host: localhost\r\n", 200, "\"/3\""},
        {"/4", host_of("p"), 200, "\"/4\""},
    };
    for (int once = 0; once < 2; once++) {
        CLEANUP_FD int fd = dial(&emulator);
        CLEANUP_BUF struct buf all = BUF_INIT(8192);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            CLEANUP_BUF struct buf one = BUF_INIT(2048);
            buf_addf(&one, "GET %s HTTP/1.1\r\n%s\r\n", rows[i].path, rows[i].host);
            buf_adds(&all, buf_text(&one));
            if (once)
                continue;
            ASSERT_EQ(0, send_all(fd, one.data, one.size));
            CLEANUP_REPLY struct reply r = read_reply(fd);
            ASSERT_EQm(rows[i].path, rows[i].status, r.status);
            ASSERTm(keep(r.body), strstr(r.body, rows[i].text));
        }
        if (!once)
            continue;
        char got[32768] = "";
        ASSERT_EQ(0, send_all(fd, all.data, all.size));
        ASSERT(reads(fd, "\"/4\"", got, sizeof got));
        const char *from = got;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            ASSERTm(rows[i].path, from = strstr(from, rows[i].text));
    }
    PASS();
}

TEST a_bad_request_after_a_good_one_is_refused(void)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\nHost: 8080-p-tok.localhost\r\nContent-Length: 1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET / HTTP/1.1\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256], got[4096] = "";
        CLEANUP_FD int fd = dial(&emulator);
        int size = snprintf(text, sizeof text, "GET /ok HTTP/1.1\r\n%s\r\n", host_of("p"));
        ASSERT_EQ(0, send_all(fd, text, (size_t)size));
        CLEANUP_REPLY struct reply r = read_reply(fd);
        ASSERT_EQ(200, r.status);
        ASSERT_EQ(0, send_all(fd, bad[i], strlen(bad[i])));
        ASSERT(reads(fd, "\r\n\r\n", got, sizeof got));
        ASSERTm(keep(got), strncmp(got, "HTTP/1.1 40", 11) == 0);
        ASSERT(is_closed(fd));
    }
    PASS();
}

TEST events_come_when_they_are_sent(void)
{
    char text[256], got[4096] = "";
    CLEANUP_FD int fd = dial(&emulator);
    int size = snprintf(text, sizeof text, "GET /events?ms=3000 HTTP/1.1\r\n%s\r\n", host_of("p"));
    long long from = test_ms();
    ASSERT_EQ(0, send_all(fd, text, (size_t)size));
    ASSERT(reads(fd, "data: 1", got, sizeof got));
    ASSERT(test_ms() - from < 2500);
    PASS();
}

TEST large_bodies_pass_with_little_memory(void)
{
    int mib = counts_now().flood_mib;
    long before = emulator_memory(&emulator, "VmRSS");
    char text[256];
    CLEANUP_FD int fd = dial(&emulator);
    int size =
        snprintf(text, sizeof text, "GET /big?n=%lld HTTP/1.1\r\n%sConnection: close\r\n\r\n",
                 (long long)mib << 20, host_of("p"));
    ASSERT_EQ(0, send_all(fd, text, (size_t)size));
    CLEANUP_FREE char *data = malloc(1 << 20);
    long long total = 0;
    ssize_t n;
    while ((n = recv(fd, data, 1 << 20, 0)) > 0)
        total += n;
    ASSERT(total > (long long)mib << 20);
    ASSERT(emulator_memory(&emulator, "VmRSS") - before < 4096 * MEMORY_FACTOR);
    PASS();
}

TEST servers_of_http_1_0_answer_too(void)
{
    CLEANUP_REPLY struct reply run = post(
        &emulator, "/sandbox/p/exec",
        "[\"mkdir -p /tmp/www && cd /tmp/www && echo file > f && (python3 -m http.server 8100 "
        ">/dev/null 2>&1 & for i in $(seq 100); do (: </dev/tcp/127.0.0.1/8100) 2>/dev/null && "
        "exit 0; sleep 0.05; done; exit 1)\"]");
    if (number_at(run.json, "exitCode") != 0)
        SKIPm("no python3");
    ASSERT_EQ(NULL, expose("p", 8100, "tok3"));
    for (int i = 0; i < 3; i++) {
        CLEANUP_REPLY struct reply r =
            request(&emulator, "GET", "/f", "Host: 8100-p-tok3.localhost\r\n", NULL);
        ASSERT_EQ(200, r.status);
        ASSERT_STR_EQ("file\n", r.body);
    }
    PASS();
}

/* Where previews are. */

TEST a_preview_is_found_by_path_and_is_of_no_origin_there(void)
{
    char policy[128];
    CLEANUP_REPLY struct reply r = get(&emulator, "/cdn-cgi/local/preview/8080-p-tok/a/b?c");
    ASSERT_EQ(200, r.status);
    ASSERT_STR_EQ("/a/b?c", text_at(r.json, "url"));
    ASSERT(strncmp(header_of(&r, "Content-Security-Policy", policy, sizeof policy), "sandbox ",
                   8) == 0);
    ASSERT_FALSE(strstr(policy, "allow-same-origin"));
    CLEANUP_REPLY struct reply bare = get(&emulator, "/cdn-cgi/local/preview/8080-p-tok");
    ASSERT_STR_EQ("/", text_at(bare.json, "url"));
    CLEANUP_REPLY struct reply upper = get(&emulator, "/cdn-cgi/local/preview/8080-p-TOK/");
    ASSERT_EQ(404, upper.status);
    static const char *const bad[] = {"/cdn-cgi/local/preview", "/cdn-cgi/local/preview/",
                                      "/cdn-cgi/local/preview//", "/cdn-cgi/local/preview/x/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CLEANUP_REPLY struct reply none = get(&emulator, bad[i]);
        ASSERT_EQm(bad[i], 404, none.status);
    }
    PASS();
}

TEST a_domain_is_served_once_a_port_was_exposed_with_it(void)
{
    ASSERT_EQ(403, status_at("8080-p-tok.previews.example"));
    CLEANUP_REPLY struct reply r =
        post(&emulator, "/sandbox/p/exposePort", "[8080, {\"hostname\": \"Previews.Example\"}]");
    ASSERT_STR_EQ("https://8080-p-tok.previews.example/", text_at(r.json, "url"));
    ASSERT_EQ(200, status_at("8080-p-tok.previews.example"));
    ASSERT_EQ(200, status_at("8080-P-TOK.PREVIEWS.example.:443"));
    ASSERT_EQ(404, status_at("8080-p-bad.previews.example"));
    ASSERT_EQ(403, status_at("previews.example"));
    ASSERT_EQ(403, status_at("8080-p-tok.x.previews.example"));
    ASSERT_EQ(403, status_at("8080-p-tok.previews.example.evil"));
    PASS();
}

TEST pages_of_any_origin_may_ask_for_a_preview(void)
{
    char headers[512];
    snprintf(headers, sizeof headers,
             "%sOrigin: https://elsewhere.example\r\nSec-Fetch-Site: "
             "cross-site\r\n",
             host_of("p"));
    CLEANUP_REPLY struct reply r = request(&emulator, "GET", "/", headers, NULL);
    ASSERT_EQ(200, r.status);
    ASSERT_STR_EQ("https://elsewhere.example", text_at(r.json, "headers.origin"));
    PASS();
}

/* WebSockets: ABUSE.md E7. */

TEST a_websocket_passes_byte_for_byte_with_the_same_host(void)
{
    char head[4096];
    CLEANUP_FD int fd = upgrade_at("8080-p-tok.localhost",
                                   "Sec-WebSocket-Protocol: vite-hmr\r\nOrigin: "
                                   "http://8080-p-tok.localhost\r\n",
                                   head, sizeof head);
    ASSERTm(keep(head), fd >= 0);
    ASSERT(strstr(head, "X-Host: localhost:8080\r\n"));
    ASSERT(strstr(head, "X-Url: /hmr?t=1\r\n"));
    /* Frames that are fragments, of one byte, with a 64-bit length, unmasked, pings, a close. */
    static const unsigned char frames[] = {
        0x01, 0x81, 1, 2, 3, 4, 'a' ^ 1, 0x80, 0x81, 1,    2, 3,    4, 'b' ^ 1, 0x82, 0x7f, 0,
        0,    0,    0, 0, 0, 0, 2,       'x',  'y',  0x89, 0, 0x89, 0, 0x88,    2,    0x03, 0xed};
    ASSERT_EQ(0, send_all(fd, (const char *)frames, sizeof frames));
    unsigned char got[sizeof frames];
    ASSERT_EQ((ssize_t)sizeof got, recv(fd, got, sizeof got, MSG_WAITALL));
    ASSERT_EQ(0, memcmp(frames, got, sizeof frames));
    PASS();
}

SUITE(preview)
{
    const char *failed = open_box("p");
    if (failed) {
        printf("SKIP preview: no node in the sandbox: %s\n", failed);
        skipped = true;
        return;
    }
    RUN_TEST(a_request_passes_with_the_headers_that_the_sdk_adds);
    RUN_TEST(methods_and_bodies_pass);
    RUN_TEST(answers_pass_untouched);
    RUN_TEST(a_connection_is_kept_on_both_sides);
    RUN_TEST(requests_of_one_connection_go_to_whom_each_is_for);
    RUN_TEST(a_bad_request_after_a_good_one_is_refused);
    RUN_TEST(events_come_when_they_are_sent);
    RUN_TEST(large_bodies_pass_with_little_memory);
    RUN_TEST(servers_of_http_1_0_answer_too);
    RUN_TEST(a_preview_is_found_by_path_and_is_of_no_origin_there);
    RUN_TEST(a_domain_is_served_once_a_port_was_exposed_with_it);
    RUN_TEST(pages_of_any_origin_may_ask_for_a_preview);
    RUN_TEST(a_websocket_passes_byte_for_byte_with_the_same_host);
}

/* With --auth the host name is all that a preview asks for, and its server never sees the token. */
TEST the_token_of_the_emulator_is_not_asked_for_and_not_passed_on(void)
{
    static char line[96];
    char path[160], file[64];
    snprintf(file, sizeof file, "/tmp/sandpit-preview-%d.json", getpid());
    ASSERT_EQ(
        0, emulator_start(&emulator, (const char *const[]){"--auth", "--ready-file", file, NULL}));
    CLEANUP_JSON json_t *ready = json_load_file(file, 0, NULL);
    snprintf(line, sizeof line, "Authorization: Bearer %s\r\n", text_at(ready, "token"));
    token_line = line;
    const char *failed = open_box("auth");
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_REPLY struct reply r = visit("auth", "/");
    ASSERT_EQ(200, r.status);
    CLEANUP_REPLY struct reply by_path = get(&emulator, "/cdn-cgi/local/preview/8080-auth-tok/");
    ASSERT_EQ(200, by_path.status);
    CLEANUP_REPLY struct reply refused = get(&emulator, "/cdn-cgi/local/sandboxes");
    ASSERT_EQ(401, refused.status);
    snprintf(path, sizeof path, "%s%s", host_of("auth"), line);
    CLEANUP_REPLY struct reply with = request(&emulator, "GET", "/", path, NULL);
    ASSERT_EQ(200, with.status);
    ASSERT_FALSE(strstr(with.body, text_at(ready, "token")));
    token_line = NULL;
    ASSERT_EQ(0, emulator_stop(&emulator));
    emulator_clean(&emulator);
    PASS();
}

SUITE(preview_auth)
{
    RUN_TEST(the_token_of_the_emulator_is_not_asked_for_and_not_passed_on);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, preview);
    if (skipped)
        return 77;
    RUN_SUITE(preview_auth);
    GREATEST_MAIN_END();
}
