/* exposePort and its relatives: what they answer, refuse, store and forget. */
#include <stdarg.h>

#include "proxy_box.h"

/* A method of a sandbox. */
static struct reply call(const char *id, const char *method, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static struct reply call(const char *id, const char *method, const char *format, ...)
{
    char path[128];
    va_list args;
    CLEANUP_FREE char *body = NULL;
    va_start(args, format);
    if (vasprintf(&body, format, args) < 0)
        body = NULL;
    va_end(args);
    snprintf(path, sizeof path, "/sandbox/%s/%s", id, method);
    return post(&emulator, path, body);
}

/* The token in a URL such as http://8080-box-token.localhost:8787/. */
static const char *token_in(const char *url)
{
    const char *dot = strchr(url, '.');
    const char *from = dot;
    while (from && from > url && from[-1] != '-')
        from--;
    char text[64];
    snprintf(text, sizeof text, "%.*s", dot ? (int)(dot - from) : 0, from ? from : "");
    return keep(text);
}

/* Whether an event of the type has the text in its line. */
static bool has_event(const char *type, const char *text)
{
    CLEANUP_REPLY struct reply r = get(&emulator, "/cdn-cgi/local/events");
    for (const char *at = r.body; at && (at = strstr(at, type)); at++) {
        CLEANUP_FREE char *line = strndup(at, strcspn(at, "\n"));
        if (strstr(line, text))
            return true;
    }
    return false;
}

TEST an_exposed_port_has_a_url_and_a_path_url(void)
{
    char expected[160];
    CLEANUP_REPLY struct reply r = call("box", "exposePort",
                                        "[8080, {\"name\": \"web\", \"token\": "
                                        "\"tok_1\"}]");
    ASSERT_EQm(r.body, 200, r.status);
    snprintf(expected, sizeof expected, "http://8080-box-tok_1.localhost:%d/", emulator.port);
    ASSERT_STR_EQ(expected, text_at(r.json, "url"));
    snprintf(expected, sizeof expected, "http://localhost:%d/cdn-cgi/local/preview/8080-box-tok_1/",
             emulator.port);
    ASSERT_STR_EQ(expected, text_at(r.json, "pathUrl"));
    ASSERT_EQ(8080, number_at(r.json, "port"));
    ASSERT_STR_EQ("web", text_at(r.json, "name"));
    CLEANUP_REPLY struct reply custom =
        call("box", "exposePort", "[8081, {\"hostname\": \"example.com\", \"token\": \"abc\"}]");
    ASSERT_STR_EQ("https://8081-box-abc.example.com/", text_at(custom.json, "url"));
    ASSERT_EQ(NULL, at(custom.json, "name"));
    CLEANUP_REPLY struct reply address =
        request(&emulator, "POST", "/sandbox/box/exposePort", "Host: 127.0.0.1:4\r\n", "[8080]");
    ASSERT_STR_EQ("http://8080-box-tok_1.localhost:4/", text_at(address.json, "url"));
    PASS();
}

TEST a_token_is_kept_until_another_is_given(void)
{
    CLEANUP_REPLY struct reply first = call("kept", "exposePort", "[8080]");
    CLEANUP_FREE char *token = strdup(token_in(text_at(first.json, "url")));
    ASSERT_EQm(keep(token), 16, strlen(token));
    ASSERT_EQ(16, strspn(token, "abcdefghijklmnopqrstuvwxyz0123456789_"));
    CLEANUP_REPLY struct reply again = call("kept", "exposePort", "[8080]");
    ASSERT_STR_EQ(text_at(first.json, "url"), text_at(again.json, "url"));
    CLEANUP_REPLY struct reply own = call("kept", "exposePort", "[8080, {\"token\": \"mine\"}]");
    ASSERT_STR_EQ("mine", token_in(text_at(own.json, "url")));
    CLEANUP_REPLY struct reply still = call("kept", "exposePort", "[8080]");
    ASSERT_STR_EQ("mine", token_in(text_at(still.json, "url")));
    CLEANUP_REPLY struct reply taken = call("kept", "exposePort", "[8081, {\"token\": \"mine\"}]");
    ASSERT_EQ(400, taken.status);
    ASSERT_STR_EQ("SECURITY_ERROR", text_at(taken.json, "code"));
    ASSERT(strstr(text_at(taken.json, "error"), "port 8080"));
    CLEANUP_REPLY struct reply other = call("kept2", "exposePort", "[8081, {\"token\": \"mine\"}]");
    ASSERT_EQ(200, other.status);
    PASS();
}

TEST bad_ports_and_tokens_are_refused_before_anything_starts(void)
{
    static const struct {
        const char *args, *text;
    } rows[] = {
        {"[22]", "Invalid port number: 22"},
        {"[3000]", "Port 3000 is reserved"},
        {"[65536]", "Invalid port number: 65536"},
        {"[80.5]", "Invalid port number"},
        {"[\"8080\"]", "Invalid port number"},
        {"[8080, {\"token\": \"\"}]", "empty"},
        {"[8080, {\"token\": \"abcdefghijklmnopq\"}]", "too long"},
        {"[8080, {\"token\": \"UPPER\"}]", "not allowed"},
        {"[8080, {\"token\": \"a-b\"}]", "not allowed"},
        {"[8080, {\"hostname\": \"not a host\"}]", "construct preview URL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply r = call("bad", "exposePort", "%s", rows[i].args);
        ASSERT_EQm(rows[i].args, 400, r.status);
        ASSERT_STR_EQ("SECURITY_ERROR", text_at(r.json, "code"));
        ASSERTm(r.body, strstr(text_at(r.json, "error"), rows[i].text));
    }
    CLEANUP_REPLY struct reply exposed = call("bad", "isPortExposed", "[3000]");
    ASSERT_STR_EQ("false", exposed.body);
    CLEANUP_REPLY struct reply taken = call("bad", "unexposePort", "[22]");
    ASSERT_EQ(400, taken.status);
    ASSERT_STR_EQ("not_created", state_of("bad"));
    PASS();
}

TEST upper_case_ids_have_no_previews_unless_normalized(void)
{
    CLEANUP_REPLY struct reply r = call("MyBox", "exposePort", "[8080]");
    ASSERT_EQ(400, r.status);
    ASSERT_STR_EQ("SECURITY_ERROR", text_at(r.json, "code"));
    ASSERT(strstr(text_at(r.json, "error"), "Preview URLs require lowercase sandbox IDs"));
    CLEANUP_REPLY struct reply list = call("MyBox", "getExposedPorts", "[]");
    ASSERT_EQ(400, list.status);
    CLEANUP_REPLY struct reply good = call("MyBox", "exposePort?normalizeId=1", "[8080]");
    ASSERT_EQ(200, good.status);
    ASSERT_EQ(0, strncmp(text_at(good.json, "url"), "http://8080-mybox-", 18));
    PASS();
}

TEST workers_dev_has_no_previews(void)
{
    CLEANUP_REPLY struct reply r =
        call("box", "exposePort", "[8080, {\"hostname\": \"me.workers.dev\"}]");
    ASSERT_EQ(400, r.status);
    ASSERT_STR_EQ("CUSTOM_DOMAIN_REQUIRED", text_at(r.json, "code"));
    ASSERT_STR_EQ("me.workers.dev", text_at(r.json, "context.originalError"));
    PASS();
}

TEST only_active_ports_are_listed_and_nobody_is_woken(void)
{
    CLEANUP_REPLY struct reply a = call("list", "exposePort", "[9001]");
    CLEANUP_REPLY struct reply b = call("list", "exposePort", "[8081, {\"name\": \"x\"}]");
    CLEANUP_REPLY struct reply list = call("list", "getExposedPorts", "[\"example.com\"]");
    ASSERT_EQ(2, json_array_size(list.json));
    ASSERT_EQ(8081, number_at(list.json, "0.port"));
    ASSERT_STR_EQ("active", text_at(list.json, "0.status"));
    ASSERT_EQ(0, strncmp(text_at(list.json, "1.url"), "https://9001-list-", 18));
    CLEANUP_REPLY struct reply is = call("list", "isPortExposed", "[9001]");
    ASSERT_STR_EQ("true", is.body);
    CLEANUP_REPLY struct reply stop = call("list", "stop", "[]");
    CLEANUP_REPLY struct reply none = call("list", "getExposedPorts", "[]");
    ASSERT_STR_EQ("[]", none.body);
    CLEANUP_REPLY struct reply is_not = call("list", "isPortExposed", "[9001]");
    ASSERT_STR_EQ("false", is_not.body);
    CLEANUP_REPLY struct reply valid =
        call("list", "validatePortToken", "[9001, \"%s\"]", token_in(text_at(a.json, "url")));
    ASSERT_STR_EQ("true", valid.body);
    CLEANUP_REPLY struct reply wrong =
        call("list", "validatePortToken", "[9001, \"%s\"]", token_in(text_at(b.json, "url")));
    ASSERT_STR_EQ("false", wrong.body);
    CLEANUP_REPLY struct reply taken = call("list", "unexposePort", "[9001]");
    ASSERT_EQ(200, taken.status);
    CLEANUP_REPLY struct reply twice = call("list", "unexposePort", "[9001]");
    ASSERT_EQ(200, twice.status);
    CLEANUP_REPLY struct reply gone =
        call("list", "validatePortToken", "[9001, \"%s\"]", token_in(text_at(a.json, "url")));
    ASSERT_STR_EQ("false", gone.body);
    ASSERT_STR_EQ("stopped", state_of("list"));
    PASS();
}

TEST tokens_survive_sleep_and_the_emulator_but_not_destroy(void)
{
    CLEANUP_REPLY struct reply first = call("store", "exposePort", "[8080, {\"name\": \"n\"}]");
    const char *url = text_at(first.json, "url");
    CLEANUP_REPLY struct reply slept =
        post(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"11m\"}");
    ASSERT_STR_EQ("stopped", state_of("store"));
    CLEANUP_REPLY struct reply woken = call("store", "exposePort", "[8080]");
    ASSERT_STR_EQ(url, text_at(woken.json, "url"));
    CLEANUP_FREE char *token = strdup(token_in(url));
    emulator_kill(&emulator);
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    CLEANUP_REPLY struct reply valid = call("store", "validatePortToken", "[8080, \"%s\"]", token);
    ASSERT_STR_EQ("true", valid.body);
    CLEANUP_REPLY struct reply after = call("store", "exposePort", "[8080]");
    ASSERT_STR_EQ(token, token_in(text_at(after.json, "url")));
    CLEANUP_REPLY struct reply destroyed = call("store", "destroy", "[]");
    CLEANUP_REPLY struct reply forgotten =
        call("store", "validatePortToken", "[8080, \"%s\"]", token);
    ASSERT_STR_EQ("false", forgotten.body);
    CLEANUP_REPLY struct reply fresh = call("store", "exposePort", "[8080]");
    ASSERT(strcmp(token, token_in(text_at(fresh.json, "url"))) != 0);
    PASS();
}

TEST the_api_has_the_routes_of_the_test_worker(void)
{
    const char *id = "X-Sandbox-Id: routes\r\n";
    CLEANUP_REPLY struct reply r =
        request(&emulator, "POST", "/api/port/expose", id, "{\"port\": 8080, \"name\": \"w\"}");
    ASSERT_EQ(200, r.status);
    ASSERT_EQ(0, strncmp(text_at(r.json, "url"), "http://8080-routes-", 19));
    CLEANUP_REPLY struct reply list = request(&emulator, "GET", "/api/exposed-ports", id, NULL);
    ASSERT_EQ(8080, number_at(list.json, "0.port"));
    CLEANUP_REPLY struct reply one = request(&emulator, "GET", "/api/exposed-ports/8080", id, NULL);
    ASSERT_STR_EQ("{\"exposed\":true,\"port\":8080}", one.body);
    CLEANUP_REPLY struct reply taken =
        request(&emulator, "DELETE", "/api/exposed-ports/8080", id, NULL);
    ASSERT_STR_EQ("{\"success\":true,\"port\":8080}", taken.body);
    CLEANUP_REPLY struct reply none =
        request(&emulator, "GET", "/api/exposed-ports/8080", id, NULL);
    ASSERT_STR_EQ("{\"exposed\":false,\"port\":8080}", none.body);
    CLEANUP_REPLY struct reply bad =
        request(&emulator, "POST", "/api/port/expose", id, "{\"port\": 22}");
    ASSERT_EQ(400, bad.status);
    ASSERT_STR_EQ("SECURITY_ERROR", text_at(bad.json, "code"));
    CLEANUP_REPLY struct reply session =
        request(&emulator, "POST", "/api/port/expose",
                "X-Sandbox-Id: routes\r\nX-Session-Id: s\r\n", "{\"port\": 8080}");
    ASSERT_EQ(400, session.status);
    ASSERT(*text_at(session.json, "error"));
    PASS();
}

TEST ports_are_shown_by_the_control_api_ps_and_the_report(void)
{
    CLEANUP_REPLY struct reply r = call("shown", "exposePort", "[8123, {\"name\": \"web\"}]");
    CLEANUP_REPLY struct reply one = get(&emulator, "/cdn-cgi/local/sandboxes/shown");
    ASSERT_EQ(8123, number_at(one.json, "ports.0.port"));
    ASSERT_STR_EQ("web", text_at(one.json, "ports.0.name"));
    ASSERT_STR_EQ("active", text_at(one.json, "ports.0.status"));
    ASSERT_STR_EQ(text_at(r.json, "url"), text_at(one.json, "ports.0.url"));
    CLEANUP_FREE char *out = NULL, *errors = NULL;
    const char *const ps[] = {SANDPIT_BINARY, "ps", NULL};
    ASSERT_EQ(0, run_command(&emulator, ps, &out, &errors));
    ASSERTm(keep(out), strstr(out, "8123"));
    CLEANUP_REPLY struct reply report = get(&emulator, "/cdn-cgi/local/report");
    ASSERT(strstr(report.body, "8123"));
    PASS();
}

TEST events_tell_of_ports_and_never_of_tokens(void)
{
    CLEANUP_REPLY struct reply r =
        call("told", "exposePort", "[8080, {\"name\": \"w\", \"token\": \"secret_token\"}]");
    CLEANUP_REPLY struct reply taken = call("told", "unexposePort", "[8080]");
    ASSERT(has_event("\"port.exposed\"", "8080"));
    ASSERT(has_event("\"port.unexposed\"", "8080"));
    CLEANUP_REPLY struct reply all = get(&emulator, "/cdn-cgi/local/events");
    ASSERT_FALSE(strstr(all.body, "secret_token"));
    PASS();
}

SUITE(ports)
{
    RUN_TEST(an_exposed_port_has_a_url_and_a_path_url);
    RUN_TEST(a_token_is_kept_until_another_is_given);
    RUN_TEST(bad_ports_and_tokens_are_refused_before_anything_starts);
    RUN_TEST(upper_case_ids_have_no_previews_unless_normalized);
    RUN_TEST(workers_dev_has_no_previews);
    RUN_TEST(only_active_ports_are_listed_and_nobody_is_woken);
    RUN_TEST(the_api_has_the_routes_of_the_test_worker);
    RUN_TEST(ports_are_shown_by_the_control_api_ps_and_the_report);
    RUN_TEST(events_tell_of_ports_and_never_of_tokens);
    RUN_TEST(tokens_survive_sleep_and_the_emulator_but_not_destroy);
}

/* Other rules. Each starts an emulator of its own. */

static int start_with(const char *const *options)
{
    return emulator_start(&emulator, options);
}

static bool stop_clean(void)
{
    bool clean = emulator_stop(&emulator) == 0;
    emulator_clean(&emulator);
    return clean;
}

/* A request for the preview at the URL's host; the status. */
static int visit(const char *url)
{
    char host[200];
    const char *from = strstr(url, "://");
    const char *name = from ? from + 3 : "";
    snprintf(host, sizeof host, "Host: %.*s\r\n", (int)strcspn(name, "/"), name);
    CLEANUP_REPLY struct reply r = request(&emulator, "GET", "/", host, NULL);
    return r.status;
}

TEST the_line_of_0_7_keeps_a_registry_in_the_container(void)
{
    ASSERT_EQ(0, start_with((const char *const[]){"--sdk-version", "0.7.1", NULL}));
    CLEANUP_REPLY struct reply reserved = call("old", "exposePort", "[8787]");
    ASSERT_EQ(400, reserved.status);
    CLEANUP_REPLY struct reply r = call("old", "exposePort", "[8080, {\"token\": \"my-token\"}]");
    ASSERT_EQm(r.body, 200, r.status);
    ASSERT_EQ(500, visit(text_at(r.json, "url"))); /* found; nobody listens */
    CLEANUP_REPLY struct reply again = call("old", "exposePort", "[8080]");
    ASSERT_EQ(409, again.status);
    ASSERT_STR_EQ("PORT_ALREADY_EXPOSED", text_at(again.json, "code"));
    CLEANUP_REPLY struct reply unknown = call("old", "unexposePort", "[8081]");
    ASSERT_EQ(404, unknown.status);
    ASSERT_STR_EQ("PORT_NOT_EXPOSED", text_at(unknown.json, "code"));
    CLEANUP_REPLY struct reply stop = call("old", "stop", "[]");
    ASSERT_EQ(404, visit(text_at(r.json, "url")));
    CLEANUP_REPLY struct reply list = call("old", "getExposedPorts", "[]");
    ASSERT_STR_EQ("[]", list.body);
    ASSERT_STR_EQ("healthy", state_of("old")); /* which it was asked in */
    CLEANUP_REPLY struct reply anew = call("old", "exposePort", "[8080]");
    ASSERT_EQ(200, anew.status);
    ASSERT(strcmp(text_at(r.json, "url"), text_at(anew.json, "url")) != 0);
    ASSERT(stop_clean());
    PASS();
}

TEST of_two_that_expose_a_port_at_once_0_7_tells_one(void)
{
    static const char text[] = "POST /sandbox/both/exposePort HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 6\r\n\r\n[8080]";
    ASSERT_EQ(0, start_with((const char *const[]){"--sdk-version", "0.7", NULL}));
    CLEANUP_FD int one = dial(&emulator);
    CLEANUP_FD int two = dial(&emulator);
    ASSERT_EQ(0, send_all(one, text, sizeof text - 1)); /* both wait for the container */
    ASSERT_EQ(0, send_all(two, text, sizeof text - 1));
    CLEANUP_REPLY struct reply first = read_reply(one);
    CLEANUP_REPLY struct reply second = read_reply(two);
    ASSERT_EQ(200 + 409, first.status + second.status);
    ASSERT(stop_clean());
    PASS();
}

TEST previews_of_0_10_start_the_container(void)
{
    ASSERT_EQ(0, start_with((const char *const[]){"--sdk-version", "0.10", NULL}));
    CLEANUP_REPLY struct reply r = call("mid", "exposePort", "[8080]");
    CLEANUP_REPLY struct reply again = call("mid", "exposePort", "[8080]");
    ASSERT_STR_EQ(text_at(r.json, "url"), text_at(again.json, "url"));
    CLEANUP_REPLY struct reply stop = call("mid", "stop", "[]");
    ASSERT_EQ(500, visit(text_at(r.json, "url")));
    ASSERT_STR_EQ("healthy", state_of("mid"));
    ASSERT(stop_clean());
    PASS();
}

TEST production_wants_a_domain_and_warns_of_its_certificate(void)
{
    ASSERT_EQ(0, start_with((const char *const[]){"--rules", "production", NULL}));
    CLEANUP_REPLY struct reply local = call("prod", "exposePort", "[8080]");
    ASSERT_EQ(400, local.status);
    ASSERT_STR_EQ("CUSTOM_DOMAIN_REQUIRED", text_at(local.json, "code"));
    CLEANUP_REPLY struct reply domain =
        call("prod", "exposePort", "[8080, {\"hostname\": \"example.com\"}]");
    ASSERT_EQ(200, domain.status);
    ASSERT_EQ(500, visit(text_at(domain.json, "url")));
    ASSERT(has_event("\"hint.preview\"", "EXPOSE"));
    ASSERT_FALSE(has_event("\"hint.preview\"", "certificate"));
    CLEANUP_REPLY struct reply nested =
        call("prod", "exposePort", "[8080, {\"hostname\": \"dev.example.com\"}]");
    ASSERT(has_event("\"hint.preview\"", "certificate"));
    ASSERT(stop_clean());
    PASS();
}

TEST tokens_are_not_logged_at_info(void)
{
    ASSERT_EQ(0, start_with((const char *const[]){"--log-level", "info", "--seed", "5", NULL}));
    CLEANUP_REPLY struct reply r = call("log", "exposePort", "[8080, {\"token\": \"hush_hush\"}]");
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/preview/8080-log-hush_hush/x");
    CLEANUP_REPLY struct reply silent = get(&emulator, path);
    ASSERT_EQ(500, silent.status);
    ASSERT_EQ(500, visit(text_at(r.json, "url")));
    /* The second request of a connection has come another way. */
    CLEANUP_FD int fd = dial(&emulator);
    const char *first = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT_EQ(0, send_all(fd, first, strlen(first)));
    CLEANUP_REPLY struct reply health = read_reply(fd);
    char second[256];
    int size = snprintf(second, sizeof second, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    ASSERT_EQ(0, send_all(fd, second, (size_t)size));
    CLEANUP_REPLY struct reply other = read_reply(fd);
    ASSERT_EQ(500, other.status);
    CLEANUP_REPLY struct reply foreign =
        request(&emulator, "GET", path, "Host: box.example\r\n", NULL);
    ASSERT_EQ(403, foreign.status);
    CLEANUP_REPLY struct reply stop = call("log", "stop", "[]");
    CLEANUP_REPLY struct reply stale = get(&emulator, path);
    ASSERT_EQ(410, stale.status);
    CLEANUP_FREE char *out = NULL, *errors = NULL;
    const char *const grep[] = {"grep", "-c", "hush", emulator.log, NULL};
    run_command(&emulator, grep, &out, &errors);
    ASSERT_STR_EQ("0\n", out);
    ASSERT(stop_clean());
    PASS();
}

SUITE(port_lines)
{
    RUN_TEST(the_line_of_0_7_keeps_a_registry_in_the_container);
    RUN_TEST(of_two_that_expose_a_port_at_once_0_7_tells_one);
    RUN_TEST(previews_of_0_10_start_the_container);
    RUN_TEST(production_wants_a_domain_and_warns_of_its_certificate);
    RUN_TEST(tokens_are_not_logged_at_info);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, ports);
    RUN_SUITE(port_lines);
    GREATEST_MAIN_END();
}
