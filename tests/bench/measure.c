#include "measure.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clock.h"
#include "config.h"
#include "code.h"
#include "cpus.h"
#include "events.h"
#include "http_client.h"
#include "preview.h"
#include "program.h"
#include "raw.h"
#include "steps.h"
#include "streams.h"

/* How often each is done when --count has its default. */
enum {
    STREAMS = 100,
    FIRSTS = 10,
    BLOCKS = 40,
    SANDBOXES = 100,
    STARTS = 20,
    LOAD_REQUESTS = 4000,
    IDLE_EXECS = 50,
};
enum { IDLE_MS = 300, CONNECTIONS = 8, BIG_REQUEST = 2 * RAW_BLOCK };

#define CLEANUP_RAW_SESSION __attribute__((cleanup(raw_session_stop)))

/* A warm command. */

static int session_batch(struct bench *bench, struct raw_session *session, int count,
                         struct error *err)
{
    for (int i = -WARM_UP; i < count; i++) {
        double start = stats_now_ms();
        int result = raw_session_run(session, "true", err);
        double ms = stats_now_ms() - start;
        if (result > 0)
            result = error_set(err, EPROTO, "true has exit code %d in the bare session", result);
        if (result == 0 && i >= 0)
            result = steps_add(bench, ROW_BARE_SESSION, ms, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int measure_exec(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_RAW_HTTP struct raw_http http = {0};
    CLEANUP_RAW_SESSION struct raw_session session = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT, bare = CLIENT_INIT;
    CLEANUP_BUF struct buf exec = BUF_INIT(SMALL_REQUEST), api = BUF_INIT(SMALL_REQUEST);
    CLEANUP_BUF struct buf ping = BUF_INIT(SMALL_REQUEST), stream = BUF_INIT(SMALL_REQUEST);
    if (steps_make_post(&exec, "[\"true\"]", "/sandbox/bench/exec", 0) < 0 ||
        steps_make_post(&api, "{\"command\":\"true\"}", "/api/execute", 0) < 0 ||
        steps_make_post(&ping, "[]", "/sandbox/bench/ping", 0) < 0 ||
        steps_make_post(&stream, "[\"echo hi\"]", "/sandbox/bench/execStream", 0) < 0)
        return error_errno(err, ENOMEM, "requests");
    int result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    if (result == 0)
        result = raw_http_start(&http, err);
    if (result == 0)
        result = client_open(&bare, http.port, err);
    if (result == 0)
        result = raw_session_start(&session, bench->scratch, err);
    for (int round = 0; result == 0 && round < bench->rounds; round++) {
        int count = bench->count;
        result = steps_batch(bench, ROW_EXEC, &client, &exec, EXIT_ZERO, count, err);
        if (result == 0)
            result = steps_batch(bench, ROW_BARE_HTTP, &bare, &exec, NULL, count, err);
        if (result == 0)
            result = steps_batch(bench, ROW_PING, &client, &ping, "\"success\":true", count, err);
        if (result == 0)
            result = session_batch(bench, &session, count, err);
        if (result == 0)
            result = steps_batch(bench, ROW_EXEC_API, &client, &api, EXIT_ZERO, count, err);
        if (result == 0)
            result = steps_batch(bench, ROW_STREAM, &client, &stream, "\"complete\"",
                                 steps_part(bench, STREAMS), err);
    }
    return result;
}

/* A cold one. */

/* The first call of sandbox `id`, which is new and is destroyed unmeasured. */
static int first_exec(struct client *client, int id, double *ms, struct error *err)
{
    double start = stats_now_ms();
    int result = steps_post(client, "[\"true\"]", EXIT_ZERO, "/sandbox/new-%d/exec", id, err);
    *ms = stats_now_ms() - start;
    return result < 0 ? result : steps_post(client, "[]", NULL, "/sandbox/new-%d/destroy", id, err);
}

/* The same with a call that needs the container and no shell. */
static int first_look(struct client *client, int id, double *ms, struct error *err)
{
    double start = stats_now_ms();
    int result =
        steps_post(client, "[\"/usr\"]", "\"exists\":true", "/sandbox/look-%d/exists", id, err);
    *ms = stats_now_ms() - start;
    return result < 0 ? result
                      : steps_post(client, "[]", NULL, "/sandbox/look-%d/destroy", id, err);
}

static int first_batch(struct bench *bench, struct client *client, int first, int count,
                       struct error *err)
{
    for (int i = 0; i < count; i++) {
        double ms;
        int result = first_exec(client, first + i, &ms, err);
        if (result == 0)
            result = steps_add(bench, ROW_FIRST_EXEC, ms, err);
        if (result == 0)
            result = first_look(client, first + i, &ms, err);
        if (result == 0)
            result = steps_add(bench, ROW_FIRST_START, ms, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int chain_batch(struct bench *bench, int count, struct error *err)
{
    for (int i = 0; i < count; i++) {
        double chain, bash;
        int result = raw_chain_run(bench->scratch, &chain, err);
        if (result == 0)
            result = raw_bash_run("true", &bash, err);
        if (result == 0)
            result = steps_add(bench, ROW_BARE_CHAIN, chain, err);
        if (result == 0)
            result = steps_add(bench, ROW_BARE_BASH, bash, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int peer_batch(struct bench *bench, int count, struct error *err)
{
    for (int i = 0; bench->peer && i < count; i++) {
        double ms;
        int result = raw_bash_run(bench->peer, &ms, err);
        if (result == 0)
            result = steps_add(bench, ROW_PEER, ms, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int measure_first(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    double warm_up;
    int count = steps_part(bench, FIRSTS);
    int result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    if (result == 0)
        result = first_exec(&client, 0, &warm_up, err);
    for (int round = 0; result == 0 && round < bench->rounds; round++) {
        result = first_batch(bench, &client, 1 + round * count, count, err);
        if (result == 0)
            result = chain_batch(bench, count, err);
        if (result == 0)
            result = peer_batch(bench, count, err);
    }
    return result;
}

/* Files. */

/* Text with line ends, which JSON has to escape, as real text has. */
static void fill_text(char *block)
{
    for (int i = 0; i < RAW_BLOCK; i++)
        block[i] = i % 64 == 63 ? '\n' : (char)('a' + i % 26);
}

static int make_write(struct buf *request, const char *block)
{
    CLEANUP_JSON json_t *args = json_pack("[s, s#]", "/workspace/bench.txt", block, RAW_BLOCK);
    CLEANUP_FREE char *body = args ? json_dumps(args, JSON_COMPACT) : NULL;
    return body ? client_post(request, "/sandbox/bench/writeFile", body, strlen(body)) : -ENOMEM;
}

static int file_batch(struct bench *bench, char *block, int count, struct error *err)
{
    for (int i = -WARM_UP; i < count; i++) {
        double write_ms, read_ms;
        int result = raw_file_run(block, &write_ms, &read_ms, err);
        if (result == 0 && i >= 0)
            result = steps_add(bench, ROW_BARE_WRITE, write_ms, err);
        if (result == 0 && i >= 0)
            result = steps_add(bench, ROW_BARE_READ, read_ms, err);
        if (result < 0)
            return result;
    }
    return 0;
}

struct blocks {
    char *block;
    struct buf write, read, download;
};

static void blocks_free(struct blocks *blocks)
{
    free(blocks->block);
    buf_free(&blocks->write);
    buf_free(&blocks->read);
    buf_free(&blocks->download);
}

static int blocks_make(struct blocks *blocks, struct error *err)
{
    blocks->write = BUF_INIT(BIG_REQUEST);
    blocks->read = blocks->download = BUF_INIT(SMALL_REQUEST);
    blocks->block = malloc(RAW_BLOCK);
    if (!blocks->block)
        return error_errno(err, ENOMEM, "block");
    fill_text(blocks->block);
    int result = make_write(&blocks->write, blocks->block);
    if (result == 0)
        result = steps_make_post(&blocks->read, "[\"/workspace/bench.txt\"]",
                                 "/sandbox/bench/readFile", 0);
    if (result == 0)
        result = steps_make_post(&blocks->download, "[]", RAW_HTTP_BIG, 0);
    return result < 0 ? error_errno(err, -result, "requests") : 0;
}

static int file_round(struct bench *bench, const struct blocks *blocks, struct client *client,
                      struct client *bare, struct error *err)
{
    int count = steps_part(bench, BLOCKS);
    int result = steps_batch(bench, ROW_WRITE, client, &blocks->write, NULL, count, err);
    if (result == 0)
        result = steps_batch(bench, ROW_BARE_UPLOAD, bare, &blocks->write, NULL, count, err);
    if (result == 0)
        result = steps_batch(bench, ROW_READ, client, &blocks->read, NULL, count, err);
    if (result == 0 && client->in.size < RAW_BLOCK)
        result = error_set(err, EPROTO, "a short answer: %.200s", client_body(client));
    if (result == 0)
        result = steps_batch(bench, ROW_BARE_DOWNLOAD, bare, &blocks->download, NULL, count, err);
    return result < 0 ? result : file_batch(bench, blocks->block, count, err);
}

static int measure_files(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_RAW_HTTP struct raw_http http = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT, bare = CLIENT_INIT;
    __attribute__((cleanup(blocks_free))) struct blocks blocks = {0};
    int result = blocks_make(&blocks, err);
    if (result == 0)
        result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    if (result == 0)
        result = raw_http_start(&http, err);
    if (result == 0)
        result = client_open(&bare, http.port, err);
    for (int round = 0; result == 0 && round < bench->rounds; round++)
        result = file_round(bench, &blocks, &client, &bare, err);
    return result;
}

/* Memory. */

static int add_memory(struct bench *bench, const struct program *program, enum row_id rss,
                      enum row_id anon, struct error *err)
{
    double all, own;
    int result = program_memory(program, "VmRSS", &all, err);
    if (result == 0)
        result = program_memory(program, "RssAnon", &own, err);
    if (result == 0)
        result = steps_add(bench, rss, all, err);
    return result < 0 ? result : steps_add(bench, anon, own, err);
}

static int measure_memory(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    int result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = add_memory(bench, &program, ROW_RSS_START, ROW_ANON_START, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    for (int i = 0; result == 0 && i < IDLE_EXECS; i++)
        result = steps_post(&client, "[\"true\"]", EXIT_ZERO, "/sandbox/bench/exec", 0, err);
    poll(NULL, 0, IDLE_MS);
    return result < 0 ? result : add_memory(bench, &program, ROW_RSS_IDLE, ROW_ANON_IDLE, err);
}

static int measure_sandboxes(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    double before, after;
    int count = steps_part(bench, SANDBOXES);
    if (count > SANDBOXES)
        count = SANDBOXES;
    int result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    if (result == 0)
        result = steps_post(&client, "[\"true\"]", EXIT_ZERO, "/sandbox/warm/exec", 0, err);
    if (result == 0)
        result = program_memory(&program, "RssAnon", &before, err);
    for (int i = 0; result == 0 && i < count; i++)
        result = steps_post(&client, "[\"true\"]", EXIT_ZERO, "/sandbox/idle-%d/exec", i, err);
    if (result == 0)
        result = program_memory(&program, "RssAnon", &after, err);
    if (result == 0)
        result = steps_add(bench, ROW_ANON_SANDBOX, (after - before) / count, err);
    for (int i = 0; result == 0 && i < count; i++)
        result = steps_post(&client, "[]", NULL, "/sandbox/idle-%d/destroy", i, err);
    return result;
}

/* Start. */

static int one_start(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    double start = stats_now_ms();
    int result = program_start(&program, bench->scratch, err);
    double ready = stats_now_ms() - start;
    if (result == 0)
        result = client_open(&client, program.port, err);
    if (result == 0)
        result = steps_post(&client, "[\"true\"]", EXIT_ZERO, "/sandbox/bench/exec", 0, err);
    double exec = stats_now_ms() - start;
    if (result == 0)
        result = steps_add(bench, ROW_START_READY, ready, err);
    return result < 0 ? result : steps_add(bench, ROW_START_EXEC, exec, err);
}

static int one_run(struct bench *bench, struct error *err)
{
    const char *const argv[] = {SANDPIT_BINARY, "run",           "--ephemeral", "--network",
                                program_network, "--project", bench->scratch, "--", "true", NULL};
    setenv("XDG_RUNTIME_DIR", bench->scratch, 1);
    double start = stats_now_ms();
    program_run(argv);
    return steps_add(bench, ROW_RUN_TRUE, stats_now_ms() - start, err);
}

static int measure_start(struct bench *bench, struct error *err)
{
    int result = 0;
    int count = steps_part(bench, STARTS);
    for (int i = 0; result == 0 && i < count; i++)
        result = one_start(bench, err);
    for (int i = 0; result == 0 && i < count; i++)
        result = one_run(bench, err);
    return result;
}

/* Load. */

struct lane {
    struct client client;
    struct buf request;
};

struct load {
    struct lane lanes[CONNECTIONS];
    int sent, answered, wrong, total;
};

static void load_free(struct load *load)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        client_close(&load->lanes[i].client);
        buf_free(&load->lanes[i].request);
    }
}

static int lane_open(struct lane *lane, int port, int id, struct error *err)
{
    char body[96];
    snprintf(body, sizeof body, "[{\"id\":\"s%d\"}]", id);
    int result = client_open(&lane->client, port, err);
    if (result == 0)
        result = steps_post(&lane->client, body, NULL, "/sandbox/load/createSession", 0, err);
    snprintf(body, sizeof body, "[\"true\",{\"session\":\"s%d\"}]", id);
    lane->request = BUF_INIT(SMALL_REQUEST);
    if (result == 0 && steps_make_post(&lane->request, body, "/sandbox/load/exec", 0) < 0)
        result = error_errno(err, ENOMEM, "request");
    return result;
}

static int lane_send(struct load *load, struct lane *lane, struct error *err)
{
    if (load->sent == load->total)
        return 0;
    load->sent++;
    return client_send(&lane->client, &lane->request, err);
}

/* Takes what came; asks again when the answer is complete. */
static int lane_ready(struct load *load, struct lane *lane, struct error *err)
{
    int result = client_receive(&lane->client, err);
    if (result <= 0)
        return result;
    load->answered++;
    if (lane->client.status != 200 || !strstr(client_body(&lane->client), EXIT_ZERO))
        load->wrong++;
    return lane_send(load, lane, err);
}

/* All lanes at once, from one thread. */
static int load_round(struct load *load, int total, struct error *err)
{
    struct pollfd polled[CONNECTIONS];
    int result = 0;
    load->sent = load->answered = 0;
    load->total = total;
    for (int i = 0; result == 0 && i < CONNECTIONS; i++) {
        polled[i] = (struct pollfd){.fd = load->lanes[i].client.fd, .events = POLLIN};
        result = lane_send(load, &load->lanes[i], err);
    }
    while (result == 0 && load->answered < total) {
        if (poll(polled, CONNECTIONS, 60000) <= 0)
            return error_set(err, ETIMEDOUT, "no answer under load");
        for (int i = 0; result == 0 && i < CONNECTIONS; i++) {
            if (polled[i].revents)
                result = lane_ready(load, &load->lanes[i], err);
        }
    }
    return result;
}

static int load_rounds(struct bench *bench, enum row_id row, int *wrong, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    __attribute__((cleanup(load_free))) struct load load = {0};
    for (int i = 0; i < CONNECTIONS; i++)
        load.lanes[i].client = CLIENT_INIT;
    int result = program_start(&program, bench->scratch, err);
    for (int i = 0; result == 0 && i < CONNECTIONS; i++)
        result = lane_open(&load.lanes[i], program.port, i, err);
    int total = steps_part(bench, LOAD_REQUESTS);
    for (int round = 0; result == 0 && round < bench->rounds; round++) {
        double start = stats_now_ms();
        result = load_round(&load, total, err);
        double ms = stats_now_ms() - start;
        if (result == 0)
            result = steps_add(bench, row, total / ms * 1000, err);
    }
    *wrong += load.wrong;
    return result;
}

static int measure_load(struct bench *bench, struct error *err)
{
    int wrong = 0;
    int result = load_rounds(bench, ROW_LOAD_RATE, &wrong, err);
    cpus_use(2);
    if (result == 0)
        result = load_rounds(bench, ROW_LOAD_RATE_2CPU, &wrong, err);
    if (bench->pin)
        cpus_use(1);
    return result < 0 ? result : steps_add(bench, ROW_LOAD_ERRORS, wrong, err);
}

const struct measure_group measure_groups[] = {
    {"exec", measure_exec},           {"first", measure_first},
    {"files", measure_files},         {"memory", measure_memory},
    {"sandboxes", measure_sandboxes}, {"start", measure_start},
    {"listing", measure_listing},     {"streams", measure_streams},
    {"code", measure_code},           {"clone", measure_clone},
    {"clock", measure_clock},         {"events", measure_events},
    {"load", measure_load},
    {"config", measure_config},
    {"preview", measure_preview},
    {0},
};
