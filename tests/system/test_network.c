/* Egress, in a network that this test makes: a namespace with one wire to a second one that plays
 * the rest of the world. Nothing leaves this machine. */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

#define HOST "10.99.0.1"
#define GATEWAY "10.99.0.254"
#define WORLD "198.51.100.7"
#define NAME "some.example"

enum { LOOPBACK_PORT = 7777, HELPERS_MAX = 16, ORDINARY_USER = 54321 };

static struct emulator emulator;
static const char *tool; /* the program that this round is about */
static char scratch[] = "/tmp/sandpit-network-XXXXXX";
static int world; /* pid */

/* --- The network ------------------------------------------------------------------------------ */

/* A program with arguments separated by blanks. */
static int run(const char *line)
{
    char copy[512], *argv[32], *rest = copy;
    int count = 0, status = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; count < 31 && (word = strsep(&rest, " "));)
        argv[count++] = word;
    argv[count] = NULL;
    int pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return status == 0 ? 0 : -1;
}

static int ip(const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "ip %s", line);
    return run(whole);
}

static int ip_all(const char *const *lines)
{
    for (; *lines; lines++) {
        if (ip(*lines) < 0) {
            printf("ip %s failed\n", *lines);
            return -1;
        }
    }
    return 0;
}

/* A socket on this address and port; -1 when that fails. */
static int bound(int type, const char *address, int port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    bool six = inet_pton(AF_INET, address, &v4.sin_addr) != 1;
    if (six)
        inet_pton(AF_INET6, address, &v6.sin6_addr);
    int fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const struct sockaddr *to = six ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
    if (fd < 0 || bind(fd, to, six ? sizeof v6 : sizeof v4) < 0 ||
        (type == SOCK_STREAM && listen(fd, 16) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void answer_http(int server)
{
    static const char page[] = "HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\nfrom outside\n";
    char request[2048];
    int fd = accept(server, NULL, NULL);
    if (fd < 0)
        return;
    if (recv(fd, request, sizeof request, 0) > 0)
        send(fd, page, sizeof page - 1, MSG_NOSIGNAL);
    close(fd);
}

/* Every name has one address: WORLD. */
static void answer_dns(int server)
{
    unsigned char query[600];
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    ssize_t size = recvfrom(server, query, 512, 0, (struct sockaddr *)&from, &length);
    ssize_t end = 12;
    while (end < size && query[end])
        end += query[end] + 1;
    if (end + 5 > size)
        return;
    bool is_a = query[end + 2] == 1;
    size_t used = (size_t)end + 5;
    const unsigned char record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4};
    query[2] = 0x81;
    query[3] = 0x80;
    memset(query + 6, 0, 6);
    query[7] = is_a;
    if (is_a) {
        memcpy(query + used, record, sizeof record);
        inet_pton(AF_INET, WORLD, query + used + sizeof record);
        used += sizeof record + 4;
    }
    sendto(server, query, used, 0, (struct sockaddr *)&from, length);
}

__attribute__((noreturn)) static void be_the_world(int start, int ready)
{
    static const char *const lines[] = {"link set lo up", "addr add " GATEWAY "/24 dev w1",
                                        "addr add " WORLD "/32 dev w1", "link set w1 up", NULL};
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNET) < 0 || write(ready, "n", 1) < 0 || read(start, &byte, 1) != 1 ||
        ip_all(lines) < 0)
        _exit(1);
    struct pollfd servers[] = {{.fd = bound(SOCK_STREAM, WORLD, 80), .events = POLLIN},
                               {.fd = bound(SOCK_DGRAM, GATEWAY, 53), .events = POLLIN}};
    if (servers[0].fd < 0 || servers[1].fd < 0 || write(ready, "s", 1) < 0)
        _exit(1);
    for (;;) {
        poll(servers, 2, -1);
        if (servers[0].revents)
            answer_http(servers[0].fd);
        if (servers[1].revents)
            answer_dns(servers[1].fd);
    }
}

static int make_world(void)
{
    static const char *const wire[] = {"addr add " HOST "/24 dev w0", "link set w0 up",
                                       "route add default via " GATEWAY, NULL};
    int start[2], ready[2];
    char byte, line[96];
    if (ip("link set lo up") < 0 || pipe(start) < 0 || pipe(ready) < 0)
        return -1;
    world = fork();
    if (world == 0)
        be_the_world(start[0], ready[1]);
    close(ready[1]);
    snprintf(line, sizeof line, "link add w0 type veth peer name w1 netns %d", world);
    bool made = read(ready[0], &byte, 1) == 1 && ip(line) == 0 && write(start[1], "g", 1) == 1 &&
                read(ready[0], &byte, 1) == 1 && ip_all(wire) == 0;
    close(start[0]);
    close(start[1]);
    close(ready[0]);
    return made ? 0 : -1;
}

/* This host's resolver is the world's. */
static int make_resolver(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/resolv.conf", scratch);
    FILE *file = fopen(path, "we");
    if (!file)
        return -1;
    fprintf(file, "nameserver %s\n", GATEWAY);
    fclose(file);
    return mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL);
}

/* --- Calls ------------------------------------------------------------------------------------ */

static struct reply run_in(const char *box, const char *command)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/exec", box);
    json_t *arguments = json_pack("[s]", command);
    char *body = json_dumps(arguments, 0);
    struct reply reply = post(&emulator, path, body);
    free(body);
    json_decref(arguments);
    return reply;
}

static struct reply method(const char *box, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, name);
    return post(&emulator, path, "");
}

static struct reply shown(const char *box)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    return get(&emulator, path);
}

/* The last event of this type of a sandbox, or NULL; a new reference. Events are lines of JSON. */
static json_t *last_event(const char *box, const char *type)
{
    json_t *found = NULL;
    CLEANUP_REPLY struct reply events = get(&emulator, "/cdn-cgi/local/events");
    char *rest = events.body;
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        json_t *event = json_loads(line, 0, NULL);
        if (strcmp(text_at(event, "sandbox"), box) == 0 &&
            strcmp(text_at(event, "type"), type) == 0) {
            json_decref(found);
            found = json_incref(event);
        }
        json_decref(event);
    }
    return found;
}

static int start(const char *network)
{
    const char *extra[] = {"--network", network, NULL};
    emulator = (struct emulator){0};
    return emulator_start(&emulator, extra);
}

/* As somebody who is not root, from a copy that such a user can execute. */
static int start_as_user(const char *network)
{
    static char starter[80];
    char line[512];
    const char *extra[] = {"--network", network, NULL};
    emulator = (struct emulator){.binary = starter};
    snprintf(starter, sizeof starter, "%s/starter", scratch);
    snprintf(emulator.dir, sizeof emulator.dir, "%s/user", scratch);
    snprintf(emulator.log, sizeof emulator.log, "%s/log", emulator.dir);
    snprintf(emulator.run_root, sizeof emulator.run_root, "%s/run", emulator.dir);
    FILE *file = fopen(starter, "we");
    if (!file)
        return -errno;
    fprintf(file,
            "#!/bin/sh\nexec setpriv --reuid %d --regid %d --clear-groups %s/sandpit \"$@\"\n",
            ORDINARY_USER, ORDINARY_USER, scratch);
    fclose(file);
    chmod(starter, 0755);
    chmod(scratch, 0755);
    snprintf(line, sizeof line, "install -m 755 " SANDPIT_BINARY " %s/sandpit", scratch);
    if (run(line) < 0 || mkdir(emulator.dir, 0700) < 0 || mkdir(emulator.run_root, 0700) < 0 ||
        chown(emulator.dir, ORDINARY_USER, ORDINARY_USER) < 0 ||
        chown(emulator.run_root, ORDINARY_USER, ORDINARY_USER) < 0)
        return -errno;
    return emulator_restart(&emulator, extra);
}

static int finish(void)
{
    int status = emulator_stop(&emulator);
    emulator_clean(&emulator);
    return status;
}

/* --- Helpers ---------------------------------------------------------------------------------- */

/* What is in a file of /proc, with blanks for NULs; "" when there is none. */
static const char *proc_text(int pid, const char *name, char *to, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, to, size - 1) : 0;
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < got; i++)
        to[i] = to[i] ? to[i] : ' ';
    to[got > 0 ? got : 0] = '\0';
    return to;
}

static bool is_helper(int pid)
{
    char line[1024];
    return strstr(proc_text(pid, "cmdline", line, sizeof line), "/sys/netns") != NULL;
}

static int parent_of(int pid)
{
    char text[1024];
    int parent = 0;
    const char *end = strrchr(proc_text(pid, "stat", text, sizeof text), ')');
    return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* The helpers of our emulator. */
static int helpers(int pids[HELPERS_MAX])
{
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && count < HELPERS_MAX && (entry = readdir(proc));) {
        int pid =
            isdigit((unsigned char)entry->d_name[0]) ? (int)strtol(entry->d_name, NULL, 10) : 0;
        if (pid && parent_of(pid) == emulator.pid && is_helper(pid))
            pids[count++] = pid;
    }
    if (proc)
        closedir(proc);
    return count;
}

static bool has_no_helper(void *arg)
{
    int pids[HELPERS_MAX];
    return helpers(pids) == 0;
}

static bool is_gone(void *arg)
{
    return !is_helper(*(int *)arg);
}

static bool is_told_failed(void *arg)
{
    CLEANUP_REPLY struct reply described = shown(arg);
    return strcmp(text_at(described.json, "network"), "failed") == 0;
}

/* --- With a network --------------------------------------------------------------------------- */

#define ASSERT_SAYS(REPLY, TEXT)                                                                   \
    do {                                                                                           \
        ASSERTm(keep((REPLY).body), strstr(text_at((REPLY).json, "stdout"), (TEXT)));              \
    } while (0)

TEST the_very_first_command_fetches_by_address_and_by_name(void)
{
    CLEANUP_REPLY struct reply address = run_in("by-address", "curl -sS -m 5 http://" WORLD "/");
    ASSERT_SAYS(address, "from outside");
    CLEANUP_REPLY struct reply name = run_in("by-name", "curl -sS -m 5 http://" NAME "/");
    ASSERT_SAYS(name, "from outside");
    CLEANUP_REPLY struct reply shell =
        run_in("by-name", "exec 5<>/dev/tcp/" WORLD "/80; echo GET / >&5; timeout 5 cat <&5");
    ASSERT_SAYS(shell, "from outside");
    CLEANUP_REPLY struct reply described = shown("by-name");
    ASSERT_STR_EQ(tool, text_at(described.json, "network"));
    PASS();
}

TEST a_network_is_there_in_every_life(void)
{
    for (int i = 0; i < 3; i++) {
        CLEANUP_REPLY struct reply fetched = run_in("lives", "curl -sS -m 5 http://" NAME "/");
        ASSERT_SAYS(fetched, "from outside");
        CLEANUP_REPLY struct reply gone = method("lives", "destroy");
        ASSERT_EQ(200, gone.status);
    }
    PASS();
}

/* Whoever connects to this host's loopback is counted. */
struct listener {
    int fd;
    int count;
};

static void count_waiting(struct listener *listener)
{
    struct pollfd poller = {.fd = listener->fd, .events = POLLIN};
    while (poll(&poller, 1, 0) > 0) {
        int fd = accept(listener->fd, NULL, NULL);
        if (fd < 0)
            break;
        listener->count++;
        close(fd);
    }
}

/* Tries to connect to every address that could stand for this host, all at once. */
static struct reply knock(const char *box, int port)
{
    char command[1024];
    snprintf(command, sizeof command,
             "for a in 127.0.0.1 ::1 " HOST " " GATEWAY
             " 10.0.2.2 10.0.2.3 169.254.1.1 169.254.1.2 "
             "fd00::2 fd00::3 ::ffff:127.0.0.1 localhost; do"
             " timeout 1 bash -c \"exec 5<>/dev/tcp/$a/%d\" 2>/dev/null && echo reached $a & "
             "done; wait; echo done",
             port);
    return run_in(box, command);
}

TEST the_loopback_of_this_host_and_the_emulator_are_out_of_reach(void)
{
    struct listener four = {.fd = bound(SOCK_STREAM, "127.0.0.1", LOOPBACK_PORT)};
    struct listener six = {.fd = bound(SOCK_STREAM, "::1", LOOPBACK_PORT)};
    ASSERT(four.fd >= 0 && six.fd >= 0);
    CLEANUP_REPLY struct reply loopback = knock("knocker", LOOPBACK_PORT);
    count_waiting(&four);
    count_waiting(&six);
    close(four.fd);
    close(six.fd);
    ASSERT_SAYS(loopback, "done");
    ASSERTm(keep(loopback.body), !strstr(text_at(loopback.json, "stdout"), "reached"));
    ASSERT_EQ(0, four.count);
    ASSERT_EQ(0, six.count);
    CLEANUP_REPLY struct reply door = knock("knocker", emulator.port);
    ASSERT_SAYS(door, "done");
    ASSERTm(keep(door.body), !strstr(text_at(door.json, "stdout"), "reached"));
    PASS();
}

static const char serve[] = "cd /tmp; hostname > who; (python3 -m http.server 8080 >/dev/null 2>&1 "
                            "&); for i in $(seq 100); do curl -sS http://127.0.0.1:8080/who "
                            "2>/dev/null && break; sleep 0.05; done";

TEST two_sandboxes_on_one_port_do_not_see_each_other(void)
{
    CLEANUP_REPLY struct reply a = run_in("port-a", serve);
    ASSERT_SAYS(a, "port-a");
    CLEANUP_REPLY struct reply b = run_in("port-b", serve);
    ASSERT_SAYS(b, "port-b");
    CLEANUP_REPLY struct reply own = run_in("port-a", "curl -sS http://127.0.0.1:8080/who");
    ASSERT_SAYS(own, "port-a");
    CLEANUP_REPLY struct reply c = knock("port-c", 8080);
    ASSERT_SAYS(c, "done");
    ASSERTm(keep(c.body), !strstr(text_at(c.json, "stdout"), "reached"));
    /* Nor do the addresses that the two have themselves lead from one to the other. */
    CLEANUP_REPLY struct reply where = run_in("port-a", "ip -4 -br addr | grep -v ^lo");
    ASSERT_SAYS(where, ".");
    CLEANUP_REPLY struct reply d =
        run_in("port-c", "for a in $(ip -4 -br addr | grep -v ^lo | awk '{print $3}'); do curl -sS "
                         "-m 1 http://${a%/*}:8080/who; done");
    ASSERTm(keep(d.body), !strstr(text_at(d.json, "stdout"), "port-"));
    PASS();
}

TEST the_helper_ends_with_its_container(void)
{
    int pids[HELPERS_MAX];
    CLEANUP_REPLY struct reply reset = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT(eventually(has_no_helper, NULL, 5000));
    CLEANUP_REPLY struct reply one = run_in("ends", "true");
    ASSERT_EQ(1, helpers(pids));
    CLEANUP_REPLY struct reply destroyed = method("ends", "destroy");
    ASSERT_EQ(200, destroyed.status);
    ASSERTm("after destroy", eventually(has_no_helper, NULL, 5000));
    CLEANUP_REPLY struct reply two = run_in("ends", "true");
    ASSERT_EQ(1, helpers(pids));
    CLEANUP_REPLY struct reply slept =
        post(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"11m\"}");
    ASSERT_EQ(200, slept.status);
    ASSERTm("after sleep", eventually(has_no_helper, NULL, 5000));
    PASS();
}

TEST a_helper_that_dies_leaves_its_container_without_a_network(void)
{
    int pids[HELPERS_MAX];
    CLEANUP_REPLY struct reply reset = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT(eventually(has_no_helper, NULL, 5000));
    CLEANUP_REPLY struct reply before = run_in("loses", "echo kept > /workspace/file");
    ASSERT_EQ(1, helpers(pids));
    kill(pids[0], SIGKILL);
    ASSERT(eventually(is_told_failed, "loses", 5000));
    CLEANUP_REPLY struct reply after =
        run_in("loses", "cat /workspace/file; curl -sS -m 5 http://" NAME "/");
    ASSERT_SAYS(after, "kept");
    ASSERT(number_at(after.json, "exitCode") > 0);
    ASSERTm(keep(after.body), strstr(text_at(after.json, "hint"), "was ended by signal 9"));
    CLEANUP_JSON json_t *failed = last_event("loses", "network.failed");
    ASSERT(failed);
    ASSERT_STR_EQ(tool, text_at(failed, "data.network"));
    CLEANUP_REPLY struct reply described = shown("loses");
    ASSERT_STR_EQ("healthy", text_at(described.json, "state"));
    PASS();
}

/* Last: the emulator is started anew after it. */
TEST no_helper_outlives_a_killed_emulator(void)
{
    int pids[HELPERS_MAX];
    CLEANUP_REPLY struct reply one = run_in("orphan-a", "true");
    CLEANUP_REPLY struct reply two = run_in("orphan-b", "true");
    int count = helpers(pids);
    ASSERT(count >= 2);
    emulator_kill(&emulator);
    for (int i = 0; i < count; i++)
        ASSERT(eventually(is_gone, &pids[i], 5000));
    const char *extra[] = {"--network", tool, NULL};
    ASSERT_EQ(0, emulator_restart(&emulator, extra));
    PASS();
}

SUITE(with_a_network)
{
    RUN_TEST(the_very_first_command_fetches_by_address_and_by_name);
    RUN_TEST(a_network_is_there_in_every_life);
    RUN_TEST(the_loopback_of_this_host_and_the_emulator_are_out_of_reach);
    RUN_TEST(two_sandboxes_on_one_port_do_not_see_each_other);
    RUN_TEST(the_helper_ends_with_its_container);
    RUN_TEST(a_helper_that_dies_leaves_its_container_without_a_network);
    RUN_TEST(no_helper_outlives_a_killed_emulator);
}

/* --- Without ---------------------------------------------------------------------------------- */

TEST none_fails_clearly_and_is_told(void)
{
    CLEANUP_REPLY struct reply name = run_in("cut-off", "curl -sS -m 5 http://" NAME "/");
    ASSERT_EQ(6, number_at(name.json, "exitCode"));
    ASSERTm(keep(name.body), strstr(text_at(name.json, "hint"), "--network none"));
    CLEANUP_REPLY struct reply address =
        run_in("cut-off", "LC_ALL=C exec 5<>/dev/tcp/" WORLD "/80");
    ASSERTm(keep(address.body), strstr(text_at(address.json, "stderr"), "Network is unreachable"));
    CLEANUP_JSON json_t *refused = last_event("cut-off", "network.refused");
    ASSERT(refused);
    ASSERT_STR_EQ("none", text_at(refused, "data.network"));
    ASSERTm("the event names the command", strstr(text_at(refused, "data.command"), "/dev/tcp/"));
    CLEANUP_JSON json_t *started = last_event("cut-off", "container.starting");
    ASSERT_STR_EQ("none", text_at(started, "data.network"));
    CLEANUP_REPLY struct reply described = shown("cut-off");
    ASSERT_STR_EQ("none", text_at(described.json, "network"));
    PASS();
}

TEST a_failure_of_another_kind_has_no_hint(void)
{
    CLEANUP_REPLY struct reply other = run_in("cut-off", "ls /nothing");
    ASSERT_EQ(2, number_at(other.json, "exitCode"));
    ASSERT_EQ(NULL, at(other.json, "hint"));
    CLEANUP_REPLY struct reply fine = run_in("cut-off", "echo Network is unreachable >&2");
    ASSERT_EQ(NULL, at(fine.json, "hint"));
    PASS();
}

TEST without_a_network_there_is_no_resolver_and_no_helper(void)
{
    CLEANUP_REPLY struct reply resolver = run_in("cut-off", "cat /etc/resolv.conf; echo end");
    ASSERT_STR_EQ("end", text_at(resolver.json, "stdout"));
    ASSERT(has_no_helper(NULL));
    PASS();
}

SUITE(without_a_network)
{
    RUN_TEST(none_fails_clearly_and_is_told);
    RUN_TEST(a_failure_of_another_kind_has_no_hint);
    RUN_TEST(without_a_network_there_is_no_resolver_and_no_helper);
}

TEST the_configuration_takes_the_network_from_a_class(void)
{
    static const char text[] =
        "{\"name\": \"n\", \"containers\": ["
        "{\"class_name\": \"Open\", \"image\": \"docker.io/cloudflare/sandbox:0.12.7\"},"
        "{\"class_name\": \"Shut\", \"image\": \"docker.io/cloudflare/sandbox:0.12.7\"}],"
        "\"sandpit\": {\"network\": {\"Shut\": \"none\"}}}";
    char path[80], all[96], log[4096] = "";
    snprintf(path, sizeof path, "%s/wrangler.jsonc", scratch);
    FILE *file = fopen(path, "we");
    ASSERT(file);
    fputs(text, file);
    fclose(file);
    const char *extra[] = {"--network", tool, "--config", path, NULL};
    emulator = (struct emulator){0};
    ASSERT_EQ(0, emulator_start(&emulator, extra));
    CLEANUP_REPLY struct reply open_class =
        post(&emulator, "/sandbox/o/exec?class=Open", "[\"curl -sS -m 5 http://" WORLD "/\"]");
    CLEANUP_REPLY struct reply shut_class =
        post(&emulator, "/sandbox/s/exec?class=Shut", "[\"curl -sS -m 5 http://" NAME "/\"]");
    CLEANUP_FILE FILE *said = fopen(emulator.log, "re");
    size_t size = said ? fread(log, 1, sizeof log - 1, said) : 0;
    log[size] = '\0';
    ASSERT_EQ(0, finish());
    ASSERT_SAYS(open_class, "from outside");
    ASSERTm(keep(shut_class.body),
            strstr(text_at(shut_class.json, "hint"), "the configuration says none"));
    snprintf(all, sizeof all, "network: Open %s, Shut none", tool);
    ASSERTm(keep(log), strstr(log, all));
    PASS();
}

SUITE(by_class)
{
    RUN_TEST(the_configuration_takes_the_network_from_a_class);
}

/* --- Main ------------------------------------------------------------------------------------- */

static bool installed(const char *name)
{
    char command[64];
    snprintf(command, sizeof command, "/usr/bin/%s", name);
    return access(command, X_OK) == 0;
}

static const char *missing(void)
{
    if (geteuid() != 0)
        return "not root: the network that this test makes needs it";
    if (access("/dev/net/tun", R_OK | W_OK) < 0)
        return "there is no /dev/net/tun";
    if (!installed("pasta") && !installed("slirp4netns"))
        return "neither pasta nor slirp4netns is installed";
    return emulator_missing();
}

static int prepare(void)
{
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -1;
    if (!mkdtemp(scratch) || make_world() < 0)
        return -1;
    return make_resolver();
}

static int clean(void)
{
    struct emulator only_scratch = {0};
    kill(world, SIGKILL);
    waitpid(world, NULL, 0);
    umount2("/etc/resolv.conf", MNT_DETACH);
    snprintf(only_scratch.dir, sizeof only_scratch.dir, "%s", scratch);
    emulator_clean(&only_scratch);
    return 0;
}

/* Where only root may open it, an ordinary user has no network; here everybody may. */
static int open_tun(void)
{
    return mount("tmpfs", "/dev/net", "tmpfs", 0, "mode=755") < 0 ||
                   mknod("/dev/net/tun", S_IFCHR | 0666, makedev(10, 200)) < 0 ||
                   chmod("/dev/net/tun", 0666) < 0
               ? -1
               : 0;
}

/* Runs a suite with an emulator of its own. */
#define ROUND(START, NETWORK, SUITE_NAME)                                                          \
    do {                                                                                           \
        if (START(NETWORK) < 0) {                                                                  \
            printf("the emulator did not start: see %s\n", emulator.log);                          \
            return 1;                                                                              \
        }                                                                                          \
        RUN_SUITE(SUITE_NAME);                                                                     \
        if (finish() != 0) {                                                                       \
            printf("the emulator did not end cleanly\n");                                          \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const char *const tools[] = {"slirp4netns", "pasta"};
    GREATEST_MAIN_BEGIN();
    const char *reason = missing();
    if (reason) {
        printf("SKIP network: %s\n", reason);
        return 77;
    }
    if (prepare() < 0) {
        printf("SKIP network: no network namespace with a wire can be made here: %s\n",
               strerror(errno));
        clean();
        return 77;
    }
    ROUND(start, "none", without_a_network);
    bool users = open_tun() == 0 && run("setpriv --reuid 54321 unshare --user --net true") == 0;
    if (!users)
        printf("SKIP as ordinary user: no user namespaces for them here\n");
    for (size_t i = 0; i < 2; i++) {
        if (!installed(tools[i])) {
            printf("SKIP with %s: it is not installed\n", tools[i]);
            continue;
        }
        tool = tools[i];
        ROUND(start, tool, with_a_network);
        if (users)
            ROUND(start_as_user, tool, with_a_network);
    }
    RUN_SUITE(by_class);
    clean();
    GREATEST_MAIN_END();
}
