/* Files as plain bytes in both directions: the whole content or nothing. */
#include "upload_box.h"

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

SUITE(upload)
{
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
