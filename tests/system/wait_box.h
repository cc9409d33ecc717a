/* What the tests of waiting share: one emulator, calls by method and by route, and calls from
 * another thread. */
#ifndef SANDPIT_TESTS_WAIT_BOX_H
#define SANDPIT_TESTS_WAIT_BOX_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static inline struct reply method(const char *box, const char *name, const char *arguments)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, name);
    return post(&emulator, path, arguments);
}

static inline struct reply api(const char *verb, const char *path, const char *box,
                               const char *body)
{
    char headers[128];
    snprintf(headers, sizeof headers, "X-Sandbox-Id: %s\r\n", box);
    return request(&emulator, verb, path, headers, body);
}

/* Starts a process; its pid, or -1. */
static inline long long start(const char *box, const char *id, const char *command)
{
    json_t *arguments = json_pack("[s,{s:s}]", command, "processId", id);
    char *text = json_dumps(arguments, 0);
    CLEANUP_REPLY struct reply reply = method(box, "startProcess", text);
    json_decref(arguments);
    free(text);
    return reply.status == 200 ? number_at(reply.json, "pid") : -1;
}

static inline bool run(const char *box, const char *command)
{
    json_t *arguments = json_pack("[s]", command);
    char *text = json_dumps(arguments, 0);
    CLEANUP_REPLY struct reply reply = method(box, "exec", text);
    json_decref(arguments);
    free(text);
    return number_at(reply.json, "exitCode") == 0;
}

static inline const char *container_host(const char *box)
{
    static char host[256];
    char path[128];
    run(box, "true");
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    const char *url = text_at(shown.json, "containerUrl");
    snprintf(host, sizeof host, "Host: %s\r\n", strlen(url) > 7 ? url + 7 : "");
    return host;
}

static inline struct reply container(const char *box, const char *path, const char *body)
{
    return request(&emulator, "POST", path, container_host(box), body);
}

/* Whether nothing is in flight in the sandbox of this name. */
static inline bool is_quiet(void *box)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", (const char *)box);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return number_at(shown.json, "inflight") == 0;
}

static inline bool is_busy(void *box)
{
    return !is_quiet(box);
}

/* A call made from another thread. */
struct later {
    pthread_t thread;
    const char *box, *name, *arguments;
    struct reply reply;
};

static inline void *make_call(void *arg)
{
    struct later *later = arg;
    later->reply = method(later->box, later->name, later->arguments);
    return NULL;
}

static inline void begin_call(struct later *later)
{
    pthread_create(&later->thread, NULL, make_call, later);
}

static inline struct reply end_call(struct later *later)
{
    pthread_join(later->thread, NULL);
    return later->reply;
}

#endif
