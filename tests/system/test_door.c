/* The front door: which requests are refused before anything behind it sees them,
 * and what bad input gets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static int status_with(const char *method, const char *path, const char *headers, const char *body)
{
    CLEANUP_REPLY struct reply reply = request(&emulator, method, path, headers, body);
    return reply.status;
}

#define EXEC "/sandbox/door/exec"
#define TRUE "[\"true\"]"

TEST a_foreign_host_is_refused_on_every_face(void)
{
    CLEANUP_REPLY struct reply control =
        request(&emulator, "GET", "/cdn-cgi/local/info", "Host: evil.example\r\n", NULL);
    ASSERT_EQ(403, control.status);
    ASSERT(strstr(control.body, "localhost"));
    ASSERT_STR_EQ("HOST_NOT_ALLOWED", text_at(control.json, "code"));
    ASSERT_EQ(403, status_with("POST", EXEC, "Host: evil.example:8787\r\n", TRUE));
    ASSERT_EQ(404, status_with("GET", "/", "Host: 8080-x-tok.localhost:8787\r\n", NULL));
    ASSERT_EQ(404, status_with("GET", "/api/ping", "Host: 3000-door-0123456789abcdef.localhost\r\n",
                               NULL));
    PASS();
}

TEST the_names_of_this_machine_are_accepted(void)
{
    static const char *const good[] = {"localhost",  "LOCALHOST",      "localhost.",
                                       "127.0.0.1",  "127.0.0.1:8787", "[::1]",
                                       "[::1]:8787", "localhost:9999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char host[64];
        snprintf(host, sizeof host, "Host: %s\r\n", good[i]);
        ASSERT_EQm(good[i], 200, status_with("GET", "/cdn-cgi/local/health", host, NULL));
    }
    static const char *const bad[] = {"localhost.evil.example",
                                      "evil-localhost",
                                      "user@localhost",
                                      "127.0.0.1.evil.example",
                                      "0.0.0.0",
                                      "localhost:abc",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char host[64];
        snprintf(host, sizeof host, "Host: %s\r\n", bad[i]);
        int status = status_with("GET", "/cdn-cgi/local/health", host, NULL);
        ASSERTm(bad[i], status == 400 || status == 403);
    }
    ASSERT_EQm(
        "X-Forwarded-Host is ignored", 403,
        status_with("GET", "/", "Host: evil.example\r\nX-Forwarded-Host: localhost\r\n", NULL));
    PASS();
}

TEST a_web_page_cannot_drive_the_emulator(void)
{
    static const char *const bad[] = {
        "Origin: http://evil.example\r\n",
        "Origin: http://evil.example:8787\r\n",
        "Origin: null\r\n",
        "Origin: http://8080-x-tok.localhost:8787\r\n",
        "Origin: http://localhost:1\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    };
    static const char *const paths[] = {EXEC, "/cdn-cgi/local/clock/advance", "/api/execute",
                                        "/cdn-cgi/local/reset"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t p = 0; p < sizeof paths / sizeof *paths; p++)
            ASSERT_EQm(bad[i], 403, status_with("POST", paths[p], bad[i], "{}"));
    }
    ASSERT_EQ(403,
              status_with("GET", "/cdn-cgi/local/info", "Sec-Fetch-Site: cross-site\r\n", NULL));
    char own[96];
    snprintf(own, sizeof own, "Origin: http://localhost:%d\r\nSec-Fetch-Site: same-origin\r\n",
             emulator.port);
    ASSERT_EQ(200, status_with("POST", EXEC, own, TRUE));
    PASS();
}

TEST no_answer_invites_other_origins_or_frames(void)
{
    char value[200];
    CLEANUP_REPLY struct reply page = request(&emulator, "GET", "/", "Accept: text/html\r\n", NULL);
    ASSERT_EQ(200, page.status);
    ASSERT(strstr(page.body, "sandpit"));
    ASSERT_STR_EQ("DENY", header_of(&page, "X-Frame-Options", value, sizeof value));
    ASSERT(strstr(header_of(&page, "Content-Security-Policy", value, sizeof value),
                  "default-src 'none'"));
    CLEANUP_REPLY struct reply info = get(&emulator, "/cdn-cgi/local/info");
    ASSERT_STR_EQ("nosniff", header_of(&info, "X-Content-Type-Options", value, sizeof value));
    ASSERT_STR_EQ("application/json", header_of(&info, "Content-Type", value, sizeof value));
    CLEANUP_REPLY struct reply preflight =
        request(&emulator, "OPTIONS", EXEC,
                "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n", NULL);
    ASSERT_EQ(403, preflight.status);
    ASSERT_EQ(NULL, strcasestr(preflight.head, "access-control-allow"));
    ASSERT_EQ(NULL, strcasestr(info.head, "access-control-allow"));
    PASS();
}

TEST only_loopback_listens(void)
{
    char command[128];
    snprintf(command, sizeof command,
             "ss -Hltn 'sport = :%d' | awk '{print $4}' | sort | tr '\\n' ' '", emulator.port);
    const char *const argv[] = {"sh", "-c", command, NULL};
    char *out = NULL;
    run_command(&emulator, argv, &out, NULL);
    ASSERT(strstr(out, "127.0.0.1:"));
    ASSERT_EQ(NULL, strstr(out, "0.0.0.0"));
    ASSERT_EQ(NULL, strstr(out, "*:"));
    free(out);
    PASS();
}

TEST malformed_heads_are_400_and_the_connection_ends(void)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9223372036854775808\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\nHost: localhost\n\n",
        "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CLEANUP_REPLY struct reply reply = raw(&emulator, bad[i], strlen(bad[i]), 3000);
        ASSERTm(bad[i], reply.status == 400 || reply.status == 505);
        ASSERTm(bad[i], *text_at(reply.json, "error"));
        ASSERTm(bad[i], *text_at(reply.json, "code"));
    }
    PASS();
}

TEST heads_and_bodies_have_limits(void)
{
    char *big = malloc(200000);
    int used = snprintf(big, 200000, "GET /");
    memset(big + used, 'a', 65536);
    snprintf(big + used + 65536, 100, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CLEANUP_REPLY struct reply uri = raw(&emulator, big, strlen(big), 3000);
    ASSERT_EQ(414, uri.status);
    used = snprintf(big, 200000, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
    memset(big + used, 'a', 102400);
    snprintf(big + used + 102400, 100, "\r\n\r\n");
    CLEANUP_REPLY struct reply head = raw(&emulator, big, strlen(big), 3000);
    ASSERT_EQ(431, head.status);
    free(big);
    static const char much[] = "POST /api/execute HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 70000000\r\n\r\n";
    CLEANUP_REPLY struct reply body = raw(&emulator, much, sizeof much - 1, 3000);
    ASSERT_EQ(413, body.status);
    static const char expect[] = "POST /api/execute HTTP/1.1\r\nHost: localhost\r\n"
                                 "Expect: 100-continue\r\nContent-Length: 70000000\r\n\r\n";
    CLEANUP_REPLY struct reply early = raw(&emulator, expect, sizeof expect - 1, 3000);
    ASSERT_EQ(413, early.status);
    PASS();
}

TEST slow_and_silent_clients_do_not_keep_others_waiting(void)
{
    static const char slow[] = "POST /sandbox/door/exec HTTP/1.1\r\nHost: lo";
    int fds[200];
    for (int i = 0; i < 200; i++) {
        fds[i] = dial(&emulator);
        ASSERT(fds[i] >= 0);
        send_all(fds[i], slow, sizeof slow - 1);
    }
    ASSERT_EQ(200, status_with("POST", EXEC, NULL, TRUE));
    for (int i = 0; i < 200; i++)
        close(fds[i]);
    ASSERT_EQ(200, status_with("POST", EXEC, NULL, TRUE));
    PASS();
}

TEST requests_on_one_connection_are_each_checked(void)
{
    int fd = dial(&emulator);
    static const char first[] =
        "POST " EXEC " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n" TRUE;
    send_all(fd, first, sizeof first - 1);
    CLEANUP_REPLY struct reply a = read_reply(fd);
    ASSERT_EQ(200, a.status);
    static const char second[] = "GET /cdn-cgi/local/info HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    send_all(fd, second, sizeof second - 1);
    CLEANUP_REPLY struct reply b = read_reply(fd);
    ASSERT_EQ(403, b.status);
    close(fd);
    static const char two[] =
        "GET /cdn-cgi/local/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        "GET /cdn-cgi/local/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    CLEANUP_REPLY struct reply pipelined = raw(&emulator, two, sizeof two - 1, 3000);
    ASSERT_EQ(200, pipelined.status);
    PASS();
}

TEST bad_input_is_a_clear_4xx_and_nothing_is_lost(void)
{
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *code;
    } rows[] = {
        {"POST", EXEC, "{", 400, "INVALID_JSON"},
        {"POST", EXEC, "[\"x\"", 400, "INVALID_JSON"},
        {"POST", EXEC, "{\"command\": \"x\"}", 400, NULL},
        {"POST", EXEC, "[17]", 400, "VALIDATION_FAILED"},
        {"POST", EXEC, "[]", 400, "VALIDATION_FAILED"},
        {"POST", EXEC, "[\"x\", {\"timeout\": \"soon\"}]", 400, "VALIDATION_FAILED"},
        {"POST", EXEC, "[\"x\", {\"env\": [1]}]", 400, "VALIDATION_FAILED"},
        {"POST", EXEC, "[\"a\\u0000b\"]", 400, NULL},
        {"POST", EXEC, "[\"x\", {}, 3, 4, 5]", 400, NULL},
        {"POST", "/sandbox/door/exek", "[]", 404, "METHOD_NOT_FOUND"},
        {"GET", EXEC, "", 405, NULL},
        {"POST", "/sandbox/-x/exec", TRUE, 400, "SECURITY_ERROR"},
        {"POST", "/sandbox/api/exec", TRUE, 400, "SECURITY_ERROR"},
        {"POST", "/sandbox/%00/exec", TRUE, 400, NULL},
        {"POST", "/sandbox/%zz/exec", TRUE, 400, NULL},
        {"POST", "/sandbox/0123456789012345678901234567890123456789012345678901234567890123/exec",
         TRUE, 400, "SECURITY_ERROR"},
        {"POST", "/sandbox/door/exec?class=Nope", TRUE, 404, NULL},
        {"POST", "/api/execute", "{\"command\":", 400, "INVALID_JSON"},
        {"POST", "/api/execute", "{}", 400, NULL},
        {"GET", "/api/execute", "", 405, NULL},
        {"GET", "/nothing/here", "", 404, "ROUTE_NOT_FOUND"},
        {"GET", "/cdn-cgi/local/nothing", "", 404, "ROUTE_NOT_FOUND"},
        {"DELETE", "/cdn-cgi/local/clock", "", 405, NULL},
        {"GET", "/cdn-cgi/local/sandboxes/%2", "", 400, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static char label[256];
        CLEANUP_REPLY struct reply r =
            request(&emulator, rows[i].method, rows[i].path, NULL, rows[i].body);
        snprintf(label, sizeof label, "%s %s %s: %d %.120s", rows[i].method, rows[i].path,
                 rows[i].body, r.status, r.body ? r.body : "");
        ASSERT_EQm(label, rows[i].status, r.status);
        ASSERTm(label, *text_at(r.json, "error"));
        if (rows[i].code)
            ASSERT_STR_EQm(label, rows[i].code, text_at(r.json, "code"));
    }
    PASS();
}

TEST a_deep_or_huge_json_does_not_end_the_process(void)
{
    size_t size = 1 << 20;
    char *deep = malloc(size);
    memset(deep, '[', size);
    CLEANUP_REPLY struct reply a = request_bytes(&emulator, "POST", EXEC, NULL, deep, size);
    ASSERT_EQ(400, a.status);
    memset(deep, 0xff, size);
    CLEANUP_REPLY struct reply b = request_bytes(&emulator, "POST", EXEC, NULL, deep, size);
    ASSERT_EQ(400, b.status);
    free(deep);
    ASSERT_EQ(200, status_with("GET", "/cdn-cgi/local/health", NULL, NULL));
    PASS();
}

TEST the_container_face_wants_its_secret(void)
{
    CLEANUP_REPLY struct reply first = post(&emulator, EXEC, TRUE);
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/door");
    char host[256];
    snprintf(host, sizeof host, "Host: %s\r\n", text_at(shown.json, "containerUrl") + 7);
    ASSERT_EQ(200, status_with("GET", "/api/ping", host, NULL));
    char *secret = strchr(host, '.') - 1;
    *secret = *secret == 'a' ? 'b' : 'a';
    ASSERT_EQ(404, status_with("GET", "/api/ping", host, NULL));
    PASS();
}

TEST a_sandbox_cannot_reach_the_emulator(void)
{
    char body[160];
    snprintf(
        body, sizeof body,
        "[\"(exec 3<>/dev/tcp/127.0.0.1/%d) 2>&1; (exec 3<>/dev/tcp/localhost/%d) 2>&1; true\"]",
        emulator.port, emulator.port);
    CLEANUP_REPLY struct reply reply = post(&emulator, EXEC, body);
    const char *out = text_at(reply.json, "stdout");
    ASSERTm(keep(out), strstr(out, "Connection refused"));
    PASS();
}

SUITE(door_suite)
{
    RUN_TEST(a_foreign_host_is_refused_on_every_face);
    RUN_TEST(the_names_of_this_machine_are_accepted);
    RUN_TEST(a_web_page_cannot_drive_the_emulator);
    RUN_TEST(no_answer_invites_other_origins_or_frames);
    RUN_TEST(only_loopback_listens);
    RUN_TEST(malformed_heads_are_400_and_the_connection_ends);
    RUN_TEST(heads_and_bodies_have_limits);
    RUN_TEST(slow_and_silent_clients_do_not_keep_others_waiting);
    RUN_TEST(requests_on_one_connection_are_each_checked);
    RUN_TEST(bad_input_is_a_clear_4xx_and_nothing_is_lost);
    RUN_TEST(a_deep_or_huge_json_does_not_end_the_process);
    RUN_TEST(the_container_face_wants_its_secret);
    RUN_TEST(a_sandbox_cannot_reach_the_emulator);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, door_suite);
    GREATEST_MAIN_END();
}
