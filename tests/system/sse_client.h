/* Reads server-sent events one by one as they come, however many and however long. */
#ifndef SANDPIT_TESTS_SSE_CLIENT_H
#define SANDPIT_TESTS_SSE_CLIENT_H

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"

struct sse {
    int fd;
    int status;
    char head[2048];
    char bytes[65536];
    size_t at, have;
    size_t chunk; /* bytes left of the current one */
    char *event;  /* the last one */
    size_t size, room;
    json_t *json; /* what it holds, when asked for */
    bool ended;   /* the last chunk came */
};
#define CLEANUP_SSE __attribute__((cleanup(sse_close)))

static inline void sse_close(struct sse *sse)
{
    if (sse->fd >= 0)
        close(sse->fd);
    sse->fd = -1;
    free(sse->event);
    json_decref(sse->json);
    sse->event = NULL;
    sse->json = NULL;
}

/* One byte of the connection, -1 when none came in time. */
static inline int sse_raw(struct sse *sse, int ms)
{
    if (sse->at == sse->have) {
        struct pollfd poller = {.fd = sse->fd, .events = POLLIN};
        if (poll(&poller, 1, ms) <= 0)
            return -1;
        ssize_t got = recv(sse->fd, sse->bytes, sizeof sse->bytes, 0);
        if (got <= 0)
            return -1;
        sse->at = 0;
        sse->have = (size_t)got;
    }
    return (unsigned char)sse->bytes[sse->at++];
}

/* One byte of the body. */
static inline int sse_byte(struct sse *sse, int ms)
{
    if (sse->ended)
        return -1;
    if (sse->chunk == 0) {
        char line[32];
        size_t size = 0;
        int c = 0;
        while (c != '\n' || size == 0) { /* the line end of the last chunk is skipped */
            c = sse_raw(sse, ms);
            if (c < 0)
                return -1;
            if (c != '\r' && c != '\n' && size < sizeof line - 1)
                line[size++] = (char)c;
        }
        line[size] = '\0';
        sse->chunk = strtoul(line, NULL, 16);
        if (sse->chunk == 0) {
            sse->ended = true;
            return -1;
        }
    }
    sse->chunk--;
    return sse_raw(sse, ms);
}

/* Sends the request and reads the head. */
static inline void sse_open(struct sse *sse, const struct emulator *emulator, const char *method,
                            const char *path, const char *host, const char *body)
{
    char text[1024];
    memset(sse, 0, sizeof *sse);
    sse->fd = dial(emulator);
    int room = 64 * 1024; /* else the kernel takes tens of megabytes for a client that stopped */
    setsockopt(sse->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    int size = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n",
                        method, path, host ? host : "Host: localhost\r\n", body ? strlen(body) : 0);
    send_all(sse->fd, text, (size_t)size);
    if (body)
        send_all(sse->fd, body, strlen(body));
    size_t got = 0;
    while (got < sizeof sse->head - 1 && !strstr(sse->head, "\r\n\r\n")) {
        int c = sse_raw(sse, answer_ms);
        if (c < 0)
            return;
        sse->head[got++] = (char)c;
    }
    if (sscanf(sse->head, "HTTP/1.1 %d", &sse->status) != 1)
        sse->status = 0;
}

/* The text of the next event, valid until the next call; NULL at the end or when none came in time.
 */
static inline const char *sse_next(struct sse *sse, int ms)
{
    sse->size = 0;
    for (;;) {
        int c = sse_byte(sse, ms);
        if (c < 0)
            return NULL;
        if (sse->size + 1 >= sse->room) {
            sse->room = sse->room ? sse->room * 2 : 4096;
            sse->event = realloc(sse->event, sse->room);
        }
        sse->event[sse->size++] = (char)c;
        if (c == '\n' && sse->size >= 2 && sse->event[sse->size - 2] == '\n')
            break;
    }
    sse->event[sse->size -= 2] = '\0';
    return strncmp(sse->event, "data: ", 6) == 0 ? sse->event + 6 : "(no data)";
}

/* The same as JSON. */
static inline const json_t *sse_json(struct sse *sse, int ms)
{
    const char *text = sse_next(sse, ms);
    json_decref(sse->json);
    sse->json = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
    return sse->json;
}

/* Everything that is left, times replaced by T, events joined by newlines; malloc'd. */
static inline char *sse_all(struct sse *sse, int ms)
{
    size_t size = 0;
    char *all = calloc(1, 1);
    const char *event;
    while ((event = sse_next(sse, ms))) {
        char *copy = strdup(event);
        char *stamp = strstr(copy, "\"timestamp\":\"");
        if (stamp) {
            char *value = stamp + strlen("\"timestamp\":\"");
            char *end = strchr(value, '"');
            memmove(value + 1, end, strlen(end) + 1);
            *value = 'T';
        }
        all = realloc(all, size + strlen(copy) + 2);
        size += (size_t)snprintf(all + size, strlen(copy) + 2, "%s\n", copy);
        free(copy);
    }
    return all;
}

/* The Host header of a sandbox's own API, which this starts. */
static inline const char *container_host(const struct emulator *emulator, const char *box)
{
    static char host[256];
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/start", box);
    CLEANUP_REPLY struct reply first = post(emulator, path, "[]");
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    CLEANUP_REPLY struct reply shown = get(emulator, path);
    const char *url = text_at(shown.json, "containerUrl");
    snprintf(host, sizeof host, "Host: %s\r\n", strlen(url) > 7 ? url + 7 : "");
    return host;
}

#endif
