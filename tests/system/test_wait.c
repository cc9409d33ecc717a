/* Waiting for processes over HTTP: waitForLog, waitForPort, waitForExit, the container's
 * port-watch, exec by way of a stream, and the names of older documents. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static bool has_python;

static struct reply method(const char *box, const char *name, const char *arguments)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, name);
    return post(&emulator, path, arguments);
}

static struct reply api(const char *verb, const char *path, const char *box, const char *body)
{
    char headers[128];
    snprintf(headers, sizeof headers, "X-Sandbox-Id: %s\r\n", box);
    return request(&emulator, verb, path, headers, body);
}

/* Starts a process; its pid, or -1. */
static long long start(const char *box, const char *id, const char *command)
{
    json_t *arguments = json_pack("[s,{s:s}]", command, "processId", id);
    char *text = json_dumps(arguments, 0);
    CLEANUP_REPLY struct reply reply = method(box, "startProcess", text);
    json_decref(arguments);
    free(text);
    return reply.status == 200 ? number_at(reply.json, "pid") : -1;
}

static bool run(const char *box, const char *command)
{
    json_t *arguments = json_pack("[s]", command);
    char *text = json_dumps(arguments, 0);
    CLEANUP_REPLY struct reply reply = method(box, "exec", text);
    json_decref(arguments);
    free(text);
    return number_at(reply.json, "exitCode") == 0;
}

static const char *container_host(const char *box)
{
    static char host[256];
    char path[128];
    run(box, "true");
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    const char *url = text_at(shown.json, "containerUrl");
    snprintf(host, sizeof host, "Host: %s\r\n", strlen(url) > 7 ? url + 7 : "");
    return host;
}

static struct reply container(const char *box, const char *path, const char *body)
{
    return request(&emulator, "POST", path, container_host(box), body);
}

/* Whether nothing is in flight in the sandbox of this name. */
static bool is_quiet(void *box)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", (const char *)box);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return number_at(shown.json, "inflight") == 0;
}

static bool is_busy(void *box)
{
    return !is_quiet(box);
}

/* A call made from another thread. */
struct later {
    pthread_t thread;
    const char *box, *name, *arguments;
    struct reply reply;
};

static void *make_call(void *arg)
{
    struct later *later = arg;
    later->reply = method(later->box, later->name, later->arguments);
    return NULL;
}

static void begin_call(struct later *later)
{
    pthread_create(&later->thread, NULL, make_call, later);
}

static struct reply end_call(struct later *later)
{
    pthread_join(later->thread, NULL);
    return later->reply;
}

/* waitForLog. */

TEST output_that_is_there_is_found(void)
{
    ASSERT(start("log", "there", "echo one; echo it is ready; echo bad >&2; sleep 60") > 0);
    CLEANUP_REPLY struct reply out = method("log", "waitForLog", "[\"there\", \"ready\", 5000]");
    ASSERT_STR_EQ("{\"line\":\"it is ready\"}", out.body);
    CLEANUP_REPLY struct reply err = method("log", "waitForLog", "[\"there\", \"bad\", 5000]");
    ASSERT_STR_EQ("{\"line\":\"bad\"}", err.body);
    CLEANUP_REPLY struct reply expression =
        method("log", "waitForLog", "[\"there\", \"/is (\\\\w+)(!)?/\", 5000]");
    ASSERT_STR_EQ("{\"line\":\"it is ready\",\"match\":[\"is ready\",\"ready\",null]}",
                  expression.body);
    CLEANUP_REPLY struct reply object = method(
        "log", "waitForLog", "[\"there\", {\"source\": \"READY\", \"flags\": \"gi\"}, 5000]");
    ASSERT_STR_EQ("{\"line\":\"it is ready\",\"match\":[\"ready\"]}", object.body);
    CLEANUP_REPLY struct reply again = api("POST", "/api/process/there/waitForLog", "log",
                                           "{\"pattern\": \"/^one/\", \"timeout\": 5000}");
    ASSERT_EQ(200, again.status);
    ASSERT_STR_EQ("one", text_at(again.json, "match.0"));
    PASS();
}

TEST output_that_comes_later_is_waited_for(void)
{
    ASSERT(start("log", "later", "until [ -e /tmp/go ]; do sleep 0.01; done; echo gone; sleep 60") >
           0);
    struct later later = {
        .box = "log", .name = "waitForLog", .arguments = "[\"later\", \"gone\", 10000]"};
    begin_call(&later);
    ASSERT(eventually(is_busy, "log", 5000));
    ASSERT(run("log", "touch /tmp/go"));
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT_STR_EQ("{\"line\":\"gone\"}", reply.body);
    PASS();
}

TEST a_timeout_is_408_with_all_that_is_known(void)
{
    ASSERT(start("log", "quiet", "sleep 60") > 0);
    long long before = test_ms();
    CLEANUP_REPLY struct reply reply = method("log", "waitForLog", "[\"quiet\", \"/x/i\", 150]");
    long long passed = test_ms() - before;
    ASSERT_EQ(408, reply.status);
    ASSERT(passed >= 150 && passed < 2000);
    ASSERT_STR_EQ("PROCESS_READY_TIMEOUT", text_at(reply.json, "code"));
    ASSERT(strstr(text_at(reply.json, "error"), "did not become ready within 150ms"));
    CLEANUP_REPLY struct reply wanted = {.json = json_pack("{s:s,s:s,s:s,s:i}", "processId",
                                                           "quiet", "command", "sleep 60",
                                                           "condition", "/x/i", "timeout", 150)};
    ASSERT(json_equal(wanted.json, at(reply.json, "context")));
    CLEANUP_REPLY struct reply other =
        api("POST", "/api/process/quiet/waitForLog", "log", "{\"pattern\": \"x\", \"timeout\": 0}");
    ASSERT_EQ(408, other.status);
    ASSERT_STR_EQ("PROCESS_READY_TIMEOUT", text_at(other.json, "code"));
    PASS();
}

TEST a_timeout_runs_in_real_time_while_the_clock_stands(void)
{
    ASSERT(start("log", "frozen", "sleep 60") > 0);
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "");
    CLEANUP_REPLY struct reply log = method("log", "waitForLog", "[\"frozen\", \"x\", 100]");
    CLEANUP_REPLY struct reply port =
        method("log", "waitForPort", "[\"frozen\", 4000, {\"timeout\": 250, \"interval\": 100}]");
    CLEANUP_REPLY struct reply resumed = post(&emulator, "/cdn-cgi/local/clock/resume", "");
    ASSERT_EQ(408, log.status);
    ASSERT_EQ(408, port.status);
    PASS();
}

TEST what_expired_already_is_still_looked_for_in_what_is_there(void)
{
    ASSERT(start("log", "zero", "echo ready; sleep 60") > 0);
    CLEANUP_REPLY struct reply first = method("log", "waitForLog", "[\"zero\", \"ready\", 5000]");
    CLEANUP_REPLY struct reply zero = method("log", "waitForLog", "[\"zero\", \"ready\", 0]");
    ASSERT_STR_EQ("{\"line\":\"ready\"}", zero.body);
    PASS();
}

TEST an_end_before_the_match_is_500_with_the_exit_code(void)
{
    ASSERT(start("log", "ends", "echo no; exit 7") > 0);
    CLEANUP_REPLY struct reply reply = method("log", "waitForLog", "[\"ends\", \"yes\"]");
    ASSERT_EQ(500, reply.status);
    ASSERT_STR_EQ("PROCESS_EXITED_BEFORE_READY", text_at(reply.json, "code"));
    ASSERT_EQ(7, number_at(reply.json, "context.exitCode"));
    ASSERT_STR_EQ("\"yes\"", text_at(reply.json, "context.condition"));
    CLEANUP_REPLY struct reply other =
        api("POST", "/api/process/ends/waitForLog", "log", "{\"pattern\": \"yes\"}");
    ASSERT_EQ(500, other.status);
    ASSERT_STR_EQ("PROCESS_EXITED_BEFORE_READY", text_at(other.json, "code"));
    ASSERT(strstr(text_at(other.json, "error"), "exited"));
    /* What it printed at last counts. */
    CLEANUP_REPLY struct reply last = method("log", "waitForLog", "[\"ends\", \"no\"]");
    ASSERT_STR_EQ("{\"line\":\"no\"}", last.body);
    PASS();
}

TEST anchors_that_miss_lines_are_explained(void)
{
    ASSERT(start("log", "anchors", "echo one; echo ready; exit 0") > 0);
    CLEANUP_REPLY struct reply reply = method("log", "waitForLog", "[\"anchors\", \"/^ready$/\"]");
    ASSERT_EQ(500, reply.status);
    ASSERT(strstr(text_at(reply.json, "hint"), "flag m"));
    CLEANUP_REPLY struct reply flagged =
        method("log", "waitForLog", "[\"anchors\", \"/^ready$/m\"]");
    ASSERT_STR_EQ("{\"line\":\"ready\",\"match\":[\"ready\"]}", flagged.body);
    PASS();
}

TEST bad_patterns_are_refused_before_anything_waits(void)
{
    static const char *const patterns[] = {"\"/(/\"", "{\"source\": \"a\", \"flags\": \"q\"}",
                                           "{}"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "[\"quiet\", %s]", patterns[i]);
        CLEANUP_REPLY struct reply reply = method("log", "waitForLog", arguments);
        ASSERT_EQm(patterns[i], 400, reply.status);
        ASSERT_STR_EQ("VALIDATION_FAILED", text_at(reply.json, "code"));
    }
    PASS();
}

TEST a_catastrophic_pattern_is_400_and_others_are_answered_meanwhile(void)
{
    ASSERT(start("log", "many", "head -c 100000 /dev/zero | tr '\\0' a; echo; echo b; sleep 60") >
           0);
    CLEANUP_REPLY struct reply there = method("log", "waitForLog", "[\"many\", \"aaa\\nb\", 9000]");
    ASSERT_EQ(200, there.status);
    struct later later = {
        .box = "log", .name = "waitForLog", .arguments = "[\"many\", \"/a*a*a*a*a*c/\", 20000]"};
    begin_call(&later);
    long long worst = 0;
    for (int i = 0; i < 20; i++) {
        long long before = test_ms();
        CLEANUP_REPLY struct reply reply = get(&emulator, "/health");
        ASSERT_EQ(200, reply.status);
        worst = test_ms() - before > worst ? test_ms() - before : worst;
    }
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT_EQ(400, reply.status);
    ASSERT(strstr(text_at(reply.json, "error"), "too long to match"));
    ASSERT(worst < 500);
    PASS();
}

TEST an_unknown_process_is_404_for_every_waiter(void)
{
    static const struct {
        const char *name, *arguments, *body;
    } rows[] = {{"waitForLog", "[\"nope\", \"x\"]", "{\"pattern\": \"x\"}"},
                {"waitForPort", "[\"nope\", 8080]", "{\"port\": 8080}"},
                {"waitForExit", "[\"nope\"]", "{}"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64];
        snprintf(path, sizeof path, "/api/process/nope/%s", rows[i].name);
        CLEANUP_REPLY struct reply reply = api("POST", path, "log", rows[i].body);
        ASSERT_EQm(path, 404, reply.status);
        ASSERT_STR_EQ("Process not found", text_at(reply.json, "error"));
        CLEANUP_REPLY struct reply other = method("log", rows[i].name, rows[i].arguments);
        ASSERT_EQ(404, other.status);
        ASSERT_STR_EQ("PROCESS_NOT_FOUND", text_at(other.json, "code"));
    }
    PASS();
}

/* waitForExit. */

TEST an_exit_code_is_waited_for(void)
{
    ASSERT(start("log", "code", "until [ -e /tmp/end ]; do sleep 0.01; done; exit 9") > 0);
    CLEANUP_REPLY struct reply early = method("log", "waitForExit", "[\"code\", 100]");
    ASSERT_EQ(408, early.status);
    ASSERT_STR_EQ("process exit", text_at(early.json, "context.condition"));
    struct later later = {.box = "log", .name = "waitForExit", .arguments = "[\"code\"]"};
    begin_call(&later);
    ASSERT(eventually(is_busy, "log", 5000));
    ASSERT(run("log", "touch /tmp/end"));
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT_STR_EQ("{\"exitCode\":9}", reply.body);
    CLEANUP_REPLY struct reply after =
        api("POST", "/api/process/code/waitForExit", "log", "{\"timeout\": 5000}");
    ASSERT_STR_EQ("{\"exitCode\":9}", after.body);
    PASS();
}

/* Leaving. */

TEST a_waiter_whose_client_left_keeps_nothing_awake(void)
{
    ASSERT(start("leave", "p", "sleep 60") > 0);
    static const char *const requests[] = {
        "POST /sandbox/leave/waitForLog HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n"
        "[\"p\", \"nothing\"]",
        "POST /sandbox/leave/waitForPort HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n"
        "[\"p\", 4001]",
        "POST /sandbox/leave/waitForExit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
        "[\"p\"]"};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int fd = dial(&emulator);
        ASSERT(fd >= 0 && send_all(fd, requests[i], strlen(requests[i])) == 0);
        ASSERTm(requests[i], eventually(is_busy, "leave", 5000));
        close(fd);
        ASSERTm(requests[i], eventually(is_quiet, "leave", 5000));
    }
    PASS();
}

TEST a_port_watch_whose_client_left_stops(void)
{
    char text[512];
    static const char body[] = "{\"port\": 4002, \"mode\": \"tcp\"}";
    snprintf(text, sizeof text, "POST /api/port-watch HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n%s",
             container_host("leave"), strlen(body), body);
    int fd = dial(&emulator);
    ASSERT(fd >= 0 && send_all(fd, text, strlen(text)) == 0);
    ASSERT(eventually(is_busy, "leave", 5000));
    close(fd);
    ASSERT(eventually(is_quiet, "leave", 5000));
    PASS();
}

TEST a_container_that_goes_away_ends_the_waiting(void)
{
    static const struct {
        const char *name, *arguments;
    } rows[] = {{"waitForLog", "[\"p\", \"nothing\"]"},
                {"waitForPort", "[\"p\", 4003]"},
                {"waitForExit", "[\"p\"]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ASSERT(start("gone", "p", "sleep 60") > 0);
        struct later later = {.box = "gone", .name = rows[i].name, .arguments = rows[i].arguments};
        begin_call(&later);
        ASSERT(eventually(is_busy, "gone", 5000));
        CLEANUP_REPLY struct reply stopped = method("gone", "destroy", "[]");
        CLEANUP_REPLY struct reply reply = end_call(&later);
        ASSERT_EQm(rows[i].name, 409, reply.status);
        ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(reply.json, "code"));
    }
    PASS();
}

/* waitForPort. */

static const char server[] =
    "import socket, sys\n"
    "family, port = sys.argv[1], int(sys.argv[2])\n"
    "s = socket.socket(socket.AF_INET6 if family == '6' else socket.AF_INET)\n"
    "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "if family == '6': s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)\n"
    "s.bind(('::1' if family == '6' else '127.0.0.1', port))\n"
    "s.listen(16)\n"
    "kept = []\n"
    "def head(*lines): return ('\\r\\n'.join(lines) + '\\r\\n\\r\\n').encode()\n"
    "answers = {\n"
    "  '/ok': head('HTTP/1.1 200 OK', 'Content-Length: 2') + b'ok',\n"
    "  '/missing': head('HTTP/1.1 404 Not Found'),\n"
    "  '/hop': head('HTTP/1.1 302 Found', 'Location: ../hop2'),\n"
    "  '/hop2': head('HTTP/1.1 307 x', 'Location: http://localhost:%d/ok' % port),\n"
    "  '/loop': head('HTTP/1.1 302 Found', 'Location: /loop'),\n"
    "  '/away': head('HTTP/1.1 302 Found', 'Location: https://example.com/'),\n"
    "  '/garbage': b'SSH-2.0-x\\r\\n',\n"
    "  '/flood': b'HTTP/1.1 200 OK\\r\\n' + b'X: y\\r\\n' * 100000,\n"
    "  '/early': head('HTTP/1.1 103 Early Hints') + head('HTTP/1.0 204'),\n"
    "}\n"
    "print('listening', flush=True)\n"
    "while True:\n"
    "  c, _ = s.accept()\n"
    "  line = c.makefile('rb').readline().decode()\n"
    "  path = line.split(' ')[1] if ' ' in line else ''\n"
    "  print('path', path, flush=True)\n"
    "  if path == '/silent': kept.append(c); continue\n"
    "  try: c.sendall(answers.get(path, head('HTTP/1.1 500 No')))\n"
    "  except OSError: pass\n"
    "  c.close()\n";

static bool write_server(const char *box)
{
    json_t *arguments = json_pack("[s,s]", "/tmp/server.py", server);
    char *text = json_dumps(arguments, 0);
    CLEANUP_REPLY struct reply reply = method(box, "writeFile", text);
    json_decref(arguments);
    free(text);
    return reply.status == 200;
}

static bool start_server(const char *id, const char *command)
{
    char arguments[64];
    if (!write_server("port") || start("port", id, command) <= 0)
        return false;
    snprintf(arguments, sizeof arguments, "[\"%s\", \"listening\", 10000]", id);
    CLEANUP_REPLY struct reply reply = method("port", "waitForLog", arguments);
    return reply.status == 200;
}

#define NEED_PYTHON()                                                                              \
    if (!has_python)                                                                               \
    SKIPm("python3 is not on this host")

static int wait_for_path(const char *path, const char *more)
{
    char arguments[200];
    snprintf(arguments, sizeof arguments,
             "[\"web\", 4100, {\"path\": \"%s\", \"interval\": 100%s}]", path, more);
    CLEANUP_REPLY struct reply reply = method("port", "waitForPort", arguments);
    return reply.status;
}

TEST a_port_is_ready_when_its_answer_is_in_the_range(void)
{
    NEED_PYTHON();
    ASSERT(start_server("web", "python3 /tmp/server.py 4 4100"));
    static const char soon[] = ", \"timeout\": 250";
    static const char late[] = ", \"timeout\": 10000";
    ASSERT_EQ(200, wait_for_path("/ok", late));
    ASSERT_EQ(200, wait_for_path("ok?x=1#y", ", \"status\": 500, \"timeout\": 10000"));
    ASSERT_EQ(408, wait_for_path("/missing", soon));
    ASSERT_EQ(200, wait_for_path("/missing", ", \"status\": 404, \"timeout\": 10000"));
    ASSERT_EQ(200, wait_for_path("/missing",
                                 ", \"status\": {\"min\": 400, \"max\": 499}, \"timeout\": 10000"));
    ASSERT_EQ(408, wait_for_path("/ok", ", \"status\": {\"min\": 201}, \"timeout\": 250"));
    ASSERT_EQ(200, wait_for_path("/x/hop/../../hop", late));
    ASSERT_EQ(200, wait_for_path("/early", late));
    /* A redirect to elsewhere is the answer: nothing outside is asked. */
    ASSERT_EQ(200, wait_for_path("/away", late));
    ASSERT_EQ(408, wait_for_path("/away", ", \"status\": 200, \"timeout\": 250"));
    PASS();
}

TEST hostile_servers_are_never_ready_and_harm_nobody(void)
{
    NEED_PYTHON();
    static const char *const paths[] = {"/loop", "/garbage", "/flood", "/silent"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        ASSERT_EQm(paths[i], 408,
                   wait_for_path(paths[i],
                                 ", \"status\": {\"min\": 100, \"max\": 599}, \"timeout\": 400"));
    ASSERT(eventually(is_quiet, "port", 5000));
    PASS();
}

TEST a_path_cannot_add_headers(void)
{
    NEED_PYTHON();
    ASSERT_EQ(408, wait_for_path("/ok HTTP/1.1\\r\\nX-Evil: 1\\r\\n\\r\\n", ", \"timeout\": 250"));
    CLEANUP_REPLY struct reply logs =
        method("port", "waitForLog", "[\"web\", \"path /ok%20HTTP/1.1X-Evil:%201\", 5000]");
    ASSERT_EQ(200, logs.status);
    PASS();
}

TEST a_port_that_opens_later_is_waited_for(void)
{
    NEED_PYTHON();
    ASSERT(write_server("port"));
    ASSERT(
        start("port", "slow",
              "until [ -e /tmp/open ]; do sleep 0.01; done; exec python3 /tmp/server.py 6 4101") >
        0);
    struct later later = {.box = "port",
                          .name = "waitForPort",
                          .arguments = "[\"slow\", 4101, {\"mode\": \"tcp\", \"timeout\": 15000, "
                                       "\"interval\": 100}]"};
    begin_call(&later);
    ASSERT(eventually(is_busy, "port", 5000));
    ASSERT(run("port", "touch /tmp/open"));
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT_STR_EQ("{\"success\":true}", reply.body);
    PASS();
}

TEST the_api_takes_options_flat_and_nested(void)
{
    NEED_PYTHON();
    CLEANUP_REPLY struct reply flat =
        api("POST", "/api/process/web/waitForPort", "port",
            "{\"port\": 4100, \"path\": \"/ok\", \"status\": 200, \"timeout\": 10000}");
    ASSERT_STR_EQ("{\"success\":true}", flat.body);
    CLEANUP_REPLY struct reply nested =
        api("POST", "/api/process/web/waitForPort", "port",
            "{\"port\": 4100, \"options\": {\"path\": \"/missing\", \"timeout\": 200}}");
    ASSERT_EQ(408, nested.status);
    PASS();
}

TEST a_process_that_ends_before_its_port_opens_is_500(void)
{
    ASSERT(start("port", "dead", "exit 5") > 0);
    CLEANUP_REPLY struct reply reply =
        method("port", "waitForPort", "[\"dead\", 4102, {\"path\": \"/h\"}]");
    ASSERT_EQ(500, reply.status);
    ASSERT_STR_EQ("PROCESS_EXITED_BEFORE_READY", text_at(reply.json, "code"));
    ASSERT_EQ(5, number_at(reply.json, "context.exitCode"));
    ASSERT_STR_EQ("exit 5", text_at(reply.json, "context.command"));
    ASSERT_STR_EQ("port 4102 (HTTP /h)", text_at(reply.json, "context.condition"));
    PASS();
}

TEST what_is_no_port_is_refused(void)
{
    static const char *const ports[] = {"0", "65536", "-1", "80.5"};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "[\"dead\", %s]", ports[i]);
        CLEANUP_REPLY struct reply reply = method("port", "waitForPort", arguments);
        ASSERT_EQm(ports[i], 400, reply.status);
        ASSERT_STR_EQ("VALIDATION_FAILED", text_at(reply.json, "code"));
    }
    PASS();
}

/* The container's own API. */

TEST port_watch_answers_the_golden_samples(void)
{
    CLEANUP_REPLY struct reply tcp =
        container("face", "/api/port-watch", "{\"port\": 3000, \"mode\": \"tcp\"}");
    ASSERT_EQ(200, tcp.status);
    ASSERT_STR_EQ("data: {\"type\":\"watching\",\"port\":3000}\n\n"
                  "data: {\"type\":\"ready\",\"port\":3000}\n\n",
                  tcp.body);
    char type[64];
    ASSERT_STR_EQ("text/event-stream", header_of(&tcp, "Content-Type", type, sizeof type));
    CLEANUP_REPLY struct reply http = container("face", "/api/port-watch", "{\"port\": 3000}");
    ASSERT_STR_EQ("data: {\"type\":\"watching\",\"port\":3000}\n\n"
                  "data: {\"type\":\"ready\",\"port\":3000,\"statusCode\":200}\n\n",
                  http.body);
    ASSERT(start("face", "ended", "exit 124") > 0);
    CLEANUP_REPLY struct reply waited = method("face", "waitForExit", "[\"ended\"]");
    CLEANUP_REPLY struct reply ended =
        container("face", "/api/port-watch", "{\"port\": 39999, \"processId\": \"ended\"}");
    ASSERT_STR_EQ("data: {\"type\":\"watching\",\"port\":39999}\n\n"
                  "data: {\"type\":\"process_exited\",\"port\":39999,\"exitCode\":124}\n\n",
                  ended.body);
    CLEANUP_REPLY struct reply unknown =
        container("face", "/api/port-watch", "{\"port\": 39999, \"processId\": \"nope\"}");
    ASSERT_STR_EQ("data: {\"type\":\"watching\",\"port\":39999}\n\n"
                  "data: {\"type\":\"error\",\"port\":39999,\"error\":\"Process not found\"}\n\n",
                  unknown.body);
    CLEANUP_REPLY struct reply bad = container("face", "/api/port-watch", "{\"port\": 70000}");
    ASSERT(strstr(bad.body, "\"type\":\"error\",\"port\":70000"));
    PASS();
}

TEST port_check_is_bare_and_looks_once(void)
{
    CLEANUP_REPLY struct reply ready =
        container("face", "/api/port-check", "{\"port\": 3000, \"mode\": \"tcp\"}");
    ASSERT_STR_EQ("{\"ready\":true}", ready.body);
    CLEANUP_REPLY struct reply http =
        container("face", "/api/port-check", "{\"port\": 3000, \"mode\": \"http\"}");
    ASSERT_STR_EQ("{\"ready\":true,\"statusCode\":200}", http.body);
    CLEANUP_REPLY struct reply range = container(
        "face", "/api/port-check", "{\"port\": 3000, \"statusMin\": 300, \"statusMax\": 301}");
    ASSERT_STR_EQ("{\"ready\":false,\"statusCode\":200,\"error\":\"HTTP status 200 is not in "
                  "300-301\"}",
                  range.body);
    CLEANUP_REPLY struct reply refused = container("face", "/api/port-check", "{\"port\": 39998}");
    ASSERT_EQ(200, refused.status);
    ASSERT(json_is_false(at(refused.json, "ready")));
    ASSERT(strstr(text_at(refused.json, "error"), "refused"));
    PASS();
}

static int files_wanted;

static bool has_few_files(void *arg)
{
    return emulator_files(&emulator) <= files_wanted;
}

TEST waiting_in_vain_leaves_no_descriptor_behind(void)
{
    ASSERT(start("face", "idle", "sleep 60") > 0);
    struct reply first = container("face", "/api/port-check", "{\"port\": 39997}");
    reply_free(&first);
    files_wanted = emulator_files(&emulator) + 4; /* connections that are just closing */
    for (int i = 0; i < 30; i++) {
        CLEANUP_REPLY struct reply checked =
            container("face", "/api/port-check", "{\"port\": 3000, \"mode\": \"tcp\"}");
        CLEANUP_REPLY struct reply port =
            method("face", "waitForPort", "[\"idle\", 39997, {\"timeout\": 1}]");
        CLEANUP_REPLY struct reply log = method("face", "waitForLog", "[\"idle\", \"x\", 1]");
        ASSERT_EQ(200, checked.status);
        ASSERT_EQ(408, port.status);
        ASSERT_EQ(408, log.status);
    }
    ASSERT(eventually(has_few_files, NULL, 5000));
    ASSERT(eventually(is_quiet, "face", 5000));
    PASS();
}

/* exec by way of a stream. */

TEST a_streamed_exec_keeps_its_newline_and_not_the_shells_state(void)
{
    CLEANUP_REPLY struct reply reply =
        method("exec", "exec", "[\"echo hi; echo no >&2; cd /tmp; (exit 3)\", {\"stream\": true}]");
    ASSERT_EQ(200, reply.status);
    ASSERT_STR_EQ("hi\n", text_at(reply.json, "stdout"));
    ASSERT_STR_EQ("no\n", text_at(reply.json, "stderr"));
    ASSERT_EQ(3, number_at(reply.json, "exitCode"));
    ASSERT(json_is_false(at(reply.json, "success")));
    ASSERT_STR_EQ("sandbox-exec", text_at(reply.json, "sessionId"));
    CLEANUP_REPLY struct reply where = method("exec", "exec", "[\"pwd\"]");
    ASSERT_STR_EQ("/workspace", text_at(where.json, "stdout"));
    CLEANUP_REPLY struct reply alone = method(
        "exec", "exec", "[\"printf x\", {\"stream\": true, \"enableDefaultSession\": false}]");
    ASSERT_STR_EQ("x", text_at(alone.json, "stdout"));
    ASSERT_EQ(NULL, at(alone.json, "sessionId"));
    CLEANUP_REPLY struct reply set = method("exec", "setEnvVars", "[{\"FROM\": \"object\"}]");
    CLEANUP_REPLY struct reply env = method(
        "exec", "exec", "[\"echo $FROM\", {\"stream\": true, \"enableDefaultSession\": false}]");
    ASSERT_STR_EQ("object\n", text_at(env.json, "stdout"));
    CLEANUP_REPLY struct reply blank = method("exec", "exec", "[\" \", {\"stream\": true}]");
    ASSERT_EQ(400, blank.status);
    ASSERT_STR_EQ("INVALID_COMMAND", text_at(blank.json, "code"));
    PASS();
}

/* The last event of a stream, parsed. */
static json_t *last_event(const char *body)
{
    const char *at = body, *last = NULL;
    while ((at = strstr(at, "data: "))) {
        at += 6;
        last = at;
    }
    return last ? json_loads(last, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}

TEST on_output_gives_the_events_and_then_the_result(void)
{
    CLEANUP_REPLY struct reply option =
        method("exec", "exec", "[\"echo a; echo b\", {\"onOutput\": true}]");
    CLEANUP_REPLY struct reply header =
        request(&emulator, "POST", "/sandbox/exec/exec", "Accept: text/event-stream\r\n",
                "[\"echo a; echo b\"]");
    const struct reply *replies[] = {&option, &header};
    for (int i = 0; i < 2; i++) {
        char type[64];
        ASSERT_EQ(200, replies[i]->status);
        ASSERT_STR_EQ("text/event-stream",
                      header_of(replies[i], "Content-Type", type, sizeof type));
        ASSERT_EQ(0, strncmp(replies[i]->body, "data: {\"type\":\"start\"", 21));
        ASSERT(strstr(replies[i]->body, "{\"type\":\"stdout\",\"data\":\"a\\n\""));
        CLEANUP_REPLY struct reply last = {.json = last_event(replies[i]->body)};
        ASSERT_STR_EQ("result", text_at(last.json, "type"));
        ASSERT_STR_EQ("a\nb\n", text_at(last.json, "result.stdout"));
        ASSERT_EQ(0, number_at(last.json, "result.exitCode"));
    }
    PASS();
}

TEST much_output_comes_whole_through_a_streamed_exec(void)
{
    CLEANUP_REPLY struct reply reply =
        method("exec", "exec",
               "[\"seq 200000; head -c 5000000 /dev/zero | tr '\\\\0' x\", "
               "{\"stream\": true}]");
    ASSERT_EQ(200, reply.status);
    /* 1 to 200000 with newlines, and the line of x, which gets one. */
    ASSERT_EQ(1288895 + 5000000 + 1, json_string_length(at(reply.json, "stdout")));
    PASS();
}

TEST a_streamed_exec_does_not_outlive_its_container(void)
{
    struct later later = {
        .box = "gone", .name = "exec", .arguments = "[\"sleep 60\", {\"stream\": true}]"};
    begin_call(&later);
    ASSERT(eventually(is_busy, "gone", 5000));
    CLEANUP_REPLY struct reply stopped = method("gone", "destroy", "[]");
    CLEANUP_REPLY struct reply reply = end_call(&later);
    ASSERT(reply.status == 409 || reply.status == 503);
    PASS();
}

/* Older names. */

TEST the_names_of_older_documents_work(void)
{
    CLEANUP_REPLY struct reply spawned = method("old", "spawn", "[\"sleep 60\"]");
    long long pid = number_at(spawned.json, "pid");
    ASSERT(pid > 1);
    char arguments[64];
    snprintf(arguments, sizeof arguments, "[%lld]", pid);
    CLEANUP_REPLY struct reply runs = method("old", "isProcessRunning", arguments);
    ASSERT_STR_EQ("true", runs.body);
    CLEANUP_REPLY struct reply other = method("old", "isProcessRunning", "[999999]");
    ASSERT_STR_EQ("false", other.body);
    CLEANUP_REPLY struct reply killed = method("old", "killProcess", arguments);
    ASSERT_EQ(200, killed.status);
    ASSERT_STR_EQ(text_at(spawned.json, "id"), text_at(killed.json, "processId"));
    CLEANUP_REPLY struct reply ended = method("old", "isProcessRunning", arguments);
    ASSERT_STR_EQ("false", ended.body);
    CLEANUP_REPLY struct reply again = method("old", "killProcess", arguments);
    ASSERT_EQ(404, again.status);
    ASSERT_STR_EQ("PROCESS_NOT_FOUND", text_at(again.json, "code"));
    ASSERT(start("old", "named", "sleep 60") > 0);
    CLEANUP_REPLY struct reply named = method("old", "isProcessRunning", "[\"named\"]");
    ASSERT_STR_EQ("true", named.body);
    CLEANUP_REPLY struct reply stopped = method("old", "process.stop", "[\"named\"]");
    ASSERT_EQ(200, stopped.status);
    CLEANUP_REPLY struct reply gone = method("old", "isProcessRunning", "[\"named\"]");
    ASSERT_STR_EQ("false", gone.body);
    PASS();
}

SUITE(waiting)
{
    has_python = run("port", "python3 -c 1");
    RUN_TEST(output_that_is_there_is_found);
    RUN_TEST(output_that_comes_later_is_waited_for);
    RUN_TEST(a_timeout_is_408_with_all_that_is_known);
    RUN_TEST(a_timeout_runs_in_real_time_while_the_clock_stands);
    RUN_TEST(what_expired_already_is_still_looked_for_in_what_is_there);
    RUN_TEST(an_end_before_the_match_is_500_with_the_exit_code);
    RUN_TEST(anchors_that_miss_lines_are_explained);
    RUN_TEST(bad_patterns_are_refused_before_anything_waits);
    RUN_TEST(a_catastrophic_pattern_is_400_and_others_are_answered_meanwhile);
    RUN_TEST(an_unknown_process_is_404_for_every_waiter);
    RUN_TEST(an_exit_code_is_waited_for);
    RUN_TEST(a_waiter_whose_client_left_keeps_nothing_awake);
    RUN_TEST(a_port_watch_whose_client_left_stops);
    RUN_TEST(a_container_that_goes_away_ends_the_waiting);
    RUN_TEST(a_port_is_ready_when_its_answer_is_in_the_range);
    RUN_TEST(hostile_servers_are_never_ready_and_harm_nobody);
    RUN_TEST(a_path_cannot_add_headers);
    RUN_TEST(a_port_that_opens_later_is_waited_for);
    RUN_TEST(the_api_takes_options_flat_and_nested);
    RUN_TEST(a_process_that_ends_before_its_port_opens_is_500);
    RUN_TEST(what_is_no_port_is_refused);
    RUN_TEST(port_watch_answers_the_golden_samples);
    RUN_TEST(port_check_is_bare_and_looks_once);
    RUN_TEST(waiting_in_vain_leaves_no_descriptor_behind);
    RUN_TEST(a_streamed_exec_keeps_its_newline_and_not_the_shells_state);
    RUN_TEST(on_output_gives_the_events_and_then_the_result);
    RUN_TEST(much_output_comes_whole_through_a_streamed_exec);
    RUN_TEST(a_streamed_exec_does_not_outlive_its_container);
    RUN_TEST(the_names_of_older_documents_work);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, waiting);
    GREATEST_MAIN_END();
}
