#include "preview.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cpus.h"
#include "steps.h"

/* In one round when --count has its default. */
enum { REQUESTS = 12000, BODY_MIB = 1024, SOCKETS = 1000, BODY_ROUNDS = 3 };
enum { LANES_MAX = 64, SERVER_PORT = 8080, NGINX_PORT = 8081, PIECE = 256 * 1024 };

static const char server_js[] =
    "const http=require('http');const b=Buffer.alloc(262144,'x');"
    "http.createServer((q,r)=>{const n=+(/n=(\\\\d+)/.exec(q.url)||[])[1];"
    "if(!n)return r.end('hello');r.writeHead(200,{'content-length':n});let i=0;"
    "const w=()=>{while(i<n){const k=Math.min(b.length,n-i);i+=k;"
    "if(!r.write(b.subarray(0,k)))return r.once('drain',w);}r.end();};w();})"
    ".on('upgrade',(q,c)=>{c.write('HTTP/1.1 101 Switching Protocols\\\\r\\\\nUpgrade: "
    "x\\\\r\\\\nConnection: Upgrade\\\\r\\\\n\\\\r\\\\n');c.on('error',()=>0);}).listen(8080);";

/* A way to the server. */
struct way {
    const char *host; /* of the requests */
    int port;
    int net; /* where the port is; -1 = here */
};

/* Whether the command line of a process has the text; its pid. */
static int find_process(const char *text)
{
    DIR *proc = opendir("/proc");
    int found = 0;
    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[300], line[256] = "";
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
        for (ssize_t i = 0; i < size; i++)
            line[i] = line[i] ? line[i] : ' ';
        if (strncmp(line, "node", 4) == 0 && strstr(line, text))
            found = (int)strtol(entry->d_name, NULL, 10);
    }
    if (proc)
        closedir(proc);
    return found;
}

/* A connection; made in the network namespace of the way, where it then stays. */
static int dial(const struct way *way, struct error *err)
{
    int on = 1;
    CLEANUP_FD int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0 || (way->net >= 0 && setns(way->net, CLONE_NEWNET) < 0))
        return error_errno(err, errno, "enter the sandbox's network");
    CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)way->port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int result = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to);
    int saved = errno;
    if (way->net >= 0 && setns(home, CLONE_NEWNET) < 0)
        return error_errno(err, errno, "leave the sandbox's network");
    if (result < 0)
        return error_errno(err, saved, "connect to port %d", way->port);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return steal_fd(&fd);
}

/* Many requests. */

struct lanes {
    struct client clients[LANES_MAX];
    int count;
};

static void lanes_close(struct lanes *lanes)
{
    for (int i = 0; i < lanes->count; i++)
        client_close(&lanes->clients[i]);
}

static int lanes_run(struct lanes *lanes, const struct buf *request, int total, struct error *err)
{
    struct pollfd polled[LANES_MAX];
    int sent = 0, answered = 0, result = 0;
    for (int i = 0; result == 0 && i < lanes->count; i++, sent++) {
        polled[i] = (struct pollfd){.fd = lanes->clients[i].fd, .events = POLLIN};
        result = client_send(&lanes->clients[i], request, err);
    }
    while (result == 0 && answered < sent) {
        if (poll(polled, (nfds_t)lanes->count, 60000) <= 0)
            return error_set(err, ETIMEDOUT, "no answer");
        for (int i = 0; result == 0 && i < lanes->count; i++) {
            struct client *client = &lanes->clients[i];
            if (!polled[i].revents || (result = client_receive(client, err)) == 0)
                continue;
            if (result < 0)
                break;
            answered++;
            if (client->status != 200)
                return error_set(err, EIO, "status %d", client->status);
            result = sent < total ? client_send(client, request, err) : 0;
            sent += sent < total;
        }
    }
    return result;
}

/* Milliseconds for each request, with so many connections at once. */
static int run_requests(struct bench *bench, enum row_id row, const struct way *way,
                        int lanes_count, struct error *err)
{
    __attribute__((cleanup(lanes_close))) struct lanes lanes = {.count = lanes_count};
    CLEANUP_BUF struct buf request = BUF_INIT(SMALL_REQUEST);
    int total = steps_part(bench, REQUESTS), result = 0;
    buf_addf(&request, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", way->host);
    for (int i = 0; i < lanes_count; i++)
        lanes.clients[i] = CLIENT_INIT;
    for (int i = 0; result == 0 && i < lanes_count; i++) {
        lanes.clients[i].in = BUF_INIT(1 << 20);
        lanes.clients[i].fd = dial(way, err);
        result = lanes.clients[i].fd < 0 ? lanes.clients[i].fd : 0;
    }
    if (result == 0)
        result = lanes_run(&lanes, &request, lanes_count * 10, err);
    double start = stats_now_ms();
    if (result == 0)
        result = lanes_run(&lanes, &request, total, err);
    double ms = stats_now_ms() - start;
    return result < 0 ? result : steps_add(bench, row, ms / total, err);
}

/* One by one, each with its time. */
static int run_single(struct bench *bench, enum row_id row, const struct way *way, double *median,
                      struct error *err)
{
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    CLEANUP_BUF struct buf request = BUF_INIT(SMALL_REQUEST);
    struct samples own = {0};
    buf_addf(&request, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", way->host);
    client.in = BUF_INIT(1 << 20);
    client.fd = dial(way, err);
    int result = client.fd < 0 ? client.fd : 0;
    int count = steps_part(bench, REQUESTS / 4);
    for (int i = -50; result == 0 && i < count; i++) {
        double start = stats_now_ms();
        result = client_exchange(&client, &request, "hello", err);
        double ms = stats_now_ms() - start;
        if (result == 0 && i >= 0 && samples_add(&own, ms) == 0)
            result = steps_add(bench, row, ms, err);
    }
    *median = samples_median(&own);
    samples_free(&own);
    return result;
}

/* One large body. */
static int run_body(struct bench *bench, enum row_id row, const struct way *way, struct error *err)
{
    static char piece[PIECE];
    long long size = (long long)steps_part(bench, BODY_MIB) << 20, got = 0;
    CLEANUP_FD int fd = dial(way, err);
    if (fd < 0)
        return fd;
    int length =
        snprintf(piece, sizeof piece, "GET /?n=%lld HTTP/1.1\r\nHost: %s\r\n\r\n", size, way->host);
    double start = stats_now_ms();
    if (send(fd, piece, (size_t)length, MSG_NOSIGNAL) != length)
        return error_errno(err, errno, "send");
    while (got < size) { /* the head counts too; it is nothing beside this */
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n <= 0)
            return error_errno(err, n < 0 ? errno : EPIPE, "receive");
        got += n;
    }
    return steps_add(bench, row, stats_now_ms() - start, err);
}

/* Tunnels that say nothing. */
static int run_sockets(struct bench *bench, const struct program *program, const struct way *way,
                       struct error *err)
{
    int count = steps_part(bench, SOCKETS), made = 0, result;
    double before, after;
    CLEANUP_FREE int *fds = calloc((size_t)count, sizeof *fds);
    char text[256], answer[512];
    int length = snprintf(text, sizeof text,
                          "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
                          way->host);
    result = fds ? program_memory(program, "RssAnon", &before, err) : -ENOMEM;
    for (; result == 0 && made < count; made++) {
        fds[made] = dial(way, err);
        if (fds[made] < 0)
            return fds[made];
        if (send(fds[made], text, (size_t)length, MSG_NOSIGNAL) != length ||
            recv(fds[made], answer, sizeof answer, 0) < 12 || memcmp(answer + 9, "101", 3) != 0)
            result = error_set(err, EIO, "no upgrade");
    }
    if (result == 0)
        result = program_memory(program, "RssAnon", &after, err);
    for (int i = 0; i < made; i++)
        close(fds[i]);
    return result < 0 ? result : steps_add(bench, ROW_PREVIEW_SOCKETS, after - before, err);
}

/* nginx beside the server: one worker, kept connections. */

static pid_t start_nginx(const struct bench *bench, int net)
{
    char config[1024], path[256];
    snprintf(path, sizeof path, "%s/nginx.conf", bench->scratch);
    snprintf(config, sizeof config,
             "daemon off;user root;worker_processes 1;pid nginx.pid;error_log /dev/null;events{}"
             "http{access_log off;client_body_temp_path body;proxy_temp_path proxy;"
             "fastcgi_temp_path f;uwsgi_temp_path u;scgi_temp_path s;upstream u{server "
             "127.0.0.1:%d;keepalive 64;}"
             "server{listen 127.0.0.1:%d;keepalive_requests 10000000;location /{proxy_pass "
             "http://u;proxy_http_version 1.1;proxy_set_header Connection \"\";}}}",
             SERVER_PORT, NGINX_PORT);
    CLEANUP_FILE FILE *file = fopen(path, "we");
    if (!file || fputs(config, file) < 0)
        return 0;
    fflush(file);
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? 0 : pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (setns(net, CLONE_NEWNET) == 0)
        execlp("nginx", "nginx", "-p", bench->scratch, "-c", path, (char *)NULL);
    _exit(127);
}

static void stop_nginx(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

/* Waits until it accepts, or has ended. */
static bool nginx_serves(pid_t pid, const struct way *way)
{
    for (int i = 0; pid > 0 && i < 100 && waitpid(pid, NULL, WNOHANG) == 0; i++) {
        struct error err = {0};
        CLEANUP_FD int fd = dial(way, &err);
        if (fd >= 0)
            return true;
        poll(NULL, 0, 20);
    }
    return false;
}

/* All of it. */

static const struct {
    int lanes;
    enum row_id preview, bare, nginx;
} loads[] = {
    {16, ROW_PREVIEW_16, ROW_SERVER_16, ROW_NGINX_16},
    {64, ROW_PREVIEW_64, ROW_SERVER_64, ROW_NGINX_64},
};

static int run_round(struct bench *bench, const struct way *preview, const struct way *bare,
                     const struct way *nginx, struct error *err)
{
    double through, direct;
    int result = run_single(bench, ROW_SERVER_1, bare, &direct, err);
    if (result == 0)
        result = run_single(bench, ROW_PREVIEW_1, preview, &through, err);
    if (result == 0)
        result = steps_add(bench, ROW_PREVIEW_ADDED, through - direct, err);
    if (result == 0 && nginx)
        result = run_single(bench, ROW_NGINX_1, nginx, &direct, err);
    for (size_t i = 0; result == 0 && i < sizeof loads / sizeof *loads; i++) {
        result = run_requests(bench, loads[i].bare, bare, loads[i].lanes, err);
        if (result == 0)
            result = run_requests(bench, loads[i].preview, preview, loads[i].lanes, err);
        if (result == 0 && nginx)
            result = run_requests(bench, loads[i].nginx, nginx, loads[i].lanes, err);
    }
    return result;
}

static int run_bodies(struct bench *bench, const struct program *program, const struct way *preview,
                      const struct way *bare, const struct way *nginx, struct error *err)
{
    double before = 0, after = 0;
    int result = program_memory(program, "VmRSS", &before, err);
    for (int i = 0; result == 0 && i < bench->rounds && i < BODY_ROUNDS; i++) {
        result = run_body(bench, ROW_SERVER_BODY, bare, err);
        if (result == 0)
            result = run_body(bench, ROW_PREVIEW_BODY, preview, err);
        if (result == 0 && nginx)
            result = run_body(bench, ROW_NGINX_BODY, nginx, err);
    }
    if (result == 0)
        result = program_memory(program, "VmRSS", &after, err);
    return result < 0
               ? result
               : steps_add(bench, ROW_PREVIEW_MEMORY, after > before ? after - before : 0, err);
}

static int run_all(struct bench *bench, const struct program *program, int net, struct error *err)
{
    struct way preview = {"8080-pv-bench.localhost", program->port, -1};
    struct way bare = {"localhost:8080", SERVER_PORT, net};
    struct way nginx = {"localhost", NGINX_PORT, net};
    pid_t pid = start_nginx(bench, net);
    bool beside = nginx_serves(pid, &nginx);
    if (!beside)
        fprintf(stderr, "bench: no nginx, so no rows about it\n");
    int result = 0;
    for (int round = 0; result == 0 && round < bench->rounds; round++)
        result = run_round(bench, &preview, &bare, beside ? &nginx : NULL, err);
    if (result == 0)
        result = run_bodies(bench, program, &preview, &bare, beside ? &nginx : NULL, err);
    if (beside)
        stop_nginx(pid);
    return result < 0 ? result : run_sockets(bench, program, &preview, err);
}

static int start_server(struct client *client, struct error *err)
{
    CLEANUP_BUF struct buf body = BUF_INIT(SMALL_REQUEST), request = BUF_INIT(2 * SMALL_REQUEST);
    buf_addf(&body, "[\"/workspace/bench-preview.js\",\"%s\"]", server_js);
    int result = client_post(&request, "/sandbox/pv/writeFile", body.data, body.size);
    if (result < 0)
        return error_errno(err, -result, "request");
    result = client_exchange(client, &request, "\"success\":true", err);
    if (result == 0)
        result = steps_post(client, "[\"exec node bench-preview.js\",{\"processId\":\"s\"}]",
                            "\"id\":\"s\"", "/sandbox/pv/startProcess", 0, err);
    if (result == 0)
        result = steps_post(client, "[\"s\",8080,{\"interval\":100,\"timeout\":20000}]", NULL,
                            "/sandbox/pv/waitForPort", 0, err);
    if (result == 0)
        result = steps_post(client, "[8080,{\"token\":\"bench\"}]", "\"url\"",
                            "/sandbox/pv/exposePort", 0, err);
    return result;
}

int measure_preview(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    char path[64];
    double ms;
    if (raw_bash_run("command -v node >/dev/null", &ms, err) < 0) {
        fprintf(stderr, "bench: no node, so no rows about previews\n");
        *err = (struct error){0};
        return 0;
    }
    cpus_use(2); /* the client, the emulator and the server */
    int result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    if (result == 0)
        result = start_server(&client, err);
    snprintf(path, sizeof path, "/proc/%d/ns/net", find_process("bench-preview.js"));
    CLEANUP_FD int net = open(path, O_RDONLY | O_CLOEXEC);
    if (result == 0 && net < 0)
        result = error_errno(err, errno, "%s", path);
    if (result == 0)
        result = run_all(bench, &program, net, err);
    if (bench->pin)
        cpus_use(1);
    return result;
}
