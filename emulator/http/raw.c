/* Requests for previews: their bytes are another layer's from the end of the head on, and they
 * never pass through libmicrohttpd. Each is checked as the first of a connection is. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/journal.h"
#include "http/internal.h"

/* The head was only looked at. Socket pairs take MSG_TRUNC for nothing, so it is read once more,
 * over itself. */
static bool read_head(int fd, char *data, size_t size)
{
    return recv(fd, data, size, MSG_DONTWAIT) == (ssize_t)size;
}

static void raw_fill(struct http_server *server, int fd, const char *data, const struct head *head,
                     const struct owner_answer *owner, struct http_raw *raw)
{
    char what[256];
    raw->server = server;
    raw->fd = fd;
    raw->head = head;
    raw->data = data;
    memcpy(raw->label, owner->label, sizeof raw->label);
    raw->path = owner->path;
    raw->by_path = owner->by_path;
    if (!journal_is_open())
        return;
    snprintf(what, sizeof what, "%.*s preview %.*s",
             (int)(head->method.size < 32 ? head->method.size : 32), head->method.at,
             (int)(raw->path.size < 200 ? raw->path.size : 200), raw->path.at);
    journal_note(JOURNAL_REQUEST, server->config.now_ms(server->config.now_arg), "", what);
}

void raw_admit(struct http_server *server, int fd, char *data, const struct head *head,
               const struct owner_answer *owner)
{
    struct http_raw raw;
    if (!read_head(fd, data, head->size)) {
        close(fd);
        return;
    }
    server->raw++;
    raw_fill(server, fd, data, head, owner, &raw);
    server->config.raw(server->config.arg, &raw);
}

bool http_raw_next(struct http_server *server, int fd, char data[HEAD_MAX + 1], struct head *head,
                   struct http_raw *raw)
{
    struct owner_answer owner;
    struct refusal why;
    const struct refusal *fault;
    ssize_t size = recv(fd, data, HEAD_MAX + 1, MSG_PEEK | MSG_DONTWAIT);
    if (size <= 0 || head_check(data, (size_t)size, head, &fault) != HEAD_COMPLETE ||
        !owner_find(&server->rules, head, &owner, &why) || owner.owner != OWNER_PREVIEW ||
        !read_head(fd, data, head->size))
        return false;
    raw_fill(server, fd, data, head, &owner, raw);
    return true;
}

void http_raw_reply(struct http_server *server, int fd, int status, const char *type,
                    const char *body, size_t size)
{
    CLEANUP_BUF struct buf text = BUF_INIT(64 * 1024);
    server->raw--;
    buf_addf(&text,
             "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\nX-Content-Type-Options: nosniff\r\n"
             "Content-Length: %zu\r\nConnection: close\r\n\r\n",
             status, http_reason(status), reply_date(server), type, size);
    if (body)
        buf_add(&text, body, size);
    if (text.error)
        close(fd);
    else
        door_answer(server, fd, &text);
}

const char *http_server_token(const struct http_server *server)
{
    return server->config.token;
}

struct span http_preview_path(const struct http_request *request)
{
    return request->owner.path;
}

bool http_preview_by_path(const struct http_request *request)
{
    return request->owner.by_path;
}
