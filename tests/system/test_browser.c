/* A real browser: what a person sees on the start page, and what a hostile page can do. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static const char *browser(void)
{
    static const char *const names[] = {"/usr/bin/chromium", "/usr/bin/chromium-browser",
                                        "/usr/bin/google-chrome"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (access(names[i], X_OK) == 0)
            return names[i];
    }
    return NULL;
}

/* The document after its scripts have run. */
static char *dump(const char *url)
{
    char profile[96];
    snprintf(profile, sizeof profile, "--user-data-dir=%s/browser", emulator.dir);
    const char *const argv[] = {browser(),
                                "--headless",
                                "--no-sandbox",
                                "--disable-gpu",
                                "--disable-quic",
                                "--no-first-run",
                                "--disable-background-networking",
                                "--disable-component-update",
                                "--disable-sync",
                                profile,
                                "--virtual-time-budget=4000",
                                "--timeout=20000",
                                "--dump-dom",
                                url,
                                NULL};
    char *out = NULL;
    run_command(&emulator, argv, &out, NULL);
    return out;
}

TEST the_start_page_shows_the_sandboxes_the_clock_and_three_lines(void)
{
    CLEANUP_REPLY struct reply first = post(&emulator, "/sandbox/shown-box/exec", "[\"true\"]");
    char url[64];
    snprintf(url, sizeof url, "http://localhost:%d/", emulator.port);
    char *page = dump(url);
    ASSERTm(page, strstr(page, "<td>shown-box</td>"));
    ASSERT(strstr(page, "<td>healthy</td>"));
    ASSERTm("a countdown to sleep", strstr(page, "<td>9m ") || strstr(page, "<td>10m 0s"));
    ASSERT(strstr(page, "/api/execute -d"));
    ASSERT(strstr(page, "clock/advance -d"));
    ASSERT(strstr(page, "real time"));
    free(page);
    PASS();
}

/* One page, served to whoever asks, from another port: another origin. */
static char evil_page[2048];
static int evil_listener;

static void *serve_evil(void *arg)
{
    int fd;
    while ((fd = accept(evil_listener, NULL, NULL)) >= 0) {
        char request_text[4096];
        if (recv(fd, request_text, sizeof request_text, 0) > 0)
            send_all(fd, evil_page, strlen(evil_page));
        close(fd);
    }
    return NULL;
}

static int listen_evil(void)
{
    struct sockaddr_in at_ = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at_;
    evil_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(evil_listener, (struct sockaddr *)&at_, size) < 0 || listen(evil_listener, 8) < 0)
        return -1;
    getsockname(evil_listener, (struct sockaddr *)&at_, &size);
    return ntohs(at_.sin_port);
}

TEST a_hostile_page_in_a_browser_changes_nothing(void)
{
    int port = listen_evil();
    ASSERT(port > 0);
    snprintf(evil_page, sizeof evil_page,
             "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
             "<body>waiting<script>(async () => { const said = [];"
             "for (const [path, body] of [['/sandbox/victim/exec', '[\"true\"]'],"
             " ['/api/execute', '{\"command\":\"true\"}'],"
             " ['/cdn-cgi/local/clock/advance', '{\"by\":\"5h\"}']]) {"
             "  try { const r = await fetch('http://localhost:%d' + path,"
             "   {method: 'POST', mode: 'no-cors', body}); said.push('sent ' + r.type); }"
             "  catch (e) { said.push('blocked'); } }"
             "try { const r = await fetch('http://localhost:%d/cdn-cgi/local/info');"
             " said.push('read ' + await r.text()); } catch (e) { said.push('unreadable'); }"
             "document.body.textContent = 'done: ' + said.join(', '); })()</script>",
             emulator.port, emulator.port);
    pthread_t thread;
    pthread_create(&thread, NULL, serve_evil, NULL);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", port);
    char *page = dump(url);
    shutdown(evil_listener, SHUT_RDWR);
    close(evil_listener);
    pthread_join(thread, NULL);
    ASSERTm(page, strstr(page, "done: "));
    ASSERTm(page, strstr(page, "unreadable"));
    free(page);
    CLEANUP_REPLY struct reply victim = get(&emulator, "/cdn-cgi/local/sandboxes/victim");
    ASSERT_EQ(404, victim.status);
    CLEANUP_REPLY struct reply other = get(&emulator, "/cdn-cgi/local/sandboxes/default");
    ASSERT_EQ(404, other.status);
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    ASSERT(number_at(clock.json, "offsetMs") < 3600000);
    PASS();
}

SUITE(browser_suite)
{
    RUN_TEST(the_start_page_shows_the_sandboxes_the_clock_and_three_lines);
    RUN_TEST(a_hostile_page_in_a_browser_changes_nothing);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    if (!browser()) {
        printf("SKIP browser_suite: no chromium on this machine (apt-get install chromium)\n");
        return 77;
    }
    SYSTEM_SUITE(emulator, browser_suite);
    GREATEST_MAIN_END();
}
