/* POST /sandbox/{id}/{method} with a JSON array of the SDK method's arguments. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "worker/arguments.h"
#include "worker/parts.h"
#include "worker/upload.h"
#include "worker/worker_call.h"

struct hint {
    char text[400];
};

static struct hint hint_example(const struct method_row *row)
{
    struct hint hint;
    if (row->upload)
        snprintf(hint.text, sizeof hint.text,
                 "Example: PUT /sandbox/my-box/%s?path=/workspace/big.bin with the bytes", row->name);
    else
        snprintf(hint.text, sizeof hint.text, "Example: POST /sandbox/my-box/%s with the body %s",
                 row->name, row->example);
    return hint;
}

static void reply_no_method(struct http_request *request, const char *name)
{
    const char *nearest = method_nearest(name);
    char hint[160];
    if (nearest)
        snprintf(hint, sizeof hint, "Did you mean %s? All methods are in docs/api.md", nearest);
    else
        snprintf(hint, sizeof hint, "All methods are in docs/api.md");
    problem_reply(request, 404, "METHOD_NOT_FOUND", NULL, hint, "A sandbox has no method '%.100s'",
                  name);
}

/* The arguments, or NULL after an error was answered. */
static json_t *read_arguments(struct http_request *request, const struct method_row *row,
                              struct body *body)
{
    int result = body_read(body, request, NULL, method_content_index(row));
    if (result == 0)
        body->json = json_array();
    if (result < 0) {
        problem_reply(request, 400, "INVALID_JSON", NULL, hint_example(row).text,
                      "The body is not JSON: %s at line %d, column %d", body->error.text,
                      body->error.line, body->error.column);
        return NULL;
    }
    if (!json_is_array(body->json)) {
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, hint_example(row).text,
                      "The body must be a JSON array of the arguments of %s", row->name);
        return NULL;
    }
    struct error err = {0};
    json_t *args = arguments_positional(row, body->json, body->content != NULL, &err);
    if (!args)
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, hint_example(row).text, "%s",
                      err.text);
    return args;
}

static bool wants_events(struct http_request *request)
{
    const char *accept = http_header(request, "Accept");
    return accept && strcasestr(accept, "text/event-stream");
}

void method_route(struct worker *worker, struct http_request *request)
{
    const char *segment = http_path(request) + strlen("/sandbox/");
    size_t size = strcspn(segment, "/");
    const char *name = segment[size] ? segment + size + 1 : "";
    if (!*name || strchr(name, '/')) {
        problem_reply(request, 404, "ROUTE_NOT_FOUND", NULL,
                      "The route is POST /sandbox/{id}/{method}; a slash in the id is %2F",
                      "Not found: %.200s", http_path(request));
        return;
    }
    const struct method_row *row = method_find(name);
    if (!row) {
        reply_no_method(request, name);
        return;
    }
    bool put = row->upload && strcmp(http_method(request), "PUT") == 0;
    if (strcmp(http_method(request), "POST") != 0 && !put) {
        http_set_header(request, "Allow", row->upload ? "POST, PUT" : "POST");
        problem_reply(request, 405, "METHOD_NOT_ALLOWED", NULL, hint_example(row).text,
                      "Methods of a sandbox are called with POST, not %.20s", http_method(request));
        return;
    }
    CLEANUP_TARGET struct target target = TARGET_INIT;
    if (target_from_path(&target, request, segment, size) < 0)
        return;
    CLEANUP_BODY struct body body = BODY_INIT;
    json_t *args = row->upload ? upload_arguments(request) : read_arguments(request, row, &body);
    if (args && row->events_on_accept && wants_events(request))
        json_object_set_new(args, "onOutput", json_true());
    if (args)
        worker_call_row(request, &worker->config, FACE_METHOD, row, &target, args, &body, NULL);
}
