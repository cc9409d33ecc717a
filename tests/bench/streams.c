#include "streams.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "http_client.h"
#include "program.h"

enum { FULL_COUNT = 400, LISTINGS = 40, WARM_UP = 5 };
enum { REQUEST_MAX = 4096, PIECE = 256 * 1024, MIB = 1024 * 1024 };
/* Streamed in one go when --count has its default, and how often at most. */
enum { FULL_MIB = 1024, STREAM_ROUNDS = 3 };

#define CLEANUP_PROGRAM __attribute__((cleanup(program_stop)))

static char piece[PIECE];

static int add(struct bench *bench, enum row_id row, double value, struct error *err)
{
    int result = samples_add(&bench->rows->samples[row], value);
    return result < 0 ? error_errno(err, -result, "samples") : 0;
}

static int part(const struct bench *bench, int full)
{
    int count = (int)((long)full * bench->count / FULL_COUNT);
    return count < 1 ? 1 : count;
}

/* Names. */

static int post(struct client *client, const char *path, const char *body, const char *expected,
                struct error *err)
{
    CLEANUP_BUF struct buf request = BUF_INIT(REQUEST_MAX);
    if (client_post(&request, path, body, strlen(body)) < 0)
        return error_errno(err, ENOMEM, "request");
    return client_exchange(client, &request, expected, err);
}

static int batch(struct bench *bench, enum row_id row, struct client *client, const char *path,
                 const char *body, const char *expected, int count, struct error *err)
{
    CLEANUP_BUF struct buf request = BUF_INIT(REQUEST_MAX);
    if (client_post(&request, path, body, strlen(body)) < 0)
        return error_errno(err, ENOMEM, "request");
    for (int i = -WARM_UP; i < count; i++) {
        double start = stats_now_ms();
        int result = client_exchange(client, &request, expected, err);
        double ms = stats_now_ms() - start;
        if (result == 0 && i >= 0)
            result = add(bench, row, ms, err);
        if (result < 0)
            return result;
    }
    return 0;
}

int measure_listing(struct bench *bench, struct error *err)
{
    static const char exec[] = "/sandbox/bench/exec";
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    int result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    if (result == 0)
        result = post(&client, exec, "[\"mkdir d && cd d && touch $(seq 1 1000) && cd ..\"]",
                      "\"exitCode\":0", err);
    for (int round = 0; result == 0 && round < bench->rounds; round++) {
        result = batch(bench, ROW_LIST, &client, "/sandbox/bench/listFiles", "[\"/workspace/d\"]",
                       "\"count\":1000", part(bench, LISTINGS), err);
        if (result == 0)
            result = batch(bench, ROW_EXISTS, &client, "/sandbox/bench/exists",
                           "[\"/workspace/d/7\"]", "\"exists\":true", bench->count, err);
        if (result == 0) /* beside what it is compared with */
            result = batch(bench, ROW_EXEC, &client, exec, "[\"true\"]", "\"exitCode\":0",
                           bench->count, err);
    }
    return result;
}

/* Bytes. */

static int send_bytes(int fd, long long size, struct error *err)
{
    while (size > 0) {
        size_t want = size < PIECE ? (size_t)size : PIECE;
        ssize_t sent = send(fd, piece, want, MSG_NOSIGNAL);
        if (sent < 0)
            return error_errno(err, errno, "send a file");
        size -= sent;
    }
    return 0;
}

/* Reads `size` bytes and drops them. */
static int drop_bytes(int fd, long long size, struct error *err)
{
    while (size > 0) {
        ssize_t got = recv(fd, piece, size < PIECE ? (size_t)size : PIECE, 0);
        if (got <= 0)
            return error_errno(err, got < 0 ? errno : EPIPE, "receive a file");
        size -= got;
    }
    return 0;
}

static int stream_in(struct client *client, long long size, struct error *err)
{
    CLEANUP_BUF struct buf head = BUF_INIT(REQUEST_MAX);
    buf_addf(&head,
             "PUT /sandbox/bench/writeFileStream?path=/workspace/big HTTP/1.1\r\n"
             "Host: localhost\r\nContent-Length: %lld\r\n\r\n",
             size);
    int result = client_send(client, &head, err);
    if (result == 0)
        result = send_bytes(client->fd, size, err);
    while (result == 0)
        result = client_receive(client, err);
    if (result < 0)
        return result;
    return client->status == 200
               ? 0
               : error_set(err, EPROTO, "writeFileStream answers %d", client->status);
}

static int stream_out(struct client *client, long long size, struct error *err)
{
    CLEANUP_BUF struct buf request = BUF_INIT(REQUEST_MAX);
    static const char body[] = "[\"/workspace/big\",{\"encoding\":\"none\"}]";
    int result = client_post(&request, "/sandbox/bench/readFile", body, strlen(body));
    if (result == 0)
        result = client_send(client, &request, err);
    char head[2048];
    ssize_t got = result == 0 ? recv(client->fd, head, sizeof head - 1, 0) : -1;
    if (got <= 0)
        return error_errno(err, got < 0 ? errno : EPIPE, "receive a head");
    head[got] = '\0';
    const char *end = strstr(head, "\r\n\r\n");
    if (!end || strncmp(head, "HTTP/1.1 200", 12) != 0)
        return error_set(err, EPROTO, "readFile answers %.80s", head);
    return drop_bytes(client->fd, size - (got - (end + 4 - head)), err);
}

/* cat at one end of a TCP connection; the other end, or a negative errno. */
static int cat_start(int file, bool out, pid_t *pid, struct error *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    CLEANUP_FD int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CLEANUP_FD int ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (door < 0 || ours < 0 || bind(door, (struct sockaddr *)&at, sizeof at) < 0 ||
        listen(door, 1) < 0 || getsockname(door, (struct sockaddr *)&at, &size) < 0 ||
        connect(ours, (struct sockaddr *)&at, size) < 0)
        return error_errno(err, errno, "a socket for cat");
    CLEANUP_FD int theirs = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    *pid = theirs < 0 ? -1 : fork();
    if (*pid < 0)
        return error_errno(err, errno, "start cat");
    if (*pid == 0) {
        dup2(out ? file : theirs, STDIN_FILENO);
        dup2(out ? theirs : file, STDOUT_FILENO);
        execlp("cat", "cat", NULL);
        _exit(127);
    }
    return steal_fd(&ours);
}

static int cat_run(int file, bool out, long long size, struct error *err)
{
    pid_t pid = -1;
    if (lseek(file, 0, SEEK_SET) < 0)
        return error_errno(err, errno, "a file for cat");
    CLEANUP_FD int fd = cat_start(file, out, &pid, err);
    if (fd < 0)
        return fd;
    int result = out ? drop_bytes(fd, size, err) : send_bytes(fd, size, err);
    close(steal_fd(&fd));
    waitpid(pid, NULL, 0);
    return result;
}

static int timed(struct bench *bench, enum row_id row, double start, int result, struct error *err)
{
    double ms = stats_now_ms() - start;
    return result < 0 ? result : add(bench, row, ms, err);
}

static int stream_round(struct bench *bench, struct client *client, long long size,
                        struct error *err)
{
    CLEANUP_FD int file = memfd_create("cat", MFD_CLOEXEC);
    double start = stats_now_ms();
    int result = timed(bench, ROW_BARE_CAT_IN, start, cat_run(file, false, size, err), err);
    start = stats_now_ms();
    if (result == 0)
        result = timed(bench, ROW_BARE_CAT_OUT, start, cat_run(file, true, size, err), err);
    close(steal_fd(&file));
    start = stats_now_ms();
    if (result == 0)
        result = timed(bench, ROW_STREAM_IN, start, stream_in(client, size, err), err);
    start = stats_now_ms();
    if (result == 0)
        result = timed(bench, ROW_STREAM_OUT, start, stream_out(client, size, err), err);
    if (result == 0)
        result = post(client, "/sandbox/bench/deleteFile", "[\"/workspace/big\"]",
                      "\"success\":true", err);
    return result;
}

/* A project whose class has room for the file. */
static int make_project(const char *dir, struct error *err)
{
    char path[256];
    snprintf(path, sizeof path, "%s/wrangler.jsonc", dir);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return error_errno(err, errno, "mkdir '%s'", dir);
    CLEANUP_FILE FILE *file = fopen(path, "we");
    if (!file)
        return error_errno(err, errno, "open '%s'", path);
    fprintf(file, "{\"name\": \"bench\", \"containers\": [{\"class_name\": \"Sandbox\", "
                  "\"image\": \"docker.io/cloudflare/sandbox:0.12.7\", \"instance_type\": "
                  "{\"vcpu\": 1, \"memory_mib\": 4096, \"disk_mb\": 1600}}]}\n");
    return 0;
}

int measure_streams(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    char dir[200];
    double before, after;
    long long size = (long long)part(bench, FULL_MIB) * MIB;
    snprintf(dir, sizeof dir, "%s/streams", bench->scratch);
    int result = make_project(dir, err);
    if (result == 0)
        result = program_start(&program, dir, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    if (result == 0) /* whatever is used the first time */
        result = stream_in(&client, MIB, err);
    if (result == 0)
        result = program_memory(&program, "VmHWM", &before, err);
    for (int round = 0; result == 0 && round < bench->rounds && round < STREAM_ROUNDS; round++)
        result = stream_round(bench, &client, size, err);
    if (result == 0)
        result = program_memory(&program, "VmHWM", &after, err);
    return result < 0 ? result : add(bench, ROW_STREAM_MEMORY, after - before, err);
}
