/* Files as plain bytes in both directions: the whole content or nothing, whatever the client, the
 * disk or the sandbox does meanwhile, and no more memory for a large file than for a small one. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "counts.h"
#include "greatest.h"
#include "support.h"

enum {
    MIB = 1024 * 1024,
    BODY_MS = 1500,    /* as below */
    PROMPT_MS = 10000, /* for what follows at once */
    GROWTH_KIB = 6144, /* of the emulator's memory; a file is ten times that or more */
};

/* A layer that a large file fits in, and one that is soon full. */
static const char project[] =
    "{\"name\": \"p\", \"containers\": ["
    "{\"class_name\": \"Sandbox\", \"image\": \"docker.io/cloudflare/sandbox:0.12.7\","
    " \"instance_type\": {\"vcpu\": 1, \"memory_mib\": 4096, \"disk_mb\": 1600}},"
    "{\"class_name\": \"Tiny\", \"image\": \"docker.io/cloudflare/sandbox:0.12.7\","
    " \"instance_type\": {\"vcpu\": 1, \"memory_mib\": 256, \"disk_mb\": 16}}]}";
static const char *const arguments[] = {"--http-deadlines", "5000,1500,30000", NULL};

static struct emulator emulator;

static struct reply shell(const char *box, const char *command)
{
    char path[128], body[2048];
    snprintf(path, sizeof path, "/sandbox/%s/exec%s", box,
             strcmp(box, "tiny") == 0 ? "?class=Tiny" : "");
    snprintf(body, sizeof body, "[\"%s\"]", command);
    return post(&emulator, path, body);
}

/* PUT /api/file/write-stream. */
static struct reply put(const char *box, const char *file, const char *content, size_t size)
{
    char headers[512];
    snprintf(headers, sizeof headers, "X-Sandbox-Id: %s\r\nX-File-Path: %s\r\n%s", box, file,
             strcmp(box, "tiny") == 0 ? "X-Sandbox-Class: Tiny\r\n" : "");
    return request_bytes(&emulator, "PUT", "/api/file/write-stream", headers, content, size);
}

/* Begins one and leaves the rest to the caller. */
static int put_begin(const char *box, const char *file, const char *length_line)
{
    char head[512];
    int fd = dial(&emulator);
    int size = snprintf(head, sizeof head,
                        "PUT /api/file/write-stream HTTP/1.1\r\nHost: localhost\r\nX-Sandbox-Id: "
                        "%s\r\nX-File-Path: %s\r\n%s\r\n\r\n",
                        box, file, length_line);
    send_all(fd, head, (size_t)size);
    return fd;
}

static long long inflight(const char *box)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s%s", box,
             strcmp(box, "tiny") == 0 ? "?class=Tiny" : "");
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return number_at(shown.json, "inflight");
}

static bool is_idle(void *box)
{
    return inflight(box) == 0;
}

static bool is_busy(void *box)
{
    return inflight(box) > 0;
}

/* Temporary files anywhere in the workspace. */
static bool has_temps(void *box)
{
    CLEANUP_REPLY struct reply found = shell(box, "find /workspace -name '*.tmp.*' | wc -l");
    return strcmp(text_at(found.json, "stdout"), "0") != 0;
}

static bool no_temps(void *box)
{
    return !has_temps(box);
}

static char *pattern(size_t size)
{
    char *data = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 2654435761U >> 13);
    return data;
}

/* What lands. */

TEST bytes_put_come_back_the_same(void)
{
    size_t size = 3 * MIB + 17;
    CLEANUP_FREE char *data = pattern(size);
    CLEANUP_REPLY struct reply w = put("up", "/workspace/new/deep/a.bin", data, size);
    char expected[256], value[64];
    ASSERT_EQm(keep(w.body), 200, w.status);
    snprintf(expected, sizeof expected,
             "{\"success\":true,\"path\":\"/workspace/new/deep/a.bin\",\"bytesWritten\":%zu,"
             "\"timestamp\":\"%s\"}",
             size, text_at(w.json, "timestamp"));
    ASSERT_STR_EQ(expected, w.body);
    CLEANUP_REPLY struct reply r =
        request(&emulator, "POST", "/api/file/read-binary", "X-Sandbox-Id: up\r\n",
                "{\"path\":\"/workspace/new/deep/a.bin\"}");
    ASSERT_EQ(200, r.status);
    ASSERT_EQ(size, r.size);
    ASSERT(memcmp(data, r.body, size) == 0);
    ASSERT_STR_EQ("application/octet-stream", header_of(&r, "Content-Type", value, sizeof value));
    ASSERT_STR_EQ("sandbox", header_of(&r, "Content-Security-Policy", value, sizeof value));
    CLEANUP_REPLY struct reply mode = shell("up", "stat -c %a /workspace/new/deep/a.bin");
    ASSERT_STR_EQ("644", text_at(mode.json, "stdout"));
    PASS();
}

TEST the_method_route_takes_and_gives_bytes_too(void)
{
    CLEANUP_REPLY struct reply w =
        request_bytes(&emulator, "POST", "/sandbox/up/writeFileStream?path=/workspace/m%20n.html",
                      NULL, "<p>\0hi", 7);
    ASSERT_EQm(keep(w.body), 200, w.status);
    ASSERT_EQ(7, number_at(w.json, "bytesWritten"));
    ASSERT_STR_EQ("/workspace/m n.html", text_at(w.json, "path"));
    CLEANUP_REPLY struct reply r = post(&emulator, "/sandbox/up/readFile",
                                        "[\"/workspace/m n.html\",{\"encoding\":\"none\"}]");
    char value[64];
    ASSERT_EQ(7, r.size);
    ASSERT(memcmp("<p>\0hi", r.body, 7) == 0);
    ASSERT_STR_EQ("text/html;charset=utf-8", header_of(&r, "Content-Type", value, sizeof value));
    CLEANUP_REPLY struct reply missing =
        post(&emulator, "/sandbox/up/readFile", "[\"/nope\",{\"encoding\":\"none\"}]");
    ASSERT_EQ(404, missing.status);
    ASSERT_STR_EQ("FILE_NOT_FOUND", text_at(missing.json, "code"));
    CLEANUP_REPLY struct reply get_ =
        request(&emulator, "GET", "/sandbox/up/writeFileStream?path=/workspace/x", NULL, NULL);
    ASSERT_EQ(405, get_.status);
    PASS();
}

TEST an_empty_file_and_a_file_of_proc_are_read(void)
{
    CLEANUP_REPLY struct reply w = put("up", "/workspace/empty", "", 0);
    ASSERT_EQ(200, w.status);
    char value[64];
    CLEANUP_REPLY struct reply e =
        post(&emulator, "/sandbox/up/readFile", "[\"/workspace/empty\",{\"encoding\":\"none\"}]");
    ASSERT_EQ(200, e.status);
    ASSERT_STR_EQ("0", header_of(&e, "Content-Length", value, sizeof value));
    CLEANUP_REPLY struct reply p =
        post(&emulator, "/sandbox/up/readFile", "[\"/proc/version\",{\"encoding\":\"none\"}]");
    ASSERTm(keep(p.body), strncmp(p.body, "Linux version", 13) == 0);
    static const char *const special[] = {"/dev/zero", "/workspace", "/dev/tty"};
    for (size_t i = 0; i < 3; i++) {
        char body[128];
        snprintf(body, sizeof body, "[\"%s\",{\"encoding\":\"none\"}]", special[i]);
        CLEANUP_REPLY struct reply s = post(&emulator, "/sandbox/up/readFile", body);
        ASSERTm(special[i], s.status >= 400);
    }
    PASS();
}

TEST the_mode_stays_and_a_link_is_replaced_not_followed(void)
{
    CLEANUP_REPLY struct reply prepare =
        shell("up", "cd /workspace; echo old > run.sh; chmod 6755 run.sh; echo kept > real; chmod "
                    "600 real; ln -sfn real link; ln -sfn nowhere dangling; cd -");
    static const char *const files[] = {"run.sh", "link", "dangling"};
    for (size_t i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "/workspace/%s", files[i]);
        CLEANUP_REPLY struct reply w = put("up", path, "new", 3);
        ASSERT_EQm(files[i], 200, w.status);
    }
    CLEANUP_REPLY struct reply now =
        shell("up", "cd /workspace; stat -c '%n %a %F' run.sh link dangling; cat real; test -e "
                    "nowhere || echo none; cd - >/dev/null");
    ASSERT_STR_EQ("run.sh 6755 regular file\nlink 600 regular file\ndangling 644 regular "
                  "file\nkept\nnone",
                  text_at(now.json, "stdout"));
    PASS();
}

TEST what_cannot_be_a_file_is_refused_and_leaves_nothing(void)
{
    CLEANUP_REPLY struct reply prepare =
        shell("up", "mkfifo /workspace/fifo; mkdir -p /workspace/dir; echo f > /workspace/f");
    static const struct {
        const char *path, *code;
    } rows[] = {
        {"/workspace/dir", "EISDIR"},      {"/workspace/dir/", "EISDIR"},
        {"/workspace/dir/..", "EISDIR"},   {"/workspace/fifo", "not a regular file"},
        {"/workspace/f/below", "ENOTDIR"}, {"/dev/null", "not a regular file"},
        {"/proc/self/mem", "Failed"},      {"/proc/new", "Failed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply w = put("up", rows[i].path, "x", 1);
        ASSERT_EQm(rows[i].path, 500, w.status);
        ASSERTm(keep(w.body), strstr(text_at(w.json, "error"), rows[i].code));
    }
    ASSERT_FALSE(has_temps("up"));
    PASS();
}

TEST a_name_too_long_for_a_suffix_is_still_a_name(void)
{
    char path[300] = "/workspace/";
    memset(path + 11, 'n', 255);
    path[266] = '\0';
    CLEANUP_REPLY struct reply w = put("up", path, "x", 1);
    ASSERT_EQm(keep(w.body), 200, w.status);
    path[266] = 'n';
    path[267] = '\0';
    CLEANUP_REPLY struct reply longer = put("up", path, "x", 1);
    ASSERT_EQ(500, longer.status);
    PASS();
}

TEST relative_paths_start_where_the_session_is(void)
{
    CLEANUP_REPLY struct reply made =
        post(&emulator, "/sandbox/up/createSession", "[{\"id\":\"s\",\"cwd\":\"/tmp\"}]");
    CLEANUP_REPLY struct reply there =
        post(&emulator, "/sandbox/up/exec",
             "[\"mkdir -p /tmp/here && cd /tmp/here\",{\"session\":\"s\"}]");
    CLEANUP_REPLY struct reply w = request_bytes(
        &emulator, "PUT", "/api/file/write-stream",
        "X-Sandbox-Id: up\r\nX-Session-Id: s\r\nX-File-Path: sub/rel.txt\r\n", "rel", 3);
    ASSERT_EQm(keep(w.body), 200, w.status);
    ASSERT_STR_EQ("sub/rel.txt", text_at(w.json, "path"));
    CLEANUP_REPLY struct reply seen = shell("up", "cat /tmp/here/sub/rel.txt");
    ASSERT_STR_EQ("rel", text_at(seen.json, "stdout"));
    CLEANUP_REPLY struct reply gone =
        post(&emulator, "/sandbox/up/exec", "[\"rm -r /tmp/here\",{\"session\":\"s\"}]");
    CLEANUP_REPLY struct reply nowhere =
        request_bytes(&emulator, "PUT", "/api/file/write-stream",
                      "X-Sandbox-Id: up\r\nX-Session-Id: s\r\nX-File-Path: rel.txt\r\n", "rel", 3);
    ASSERT_EQ(500, nowhere.status);
    PASS();
}

/* A session that changes directory while the bytes come does not change where they go. */
TEST a_cd_meanwhile_does_not_move_the_file(void)
{
    CLEANUP_REPLY struct reply home = shell("up", "mkdir -p /workspace/w1 /workspace/w2; cd w1");
    int fd = put_begin("up", "moving", "Content-Length: 6");
    send_all(fd, "abc", 3);
    ASSERT(eventually(has_temps, (void *)"up", PROMPT_MS));
    CLEANUP_REPLY struct reply cd = shell("up", "cd /workspace/w2");
    send_all(fd, "def", 3);
    CLEANUP_REPLY struct reply w = read_reply(fd);
    close(fd);
    ASSERT_EQ(200, w.status);
    CLEANUP_REPLY struct reply seen = shell("up", "cat ../w1/moving; ls; cd /workspace");
    ASSERT_STR_EQ("abcdef", text_at(seen.json, "stdout"));
    PASS();
}

/* Headers. */

TEST a_path_in_a_header_is_text_without_control_bytes(void)
{
    static const struct {
        const char *value;
        size_t size;
        int status;
    } rows[] = {
        {"/workspace/a\0b", 14, 400},      {"/workspace/a\x01z", 14, 400},
        {"/workspace/a\x7fz", 14, 400},    {"/workspace/a\nX: y", 17, 400},
        {"/workspace/\xff\xfe", 13, 400},  {"", 0, 400},
        {"/workspace/h\xc3\xa9", 14, 200},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char bytes[512];
        int size =
            snprintf(bytes, sizeof bytes,
                     "PUT /api/file/write-stream HTTP/1.1\r\nHost: localhost\r\nX-Sandbox-Id: "
                     "up\r\nContent-Length: 1\r\nConnection: close\r\nX-File-Path: ");
        memcpy(bytes + size, rows[i].value, rows[i].size);
        memcpy(bytes + size + rows[i].size, "\r\n\r\nx", 5);
        CLEANUP_REPLY struct reply r =
            raw(&emulator, bytes, (size_t)size + rows[i].size + 5, PROMPT_MS);
        char which[16];
        snprintf(which, sizeof which, "row %zu", i);
        ASSERT_EQm(keep(which), rows[i].status, r.status);
        ASSERTm(keep(which), r.json && (r.status == 200 || *text_at(r.json, "error")));
    }
    PASS();
}

TEST without_a_path_or_a_body_it_is_400(void)
{
    CLEANUP_REPLY struct reply a =
        request_bytes(&emulator, "PUT", "/api/file/write-stream", "X-Sandbox-Id: up\r\n", "x", 1);
    ASSERT_EQ(400, a.status);
    ASSERT_STR_EQ("X-File-Path header and body required", text_at(a.json, "error"));
    static const char bare[] = "PUT /api/file/write-stream HTTP/1.1\r\nHost: localhost\r\n"
                               "X-File-Path: /workspace/n\r\nConnection: close\r\n\r\n";
    CLEANUP_REPLY struct reply b = raw(&emulator, bare, sizeof bare - 1, PROMPT_MS);
    ASSERT_EQ(400, b.status);
    PASS();
}

TEST other_routes_still_refuse_large_bodies(void)
{
    static const char *const paths[] = {"/api/file/write", "/sandbox/up/writeFile",
                                        "/sandbox/up/nope", "/nope"};
    for (size_t i = 0; i < 4; i++) {
        char head[256];
        int size = snprintf(
            head, sizeof head,
            "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000000\r\n\r\n", paths[i]);
        CLEANUP_REPLY struct reply r = raw(&emulator, head, (size_t)size, PROMPT_MS);
        ASSERT_EQm(paths[i], 413, r.status);
    }
    PASS();
}

/* Framing. */

TEST chunks_of_any_size_add_up(void)
{
    int fd = put_begin("up", "/workspace/chunks", "Transfer-Encoding: chunked");
    CLEANUP_FREE char *data = pattern(70000);
    for (size_t i = 0, size = 1; i < 70000; i += size, size = size * 3 + 1) {
        char line[32];
        if (size > 70000 - i)
            size = 70000 - i;
        snprintf(line, sizeof line, "%zx;ext=1\r\n", size);
        send_all(fd, line, strlen(line));
        send_all(fd, data + i, size);
        send_all(fd, "\r\n", 2);
    }
    send_all(fd, "0\r\n\r\n", 5);
    CLEANUP_REPLY struct reply w = read_reply(fd);
    ASSERT_EQ(200, w.status);
    ASSERT_EQ(70000, number_at(w.json, "bytesWritten"));
    /* The connection can be used on. */
    static const char next[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    send_all(fd, next, sizeof next - 1);
    CLEANUP_REPLY struct reply after = read_reply(fd);
    ASSERT_EQ(200, after.status);
    close(fd);
    CLEANUP_REPLY struct reply r =
        post(&emulator, "/sandbox/up/readFile", "[\"/workspace/chunks\",{\"encoding\":\"none\"}]");
    ASSERT(r.size == 70000 && memcmp(r.body, data, 70000) == 0);
    PASS();
}

TEST broken_framing_leaves_the_old_file(void)
{
    static const struct {
        const char *length, *body;
        bool close;
    } rows[] = {
        {"Transfer-Encoding: chunked", "5\r\nabcdeXX", false},
        {"Transfer-Encoding: chunked", "zz\r\nabc", false},
        {"Transfer-Encoding: chunked", "ffffffffffffffffff\r\nabc", false},
        {"Transfer-Encoding: chunked", "5\r\nab", true},
        {"Transfer-Encoding: chunked", "3\r\nabc\r\n", true},
        {"Content-Length: 100", "only this", true},
        {"Content-Length: 9223372036854775807", "only this", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply old = put("up", "/workspace/old", "old", 3);
        int fd = put_begin("up", "/workspace/old", rows[i].length);
        send_all(fd, rows[i].body, strlen(rows[i].body));
        CLEANUP_REPLY struct reply refused = {0};
        if (!rows[i].close)
            refused = read_reply(fd);
        close(fd);
        char which[16];
        snprintf(which, sizeof which, "row %zu", i);
        ASSERTm(keep(which), eventually(is_idle, (void *)"up", PROMPT_MS));
        ASSERTm(keep(which), eventually(no_temps, (void *)"up", PROMPT_MS));
        CLEANUP_REPLY struct reply kept = shell("up", "cat /workspace/old");
        ASSERT_STR_EQm(keep(which), "old", text_at(kept.json, "stdout"));
    }
    PASS();
}

TEST bytes_behind_the_body_are_the_next_request(void)
{
    static const char bytes[] =
        "PUT /api/file/write-stream HTTP/1.1\r\nHost: localhost\r\nX-Sandbox-Id: up\r\n"
        "X-File-Path: /workspace/two\r\nContent-Length: 3\r\n\r\nabcGET /health HTTP/1.1\r\n"
        "Host: localhost\r\nConnection: close\r\n\r\n";
    int fd = dial(&emulator);
    send_all(fd, bytes, sizeof bytes - 1);
    CLEANUP_REPLY struct reply all = {0};
    char text[4096];
    size_t used = 0;
    ssize_t got;
    while (used < sizeof text - 1 && (got = recv(fd, text + used, sizeof text - 1 - used, 0)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(fd);
    ASSERTm(keep(text), strstr(text, "\"bytesWritten\":3"));
    ASSERTm(keep(text), strstr(text, "{\"status\":\"ok\"}"));
    PASS();
}

/* Clients. */

TEST a_client_that_vanishes_leaves_nothing(void)
{
    CLEANUP_REPLY struct reply old = put("up", "/workspace/v", "old", 3);
    CLEANUP_FREE char *data = pattern(MIB);
    int fd = put_begin("up", "/workspace/v", "Content-Length: 100000000");
    send_all(fd, data, MIB);
    ASSERT(eventually(has_temps, (void *)"up", PROMPT_MS));
    ASSERT(eventually(is_busy, (void *)"up", PROMPT_MS));
    close(fd);
    ASSERT(eventually(no_temps, (void *)"up", PROMPT_MS));
    ASSERT(eventually(is_idle, (void *)"up", PROMPT_MS));
    CLEANUP_REPLY struct reply kept = shell("up", "cat /workspace/v");
    ASSERT_STR_EQ("old", text_at(kept.json, "stdout"));
    PASS();
}

TEST a_client_that_stalls_is_ended_by_its_deadline(void)
{
    int before = emulator_files(&emulator);
    int fd = put_begin("up", "/workspace/stalled", "Content-Length: 100");
    send_all(fd, "a", 1);
    ASSERT(eventually(has_temps, (void *)"up", PROMPT_MS));
    long long start = test_ms();
    char byte;
    ASSERT(recv(fd, &byte, 1, 0) <= 0);
    ASSERT(test_ms() - start < BODY_MS + PROMPT_MS);
    close(fd);
    ASSERT(eventually(no_temps, (void *)"up", PROMPT_MS));
    ASSERT(eventually(is_idle, (void *)"up", PROMPT_MS));
    CLEANUP_REPLY struct reply gone = shell("up", "test -e /workspace/stalled || echo none");
    ASSERT_STR_EQ("none", text_at(gone.json, "stdout"));
    ASSERT(emulator_files(&emulator) <= before + 2);
    PASS();
}

/* Longer than the deadline: the client is not slow, its turn has not come. */
TEST a_client_is_held_back_while_its_session_is_busy(void)
{
    CLEANUP_REPLY struct reply made =
        post(&emulator, "/sandbox/up/createSession", "[{\"id\":\"busy\"}]");
    pid_t child = fork();
    if (child == 0) {
        post(&emulator, "/sandbox/up/exec", "[\"sleep 3\",{\"session\":\"busy\"}]");
        _exit(0);
    }
    ASSERT(eventually(is_busy, (void *)"up", PROMPT_MS));
    size_t size = 4 * MIB;
    CLEANUP_FREE char *data = pattern(size);
    CLEANUP_REPLY struct reply w = request_bytes(
        &emulator, "PUT", "/api/file/write-stream",
        "X-Sandbox-Id: up\r\nX-Session-Id: busy\r\nX-File-Path: late\r\n", data, size);
    waitpid(child, NULL, 0);
    ASSERT_EQm(keep(w.body ? w.body : "no answer"), 200, w.status);
    ASSERT_EQ(size, (size_t)number_at(w.json, "bytesWritten"));
    PASS();
}

/* Sends until the other side wants no more; then reads. */
TEST an_endless_upload_that_cannot_succeed_is_answered(void)
{
    CLEANUP_FREE char *data = pattern(MIB);
    int fd = put_begin("up", "/workspace/dir", "Transfer-Encoding: chunked");
    for (int i = 0; i < 1000; i++) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        if (poll(&poller, 1, 0) > 0)
            break;
        if (send_all(fd, "100000\r\n", 8) < 0 || send_all(fd, data, MIB) < 0 ||
            send_all(fd, "\r\n", 2) < 0)
            break;
    }
    CLEANUP_REPLY struct reply r = read_reply(fd);
    close(fd);
    ASSERT_EQ(500, r.status);
    ASSERT_STR_EQ("FILESYSTEM_ERROR", text_at(r.json, "code"));
    ASSERT(eventually(is_idle, (void *)"up", PROMPT_MS));
    PASS();
}

TEST a_container_that_goes_meanwhile_ends_both_directions(void)
{
    CLEANUP_REPLY struct reply big = shell("goes", "head -c 64M /dev/zero > /workspace/z");
    ASSERT_EQ(200, big.status);
    int up = put_begin("goes", "/workspace/u", "Content-Length: 1000000");
    send_all(up, "abc", 3);
    ASSERT(eventually(has_temps, (void *)"goes", PROMPT_MS));
    static const char read[] =
        "POST /sandbox/goes/readFile HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Length: 36\r\n\r\n[\"/workspace/z\",{\"encoding\":\"none\"}]";
    int down = dial(&emulator);
    send_all(down, read, sizeof read - 1);
    char head[4096];
    ASSERT(recv(down, head, sizeof head, 0) > 0);
    CLEANUP_REPLY struct reply ended = post(&emulator, "/sandbox/goes/destroy", "[]");
    ASSERT_EQ(200, ended.status);
    CLEANUP_REPLY struct reply answer = read_reply(up);
    close(up);
    ASSERT_EQ(409, answer.status);
    ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(answer.json, "code"));
    long long total = 0;
    CLEANUP_FREE char *bytes = malloc(MIB);
    ssize_t got;
    while ((got = recv(down, bytes, MIB, 0)) > 0)
        total += got;
    close(down);
    ASSERTm("what is missing must not look whole", total < 64LL * MIB);
    ASSERT(eventually(is_idle, (void *)"goes", PROMPT_MS));
    PASS();
}

TEST a_file_that_shrinks_breaks_the_answer(void)
{
    CLEANUP_REPLY struct reply big = shell("up", "head -c 64M /dev/zero > /workspace/z");
    static const char read[] =
        "POST /sandbox/up/readFile HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Length: 36\r\n\r\n[\"/workspace/z\",{\"encoding\":\"none\"}]"
        "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int down = dial(&emulator);
    send_all(down, read, sizeof read - 1);
    CLEANUP_FREE char *bytes = malloc(MIB);
    ASSERT(recv(down, bytes, 4096, 0) > 0);
    CLEANUP_REPLY struct reply cut = shell("up", ": > /workspace/z");
    long long total = 0;
    ssize_t got;
    bool text = false;
    while ((got = recv(down, bytes, MIB, 0)) > 0) {
        total += got;
        text |= memchr(bytes, 'H', (size_t)got) != NULL;
    }
    close(down);
    ASSERT(total < 64LL * MIB);
    ASSERT_FALSEm("the next answer must not be taken for the rest", text);
    ASSERT(eventually(is_idle, (void *)"up", PROMPT_MS));
    PASS();
}

/* Disks. */

TEST a_full_disk_loses_neither_file_nor_room(void)
{
    CLEANUP_REPLY struct reply prepare =
        shell("tiny", "echo old > /workspace/o; head -c 200k /dev/urandom > /workspace/w; md5sum < "
                      "/workspace/w > /tmp/sum; df --output=avail /workspace | tail -1");
    CLEANUP_FREE char *data = pattern(40 * MIB);
    CLEANUP_REPLY struct reply up = put("tiny", "/workspace/o", data, 40 * MIB);
    ASSERT_EQm(keep(up.body ? up.body : "no answer"), 500, up.status);
    ASSERTm(keep(up.body), strstr(text_at(up.json, "error"), "ENOSPC"));
    ASSERT(eventually(no_temps, (void *)"tiny", PROMPT_MS));
    /* writeFile: over a file, and a new one. */
    memset(data, 'x', 20 * MIB);
    static const char *const paths[] = {"/workspace/w", "/workspace/n"};
    for (int i = 0; i < 2; i++) {
        CLEANUP_FREE char *body = malloc(21 * MIB);
        int used = snprintf(body, 100, "[\"%s\",\"", paths[i]);
        memcpy(body + used, data, 20 * MIB);
        memcpy(body + used + 20 * MIB, "\"]", 3);
        CLEANUP_REPLY struct reply w = post(&emulator, "/sandbox/tiny/writeFile?class=Tiny", body);
        ASSERT_EQ(500, w.status);
        ASSERT_STR_EQ("NO_SPACE", text_at(w.json, "code"));
    }
    CLEANUP_REPLY struct reply after =
        shell("tiny", "cat /workspace/o; md5sum < /workspace/w | cmp - /tmp/sum && ls /workspace; "
                      "df --output=avail /workspace | tail -1 >&2");
    ASSERT_STR_EQm(keep(after.body), "old\no\nw", text_at(after.json, "stdout"));
    const char *room = strrchr(text_at(prepare.json, "stdout"), '\n');
    ASSERT_STR_EQ(room ? room + 1 : text_at(prepare.json, "stdout"), text_at(after.json, "stderr"));
    PASS();
}

TEST writes_over_a_file_keep_its_inode_and_leave_no_tail(void)
{
    CLEANUP_REPLY struct reply prepare =
        shell("up", "cd /workspace; head -c 300k /dev/zero > t; chmod 640 t; ln -f t other; stat "
                    "-c '%i %a' t; cd - >/dev/null");
    CLEANUP_FREE char *body = malloc(MIB);
    for (int size = 100000; size > 0; size = size == 1 ? 0 : size == 100 ? 1 : 100) {
        int used = snprintf(body, 100, "[\"/workspace/t\",\"");
        memset(body + used, 'y', (size_t)size);
        memcpy(body + used + size, "\"]", 3);
        CLEANUP_REPLY struct reply w = post(&emulator, "/sandbox/up/writeFile", body);
        ASSERT_EQ(200, w.status);
        char expected[64];
        snprintf(expected, sizeof expected, "%d\n%s", size, text_at(prepare.json, "stdout"));
        CLEANUP_REPLY struct reply now = shell("up", "tr -d -c y < /workspace/other | wc -c; stat "
                                                     "-c '%i %a' /workspace/t");
        ASSERT_STR_EQ(expected, text_at(now.json, "stdout"));
    }
    PASS();
}

/* The sandbox. */

/* A process that plays with every name the emulator uses meanwhile. */
static const char swapper[] =
    "mkdir -p /workspace/race /workspace/race.d; cd /workspace/race; (for i in $(seq 1 4000); do "
    "for f in t.tmp.*; do case $i in *1) ln -sfn %s $f;; *2) rm -f $f;; esac; done 2>/dev/null; "
    "case $i in *[048]) ln -sfn %s t;; *[159]) ln -sfn /workspace/race.d t;; *[26]) rm -rf t; "
    "mkdir "
    "t;; *) rm -rf t; echo f > t;; esac; done) >/dev/null 2>&1 & cd /workspace";

TEST names_that_change_meanwhile_never_lead_out(void)
{
    char canary[128], command[2048];
    snprintf(canary, sizeof canary, "%s/canary", emulator.dir);
    FILE *file = fopen(canary, "w");
    fputs("host", file);
    fclose(file);
    snprintf(command, sizeof command, swapper, canary, canary);
    CLEANUP_REPLY struct reply started = shell("swap", command);
    ASSERT_EQ(200, started.status);
    int landed = 0, refused = 0;
    for (int i = 0; i < 150; i++) {
        CLEANUP_REPLY struct reply w = put("swap", "/workspace/race/t", "sandbox", 7);
        ASSERTm(keep(w.body ? w.body : "no answer"), w.status == 200 || w.status == 500);
        *(w.status == 200 ? &landed : &refused) += 1;
    }
    ASSERT(landed > 0);
    char got[16] = "";
    file = fopen(canary, "r");
    if (fgets(got, sizeof got, file) == NULL)
        got[0] = '\0';
    fclose(file);
    ASSERT_STR_EQ("host", got);
    CLEANUP_REPLY struct reply inside = shell("swap", "ls /workspace/race.d | wc -l");
    ASSERT_STR_EQm("nothing is moved into a directory", "0", text_at(inside.json, "stdout"));
    CLEANUP_REPLY struct reply end = post(&emulator, "/sandbox/swap/destroy", "[]");
    ASSERT_EQ(200, end.status);
    PASS();
}

/* Sizes. */

static bool is_long(void)
{
    const char *which = getenv("SANDPIT_COUNTS");
    return which && strcmp(which, "long") == 0;
}

TEST a_large_file_goes_in_and_out_with_flat_memory(void)
{
    long long size = (is_long() ? 1024LL : 64) * MIB;
    CLEANUP_REPLY struct reply warm = put("flat", "/workspace/warm", "x", 1);
    ASSERT_EQ(200, warm.status);
    long before = emulator_memory(&emulator, "VmHWM");
    CLEANUP_FREE char *data = pattern(MIB);
    char line[64];
    snprintf(line, sizeof line, "Content-Length: %lld", size);
    int fd = put_begin("flat", "/workspace/big", line);
    for (long long i = 0; i < size; i += MIB)
        ASSERT_EQ(0, send_all(fd, data, MIB));
    CLEANUP_REPLY struct reply w = read_reply(fd);
    close(fd);
    ASSERT_EQm(keep(w.body ? w.body : "no answer"), 200, w.status);
    ASSERT_EQ(size, number_at(w.json, "bytesWritten"));
    static const char read[] =
        "POST /sandbox/flat/readFile HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Length: 38\r\n\r\n[\"/workspace/big\",{\"encoding\":\"none\"}]";
    fd = dial(&emulator);
    send_all(fd, read, sizeof read - 1);
    CLEANUP_FREE char *bytes = malloc(MIB);
    long long total = 0;
    bool same = true;
    ssize_t got = recv(fd, bytes, 4096, 0);
    char *body = got > 0 ? memmem(bytes, (size_t)got, "\r\n\r\n", 4) : NULL;
    ASSERT(body);
    got -= body + 4 - bytes;
    memmove(bytes, body + 4, (size_t)got);
    do {
        for (ssize_t i = 0; i < got; i += 997)
            same &= bytes[i] == data[(total + i) % MIB];
        total += got;
    } while ((got = recv(fd, bytes, MIB, 0)) > 0);
    close(fd);
    ASSERT_EQ(size, total);
    ASSERT(same);
    long after = emulator_memory(&emulator, "VmHWM");
    printf("  %lld MiB in and out: the emulator's peak grew by %ld KiB\n", size / MIB,
           after - before);
    ASSERT(after - before < GROWTH_KIB);
    CLEANUP_REPLY struct reply end = post(&emulator, "/sandbox/flat/destroy", "[]");
    PASS();
}

SUITE(upload)
{
    RUN_TEST(a_large_file_goes_in_and_out_with_flat_memory);
    RUN_TEST(bytes_put_come_back_the_same);
    RUN_TEST(the_method_route_takes_and_gives_bytes_too);
    RUN_TEST(an_empty_file_and_a_file_of_proc_are_read);
    RUN_TEST(the_mode_stays_and_a_link_is_replaced_not_followed);
    RUN_TEST(what_cannot_be_a_file_is_refused_and_leaves_nothing);
    RUN_TEST(a_name_too_long_for_a_suffix_is_still_a_name);
    RUN_TEST(relative_paths_start_where_the_session_is);
    RUN_TEST(a_cd_meanwhile_does_not_move_the_file);
    RUN_TEST(a_path_in_a_header_is_text_without_control_bytes);
    RUN_TEST(without_a_path_or_a_body_it_is_400);
    RUN_TEST(other_routes_still_refuse_large_bodies);
    RUN_TEST(chunks_of_any_size_add_up);
    RUN_TEST(broken_framing_leaves_the_old_file);
    RUN_TEST(bytes_behind_the_body_are_the_next_request);
    RUN_TEST(a_client_that_vanishes_leaves_nothing);
    RUN_TEST(a_client_that_stalls_is_ended_by_its_deadline);
    RUN_TEST(a_client_is_held_back_while_its_session_is_busy);
    RUN_TEST(an_endless_upload_that_cannot_succeed_is_answered);
    RUN_TEST(a_container_that_goes_meanwhile_ends_both_directions);
    RUN_TEST(a_file_that_shrinks_breaks_the_answer);
    RUN_TEST(a_full_disk_loses_neither_file_nor_room);
    RUN_TEST(writes_over_a_file_keep_its_inode_and_leave_no_tail);
    RUN_TEST(names_that_change_meanwhile_never_lead_out);
}

static int start(void)
{
    char path[128];
    snprintf(emulator.dir, sizeof emulator.dir, "/tmp/sandpit-test-XXXXXX");
    if (!mkdtemp(emulator.dir))
        return -errno;
    snprintf(path, sizeof path, "%s/wrangler.jsonc", emulator.dir);
    FILE *file = fopen(path, "w");
    if (!file)
        return -errno;
    fputs(project, file);
    fclose(file);
    return emulator_start(&emulator, arguments);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP upload: %s\n", missing);
        return 77;
    }
    if (start() < 0) {
        printf("the emulator did not start: see %s\n", emulator.log);
        return 1;
    }
    RUN_SUITE(upload);
    if (emulator_stop(&emulator) != 0) {
        printf("the emulator did not end cleanly: see %s\n", emulator.log);
        return 1;
    }
    emulator_clean(&emulator);
    GREATEST_MAIN_END();
}
