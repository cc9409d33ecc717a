#include "http/head.h"

#include <string.h>
#include <strings.h>

/* Rows of `refusals`. */
enum fault {
    BAD_LINE,
    BAD_REQUEST_LINE,
    BAD_METHOD,
    BAD_TARGET,
    BAD_VERSION,
    BAD_FIELD_NAME,
    BAD_FIELD_VALUE,
    FOLDED_FIELD,
    REPEATED_FIELD,
    MISSING_HOST,
    BAD_HOST,
    HOST_MISMATCH,
    BAD_CONTENT_LENGTH,
    BAD_TRANSFER_ENCODING,
    LENGTH_AND_ENCODING,
    HTTP2_PREFACE,
    TARGET_TOO_LONG,
    HEAD_TOO_LARGE,
    TOO_MANY_FIELDS,
    CONNECT_REFUSED,
};

static const struct refusal refusals[] = {
    [BAD_LINE] = {400, "BAD_LINE", "a line of the request head does not end with CR LF", NULL},
    [BAD_REQUEST_LINE] = {400, "BAD_REQUEST_LINE",
                          "the request line is not \"METHOD target HTTP/1.1\"",
                          "HTTPS and HTTP/0.9 are not spoken here"},
    [BAD_METHOD] = {400, "BAD_METHOD", "the method is not a token", NULL},
    [BAD_TARGET] = {400, "BAD_TARGET", "the request target is not a path or an http URL",
                    "percent-encode what is not printable ASCII"},
    [BAD_VERSION] = {505, "HTTP_VERSION_NOT_SUPPORTED", "only HTTP/1.1 and HTTP/1.0 are spoken",
                     NULL},
    [BAD_FIELD_NAME] = {400, "BAD_HEADER_NAME", "a header line is not \"Name: value\"",
                        "no space may stand before the colon"},
    [BAD_FIELD_VALUE] = {400, "BAD_HEADER_VALUE", "a header value has a control character", NULL},
    [FOLDED_FIELD] = {400, "FOLDED_HEADER", "a header is continued on the next line", NULL},
    [REPEATED_FIELD] = {400, "REPEATED_HEADER",
                        "a header that may come once was sent more than once", NULL},
    [MISSING_HOST] = {400, "MISSING_HOST", "an HTTP/1.1 request needs a Host header", NULL},
    [BAD_HOST] = {400, "BAD_HOST", "the host is not \"name\" or \"name:port\"", NULL},
    [HOST_MISMATCH] = {400, "HOST_MISMATCH", "the URL and the Host header name different hosts",
                       NULL},
    [BAD_CONTENT_LENGTH] = {400, "BAD_CONTENT_LENGTH", "Content-Length is not a number of bytes",
                            NULL},
    [BAD_TRANSFER_ENCODING] = {400, "BAD_TRANSFER_ENCODING",
                               "the only Transfer-Encoding is \"chunked\", with HTTP/1.1", NULL},
    [LENGTH_AND_ENCODING] = {400, "LENGTH_AND_ENCODING",
                             "Content-Length and Transfer-Encoding exclude each other", NULL},
    [HTTP2_PREFACE] = {400, "HTTP2_NOT_SUPPORTED", "HTTP/2 is not spoken here", NULL},
    [TARGET_TOO_LONG] = {414, "URI_TOO_LONG", "the request target is longer than 8 KiB", NULL},
    [HEAD_TOO_LARGE] = {431, "HEAD_TOO_LARGE", "the request head is larger than 16 KiB", NULL},
    [TOO_MANY_FIELDS] = {431, "TOO_MANY_HEADERS", "the request has more than 100 headers", NULL},
    [CONNECT_REFUSED] = {501, "CONNECT_NOT_SUPPORTED", "this is not a proxy", NULL},
};

/* Character classes, one bit each. */
enum { TOKEN = 1, TARGET = 2, VALUE = 4, HOST = 8 };
#define EVERY (TOKEN | TARGET | VALUE | HOST)
static const unsigned char classes[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = EVERY,
    ['"'] = TARGET | VALUE,
    ['#'] = TOKEN | VALUE,
    ['$' ... '\''] = EVERY,
    ['(' ... ')'] = TARGET | VALUE,
    ['*' ... '+'] = EVERY,
    [','] = TARGET | VALUE,
    ['-' ... '.'] = EVERY,
    ['/'] = TARGET | VALUE,
    ['0' ... '9'] = EVERY,
    [':'] = TARGET | VALUE | HOST,
    [';' ... '@'] = TARGET | VALUE,
    ['A' ... 'Z'] = EVERY,
    ['['] = TARGET | VALUE | HOST,
    ['\\'] = TARGET | VALUE,
    [']'] = TARGET | VALUE | HOST,
    ['^'] = TOKEN | TARGET | VALUE,
    ['_'] = EVERY,
    ['`'] = TOKEN | TARGET | VALUE,
    ['a' ... 'z'] = EVERY,
    ['{'] = TARGET | VALUE,
    ['|'] = TOKEN | TARGET | VALUE,
    ['}'] = TARGET | VALUE,
    ['~'] = EVERY,
    [0x80 ... 0xff] = VALUE,
};

static bool all(struct span span, unsigned char class)
{
    for (size_t i = 0; i < span.size; i++) {
        if (!(classes[(unsigned char)span.at[i]] & class))
            return false;
    }
    return true;
}

bool span_is_token(struct span span)
{
    return all(span, TOKEN);
}

bool span_is_value(struct span span)
{
    return all(span, VALUE);
}

bool span_same(struct span a, struct span b)
{
    return a.size == b.size && (a.size == 0 || strncasecmp(a.at, b.at, a.size) == 0);
}

struct span span_of(const char *text)
{
    return (struct span){text, text ? strlen(text) : 0};
}

bool span_is(struct span span, const char *text)
{
    return span_same(span, span_of(text));
}

bool span_number(struct span span, int64_t *value)
{
    int64_t sum = 0;
    for (size_t i = 0; i < span.size; i++) {
        int digit = span.at[i] - '0';
        if (digit < 0 || digit > 9 || sum > (INT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return span.size > 0;
}

struct span span_trim(struct span span)
{
    while (span.size && (span.at[0] == ' ' || span.at[0] == '\t')) {
        span.at++;
        span.size--;
    }
    while (span.size && (span.at[span.size - 1] == ' ' || span.at[span.size - 1] == '\t'))
        span.size--;
    return span;
}

bool list_next(struct span *list, struct span *word)
{
    while (list->size && strchr(" \t,", list->at[0])) {
        list->at++;
        list->size--;
    }
    *word = (struct span){list->at, 0};
    while (word->size < list->size && list->at[word->size] != ',')
        word->size++;
    list->at += word->size;
    list->size -= word->size;
    while (word->size && strchr(" \t", word->at[word->size - 1]))
        word->size--;
    return word->size > 0;
}

bool list_has(struct span list, struct span word)
{
    struct span here;
    while (list_next(&list, &here)) {
        if (span_same(here, word))
            return true;
    }
    return false;
}

const struct refusal *head_bad_line(void)
{
    return &refusals[BAD_LINE];
}

/* Splits "path?query". */
static void split_path(struct head *head, struct span rest)
{
    const char *mark = rest.size ? memchr(rest.at, '?', rest.size) : NULL;
    head->path = rest;
    if (mark) {
        head->path.size = (size_t)(mark - rest.at);
        head->query = (struct span){mark + 1, rest.size - head->path.size - 1};
    }
    if (head->path.size == 0)
        head->path = span_of("/");
}

/* An absolute target, "http://authority/path?query". */
static const struct refusal *split_absolute(struct head *head, size_t scheme)
{
    struct span rest = {head->target.at + scheme, head->target.size - scheme};
    size_t size = 0;
    while (size < rest.size && rest.at[size] != '/' && rest.at[size] != '?')
        size++;
    head->authority = (struct span){rest.at, size};
    if (size == 0 || !all(head->authority, HOST))
        return &refusals[BAD_HOST];
    split_path(head, (struct span){rest.at + size, rest.size - size});
    return NULL;
}

static const struct refusal *split_target(struct head *head)
{
    struct span target = head->target;
    if (target.size > HEAD_TARGET_MAX)
        return &refusals[TARGET_TOO_LONG];
    if (target.size == 0 || !all(target, TARGET))
        return &refusals[BAD_TARGET];
    if (span_is(head->method, "CONNECT"))
        return &refusals[CONNECT_REFUSED];
    if (target.at[0] == '/') {
        split_path(head, target);
        return NULL;
    }
    if (target.size >= 7 && strncasecmp(target.at, "http://", 7) == 0)
        return split_absolute(head, 7);
    if (target.size >= 8 && strncasecmp(target.at, "https://", 8) == 0)
        return split_absolute(head, 8);
    if (span_is(target, "*") && span_is(head->method, "OPTIONS")) {
        head->path = target;
        return NULL;
    }
    return &refusals[BAD_TARGET];
}

const struct refusal *head_start(struct head *head, struct span method, struct span target,
                                 struct span version)
{
    *head = (struct head){.method = method, .target = target, .length = -1};
    if (method.size == 0 || !all(method, TOKEN))
        return &refusals[BAD_METHOD];
    if (span_is(method, "PRI") && version.size == 8 && memcmp(version.at, "HTTP/2.0", 8) == 0)
        return &refusals[HTTP2_PREFACE];
    if (version.size != 8 || memcmp(version.at, "HTTP/", 5) != 0)
        return &refusals[BAD_REQUEST_LINE];
    if (memcmp(version.at, "HTTP/1.1", 8) == 0)
        head->minor = 1;
    else if (memcmp(version.at, "HTTP/1.0", 8) != 0)
        return &refusals[BAD_VERSION];
    return split_target(head);
}

static void connection_words(struct head *head, struct span list)
{
    struct span word;
    while (list_next(&list, &word)) {
        if (span_is(word, "close"))
            head->close = true;
        else if (span_is(word, "keep-alive"))
            head->keep_alive = true;
        else if (span_is(word, "upgrade"))
            head->upgrades = true;
        else
            head->nominates = true;
    }
}

/* The fields that decide something. Those may come once each; `many` keeps the first. */
static const struct known {
    const char *name;
    size_t offset;
    bool many;
} known[] = {
    {"host", offsetof(struct head, host), false},
    {"origin", offsetof(struct head, origin), false},
    {"sec-fetch-site", offsetof(struct head, fetch_site), false},
    {"sec-fetch-mode", offsetof(struct head, fetch_mode), false},
    {"sec-fetch-dest", offsetof(struct head, fetch_dest), false},
    {"authorization", offsetof(struct head, authorization), false},
    {"content-length", offsetof(struct head, content_length), false},
    {"transfer-encoding", offsetof(struct head, transfer_encoding), false},
    {"upgrade", offsetof(struct head, upgrade), true},
};

const struct refusal *head_field(struct head *head, struct span name, struct span value)
{
    if (++head->fields > HEAD_FIELDS_MAX)
        return &refusals[TOO_MANY_FIELDS];
    if (name.size == 0 || !all(name, TOKEN))
        return &refusals[BAD_FIELD_NAME];
    value = span_trim(value);
    if (!all(value, VALUE))
        return &refusals[BAD_FIELD_VALUE];
    if (span_is(name, "connection")) {
        connection_words(head, value);
        return NULL;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!span_is(name, known[i].name))
            continue;
        struct span *to = (struct span *)((char *)head + known[i].offset);
        if (to->at && !known[i].many)
            return &refusals[REPEATED_FIELD];
        if (!to->at)
            *to = value.at ? value : span_of("");
        break;
    }
    return NULL;
}

static const struct refusal *check_host(struct head *head)
{
    if (!head->host.at && head->minor == 0)
        head->host = head->authority;
    else if (!head->host.at)
        return &refusals[MISSING_HOST];
    if (!all(head->host, HOST))
        return &refusals[BAD_HOST];
    if (head->authority.at && !span_same(head->authority, head->host))
        return &refusals[HOST_MISMATCH];
    return NULL;
}

const struct refusal *head_finish(struct head *head)
{
    const struct refusal *why = check_host(head);
    if (why)
        return why;
    if (head->content_length.at && head->transfer_encoding.at)
        return &refusals[LENGTH_AND_ENCODING];
    if (head->content_length.at && !span_number(head->content_length, &head->length))
        return &refusals[BAD_CONTENT_LENGTH];
    if (head->transfer_encoding.at) {
        if (head->minor == 0 || !span_is(head->transfer_encoding, "chunked"))
            return &refusals[BAD_TRANSFER_ENCODING];
        head->chunked = true;
    }
    return NULL;
}

enum head_state head_line(const char **at, const char *end, struct span *line)
{
    const char *feed = memchr(*at, '\n', (size_t)(end - *at));
    size_t size = (size_t)((feed ? feed : end) - *at);
    const char *cr = memchr(*at, '\r', size);
    *line = (struct span){*at, size};
    /* Without a line feed, a CR may be the last byte so far and no other. */
    if (feed ? !cr || cr + 1 != feed : cr && cr + 1 != end)
        return HEAD_BAD;
    if (!feed)
        return HEAD_INCOMPLETE;
    line->size--;
    *at = feed + 1;
    return HEAD_COMPLETE;
}

static enum head_state next_line(const char **at, const char *end, struct span *line,
                                 const struct refusal **why)
{
    enum head_state state = head_line(at, end, line);
    if (state == HEAD_BAD)
        *why = &refusals[BAD_LINE];
    return state;
}

/* A first line that is not whole yet: what can already be said of it. A TLS client, say, would
 * never send a line end. */
static enum head_state unfinished_start(struct span line, const struct refusal **why)
{
    const char *space = memchr(line.at, ' ', line.size);
    size_t method = space ? (size_t)(space - line.at) : line.size;
    *why = NULL;
    if (line.size && line.at[0] != '\r' && !all((struct span){line.at, 1}, TOKEN))
        *why = &refusals[BAD_REQUEST_LINE];
    else if (space && line.size - method > HEAD_TARGET_MAX + 16)
        *why = &refusals[TARGET_TOO_LONG];
    else if (!space && line.size > 64)
        *why = &refusals[BAD_METHOD];
    return *why ? HEAD_BAD : HEAD_INCOMPLETE;
}

static const struct refusal *start_line(struct head *head, struct span line)
{
    const char *end = line.at + line.size;
    const char *first = memchr(line.at, ' ', line.size);
    const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    if (!second)
        return &refusals[BAD_REQUEST_LINE];
    if (second - first - 1 > HEAD_TARGET_MAX)
        return &refusals[TARGET_TOO_LONG];
    return head_start(head, (struct span){line.at, (size_t)(first - line.at)},
                      (struct span){first + 1, (size_t)(second - first - 1)},
                      (struct span){second + 1, (size_t)(end - second - 1)});
}

static const struct refusal *field_line(struct head *head, struct span line)
{
    if (line.at[0] == ' ' || line.at[0] == '\t')
        return &refusals[FOLDED_FIELD];
    const char *colon = memchr(line.at, ':', line.size);
    if (!colon)
        return &refusals[BAD_FIELD_NAME];
    size_t name = (size_t)(colon - line.at);
    return head_field(head, (struct span){line.at, name},
                      (struct span){colon + 1, line.size - name - 1});
}

enum head_state head_check(const char *data, size_t size, struct head *head,
                           const struct refusal **why)
{
    const char *at = data, *end = data + (size > HEAD_MAX ? HEAD_MAX : size);
    struct span line;
    *head = (struct head){.length = -1};
    *why = NULL;
    if (size == 0)
        return HEAD_INCOMPLETE;
    enum head_state state = next_line(&at, end, &line, why);
    if (state == HEAD_COMPLETE && line.size == 0) { /* RFC 9112 2.2: one empty line before it */
        if (at == end)
            return HEAD_INCOMPLETE;
        state = next_line(&at, end, &line, why);
    }
    if (state == HEAD_INCOMPLETE)
        return unfinished_start(line, why);
    if (state == HEAD_BAD)
        return HEAD_BAD;
    if ((*why = start_line(head, line)))
        return HEAD_BAD;
    while (at < end && (state = next_line(&at, end, &line, why)) == HEAD_COMPLETE) {
        if (line.size == 0) {
            head->size = (size_t)(at - data);
            return (*why = head_finish(head)) ? HEAD_BAD : HEAD_COMPLETE;
        }
        if ((*why = field_line(head, line)))
            return HEAD_BAD;
    }
    if (state == HEAD_BAD)
        return HEAD_BAD;
    *why = size >= HEAD_MAX ? &refusals[HEAD_TOO_LARGE] : NULL;
    return *why ? HEAD_BAD : HEAD_INCOMPLETE;
}
