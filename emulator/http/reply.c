/* Answers: bytes, JSON, errors and streams. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "base/jsonstr.h"
#include "base/log.h"
#include "http/internal.h"

enum { JSON_MAX = 256 * 1024 * 1024, HEADERS_MAX = 32, STREAM_PIECE = 16 * 1024, SIZED_PIECE = 128 * 1024 };

/* The virtual time as RFC 9110 wants it; the text changes once a second. */
const char *reply_date(struct http_server *server)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t second = (time_t)(server->config.now_ms(server->config.now_arg) / 1000);
    struct tm tm;
    if (second == server->date_second || !gmtime_r(&second, &tm))
        return server->date;
    server->date_second = second;
    snprintf(server->date, sizeof server->date, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
             days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900,
             tm.tm_hour, tm.tm_min, tm.tm_sec);
    return server->date;
}

void reply_log(const struct http_request *request, int status)
{
    if (!log_enabled(LOG_INFO))
        return;
    long long ms = (long long)((loop_now_ns() - request->started_ns) / 1000000);
    log_info("%.32s %.200s %d %s (%lldms)", http_method(request), request_shown_path(request), status,
             MHD_get_reason_phrase_for((unsigned)status), ms);
}

void http_set_header(struct http_request *request, const char *name, const char *value)
{
    if (!request->headers)
        request->headers = calloc(HEADERS_MAX, sizeof *request->headers);
    if (!request->headers || request->header_count == HEADERS_MAX)
        return;
    CLEANUP_FREE char *name_copy = strdup(name);
    CLEANUP_FREE char *value_copy = strdup(value);
    if (!name_copy || !value_copy)
        return;
    request->headers[request->header_count++] =
        (struct pair){steal_pointer(&name_copy), steal_pointer(&value_copy)};
}

/* Adds the header unless the handler has set it. */
static void add_default(struct http_request *request, struct MHD_Response *response,
                        const char *name, const char *value)
{
    for (unsigned i = 0; i < request->header_count; i++) {
        if (strcasecmp(request->headers[i].name, name) == 0)
            return;
    }
    MHD_add_response_header(response, name, value);
}

static void add_headers(struct http_request *request, struct MHD_Response *response,
                        const char *type)
{
    for (unsigned i = 0; i < request->header_count; i++)
        MHD_add_response_header(response, request->headers[i].name, request->headers[i].value);
    if (type)
        add_default(request, response, "Content-Type", type);
    add_default(request, response, "Date", reply_date(request->server));
    add_default(request, response, "X-Content-Type-Options", "nosniff");
    if (type && strncasecmp(type, "text/html", 9) == 0 && request->owner.owner != OWNER_CONTAINER)
        add_default(request, response, "X-Frame-Options", "DENY");
    if (type && strncasecmp(type, "text/event-stream", 17) == 0)
        add_default(request, response, "Cache-Control", "no-cache");
}

bool http_whole(const struct http_request *request)
{
    return heap_refusals() == request->refusals;
}

/* Takes the response, which may be NULL when there was no memory for it. */
static void answer(struct http_request *request, int status, const char *type,
                   struct MHD_Response *response)
{
    static const char no_memory[] = "{\"error\":\"out of memory\",\"code\":\"INTERNAL_ERROR\"}";
    if (!response) { /* the least that can be said then */
        status = 500;
        type = "application/json";
        response = MHD_create_response_from_buffer(sizeof no_memory - 1, (void *)no_memory,
                                                   MHD_RESPMEM_PERSISTENT);
    }
    if (!response) {
        request->left = true; /* closes the connection */
    } else {
        add_headers(request, response, type);
        request->response = response;
        request->status = status;
        reply_log(request, status);
    }
    request->gone = NULL;
    if (!request->handling)
        server_resume(request);
}

/* One answer for each request: a second one is a bug of the handler's, and is dropped. */
static bool answered(const struct http_request *request)
{
    bool open = request->phase == PHASE_HANDLED || request->phase == PHASE_UPLOAD;
    if (open && !request->response && !request->left)
        return false;
    log_error("%s %s was answered twice or too late", http_method(request), http_path(request));
    return true;
}

void http_reply_bytes(struct http_request *request, int status, const char *type, char *data,
                      size_t size)
{
    if (answered(request)) {
        free(data);
        return;
    }
    heap_used(size);
    if (upload_answer(request, status, type, data, size))
        return;
    struct MHD_Response *response = NULL;
    if (data && (status >= 400 || http_whole(request)))
        response = MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(data);
    answer(request, status, type, response);
}

void http_reply_text(struct http_request *request, int status, const char *type, const char *text)
{
    char *data = strdup(text);
    http_reply_bytes(request, status, type, data, data ? strlen(data) : 0);
}

void http_reply_json(struct http_request *request, int status, json_t *body)
{
    CLEANUP_BUF struct buf text = BUF_INIT(JSON_MAX);
    int result = body ? json_write(&text, body, NULL, NULL) : -1;
    json_decref(body);
    if (result < 0) {
        http_reply_text(request, 500, "application/json",
                        "{\"error\":\"the answer could not be written\","
                        "\"code\":\"INTERNAL_ERROR\"}");
        return;
    }
    size_t size = text.size;
    http_reply_bytes(request, status, "application/json", buf_steal(&text), size);
}

void http_reply_error(struct http_request *request, int status, const char *code, const char *hint,
                      const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CLEANUP_BUF struct buf clean = BUF_INIT(4 * sizeof text);
    jsonstr_clean(&clean, text, strlen(text), false);
    http_reply_json(
        request, status,
        json_pack("{s:s, s:s, s:s*}", "error", buf_text(&clean), "code", code, "hint", hint));
}

/* Streams. */

static void stream_readable(void *arg)
{
    server_resume(arg);
}

static ssize_t stream_piece(void *arg, uint64_t position, char *to, size_t size)
{
    struct http_request *request = arg;
    if (!request->stream)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    long taken = stream_take(request->stream, to, size);
    if (taken > 0)
        return taken;
    if (taken < 0)
        return stream_failed(request->stream) ? MHD_CONTENT_READER_END_WITH_ERROR
                                              : MHD_CONTENT_READER_END_OF_STREAM;
    server_suspend(request);
    return 0;
}

static void reply_stream(struct http_request *request, int status, const char *type,
                         struct stream *stream, uint64_t size, size_t piece)
{
    if (answered(request)) {
        stream_abort(stream);
        return;
    }
    struct MHD_Response *response = NULL;
    if (http_whole(request))
        response = MHD_create_response_from_callback(size, piece, stream_piece, request, NULL);
    if (!response) {
        stream_abort(stream);
        stream = NULL;
    }
    if (stream)
        stream_set_sink(stream, (struct stream_sink){stream_readable, request});
    request->stream = stream;
    answer(request, status, type, response);
}

void http_reply_stream(struct http_request *request, int status, const char *type,
                       struct stream *stream)
{
    reply_stream(request, status, type, stream, MHD_SIZE_UNKNOWN, STREAM_PIECE);
}

void http_reply_sized(struct http_request *request, int status, const char *type,
                      struct stream *stream, uint64_t size)
{
    size_t piece = size < SIZED_PIECE ? (size_t)size + 1 : SIZED_PIECE;
    reply_stream(request, status, type, stream, size, piece);
}
