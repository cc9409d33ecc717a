#include "cli/client.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "base/cleanup.h"
#include "cli/locator.h"

enum { HEAD_BYTES_MAX = 65536, CALL_TIMEOUT_MS = 60000 };
#define BODY_BYTES_MAX ((size_t)1 << 29)

/* One exchange: the socket, its deadline, and what was read ahead. */
struct wire {
    const struct client *client;
    int fd;
    int64_t deadline_ms; /* CLOCK_MONOTONIC; 0 = none */
    int (*event)(void *arg, const char *data); /* for a stream of events, else NULL */
    void *event_arg;
    char data[65536];
    size_t at, filled;
};

static int64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

void client_answer_free(struct client_answer *answer)
{
    buf_free(&answer->body);
    json_decref(answer->json);
    answer->json = NULL;
}

int client_parse_url(const char *url, struct client *client, struct error *err)
{
    *client = (struct client){0};
    if (strncasecmp(url, "http://", 7) != 0)
        return error_set(err, EINVAL, "'%s' is not an http:// URL", url);
    const char *host = url + 7;
    size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
    if (length < 1 || length >= sizeof client->host || length > strlen(host))
        return error_set(err, EINVAL, "'%s' has no host", url);
    snprintf(client->host, sizeof client->host, "%.*s", (int)length, host);
    const char *rest = host + length;
    unsigned long port = 80;
    if (*rest == ':') {
        char *end;
        port = isdigit((unsigned char)rest[1]) ? strtoul(rest + 1, &end, 10) : 0;
        rest = port ? end : rest;
    }
    if (port < 1 || port > 65535 || (*rest && strcmp(rest, "/") != 0))
        return error_set(err, EINVAL, "'%s' is not a URL of an emulator", url);
    client->port = (uint16_t)port;
    return 0;
}

/* The addresses a host stands for; names other than localhost are not looked up. */
static size_t addresses(const struct client *client, struct sockaddr_storage to[2])
{
    struct sockaddr_in *four = (struct sockaddr_in *)&to[0];
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&to[1];
    memset(to, 0, 2 * sizeof *to);
    *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(client->port)};
    *six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(client->port)};
    if (strcasecmp(client->host, "localhost") == 0) {
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        six->sin6_addr = in6addr_loopback;
        return 2;
    }
    if (inet_pton(AF_INET, client->host, &four->sin_addr) == 1)
        return 1;
    char bare[sizeof client->host];
    snprintf(bare, sizeof bare, "%s", client->host + (client->host[0] == '['));
    bare[strcspn(bare, "]")] = '\0';
    if (inet_pton(AF_INET6, bare, &six->sin6_addr) != 1)
        return 0;
    to[0] = to[1];
    return 1;
}

static int wire_wait(struct wire *wire, short events, struct error *err)
{
    for (;;) {
        int64_t left = wire->deadline_ms ? wire->deadline_ms - now_ms() : -1;
        if (wire->deadline_ms && left < 0)
            left = 0;
        struct pollfd item = {.fd = wire->fd, .events = events};
        int ready = poll(&item, 1, (int)left);
        if (ready > 0)
            return 0;
        if (ready == 0)
            return error_set(err, ETIMEDOUT, "the emulator on port %d does not answer",
                             wire->client->port);
        if (errno != EINTR)
            return error_errno(err, errno, "wait for the emulator");
    }
}

static int wire_connect(struct wire *wire, struct error *err)
{
    struct sockaddr_storage list[2];
    size_t count = addresses(wire->client, list);
    if (count == 0)
        return error_set(err, EINVAL, "'%s' is neither localhost nor an address",
                         wire->client->host);
    int problem = 0;
    for (size_t i = 0; i < count; i++) {
        socklen_t size =
            list[i].ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        CLEANUP_FD int fd = socket(list[i].ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&list[i], size) == 0) {
            wire->fd = steal_fd(&fd);
            return 0;
        }
        problem = problem ? problem : errno;
    }
    if (problem == ECONNREFUSED)
        return error_set(err, ECONNREFUSED,
                         "no sandpit is running on %s:%d; start one with: sandpit dev",
                         wire->client->host, wire->client->port);
    return error_errno(err, problem, "connect to %s:%d", wire->client->host, wire->client->port);
}

static int wire_send(struct wire *wire, const char *data, size_t size, struct error *err)
{
    while (size > 0) {
        int result = wire_wait(wire, POLLOUT, err);
        if (result < 0)
            return result;
        ssize_t sent = send(wire->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return error_errno(err, errno, "send to the emulator");
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        }
    }
    return 0;
}

/* Reads ahead; 0 at the end of the connection, else the bytes there are. */
static long wire_fill(struct wire *wire, struct error *err)
{
    if (wire->at < wire->filled)
        return (long)(wire->filled - wire->at);
    for (;;) {
        int result = wire_wait(wire, POLLIN, err);
        if (result < 0)
            return result;
        ssize_t got = recv(wire->fd, wire->data, sizeof wire->data, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got < 0)
            return error_errno(err, errno, "receive from the emulator");
        wire->at = 0;
        wire->filled = (size_t)got;
        return got;
    }
}

static int cut_short(struct error *err)
{
    return error_set(err, EPROTO, "the emulator's answer was cut short");
}

/* One line without its CRLF. */
static int wire_line(struct wire *wire, char *to, size_t size, struct error *err)
{
    for (size_t length = 0; length < size;) {
        long got = wire_fill(wire, err);
        if (got <= 0)
            return got < 0 ? (int)got : cut_short(err);
        char c = wire->data[wire->at++];
        if (c == '\n') {
            to[length > 0 && to[length - 1] == '\r' ? length - 1 : length] = '\0';
            return 0;
        }
        to[length++] = c;
    }
    return error_set(err, EPROTO, "the emulator's answer has a line that is too long");
}

/* Exactly `size` bytes, or all there are for size < 0. */
static int wire_body(struct wire *wire, long long size, struct buf *to, struct error *err)
{
    while (size != 0) {
        long got = wire_fill(wire, err);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return size < 0 ? 0 : cut_short(err);
        if (size > 0 && got > size)
            got = (long)size;
        int result = buf_add(to, wire->data + wire->at, (size_t)got);
        if (result < 0)
            return error_errno(err, -result, "keep the emulator's answer");
        wire->at += (size_t)got;
        size -= size > 0 ? got : 0;
    }
    return 0;
}

/* Gives the data of the whole lines that are there, and keeps the rest. */
static int wire_events(struct wire *wire, struct buf *text)
{
    int result = 0;
    for (char *end; result == 0 && text->size && (end = memchr(text->data, '\n', text->size));) {
        *end = '\0';
        if (strncmp(text->data, "data: ", 6) == 0)
            result = wire->event(wire->event_arg, text->data + 6);
        buf_drop(text, (size_t)(end + 1 - text->data));
    }
    return result;
}

static int wire_chunks(struct wire *wire, struct buf *to, struct error *err)
{
    char line[4096];
    for (;;) {
        int result = wire_line(wire, line, sizeof line, err);
        if (result < 0)
            return result;
        char *end;
        unsigned long long size = strtoull(line, &end, 16);
        if (end == line || size > BODY_BYTES_MAX)
            return error_set(err, EPROTO, "the emulator's answer has a bad chunk");
        result = wire_body(wire, (long long)size, to, err);
        if (result < 0)
            return result;
        do { /* the line after the chunk, or the trailers up to the empty line */
            result = wire_line(wire, line, sizeof line, err);
        } while (result == 0 && line[0]);
        if (result == 0 && wire->event)
            result = wire_events(wire, to);
        if (result != 0 || size == 0)
            return result;
    }
}

static const char *header_value(const char *line, const char *name)
{
    size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':')
        return NULL;
    line += length + 1;
    return line + strspn(line, " \t");
}

/* The head of the answer that counts. */
static int wire_head(struct wire *wire, int *status, long long *size, bool *chunked,
                     struct error *err)
{
    char line[HEAD_BYTES_MAX];
    do { /* 1xx answers come before the one that counts */
        int result = wire_line(wire, line, sizeof line, err);
        if (result < 0)
            return result;
        if (sscanf(line, "HTTP/1.%*1d %3d", status) != 1)
            return error_set(err, EPROTO, "what answers on port %d does not speak HTTP",
                             wire->client->port);
        while ((result = wire_line(wire, line, sizeof line, err)) == 0 && line[0]) {
            const char *value = header_value(line, "Content-Length");
            *size = value ? strtoll(value, NULL, 10) : *size;
            value = header_value(line, "Transfer-Encoding");
            *chunked = *chunked || (value && strcasecmp(value, "chunked") == 0);
        }
        if (result < 0)
            return result;
    } while (*status < 200);
    return 0;
}

static int wire_receive(struct wire *wire, struct client_answer *answer, struct error *err)
{
    long long size = -1;
    bool chunked = false;
    int result = wire_head(wire, &answer->status, &size, &chunked, err);
    if (result < 0)
        return result;
    if (answer->status == 204 || answer->status == 304)
        return 0;
    if (answer->status >= 400)
        wire->event = NULL; /* it says why instead */
    return chunked ? wire_chunks(wire, &answer->body, err)
                   : wire_body(wire, size, &answer->body, err);
}

static int write_request(const struct client *client, const struct client_message *message,
                         struct buf *to)
{
    bool has_body = message->body || strcmp(message->method, "GET") != 0;
    buf_addf(to,
             "%s %s HTTP/1.1\r\nHost: %s:%d\r\nAccept: application/json\r\n"
             "Connection: close\r\n",
             message->method, message->path, client->host, client->port);
    if (client->token[0])
        buf_addf(to, "Authorization: Bearer %s\r\n", client->token);
    if (message->headers)
        buf_adds(to, message->headers);
    if (message->body)
        buf_adds(to, "Content-Type: application/json\r\n");
    if (has_body)
        buf_addf(to, "Content-Length: %zu\r\n", message->body_size);
    buf_adds(to, "\r\n");
    return buf_add(to, message->body ? message->body : "", message->body_size);
}

/* `how` has the deadline and the receiver of events. */
static int exchange(const struct client *client, const struct client_message *message,
                    const struct wire *how, struct client_answer *answer, struct error *err)
{
    *answer = (struct client_answer){.body = BUF_INIT(BODY_BYTES_MAX)};
    CLEANUP_BUF struct buf request = BUF_INIT(BODY_BYTES_MAX);
    int result = write_request(client, message, &request);
    if (result < 0)
        return error_errno(err, -result, "write the request");
    CLEANUP_FREE struct wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return error_set(err, ENOMEM, "out of memory");
    wire->client = client;
    wire->deadline_ms = how->deadline_ms;
    wire->event = how->event;
    wire->event_arg = how->event_arg;
    result = wire_connect(wire, err);
    if (result < 0)
        return result;
    CLEANUP_FD int fd = wire->fd;
    result = wire_send(wire, buf_text(&request), request.size, err);
    result = result < 0 ? result : wire_receive(wire, answer, err);
    if (result == 0)
        answer->json = json_loadb(buf_text(&answer->body), answer->body.size,
                                  JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return result;
}

int client_send(const struct client *client, const struct client_message *message, int timeout_ms,
                struct client_answer *answer, struct error *err)
{
    const struct wire how = {.deadline_ms = timeout_ms ? now_ms() + timeout_ms : 0};
    return exchange(client, message, &how, answer, err);
}

int client_request(const struct client *client, const char *method, const char *path,
                   const json_t *body, int timeout_ms, struct client_answer *answer,
                   struct error *err)
{
    *answer = (struct client_answer){.body = BUF_INIT(BODY_BYTES_MAX)};
    CLEANUP_FREE char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (body && !text)
        return error_errno(err, EINVAL, "write the request");
    struct client_message message = {
        .method = method, .path = path, .body = text, .body_size = text ? strlen(text) : 0};
    return client_send(client, &message, timeout_ms, answer, err);
}

/* What a status from 400 on says, as an error. */
static int refused(const struct client_answer *answer, struct error *err)
{
    if (answer->status < 400)
        return 0;
    const char *text = json_string_value(json_object_get(answer->json, "error"));
    const char *hint = json_string_value(json_object_get(answer->json, "hint"));
    int code = answer->status == 404 ? ENOENT : EINVAL;
    if (!text)
        return error_set(err, code, "the emulator answered with status %d", answer->status);
    return error_set(err, code, "%s%s%s", text, hint ? "\nhint: " : "", hint ? hint : "");
}

int client_call(const struct client *client, const char *method, const char *path,
                const json_t *body, struct client_answer *answer, struct error *err)
{
    int result = client_request(client, method, path, body, CALL_TIMEOUT_MS, answer, err);
    if (result < 0)
        return result;
    result = refused(answer, err);
    if (result < 0)
        return result;
    return answer->json ? 0 : error_set(err, EPROTO, "the emulator's answer is not JSON");
}

int client_follow(const struct client *client, const char *path,
                  int (*event)(void *arg, const char *data), void *arg, struct error *err)
{
    CLEANUP_ANSWER struct client_answer answer = {0};
    const struct client_message message = {.method = "GET", .path = path};
    const struct wire how = {.event = event, .event_arg = arg};
    int result = exchange(client, &message, &how, &answer, err);
    return result == 0 ? refused(&answer, err) : result;
}

/* The token that the locator knows for this port, if any. */
static void add_token(struct client *client)
{
    struct locator_entry entry;
    if (locator_find(NULL, client->port, &entry, NULL) == 0)
        snprintf(client->token, sizeof client->token, "%s", entry.token);
}

int client_choose(const struct client_choice *choice, struct client *client, struct error *err)
{
    char built[64];
    const char *url = choice->url;
    if (!url && choice->port > 0) {
        snprintf(built, sizeof built, "http://localhost:%ld", choice->port);
        url = built;
    }
    if (!url && !choice->project)
        url = getenv("SANDPIT_URL");
    if (url && *url) {
        int result = client_parse_url(url, client, err);
        if (result == 0)
            add_token(client);
        return result;
    }
    struct locator_entry entry;
    int result = locator_find(choice->project, 0, &entry, err);
    if (result == 0)
        result = client_parse_url(entry.url, client, err);
    if (result == 0)
        snprintf(client->token, sizeof client->token, "%s", entry.token);
    return result;
}
