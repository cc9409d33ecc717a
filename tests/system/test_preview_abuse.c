/* Previews that are refused, servers and clients that behave badly, and what all that does to a
 * sandbox's life. */
#include "preview_box.h"

/* Who is refused: ABUSE.md F1, F3, F5. */

TEST tokens_that_do_not_fit_are_404(void)
{
    ASSERT_EQ(NULL, expose("p", 8090, "other"));
    const char *failed = expose("q2", 8080, "q2tok");
    ASSERT_EQm(failed, NULL, failed);
    static const char *const hosts[] = {
        "8080-p-bad.localhost",         /* wrong */
        "8080-p-to.localhost",          /* short */
        "8080-p-tokk.localhost",        /* long */
        "8080-p-.localhost",            /* none */
        "8080-p.localhost",             /* not even a place for one */
        "8080-p-other.localhost",       /* another port's */
        "8080-p-q2tok.localhost",       /* another sandbox's */
        "8080-q2-tok.localhost",        /* and the other way round */
        "8081-p-tok.localhost",         /* a port that is not exposed */
        "8080-nobody-tok.localhost",    /* a sandbox that there is not */
        "8080-p-tok\xc3\xb6.localhost", /* not ASCII */
        "0-p-tok.localhost",
        "08080-p-tok.localhost",
        "65536-p-tok.localhost",
        "80-p-tok.localhost",
        "x.localhost",
        "8080-p-tok-x.localhost",
        "8080--p-tok.localhost",
        "8080-p-"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.localhost",
    };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        int status = status_at(hosts[i]);
        ASSERTm(hosts[i], status == 404 || (strstr(hosts[i], "\xc3") && status == 400));
        if (status == 404)
            ASSERT_STR_EQ("INVALID_TOKEN", code_at(hosts[i]));
    }
    /* Names have no case. */
    ASSERT_EQ(200, status_at("8080-P-TOK.LocalHost"));
    CLEANUP_REPLY struct reply nobody = get(&emulator, "/cdn-cgi/local/sandboxes/nobody");
    ASSERT_EQ(404, nobody.status); /* a guess makes no sandbox */
    PASS();
}

TEST a_label_longer_than_dns_allows_works_by_host_header(void)
{
    const char *id = "a-sandbox-id-of-sixty-characters-that-no-dns-label-has-room";
    const char *failed = expose(id, 8080, "tok");
    char host[160];
    ASSERT_EQm(failed, NULL, failed);
    snprintf(host, sizeof host, "8080-%s-tok.localhost", id);
    ASSERT_EQ(500, status_at(host)); /* found; nobody listens */
    ASSERT_STR_EQ("SERVICE_NOT_RESPONDING", code_at(host));
    PASS();
}

TEST a_url_is_stale_after_a_restart_and_wakes_nobody(void)
{
    const char *failed = open_box("stale");
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_REPLY struct reply live = visit("stale", "/");
    ASSERT_EQ(200, live.status);
    post_to("/sandbox/stale/stop");
    CLEANUP_REPLY struct reply r = visit("stale", "/");
    ASSERT_EQ(410, r.status);
    ASSERT_STR_EQ("STALE_PREVIEW_URL", text_at(r.json, "code"));
    CLEANUP_REPLY struct reply bad =
        request(&emulator, "GET", "/", "Host: 8080-stale-bad.localhost\r\n", NULL);
    ASSERT_EQ(404, bad.status);
    ASSERT_STR_EQ("stopped", state_of("stale"));
    failed = start_server("stale"); /* a new container */
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_REPLY struct reply still = visit("stale", "/");
    ASSERT_EQ(410, still.status);
    ASSERT_EQ(NULL, expose("stale", 8080, "tok"));
    CLEANUP_REPLY struct reply again = visit("stale", "/");
    ASSERT_EQ(200, again.status);
    CLEANUP_REPLY struct reply taken = post(&emulator, "/sandbox/stale/unexposePort", "[8080]");
    CLEANUP_REPLY struct reply revoked = visit("stale", "/");
    ASSERT_EQ(404, revoked.status);
    ASSERT_EQ(NULL, expose("stale", 8080, "tok"));
    post_to("/sandbox/stale/destroy");
    CLEANUP_REPLY struct reply destroyed = visit("stale", "/");
    ASSERT_EQ(404, destroyed.status);
    PASS();
}

TEST a_kept_connection_is_checked_again_for_each_request(void)
{
    const char *failed = open_box("again");
    ASSERT_EQm(failed, NULL, failed);
    char text[256];
    CLEANUP_FD int fd = dial(&emulator);
    int size = snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", host_of("again"));
    ASSERT_EQ(0, send_all(fd, text, (size_t)size));
    CLEANUP_REPLY struct reply r = read_reply(fd);
    ASSERT_EQ(200, r.status);
    CLEANUP_REPLY struct reply taken = post(&emulator, "/sandbox/again/unexposePort", "[8080]");
    ASSERT_EQ(0, send_all(fd, text, (size_t)size));
    CLEANUP_REPLY struct reply gone = read_reply(fd);
    ASSERT_EQ(404, gone.status);
    PASS();
}

static bool orders_refusal(const char *id)
{
    char text[128];
    snprintf(text, sizeof text,
             "{\"on\": \"port\", \"do\": \"refuse\", \"times\": 1, \"sandbox\": \"%s\"}", id);
    CLEANUP_REPLY struct reply r = post(&emulator, "/cdn-cgi/local/faults", text);
    return r.status == 200;
}

TEST a_fault_of_a_port_strikes_kept_connections_too(void)
{
    const char *failed = open_box("struck");
    ASSERT_EQm(failed, NULL, failed);
    char text[256];
    CLEANUP_FD int fd = dial(&emulator);
    int size = snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", host_of("struck"));
    ASSERT_EQ(0, send_all(fd, text, (size_t)size));
    CLEANUP_REPLY struct reply r = read_reply(fd);
    ASSERT_EQ(200, r.status);
    ASSERT(orders_refusal("struck"));
    ASSERT_EQ(0, send_all(fd, text, (size_t)size)); /* client and server have one each */
    CLEANUP_REPLY struct reply refused = read_reply(fd);
    ASSERT_EQ(500, refused.status);
    ASSERT_STR_EQ("SERVICE_NOT_RESPONDING", text_at(refused.json, "code"));
    CLEANUP_REPLY struct reply fine = visit("struck", "/");
    ASSERT_EQ(200, fine.status);
    ASSERT(orders_refusal("struck"));
    CLEANUP_REPLY struct reply pooled = visit("struck", "/"); /* another client's */
    ASSERT_EQ(500, pooled.status);
    CLEANUP_REPLY struct reply proxied = ask("GET", "struck", "8080/", NULL);
    ASSERT_EQ(200, proxied.status);
    ASSERT(orders_refusal("struck"));
    CLEANUP_REPLY struct reply again = ask("GET", "struck", "8080/", NULL);
    ASSERT_EQ(502, again.status);
    PASS();
}

/* F2. */
TEST guesses_neither_wake_a_sandbox_nor_renew_its_time(void)
{
    int count = getenv("SANDPIT_COUNTS") ? 1000000 : 2000;
    const char *failed = expose("guess", 8080, "tok");
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_REPLY struct reply frozen = post(&emulator, "/cdn-cgi/local/clock/freeze", "{}");
    CLEANUP_REPLY struct reply before = get(&emulator, "/cdn-cgi/local/sandboxes/guess");
    advance("1m");
    for (int i = 0; i < count; i++) {
        char host[96];
        snprintf(host, sizeof host, "8080-guess-%d.localhost", i);
        if (status_at(host) != 404)
            FAILm(keep(host));
    }
    CLEANUP_REPLY struct reply after = get(&emulator, "/cdn-cgi/local/sandboxes/guess");
    ASSERT_STR_EQ(text_at(before.json, "sleepAt"), text_at(after.json, "sleepAt"));
    ASSERT_STR_EQ(text_at(before.json, "lastActivity.when"),
                  text_at(after.json, "lastActivity.when"));
    advance("9m");
    ASSERT_STR_EQ("stopped", state_of("guess"));
    ASSERT_EQ(404, status_at("8080-guess-bad.localhost"));
    ASSERT_EQ(410, status_at("8080-guess-tok.localhost"));
    ASSERT_STR_EQ("stopped", state_of("guess"));
    CLEANUP_REPLY struct reply resumed = post(&emulator, "/cdn-cgi/local/clock/resume", "{}");
    PASS();
}

/* Servers that behave badly: E6. */

TEST bad_servers_are_a_502_and_a_silent_port_a_500(void)
{
    static const struct {
        const char *answer;
        int status;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200},
        {"HTTP/1.1 204 No Content\r\n\r\nbody", 204},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", 502},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", 502},
        {"HTTP/1.1 200 OK\nX: 1\n\n", 502},
        {"no http", 502},
        {"", 500},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[1024] = "/?";
        for (const char *c = rows[i].answer; *c; c++)
            snprintf(path + strlen(path), sizeof path - strlen(path), "%02x", (unsigned char)*c);
        CLEANUP_REPLY struct reply r =
            request(&emulator, "GET", path, "Host: 8090-p-other.localhost\r\n", NULL);
        ASSERT_EQm(rows[i].answer, rows[i].status, r.status);
        if (r.status == 500)
            ASSERT_STR_EQ("Container suddenly disconnected, try again", r.body);
    }
    ASSERT_EQ(NULL, expose("p", 9999, "silent"));
    ASSERT_EQ(500, status_at("9999-p-silent.localhost"));
    ASSERT_STR_EQ("SERVICE_NOT_RESPONDING", code_at("9999-p-silent.localhost"));
    PASS();
}

TEST an_upgrade_is_checked_like_any_request(void)
{
    char head[4096];
    ASSERT_EQ(NULL, expose("p", 9999, "silent"));
    ASSERT_EQ(-1, upgrade_at("8080-p-bad.localhost", "", head, sizeof head));
    ASSERT_EQ(0, strncmp(head, "HTTP/1.1 404 ", 13));
    ASSERT_EQ(-1, upgrade_at("9999-p-silent.localhost", "", head, sizeof head));
    ASSERT_EQ(0, strncmp(head, "HTTP/1.1 500 ", 13));
    ASSERT_EQ(-1, upgrade_at("8080-guess-tok.localhost", "", head, sizeof head));
    ASSERT_EQ(0, strncmp(head, "HTTP/1.1 410 ", 13));
    PASS();
}

/* The life of the sandbox. */

TEST requests_hold_messages_renew_and_sleep_closes(void)
{
    const char *failed = open_box("life");
    ASSERT_EQm(failed, NULL, failed);
    char text[256], got[4096] = "", head[4096];
    CLEANUP_FD int fd = dial(&emulator);
    int size =
        snprintf(text, sizeof text, "GET /events?ms=60000 HTTP/1.1\r\n%s\r\n", host_of("life"));
    ASSERT_EQ(0, send_all(fd, text, (size_t)size));
    ASSERT(reads(fd, "data: 1", got, sizeof got));
    advance("30m");
    ASSERT_STR_EQ("healthy", state_of("life"));
    close(steal_fd(&fd));
    ASSERT(eventually(nothing_in_flight, (void *)"life", 5000));
    CLEANUP_FD int socket = upgrade_at("8080-life-tok.localhost", "", head, sizeof head);
    ASSERT(socket >= 0);
    for (int i = 0; i < 3; i++) {
        advance("6m");
        ASSERT_EQ(0, send_all(socket, "ping", 4));
        ASSERT_EQ(4, recv(socket, head, 4, MSG_WAITALL));
    }
    ASSERT_STR_EQ("healthy", state_of("life"));
    advance("6m");
    CLEANUP_REPLY struct reply r = visit("life", "/"); /* renews too */
    ASSERT_EQ(200, r.status);
    advance("6m");
    ASSERT_STR_EQ("healthy", state_of("life"));
    advance("5m");
    ASSERT_STR_EQ("stopped", state_of("life"));
    ASSERT(is_closed(socket));
    PASS();
}

TEST a_container_that_ends_under_a_request_is_told(void)
{
    const char *failed = open_box("ends");
    ASSERT_EQm(failed, NULL, failed);
    char text[256];
    CLEANUP_FD int fd = dial(&emulator);
    int size = snprintf(text, sizeof text, "GET /hang HTTP/1.1\r\n%s\r\n", host_of("ends"));
    ASSERT_EQ(0, send_all(fd, text, (size_t)size));
    for (int i = 0; i < 200 && inflight("ends") < 1; i++)
        poll(NULL, 0, 10);
    post_to("/sandbox/ends/destroy");
    CLEANUP_REPLY struct reply r = read_reply(fd);
    ASSERTm(keep(r.body), r.status == 410 || r.status == 500);
    PASS();
}

TEST two_sandboxes_have_one_port_each(void)
{
    const char *failed = open_box("twin");
    ASSERT_EQm(failed, NULL, failed);
    CLEANUP_REPLY struct reply p = visit("p", "/"), twin = visit("twin", "/");
    ASSERT_STR_EQ("p", text_at(p.json, "headers.x-sandbox-name"));
    ASSERT_STR_EQ("twin", text_at(twin.json, "headers.x-sandbox-name"));
    CLEANUP_REPLY struct reply killed =
        post(&emulator, "/sandbox/twin/exec", "[\"pkill -x node; sleep 0.1; true\"]");
    ASSERT_EQ(500, status_at("8080-twin-tok.localhost"));
    ASSERT_EQ(200, status_at("8080-p-tok.localhost"));
    PASS();
}

/* E5. */
TEST clients_that_leave_in_the_middle_leave_nothing(void)
{
    int count = getenv("SANDPIT_COUNTS") ? 10000 : 300;
    const char *failed = open_box("left");
    char text[256];
    ASSERT_EQm(failed, NULL, failed);
    int before = emulator_files(&emulator);
    static const char *const paths[] = {"/hang", "/big?n=100000000", "/echo", "/"};
    for (int i = 0; i < count; i++) {
        int size =
            snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n%s\r\n", paths[i % 4], host_of("left"));
        int fd = dial(&emulator);
        ASSERT(fd >= 0);
        ASSERT_EQ(0, send_all(fd, text, (size_t)size));
        close(fd);
    }
    ASSERT(eventually(nothing_in_flight, (void *)"left", 10000));
    for (int i = 0; i < 140 && emulator_files(&emulator) > before + 2; i++)
        poll(NULL, 0, 50); /* connections of servers are kept for 4 s */
    ASSERT(emulator_files(&emulator) <= before + 2);
    advance("11m");
    ASSERT_STR_EQ("stopped", state_of("left"));
    PASS();
}

SUITE(preview_abuse)
{
    const char *failed = open_box("p");
    if (failed) {
        printf("SKIP preview_abuse: no node in the sandbox: %s\n", failed);
        skipped = true;
        return;
    }
    RUN_TEST(tokens_that_do_not_fit_are_404);
    RUN_TEST(a_label_longer_than_dns_allows_works_by_host_header);
    RUN_TEST(bad_servers_are_a_502_and_a_silent_port_a_500);
    RUN_TEST(a_kept_connection_is_checked_again_for_each_request);
    RUN_TEST(a_fault_of_a_port_strikes_kept_connections_too);
    RUN_TEST(two_sandboxes_have_one_port_each);
    RUN_TEST(a_container_that_ends_under_a_request_is_told);
    RUN_TEST(clients_that_leave_in_the_middle_leave_nothing);
    RUN_TEST(a_url_is_stale_after_a_restart_and_wakes_nobody);
    RUN_TEST(requests_hold_messages_renew_and_sleep_closes);
    RUN_TEST(guesses_neither_wake_a_sandbox_nor_renew_its_time);
    RUN_TEST(an_upgrade_is_checked_like_any_request);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, preview_abuse);
    if (skipped)
        return 77;
    GREATEST_MAIN_END();
}
