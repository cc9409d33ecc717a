/* The head that a server behind a preview gets: as sent, with the headers that the SDK adds. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "preview/internal.h"

enum { URL_MAX = HEAD_MAX + 1024, HOST_MAX = 256 };

/* The Host without its port, lower case. */
static void forwarded_host(struct span host, char to[HOST_MAX])
{
    size_t size = host.size < HOST_MAX ? host.size : HOST_MAX - 1;
    const char *close = size && host.at[0] == '[' ? memchr(host.at, ']', size) : NULL;
    const char *from = close ? close : host.at;
    const char *colon = size ? memchr(from, ':', size - (size_t)(from - host.at)) : NULL;
    size = colon ? (size_t)(colon - host.at) : size;
    for (size_t i = 0; i < size; i++)
        to[i] = (char)tolower((unsigned char)host.at[i]);
    to[size] = '\0';
}

static int original_url(const struct head *head, struct span host, struct buf *to)
{
    buf_adds(to, "http://");
    buf_add(to, host.at, host.size);
    buf_add(to, head->path.at, head->path.size);
    if (head->query.at) {
        buf_addc(to, '?');
        buf_add(to, head->query.at, head->query.size);
    }
    return to->error;
}

int request_edit(const struct source *source, const char *id, uint16_t port,
                 struct proxy_request *to)
{
    const struct head *head = source->head;
    struct span sent = head->host.at ? head->host : span_of("localhost");
    CLEANUP_BUF struct buf url = BUF_INIT(URL_MAX);
    char host[32], forwarded[HOST_MAX];
    snprintf(host, sizeof host, "localhost:%u", port);
    forwarded_host(sent, forwarded);
    int result = original_url(head, sent, &url);
    if (result < 0)
        return result;
    const struct edit_field fields[] = {{"X-Original-URL", buf_text(&url)},
                                        {"X-Forwarded-Host", forwarded},
                                        {"X-Forwarded-Proto", "http"},
                                        {"X-Sandbox-Name", id},
                                        {"X-Sandbox-Preview-Proxy", NULL},
                                        {"X-Sandbox-Preview-Port", NULL},
                                        {"X-Sandbox-Preview-Token", NULL},
                                        {"X-Sandbox-Preview-Sandbox-Id", NULL},
                                        {NULL, NULL}};
    struct edit edit = {.path = source->path,
                        .query = head->query,
                        .host = host,
                        .token = source->raw ? http_server_token(source->raw->server)
                                             : http_token(source->request),
                        .answer_fields = source->by_path ? edit_other_origin : NULL,
                        .add = fields};
    return source->raw ? edit_raw(source->raw, &edit, to)
                       : edit_request(source->request, &edit, to);
}
