/* Bodies as streams: the handler gets the request when its head is there, and the bytes as they
 * come. The client is held back by not reading its socket while the stream is full. */
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "http/internal.h"

enum {
    UPLOAD_LIMIT = 128 * 1024, /* bytes that wait for the sink */
    REST_MAX = 64 * 1024,      /* of a body, read and dropped to keep the connection */
    ANSWER_MAX = 64 * 1024,
};

bool upload_wanted(const struct http_request *request)
{
    const struct http_config *config = &request->server->config;
    bool (*streams)(void *, const struct http_request *) = config->streams[request->owner.owner];
    return streams && streams(config->arg, request);
}

/* The stream's source. */

static void upload_resume(void *arg)
{
    struct http_request *request = arg;
    request->upload_room = true;
    if (!request->suspended)
        return;
    expire_start(&request->server->bodies, &request->connection->deadline);
    server_resume(request);
}

/* Nobody wants the rest. An answer follows, or has been given. */
static void upload_aborted(void *arg)
{
    struct http_request *request = arg;
    stream_end(steal_pointer(&request->upload));
    upload_resume(request);
}

void upload_cut(struct http_request *request)
{
    struct stream *sink = steal_pointer(&request->upload_sink);
    if (sink)
        stream_abort(sink);
    struct stream *upload = steal_pointer(&request->upload);
    if (upload)
        stream_fail(upload);
}

enum MHD_Result upload_begin(struct http_request *request)
{
    const struct http_config *config = &request->server->config;
    struct stream_source source = {upload_resume, upload_aborted, request, NULL};
    request->phase = PHASE_UPLOAD;
    expire_start(&request->server->bodies, &request->connection->deadline);
    request->upload = request->upload_sink = stream_new(UPLOAD_LIMIT, source);
    request->handling = true;
    if (request->upload)
        config->handle[request->owner.owner](config->arg, request);
    else
        http_reply_error(request, 503, "OUT_OF_MEMORY", NULL, "out of memory");
    request->handling = false;
    return request->phase == PHASE_REFUSED || request->left ? MHD_NO : MHD_YES;
}

static void renew(struct http_request *request, size_t size)
{
    struct http_server *server = request->server;
    request->uploaded += size;
    if (request->uploaded - request->renewed < server->limits.body_step)
        return;
    request->renewed = request->uploaded;
    expire_start(&server->bodies, &request->connection->deadline);
}

enum MHD_Result upload_data(struct http_request *request, const char *data, size_t *size)
{
    /* libmicrohttpd offers the next chunk of a chunked body even so. */
    if (request->suspended)
        return MHD_YES;
    renew(request, *size);
    request->handling = true;
    request->upload_room = false;
    bool wanted = request->upload && !request->response;
    int result = wanted ? stream_write(request->upload, data, *size) : 0;
    if (result < 0) /* a file with a hole would look whole */
        upload_cut(request);
    request->handling = false;
    *size = 0;
    if (request->phase == PHASE_REFUSED || request->left)
        return MHD_NO;
    if (result == 1 && !request->upload_room) {
        /* The client is not slow, the sink is. */
        expire_stop(&request->connection->deadline);
        server_pause(request);
    }
    return MHD_YES;
}

void upload_end(struct http_request *request)
{
    struct stream *upload = steal_pointer(&request->upload);
    if (upload)
        stream_end(upload);
}

struct stream *http_take_stream(struct http_request *request)
{
    return steal_pointer(&request->upload_sink);
}

bool http_has_body(const struct http_request *request)
{
    return request->head.length >= 0 || request->head.chunked;
}

/* Answers before the end of the body. */

static void write_answer(struct http_request *request, int status, const char *type,
                         const char *data, size_t size, struct buf *to)
{
    buf_addf(to, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n", status,
             MHD_get_reason_phrase_for((unsigned)status), reply_date(request->server), type);
    buf_addf(to, "X-Content-Type-Options: nosniff\r\nContent-Length: %zu\r\n", size);
    for (unsigned i = 0; i < request->header_count; i++)
        buf_addf(to, "%s: %s\r\n", request->headers[i].name, request->headers[i].value);
    buf_adds(to, "Connection: close\r\n\r\n");
    buf_add(to, data, size);
}

/* libmicrohttpd would drop all of the body first, which may have no end. So the door answers, on a
 * second descriptor of the socket, as it does for refusals. */
bool upload_answer(struct http_request *request, int status, const char *type, char *data,
                   size_t size)
{
    if (request->phase != PHASE_UPLOAD)
        return false;
    upload_cut(request);
    int64_t rest = request->head.length - (int64_t)request->uploaded;
    if (!data || (!request->head.chunked && rest <= REST_MAX)) {
        upload_resume(request);
        return false;
    }
    CLEANUP_BUF struct buf text = BUF_INIT(ANSWER_MAX);
    write_answer(request, status, type, data, size, &text);
    int fd = text.error ? -1 : fcntl(request->connection->fd, F_DUPFD_CLOEXEC, 0);
    request->phase = PHASE_REFUSED;
    request->gone = NULL;
    reply_log(request, status);
    if (fd >= 0)
        door_answer(request->server, fd, &text);
    free(data);
    if (!request->handling)
        server_resume(request);
    return true;
}
