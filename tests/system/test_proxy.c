/* Requests that are forwarded to servers in sandboxes, and tunnels to them, with real servers. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "counts.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static bool skipped;
static const char *token_line; /* that start_server() and ask() send, or NULL */

/* What runs in the sandbox: tells what it got, and does what the path says. On 8090 it answers with
 * whatever bytes the request's query holds. */
static const char server_js[] =
    "const http=require('http'),net=require('net');let kept=0;"
    "const s=http.createServer((q,r)=>{const u=new URL(q.url,'http://x');"
    "if(u.pathname=='/echo'){r.writeHead(200,{'x-got':q.method});q.pipe(r);}"
    "else if(u.pathname=='/hang'){}"
    "else if(u.pathname=='/events'){r.writeHead(200,{'content-type':'text/event-stream'});"
    "r.write('data: 1\\n\\n');setTimeout(()=>r.end('data: 2\\n\\n'),+u.searchParams.get('ms'));}"
    "else if(u.pathname=='/to'){r.writeHead(307,{location:'/seen?by=redirect'});r.end();}"
    "else if(u.pathname=='/hints'){r.writeEarlyHints({link:'</a.css>; rel=preload'});r.end('ok');}"
    "else if(u.pathname=='/trailers'){r.writeHead(200,{trailer:'X-Sum'});r.write('body');"
    "r.addTrailers({'X-Sum':'4'});r.end();}"
    "else if(u.pathname=='/bytes'){r.writeHead(200,{'content-type':'image/png','set-cookie':"
    "['a=1','b=2']});r.end(Buffer.from([0x89,0x50,0xff,0]));}"
    "else if(u.pathname=='/big'){const "
    "n=+u.searchParams.get('n');r.writeHead(200,{'content-length':"
    "n});let i=0;const b=Buffer.alloc(65536,'x');const w=()=>{while(i<n){const "
    "k=Math.min(65536,n-i);"
    "i+=k;if(!r.write(b.subarray(0,k)))return r.once('drain',w);}r.end();};w();}"
    "else{r.setHeader('content-type','application/json');r.end(JSON.stringify({method:q.method,"
    "url:q.url,headers:q.headers,sockets:kept}));}});"
    "s.on('connection',()=>kept++);"
    "s.on('upgrade',(q,c)=>{c.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: '+"
    "q.headers.upgrade+'\\r\\nConnection: Upgrade\\r\\nX-Url: '+q.url+'\\r\\nX-Host: "
    "'+q.headers.host+"
    "'\\r\\n\\r\\n');c.on('data',d=>c.write(d));c.on('end',()=>c.end());c.on('error',()=>0);});"
    "s.listen(8080);"
    "net.createServer(c=>{c.once('data',d=>{const m=/\\?(\\S*)/.exec(d.toString());"
    "c.end(Buffer.from(m?m[1]:'','hex'));});c.on('error',()=>0);}).listen(8090,()=>"
    "console.log('up'));";

/* Starts the server in a sandbox and waits until it answers; NULL, or what went wrong. */
static const char *start_server(const char *id)
{
    char path[128];
    CLEANUP_JSON json_t *write = json_pack("[s, s]", "/workspace/server.js", server_js);
    CLEANUP_FREE char *text = json_dumps(write, 0);
    snprintf(path, sizeof path, "/sandbox/%s/writeFile", id);
    CLEANUP_REPLY struct reply written = request(&emulator, "POST", path, token_line, text);
    if (written.status != 200)
        return keep(written.body);
    snprintf(path, sizeof path, "/sandbox/%s/exec", id);
    CLEANUP_REPLY struct reply run = request(
        &emulator, "POST", path, token_line,
        "[\"node server.js >log 2>&1 & for i in $(seq 200); do grep -q up log && exit 0; sleep "
        "0.05; done; cat log; exit 1\", {\"enableDefaultSession\": false}]");
    return number_at(run.json, "exitCode") == 0 ? NULL : keep(run.body);
}

static struct reply ask(const char *method, const char *id, const char *rest, const char *body)
{
    char path[256];
    snprintf(path, sizeof path, "/sandbox/%s/proxy/%s", id, rest);
    return request(&emulator, method, path, token_line, body);
}

static long long inflight(const char *id)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", id);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return number_at(shown.json, "inflight");
}

static bool nothing_in_flight(void *id)
{
    return inflight(id) == 0;
}

static const char *state_of(const char *id)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", id);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return keep(text_at(shown.json, "state"));
}

/* Reads until the text is there, the other side closes, or 5 s pass. */
static bool reads(int fd, const char *text, char *to, size_t size)
{
    size_t got = 0;
    long long until = test_ms() + 5000;
    while (got + 1 < size && test_ms() < until) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, 100) <= 0)
            continue;
        ssize_t n = recv(fd, to + got, size - 1 - got, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
        to[got] = '\0';
        if (strstr(to, text))
            return true;
    }
    return false;
}

/* Whether the other side has closed, within 5 s. */
static bool is_closed(int fd)
{
    char data[4096];
    long long until = test_ms() + 5000;
    while (test_ms() < until) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, 100) > 0 && recv(fd, data, sizeof data, 0) <= 0)
            return true;
    }
    return false;
}

/* A connection that was upgraded; -1 when it was not. `head` gets the answer. */
static int upgrade(const char *path, const char *headers, char *head, size_t size)
{
    char text[1024];
    int fd = dial(&emulator);
    int length =
        snprintf(text, sizeof text,
                 "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nConnection: Upgrade\r\nUpgrade: "
                 "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                 "AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n",
                 path, emulator.port, headers ? headers : "");
    head[0] = '\0';
    if (fd >= 0 && send_all(fd, text, (size_t)length) == 0 && reads(fd, "\r\n\r\n", head, size) &&
        strncmp(head, "HTTP/1.1 101 ", 13) == 0)
        return fd;
    cleanup_fd(&fd);
    return -1;
}

/* Requests. */

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
    ASSERT(emulator_memory(&emulator, "VmRSS") - before < 4096);
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

/* Tunnels. */

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

static void advance(const char *by)
{
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%s\"}", by);
    CLEANUP_REPLY struct reply r = post(&emulator, "/cdn-cgi/local/clock/advance", body);
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
    while (inflight("ends") < 1)
        poll(NULL, 0, 5);
    CLEANUP_REPLY struct reply r = post(&emulator, "/sandbox/ends/destroy", "[]");
    ASSERT_EQ(200, r.status);
    ASSERT(is_closed(tunnel));
    ASSERT(reads(waiting, "try again", got, sizeof got));
    ASSERT_EQ(0, strncmp(got, "HTTP/1.1 500 ", 13));
    PASS();
}

TEST a_sleeping_sandbox_is_started_and_its_port_waited_for(void)
{
    CLEANUP_FD int fd = dial(&emulator);
    const char *text = "GET /sandbox/fresh/proxy/8080/late HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char got[4096] = "";
    ASSERT_EQ(0, send_all(fd, text, strlen(text)));
    while (strcmp(state_of("fresh"), "healthy") != 0)
        poll(NULL, 0, 5);
    const char *failed = start_server("fresh");
    ASSERT_EQm(failed, NULL, failed);
    ASSERT(reads(fd, "\"/late\"", got, sizeof got));
    ASSERT_EQ(0, strncmp(got, "HTTP/1.1 200 ", 13));
    PASS();
}

/* The JSON form. */

TEST container_fetch_answers_with_json(void)
{
    CLEANUP_REPLY struct reply r =
        post(&emulator, "/sandbox/p/containerFetch",
             "[\"http://any/x?y=1\", {\"method\": \"POST\", \"headers\": {\"X-Mine\": \"1\"}, "
             "\"body\": \"h\\u00e9\"}, 8080]");
    ASSERT_EQ(200, r.status);
    ASSERT_EQ(200, number_at(r.json, "status"));
    ASSERT_STR_EQ("application/json", text_at(r.json, "headers.content-type"));
    CLEANUP_JSON json_t *seen = json_loads(text_at(r.json, "body"), 0, NULL);
    ASSERT_STR_EQ("POST", text_at(seen, "method"));
    ASSERT_STR_EQ("/x?y=1", text_at(seen, "url"));
    ASSERT_STR_EQ("1", text_at(seen, "headers.x-mine"));
    ASSERT_STR_EQ("3", text_at(seen, "headers.content-length"));
    CLEANUP_REPLY struct reply to = post(&emulator, "/sandbox/p/containerFetch", "[\"/to\", 8080]");
    ASSERT(strstr(text_at(to.json, "body"), "/seen?by=redirect"));
    CLEANUP_REPLY struct reply manual =
        post(&emulator, "/sandbox/p/containerFetch", "[\"/to\", {\"redirect\": \"manual\"}, 8080]");
    ASSERT_EQ(307, number_at(manual.json, "status"));
    CLEANUP_REPLY struct reply bytes =
        post(&emulator, "/sandbox/p/containerFetch", "[\"/bytes\", {}, 8080]");
    ASSERT_STR_EQ("iVD/AA==", text_at(bytes.json, "body"));
    ASSERT_STR_EQ("base64", text_at(bytes.json, "encoding"));
    ASSERT_STR_EQ("a=1, b=2", text_at(bytes.json, "headers.set-cookie"));
    PASS();
}

TEST container_fetch_refuses_what_it_cannot_do(void)
{
    static const struct {
        const char *body;
        int status;
    } rows[] = {{"[\"/\"]", 400},
                {"[\"/\", {}, 3000]", 400},
                {"[\"/\", {}, 80]", 400},
                {"[\"/\", {}, 8080.5]", 400},
                {"[\"/a b\", {}, 8080]", 400},
                {"[\"/\", {\"headers\": {\"X\": \"a\\r\\nY: b\"}}, 8080]", 400},
                {"[\"/\", {\"headers\": {\"X Y\": \"a\"}}, 8080]", 400},
                {"[\"/\", {\"method\": \"GET / HTTP/1.1\\r\\nX:\"}, 8080]", 400},
                {"[\"/\", {}, 9999]", 502}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply r = post(&emulator, "/sandbox/p/containerFetch", rows[i].body);
        ASSERT_EQm(rows[i].body, rows[i].status, r.status);
    }
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
    RUN_TEST(an_upgrade_opens_a_tunnel_to_any_port);
    RUN_TEST(without_an_upgrade_it_is_426);
    RUN_TEST(a_tunnel_needs_a_good_port_and_path);
    RUN_TEST(many_tunnels_open_and_close);
    RUN_TEST(clients_that_leave_in_the_middle_leave_nothing);
    RUN_TEST(container_fetch_answers_with_json);
    RUN_TEST(container_fetch_refuses_what_it_cannot_do);
    RUN_TEST(the_registry_of_older_sdks_works);
    RUN_TEST(two_sandboxes_have_the_same_port_each);
    RUN_TEST(init_starts_three_websocket_servers);
    RUN_TEST(init_says_what_failed);
    RUN_TEST(a_sleeping_sandbox_is_started_and_its_port_waited_for);
    RUN_TEST(the_end_of_a_container_ends_its_tunnels_and_requests);
    RUN_TEST(a_request_in_flight_keeps_the_container_awake);
    RUN_TEST(messages_renew_the_idle_time_and_sleep_closes_the_tunnel);
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
