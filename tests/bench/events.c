#include "events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "http_client.h"
#include "program.h"
#include "steps.h"

enum { BATCHES = 10 }; /* in one round, so that both have the same weather */

static const char follow[] =
    "GET /cdn-cgi/local/events?follow=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* The follower reads what there is, but is not waited for. */
static void read_follower(int fd)
{
    char bytes[4096];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static int start_told(struct program *program, struct client *follower, const char *scratch,
                      struct error *err)
{
    char file[256];
    snprintf(file, sizeof file, "%s/events.ndjson", scratch);
    program_events = file;
    int result = program_start(program, scratch, err);
    program_events = NULL;
    if (result == 0)
        result = client_open(follower, program->port, err);
    if (result == 0 && send(follower->fd, follow, strlen(follow), MSG_NOSIGNAL) < 0)
        result = error_errno(err, errno, "follow");
    return result;
}

/* Both emulators run all the time and take turns. */
int measure_events(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program told = {0}, quiet = {0};
    CLEANUP_CLIENT struct client follower = CLIENT_INIT, a = CLIENT_INIT, b = CLIENT_INIT;
    CLEANUP_BUF struct buf exec = BUF_INIT(SMALL_REQUEST);
    if (steps_make_post(&exec, "[\"true\"]", "/sandbox/bench/exec", 0) < 0)
        return error_errno(err, ENOMEM, "request");
    int result = start_told(&told, &follower, bench->scratch, err);
    if (result == 0)
        result = program_start(&quiet, bench->scratch, err);
    if (result == 0)
        result = client_open(&a, told.port, err);
    if (result == 0)
        result = client_open(&b, quiet.port, err);
    int count = steps_part(bench, 400 / BATCHES);
    for (int i = 0; result == 0 && i < bench->rounds * BATCHES; i++) {
        result = steps_batch(bench, ROW_EXEC_TOLD, &a, &exec, EXIT_ZERO, count, err);
        read_follower(follower.fd);
        if (result == 0)
            result = steps_batch(bench, ROW_EXEC_QUIET, &b, &exec, EXIT_ZERO, count, err);
    }
    return result;
}
