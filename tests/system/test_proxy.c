/* Requests that are forwarded to servers in sandboxes. */
#include "proxy_box.h"

TEST a_request_reaches_the_server_as_it_was_sent(void)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        CLEANUP_REPLY struct reply r =
            ask(methods[i], "p", "8080/a%20b/?class=x&keepAlive=7", NULL);
        ASSERT_EQ(200, r.status);
        ASSERT_STR_EQ(methods[i], text_at(r.json, "method"));
        ASSERT_STR_EQ("/a%20b/?class=x&keepAlive=7", text_at(r.json, "url"));
        ASSERT_STR_EQ("localhost:8080", text_at(r.json, "headers.host"));
        ASSERT_EQ(NULL, at(r.json, "headers.connection.0"));
    }
    CLEANUP_REPLY struct reply bare = ask("GET", "p", "8080", NULL);
    ASSERT_STR_EQ("/", text_at(bare.json, "url"));
    PASS();
}

TEST bodies_pass_both_ways(void)
{
    size_t size = 3 << 20;
    CLEANUP_FREE char *body = malloc(size);
    for (size_t i = 0; i < size; i++)
        body[i] = (char)(i * 31 + i / 997);
    CLEANUP_REPLY struct reply r =
        request_bytes(&emulator, "PUT", "/sandbox/p/proxy/8080/echo", NULL, body, size);
    ASSERT_EQ(200, r.status);
    ASSERT_EQ(size, r.size);
    ASSERT_EQ(0, memcmp(body, r.body, size));
    PASS();
}

TEST worker_and_server_answer_in_turn_on_one_connection(void)
{
    static const char *const paths[] = {"/health",
                                        "/sandbox/p/proxy/8080/1",
                                        "/cdn-cgi/local/health",
                                        "/sandbox/p/proxy/8080/2",
                                        "/sandbox/p/proxy/9999/",
                                        "/sandbox/p/proxy/8080/3",
                                        "/health"};
    static const int statuses[] = {200, 200, 200, 200, 502, 200, 200};
    CLEANUP_FD int fd = dial(&emulator);
    char all[2048] = "";
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char text[256];
        int size =
            snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", paths[i]);
        ASSERT_EQ(0, send_all(fd, text, (size_t)size));
        CLEANUP_REPLY struct reply r = read_reply(fd);
        ASSERT_EQm(paths[i], statuses[i], r.status);
        strncat(all, text, sizeof all - strlen(all) - 1);
    }
    /* The same at once. */
    ASSERT_EQ(0, send_all(fd, all, strlen(all)));
    char got[16384] = "";
    ASSERT(reads(fd, "\"/3\"", got, sizeof got));
    ASSERT(strstr(got, "\"/1\"") && strstr(got, "\"/2\""));
    ASSERT(strstr(got, "\"/1\"") < strstr(got, "\"/2\""));
    PASS();
}

/* The second request was read together with the first, so it comes to the door through a pair of
 * sockets; its body goes on behind what was read. */
TEST chunks_of_a_request_that_came_early_pass_once(void)
{
    enum { CHUNKS = 40, SIZE = 4096 };
    static const char heads[] =
        "GET /sandbox/p/proxy/8080/first HTTP/1.1\r\nHost: localhost\r\n\r\n"
        "POST /sandbox/p/proxy/8080/all HTTP/1.1\r\nHost: localhost\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    char chunk[SIZE + 16];
    CLEANUP_FD int fd = dial(&emulator);
    ASSERT_EQ(0, send_all(fd, heads, strlen(heads)));
    CLEANUP_REPLY struct reply first = read_reply(fd);
    ASSERT_EQ(200, first.status);
    for (int i = 0; i < CHUNKS; i++) {
        int size = snprintf(chunk, sizeof chunk, "%x\r\n%*d\r\n", SIZE, SIZE, i);
        ASSERT_EQ(0, send_all(fd, chunk, (size_t)size));
    }
    ASSERT_EQ(0, send_all(fd, "0\r\n\r\n", 5));
    CLEANUP_REPLY struct reply second = read_reply(fd);
    ASSERT_EQ(200, second.status);
    ASSERT_EQ(CHUNKS * SIZE, second.size);
    for (int i = 0; i < CHUNKS; i++)
        ASSERT_EQ(i, strtol(second.body + i * SIZE, NULL, 10));
    /* Nothing of it is left to be taken for a request. */
    static const char last[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT_EQ(0, send_all(fd, last, strlen(last)));
    CLEANUP_REPLY struct reply third = read_reply(fd);
    ASSERT_EQ(200, third.status);
    PASS();
}

TEST connections_to_the_server_are_kept(void)
{
    CLEANUP_REPLY struct reply first = ask("GET", "p", "8080/", NULL);
    for (int i = 0; i < 20; i++) {
        CLEANUP_REPLY struct reply r = ask("GET", "p", "8080/", NULL);
        ASSERT_EQ(200, r.status);
        ASSERT_EQ(number_at(first.json, "sockets"), number_at(r.json, "sockets"));
    }
    PASS();
}

TEST hints_trailers_and_redirects_pass_untouched(void)
{
    CLEANUP_FD int fd = dial(&emulator);
    char got[4096] = "";
    const char *text = "GET /sandbox/p/proxy/8080/hints HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT_EQ(0, send_all(fd, text, strlen(text)));
    ASSERT(reads(fd, "\r\n\r\nok", got, sizeof got));
    ASSERT_EQ(0, strncmp(got,
                         "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
                         "HTTP/1.1 200 OK\r\n",
                         50));
    text = "GET /sandbox/p/proxy/8080/trailers HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT_EQ(0, send_all(fd, text, strlen(text)));
    ASSERT(reads(fd, "4\r\nbody\r\n0\r\nX-Sum: 4\r\n\r\n", got, sizeof got));
    CLEANUP_REPLY struct reply r = ask("GET", "p", "8080/to", NULL);
    char location[64];
    ASSERT_EQ(307, r.status);
    ASSERT_STR_EQ("/seen?by=redirect", header_of(&r, "Location", location, sizeof location));
    PASS();
}

TEST events_come_as_they_are_sent(void)
{
    CLEANUP_FD int fd = dial(&emulator);
    char got[4096] = "";
    const char *text =
        "GET /sandbox/p/proxy/8080/events?ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT_EQ(0, send_all(fd, text, strlen(text)));
    ASSERT(reads(fd, "data: 1\n\n", got, sizeof got));
    ASSERT_EQ(1, inflight("p"));
    close(steal_fd(&fd));
    ASSERT(eventually(nothing_in_flight, (void *)"p", 5000));
    PASS();
}

TEST a_server_without_lengths_answers_until_it_closes(void)
{
    CLEANUP_REPLY struct reply run = post(
        &emulator, "/sandbox/p/exec",
        "[\"mkdir -p /tmp/www && cd /tmp/www && echo file > f && (python3 -m http.server 8100 "
        ">/dev/null 2>&1 & for i in $(seq 100); do (: </dev/tcp/127.0.0.1/8100) 2>/dev/null && "
        "exit 0; sleep 0.05; done; exit 1)\"]");
    if (number_at(run.json, "exitCode") != 0)
        SKIPm("no python3");
    CLEANUP_REPLY struct reply r = ask("GET", "p", "8100/f", NULL);
    ASSERT_EQ(200, r.status);
    ASSERT_STR_EQ("file\n", r.body);
    CLEANUP_REPLY struct reply none = ask("GET", "p", "8100/none", NULL);
    ASSERT_EQ(404, none.status);
    PASS();
}

TEST a_large_answer_passes_with_little_memory(void)
{
    int mib = counts_now().flood_mib;
    char rest[64];
    long before = emulator_memory(&emulator, "VmRSS");
    CLEANUP_FD int fd = dial(&emulator);
    snprintf(rest, sizeof rest, "%lld", (long long)mib << 20);
    char text[256];
    int size = snprintf(text, sizeof text,
                        "GET /sandbox/p/proxy/8080/big?n=%s HTTP/1.1\r\nHost: localhost\r\n"
                        "Connection: close\r\n\r\n",
                        rest);
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

TEST clients_that_leave_in_the_middle_leave_nothing(void)
{
    int count = getenv("SANDPIT_COUNTS") ? 10000 : 300;
    int before = emulator_files(&emulator);
    const char *text = "GET /sandbox/p/proxy/8080/hang HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (int i = 0; i < count; i++) {
        int fd = dial(&emulator);
        ASSERT(fd >= 0);
        ASSERT_EQ(0, send_all(fd, text, strlen(text)));
        close(fd);
    }
    ASSERT(eventually(nothing_in_flight, (void *)"p", 10000));
    for (int i = 0; i < 100 && emulator_files(&emulator) > before + 2; i++)
        poll(NULL, 0, 50);
    ASSERT(emulator_files(&emulator) <= before + 2);
    PASS();
}

/* Refusals. */

TEST ports_that_are_not_a_server_of_the_sandbox_are_refused(void)
{
    static const char *const bad[] = {"3000/",   "22/",    "0/",          "1023/",
                                      "65536/",  "08080/", "-1/",         "8080x/",
                                      "%38080/", "/",      "80800000000/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CLEANUP_REPLY struct reply r = ask("GET", "p", bad[i], NULL);
        ASSERT_EQm(bad[i], 400, r.status);
        ASSERT_STR_EQ("SECURITY_ERROR", text_at(r.json, "code"));
        ASSERT_EQ(0, strncmp(text_at(r.json, "error"), "Invalid port number: ", 21));
    }
    CLEANUP_REPLY struct reply r = ask("GET", "p", "9999/", NULL);
    ASSERT_EQ(502, r.status);
    ASSERT_STR_EQ("SERVICE_NOT_RESPONDING", text_at(r.json, "code"));
    ASSERT_EQ(9999, number_at(r.json, "context.port"));
    PASS();
}

TEST the_emulator_itself_is_not_behind_a_port(void)
{
    char rest[32];
    snprintf(rest, sizeof rest, "%d/health", emulator.port);
    CLEANUP_REPLY struct reply r = ask("GET", "p", rest, NULL);
    ASSERT_EQ(502, r.status);
    PASS();
}

TEST web_pages_of_others_cannot_forward(void)
{
    static const char *const paths[] = {"/sandbox/p/proxy/8080/", "/sandbox/p/ws/8080/", "/ws/echo",
                                        "/sandbox/p/wsConnect?port=8080"};
    static const char *const origins[] = {"Origin: http://evil.example\r\n", "Origin: null\r\n",
                                          "Origin: http://8080-p-token.localhost:8787\r\n",
                                          "Sec-Fetch-Site: cross-site\r\n"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (size_t j = 0; j < sizeof origins / sizeof *origins; j++) {
            char head[4096];
            ASSERT_EQm(paths[i], -1, upgrade(paths[i], origins[j], head, sizeof head));
            ASSERT_EQm(head, 0, strncmp(head, "HTTP/1.1 403 ", 13));
        }
    }
    PASS();
}

TEST a_page_of_a_sandbox_is_of_no_origin_here(void)
{
    CLEANUP_REPLY struct reply r = ask("GET", "p", "8080/", NULL);
    char policy[128];
    const char *got = header_of(&r, "Content-Security-Policy", policy, sizeof policy);
    ASSERT(got && strncmp(got, "sandbox ", 8) == 0);
    ASSERT_FALSE(strstr(got, "allow-same-origin"));
    PASS();
}

/* The raw server answers with bytes of our choice, given as hexadecimal digits. */
static struct reply hostile(const char *answer)
{
    char rest[2048] = "8090/?";
    for (const char *c = answer; *c; c++)
        snprintf(rest + strlen(rest), sizeof rest - strlen(rest), "%02x", (unsigned char)*c);
    char path[2200];
    snprintf(path, sizeof path, "/sandbox/p/proxy/%s", rest);
    return request(&emulator, "GET", path, NULL, NULL);
}

TEST hostile_servers_cannot_confuse_the_client(void)
{
    static const struct {
        const char *answer;
        int status;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", 502},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", 502},
        {"HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\n\r\n", 502},
        {"HTTP/1.1 200 OK\nX: 1\n\n", 502},
        {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", 502},
        {"no http", 502},
        {"", 500},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply r = hostile(rows[i].answer);
        ASSERT_EQm(rows[i].answer, rows[i].status, r.status);
        if (r.status != 200)
            ASSERT(*text_at(r.json, "code"));
    }
    CLEANUP_REPLY struct reply lost = hostile("");
    ASSERT_STR_EQ("Container suddenly disconnected, try again", text_at(lost.json, "error"));
    PASS();
}

/* The life of the container. */

TEST two_sandboxes_have_the_same_port_each(void)
{
    const char *failed = start_server("q");
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_REPLY struct reply set =
        post(&emulator, "/sandbox/q/exec", "[\"pkill -x node; sleep 0.1; true\"]");
    CLEANUP_REPLY struct reply q = ask("GET", "q", "8080/", NULL);
    ASSERT_EQ(502, q.status);
    CLEANUP_REPLY struct reply p = ask("GET", "p", "8080/", NULL);
    ASSERT_EQ(200, p.status);
    PASS();
}

TEST a_request_in_flight_keeps_the_container_awake(void)
{
    const char *failed = start_server("awake");
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_FD int fd = dial(&emulator);
    const char *text =
        "GET /sandbox/awake/proxy/8080/events?ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char got[4096] = "";
    ASSERT_EQ(0, send_all(fd, text, strlen(text)));
    ASSERT(reads(fd, "data: 1", got, sizeof got));
    advance("30m");
    ASSERT_STR_EQ("healthy", state_of("awake"));
    close(steal_fd(&fd));
    ASSERT(eventually(nothing_in_flight, (void *)"awake", 5000));
    advance("30m");
    ASSERT_STR_EQ("stopped", state_of("awake"));
    PASS();
}

/* Whether the server has a request that it does not answer. */
static bool has_hung(void *id)
{
    char path[64];
    snprintf(path, sizeof path, "/sandbox/%s/exists", (const char *)id);
    CLEANUP_REPLY struct reply r = post(&emulator, path, "[\"/tmp/hung\"]");
    return json_is_true(at(r.json, "exists"));
}

TEST the_end_of_a_container_ends_its_tunnels_and_requests(void)
{
    const char *failed = start_server("ends");
    char head[4096], got[4096] = "";
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_FD int tunnel = upgrade("/sandbox/ends/ws/8080/", NULL, head, sizeof head);
    CLEANUP_FD int waiting = dial(&emulator);
    const char *text = "GET /sandbox/ends/proxy/8080/hang HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT(tunnel >= 0);
    ASSERT_EQ(0, send_all(waiting, text, strlen(text)));
    ASSERT(eventually(has_hung, (void *)"ends", 10000));
    CLEANUP_REPLY struct reply r = post(&emulator, "/sandbox/ends/destroy", "[]");
    ASSERT_EQ(200, r.status);
    ASSERT(is_closed(tunnel));
    ASSERT(reads(waiting, "try again", got, sizeof got));
    ASSERT_EQ(0, strncmp(got, "HTTP/1.1 500 ", 13));
    PASS();
}

/* What older SDKs call. */

static struct reply face(const char *method, const char *path, const char *body)
{
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/p");
    char host[256];
    const char *url = text_at(shown.json, "containerUrl");
    snprintf(host, sizeof host, "Host: %s\r\n", strlen(url) > 7 ? url + 7 : "");
    return request(&emulator, method, path, host, body);
}

TEST the_registry_of_older_sdks_works(void)
{
    CLEANUP_REPLY struct reply none = face("GET", "/proxy/8080", NULL);
    ASSERT_EQ(404, none.status);
    ASSERT_STR_EQ("Port not found", text_at(none.json, "error"));
    ASSERT_EQ(8080, number_at(none.json, "port"));
    CLEANUP_REPLY struct reply expose =
        face("POST", "/api/expose-port", "{\"port\":8080,\"sessionId\":\"x\",\"name\":\"web\"}");
    char expected[256];
    snprintf(
        expected, sizeof expected,
        "{\"success\":true,\"port\":8080,\"url\":\"http://localhost:8080\",\"timestamp\":\"%s\"}",
        text_at(expose.json, "timestamp"));
    ASSERT_STR_EQ(expected, expose.body);
    CLEANUP_REPLY struct reply again = face("POST", "/api/expose-port", "{\"port\":8080}");
    ASSERT_EQ(409, again.status);
    ASSERT_STR_EQ("PORT_ALREADY_EXPOSED", text_at(again.json, "code"));
    ASSERT_STR_EQ("web", text_at(again.json, "context.portName"));
    CLEANUP_REPLY struct reply list = face("GET", "/api/exposed-ports?session=x", NULL);
    ASSERT_EQ(8080, number_at(list.json, "ports.0.port"));
    ASSERT_STR_EQ("active", text_at(list.json, "ports.0.status"));
    CLEANUP_REPLY struct reply proxied = face("POST", "/proxy/8080?a=b", "body");
    ASSERT_EQ(200, proxied.status);
    ASSERT_STR_EQ("/?a=b", text_at(proxied.json, "url"));
    CLEANUP_REPLY struct reply deeper = face("GET", "/proxy/8080/deeper", NULL);
    ASSERT_STR_EQ("/proxy/8080/deeper", text_at(deeper.json, "url"));
    CLEANUP_REPLY struct reply gone = face("DELETE", "/api/exposed-ports/8080?session=x", NULL);
    ASSERT_EQ(200, gone.status);
    CLEANUP_REPLY struct reply twice = face("DELETE", "/api/exposed-ports/8080", NULL);
    ASSERT_EQ(404, twice.status);
    ASSERT_STR_EQ("PORT_NOT_EXPOSED", text_at(twice.json, "code"));
    CLEANUP_REPLY struct reply reserved = face("POST", "/api/expose-port", "{\"port\":3000}");
    ASSERT_EQ(400, reserved.status);
    ASSERT_STR_EQ("INVALID_PORT_NUMBER", text_at(reserved.json, "code"));
    ASSERT_STR_EQ("Port 3000 is reserved", text_at(reserved.json, "context.reason"));
    CLEANUP_REPLY struct reply refused = face("GET", "/proxy/9999/x", NULL);
    ASSERT_EQ(502, refused.status);
    ASSERT_STR_EQ("Proxy error", text_at(refused.json, "error"));
    PASS();
}

/* The token. */

/* Of the locator file. */
static const char *token_of(const struct emulator *of)
{
    char path[160];
    snprintf(path, sizeof path, "%s/sandpit/%d.json", of->run_root, of->pid);
    CLEANUP_JSON json_t *locator = json_load_file(path, 0, NULL);
    return keep(text_at(locator, "token"));
}

static const char *check_token(void)
{
    char line[128];
    const char *token = token_of(&emulator);
    if (!*token)
        return "the locator file has no token";
    CLEANUP_REPLY struct reply refused = ask("GET", "p", "8080/", NULL);
    if (refused.status != 401)
        return "a request without the token was forwarded";
    snprintf(line, sizeof line, "Authorization: Bearer %s\r\nX-Other: 1\r\n", token);
    token_line = line;
    const char *failed = start_server("p");
    CLEANUP_REPLY struct reply r = ask("GET", "p", "8080/", NULL);
    token_line = NULL;
    if (failed || r.status != 200)
        return failed ? failed : keep(r.body);
    if (strcmp(text_at(r.json, "headers.x-other"), "1") != 0)
        return "another header was not forwarded";
    return strstr(r.body, token) ? "the token was forwarded" : NULL;
}

TEST the_emulators_token_never_reaches_a_server(void)
{
    const char *const extra[] = {"--auth", NULL};
    struct emulator first = emulator;
    memset(&emulator, 0, sizeof emulator);
    int started = emulator_start(&emulator, extra);
    const char *failed = started == 0 ? check_token() : "it did not start";
    emulator_stop(&emulator);
    emulator_clean(&emulator);
    emulator = first;
    ASSERT_EQm(failed, NULL, failed);
    PASS();
}

SUITE(proxy)
{
    const char *failed = start_server("p");
    if (failed) {
        printf("SKIP proxy: no server can be started with node: %s\n", failed);
        skipped = true;
        return;
    }
    RUN_TEST(a_request_reaches_the_server_as_it_was_sent);
    RUN_TEST(bodies_pass_both_ways);
    RUN_TEST(worker_and_server_answer_in_turn_on_one_connection);
    RUN_TEST(chunks_of_a_request_that_came_early_pass_once);
    RUN_TEST(connections_to_the_server_are_kept);
    RUN_TEST(hints_trailers_and_redirects_pass_untouched);
    RUN_TEST(events_come_as_they_are_sent);
    RUN_TEST(a_server_without_lengths_answers_until_it_closes);
    RUN_TEST(a_large_answer_passes_with_little_memory);
    RUN_TEST(ports_that_are_not_a_server_of_the_sandbox_are_refused);
    RUN_TEST(the_emulator_itself_is_not_behind_a_port);
    RUN_TEST(web_pages_of_others_cannot_forward);
    RUN_TEST(a_page_of_a_sandbox_is_of_no_origin_here);
    RUN_TEST(hostile_servers_cannot_confuse_the_client);
    RUN_TEST(clients_that_leave_in_the_middle_leave_nothing);
    RUN_TEST(the_registry_of_older_sdks_works);
    RUN_TEST(two_sandboxes_have_the_same_port_each);
    RUN_TEST(the_end_of_a_container_ends_its_tunnels_and_requests);
    RUN_TEST(a_request_in_flight_keeps_the_container_awake);
    RUN_TEST(the_emulators_token_never_reaches_a_server);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, proxy);
    if (skipped)
        return 77;
    GREATEST_MAIN_END();
}
