/* Waiting for ports over HTTP: waitForPort, and the container's port-watch and port-check. */
#include "wait_box.h"

static bool has_python;

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

SUITE(wait_port)
{
    has_python = run("port", "python3 -c 1");
    RUN_TEST(a_port_is_ready_when_its_answer_is_in_the_range);
    RUN_TEST(hostile_servers_are_never_ready_and_harm_nobody);
    RUN_TEST(a_path_cannot_add_headers);
    RUN_TEST(a_port_that_opens_later_is_waited_for);
    RUN_TEST(the_api_takes_options_flat_and_nested);
    RUN_TEST(a_process_that_ends_before_its_port_opens_is_500);
    RUN_TEST(what_is_no_port_is_refused);
    RUN_TEST(port_watch_answers_the_golden_samples);
    RUN_TEST(port_check_is_bare_and_looks_once);
    RUN_TEST(a_port_watch_whose_client_left_stops);
    RUN_TEST(waiting_in_vain_leaves_no_descriptor_behind);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, wait_port);
    GREATEST_MAIN_END();
}
