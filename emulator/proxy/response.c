#include "proxy/response.h"

#include <string.h>
#include <strings.h>

/* "HTTP/1.1 200 OK"; some servers leave the reason out, and the space before it. */
static const char *status_line(struct response *response, struct span line)
{
    int64_t status;
    if (line.size < 12 || memcmp(line.at, "HTTP/1.", 7) != 0 || line.at[8] != ' ' ||
        (line.at[7] != '0' && line.at[7] != '1'))
        return "the status line is not that of HTTP/1.1 or HTTP/1.0";
    if (!span_number((struct span){line.at + 9, 3}, &status) || status < 100 ||
        (line.size > 12 && line.at[12] != ' ') || !span_is_value((struct span){line.at, line.size}))
        return "the status line has no status";
    response->status = (int)status;
    response->minor = line.at[7] - '0';
    response->reason = (struct span){line.at + 9, line.size - 9};
    return NULL;
}

static const char *once(struct span *to, struct span value, const char *why)
{
    if (to->at)
        return why;
    *to = value;
    return NULL;
}

static const char *connection_field(struct response *response, struct span value)
{
    struct span list = value, word;
    while (list_next(&list, &word)) {
        if (span_is(word, "close"))
            response->close = true;
        else if (span_is(word, "keep-alive"))
            response->close = response->close && response->minor > 0;
        else if (span_is(word, "upgrade"))
            response->upgrades = true;
        else
            response->nominates = true;
    }
    return NULL;
}

static bool split_field(struct span line, struct span *name, struct span *value)
{
    const char *colon = memchr(line.at, ':', line.size);
    if (!colon)
        return false;
    *name = (struct span){line.at, (size_t)(colon - line.at)};
    *value = span_trim((struct span){colon + 1, line.size - name->size - 1});
    return name->size > 0;
}

static const char *field_line(struct response *response, struct span line)
{
    struct span name, value;
    if (line.at[0] == ' ' || line.at[0] == '\t')
        return "a header is continued on the next line";
    if (!split_field(line, &name, &value) || !span_is_token(name))
        return "a header line is not \"Name: value\"";
    if (!span_is_value(value))
        return "a header value has a control character";
    if (++response->fields > RESPONSE_FIELDS_MAX)
        return "it has too many headers";
    if (span_is(name, "content-length"))
        return once(&response->content_length, value, "it has two Content-Length headers");
    if (span_is(name, "transfer-encoding"))
        return once(&response->transfer_encoding, value, "it has two Transfer-Encoding headers");
    if (span_is(name, "connection"))
        return connection_field(response, value);
    if (span_is(name, "upgrade") && !response->upgrade.at)
        response->upgrade = value;
    return NULL;
}

static const char *finish(struct response *response)
{
    if (response->content_length.at && response->transfer_encoding.at)
        return "it has both Content-Length and Transfer-Encoding";
    if (response->content_length.at && !span_number(response->content_length, &response->length))
        return "its Content-Length is not a number of bytes";
    if (response->status < 200 && response->length > 0)
        return "it has a Content-Length, but its status has no body";
    if (!response->transfer_encoding.at)
        return NULL;
    if (response->minor == 0 || !span_is(response->transfer_encoding, "chunked"))
        return "its Transfer-Encoding is not \"chunked\"";
    if (response->status < 200 || response->status == 204)
        return "it has a Transfer-Encoding, but its status has no body";
    response->chunked = true;
    return NULL;
}

enum head_state response_check(const char *data, size_t size, struct response *response,
                               const char **why)
{
    const char *at = data, *end = data + (size > RESPONSE_HEAD_MAX ? RESPONSE_HEAD_MAX : size);
    struct span line;
    *response = (struct response){.length = -1};
    *why = NULL;
    enum head_state state = head_line(&at, end, &line);
    if (state == HEAD_INCOMPLETE && line.size >= 5 && memcmp(line.at, "HTTP/", 5) != 0)
        *why = "it does not speak HTTP";
    if (state == HEAD_COMPLETE)
        *why = status_line(response, line);
    response->close = response->minor == 0; /* unless it says otherwise */
    while (!*why && state == HEAD_COMPLETE &&
           (state = head_line(&at, end, &line)) == HEAD_COMPLETE) {
        if (line.size == 0) {
            response->size = (size_t)(at - data);
            *why = finish(response);
            return *why ? HEAD_BAD : HEAD_COMPLETE;
        }
        *why = field_line(response, line);
    }
    if (!*why && state == HEAD_BAD)
        *why = "a line does not end with CR LF";
    if (!*why && size >= RESPONSE_HEAD_MAX)
        *why = "its head is larger than 64 KiB";
    return *why ? HEAD_BAD : HEAD_INCOMPLETE;
}

bool response_field(const char *data, const struct response *response, const char **at,
                    struct span *name, struct span *value, struct span *line)
{
    const char *end = data + response->size;
    if (!*at) {
        *at = data;
        head_line(at, end, line); /* the status line */
    }
    return head_line(at, end, line) == HEAD_COMPLETE && line->size &&
           split_field(*line, name, value);
}
