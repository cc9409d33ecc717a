/* Previews as curl and node see them: the ways of docs/previews.md, typed as a person would. */
#include "preview_box.h"

enum { ARGUMENTS_MAX = 12, UPLOAD_SIZE = 3 << 20 };

/* "@" becomes the address of the emulator, such as "127.0.0.1:8787", and "%" its port. */
static void add_argument(struct buf *to, const char *given)
{
    for (const char *c = given; *c; c++) {
        if (*c == '@')
            buf_addf(to, "127.0.0.1:%d", emulator.port);
        else if (*c == '%')
            buf_addf(to, "%d", emulator.port);
        else
            buf_add(to, c, 1);
    }
    buf_add(to, "", 1);
}

/* What curl printed, then a line with the status; or its error. Kept. */
static const char *curl(const char *const *given)
{
    const char *argv[8 + ARGUMENTS_MAX + 1] = {"curl", "-sS", "--noproxy", "*",
                                               "-m",   "20",  "-w",        "\n%{http_code}"};
    CLEANUP_BUF struct buf texts = BUF_INIT(8192);
    CLEANUP_FREE char *out = NULL, *errors = NULL;
    for (size_t i = 0; i < ARGUMENTS_MAX && given[i]; i++)
        add_argument(&texts, given[i]);
    const char *text = texts.data;
    for (size_t i = 8; text < texts.data + texts.size; i++, text += strlen(text) + 1)
        argv[i] = text;
    int status = run_command(&emulator, argv, &out, &errors);
    return keep(status == 0 ? out : errors);
}
#define CURL(...) curl((const char *const[]){__VA_ARGS__, NULL})

#define ASSERT_ANSWER(STATUS, TEXT, ANSWER)                                                        \
    do {                                                                                           \
        const char *answer = (ANSWER);                                                             \
        ASSERTm(answer, strstr(answer, (TEXT)));                                                   \
        ASSERTm(answer, ends_with(answer, "\n" STATUS));                                           \
    } while (0)

TEST curl_finds_a_preview_by_name_header_and_path(void)
{
    static const char *const ways[][4] = {
        {"http://8080-c-tok.localhost:%/a?b"},
        {"http://8080-C-Tok.LOCALHOST:%/a?b"},
        {"-H", "Host: 8080-c-tok.localhost", "http://@/a?b"},
        {"-H", "Host: 8080-C-TOK.LOCALHOST:1", "http://localhost:%/a?b"},
        {"--resolve", "8080-c-tok.localhost:%:127.0.0.1", "http://8080-c-tok.localhost:%/a?b"},
        {"--connect-to", "::@", "http://8080-c-tok.localhost/a?b"},
        {"--http1.0", "http://8080-c-tok.localhost:%/a?b"},
        {"http://localhost:%/cdn-cgi/local/preview/8080-c-tok/a?b"},
        {"http://@/cdn-cgi/local/preview/8080-c-tok/a?b"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ASSERT_ANSWER("200", "\"url\":\"/a?b\"", curl(ways[i]));
    PASS();
}

TEST one_line_at_the_start_tells_of_the_other_ways(void)
{
    CLEANUP_FREE char *out = NULL;
    const char *const grep[] = {"grep", "-c", "^ previews: .*pathUrl or a Host header$",
                                emulator.log, NULL};
    run_command(&emulator, grep, &out, NULL);
    ASSERT_STR_EQ("1\n", out);
    PASS();
}

TEST curl_uploads_and_downloads_whole_bodies(void)
{
    char file[160], got[160];
    snprintf(file, sizeof file, "%s/sent", emulator.dir);
    snprintf(got, sizeof got, "%s/got", emulator.dir);
    FILE *out = fopen(file, "we");
    ASSERT(out);
    for (int i = 0; i < UPLOAD_SIZE; i++)
        fputc(i * 31 + i / 997, out);
    ASSERT_EQ(0, fclose(out));
    /* So much makes curl wait for 100 Continue; chunked it does not know the size. */
    static const char *const framing[] = {"Expect: 100-continue", "Transfer-Encoding: chunked"};
    const char *const same[] = {"cmp", file, got, NULL};
    for (size_t i = 0; i < sizeof framing / sizeof *framing; i++) {
        const char *said =
            CURL("-T", file, "-o", got, "-H", framing[i], "http://8080-c-tok.localhost:%/echo");
        ASSERT_ANSWER("200", "", said);
        ASSERT_EQm(framing[i], 0, run_command(&emulator, same, NULL, NULL));
    }
    ASSERT_ANSWER("200", "\"method\":\"DELETE\"",
                  CURL("-X", "DELETE", "http://8080-c-tok.localhost:%/"));
    ASSERT_ANSWER("200", "HTTP/1.1 200 OK", CURL("-I", "http://8080-c-tok.localhost:%/"));
    PASS();
}

TEST curl_follows_redirects_keeps_cookies_and_reads_events(void)
{
    char jar[160];
    snprintf(jar, sizeof jar, "%s/jar", emulator.dir);
    ASSERT_ANSWER("200", "\"url\":\"/seen?by=redirect\"",
                  CURL("-L", "http://8080-c-tok.localhost:%/to"));
    ASSERT_ANSWER("200", "",
                  CURL("-c", jar, "-o", "/dev/null", "http://8080-c-tok.localhost:%/bytes"));
    ASSERT_ANSWER("200", "\"cookie\":\"a=1; b=2\"",
                  CURL("-b", jar, "http://8080-c-tok.localhost:%/"));
    ASSERT_ANSWER("200", "data: 1\n\ndata: 2\n\n",
                  CURL("-N", "http://8080-c-tok.localhost:%/events?ms=50"));
    PASS();
}

TEST curl_reaches_a_domain_by_host_header_once_it_was_given(void)
{
    static const char url[] = "http://localhost:%/sandbox/c/exposePort";
    ASSERT_ANSWER("403", "", CURL("-H", "Host: 8080-c-tok.curl.example", "http://@/"));
    ASSERT_ANSWER("200", "\"https://8080-c-tok.curl.example/\"",
                  CURL(url, "-d", "[8080, {\"hostname\": \"curl.example\"}]"));
    ASSERT_ANSWER("200", "\"x-forwarded-host\":\"8080-c-tok.curl.example\"",
                  CURL("-H", "Host: 8080-c-tok.curl.example", "http://@/"));
    ASSERT_ANSWER("200", "\"url\":\"/x\"",
                  CURL("--connect-to", "::@", "http://8080-C-TOK.Curl.Example/x"));
    ASSERT_ANSWER("404", "INVALID_TOKEN", CURL("-H", "Host: 8080-c-x.curl.example", "http://@/"));
    ASSERT_ANSWER("403", "", CURL("-H", "Host: curl.example", "http://@/"));
    PASS();
}

TEST curl_is_told_what_cannot_be_exposed(void)
{
    static const struct {
        const char *url, *body, *text;
    } rows[] = {
        {"http://localhost:%/sandbox/MyBox/exposePort", "[8080]",
         "Preview URLs require lowercase sandbox IDs"},
        {"http://localhost:%/sandbox/c/exposePort",
         "[8080, {\"hostname\": \"app.name.workers.dev\"}]", "CUSTOM_DOMAIN_REQUIRED"},
        {"http://localhost:%/sandbox/c/exposePort", "[3000]", "Port 3000 is reserved"},
        {"http://localhost:%/sandbox/c/exposePort", "[80]", "Invalid port number"},
        {"http://localhost:%/sandbox/c/exposePort", "[8080, {\"token\": \"a-b\"}]",
         "Custom token has characters that are not allowed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ASSERT_ANSWER("400", rows[i].text, CURL(rows[i].url, "-d", rows[i].body));
    ASSERT_ANSWER(
        "200", "8080-mybox-",
        CURL("http://localhost:%/sandbox/MyBox/exposePort?normalizeId=1", "-d", "[8080]"));
    PASS();
}

/* fetch with the resolver of docs/previews.md, a streamed body, events, and an upgrade by hand. */
TEST node_fetches_streams_and_upgrades(void)
{
    static const char script[] =
        "const http = require('http');"
        "(async () => { const base = process.argv[1];"
        "const seen = await (await fetch(base + 'a?b')).json();"
        "const body = new ReadableStream({ start(c) { for (let i = 0; i < 100; i++)"
        " c.enqueue(new Uint8Array(1000)); c.close(); } });"
        "const echo = await fetch(base + 'echo', { method: 'POST', body, duplex: 'half' });"
        "const events = await (await fetch(base + 'events?ms=20')).text();"
        "const moved = await fetch(base + 'to');"
        "const host = await new Promise((done, failed) => http.get(base + 'hmr',"
        " { headers: { connection: 'Upgrade', upgrade: 'websocket' } }, failed)"
        " .on('upgrade', (answer, socket) => { socket.end(); done(answer.headers['x-host']); }));"
        "console.log([seen.url, (await echo.arrayBuffer()).byteLength,"
        " events.split('\\n\\n').length, moved.redirected, (await moved.json()).url, host].join(' "
        "'));"
        "})()";
    char url[64];
    CLEANUP_FREE char *out = NULL, *errors = NULL;
    snprintf(url, sizeof url, "http://8080-c-tok.localhost:%d/", emulator.port);
    const char *const argv[] = {
        "node", "--require", SANDPIT_SOURCE "/tests/sdk/localhost.cjs", "-e", script, url, NULL};
    int status = run_command(&emulator, argv, &out, &errors);
    ASSERT_EQm(keep(errors), 0, status);
    ASSERT_STR_EQ("/a?b 100000 3 true /seen?by=redirect localhost:8080\n", out);
    PASS();
}

SUITE(preview_clients)
{
    const char *failed = open_box("c");
    if (failed) {
        printf("SKIP preview_clients: no node in the sandbox: %s\n", failed);
        skipped = true;
        return;
    }
    RUN_TEST(curl_finds_a_preview_by_name_header_and_path);
    RUN_TEST(one_line_at_the_start_tells_of_the_other_ways);
    RUN_TEST(curl_uploads_and_downloads_whole_bodies);
    RUN_TEST(curl_follows_redirects_keeps_cookies_and_reads_events);
    RUN_TEST(curl_reaches_a_domain_by_host_header_once_it_was_given);
    RUN_TEST(curl_is_told_what_cannot_be_exposed);
    RUN_TEST(node_fetches_streams_and_upgrades);
}

TEST curl_needs_a_domain_with_the_rules_of_production(void)
{
    static const char url[] = "http://localhost:%/sandbox/c/exposePort";
    ASSERT_EQ(0, emulator_start(&emulator, (const char *const[]){"--rules", "production", NULL}));
    const char *failed = start_server("c");
    ASSERT_EQm(failed, NULL, failed);
    ASSERT_ANSWER("400", "CUSTOM_DOMAIN_REQUIRED", CURL(url, "-d", "[8080]"));
    ASSERT_ANSWER("400", "CUSTOM_DOMAIN_REQUIRED",
                  CURL(url, "-d", "[8080, {\"hostname\": \"app.name.workers.dev\"}]"));
    ASSERT_ANSWER("200", "\"https://8080-c-tok.curl.example/\"",
                  CURL(url, "-d", "[8080, {\"hostname\": \"curl.example\", \"token\": \"tok\"}]"));
    ASSERT_ANSWER("200", "\"url\":\"/x\"",
                  CURL("-H", "Host: 8080-c-tok.curl.example", "http://@/x"));
    ASSERT_EQ(0, emulator_stop(&emulator));
    emulator_clean(&emulator);
    PASS();
}

SUITE(preview_clients_production)
{
    RUN_TEST(curl_needs_a_domain_with_the_rules_of_production);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, preview_clients);
    if (skipped)
        return 77;
    RUN_SUITE(preview_clients_production);
    GREATEST_MAIN_END();
}
