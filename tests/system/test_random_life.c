/* Many operations in random order on many sandboxes, under a clock that stands still but where the
 * test turns it. A small model says what must happen; the events say what did. The seed is printed;
 * SANDPIT_SEED repeats a run, SANDPIT_OPERATIONS gives the number of operations. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "counts.h"
#include "greatest.h"
#include "support.h"

enum { BOXES = 50, MINUTE = 60000, LOG_MAX = 256 * 1024 * 1024 };

/* What the test knows of one sandbox. */
struct box {
    bool known; /* it was used once */
    bool runs, keep_alive;
    long long sleep_after, last; /* ms; of the model's clock */
    bool told;                   /* its container runs, as the events tell */
    bool stopping;
};

struct life {
    struct emulator emulator;
    uint64_t random;
    long long now; /* ms since the run's first moment */
    int year;      /* in which that is */
    struct box boxes[BOXES];
    long long seq;      /* of the last event */
    char at[32];        /* of the last event */
    struct buf log;     /* the events without what differs between runs */
    int slept, started; /* how often, in all */
    char wrong[512];    /* the first thing that was not as it should be */
};

static void blame(struct life *life, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void blame(struct life *life, const char *format, ...)
{
    if (*life->wrong)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(life->wrong, sizeof life->wrong, format, args);
    va_end(args);
}

/* xorshift64* */
static uint64_t dice(uint64_t *state, uint64_t sides)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 2685821657736338717u >> 32) % sides;
}

static int box_number(const char *id)
{
    return strncmp(id, "box", 3) == 0 ? (int)strtol(id + 3, NULL, 10) : -1;
}

/* What the events tell. */

/* At most one container for each id: the events of each begin and end in turn. */
static void check_event(struct life *life, const json_t *event)
{
    const char *type = text_at(event, "type");
    int number = box_number(text_at(event, "sandbox"));
    struct box *box = number >= 0 && number < BOXES ? &life->boxes[number] : NULL;
    if (!box || strncmp(type, "container.", 10) != 0)
        return;
    bool starting = strcmp(type, "container.starting") == 0;
    bool stopping = strcmp(type, "container.stopping") == 0;
    bool over = strcmp(type, "container.stopped") == 0;
    if (starting && box->told)
        blame(life, "box%d got a second container", number);
    if ((stopping || over) && !box->told)
        blame(life, "%s of box%d, which has no container", type, number);
    if (stopping && box->stopping)
        blame(life, "box%d is stopped twice", number);
    if (starting)
        box->told = true, life->started++;
    if (over || strcmp(type, "container.destroyed") == 0)
        box->told = false;
    box->stopping = stopping;
}

static void check_order(struct life *life, const json_t *event)
{
    const char *when = text_at(event, "at");
    if (number_at(event, "seq") != life->seq + 1)
        blame(life, "event %lld follows %lld", number_at(event, "seq"), life->seq);
    if (strcmp(when, life->at) < 0)
        blame(life, "the time goes back from %s to %s", life->at, when);
    life->seq = number_at(event, "seq");
    snprintf(life->at, sizeof life->at, "%s", when);
}

/* Runs are compared by everything but the real time. */
static void remember(struct life *life, json_t *event)
{
    json_object_del(event, "real");
    CLEANUP_FREE char *text = json_dumps(event, JSON_COMPACT);
    buf_adds(&life->log, text);
    buf_addc(&life->log, '\n');
}

/* Reads what happened since. Sandboxes that slept are marked in `slept`, unless it is NULL. */
static void read_events(struct life *life, bool *slept)
{
    char path[96];
    snprintf(path, sizeof path, "/cdn-cgi/local/events?after=%lld", life->seq);
    CLEANUP_REPLY struct reply reply = get(&life->emulator, path);
    if (reply.status != 200)
        blame(life, "events: status %d", reply.status);
    for (char *line = reply.body; line && *line;) {
        size_t size = strcspn(line, "\n");
        CLEANUP_JSON json_t *event = json_loadb(line, size, 0, NULL);
        check_order(life, event);
        check_event(life, event);
        int number = box_number(text_at(event, "sandbox"));
        if (slept && strcmp(text_at(event, "type"), "container.stopping") == 0 && number >= 0) {
            if (slept[number])
                blame(life, "the timer of box%d fired twice", number);
            slept[number] = true;
        }
        remember(life, event);
        line += size + (line[size] == '\n');
    }
}

/* Requests. */

static struct reply call(struct life *life, int box, const char *method, const char *arguments)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/box%d/%s", box, method);
    return post(&life->emulator, path, arguments);
}

static void expect_ok(struct life *life, const char *what, int box, const struct reply *reply)
{
    if (reply->status != 200)
        blame(life, "%s of box%d: %d %.300s", what, box, reply->status,
              reply->body ? reply->body : "no answer");
}

static void touched(struct life *life, int box)
{
    life->boxes[box].known = true;
    life->boxes[box].last = life->now;
}

/* Operations. Each leaves the sandbox at rest, so that runs can be compared. */

static void do_exec(struct life *life, int box)
{
    CLEANUP_REPLY struct reply reply = call(life, box, "exec", "[\"echo here\"]");
    expect_ok(life, "exec", box, &reply);
    if (strcmp("here", text_at(reply.json, "stdout")) != 0)
        blame(life, "exec of box%d printed '%s'", box, text_at(reply.json, "stdout"));
    touched(life, box);
    life->boxes[box].runs = true;
}

/* Only where a container runs: the first call of one is a command, whose session is there with its
 * answer and not a moment later. */
static void do_file(struct life *life, int box)
{
    if (!life->boxes[box].runs)
        do_exec(life, box);
    CLEANUP_REPLY struct reply reply = call(life, box, "writeFile", "[\"/workspace/f\", \"x\"]");
    expect_ok(life, "writeFile", box, &reply);
    touched(life, box);
}

static void do_process(struct life *life, int box)
{
    if (!life->boxes[box].runs)
        do_exec(life, box);
    CLEANUP_REPLY struct reply reply = call(life, box, "exec", "[\"sleep 5000 & echo on\"]");
    expect_ok(life, "background", box, &reply);
    touched(life, box);
}

static bool at_rest(void *arg)
{
    const struct life *life = arg;
    CLEANUP_REPLY struct reply reply = get(&life->emulator, "/cdn-cgi/local/sandboxes");
    for (size_t i = 0; i < json_array_size(at(reply.json, "sandboxes")); i++) {
        if (number_at(json_array_get(at(reply.json, "sandboxes"), i), "inflight") != 0)
            return false;
    }
    return true;
}

/* A client that does not wait for its answer. */
static void do_abort(struct life *life, int box)
{
    static const char body[] = "[\"sleep 0.01\"]";
    if (!life->boxes[box].runs)
        do_exec(life, box);
    char head[256];
    int size = snprintf(head, sizeof head,
                        "POST /sandbox/box%d/exec HTTP/1.1\r\nHost: localhost\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        box, strlen(body), body);
    int fd = dial(&life->emulator);
    send_all(fd, head, (size_t)size);
    /* The request is taken when a later one on another connection was answered. */
    CLEANUP_REPLY struct reply later = get(&life->emulator, "/cdn-cgi/local/health");
    struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
    if (!eventually(at_rest, life, 10000))
        blame(life, "box%d: something stays in flight after a client left", box);
    touched(life, box);
}

static void do_sleep_after(struct life *life, int box)
{
    static const struct {
        const char *value;
        long long ms;
    } values[] = {{"[\"30s\"]", 30000},
                  {"[\"5m\"]", 5 * MINUTE},
                  {"[\"10m\"]", 10 * MINUTE},
                  {"[90]", 90000},
                  {"[\"2h\"]", 120 * MINUTE}};
    size_t pick = dice(&life->random, sizeof values / sizeof *values);
    CLEANUP_REPLY struct reply reply = call(life, box, "setSleepAfter", values[pick].value);
    expect_ok(life, "setSleepAfter", box, &reply);
    touched(life, box);
    life->boxes[box].sleep_after = values[pick].ms;
}

static void do_keep_alive(struct life *life, int box)
{
    bool on = dice(&life->random, 3) == 0;
    CLEANUP_REPLY struct reply reply = call(life, box, "setKeepAlive", on ? "[true]" : "[false]");
    expect_ok(life, "setKeepAlive", box, &reply);
    life->boxes[box].known = true;
    life->boxes[box].keep_alive = on;
    if (!on)
        touched(life, box);
}

static void end_box(struct life *life, int box, const char *how)
{
    char path[96];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/box%d/%s", box, how);
    if (!life->boxes[box].known)
        return;
    CLEANUP_REPLY struct reply reply = post(&life->emulator, path, "");
    expect_ok(life, how, box, &reply);
    life->boxes[box].runs = false;
}

static void do_stop(struct life *life, int box)
{
    end_box(life, box, "stop");
}

static void do_destroy(struct life *life, int box)
{
    end_box(life, box, "destroy");
}

static void do_replace(struct life *life, int box)
{
    end_box(life, box, "replace");
}

/* Looking changes nothing. */
static void do_look(struct life *life, int box)
{
    char path[96];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/box%d", box);
    if (!life->boxes[box].known)
        return;
    const struct box *model = &life->boxes[box];
    CLEANUP_REPLY struct reply status = call(life, box, "getState", "[]");
    CLEANUP_REPLY struct reply reply = get(&life->emulator, path);
    bool healthy = strcmp(text_at(reply.json, "state"), "healthy") == 0;
    if (healthy != model->runs)
        blame(life, "box%d is %s", box, text_at(reply.json, "state"));
    if (healthy != (strcmp(text_at(status.json, "status"), "healthy") == 0))
        blame(life, "getState of box%d says %s", box, text_at(status.json, "status"));
    if (number_at(reply.json, "sleepAfterMs") != model->sleep_after ||
        json_is_true(at(reply.json, "keepAlive")) != model->keep_alive)
        blame(life, "box%d has not the options that were acknowledged", box);
    if (number_at(reply.json, "inflight") != 0)
        blame(life, "box%d has %lld in flight", box, number_at(reply.json, "inflight"));
}

/* Time. */

static bool due(const struct box *box, long long until)
{
    return box->runs && !box->keep_alive && box->last + box->sleep_after <= until;
}

/* Moves the model, and compares who slept: no timer is lost, and none fires twice. */
static void time_passed(struct life *life, long long until, const struct reply *reply)
{
    bool slept[BOXES] = {false};
    if (reply->status != 200 || !json_is_true(at(reply->json, "settled")))
        blame(life, "advance: %d %.300s", reply->status, reply->body ? reply->body : "");
    read_events(life, slept);
    for (int i = 0; i < BOXES; i++) {
        bool expected = due(&life->boxes[i], until);
        if (expected != slept[i])
            blame(life, "box%d %s", i, expected ? "should have slept" : "slept too early");
        life->slept += slept[i];
        if (expected)
            life->boxes[i].runs = false;
    }
    life->now = until;
}

static void do_advance(struct life *life, int box)
{
    long long by = (long long)dice(&life->random, 10) < 8
                       ? (long long)dice(&life->random, 120000)
                       : (long long)dice(&life->random, 15 * MINUTE);
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%lldms\"}", by);
    CLEANUP_REPLY struct reply reply = post(&life->emulator, "/cdn-cgi/local/clock/advance", body);
    time_passed(life, life->now + by, &reply);
}

static void do_next(struct life *life, int box)
{
    long long next = -1;
    for (int i = 0; i < BOXES; i++) {
        const struct box *one = &life->boxes[i];
        long long when = one->last + one->sleep_after;
        if (one->runs && !one->keep_alive && (next < 0 || when < next))
            next = when;
    }
    CLEANUP_REPLY struct reply reply = post(&life->emulator, "/cdn-cgi/local/clock/next", "");
    if (next >= 0)
        time_passed(life, next, &reply);
    else if (reply.status == 200)
        blame(life, "there was a timer that nobody armed");
}

static int start(struct life *life, uint64_t seed, bool again)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, seed);
    const char *const extra[] = {"--network", "none", "--seed", text, "--log-level", "error", NULL};
    int result =
        again ? emulator_restart(&life->emulator, extra) : emulator_start(&life->emulator, extra);
    if (result < 0)
        return result;
    CLEANUP_REPLY struct reply frozen = post(&life->emulator, "/cdn-cgi/local/clock/freeze", "");
    char body[64];
    snprintf(body, sizeof body, "{\"to\": \"%d-01-01T00:00:00Z\"}", life->year);
    CLEANUP_REPLY struct reply moved = post(&life->emulator, "/cdn-cgi/local/clock/advance", body);
    return frozen.status == 200 && moved.status == 200 ? 0 : -1;
}

/* Killed at any moment, it knows afterwards what it acknowledged before. */
static void do_restart(struct life *life, uint64_t seed)
{
    read_events(life, NULL);
    emulator_kill(&life->emulator);
    life->year += 10;
    life->now = 0;
    life->seq = 0;
    life->at[0] = '\0';
    for (int i = 0; i < BOXES; i++) {
        struct box *box = &life->boxes[i];
        box->runs = box->told = box->stopping = false;
        box->last = 0;
    }
    if (start(life, seed, true) < 0)
        blame(life, "it did not start again");
    for (int i = 0; i < BOXES && !*life->wrong; i++)
        do_look(life, i);
}

static const struct {
    void (*run)(struct life *life, int box);
    unsigned share;
} operations[] = {{do_exec, 30},       {do_file, 8},       {do_process, 4},  {do_abort, 3},
                  {do_sleep_after, 8}, {do_keep_alive, 6}, {do_stop, 5},     {do_destroy, 4},
                  {do_replace, 4},     {do_look, 12},      {do_advance, 12}, {do_next, 4}};

static void do_one(struct life *life)
{
    unsigned sum = 0, pick;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        sum += operations[i].share;
    pick = (unsigned)dice(&life->random, sum);
    int box = (int)dice(&life->random, BOXES);
    size_t i = 0;
    for (; pick >= operations[i].share; i++)
        pick -= operations[i].share;
    operations[i].run(life, box);
    read_events(life, NULL);
}

/* How many containers the machine runs for it. */
static int containers_of(const struct life *life)
{
    CLEANUP_REPLY struct reply reply = get(&life->emulator, "/cdn-cgi/local/sandboxes");
    int count = 0;
    for (size_t i = 0; i < json_array_size(at(reply.json, "sandboxes")); i++) {
        const json_t *one = json_array_get(at(reply.json, "sandboxes"), i);
        count += strcmp(text_at(one, "state"), "healthy") == 0;
    }
    return count;
}

static void live(struct life *life, uint64_t seed, int count)
{
    *life = (struct life){.random = seed * 2 + 1, .year = 2030, .log = BUF_INIT(LOG_MAX)};
    for (int i = 0; i < BOXES; i++)
        life->boxes[i].sleep_after = 10 * MINUTE;
    if (start(life, seed, false) < 0)
        blame(life, "the emulator did not start: see %s", life->emulator.log);
    for (int i = 0; i < count && !*life->wrong; i++) {
        do_one(life);
        if (*life->wrong) {
            size_t used = strlen(life->wrong);
            snprintf(life->wrong + used, sizeof life->wrong - used, " (operation %d)", i);
        } else if (i % (count / 5) == count / 5 - 1) {
            do_restart(life, seed);
        }
    }
    for (int i = 0; i < BOXES && !*life->wrong; i++)
        do_look(life, i);
    int expected = 0;
    for (int i = 0; i < BOXES; i++)
        expected += life->boxes[i].runs;
    if (!*life->wrong && containers_of(life) != expected)
        blame(life, "%d containers run, not %d", containers_of(life), expected);
    if (emulator_stop(&life->emulator) != 0)
        blame(life, "it did not end cleanly: see %s", life->emulator.log);
}

static void life_over(struct life *life)
{
    if (!*life->wrong)
        emulator_clean(&life->emulator);
    buf_free(&life->log);
}
#define CLEANUP_LIFE __attribute__((cleanup(life_over)))

/* Counts. */

static uint64_t seed_now(void)
{
    static uint64_t seed;
    const char *given = getenv("SANDPIT_SEED");
    if (!seed && given)
        seed = strtoull(given, NULL, 10);
    if (!seed)
        seed = (uint64_t)time(NULL) * 1000 + (uint64_t)getpid() % 1000;
    return seed;
}

static int operations_now(void)
{
    const char *given = getenv("SANDPIT_OPERATIONS");
    long count = given ? strtol(given, NULL, 10) : 0;
    return count >= 5 ? (int)count : counts_now().cycles > 1000 ? 10000 : 600;
}

/* The line in which two logs differ first. */
static const char *difference(const struct buf *a, const struct buf *b)
{
    size_t i = 0, line = 0;
    const char *left = buf_text(a), *right = buf_text(b);
    for (; i < a->size && i < b->size && left[i] == right[i]; i++)
        line = left[i] == '\n' ? i + 1 : line;
    if (i == a->size && i == b->size)
        return NULL;
    char text[1024];
    snprintf(text, sizeof text, "the events differ:\n%.*s\n%.*s", (int)strcspn(left + line, "\n"),
             left + line, (int)strcspn(right + line, "\n"), right + line);
    return keep(text);
}

TEST what_the_model_says_happens_and_the_same_seed_gives_the_same_events(void)
{
    static struct life first, second;
    int count = operations_now();
    live(&first, seed_now(), count);
    printf("  %d operations: %d containers started, %d slept\n", count, first.started, first.slept);
    const char *wrong = *first.wrong ? keep(first.wrong) : NULL;
    const char *differs = NULL;
    if (!wrong) {
        live(&second, seed_now(), count);
        wrong = *second.wrong ? keep(second.wrong) : NULL;
        differs = wrong ? NULL : difference(&first.log, &second.log);
        life_over(&second);
    }
    bool enough = first.started > 0 && first.slept > 0;
    life_over(&first);
    ASSERTm(wrong, !wrong);
    ASSERTm(differs, !differs);
    ASSERT(enough);
    PASS();
}

/* The same at once from several clients: there is no model then, but the rules hold. */

struct client {
    struct life *life;
    pthread_t thread;
    uint64_t random;
    int count;
    char wrong[512];
};

static bool is_defined(const struct reply *reply)
{
    const char *code = text_at(reply->json, "code");
    return reply->status == 200 || strcmp(code, "OPERATION_INTERRUPTED") == 0 ||
           strcmp(code, "CONTAINER_UNAVAILABLE") == 0 || strcmp(code, "SANDBOX_NOT_FOUND") == 0;
}

static struct reply random_request(struct client *client)
{
    static const struct {
        const char *path, *body; /* %d is the sandbox */
        unsigned share;
    } rows[] = {
        {"/sandbox/box%d/exec", "[\"echo here\"]", 20},
        {"/sandbox/box%d/exec?sleepAfter=1m", "[\"sleep 0.02\"]", 5},
        {"/sandbox/box%d/exec?sleepAfter=10m", "[\"sleep 100 & true\"]", 3},
        {"/sandbox/box%d/setKeepAlive", "[true]", 1},
        {"/sandbox/box%d/setKeepAlive", "[false]", 2},
        {"/sandbox/box%d/writeFile", "[\"/workspace/f\", \"x\"]", 8},
        {"/sandbox/box%d/destroy", "[]", 3},
        {"/sandbox/box%d/stop", "[]", 3},
        {"/cdn-cgi/local/sandboxes/box%d/replace", "", 3},
        {"/cdn-cgi/local/clock/advance", "{\"by\": \"50s\"}", 4},
        {"/sandbox/box%d/getState", "[]", 3},
    };
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        sum += rows[i].share;
    unsigned pick = (unsigned)dice(&client->random, sum);
    size_t i = 0;
    for (; pick >= rows[i].share; i++)
        pick -= rows[i].share;
    char path[128];
    const char *gap = strstr(rows[i].path, "%d");
    int before = gap ? (int)(gap - rows[i].path) : (int)strlen(rows[i].path);
    snprintf(path, sizeof path, "%.*s", before, rows[i].path);
    if (gap)
        snprintf(path + before, sizeof path - (size_t)before, "%d%s", (int)dice(&client->random, 8),
                 gap + 2);
    return post(&client->life->emulator, path, rows[i].body);
}

static void *run_client(void *arg)
{
    struct client *client = arg;
    for (int i = 0; i < client->count && !*client->wrong; i++) {
        CLEANUP_REPLY struct reply reply = random_request(client);
        if (!is_defined(&reply))
            snprintf(client->wrong, sizeof client->wrong, "%d %.400s", reply.status,
                     reply.body ? reply.body : "no answer");
    }
    return NULL;
}

TEST clients_at_once_never_get_two_containers_or_leave_something_in_flight(void)
{
    enum { CLIENTS = 6 };
    CLEANUP_LIFE struct life life = {.year = 2030, .log = BUF_INIT(LOG_MAX)};
    struct client clients[CLIENTS] = {0};
    ASSERT_EQ(0, start(&life, seed_now(), false));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.life = &life,
                                     .random = seed_now() * 8 + (uint64_t)i + 1,
                                     .count = operations_now() / CLIENTS};
        pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        if (*clients[i].wrong)
            blame(&life, "%s", clients[i].wrong);
    }
    if (!eventually(at_rest, &life, 20000))
        blame(&life, "something stays in flight");
    read_events(&life, NULL);
    int told = 0;
    for (int i = 0; i < BOXES; i++)
        told += life.boxes[i].told;
    if (told != containers_of(&life))
        blame(&life, "the events tell of %d containers, %d run", told, containers_of(&life));
    if (emulator_stop(&life.emulator) != 0)
        blame(&life, "it did not end cleanly: see %s", life.emulator.log);
    ASSERTm(keep(life.wrong), !*life.wrong);
    PASS();
}

SUITE(random_life_suite)
{
    printf("  SANDPIT_SEED=%" PRIu64 "\n", seed_now());
    RUN_TEST(what_the_model_says_happens_and_the_same_seed_gives_the_same_events);
    RUN_TEST(clients_at_once_never_get_two_containers_or_leave_something_in_flight);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP random_life_suite: %s\n", missing);
        return 77;
    }
    RUN_SUITE(random_life_suite);
    GREATEST_MAIN_END();
}
