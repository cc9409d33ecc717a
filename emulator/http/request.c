#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "http/internal.h"

enum { QUERY_MAX = 64 };

struct http_request *request_new(struct http_server *server, const char *target)
{
    size_t size = target ? strlen(target) : 0;
    struct http_request *request = calloc(1, sizeof *request + size + 1);
    if (!request)
        return NULL;
    if (size)
        memcpy(request->target, target, size);
    request->server = server;
    request->body = BUF_INIT(server->limits.body_max);
    request->refusals = heap_refusals();
    request->next = server->requests;
    if (request->next)
        request->next->previous = request;
    server->requests = request;
    return request;
}

void request_free(struct http_request *request)
{
    *(request->previous ? &request->previous->next : &request->server->requests) = request->next;
    if (request->next)
        request->next->previous = request->previous;
    if (request->response)
        MHD_destroy_response(request->response);
    for (unsigned i = 0; i < request->header_count; i++) {
        free(request->headers[i].name);
        free(request->headers[i].value);
    }
    free(request->headers);
    free(request->query);
    free(request->query_text);
    free(request->host);
    heap_used(request->body.capacity);
    buf_free(&request->body);
    free(request);
}

/* The check of a head from what libmicrohttpd made of it. */

static enum MHD_Result each_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct http_request *request = arg;
    struct span key = span_of(name), text = span_of(value);
    request->fault = head_field(&request->head, key, text);
    /* "Name: value CR LF": both are still where they were received, with a NUL for the colon. A
     * folded line moves them apart, and the sum comes out wrong. */
    uintptr_t apart = (uintptr_t)value - (uintptr_t)(name + key.size);
    if (apart < 1 || apart > HEAD_MAX)
        apart = HEAD_MAX;
    request->counted += key.size + apart + text.size + 2;
    return request->fault ? MHD_NO : MHD_YES;
}

bool request_parser_is_lenient(void)
{
    return strncmp(MHD_get_version(), "0.", 2) == 0;
}

/* libmicrohttpd before 1.0 takes bare LF, folded lines and NUL bytes. It parses in place, so that
 * the parts of a well-formed head add up to the size that it reports, and those of no other do. */
static bool adds_up(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info && info->header_size == request->counted;
}

static const struct refusal *check_head(struct http_request *request, const char *method,
                                        const char *version)
{
    struct head *head = &request->head;
    struct span parts[] = {span_of(method), span_of(request->target), span_of(version)};
    request->fault = head_start(head, parts[0], parts[1], parts[2]);
    if (request->fault)
        return request->fault;
    request->counted = parts[0].size + 1 + parts[1].size + 1 + parts[2].size + 2 + 2;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, each_field, request);
    if (request->fault)
        return request->fault;
    if (request_parser_is_lenient() && !adds_up(request))
        return head_bad_line();
    return head_finish(head);
}

/* Query parameters. */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. What is no escape stays as it is, as URLSearchParams has it; so does %00, which a C
 * string could not carry. */
static void decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        int high = *from == '%' ? hex(from[1]) : -1;
        int low = high >= 0 ? hex(from[2]) : -1;
        if (low >= 0 && (high || low)) {
            *to++ = (char)(high * 16 + low);
            from += 2;
        } else {
            *to++ = *from == '+' ? ' ' : *from;
        }
    }
    *to = '\0';
}

static bool parse_query(struct http_request *request)
{
    if (!request->head.query.at)
        return true;
    request->query_text = strndup(request->head.query.at, request->head.query.size);
    request->query = calloc(QUERY_MAX, sizeof *request->query);
    if (!request->query_text || !request->query)
        return false;
    char *rest = request->query_text, *part;
    while (request->query_count < QUERY_MAX && (part = strsep(&rest, "&"))) {
        char *value = strchr(part, '=');
        if (value)
            *value++ = '\0';
        else
            value = part + strlen(part);
        if (!*part)
            continue;
        decode(part);
        decode(value);
        request->query[request->query_count++] = (struct pair){part, value};
    }
    return true;
}

bool request_check(struct http_request *request, const char *method, const char *version,
                   struct refusal *why)
{
    const struct refusal *fault = check_head(request, method, version);
    if (fault) {
        *why = *fault;
        return false;
    }
    if (!owner_find(&request->server->rules, &request->head, &request->owner, why))
        return false;
    if (request->head.query.at) /* makes the path a string */
        request->target[request->head.query.at - 1 - request->target] = '\0';
    struct span host = request->head.host.at ? request->head.host : span_of("localhost");
    request->host = strndup(host.at, host.size);
    /* What a handler does not see in the query it would take for absent. */
    if (!request->host || !parse_query(request)) {
        *why = (struct refusal){503, "OUT_OF_MEMORY", "out of memory", NULL};
        return false;
    }
    return true;
}

const char *http_query(const struct http_request *request, const char *name)
{
    for (unsigned i = 0; i < request->query_count; i++) {
        if (strcmp(request->query[i].name, name) == 0)
            return request->query[i].value;
    }
    return NULL;
}

/* The rest of what a handler asks. */

const char *http_method(const struct http_request *request)
{
    return request->head.method.at;
}

const char *http_path(const struct http_request *request)
{
    return request->head.path.at;
}

const char *request_shown_path(const struct http_request *request)
{
    if (request->owner.owner == OWNER_PREVIEW)
        return request->owner.path.at;
    return http_path(request);
}

const char *http_header(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

const char *http_label(const struct http_request *request)
{
    return request->owner.label;
}

const char *http_host(const struct http_request *request)
{
    return request->host;
}

struct buf http_take_body(struct http_request *request)
{
    struct buf body = request->body;
    heap_used(body.capacity);
    request->body = BUF_INIT(body.max);
    return body;
}

const struct buf *http_body(const struct http_request *request)
{
    return &request->body;
}

bool http_wants_html(const struct http_request *request)
{
    const char *accept = http_header(request, "Accept");
    return accept && strcasestr(accept, "text/html");
}

void http_on_gone(struct http_request *request, void (*gone)(void *arg), void *arg)
{
    request->gone = gone;
    request->gone_arg = arg;
}
