/* What the tests of background processes share: the container's own API. */
#ifndef SANDPIT_TESTS_PROCESS_BOX_H
#define SANDPIT_TESTS_PROCESS_BOX_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "greatest.h"
#include "sse_client.h"
#include "support.h"

enum { PATIENCE_MS = 20000 };

static struct emulator emulator;
static char host[256];

static inline struct reply ask(const char *method, const char *path, const char *body)
{
    return request(&emulator, method, path, host, body);
}

static inline struct reply start(const char *body)
{
    return ask("POST", "/api/process/start", body);
}

static inline struct reply execute(const char *command)
{
    json_t *args = json_pack("{s:s,s:s}", "command", command, "sessionId", "look");
    char *body = json_dumps(args, 0);
    struct reply reply = ask("POST", "/api/execute", body);
    free(body);
    json_decref(args);
    return reply;
}

/* How many processes of the container have this in their command line. */
static inline long long running(const char *pattern)
{
    char command[256];
    snprintf(command, sizeof command, "pgrep -f -- '%s' | wc -l", pattern);
    CLEANUP_REPLY struct reply reply = execute(command);
    return strtoll(text_at(reply.json, "stdout"), NULL, 10);
}

struct count {
    const char *pattern;
    long long count;
};

static inline bool runs(void *arg)
{
    const struct count *wanted = arg;
    return running(wanted->pattern) == wanted->count;
}

static inline bool becomes(const char *pattern, long long count)
{
    struct count wanted = {pattern, count};
    return eventually(runs, &wanted, PATIENCE_MS);
}

static inline bool is_over(void *id)
{
    char path[128];
    snprintf(path, sizeof path, "/api/process/%s", (const char *)id);
    CLEANUP_REPLY struct reply reply = ask("GET", path, NULL);
    const char *status = text_at(reply.json, "process.status");
    return *status && strcmp(status, "running") != 0;
}

#define WAIT_FOR_END(ID) ASSERT(eventually(is_over, (char *)(ID), PATIENCE_MS))

#define FREED __attribute__((cleanup(free_text))) char *
static inline void free_text(char **text)
{
    free(*text);
}

static inline char *events_of(const char *path)
{
    CLEANUP_SSE struct sse sse;
    sse_open(&sse, &emulator, "GET", path, host, NULL);
    return sse_all(&sse, PATIENCE_MS);
}

#endif
