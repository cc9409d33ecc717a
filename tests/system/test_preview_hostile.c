/* Servers behind a preview that never come to an end, and WebSockets that are no good: ABUSE.md E6,
 * E7; ports that are nobody's: F3, F5. */
#include "preview_box.h"

/* What the server in the sandbox does, by path; it goes on until its connection is closed, and then
 * leaves a file. */
static const char hostile_js[] =
    "const net=require('net'),fs=require('fs');"
    "const heads={'/head':'HTTP/1.1 200 OK\\r\\n','/hints':'','/cut':'HTTP/1.1 200 OK\\r\\n"
    "Content-Length: 20\\r\\n\\r\\nhalf','/chunk':'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: "
    "chunked\\r\\n\\r\\n9\\r\\nhalf','/sleep':'','/body':'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: "
    "chunked\\r\\n\\r\\n'};"
    "const more={'/head':'X-More: '+'x'.repeat(1000)+'\\r\\n','/hints':'HTTP/1.1 102 "
    "Processing\\r\\n\\r\\n','/body':'400\\r\\n'+'x'.repeat(1024)+'\\r\\n'};"
    "net.createServer(c=>{c.on('error',()=>0);c.once('data',d=>{"
    "const p=/ (\\/[a-z]*)/.exec(d.toString())[1];"
    "c.on('close',()=>fs.writeFileSync('/tmp/left-'+p.slice(1),''));c.resume();"
    "c.write(heads[p]);if(p=='/cut'||p=='/chunk')return c.end();if(!more[p])return;"
    "const w=()=>{while(!c.destroyed&&c.write(more[p]));};c.on('drain',w);w();});})"
    ".listen(8200,()=>console.log('up'));";

static const char *start_hostile(void)
{
    CLEANUP_JSON json_t *write = json_pack("[s, s]", "/workspace/hostile.js", hostile_js);
    CLEANUP_FREE char *text = json_dumps(write, 0);
    CLEANUP_REPLY struct reply written = post(&emulator, "/sandbox/h/writeFile", text);
    CLEANUP_REPLY struct reply run =
        post(&emulator, "/sandbox/h/exec",
             "[\"node hostile.js >hostile.log 2>&1 & for i in $(seq 200); do grep -q up "
             "hostile.log && exit 0; sleep 0.05; done; cat hostile.log; exit 1\", "
             "{\"enableDefaultSession\": false}]");
    return number_at(run.json, "exitCode") == 0 ? expose("h", 8200, "bad") : keep(run.body);
}

/* Whether the server has seen the end of its connection. */
static bool has_left(void *name)
{
    char body[96];
    snprintf(body, sizeof body, "[\"/tmp/left-%s\"]", (const char *)name);
    CLEANUP_REPLY struct reply r = post(&emulator, "/sandbox/h/exists", body);
    return r.json && json_is_true(at(r.json, "exists"));
}

static int ask_hostile(const char *name)
{
    char text[160];
    int size =
        snprintf(text, sizeof text, "GET /%s HTTP/1.1\r\nHost: 8200-h-bad.localhost\r\n\r\n", name);
    int fd = dial(&emulator);
    if (fd >= 0 && send_all(fd, text, (size_t)size) < 0)
        cleanup_fd(&fd);
    return fd;
}

TEST heads_without_end_are_a_502_and_their_server_is_left(void)
{
    static const char *const names[] = {"head", "hints"};
    long before = emulator_memory(&emulator, "VmRSS");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char got[32768] = "";
        CLEANUP_FD int fd = ask_hostile(names[i]);
        ASSERT(fd >= 0);
        ASSERTm(names[i], reads(fd, "HTTP/1.1 502 ", got, sizeof got));
        ASSERTm(names[i], is_closed(fd));
        ASSERTm(names[i], eventually(has_left, (void *)names[i], 5000));
    }
    ASSERT_EQ(0, inflight("h"));
    ASSERT(emulator_memory(&emulator, "VmRSS") - before < 4096 * MEMORY_FACTOR);
    PASS();
}

TEST an_answer_that_is_cut_does_not_look_whole(void)
{
    static const char *const names[] = {"cut", "chunk"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char got[4096] = "";
        CLEANUP_FD int fd = ask_hostile(names[i]);
        ASSERT(fd >= 0);
        ASSERTm(names[i], reads(fd, "half", got, sizeof got));
        ASSERTm(names[i], is_closed(fd));
        ASSERT(ends_with(got, "half"));
    }
    ASSERT(eventually(nothing_in_flight, (void *)"h", 5000));
    PASS();
}

/* The emulator gives up after five minutes, see unit/test_proxy.c; clients do so before. */
TEST a_server_that_never_answers_is_left_with_its_client(void)
{
    static const char *const names[] = {"sleep", "body"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CLEANUP_FD int fd = ask_hostile(names[i]);
        ASSERT(fd >= 0);
        for (int tries = 0; tries < 500 && inflight("h") < 1; tries++)
            poll(NULL, 0, 10);
        ASSERT_EQ(1, inflight("h"));
        CLEANUP_REPLY struct reply other = visit("h", "/"); /* nobody else waits for it */
        ASSERT_EQ(200, other.status);
        close(steal_fd(&fd));
        ASSERTm(names[i], eventually(has_left, (void *)names[i], 5000));
        ASSERT(eventually(nothing_in_flight, (void *)"h", 5000));
    }
    PASS();
}

/* Sends all of it while it reads all of the echo; whether that is the same. */
static bool echoes(int fd, const char *data, size_t size)
{
    size_t sent = 0, got = 0;
    char piece[65536];
    long long until = test_ms() + 30000;
    while (got < size && test_ms() < until) {
        struct pollfd ready = {.fd = fd, .events = (short)(POLLIN | (sent < size ? POLLOUT : 0))};
        if (poll(&ready, 1, 1000) <= 0)
            continue;
        if (sent < size && (ready.revents & POLLOUT)) {
            ssize_t n = send(fd, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            sent += n > 0 ? (size_t)n : 0;
        }
        if (!(ready.revents & (POLLIN | POLLHUP)))
            continue;
        ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n <= 0 || got + (size_t)n > size || memcmp(piece, data + got, (size_t)n) != 0)
            return false;
        got += (size_t)n;
    }
    return got == size;
}

/* Pings, masked ones and wrongly unmasked ones; a browser's close without a code (1005). */
TEST a_flood_of_pings_passes_and_leaves_nothing(void)
{
    enum { PINGS = 400000 };
    static const char ping[] = {'\x89', '\x80', 1, 2, 3, 4, '\x89', 0};
    static const char close_frame[] = {'\x88', '\x80', 1, 2, 3, 4};
    char head[4096];
    CLEANUP_FREE char *flood = malloc(sizeof ping * PINGS);
    CLEANUP_FD int fd = upgrade_at("8080-h-tok.localhost", "", head, sizeof head);
    ASSERTm(keep(head), flood && fd >= 0);
    for (size_t i = 0; i < PINGS; i++)
        memcpy(flood + i * sizeof ping, ping, sizeof ping);
    long before = emulator_memory(&emulator, "VmRSS");
    ASSERT(echoes(fd, flood, sizeof ping * PINGS));
    ASSERT(emulator_memory(&emulator, "VmRSS") - before < 4096 * MEMORY_FACTOR);
    ASSERT(echoes(fd, close_frame, sizeof close_frame));
    CLEANUP_REPLY struct reply r = visit("h", "/");
    ASSERT_EQ(200, r.status);
    PASS();
}

TEST frames_that_come_byte_by_byte_pass(void)
{
    static const char frame[] = {'\x81', '\x85', 9, 9, 9, 9, 'a', 'b', 'c', 'd', 'e'};
    char head[4096];
    CLEANUP_FD int fd = upgrade_at("8080-h-tok.localhost", "", head, sizeof head);
    ASSERT(fd >= 0);
    for (size_t i = 0; i < 50 * sizeof frame; i++)
        ASSERT(echoes(fd, &frame[i % sizeof frame], 1));
    PASS();
}

/* F5. What is in the query comes back as it is: "HTTP/1.1 204 No". */
TEST a_port_that_listens_is_out_of_reach_until_it_is_exposed(void)
{
    static const char answer[] = "?485454502f312e3120323034204e6f0d0a0d0a";
    static const char host[] = "Host: 8090-h-tok90.localhost\r\n";
    char head[4096], plain[128], by_path[128], inside[128];
    snprintf(plain, sizeof plain, "/%s", answer);
    snprintf(inside, sizeof inside, "8090/%s", answer);
    snprintf(by_path, sizeof by_path, "/cdn-cgi/local/preview/8090-h-tok90/%s", answer);
    CLEANUP_REPLY struct reply there = ask("GET", "h", inside, NULL);
    ASSERT_EQ(204, there.status);
    CLEANUP_REPLY struct reply hidden = request(&emulator, "GET", plain, host, NULL);
    ASSERT_EQ(404, hidden.status);
    CLEANUP_REPLY struct reply path_hidden = get(&emulator, by_path);
    ASSERT_EQ(404, path_hidden.status);
    ASSERT_EQ(404, status_at("8090-h-tok.localhost")); /* the token of another port */
    ASSERT_EQ(-1, upgrade_at("8090-h-tok90.localhost", "", head, sizeof head));
    ASSERT_EQ(0, strncmp(head, "HTTP/1.1 404 ", 13));
    ASSERT_EQ(NULL, expose("h", 8090, "tok90"));
    CLEANUP_REPLY struct reply exposed = request(&emulator, "GET", plain, host, NULL);
    ASSERT_EQ(204, exposed.status);
    CLEANUP_REPLY struct reply path_exposed = get(&emulator, by_path);
    ASSERT_EQ(204, path_exposed.status);
    PASS();
}

/* F3. */
TEST names_are_split_at_the_right_hyphens(void)
{
    static const char *const ids[] = {"a-b", "box-8080", "8080-1", "1", "x--y", "box-tok"};
    char host[96];
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const char *failed = expose(ids[i], 8080, "tok");
        ASSERT_EQm(ids[i], NULL, failed);
        snprintf(host, sizeof host, "8080-%s-tok.localhost", ids[i]);
        ASSERT_STR_EQm(ids[i], "SERVICE_NOT_RESPONDING", code_at(host)); /* found */
    }
    ASSERT_STR_EQ("INVALID_TOKEN", code_at("8080-box-tok.localhost"));
    ASSERT_STR_EQ("INVALID_TOKEN", code_at("8080-a-tok.localhost"));
    ASSERT_STR_EQ("INVALID_TOKEN", code_at("8080-b-tok.localhost"));
    PASS();
}

/* The emulator's own port number is any other port in a sandbox; 3000 is the container's own. */
TEST the_ports_of_the_emulator_are_not_behind_a_preview(void)
{
    char host[64];
    ASSERT_EQ(NULL, expose("h", emulator.port, "own"));
    snprintf(host, sizeof host, "%d-h-own.localhost:%d", emulator.port, emulator.port);
    ASSERT_EQ(500, status_at(host));
    ASSERT_STR_EQ("SERVICE_NOT_RESPONDING", code_at(host));
    ASSERT_EQ(404, status_at("3000-h-tok.localhost"));
    PASS();
}

SUITE(preview_hostile)
{
    const char *failed = open_box("h");
    if (!failed)
        failed = start_hostile();
    if (failed) {
        printf("SKIP preview_hostile: no node in the sandbox: %s\n", failed);
        skipped = true;
        return;
    }
    RUN_TEST(a_port_that_listens_is_out_of_reach_until_it_is_exposed);
    RUN_TEST(names_are_split_at_the_right_hyphens);
    RUN_TEST(the_ports_of_the_emulator_are_not_behind_a_preview);
    RUN_TEST(heads_without_end_are_a_502_and_their_server_is_left);
    RUN_TEST(an_answer_that_is_cut_does_not_look_whole);
    RUN_TEST(a_server_that_never_answers_is_left_with_its_client);
    RUN_TEST(a_flood_of_pings_passes_and_leaves_nothing);
    RUN_TEST(frames_that_come_byte_by_byte_pass);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, preview_hostile);
    if (skipped)
        return 77;
    GREATEST_MAIN_END();
}
