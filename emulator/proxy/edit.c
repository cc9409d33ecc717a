#include "proxy/edit.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "proxy/response.h"

enum { REQUEST_HEAD_MAX = 32 * 1024, REQUEST_HEAD_USUAL = 1024 };

/* Fields of the connection, and those that we write ourselves. */
static const struct {
    const char *name;
    bool with_upgrade; /* stays when the request asks for an upgrade */
} dropped[] = {
    {"connection", true},  {"upgrade", true},           {"host", false},
    {"keep-alive", false}, {"proxy-connection", false}, {"proxy-authorization", false},
};

/* Where the fields come from: one of the two. */
struct source {
    const struct head *head;
    struct http_request *request;
    const struct http_raw *raw;
};

struct writer {
    const struct edit *edit;
    struct span connection;
    bool upgrade;
    struct buf *to;
};

bool edit_is_upgrade(const struct head *head)
{
    return head->minor > 0 && head->upgrade.at && list_has(head->connection, "upgrade");
}

static bool is_added(const struct edit *edit, struct span name)
{
    for (const struct edit_field *field = edit->add; field && field->name; field++) {
        if (span_is(name, field->name))
            return true;
    }
    return false;
}

/* Connection may name fields that are not to be passed on; those that frame the body are not its to
 * name. */
static bool is_nominated(struct span connection, struct span name)
{
    char text[64];
    if (name.size >= sizeof text || span_is(name, "content-length") ||
        span_is(name, "transfer-encoding") || span_is(name, "upgrade"))
        return false;
    memcpy(text, name.at, name.size);
    text[name.size] = '\0';
    return list_has(connection, text);
}

static bool has_token(const struct edit *edit, struct span value)
{
    return edit->token && *edit->token &&
           memmem(value.at, value.size, edit->token, strlen(edit->token));
}

static bool is_dropped(const struct writer *writer, struct span name, struct span value)
{
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) {
        if (span_is(name, dropped[i].name))
            return !(writer->upgrade && dropped[i].with_upgrade);
    }
    return is_added(writer->edit, name) || is_nominated(writer->connection, name) ||
           has_token(writer->edit, value);
}

static void write_field(void *arg, struct span name, struct span value)
{
    struct writer *writer = arg;
    if (is_dropped(writer, name, value))
        return;
    buf_add(writer->to, name.at, name.size);
    buf_adds(writer->to, ": ");
    buf_add(writer->to, value.at, value.size);
    buf_adds(writer->to, "\r\n");
}

static void each_raw_field(const struct http_raw *raw, struct writer *writer)
{
    const char *at = raw->data, *end = raw->data + raw->head->size;
    struct span line;
    if (head_line(&at, end, &line) == HEAD_COMPLETE && line.size == 0) /* one may stand before */
        head_line(&at, end, &line);                                    /* the request line */
    while (head_line(&at, end, &line) == HEAD_COMPLETE && line.size) {
        const char *colon = memchr(line.at, ':', line.size);
        if (!colon)
            continue;
        struct span name = {line.at, (size_t)(colon - line.at)};
        write_field(writer, name,
                    span_trim((struct span){colon + 1, line.size - name.size - 1}));
    }
}

static int write_head(const struct source *source, const struct edit *edit, struct writer *writer)
{
    const struct head *head = source->head;
    struct buf *to = writer->to;
    buf_reserve(to, REQUEST_HEAD_USUAL, NULL);
    buf_add(to, head->method.at, head->method.size);
    buf_addc(to, ' ');
    buf_add(to, edit->path.at, edit->path.size);
    if (edit->query.at) {
        buf_addc(to, '?');
        buf_add(to, edit->query.at, edit->query.size);
    }
    buf_addf(to, " HTTP/1.1\r\nHost: %s\r\n", edit->host);
    if (source->raw)
        each_raw_field(source->raw, writer);
    else
        http_each_field(source->request, write_field, writer);
    for (const struct edit_field *field = edit->add; field && field->name; field++) {
        if (field->value)
            buf_addf(to, "%s: %s\r\n", field->name, field->value);
    }
    return buf_adds(to, "\r\n");
}

static bool is_repeatable(const struct head *head)
{
    return head->length <= 0 && !head->chunked &&
           (span_is(head->method, "GET") || span_is(head->method, "HEAD") ||
            span_is(head->method, "OPTIONS"));
}

static int edit_source(const struct source *source, const struct edit *edit,
                       struct proxy_request *to)
{
    const struct head *head = source->head;
    *to = (struct proxy_request){
        .head = BUF_INIT(REQUEST_HEAD_MAX),
        .length = head->length,
        .chunked = head->chunked,
        .is_head = span_is(head->method, "HEAD"),
        .repeatable = is_repeatable(head) && !edit_is_upgrade(head),
        .upgrade = edit_is_upgrade(head),
        .minor = head->minor,
        .answer_fields = edit->answer_fields,
        .keep = head->minor > 0 ? !list_has(head->connection, "close")
                                : list_has(head->connection, "keep-alive"),
    };
    struct writer writer = {edit, head->connection, to->upgrade, &to->head};
    int result = write_head(source, edit, &writer);
    if (result < 0)
        buf_free(&to->head);
    return result;
}

int edit_request(struct http_request *request, const struct edit *edit, struct proxy_request *to)
{
    struct source source = {.head = http_head(request), .request = request};
    return edit_source(&source, edit, to);
}

int edit_raw(const struct http_raw *raw, const struct edit *edit, struct proxy_request *to)
{
    struct source source = {.head = raw->head, .raw = raw};
    return edit_source(&source, edit, to);
}
