/* What the tests of previews share: a sandbox with the server of proxy_box.h behind an exposed
 * port. */
#ifndef SANDPIT_TESTS_PREVIEW_BOX_H
#define SANDPIT_TESTS_PREVIEW_BOX_H

#include "base/buf.h"
#include "proxy_box.h"

/* The Host of the preview of port 8080 of a sandbox, whose token is "tok". */
static inline const char *host_of(const char *id)
{
    char line[160];
    snprintf(line, sizeof line, "Host: 8080-%s-tok.localhost:%d\r\n", id, emulator.port);
    return keep(line);
}

static inline const char *expose(const char *id, int port, const char *token)
{
    char path[128], body[96];
    snprintf(path, sizeof path, "/sandbox/%s/exposePort", id);
    snprintf(body, sizeof body, "[%d, {\"token\": \"%s\"}]", port, token);
    CLEANUP_REPLY struct reply r = request(&emulator, "POST", path, token_line, body);
    return r.status == 200 ? NULL : keep(r.body);
}

/* A sandbox with the server, exposed; NULL, or what went wrong. */
static inline const char *open_box(const char *id)
{
    const char *failed = start_server(id);
    return failed ? failed : expose(id, 8080, "tok");
}

static inline struct reply visit(const char *id, const char *path)
{
    return request(&emulator, "GET", path, host_of(id), NULL);
}

static inline int status_at(const char *host)
{
    char line[512];
    snprintf(line, sizeof line, "Host: %s\r\n", host);
    CLEANUP_REPLY struct reply r = request(&emulator, "GET", "/", line, NULL);
    return r.status;
}

static inline const char *code_at(const char *host)
{
    char line[512];
    snprintf(line, sizeof line, "Host: %s\r\n", host);
    CLEANUP_REPLY struct reply r = request(&emulator, "GET", "/", line, NULL);
    return keep(text_at(r.json, "code"));
}

static inline bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

static inline void post_to(const char *path)
{
    CLEANUP_REPLY struct reply r = post(&emulator, path, "[]");
}

/* A connection that was upgraded; -1 when it was not. `head` gets the answer. */
static inline int upgrade_at(const char *host, const char *extra, char *head, size_t size)
{
    char text[1024];
    int fd = dial(&emulator);
    int length =
        snprintf(text, sizeof text,
                 "GET /hmr?t=1 HTTP/1.1\r\nHost: %s\r\nConnection: keep-alive, Upgrade\r\nUpgrade: "
                 "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                 "AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n",
                 host, extra);
    head[0] = '\0';
    if (fd >= 0 && send_all(fd, text, (size_t)length) == 0 && reads(fd, "\r\n\r\n", head, size) &&
        strncmp(head, "HTTP/1.1 101 ", 13) == 0)
        return fd;
    cleanup_fd(&fd);
    return -1;
}

#endif
