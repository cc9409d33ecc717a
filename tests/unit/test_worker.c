/* The Worker between a front door and objects that are made up here: what it asks of the layer
 * below for a request, and what it makes of the answer. */
#include "worker_fakes.h"

#include "worker/api.h"
#include "worker/arguments.h"
#include "worker/methods.h"
#include "worker/path.h"
#include "worker/target.h"

/* The tables. */

TEST no_two_methods_share_a_name(void)
{
    for (const struct method_row *row = method_rows; row->name; row++) {
        ASSERT_EQ(row, method_find(row->name));
        for (size_t i = 0; i < ALIASES_MAX && row->aliases[i]; i++)
            ASSERT_EQ(row, method_find(row->aliases[i]));
    }
    PASS();
}

TEST every_example_is_accepted(void)
{
    for (const struct method_row *row = method_rows; row->name; row++) {
        struct error err = {0};
        CLEANUP_JSON json_t *example = json_loads(row->example, 0, NULL);
        CLEANUP_JSON json_t *args = arguments_positional(row, example, false, &err);
        ASSERTm(row->name, args != NULL);
        ASSERTm(row->name, !strchr(row->example, '\''));
    }
    for (const struct api_row *row = api_rows; row->method; row++) {
        struct error err = {0};
        const struct method_row *method = method_find(row->name);
        ASSERTm(row->path, method != NULL);
        CLEANUP_JSON json_t *example = json_loads(*row->example ? row->example : "{}", 0, NULL);
        ASSERTm(row->path, path_fits(row->path, row->path, example));
        if (row->query && !*row->example) { /* then the first of them is the one that is needed */
            char name[32] = "";
            sscanf(row->query, "%31s", name);
            json_object_set_new(example, name, json_string("a"));
        }
        CLEANUP_JSON json_t *args = arguments_named(method, example, false, &err);
        ASSERTm(row->path, args != NULL);
    }
    PASS();
}

TEST no_two_api_routes_are_the_same(void)
{
    for (const struct api_row *row = api_rows; row->method; row++) {
        for (const struct api_row *other = row + 1; other->method; other++)
            ASSERTm(row->path,
                    strcmp(row->path, other->path) != 0 || strcmp(row->method, other->method) != 0);
    }
    PASS();
}

TEST a_varying_segment_is_one_and_is_decoded(void)
{
    CLEANUP_JSON json_t *values = json_object();
    ASSERT(path_fits("/a/{id}/b", "/a/x%2Fy/b", values));
    ASSERT_STR_EQ("x/y", json_string_value(json_object_get(values, "id")));
    ASSERT(path_fits("/a", "/a", NULL));
    static const char *const others[] = {"/a//b",    "/a/x",     "/a/x/y/b", "/a/x/b/",
                                         "/a/%zz/b", "/a/%00/b", "/a/%ff/b"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ASSERTm(others[i], !path_fits("/a/{id}/b", others[i], values));
    PASS();
}

TEST the_documentation_names_every_method_and_older_name(void)
{
    CLEANUP_BUF struct buf text = BUF_INIT(1 << 20);
    ASSERT_EQ(0, methods_markdown(&text));
    ASSERT_EQ(0, api_markdown(&text));
    for (const struct method_row *row = method_rows; row->name; row++) {
        char heading[64];
        snprintf(heading, sizeof heading, "### %s\n", row->name);
        ASSERTm(row->name, strstr(buf_text(&text), heading) != NULL);
    }
    ASSERT(strstr(buf_text(&text), "Older name: `readdir`."));
    ASSERT(strstr(buf_text(&text), "| `options.cwd` | string |"));
    ASSERT(strstr(buf_text(&text), "`POST /api/execute`"));
    CLEANUP_BUF struct buf small = BUF_INIT(100);
    ASSERT_EQ(-EMSGSIZE, methods_markdown(&small));
    PASS();
}

SUITE(tables)
{
    RUN_TEST(no_two_methods_share_a_name);
    RUN_TEST(every_example_is_accepted);
    RUN_TEST(no_two_api_routes_are_the_same);
    RUN_TEST(a_varying_segment_is_one_and_is_decoded);
    RUN_TEST(the_documentation_names_every_method_and_older_name);
}

/* The method route. */

TEST arguments_reach_the_container_under_its_names(void)
{
    ask("POST", "/sandbox/box/exec",
        "[\"ls\", {\"timeout\": 5, \"session\": \"s1\", \"cwd\": \"/tmp\", \"odd\": 1}]");
    ASSERT_EQ(200, asked.status);
    ASSERT_STR_EQ("exec", below.target);
    ASSERT_ARGS("{\"command\":\"ls\",\"cwd\":\"/tmp\",\"sessionId\":\"s1\",\"timeoutMs\":5}");
    ask("POST", "/sandbox/box/readdir", "[\"/w\", {\"recursive\": true}]");
    ASSERT_ARGS("{\"options\":{\"recursive\":true},\"path\":\"/w\",\"sessionId\":\"sandbox-box\"}");
    ask("POST", "/sandbox/box/rm", "[\"/a\", \"s2\"]");
    ASSERT_STR_EQ("/api/delete", below.target);
    ASSERT_ARGS("{\"path\":\"/a\",\"sessionId\":\"s2\"}");
    ask("POST", "/sandbox/box/setEnvVars", "[{\"A\": \"1\", \"B\": null}]");
    ASSERT_STR_EQ("setEnvVars", below.target);
    ASSERT_ARGS("{\"envVars\":{\"A\":\"1\",\"B\":null}}");
    ask("POST", "/sandbox/box/configure", "[{\"sleepAfter\": 30, \"keepAlive\": true}]");
    ASSERT_ARGS("{\"keepAlive\":true,\"sleepAfter\":30}");
    PASS();
}

TEST wrong_arguments_are_named_with_the_type_wanted(void)
{
    static const struct {
        const char *path, *body, *says;
    } rows[] = {
        {"/sandbox/box/exec", "", "argument 1 (command) is missing"},
        {"/sandbox/box/exec", "[5]", "argument 1 (command) must be a value of type string"},
        {"/sandbox/box/exec", "[\"a\", \"b\"]", "argument 2 (options) must be"},
        {"/sandbox/box/exec", "[\"a\", {\"timeout\": \"5\"}]", "options.timeout must be"},
        {"/sandbox/box/exec", "[\"a\", {\"env\": {\"A\": 1}}]", "options.env.A must be a string"},
        {"/sandbox/box/exec", "[\"a\", null, 1]", "takes at most 2 arguments, not 3"},
        {"/sandbox/box/writeFile", "[\"/a\"]", "argument 2 (content) is missing"},
        {"/sandbox/box/readFile", "[\"/a\\u0000b\"]", "must not contain a NUL"},
        {"/sandbox/box/getState", "[1]", "takes at most 0 arguments"},
        {"/sandbox/box/exec", "{\"command\": \"ls\"}", "must be a JSON array"},
        {"/sandbox/box/exec", "\"ls\"", "must be a JSON array"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ask("POST", rows[i].path, rows[i].body);
        ASSERT_PROBLEM(400, "VALIDATION_FAILED");
        ASSERTm(rows[i].says, strstr(text_of(reply, "error"), rows[i].says) != NULL);
        ASSERT(strstr(text_of(reply, "hint"), "Example: POST /sandbox/my-box/"));
        ASSERT_STR_EQ("docs/errors.md#validation_failed", text_of(reply, "docs"));
        ASSERT_EQ(NULL, below.args);
    }
    PASS();
}

TEST broken_json_is_told_with_line_and_column(void)
{
    ask("POST", "/sandbox/box/exec", "[\"ls\",\n }");
    ASSERT_PROBLEM(400, "INVALID_JSON");
    ASSERT(strstr(text_of(reply, "error"), "at line 2, column 2"));
    ask("POST", "/api/execute", "{\"command\": ");
    ASSERT_PROBLEM(400, "INVALID_JSON");
    ASSERT(strstr(text_of(reply, "error"), "line 1"));
    PASS();
}

TEST unknown_methods_and_verbs_come_with_a_way_on(void)
{
    ask("POST", "/sandbox/box/redFile", "[]");
    ASSERT_PROBLEM(404, "METHOD_NOT_FOUND");
    ASSERT(strstr(text_of(reply, "hint"), "Did you mean readFile?"));
    ask("POST", "/sandbox/box/frobnicateAll", "[]");
    ASSERT(strstr(text_of(reply, "hint"), "docs/api.md"));
    ask("GET", "/sandbox/box/exec", "");
    ASSERT_PROBLEM(405, "METHOD_NOT_ALLOWED");
    ASSERT_STR_EQ("POST", asked.allow);
    ask("POST", "/sandbox/box", "[]");
    ASSERT_PROBLEM(404, "ROUTE_NOT_FOUND");
    ask("POST", "/sandbox/box/exec/more", "[]");
    ASSERT_PROBLEM(404, "ROUTE_NOT_FOUND");
    PASS();
}

TEST ids_are_decoded_once_and_checked(void)
{
    static const char *const bad[] = {"%", "%4", "%zz", "a%00b", "%ff", "a%e4b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERTm(bad[i], target_decode(bad[i], strlen(bad[i])) == NULL);
    ask("POST", "/sandbox/a%2Fb%2520%C3%A9/getState", "[]");
    ASSERT_STR_EQ("a/b%20\xc3\xa9", below.id);
    ask("POST", "/sandbox/a%2/getState", "[]");
    ASSERT_PROBLEM(400, "VALIDATION_FAILED");
    ask("POST", "/sandbox/0123456789012345678901234567890123456789012345678901234567890123/stop",
        "[]");
    ASSERT_PROBLEM(400, "SECURITY_ERROR");
    ASSERT_STR_EQ("INVALID_SANDBOX_ID_LENGTH", text_of(json_object_get(reply, "context"), "code"));
    PASS();
}

TEST options_come_with_the_query(void)
{
    forget();
    asked = (struct http_request){.method = "POST",
                                  .path = "/sandbox/My-Box/getState",
                                  .query = {{"class", "SandboxPython"},
                                            {"normalizeId", "1"},
                                            {"keepAlive", "true"},
                                            {"sleepAfter", "5m"}}};
    deliver(worker_handle, "");
    ASSERT_EQ(200, asked.status);
    ASSERT_STR_EQ("my-box", below.id);
    ASSERT_STR_EQ("SandboxPython", below.class_name);
    ASSERT_STR_EQ("5m", below.sleep_after);
    ASSERT_EQ(1, below.keep_alive);
    ask("POST", "/sandbox/box/getState", "");
    ASSERT_EQ(-1, below.keep_alive);
    ASSERT_STR_EQ("", below.sleep_after);
    PASS();
}

TEST bad_options_are_refused(void)
{
    static const struct {
        struct pair query;
        int status;
        const char *code;
    } rows[] = {{{"class", "Nope"}, 404, "CLASS_NOT_FOUND"},
                {{"sleepAfter", "soon"}, 400, "VALIDATION_FAILED"},
                {{"keepAlive", "perhaps"}, 400, "VALIDATION_FAILED"},
                {{"normalizeId", "2"}, 400, "VALIDATION_FAILED"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        forget();
        asked = (struct http_request){
            .method = "POST", .path = "/sandbox/box/getState", .query = {rows[i].query}};
        deliver(worker_handle, "");
        ASSERT_PROBLEM(rows[i].status, rows[i].code);
    }
    PASS();
}

TEST a_call_without_a_session_runs_in_the_default_one(void)
{
    ask("POST", "/sandbox/box/exec", "[\"ls\"]");
    ASSERT_ARGS("{\"command\":\"ls\",\"sessionId\":\"sandbox-box\"}");
    below.result = "{\"duration\":0,\"sessionId\":\"__DISABLE_SESSION__\"}";
    ask("POST", "/sandbox/box/exec", "[\"ls\", {\"enableDefaultSession\": false}]");
    ASSERT_ARGS("{\"command\":\"ls\",\"sessionId\":\"__DISABLE_SESSION__\"}");
    ASSERT(json_is_integer(json_object_get(reply, "duration")));
    ASSERT_EQ(NULL, json_object_get(reply, "sessionId"));
    ask("POST", "/sandbox/box/ping", "[]");
    ASSERT_ARGS("{}");
    PASS();
}

TEST a_blank_session_is_an_error_without_a_code(void)
{
    ask("POST", "/sandbox/box/exec", "[\"ls\", {\"session\": \"  \"}]");
    ASSERT_EQ(500, asked.status);
    ASSERT_STR_EQ("{\"error\":\"sessionId must not be empty or whitespace\"}", asked.reply);
    PASS();
}

TEST get_session_needs_no_container(void)
{
    ask("POST", "/sandbox/box/getSession", "[\"s1\"]");
    ASSERT_STR_EQ("{\"id\":\"s1\"}", asked.reply);
    ASSERT_STR_EQ("", below.target);
    PASS();
}

SUITE(method_route_suite)
{
    SET_SETUP(reset, NULL);
    RUN_TEST(arguments_reach_the_container_under_its_names);
    RUN_TEST(wrong_arguments_are_named_with_the_type_wanted);
    RUN_TEST(broken_json_is_told_with_line_and_column);
    RUN_TEST(unknown_methods_and_verbs_come_with_a_way_on);
    RUN_TEST(ids_are_decoded_once_and_checked);
    RUN_TEST(options_come_with_the_query);
    RUN_TEST(bad_options_are_refused);
    RUN_TEST(a_call_without_a_session_runs_in_the_default_one);
    RUN_TEST(a_blank_session_is_an_error_without_a_code);
    RUN_TEST(get_session_needs_no_container);
}

/* Contents and answers. */

TEST large_and_nul_contents_go_around_jansson(void)
{
    CLEANUP_BUF struct buf body = BUF_INIT(1 << 20);
    buf_adds(&body, "[\"/a\", \"");
    for (int i = 0; i < 5000; i++)
        buf_adds(&body, "x");
    buf_adds(&body, "\\n\", {\"encoding\": \"utf-8\"}]");
    ask("POST", "/sandbox/box/writeFile", buf_text(&body));
    ASSERT_EQ(200, asked.status);
    ASSERT_EQ((size_t)5002, strlen(below.content));
    ASSERT(json_is_null(json_object_get(below.args, "content")));
    ASSERT_STR_EQ("utf-8", text_of(below.args, "encoding"));
    ask("POST", "/api/file/write", "{\"path\": \"/a\", \"content\": \"a\\u0000b\"}");
    ASSERT_EQ(200, asked.status);
    ASSERT_STR_EQ("a\\u0000b", below.content);
    ask("POST", "/api/file/write", "{\"path\": \"/a\", \"content\": \"short\"}");
    ASSERT_EQ(NULL, below.content);
    ASSERT_STR_EQ("short", text_of(below.args, "content"));
    PASS();
}

static void give_content(enum content_form form, const char *text)
{
    below.result = "{\"path\":\"/a\",\"content\":null,\"size\":3}";
    below.answer.content_form = form;
    below.answer.content = BUF_INIT(100);
    buf_adds(&below.answer.content, text);
}

TEST contents_are_written_in_their_place(void)
{
    give_content(CONTENT_TEXT, "a\"\n");
    ask("POST", "/sandbox/box/readFile", "[\"/a\"]");
    ASSERT_STR_EQ("{\"path\":\"/a\",\"content\":\"a\\\"\\n\",\"size\":3}", asked.reply);
    give_content(CONTENT_BASE64, "abc");
    ask("POST", "/sandbox/box/readFile", "[\"/a\"]");
    ASSERT_STR_EQ("{\"path\":\"/a\",\"content\":\"YWJj\",\"size\":3}", asked.reply);
    PASS();
}

TEST streams_are_answered_as_server_sent_events(void)
{
    below.answer.stream = stream_new(100, (struct stream_source){0});
    stream_end(below.answer.stream);
    ask("POST", "/sandbox/box/readFileStream", "[\"/a\"]");
    ASSERT_STR_EQ("text/event-stream", asked.type);
    PASS();
}

TEST a_client_that_left_gets_no_answer(void)
{
    below.hold = true;
    ask("POST", "/sandbox/box/exec", "[\"ls\"]");
    ASSERT_EQ(0, asked.status);
    asked.gone(asked.gone_arg);
    answer_now(below.held);
    ASSERT_EQ(0, asked.status);
    PASS();
}

TEST errors_keep_the_containers_status_on_the_method_route(void)
{
    below.code = CODE_IS_DIRECTORY;
    ask("POST", "/sandbox/box/deleteFile", "[\"/x\"]");
    ASSERT_PROBLEM(400, "IS_DIRECTORY");
    ASSERT_STR_EQ("/x", text_of(json_object_get(reply, "context"), "path"));
    ASSERT_STR_EQ("docs/errors.md#is_directory", text_of(reply, "docs"));
    below.code = CODE_CONTAINER_UNAVAILABLE;
    ask("POST", "/sandbox/box/exec", "[\"ls\"]");
    ASSERT_PROBLEM(503, "CONTAINER_UNAVAILABLE");
    ASSERT_STR_EQ("10", asked.retry);
    PASS();
}

TEST errors_follow_the_sdk_class_on_the_api_routes(void)
{
    static const struct {
        enum code code;
        int status;
        const char *says;
    } rows[] = {{CODE_IS_DIRECTORY, 500, "FILESYSTEM_ERROR"},
                {CODE_FILE_NOT_FOUND, 404, "FILE_NOT_FOUND"},
                {CODE_FILE_TOO_LARGE, 500, ""},
                {CODE_INTERNAL_ERROR, 500, ""},
                {CODE_PLAIN_ERROR, 500, ""},
                {CODE_SESSION_TERMINATED, 410, "SESSION_TERMINATED"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        below.code = rows[i].code;
        ask("POST", "/api/file/read", "{\"path\": \"/x\"}");
        ASSERT_PROBLEM(rows[i].status, rows[i].says);
        ASSERT_EQ(NULL, json_object_get(reply, "context"));
    }
    PASS();
}

SUITE(answers)
{
    SET_SETUP(reset, NULL);
    RUN_TEST(large_and_nul_contents_go_around_jansson);
    RUN_TEST(contents_are_written_in_their_place);
    RUN_TEST(streams_are_answered_as_server_sent_events);
    RUN_TEST(a_client_that_left_gets_no_answer);
    RUN_TEST(errors_keep_the_containers_status_on_the_method_route);
    RUN_TEST(errors_follow_the_sdk_class_on_the_api_routes);
}

/* The /api routes. */

TEST the_plain_curl_line_uses_the_default_sandbox(void)
{
    ask("POST", "/api/execute", "{\"command\": \"ls -la\"}");
    ASSERT_EQ(200, asked.status);
    ASSERT_STR_EQ("default", below.id);
    ASSERT_ARGS("{\"command\":\"ls -la\",\"sessionId\":\"sandbox-box\"}");
    ask("POST", "/api/execute", "{\"command\": [\"ls\", \"-la\"]}");
    ASSERT_STR_EQ("ls -la", text_of(below.args, "command"));
    ask("POST", "/api/execute", "");
    ASSERT_PROBLEM(400, "VALIDATION_FAILED");
    ASSERT(strstr(text_of(reply, "error"), "command is missing"));
    PASS();
}

TEST headers_choose_sandbox_session_and_class(void)
{
    has_python_class = true;
    forget();
    asked = (struct http_request){.method = "POST",
                                  .path = "/api/env/set",
                                  .headers = {{"X-Sandbox-Id", "b1"},
                                              {"X-Session-Id", "s1"},
                                              {"X-Sandbox-Type", "python"},
                                              {"X-Sandbox-KeepAlive", "false"}}};
    deliver(worker_handle, "{\"envVars\": {\"A\": \"1\"}}");
    ASSERT_STR_EQ("{\"success\":true}", asked.reply);
    ASSERT_STR_EQ("b1", below.id);
    ASSERT_STR_EQ("SandboxPython", below.class_name);
    ASSERT_EQ(0, below.keep_alive);
    ASSERT_ARGS("{\"envVars\":{\"A\":\"1\"},\"sessionId\":\"s1\"}");
    PASS();
}

TEST api_results_have_the_shape_of_the_original(void)
{
    static const struct {
        const char *method, *path, *body, *result, *reply;
    } rows[] = {
        {"POST", "/api/file/write", "{\"path\":\"/a\",\"content\":\"\"}", "{\"path\":\"/a\"}",
         "{\"success\":true}"},
        {"POST", "/api/session/create", "{\"id\":\"s\"}", "{\"id\":\"s\"}",
         "{\"success\":true,\"sessionId\":\"s\"}"},
        {"POST", "/cleanup", "", "{}", "{\"success\":true,\"message\":\"Sandbox destroyed\"}"},
        {"POST", "/api/container/stop", "", "{}",
         "{\"success\":true,\"message\":\"Container stopped\"}"},
        {"GET", "/api/state", "", "{\"status\":\"stopped\"}", "{\"status\":\"stopped\"}"},
        {"POST", "/health", "", NULL, "{\"status\":\"ok\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        below.result = rows[i].result;
        ask(rows[i].method, rows[i].path, rows[i].body);
        ASSERT_EQ(200, asked.status);
        ASSERT_STR_EQ(rows[i].reply, asked.reply);
    }
    PASS();
}

TEST unknown_routes_are_told_from_wrong_verbs(void)
{
    ask("POST", "/api/exekute", "{}");
    ASSERT_PROBLEM(404, "ROUTE_NOT_FOUND");
    ASSERT(strstr(text_of(reply, "error"), "Not found"));
    ASSERT(strstr(text_of(reply, "hint"), "POST /api/execute"));
    ask("POST", "/api/file/delete", "{}");
    ASSERT_PROBLEM(405, "METHOD_NOT_ALLOWED");
    ASSERT_STR_EQ("DELETE", asked.allow);
    PASS();
}

TEST the_root_says_what_this_is(void)
{
    ask("GET", "/", "");
    ASSERT_EQ(200, asked.status);
    ASSERT(strstr(asked.reply, "curl http://localhost:8787/sandbox/my-box/exec"));
    ask("POST", "/", "");
    ASSERT_EQ(405, asked.status);
    PASS();
}

static void advance_over(void *arg, bool settled, int error)
{
}

TEST requests_wait_while_the_clock_moves(void)
{
    clock_hold(virtual_clock);
    ASSERT_EQ(0, clock_advance_by(virtual_clock, 1000, advance_over, NULL, NULL));
    ask("POST", "/health", "");
    ASSERT_EQ(200, asked.status);
    ask("POST", "/sandbox/box/getState", "[]");
    ASSERT_EQ(0, asked.status);
    clock_release(virtual_clock);
    stop_on_reply = true;
    ASSERT_EQ(0, loop_run(loop, NULL));
    stop_on_reply = false;
    ASSERT_EQ(200, asked.status);
    PASS();
}

TEST who_leaves_while_the_clock_moves_asks_nothing(void)
{
    clock_hold(virtual_clock);
    ASSERT_EQ(0, clock_advance_by(virtual_clock, 1000, advance_over, NULL, NULL));
    ask("POST", "/sandbox/box/stop", "[]");
    asked.gone(asked.gone_arg);
    ask("POST", "/sandbox/box/getState", "[]");
    clock_release(virtual_clock);
    stop_on_reply = true;
    ASSERT_EQ(0, loop_run(loop, NULL));
    stop_on_reply = false;
    ASSERT_STR_EQ("getState", below.target);
    ASSERT_EQ(1, below.calls);
    PASS();
}

SUITE(api_routes)
{
    SET_SETUP(reset, NULL);
    RUN_TEST(the_plain_curl_line_uses_the_default_sandbox);
    RUN_TEST(headers_choose_sandbox_session_and_class);
    RUN_TEST(api_results_have_the_shape_of_the_original);
    RUN_TEST(unknown_routes_are_told_from_wrong_verbs);
    RUN_TEST(the_root_says_what_this_is);
    RUN_TEST(requests_wait_while_the_clock_moves);
    RUN_TEST(who_leaves_while_the_clock_moves_asks_nothing);
}

/* The container's own face. */

TEST unknown_host_names_reach_no_container(void)
{
    forget();
    asked = (struct http_request){.method = "GET", .path = "/api/ping", .label = "3000-box-wrong"};
    deliver(face_handle, "");
    ASSERT_PROBLEM(404, "INVALID_TOKEN");
    PASS();
}

TEST the_face_keeps_the_containers_odd_answers(void)
{
    ask_face("GET", "/", "");
    ASSERT_EQ(200, asked.status);
    ask_face("HEAD", "/api/ping", "");
    ASSERT_EQ(500, asked.status);
    ASSERT_STR_EQ("Internal Server Error", asked.reply);
    ask_face("OPTIONS", "/api/execute", "");
    ASSERT_EQ(404, asked.status);
    ask_face("GET", "/api/nope", "");
    ASSERT_EQ(404, asked.status);
    const char *wanted = "{\"code\":\"UNKNOWN_ERROR\",\"message\":\"The requested endpoint was not "
                         "found\",\"context\":{},\"httpStatus\":404,\"timestamp\":\"";
    ASSERT_EQ(0, strncmp(wanted, asked.reply, strlen(wanted)));
    PASS();
}

TEST error_objects_have_the_original_key_order(void)
{
    below.code = CODE_FILE_NOT_FOUND;
    ask_face("POST", "/api/read", "{\"path\": \"/x\"}");
    ASSERT_EQ(404, asked.status);
    static const char *const keys[] = {"code",       "message",   "context",   "operation",
                                       "httpStatus", "timestamp", "suggestion"};
    size_t i = 0;
    for (void *at = json_object_iter(reply); at; at = json_object_iter_next(reply, at), i++)
        ASSERT_STR_EQ(keys[i], json_object_iter_key(at));
    ASSERT_EQ((size_t)7, i);
    PASS();
}

TEST only_commands_take_their_session_from_a_header(void)
{
    static const char *const paths[] = {"/api/execute", "/api/read"};
    for (size_t i = 0; i < 2; i++) {
        forget();
        asked = (struct http_request){.method = "POST",
                                      .path = paths[i],
                                      .label = "3000-box-secret",
                                      .headers = {{"X-Session-Id", "s1"}}};
        deliver(face_handle, "{\"path\": \"/x\"}");
        ASSERT_EQ(200, asked.status);
        ASSERT_STR_EQ(i == 0 ? "s1" : "", text_of(below.args, "sessionId"));
    }
    ask_face("POST", "/api/execute", "{\"command\": \"ls\", \"sessionId\": \"\"}");
    ASSERT_ARGS("{\"command\":\"ls\"}");
    PASS();
}

TEST unparsable_bodies_fail_as_in_the_container(void)
{
    ask_face("POST", "/api/execute", "{\"command\"");
    ASSERT_EQ(500, asked.status);
    ASSERT_STR_EQ("INTERNAL_ERROR", text_of(reply, "code"));
    const char *message = text_of(reply, "message");
    ASSERT_EQ(0, strncmp("Failed to parse request body:", message, 29));
    ask_face("POST", "/api/session/create", "{");
    ASSERT_EQ(200, asked.status);
    ask_face("POST", "/api/session/delete", "");
    ASSERT_EQ(400, asked.status);
    ASSERT_STR_EQ("VALIDATION_FAILED", text_of(reply, "code"));
    PASS();
}

SUITE(container_face)
{
    SET_SETUP(reset, NULL);
    RUN_TEST(unknown_host_names_reach_no_container);
    RUN_TEST(the_face_keeps_the_containers_odd_answers);
    RUN_TEST(error_objects_have_the_original_key_order);
    RUN_TEST(only_commands_take_their_session_from_a_header);
    RUN_TEST(unparsable_bodies_fail_as_in_the_container);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    loop = loop_new(NULL);
    virtual_clock = loop ? clock_new(loop, NULL) : NULL;
    struct worker_config config = {.clock = virtual_clock};
    worker = virtual_clock ? worker_new(&config, NULL) : NULL;
    if (!worker)
        return 1;
    RUN_SUITE(tables);
    RUN_SUITE(method_route_suite);
    RUN_SUITE(answers);
    RUN_SUITE(api_routes);
    RUN_SUITE(container_face);
    reset(NULL);
    worker_free(worker);
    clock_free(virtual_clock);
    loop_free(loop);
    GREATEST_MAIN_END();
}
