/* The code interpreter over HTTP: the SDK's methods, the /api routes and the container's own API.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static bool has_python, has_node;

#define NEED(WHAT, NAME)                                                                           \
    if (!(WHAT))                                                                                   \
    SKIPm(NAME " is not on this host")

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

static void look_for_programs(void)
{
    CLEANUP_REPLY struct reply python = method("box", "exec", "[\"python3 -c 1\"]");
    CLEANUP_REPLY struct reply node = method("box", "exec", "[\"node -e 1\"]");
    has_python = number_at(python.json, "exitCode") == 0;
    has_node = number_at(node.json, "exitCode") == 0;
}

static const char *container_host(const char *box)
{
    static char host[256];
    char path[128];
    CLEANUP_REPLY struct reply first = method(box, "exec", "[\"true\"]");
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    const char *url = text_at(shown.json, "containerUrl");
    snprintf(host, sizeof host, "Host: %s\r\n", strlen(url) > 7 ? url + 7 : "");
    return host;
}

TEST run_code_gives_the_result_of_the_sdk(void)
{
    NEED(has_python, "python3");
    CLEANUP_REPLY struct reply reply = method("sdk", "runCode", "[\"print('hi')\\n1 + 1\"]");
    ASSERT_EQ(200, reply.status);
    ASSERT_STR_EQ("{\"code\":\"print('hi')\\n1 + 1\",\"logs\":{\"stdout\":[\"hi\\nOut[1]: 2\\n\"],"
                  "\"stderr\":[]},\"results\":[{\"text\":\"2\"}]}",
                  reply.body);
    ASSERT_STR_EQ("2", text_at(reply.json, "results.0.text"));
    PASS();
}

TEST an_exception_is_a_result(void)
{
    NEED(has_python, "python3");
    CLEANUP_REPLY struct reply reply = method("sdk", "runCode", "[\"raise ValueError('no')\"]");
    ASSERT_EQ(200, reply.status);
    ASSERT_STR_EQ("ValueError", text_at(reply.json, "error.name"));
    ASSERT_STR_EQ("no", text_at(reply.json, "error.message"));
    ASSERT(json_array_size(at(reply.json, "error.traceback")) >= 3);
    ASSERT_EQ(0, json_array_size(at(reply.json, "results")));
    PASS();
}

TEST each_language_has_a_default_context_that_is_kept(void)
{
    NEED(has_python && has_node, "python3 or node");
    CLEANUP_REPLY struct reply a = method("keep", "runCode", "[\"x = 5\"]");
    CLEANUP_REPLY struct reply b =
        method("keep", "runCode", "[\"const x = 6\", {\"language\": \"javascript\"}]");
    CLEANUP_REPLY struct reply c = method("keep", "runCode", "[\"x\"]");
    CLEANUP_REPLY struct reply d = method("keep", "runCode", "[\"x\", {\"language\": \"js\"}]");
    ASSERT_STR_EQ("5", text_at(c.json, "results.0.text"));
    ASSERT_STR_EQ("6", text_at(d.json, "results.0.text"));
    CLEANUP_REPLY struct reply list = method("keep", "listCodeContexts", "[]");
    ASSERT_EQ(2, json_array_size(list.json));
    /* The container goes, and what it held: the next run has a fresh one. */
    CLEANUP_REPLY struct reply stopped = method("keep", "stop", "[]");
    CLEANUP_REPLY struct reply e = method("keep", "runCode", "[\"x\"]");
    ASSERT_EQ(200, e.status);
    ASSERT_STR_EQ("NameError", text_at(e.json, "error.name"));
    PASS();
}

static void *first_run(void *arg)
{
    CLEANUP_REPLY struct reply reply = method("together", "runCode", "[\"1\"]");
    return (void *)(long)(strcmp("1", text_at(reply.json, "results.0.text")) == 0);
}

TEST first_runs_that_come_together_share_one_context(void)
{
    NEED(has_python, "python3");
    pthread_t threads[5];
    long good = 0;
    for (int i = 0; i < 5; i++)
        pthread_create(&threads[i], NULL, first_run, NULL);
    for (int i = 0; i < 5; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        good += (long)result;
    }
    ASSERT_EQ(5, good);
    CLEANUP_REPLY struct reply list = method("together", "listCodeContexts", "[]");
    ASSERT_EQ(1, json_array_size(list.json));
    PASS();
}

TEST contexts_are_made_used_and_deleted_over_the_api(void)
{
    NEED(has_python && has_node, "python3 or node");
    CLEANUP_REPLY struct reply made =
        api("POST", "/api/code/context/create", "route", "{\"language\":\"javascript\"}");
    ASSERT_EQ(200, made.status);
    ASSERT_STR_EQ("javascript", text_at(made.json, "language"));
    ASSERT_STR_EQ("/workspace", text_at(made.json, "cwd"));
    ASSERT_EQ(24, strlen(text_at(made.json, "createdAt")));
    char body[256], path[128];
    snprintf(body, sizeof body, "{\"code\":\"[1, {a: 2}]\",\"options\":{\"context\":%s}}",
             made.body);
    CLEANUP_REPLY struct reply run = api("POST", "/api/code/execute", "route", body);
    ASSERT_EQ(2, number_at(run.json, "results.0.json.1.a"));
    CLEANUP_REPLY struct reply stream = api("POST", "/api/code/execute/stream", "route", body);
    ASSERT_EQ(200, stream.status);
    ASSERT_STR_EQ("data: {\"type\":\"result\",\"json\":[1,{\"a\":2}],\"metadata\":{}}\n\n"
                  "data: {\"type\":\"execution_complete\",\"execution_count\":1}\n\n",
                  stream.body);
    CLEANUP_REPLY struct reply list = api("GET", "/api/code/context/list", "route", NULL);
    ASSERT_EQ(1, json_array_size(list.json));
    snprintf(path, sizeof path, "/api/code/context/%s", text_at(made.json, "id"));
    CLEANUP_REPLY struct reply deleted = api("DELETE", path, "route", NULL);
    ASSERT_EQ(200, deleted.status);
    ASSERT(json_is_true(at(deleted.json, "success")));
    ASSERT_STR_EQ(text_at(made.json, "id"), text_at(deleted.json, "contextId"));
    CLEANUP_REPLY struct reply again = api("DELETE", path, "route", NULL);
    ASSERT_EQ(404, again.status);
    ASSERT_STR_EQ("CONTEXT_NOT_FOUND", text_at(again.json, "code"));
    CLEANUP_REPLY struct reply gone = api("POST", "/api/code/execute", "route", body);
    ASSERT_EQ(404, gone.status);
    ASSERT(*text_at(gone.json, "error"));
    PASS();
}

TEST an_unknown_language_is_refused(void)
{
    CLEANUP_REPLY struct reply made =
        api("POST", "/api/code/context/create", "box", "{\"language\":\"cobol\"}");
    ASSERT_EQ(400, made.status);
    ASSERT_STR_EQ("SECURITY_ERROR", text_at(made.json, "code"));
    CLEANUP_REPLY struct reply run = method("box", "runCode", "[\"1\", {\"language\": \"cobol\"}]");
    ASSERT_EQ(400, run.status);
    ASSERT_STR_EQ("INVALID_LANGUAGE", text_at(run.json, "context.code"));
    PASS();
}

TEST a_process_that_ends_is_an_error_and_the_next_run_has_another(void)
{
    NEED(has_node, "node");
    CLEANUP_REPLY struct reply ended =
        method("ends", "runCode", "[\"process.exit(3)\", {\"language\": \"javascript\"}]");
    ASSERT_EQ(500, ended.status);
    ASSERT_STR_EQ("INTERNAL_ERROR", text_at(ended.json, "code"));
    ASSERT(strstr(text_at(ended.json, "error"), "exit code 3"));
    CLEANUP_REPLY struct reply next =
        method("ends", "runCode", "[\"1\", {\"language\": \"javascript\"}]");
    ASSERT_STR_EQ("1", text_at(next.json, "results.0.text"));
    CLEANUP_REPLY struct reply events = get(&emulator, "/cdn-cgi/local/events");
    ASSERT(strstr(events.body, "interpreter.exited"));
    PASS();
}

TEST large_output_and_odd_characters_come_through(void)
{
    NEED(has_python, "python3");
    CLEANUP_REPLY struct reply reply =
        method("large", "runCode",
               "[\"print('\\u00e9\\\"\\\\\\\\\\\\x01' * 250000)\\n['x' * 200000, 2 ** 70]\"]");
    ASSERT_EQ(200, reply.status);
    const json_t *printed = at(reply.json, "logs.stdout.0");
    ASSERT(json_string_length(printed) > 1250000);
    ASSERT_EQ(0, memcmp("\xc3\xa9\"\\\1\xc3\xa9", json_string_value(printed), 7));
    ASSERT_EQ(200000, strlen(text_at(reply.json, "results.0.json.0")));
    PASS();
}

TEST the_container_api_answers_as_observed(void)
{
    NEED(has_node, "node");
    const char *host = container_host("face");
    CLEANUP_REPLY struct reply health =
        request(&emulator, "GET", "/api/interpreter/health", host, NULL);
    ASSERT_STR_EQ("healthy", text_at(health.json, "status"));
    CLEANUP_REPLY struct reply made =
        request(&emulator, "POST", "/api/contexts", host, "{\"language\":\"js\",\"cwd\":\"/tmp\"}");
    char expected[400], body[300];
    snprintf(expected, sizeof expected,
             "{\"success\":true,\"contextId\":\"%s\",\"language\":\"javascript\",\"cwd\":\"/tmp\","
             "\"timestamp\":\"%s\"}",
             text_at(made.json, "contextId"), text_at(made.json, "timestamp"));
    ASSERT_STR_EQ(expected, made.body);
    snprintf(body, sizeof body,
             "{\"context_id\":\"%s\",\"code\":\"console.log(\\\"hi\\\"); console.error(\\\"e\\\"); "
             "1+1\"}",
             text_at(made.json, "contextId"));
    CLEANUP_REPLY struct reply run = request(&emulator, "POST", "/api/execute/code", host, body);
    char type[64];
    ASSERT_STR_EQ("text/event-stream", header_of(&run, "Content-Type", type, sizeof type));
    ASSERT_STR_EQ("data: {\"type\":\"stdout\",\"text\":\"hi\\n\"}\n\n"
                  "data: {\"type\":\"stderr\",\"text\":\"e\\n\"}\n\n"
                  "data: {\"type\":\"result\",\"text\":\"2\",\"metadata\":{}}\n\n"
                  "data: {\"type\":\"execution_complete\",\"execution_count\":1}\n\n",
                  run.body);
    CLEANUP_REPLY struct reply none = request(&emulator, "POST", "/api/execute/code", host,
                                              "{\"context_id\":\"nope\",\"code\":\"1\"}");
    ASSERT_EQ(404, none.status);
    ASSERT_STR_EQ("{\"error\":\"Context nope not found\",\"code\":\"CONTEXT_NOT_FOUND\","
                  "\"details\":{\"contextId\":\"nope\"},\"message\":\"Context nope not found\"}",
                  none.body);
    char path[128];
    snprintf(path, sizeof path, "/api/contexts/%s", text_at(made.json, "contextId"));
    CLEANUP_REPLY struct reply deleted = request(&emulator, "DELETE", path, host, NULL);
    ASSERT_EQ(200, deleted.status);
    CLEANUP_REPLY struct reply again = request(&emulator, "DELETE", path, host, NULL);
    ASSERT_EQ(404, again.status);
    CLEANUP_REPLY struct reply list = request(&emulator, "GET", "/api/contexts", host, NULL);
    ASSERT_EQ(0, json_array_size(at(list.json, "contexts")));
    PASS();
}

/* An emulator of its own, for a project with a lean image. */
static void write_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

TEST a_lean_image_says_that_python_is_missing(void)
{
    struct emulator lean = {0};
    snprintf(lean.dir, sizeof lean.dir, "/tmp/sandpit-test-XXXXXX");
    ASSERT(mkdtemp(lean.dir));
    write_file(lean.dir, "Dockerfile", "FROM docker.io/cloudflare/sandbox:0.12.7\n");
    write_file(lean.dir, "wrangler.jsonc",
               "{\"name\": \"lean\", \"containers\": [{\"class_name\": \"Sandbox\", \"image\": "
               "\"./Dockerfile\"}]}");
    ASSERT_EQ(0, emulator_start(&lean, NULL));
    CLEANUP_REPLY struct reply run = post(&lean, "/api/code/execute", "{\"code\":\"1\"}");
    CLEANUP_REPLY struct reply made =
        post(&lean, "/sandbox/default/createCodeContext", "[{\"language\": \"python\"}]");
    ASSERT_EQ(0, emulator_stop(&lean));
    ASSERT_EQ(500, run.status);
    ASSERT(strstr(text_at(run.json, "error"), "Python interpreter not available"));
    ASSERT(strstr(text_at(run.json, "error"), "-python"));
    ASSERT_EQ(501, made.status);
    ASSERT_STR_EQ("PYTHON_NOT_AVAILABLE", text_at(made.json, "code"));
    emulator_clean(&lean);
    PASS();
}

TEST a_destroyed_sandbox_answers_its_runs(void)
{
    NEED(has_python, "python3");
    int fd = dial(&emulator);
    static const char text[] = "POST /sandbox/gone/runCode HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 31\r\n\r\n[\"import time; time.sleep(60)\"]";
    CLEANUP_REPLY struct reply warm = method("gone", "runCode", "[\"1\"]");
    ASSERT_EQ(0, send_all(fd, text, strlen(text)));
    CLEANUP_REPLY struct reply other = method("gone", "exec", "[\"true\"]");
    CLEANUP_REPLY struct reply destroyed = method("gone", "destroy", "[]");
    CLEANUP_REPLY struct reply reply = read_reply(fd);
    close(fd);
    ASSERT_EQ(409, reply.status);
    ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(reply.json, "code"));
    PASS();
}

SUITE(interpreter)
{
    look_for_programs();
    RUN_TEST(run_code_gives_the_result_of_the_sdk);
    RUN_TEST(an_exception_is_a_result);
    RUN_TEST(each_language_has_a_default_context_that_is_kept);
    RUN_TEST(first_runs_that_come_together_share_one_context);
    RUN_TEST(contexts_are_made_used_and_deleted_over_the_api);
    RUN_TEST(an_unknown_language_is_refused);
    RUN_TEST(a_process_that_ends_is_an_error_and_the_next_run_has_another);
    RUN_TEST(large_output_and_odd_characters_come_through);
    RUN_TEST(the_container_api_answers_as_observed);
    RUN_TEST(a_lean_image_says_that_python_is_missing);
    RUN_TEST(a_destroyed_sandbox_answers_its_runs);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, interpreter);
    GREATEST_MAIN_END();
}
