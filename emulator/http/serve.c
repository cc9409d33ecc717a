/* A request from its head to the answer that libmicrohttpd gets: what it calls on the way. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/journal.h"
#include "base/log.h"
#include "http/internal.h"

enum { EARLY_RESERVE = 1024 * 1024 };

static const struct refusal too_large = {413, "BODY_TOO_LARGE",
                                         "the request body is larger than 64 MiB", NULL};
static const struct refusal no_memory = {503, "OUT_OF_MEMORY", "out of memory", NULL};

void *serve_begin(void *arg, const char *target, struct MHD_Connection *mhd)
{
    struct http_request *request = request_new(arg, target);
    if (!request)
        return NULL;
    request->mhd = mhd;
    request->connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    return request;
}

void serve_end(void *arg, struct MHD_Connection *mhd, void **context,
               enum MHD_RequestTerminationCode code)
{
    struct http_request *request = *context;
    *context = NULL;
    if (!request)
        return;
    struct connection *connection = request->connection;
    if (connection)
        connection->suspended = NULL;
    if (request->take)
        take_failed(request);
    server_client_left(request);
    request_free(request);
    if (connection)
        expire_start(&connection->server->idle, &connection->deadline);
}

/* libmicrohttpd can answer early only by closing at once, and the reset that follows when the
 * client is still sending may overtake the answer. So the answer and the slow close are the door's,
 * on a second descriptor of the socket. */
static enum MHD_Result refuse(struct http_request *request, const struct refusal *why)
{
    request->phase = PHASE_REFUSED;
    if (request->started_ns)
        reply_log(request, why->status);
    else
        log_info("refused a request: %d %s", why->status, why->code);
    int fd = fcntl(request->connection->fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        door_refuse(request->server, fd, why);
    return MHD_NO;
}

static void note(struct http_request *request)
{
    struct http_server *server = request->server;
    char what[256];
    if (!journal_is_open())
        return;
    snprintf(what, sizeof what, "%.32s %.200s", http_method(request), request_shown_path(request));
    journal_note(JOURNAL_REQUEST, server->config.now_ms(server->config.now_arg), "", what);
}

static enum MHD_Result handle(struct http_request *request);

static enum MHD_Result head_arrived(struct http_request *request, const char *method,
                                    const char *version)
{
    struct http_server *server = request->server;
    struct head *head = &request->head;
    struct refusal why;
    expire_stop(&request->connection->deadline);
    if (!request_check(request, method, version, &why))
        return refuse(request, &why);
    request->started_ns = loop_now_ns();
    const struct http_config *config = &server->config;
    if (config->early && head->minor > 0 &&
        config->early(config->arg, request->owner.owner, request)) {
        request->early = true;
        note(request);
        return handle(request);
    }
    if (upload_wanted(request)) {
        note(request);
        return upload_begin(request);
    }
    if (head->length > (int64_t)server->limits.body_max)
        return refuse(request, &too_large);
    request->phase = PHASE_BODY;
    note(request);
    if (head->length <= 0 && !head->chunked)
        return MHD_YES;
    expire_start(&server->bodies, &request->connection->deadline);
    size_t reserve = head->length > EARLY_RESERVE ? EARLY_RESERVE : (size_t)head->length;
    if (head->length > 0 && !buf_reserve(&request->body, reserve, NULL))
        return refuse(request, &no_memory);
    return MHD_YES;
}

static enum MHD_Result body_arrived(struct http_request *request, const char *data, size_t *size)
{
    int result = buf_add(&request->body, data, *size);
    if (result < 0)
        return refuse(request, result == -EMSGSIZE ? &too_large : &no_memory);
    *size = 0;
    struct http_server *server = request->server;
    if (request->body.size - request->renewed >= server->limits.body_step) {
        request->renewed = request->body.size;
        expire_start(&server->bodies, &request->connection->deadline);
    }
    return MHD_YES;
}

static enum MHD_Result queue(struct http_request *request)
{
    struct MHD_Response *response = request->response;
    request->response = NULL;
    request->phase = PHASE_ANSWERED;
    enum MHD_Result result = MHD_queue_response(request->mhd, (unsigned)request->status, response);
    MHD_destroy_response(response);
    return result;
}

/* An answer that is there before the body waits until that is read and dropped: libmicrohttpd would
 * close the connection, and the reset that follows may overtake the answer. */
static enum MHD_Result queue_or_drain(struct http_request *request)
{
    if (!request->early)
        return queue(request);
    request->phase = PHASE_DRAIN;
    expire_start(&request->server->bodies, &request->connection->deadline);
    return MHD_YES;
}

static enum MHD_Result drain(struct http_request *request, size_t *size)
{
    struct http_server *server = request->server;
    if (*size == 0) {
        expire_stop(&request->connection->deadline);
        return queue(request);
    }
    size_t steps = request->renewed / server->limits.body_step;
    request->renewed += *size;
    *size = 0;
    if (request->renewed > server->limits.linger_max)
        return refuse(request, &too_large);
    if (request->renewed / server->limits.body_step != steps)
        expire_start(&server->bodies, &request->connection->deadline);
    return MHD_YES;
}

static enum MHD_Result handle(struct http_request *request)
{
    const struct http_config *config = &request->server->config;
    expire_stop(&request->connection->deadline);
    request->phase = PHASE_HANDLED;
    request->handling = true;
    config->handle[request->owner.owner](config->arg, request);
    request->handling = false;
    if (request->take)
        return take_queue(request);
    if (request->response)
        return queue_or_drain(request);
    if (request->left) /* there was no memory for an answer */
        return MHD_NO;
    server_suspend(request);
    return MHD_YES;
}

/* All of the body was streamed. */
static enum MHD_Result end_upload(struct http_request *request)
{
    expire_stop(&request->connection->deadline);
    request->phase = PHASE_HANDLED;
    request->handling = true;
    upload_end(request);
    request->handling = false;
    if (request->response)
        return queue(request);
    if (request->left)
        return MHD_NO;
    server_suspend(request);
    return MHD_YES;
}

enum MHD_Result serve_access(void *arg, struct MHD_Connection *mhd, const char *url,
                             const char *method, const char *version, const char *data,
                             size_t *size, void **context)
{
    struct http_request *request = *context;
    if (!request || !request->connection)
        return MHD_NO;
    switch (request->phase) {
    case PHASE_HEAD:
        return head_arrived(request, method, version);
    case PHASE_BODY:
        return *size ? body_arrived(request, data, size) : handle(request);
    case PHASE_UPLOAD:
        return *size ? upload_data(request, data, size) : end_upload(request);
    case PHASE_HANDLED:
        if (request->take)
            return take_queue(request);
        if (request->response)
            return queue_or_drain(request);
        return request->left ? MHD_NO : MHD_YES;
    case PHASE_DRAIN:
        return drain(request, size);
    case PHASE_ANSWERED:
        return MHD_YES;
    case PHASE_REFUSED:
        break;
    }
    return MHD_NO;
}
