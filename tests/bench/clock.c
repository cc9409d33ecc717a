#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clock/clock.h"
#include "cpus.h"
#include "http_client.h"
#include "program.h"
#include "steps.h"

enum { FULL_COUNT = 400, SANDBOXES = 1000, TIMERS = 1000, YEARS = 40, REQUEST_MAX = 4096 };

#define CLEANUP_PROGRAM __attribute__((cleanup(program_stop)))

static int post(struct client *client, const char *path, const char *body, const char *expected,
                struct error *err)
{
    CLEANUP_BUF struct buf request = BUF_INIT(REQUEST_MAX);
    if (client_post(&request, path, body, strlen(body)) < 0)
        return error_errno(err, ENOMEM, "request");
    return client_exchange(client, &request, expected, err);
}

static int timed_advance(struct bench *bench, enum row_id row, struct client *client,
                         const char *by, struct error *err)
{
    double start = stats_now_ms();
    int result = post(client, "/cdn-cgi/local/clock/advance", by, "\"settled\":true", err);
    return result < 0 ? result : steps_add(bench, row, stats_now_ms() - start, err);
}

/* Every sandbox has run a command, so it has a container with a shell; all are due at once. */
static int advance_live(struct bench *bench, struct client *client, struct error *err)
{
    int count = (int)((long)SANDBOXES * bench->count / FULL_COUNT);
    count = count < 1 ? 1 : count > SANDBOXES ? SANDBOXES : count;
    int result = post(client, "/cdn-cgi/local/clock/freeze", "", "frozen", err);
    for (int i = 0; result == 0 && i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/sandbox/sleeper-%d/exec", i);
        result = post(client, path, "[\"true\"]", "\"exitCode\":0", err);
    }
    return result < 0 ? result
                      : timed_advance(bench, ROW_ADVANCE_LIVE, client, "{\"by\":\"10m\"}", err);
}

/* The layer of the clock alone, with timers that only count. */

struct alarms {
    struct loop *loop;
    struct clock *clock;
    struct virtual_timer timers[TIMERS];
    int fired;
    bool settled;
};

static void alarm_fired(void *arg)
{
    ((struct alarms *)arg)->fired++;
}

static void advanced(void *arg, bool settled, int error)
{
    struct alarms *alarms = arg;
    alarms->settled = settled;
    loop_stop(alarms->loop);
}

static int run_alarms(struct alarms *alarms, double *ms, struct error *err)
{
    if (!(alarms->loop = loop_new(err)) || !(alarms->clock = clock_new(alarms->loop, err)))
        return -err->code;
    clock_freeze(alarms->clock);
    for (int i = 0; i < TIMERS; i++) {
        alarms->timers[i] =
            (struct virtual_timer){.fire = alarm_fired, .arg = alarms, .kind = "alarm"};
        int64_t due = clock_now_ms(alarms->clock) + i * 7919 % TIMERS; /* in no order */
        if (clock_arm(alarms->clock, &alarms->timers[i], due) < 0)
            return error_errno(err, ENOMEM, "timers");
    }
    double start = stats_now_ms();
    int result = clock_advance_by(alarms->clock, 3600000, advanced, alarms, err);
    if (result == 0)
        result = loop_run(alarms->loop, err);
    *ms = stats_now_ms() - start;
    if (result == 0 && (alarms->fired != TIMERS || !alarms->settled))
        result = error_set(err, EPROTO, "%d of %d timers fired", alarms->fired, TIMERS);
    return result;
}

static int advance_alarms(struct bench *bench, struct error *err)
{
    double ms = 0;
    struct alarms *alarms = calloc(1, sizeof *alarms);
    if (!alarms)
        return error_errno(err, ENOMEM, "timers");
    int result = run_alarms(alarms, &ms, err);
    clock_free(alarms->clock);
    loop_free(alarms->loop);
    free(alarms);
    return result < 0 ? result : steps_add(bench, ROW_ADVANCE_ALARMS, ms, err);
}

static int measure(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    int result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    for (int i = 0; result == 0 && i < YEARS; i++)
        result = timed_advance(bench, ROW_ADVANCE_YEAR, &client, "{\"by\":\"365d\"}", err);
    for (int i = 0; result == 0 && i < bench->rounds; i++)
        result = advance_alarms(bench, err);
    return result < 0 ? result : advance_live(bench, &client, err);
}

int measure_clock(struct bench *bench, struct error *err)
{
    if (bench->pin)
        cpus_use(2); /* trees end on every CPU there is */
    int result = measure(bench, err);
    if (bench->pin)
        cpus_use(1);
    return result;
}
