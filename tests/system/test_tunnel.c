/* Upgrades: tunnels to any port of a sandbox, and the WebSocket servers of /api/init. */
#include "proxy_box.h"

TEST an_upgrade_opens_a_tunnel_to_any_port(void)
{
    static const struct {
        const char *path, *url;
    } rows[] = {{"/sandbox/p/ws/8080/chat?room=1&class=x", "X-Url: /chat?room=1&class=x\r\n"},
                {"/sandbox/p/wsConnect?port=8080&path=/chat%3Froom%3D1", "X-Url: /chat?room=1\r\n"},
                {"/sandbox/p/wsConnect?port=8080", "X-Url: /\r\n"},
                {"/sandbox/p/proxy/8080/x", "X-Url: /x\r\n"},
                {"/ws/echo?sandboxId=p", "X-Url: /ws/echo?sandboxId=p\r\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char head[4096], got[64] = "";
        CLEANUP_FD int fd = upgrade(rows[i].path, NULL, head, sizeof head);
        ASSERTm(keep(head), fd >= 0);
        ASSERTm(keep(head), strstr(head, rows[i].url));
        ASSERT(strstr(head, "X-Host: localhost:8080\r\n"));
        ASSERT_EQ(0, send_all(fd, "hello", 5));
        ASSERT(reads(fd, "hello", got, sizeof got));
        shutdown(fd, SHUT_WR);
        ASSERT(is_closed(fd));
    }
    PASS();
}

TEST without_an_upgrade_it_is_426(void)
{
    static const char *const paths[] = {"/ws/echo", "/ws/code", "/ws/terminal",
                                        "/sandbox/p/ws/8080/", "/sandbox/p/wsConnect?port=8080"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        CLEANUP_REPLY struct reply r = get(&emulator, paths[i]);
        ASSERT_EQm(paths[i], 426, r.status);
        ASSERT_STR_EQ("UPGRADE_REQUIRED", text_at(r.json, "code"));
    }
    PASS();
}

TEST a_tunnel_needs_a_good_port_and_path(void)
{
    static const struct {
        const char *path;
        const char *status;
    } rows[] = {{"/sandbox/p/ws/3000/", "HTTP/1.1 400 "},
                {"/sandbox/p/wsConnect", "HTTP/1.1 400 "},
                {"/sandbox/p/wsConnect?port=8080&path=x", "HTTP/1.1 400 "},
                {"/sandbox/p/wsConnect?port=8080&path=/a%0d%0aX:%201", "HTTP/1.1 400 "},
                {"/sandbox/p/wsConnect?port=8080&path=/a%20b", "HTTP/1.1 400 "},
                {"/sandbox/-p/ws/8080/", "HTTP/1.1 400 "},
                {"/sandbox/p/ws/9999/", "HTTP/1.1 502 "}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char head[4096];
        ASSERT_EQ(-1, upgrade(rows[i].path, NULL, head, sizeof head));
        ASSERT_EQm(rows[i].path, 0, strncmp(head, rows[i].status, strlen(rows[i].status)));
    }
    PASS();
}

TEST many_tunnels_open_and_close(void)
{
    int count = getenv("SANDPIT_COUNTS") ? 1000 : 100;
    int before = emulator_files(&emulator);
    CLEANUP_FREE int *fds = calloc((size_t)count, sizeof *fds);
    for (int i = 0; i < count; i++) {
        char head[4096];
        fds[i] = upgrade("/sandbox/p/ws/8080/", NULL, head, sizeof head);
        ASSERTm(keep(head), fds[i] >= 0);
    }
    for (int i = 0; i < count; i++) {
        char got[16] = "";
        ASSERT_EQ(0, send_all(fds[i], "ping", 4));
        ASSERT(reads(fds[i], "ping", got, sizeof got));
    }
    ASSERT_EQ(0, inflight("p"));
    for (int i = 0; i < count; i++)
        close(fds[i]);
    for (int i = 0; i < 100 && emulator_files(&emulator) > before + 2; i++)
        poll(NULL, 0, 50);
    ASSERT(emulator_files(&emulator) <= before + 2);
    PASS();
}

TEST messages_renew_the_idle_time_and_sleep_closes_the_tunnel(void)
{
    const char *failed = start_server("tunnel");
    char head[4096], got[64] = "";
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_FD int fd = upgrade("/sandbox/tunnel/ws/8080/", NULL, head, sizeof head);
    ASSERT(fd >= 0);
    for (int i = 0; i < 3; i++) {
        advance("9m");
        ASSERT_EQ(0, send_all(fd, "ping", 4));
        ASSERT(reads(fd, "ping", got, sizeof got));
        ASSERT_STR_EQ("healthy", state_of("tunnel"));
    }
    advance("11m");
    ASSERT_STR_EQ("stopped", state_of("tunnel"));
    ASSERT(is_closed(fd));
    PASS();
}

/* /api/init. */

/* A masked text frame of fewer than 126 bytes. */
static int send_frame(int fd, const char *text)
{
    unsigned char frame[132] = {0x81, (unsigned char)(0x80 | strlen(text)), 1, 2, 3, 4};
    for (size_t i = 0; text[i]; i++)
        frame[6 + i] = (unsigned char)text[i] ^ frame[2 + i % 4];
    return send_all(fd, (const char *)frame, 6 + strlen(text));
}

TEST init_starts_three_websocket_servers(void)
{
    static const struct {
        const char *path, *message, *answer;
    } rows[] = {
        {"/ws/echo", "Hello WebSocket", "\x81\x0fHello WebSocket"},
        {"/ws/code", "{\"type\":\"execute\",\"code\":\"print(6*7)\"}", "\"exitCode\":0"},
        {"/ws/terminal", "{\"type\":\"command\",\"command\":\"echo $((6*7)); exit 3\"}",
         "\"stdout\":\"42\\n\",\"stderr\":\"\",\"exitCode\":3"},
    };
    CLEANUP_REPLY struct reply r =
        request(&emulator, "POST", "/api/init", "X-Sandbox-Id: init\r\n", "");
    ASSERT_EQm(r.body, 200, r.status);
    ASSERT_STR_EQ("{\"success\":true,\"serversStarted\":3,\"serversFailed\":0}", r.body);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char head[4096], got[4096] = "";
        CLEANUP_FD int fd = upgrade(rows[i].path, "X-Sandbox-Id: init\r\n", head, sizeof head);
        ASSERTm(keep(head), fd >= 0);
        ASSERT(strstr(head, "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n"));
        ASSERT_EQ(0, send_frame(fd, rows[i].message));
        ASSERTm(rows[i].path, reads(fd, rows[i].answer, got, sizeof got));
    }
    CLEANUP_REPLY struct reply again =
        request(&emulator, "POST", "/api/init", "X-Sandbox-Id: init\r\n", "");
    ASSERT_STR_EQ("{\"success\":true,\"serversStarted\":0,\"serversFailed\":0}", again.body);
    PASS();
}

TEST init_says_what_failed(void)
{
    CLEANUP_REPLY struct reply taken =
        post(&emulator, "/sandbox/taken/exec",
             "[\"for n in node python3; do printf '#!/bin/sh\\\\nexit 7\\\\n' > "
             "/usr/local/bin/$n; chmod +x /usr/local/bin/$n; done\"]");
    ASSERT_EQ(0, number_at(taken.json, "exitCode"));
    CLEANUP_REPLY struct reply which =
        post(&emulator, "/sandbox/taken/exec", "[\"node; echo $?\"]");
    if (strcmp(text_at(which.json, "stdout"), "7") != 0)
        SKIPm("node is found before /usr/local/bin");
    CLEANUP_REPLY struct reply r =
        request(&emulator, "POST", "/api/init", "X-Sandbox-Id: taken\r\n", "");
    ASSERT_EQ(500, r.status);
    ASSERT(json_is_false(at(r.json, "success")));
    ASSERT_EQ(3, number_at(r.json, "serversFailed"));
    ASSERT_EQ(0, strncmp(text_at(r.json, "errors.0"), "echo server on port 8080: ", 26));
    PASS();
}

SUITE(tunnel)
{
    const char *failed = start_server("p");
    if (failed) {
        printf("SKIP tunnel: no server can be started with node: %s\n", failed);
        skipped = true;
        return;
    }
    RUN_TEST(an_upgrade_opens_a_tunnel_to_any_port);
    RUN_TEST(without_an_upgrade_it_is_426);
    RUN_TEST(a_tunnel_needs_a_good_port_and_path);
    RUN_TEST(many_tunnels_open_and_close);
    RUN_TEST(messages_renew_the_idle_time_and_sleep_closes_the_tunnel);
    RUN_TEST(init_starts_three_websocket_servers);
    RUN_TEST(init_says_what_failed);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, tunnel);
    if (skipped)
        return 77;
    GREATEST_MAIN_END();
}
