/* A load generator that is not ours, on previews: wrk. */
#include "preview_box.h"

enum { CONNECTIONS = 64 };

/* wrk for two seconds. What it printed (malloc'd), or NULL when it failed. */
static char *run_wrk(const char *path, const char *host)
{
    char url[160], connections[16], *out = NULL;
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", emulator.port, path);
    snprintf(connections, sizeof connections, "%d", CONNECTIONS);
    const char *const argv[] = {"wrk", "-t", "2",         "-c",  connections, "-d", "2s",
                                "-H",  host, "--timeout", "20s", url,         NULL};
    if (run_command(&emulator, argv, &out, NULL) == 0)
        return out;
    free(out);
    return NULL;
}

static bool wrk_is_here(void)
{
    CLEANUP_FREE char *out = NULL;
    const char *const argv[] = {"sh", "-c", "command -v wrk", NULL};
    return run_command(&emulator, argv, &out, NULL) == 0;
}

/* "  8123 requests in 2.00s, 1.5MB read" */
static long long requests_in(const char *out)
{
    const char *text = strstr(out, " requests in ");
    while (text && text > out && text[-1] != ' ')
        text--;
    return text ? strtoll(text, NULL, 10) : 0;
}

static long long sockets_of_server(void)
{
    CLEANUP_REPLY struct reply r = visit("wrk", "/");
    return number_at(r.json, "sockets");
}

/* wrk prints the lines about errors only when there are any. */
static const char *judge(const char *path, const char *host)
{
    long long before = sockets_of_server();
    CLEANUP_FREE char *out = run_wrk(path, host);
    if (!out)
        return "wrk failed";
    printf("%s: %lld requests\n", path, requests_in(out));
    if (strstr(out, "Socket errors") || strstr(out, "Non-2xx") || requests_in(out) < CONNECTIONS)
        return keep(out);
    if (sockets_of_server() - before > CONNECTIONS + CONNECTIONS / 4)
        return "the connections to the server were not kept";
    return eventually(nothing_in_flight, (void *)"wrk", 5000) ? NULL : "something is in flight";
}

TEST sixty_four_connections_get_answers_without_an_error_by_host(void)
{
    char host[64];
    snprintf(host, sizeof host, "Host: 8080-wrk-tok.localhost:%d", emulator.port);
    const char *failed = judge("/", host);
    ASSERT_EQm(failed, NULL, failed);
    PASS();
}

TEST sixty_four_connections_get_answers_without_an_error_by_path(void)
{
    const char *failed = judge("/cdn-cgi/local/preview/8080-wrk-tok/x", "Accept: */*");
    ASSERT_EQm(failed, NULL, failed);
    PASS();
}

static bool few_files_open(void *limit)
{
    return emulator_files(&emulator) <= *(int *)limit;
}

/* The emulator answers these itself. */
TEST sixty_four_connections_are_refused_one_by_one_and_leave_nothing(void)
{
    int limit = emulator_files(&emulator) + 2;
    CLEANUP_FREE char *out = run_wrk("/", "Host: 8080-wrk-bad.localhost");
    ASSERT(out);
    ASSERT(requests_in(out) >= CONNECTIONS);
    char refused[64];
    snprintf(refused, sizeof refused, "Non-2xx or 3xx responses: %lld\n", requests_in(out));
    ASSERTm(keep(out), strstr(out, refused));
    ASSERT_FALSE(strstr(out, "Socket errors"));
    ASSERT_EQ(0, inflight("wrk"));
    ASSERT(eventually(few_files_open, &limit, 5000));
    PASS();
}

SUITE(wrk)
{
    if (!wrk_is_here()) {
        printf("SKIP wrk: it is not installed (apt-get install wrk)\n");
        skipped = true;
        return;
    }
    const char *failed = open_box("wrk");
    if (failed) {
        printf("SKIP wrk: no node in the sandbox: %s\n", failed);
        skipped = true;
        return;
    }
    RUN_TEST(sixty_four_connections_get_answers_without_an_error_by_host);
    RUN_TEST(sixty_four_connections_get_answers_without_an_error_by_path);
    RUN_TEST(sixty_four_connections_are_refused_one_by_one_and_leave_nothing);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, wrk);
    if (skipped)
        return 77;
    GREATEST_MAIN_END();
}
