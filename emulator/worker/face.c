/* The container's own HTTP API, as the SDK's client meets it on port 3000. The
 * one thing left out are the Access-Control headers: any web page could use them. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "worker/parts.h"
#include "worker/path.h"
#include "worker/worker_call.h"

static const struct op *find_op(struct http_request *request)
{
    for (const struct op *op = container_ops; op->name; op++) {
        if (strcmp(op->method, http_method(request)) == 0 &&
            path_fits_raw(op->path, http_path(request), NULL))
            return op;
    }
    return NULL;
}

static bool known_method(const char *method)
{
    static const char *const known[] = {"GET", "POST", "PUT", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i], method) == 0)
            return true;
    }
    return false;
}

/* The session of a command whose body names none. */
static const char *fallback_session(struct http_request *request)
{
    const char *authorization = http_header(request, "Authorization");
    if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0 && authorization[7])
        return authorization + 7;
    const char *session = http_header(request, "X-Session-Id");
    if (session && *session)
        return session;
    session = http_query(request, "session");
    return session && *session ? session : http_query(request, "sessionId");
}

static void add_session(struct http_request *request, json_t *args)
{
    const char *named = json_string_value(json_object_get(args, "sessionId"));
    if (named && *named)
        return;
    const char *session = fallback_session(request);
    if (session && *session)
        json_object_set_new(args, "sessionId", json_text(session));
    else
        json_object_del(args, "sessionId");
}

static bool op_is(const struct op *op, const char *path)
{
    return strcmp(op->path, path) == 0;
}

/* The body as an object, new reference; NULL after an error was answered. Making a session needs no
 * body, and deleting one has an error of its own. */
static json_t *read_object(struct worker *worker, struct http_request *request, const struct op *op,
                           struct body *body)
{
    if (strcmp(op->method, "GET") == 0 || strcmp(op->method, "DELETE") == 0)
        return json_object();
    int result = body_read(body, request, op->takes_content ? "content" : NULL, -1);
    if (result > 0 && json_is_object(body->json))
        return json_incref(body->json);
    if (op_is(op, "/api/session/create"))
        return json_object();
    const char *why = result == 0  ? "unexpected end of JSON input"
                      : result > 0 ? "not a JSON object"
                                   : body->error.text;
    if (op_is(op, "/api/session/delete"))
        problem_container(request, worker->config.clock, CODE_VALIDATION_FAILED, 0,
                          "Invalid request body: %s", why);
    else
        problem_container(request, worker->config.clock, CODE_INTERNAL_ERROR, 0,
                          "Failed to parse request body: %s", why);
    return NULL;
}

static void run(struct worker *worker, struct http_request *request, const struct op *op,
                struct object *object)
{
    CLEANUP_BODY struct body body = BODY_INIT;
    json_t *args = read_object(worker, request, op, &body);
    if (!args)
        return;
    path_fits_raw(op->path, http_path(request), args);
    const char *status = op_is(op, "/api/process/list") ? http_query(request, "status") : NULL;
    if (status)
        json_object_set_new(args, "status", json_text(status));
    if (op_is(op, "/api/execute") || op_is(op, "/api/execute/stream") || op_is(op, "/api/git/checkout"))
        add_session(request, args);
    enum face face = op_is(op, "/api/execute/code") ? FACE_CODE : FACE_CONTAINER;
    struct worker_call *call = worker_call_new(request, worker->config.clock, face, args, &body);
    if (call)
        worker_call_op(call, object, op);
}

void face_route(struct worker *worker, struct http_request *request)
{
    struct object *object = objects_by_label(worker->config.objects, http_label(request));
    if (!object) {
        problem_reply(request, 404, "INVALID_TOKEN", NULL,
                      "GET /cdn-cgi/local/sandboxes gives the containerUrl of every sandbox",
                      "No sandbox has this host name");
        return;
    }
    if (worker_forwards(OWNER_CONTAINER, http_path(request))) {
        forward_face(worker, request, object);
        return;
    }
    if (!known_method(http_method(request))) {
        http_reply_text(request, 500, "text/plain", "Internal Server Error");
        return;
    }
    const struct op *op = find_op(request);
    if (op)
        run(worker, request, op, object);
    else if (strcmp(http_method(request), "GET") == 0 && strcmp(http_path(request), "/") == 0)
        /* Any answer here tells the platform's probe that the container is ready. */
        http_reply_text(request, 200, "text/plain; charset=utf-8", "sandpit container API");
    else
        problem_container(request, worker->config.clock, CODE_UNKNOWN_ERROR, 404,
                          "The requested endpoint was not found");
}
