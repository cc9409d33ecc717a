/* What the tests of raw bytes share: a project with a large and a small layer, and uploads. */
#ifndef SANDPIT_TESTS_UPLOAD_BOX_H
#define SANDPIT_TESTS_UPLOAD_BOX_H

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

static inline struct reply shell(const char *box, const char *command)
{
    char path[128], body[2048];
    snprintf(path, sizeof path, "/sandbox/%s/exec%s", box,
             strcmp(box, "tiny") == 0 ? "?class=Tiny" : "");
    snprintf(body, sizeof body, "[\"%s\"]", command);
    return post(&emulator, path, body);
}

/* PUT /api/file/write-stream. */
static inline struct reply put(const char *box, const char *file, const char *content, size_t size)
{
    char headers[512];
    snprintf(headers, sizeof headers, "X-Sandbox-Id: %s\r\nX-File-Path: %s\r\n%s", box, file,
             strcmp(box, "tiny") == 0 ? "X-Sandbox-Class: Tiny\r\n" : "");
    return request_bytes(&emulator, "PUT", "/api/file/write-stream", headers, content, size);
}

/* Begins one and leaves the rest to the caller. */
static inline int put_begin(const char *box, const char *file, const char *length_line)
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

static inline long long inflight(const char *box)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s%s", box,
             strcmp(box, "tiny") == 0 ? "?class=Tiny" : "");
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return number_at(shown.json, "inflight");
}

static inline bool is_idle(void *box)
{
    return inflight(box) == 0;
}

static inline bool is_busy(void *box)
{
    return inflight(box) > 0;
}

/* Temporary files anywhere in the workspace. */
static inline bool has_temps(void *box)
{
    CLEANUP_REPLY struct reply found = shell(box, "find /workspace -name '*.tmp.*' | wc -l");
    return strcmp(text_at(found.json, "stdout"), "0") != 0;
}

static inline bool no_temps(void *box)
{
    return !has_temps(box);
}

static inline char *pattern(size_t size)
{
    char *data = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 2654435761U >> 13);
    return data;
}

static inline int start(void)
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

#endif
