/* The front door under attack: slow clients, floods, no descriptors left, pipelining, browsers that
 * lie, and an address that others reach. What the parser refuses is in test_door and unit tests. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

enum { MANY = 1000, DEADLINE_MS = 1000, PROMPT_MS = 1000 };
/* As MANY and DEADLINE_MS say; the idle deadline is long, so that it is not what ends anybody. */
static const char *const impatient[] = {"--http-deadlines", "1000,1000,30000", NULL};

static int status_with(const char *method, const char *path, const char *headers, const char *body)
{
    CLEANUP_REPLY struct reply reply = request(&emulator, method, path, headers, body);
    return reply.status;
}

static bool files_are(void *arg)
{
    return emulator_files(&emulator) <= *(int *)arg;
}

/* A health check that was answered in time. */
static bool answers_promptly(void)
{
    long long start = test_ms();
    return status_with("GET", "/cdn-cgi/local/health", NULL, NULL) == 200 &&
           test_ms() - start < PROMPT_MS;
}

/* Slow clients. */

struct slow {
    int fd;
    bool closed;
    char answer[13]; /* "HTTP/1.1 408" */
};

static void slow_read(struct slow *slow)
{
    char bytes[2048];
    ssize_t size = recv(slow->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size > 0 && !*slow->answer)
        snprintf(slow->answer, sizeof slow->answer, "%.12s", bytes);
    slow->closed = size == 0 || (size < 0 && errno != EAGAIN);
}

/* One turn: reads what came, then each that is still open sends one more byte. */
static int slow_turn(struct slow *slow, int count, char byte)
{
    struct pollfd polls[MANY];
    int open = 0;
    for (int i = 0; i < count; i++)
        polls[i] = (struct pollfd){.fd = slow[i].closed ? -1 : slow[i].fd, .events = POLLIN};
    poll(polls, (nfds_t)count, 100);
    for (int i = 0; i < count; i++) {
        if (polls[i].revents)
            slow_read(&slow[i]);
        if (slow[i].closed)
            continue;
        open++;
        send(slow[i].fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return open;
}

/* 1,000 clients send `first` and then single bytes. Returns what went wrong, or NULL. */
static const char *trickle(const char *first, char byte, const char *answer)
{
    struct slow *slow = calloc(MANY, sizeof *slow);
    const char *wrong = NULL;
    int before = emulator_files(&emulator), open = MANY, prompt = 0;
    for (int i = 0; i < MANY; i++) {
        slow[i].fd = dial(&emulator);
        if (slow[i].fd < 0 || send_all(slow[i].fd, first, strlen(first)) < 0)
            wrong = "a slow client could not connect";
    }
    long long end = test_ms() + 20 * DEADLINE_MS;
    while (!wrong && open && test_ms() < end) {
        open = slow_turn(slow, MANY, byte);
        prompt += answers_promptly() ? 1 : -1000;
    }
    if (!wrong && open)
        wrong = "a byte now and then kept a connection";
    if (!wrong && prompt < 1)
        wrong = "others were not answered meanwhile";
    for (int i = 0; i < MANY; i++) {
        if (!wrong && answer && strcmp(slow[i].answer, answer) != 0)
            wrong = keep(slow[i].answer);
        close(slow[i].fd);
    }
    free(slow);
    if (!wrong && !eventually(files_are, &before, 10000))
        wrong = "descriptors did not come back";
    return wrong;
}

#define HOST "Host: localhost\r\n"

TEST a_thousand_slow_heads_end_at_the_deadline_and_others_are_served(void)
{
    const char *wrong = trickle("GET / HTTP/1.1\r\n" HOST "X: ", 'x', "HTTP/1.1 408");
    ASSERTm(wrong, !wrong);
    PASS();
}

TEST a_thousand_slow_bodies_end_at_the_deadline_and_others_are_served(void)
{
    const char *wrong = trickle(
        "POST /sandbox/slow/exec HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n[", ' ', NULL);
    ASSERTm(wrong, !wrong);
    PASS();
}

TEST a_thousand_slow_chunk_sizes_end_at_the_deadline_and_others_are_served(void)
{
    const char *wrong =
        trickle("POST /sandbox/slow/exec HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
                '0', NULL);
    ASSERTm(wrong, !wrong);
    PASS();
}

TEST a_thousand_chunks_of_one_byte_end_at_the_deadline(void)
{
    CLEANUP_REPLY struct reply before = get(&emulator, "/cdn-cgi/local/sandboxes/slow");
    int fd = dial(&emulator);
    static const char head[] =
        "POST /sandbox/slow/exec HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n";
    send_all(fd, head, sizeof head - 1);
    long long start = test_ms();
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    while (test_ms() - start < 20 * DEADLINE_MS && poll(&poller, 1, 20) == 0)
        send(fd, "1\r\n \r\n", 6, MSG_NOSIGNAL | MSG_DONTWAIT);
    ASSERT(test_ms() - start < 20 * DEADLINE_MS);
    close(fd);
    ASSERT_EQm("no half request makes a sandbox", 404, before.status);
    PASS();
}

TEST beyond_the_cap_the_longest_waiting_gets_503_and_newcomers_are_served(void)
{
    enum { CAP = 1024, CLIENTS = CAP + 16 };
    static int fds[CLIENTS];
    int before = emulator_files(&emulator);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = dial(&emulator);
        send_all(fds[i], "GET ", 4);
    }
    ASSERT(answers_promptly());
    CLEANUP_REPLY struct reply first = read_reply(fds[0]);
    ASSERT_EQ(503, first.status);
    ASSERT_STR_EQ("TOO_MANY_CONNECTIONS", text_at(first.json, "code"));
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    ASSERT(eventually(files_are, &before, 10000));
    PASS();
}

/* Descriptors. */

static int start_with_files(rlim_t files, struct rlimit *old)
{
    struct rlimit few = {files, files};
    getrlimit(RLIMIT_NOFILE, old);
    emulator_stop(&emulator);
    setrlimit(RLIMIT_NOFILE, &few);
    int result = emulator_restart(&emulator, NULL);
    setrlimit(RLIMIT_NOFILE, old);
    return result;
}

/* Sandboxes until one does not start; how many did. */
static int fill_with_sandboxes(struct reply *refusal)
{
    for (int i = 0; i < 64; i++) {
        char path[64];
        snprintf(path, sizeof path, "/sandbox/full-%d/exec", i);
        *refusal = post(&emulator, path, "[\"true\"]");
        if (refusal->status != 200)
            return i;
        reply_free(refusal);
    }
    return -1;
}

TEST with_64_descriptors_what_cannot_start_says_so_and_nothing_leaks(void)
{
    struct rlimit old;
    if (geteuid() != 0)
        SKIPm("only root raises a hard limit again");
    ASSERT_EQ(0, start_with_files(64, &old));
    int before = emulator_files(&emulator);
    for (int round = 0; round < 3; round++) {
        CLEANUP_REPLY struct reply refusal = {0};
        int started = fill_with_sandboxes(&refusal);
        ASSERTm("some start, and then one does not", started > 0);
        ASSERTm(keep(refusal.body), refusal.status == 500 || refusal.status == 503);
        ASSERTm(keep(refusal.body), strstr(refusal.body, "Too many open files"));
        int fds[100];
        for (int i = 0; i < 100; i++) {
            fds[i] = dial(&emulator);
            send_all(fds[i], "GET ", 4);
        }
        for (int i = 0; i < 100; i++)
            close(fds[i]);
        ASSERTm("accepting goes on", answers_promptly());
        ASSERT_EQ(200, status_with("POST", "/sandbox/full-0/exec", NULL, "[\"true\"]"));
        ASSERT_EQ(200, status_with("POST", "/cdn-cgi/local/reset", NULL, ""));
        ASSERTm("descriptors come back", eventually(files_are, &before, 10000));
    }
    ASSERT_EQ(200, status_with("POST", "/sandbox/after/exec", NULL, "[\"true\"]"));
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(0, emulator_restart(&emulator, impatient));
    PASS();
}

/* Pipelining. */

/* Sends all, reads until the other side closes, and writes the statuses in order to `to`. */
static void statuses_of(const char *bytes, char *to, size_t size)
{
    static char got[65536];
    size_t used = 0, length = 0;
    int fd = dial(&emulator);
    send_all(fd, bytes, strlen(bytes));
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    while (used + 1 < sizeof got && poll(&poller, 1, 10000) == 1) {
        ssize_t more = recv(fd, got + used, sizeof got - used - 1, 0);
        if (more <= 0)
            break;
        used += (size_t)more;
    }
    close(fd);
    got[used] = '\0';
    to[0] = '\0';
    for (const char *at = got; (at = strstr(at, "HTTP/1.1 ")) && length + 5 < size; at += 9)
        length += (size_t)snprintf(to + length, size - length, "%.3s ", at + 9);
}

TEST pipelined_requests_are_routed_one_by_one(void)
{
    CLEANUP_REPLY struct reply made = post(&emulator, "/sandbox/pipe/exec", "[\"true\"]");
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/pipe");
    const char *url = text_at(shown.json, "containerUrl");
    ASSERT(strlen(url) > 7);
    char *bytes = NULL, statuses[64];
    ASSERT(asprintf(&bytes,
                    "GET /cdn-cgi/local/health HTTP/1.1\r\n" HOST "\r\n"
                    "POST /sandbox/pipe/exec HTTP/1.1\r\n" HOST
                    "Content-Length: 12\r\n\r\n[\"echo one\"]"
                    "GET /api/ping HTTP/1.1\r\nHost: %s\r\n\r\n"
                    "GET /cdn-cgi/local/health HTTP/1.1\r\nHost: %s\r\n\r\n"
                    "GET /cdn-cgi/local/clock HTTP/1.1\r\n" HOST "\r\n"
                    "GET /cdn-cgi/local/info HTTP/1.1\r\nHost: evil.example\r\n\r\n"
                    "POST /cdn-cgi/local/reset HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
                    url + 7, url + 7) > 0);
    statuses_of(bytes, statuses, sizeof statuses);
    ASSERT_STR_EQm("the control API is not there under a container's host",
                   "200 200 200 404 200 403 ", keep(statuses));
    free(bytes);
    CLEANUP_REPLY struct reply still = get(&emulator, "/cdn-cgi/local/sandboxes/pipe");
    ASSERT_EQm("nothing behind the refused one was run", 200, still.status);
    PASS();
}

TEST a_bad_chunk_hides_no_request(void)
{
    static const char *const bad[] = {
        "+5\r\nhello\r\n", "0x5\r\nhello\r\n", "-1\r\nhello\r\n",
        " 5\r\nhello\r\n", "5\rhello\r\n",     "FFFFFFFFFFFFFFFFF\r\n",
        "5\r\nhelloX",     "zz\r\n",           "\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char bytes[512], statuses[64];
        snprintf(bytes, sizeof bytes,
                 "POST /sandbox/pipe/exec HTTP/1.1\r\n" HOST
                 "Transfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n"
                 "GET /cdn-cgi/local/health HTTP/1.1\r\n" HOST "\r\n",
                 bad[i]);
        statuses_of(bytes, statuses, sizeof statuses);
        ASSERTm(bad[i], !strstr(statuses, "200"));
    }
    ASSERT(answers_promptly());
    PASS();
}

/* Heads. */

TEST ten_thousand_headers_get_431(void)
{
    char *bytes = malloc(200000);
    size_t used = (size_t)snprintf(bytes, 200000, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < 10000; i++) {
        memcpy(bytes + used, "A: b\r\n", 6);
        used += 6;
    }
    memcpy(bytes + used, "\r\n", 2);
    CLEANUP_REPLY struct reply reply = raw(&emulator, bytes, used + 2, 3000);
    free(bytes);
    ASSERT_EQ(431, reply.status);
    PASS();
}

TEST other_protocols_are_not_switched_to(void)
{
    ASSERT_EQ(200, status_with("GET", "/cdn-cgi/local/health",
                               "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                               "HTTP2-Settings: AAMAAABkAAQAAP__\r\n",
                               NULL));
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    CLEANUP_REPLY struct reply h2 = raw(&emulator, preface, sizeof preface - 1, 3000);
    ASSERT(h2.status == 400 || h2.status == 505);
    PASS();
}

/* Browsers. */

#define SOCKET                                                                                     \
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                   \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

TEST a_foreign_page_opens_no_websocket(void)
{
    static const char *const paths[] = {"/cdn-cgi/local/events", "/sandbox/door/exec",
                                        "/api/execute", "/"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        ASSERT_EQm(paths[i], 403,
                   status_with("GET", paths[i], SOCKET "Origin: http://evil.example\r\n", NULL));
        ASSERT_EQm(paths[i], 403,
                   status_with("GET", paths[i],
                               SOCKET "Origin: http://8080-x-tok.localhost:8787\r\n", NULL));
        ASSERTm(paths[i], status_with("GET", paths[i], SOCKET, NULL) != 101);
    }
    PASS();
}

TEST a_rebound_name_and_simple_posts_are_refused_whatever_their_type(void)
{
    static const char *const types[] = {"Content-Type: text/plain\r\n",
                                        "Content-Type: application/x-www-form-urlencoded\r\n",
                                        "Content-Type: multipart/form-data; boundary=x\r\n",
                                        "Content-Type: application/json\r\n", ""};
    static const char *const from[] = {
        "Host: evil.example:8787\r\nOrigin: http://evil.example:8787\r\n",
        "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n",
        "Origin: https://localhost\r\n",
        "Origin: http://127.0.0.1.evil.example\r\n",
        "Sec-Fetch-Site: nonsense\r\n",
    };
    static const char *const paths[] = {"/sandbox/door/exec", "/sandbox/door/destroy",
                                        "/cdn-cgi/local/clock/advance",
                                        "/cdn-cgi/local/sandboxes/door/destroy"};
    for (size_t f = 0; f < sizeof from / sizeof *from; f++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            char headers[256];
            snprintf(headers, sizeof headers, "%s%s", from[f], types[t]);
            for (size_t p = 0; p < sizeof paths / sizeof *paths; p++)
                ASSERT_EQm(from[f], 403, status_with("POST", paths[p], headers, "[\"true\"]"));
        }
    }
    CLEANUP_REPLY struct reply door = get(&emulator, "/cdn-cgi/local/sandboxes/door");
    ASSERT_EQm("and none of them made a sandbox", 404, door.status);
    PASS();
}

/* An address that others reach, in a network of its own. */

static bool in_log(const char *text)
{
    char *log = NULL;
    const char *const argv[] = {"cat", emulator.log, NULL};
    run_command(&emulator, argv, &log, NULL);
    bool found = strstr(log, text) != NULL;
    free(log);
    return found;
}

static const char *token_in_log(void)
{
    static char token[64];
    char *log = NULL;
    const char *const argv[] = {"cat", emulator.log, NULL};
    run_command(&emulator, argv, &log, NULL);
    const char *at = strstr(log, "Bearer ");
    snprintf(token, sizeof token, "%.32s", at ? at + 7 : "");
    free(log);
    return token;
}

static const char *serve_the_network(void *arg)
{
    const char *const up[] = {"sh", "-c", "ip link set lo up && ip addr add 192.0.2.1/32 dev lo",
                              NULL};
    const char *const open[] = {"--ip", arg, NULL};
    struct emulator outer = emulator;
    emulator = (struct emulator){0};
    snprintf(emulator.dir, sizeof emulator.dir, "%s/net-XXXXXX", outer.dir);
    if (!mkdtemp(emulator.dir) || run_command(&outer, up, NULL, NULL) != 0)
        return "no address";
    if (emulator_start(&emulator, open) < 0)
        return "it did not start";
    char headers[128], wrong[128];
    snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n", token_in_log());
    snprintf(wrong, sizeof wrong, "Authorization: Bearer %031dx\r\n", 0);
    if (!in_log("others on the network reach this emulator"))
        return "no warning";
    /* support's client dials 127.0.0.1, which an emulator on one other address does not serve. */
    if (strcmp(arg, "0.0.0.0") == 0) {
        if (status_with("POST", "/sandbox/net/exec", NULL, "[\"true\"]") != 401 ||
            status_with("GET", "/cdn-cgi/local/info", NULL, NULL) != 401 ||
            status_with("GET", "/cdn-cgi/local/info", wrong, NULL) != 401)
            return "served without the token";
        if (status_with("GET", "/cdn-cgi/local/info", headers, NULL) != 200)
            return "refused with the token";
    }
    char *out = NULL, *errors = NULL;
    const char *const exec[] = {SANDPIT_BINARY, "exec", "net", "--", "echo", "through", NULL};
    int status = run_command(&emulator, exec, &out, &errors);
    if (status != 0 || !strstr(out, "through"))
        return *errors ? errors : "the CLI does not use the token of the locator";
    return emulator_stop(&emulator) == 0 ? NULL : "it did not end cleanly";
}

TEST other_addresses_warn_and_demand_the_token_which_the_cli_knows(void)
{
    static const char *const addresses[] = {"0.0.0.0", "192.0.2.1"};
    if (geteuid() != 0)
        SKIPm("only root makes a network of its own");
    for (size_t i = 0; i < 2; i++) {
        const char *wrong =
            in_namespaces(CLONE_NEWNET | CLONE_NEWNS, serve_the_network, (void *)addresses[i]);
        ASSERTm(wrong, !wrong);
    }
    PASS();
}

SUITE(abuse_door_suite)
{
    RUN_TEST(a_thousand_slow_heads_end_at_the_deadline_and_others_are_served);
    RUN_TEST(a_thousand_slow_bodies_end_at_the_deadline_and_others_are_served);
    RUN_TEST(a_thousand_slow_chunk_sizes_end_at_the_deadline_and_others_are_served);
    RUN_TEST(a_thousand_chunks_of_one_byte_end_at_the_deadline);
    RUN_TEST(beyond_the_cap_the_longest_waiting_gets_503_and_newcomers_are_served);
    RUN_TEST(ten_thousand_headers_get_431);
    RUN_TEST(other_protocols_are_not_switched_to);
    RUN_TEST(a_foreign_page_opens_no_websocket);
    RUN_TEST(a_rebound_name_and_simple_posts_are_refused_whatever_their_type);
    RUN_TEST(pipelined_requests_are_routed_one_by_one);
    RUN_TEST(a_bad_chunk_hides_no_request);
    RUN_TEST(with_64_descriptors_what_cannot_start_says_so_and_nothing_leaks);
    RUN_TEST(other_addresses_warn_and_demand_the_token_which_the_cli_knows);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP abuse_door_suite: %s\n", missing);
        return 77;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 16384) {
        printf("SKIP abuse_door_suite: RLIMIT_NOFILE is %lu, 16384 are needed\n",
               (unsigned long)files.rlim_cur);
        return 77;
    }
    if (emulator_start(&emulator, impatient) < 0) {
        printf("the emulator did not start: see %s\n", emulator.log);
        return 1;
    }
    RUN_SUITE(abuse_door_suite);
    if (emulator_stop(&emulator) != 0)
        return 1;
    emulator_clean(&emulator);
    GREATEST_MAIN_END();
}
