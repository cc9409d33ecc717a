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

const char edit_other_origin[] =
    "Content-Security-Policy: sandbox allow-scripts allow-forms allow-popups allow-modals\r\n";

/* Where the fields come from: one of the two. */
struct source {
    const struct head *head;
    struct http_request *request;
    const struct http_raw *raw;
};

struct writer {
    const struct edit *edit;
    struct buf nominated; /* what Connection says, when it names fields */
    bool upgrade;
    struct buf *to;
};

bool edit_is_upgrade(const struct head *head)
{
    return head->minor > 0 && head->upgrade.at && head->upgrades;
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
static bool is_nominated(const struct buf *nominated, struct span name)
{
    return nominated->size && !span_is(name, "content-length") &&
           !span_is(name, "transfer-encoding") && !span_is(name, "upgrade") &&
           list_has((struct span){nominated->data, nominated->size}, name);
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
    return is_added(writer->edit, name) || is_nominated(&writer->nominated, name) ||
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

/* It may come more than once. */
static void add_nominated(void *arg, struct span name, struct span value)
{
    struct writer *writer = arg;
    if (!span_is(name, "connection"))
        return;
    buf_add(&writer->nominated, value.at, value.size);
    buf_addc(&writer->nominated, ',');
}

static void each_raw_field(const struct http_raw *raw, http_field *field, void *arg)
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
        field(arg, name, span_trim((struct span){colon + 1, line.size - name.size - 1}));
    }
}

static void each_field(const struct source *source, http_field *field, void *arg)
{
    if (source->raw)
        each_raw_field(source->raw, field, arg);
    else
        http_each_field(source->request, field, arg);
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
    if (head->nominates)
        each_field(source, add_nominated, writer);
    each_field(source, write_field, writer);
    for (const struct edit_field *field = edit->add; field && field->name; field++) {
        if (field->value)
            buf_addf(to, "%s: %s\r\n", field->name, field->value);
    }
    return writer->nominated.error ? writer->nominated.error : buf_adds(to, "\r\n");
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
        .keep = !head->close && (head->minor > 0 || head->keep_alive),
    };
    struct writer writer = {edit, BUF_INIT(REQUEST_HEAD_MAX), to->upgrade, &to->head};
    int result = write_head(source, edit, &writer);
    buf_free(&writer.nominated);
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
