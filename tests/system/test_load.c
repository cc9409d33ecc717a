/* Many sandboxes at once, many one after the other, and many commands at once. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <greatest.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "counts.h"
#include "support.h"

enum { CONNECTIONS = 8, NAMES = 16, EVENTS_KEPT = 10000 };
enum { SANDBOX_KIB = 64, EVENT_KIB = 1, SLACK_KIB = 768 };

/* Sanitizers keep what was freed. */
#ifdef __SANITIZE_ADDRESS__
enum { MEMORY_IS_TELLING = 0 };
#else
enum { MEMORY_IS_TELLING = 1 };
#endif

static struct emulator emulator;

/* What an emulator has and uses. */

struct usage {
    long rss_kib, threads, descriptors, mounts, cgroups, files, children;
    long long events;
};

static long status_of(int pid, const char *field)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
            value = strtol(line + strlen(field) + 1, NULL, 10);
    }
    if (file)
        fclose(file);
    return value;
}

static long entries_of(const char *path)
{
    long count = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* The words or lines of a file of /proc that hold `text`. */
static long count_in(const char *path, const char *separators, const char *text)
{
    long count = 0;
    static char all[1 << 20];
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(all, 1, sizeof all - 1, file) : 0;
    all[size] = '\0';
    if (file)
        fclose(file);
    char *rest = all, *part;
    while ((part = strsep(&rest, separators)))
        count += *part && strstr(part, text);
    return count;
}

static long counted;
static char mark[32];

static int count_any(const char *path, const struct stat *info, int type, struct FTW *at)
{
    counted++;
    return 0;
}

/* Control groups are named after the emulator's process. */
static int count_marked(const char *path, const struct stat *info, int type, struct FTW *at)
{
    counted += type == FTW_D && strstr(path, mark) != NULL;
    return 0;
}

static long walk(const char *path, __nftw_func_t each)
{
    counted = 0;
    nftw(path, each, 32, FTW_PHYS);
    return counted;
}

static long long last_event(void)
{
    CLEANUP_REPLY struct reply all = get(&emulator, "/cdn-cgi/local/events");
    const char *seq = NULL;
    for (const char *at = all.body; at && (at = strstr(at, "\"seq\":")); at++)
        seq = at;
    return seq ? strtoll(seq + strlen("\"seq\":"), NULL, 10) : 0;
}

static struct usage usage_now(void)
{
    char path[64];
    struct usage usage = {.rss_kib = status_of(emulator.pid, "RssAnon")};
    snprintf(mark, sizeof mark, "sandpit-%d-", emulator.pid);
    snprintf(path, sizeof path, "/proc/%d/fd", emulator.pid);
    usage.descriptors = entries_of(path);
    snprintf(path, sizeof path, "/proc/%d/mounts", emulator.pid);
    usage.mounts = count_in(path, "\n", emulator.dir);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", emulator.pid, emulator.pid);
    usage.children = count_in(path, " ", "");
    usage.cgroups = walk("/sys/fs/cgroup", count_marked);
    usage.files = walk(emulator.run_root, count_any);
    usage.threads = status_of(emulator.pid, "Threads");
    usage.events = last_event(); /* last, since its connection is one of the descriptors */
    return usage;
}

/* What it has when nothing changes any more: a connection that was just closed may still be there
 * for a moment. */
static struct usage usage_at_rest(void)
{
    struct usage usage = usage_now();
    for (int same = 0, i = 0; same < 5 && i < 500; i++) {
        poll(NULL, 0, 20);
        struct usage next = usage_now();
        same = next.descriptors == usage.descriptors ? same + 1 : 0;
        usage = next;
    }
    return usage;
}

static bool same(const struct usage *before, struct usage *after)
{
    for (int i = 0; i < 100; i++) {
        *after = usage_now();
        if (after->descriptors == before->descriptors && after->mounts == before->mounts &&
            after->cgroups == before->cgroups && after->files == before->files &&
            after->children == before->children && after->threads == before->threads)
            return true;
        poll(NULL, 0, 20);
    }
    return false;
}

static const char *differ(const struct usage *before, const struct usage *after)
{
    char text[400];
    snprintf(text, sizeof text,
             "descriptors %ld -> %ld, mounts %ld -> %ld, cgroups %ld -> %ld, files %ld -> %ld, "
             "children %ld -> %ld, threads %ld -> %ld, RssAnon %ld -> %ld KiB",
             before->descriptors, after->descriptors, before->mounts, after->mounts,
             before->cgroups, after->cgroups, before->files, after->files, before->children,
             after->children, before->threads, after->threads, before->rss_kib, after->rss_kib);
    return keep(text);
}

/* Events are kept up to a bound, and take what they take. */
static long events_kib(const struct usage *before, const struct usage *after)
{
    long long from = before->events < EVENTS_KEPT ? before->events : EVENTS_KEPT;
    long long to = after->events < EVENTS_KEPT ? after->events : EVENTS_KEPT;
    return (long)(to - from) * EVENT_KIB;
}

static int post_status(const char *format, int number, const char *body)
{
    char path[96];
    snprintf(path, sizeof path, format, number);
    CLEANUP_REPLY struct reply reply = post(&emulator, path, body);
    return reply.status;
}

/* Requests on kept connections. */

static int send_post(int fd, const char *path, const char *body)
{
    char text[512];
    int size = snprintf(text, sizeof text,
                        "POST %s HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: %zu\r\n\r\n%s",
                        path, emulator.port, strlen(body), body);
    return send_all(fd, text, (size_t)size);
}

static int send_echo(int fd, int sandbox)
{
    char path[96], body[96];
    snprintf(path, sizeof path, "/sandbox/live-%d/exec", sandbox);
    snprintf(body, sizeof body, "[\"echo box-%d\"]", sandbox);
    return send_post(fd, path, body);
}

static bool echoed(int fd, int sandbox)
{
    char expected[32];
    snprintf(expected, sizeof expected, "box-%d", sandbox);
    CLEANUP_REPLY struct reply reply = read_reply(fd);
    bool fine = reply.status == 200 && strcmp(text_at(reply.json, "stdout"), expected) == 0;
    if (!fine)
        printf("sandbox %d: %d %s\n", sandbox, reply.status, reply.body ? reply.body : "-");
    return fine;
}

/* All at once, each on its own connection; how many were answered as they should. */
static int echo_all(int *fds, int count)
{
    int fine = 0;
    for (int i = 0; i < count; i++)
        send_echo(fds[i], i);
    for (int i = 0; i < count; i++)
        fine += echoed(fds[i], i);
    return fine;
}

static int healthy(void)
{
    int count = 0;
    CLEANUP_REPLY struct reply reply = get(&emulator, "/cdn-cgi/local/sandboxes");
    const json_t *list = at(reply.json, "sandboxes");
    for (size_t i = 0; i < json_array_size(list); i++)
        count += strcmp(text_at(json_array_get(list, i), "state"), "healthy") == 0;
    return count;
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static int open_all(int *fds, int count)
{
    int opened = 0;
    for (int i = 0; i < count; i++)
        opened += (fds[i] = dial(&emulator)) >= 0;
    return opened;
}

static int destroy_all(const int *fds, int count)
{
    int fine = 0;
    char path[96];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/sandbox/live-%d/destroy", i);
        send_post(fds[i], path, "[]");
    }
    for (int i = 0; i < count; i++) {
        CLEANUP_REPLY struct reply reply = read_reply(fds[i]);
        fine += reply.status == 200;
    }
    return fine;
}

TEST many_sandboxes_live_side_by_side(void)
{
    int count = counts_now().sandboxes, fds[1000];
    post_status("/sandbox/warm-%d/exec", 0, "[\"true\"]");
    post_status("/sandbox/warm-%d/destroy", 0, "[]");
    struct usage before = usage_at_rest(), after;
    ASSERT_EQ(count, open_all(fds, count));
    ASSERT_EQ(count, echo_all(fds, count)); /* their starts overlap */
    ASSERT_EQ(count, echo_all(fds, count));
    close_all(fds, count);
    ASSERT_EQ(count, healthy());
    after = usage_now();
    long each = (after.rss_kib - before.rss_kib) / count;
    printf("# %d sandboxes, %ld KiB each\n", count, each);
    ASSERTm(differ(&before, &after), each <= SANDBOX_KIB || !MEMORY_IS_TELLING);
    ASSERT_EQ(count, open_all(fds, count));
    ASSERT_EQ(count, destroy_all(fds, count));
    close_all(fds, count);
    ASSERTm(differ(&before, &after), same(&before, &after));
    PASS();
}

/* One after the other. */

static bool succeeds(int name, const char *body)
{
    char path[96];
    snprintf(path, sizeof path, "/sandbox/turn-%d/exec", name);
    CLEANUP_REPLY struct reply reply = post(&emulator, path, body);
    return reply.status == 200 && number_at(reply.json, "exitCode") == 0;
}

static bool cycle(int number)
{
    int name = number % NAMES;
    return succeeds(name, "[\"echo a > /workspace/a\"]") &&
           post_status("/cdn-cgi/local/clock/advance", 0, "{\"by\":\"11m\"}") == 200 &&
           succeeds(name, "[\"test ! -e /workspace/a\"]") &&
           post_status("/sandbox/turn-%d/destroy", name, "[]") == 200;
}

TEST cycles_of_create_sleep_and_destroy_leave_nothing(void)
{
    struct counts counts = counts_now();
    for (int i = 0; i < counts.warm_up; i++)
        ASSERT(cycle(i));
    struct usage before = usage_at_rest(), after;
    for (int i = 0; i < counts.cycles; i++)
        ASSERT(cycle(i));
    ASSERTm(differ(&before, &after), same(&before, &after));
    printf("# %d cycles: RssAnon %ld -> %ld KiB, %lld events\n", counts.cycles, before.rss_kib,
           after.rss_kib, after.events - before.events);
    ASSERTm(differ(&before, &after),
            after.rss_kib <= before.rss_kib + SLACK_KIB + events_kib(&before, &after) ||
                !MEMORY_IS_TELLING);
    ASSERT_EQ(1, after.threads);
    PASS();
}

/* Commands in eight sessions at once. */

struct lane {
    int fd, sent, answered;
};

static int lane_send(struct lane *lane, int number)
{
    char body[96];
    snprintf(body, sizeof body, "[\"echo %d-%d\",{\"session\":\"s%d\"}]", number, lane->sent++,
             number);
    return send_post(lane->fd, "/sandbox/busy/exec", body);
}

static bool lane_read(struct lane *lane, int number)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%d-%d", number, lane->answered++);
    CLEANUP_REPLY struct reply reply = read_reply(lane->fd);
    bool fine = reply.status == 200 && number_at(reply.json, "exitCode") == 0 &&
                strcmp(text_at(reply.json, "stdout"), expected) == 0;
    if (!fine)
        printf("expected %s: %d %s\n", expected, reply.status, reply.body ? reply.body : "-");
    return fine;
}

/* Each lane has one request under way at any time; false with the first wrong answer. */
static bool run_lanes(struct lane *lanes, int execs)
{
    struct pollfd polled[CONNECTIONS];
    int left = CONNECTIONS * execs;
    for (int i = 0; i < CONNECTIONS; i++) {
        polled[i] = (struct pollfd){.fd = lanes[i].fd, .events = POLLIN};
        lane_send(&lanes[i], i);
    }
    while (left > 0) {
        if (poll(polled, CONNECTIONS, 30000) <= 0)
            return false;
        for (int i = 0; i < CONNECTIONS; i++) {
            if (!polled[i].revents)
                continue;
            if (!lane_read(&lanes[i], i))
                return false;
            left--;
            if (lanes[i].sent < execs)
                lane_send(&lanes[i], i);
        }
    }
    return true;
}

TEST eight_busy_sessions_get_their_own_answers(void)
{
    struct lane lanes[CONNECTIONS] = {0};
    char body[64];
    for (int i = 0; i < CONNECTIONS; i++) {
        snprintf(body, sizeof body, "[{\"id\":\"s%d\"}]", i);
        ASSERT_EQ(200, post_status("/sandbox/busy/createSession", 0, body));
        ASSERT((lanes[i].fd = dial(&emulator)) >= 0);
    }
    bool fine = run_lanes(lanes, counts_now().execs);
    for (int i = 0; i < CONNECTIONS; i++)
        close(lanes[i].fd);
    ASSERT(fine);
    ASSERT_EQ(200, post_status("/sandbox/busy/destroy", 0, "[]"));
    PASS();
}

SUITE(load)
{
    RUN_TEST(many_sandboxes_live_side_by_side);
    RUN_TEST(cycles_of_create_sleep_and_destroy_leave_nothing);
    RUN_TEST(eight_busy_sessions_get_their_own_answers);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, load);
    GREATEST_MAIN_END();
}
