/* Raw bytes whatever the client, the disk or the sandbox does meanwhile, and no more memory for a
 * large file than for a small one. */
#include "upload_box.h"

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
    CLEANUP_REPLY struct reply made = shell("up", "mkdir -p /workspace/dir");
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

SUITE(upload_abuse)
{
    RUN_TEST(a_large_file_goes_in_and_out_with_flat_memory);
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

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP upload_abuse: %s\n", missing);
        return 77;
    }
    if (start() < 0) {
        printf("the emulator did not start: see %s\n", emulator.log);
        return 1;
    }
    RUN_SUITE(upload_abuse);
    if (emulator_stop(&emulator) != 0) {
        printf("the emulator did not end cleanly: see %s\n", emulator.log);
        return 1;
    }
    emulator_clean(&emulator);
    GREATEST_MAIN_END();
}
