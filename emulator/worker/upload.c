#include "worker/upload.h"

#include <string.h>

#include "worker/api.h"
#include "worker/methods.h"
#include "worker/problem.h"
#include "worker/worker.h"

static const char sandbox[] = "/sandbox/";

bool worker_streams(const struct http_request *request)
{
    const char *method = http_method(request);
    const char *path = http_path(request);
    if (strncmp(path, sandbox, strlen(sandbox)) != 0)
        return api_uploads(method, path);
    const char *name = strchr(path + strlen(sandbox), '/');
    const struct method_row *row = name ? method_find(name + 1) : NULL;
    return row && row->upload && (strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0);
}

/* Adds what the header says, or the query parameter that stands for it; 0 when neither is there. */
static int add(json_t *args, struct http_request *request, const char *header, const char *query,
               const char *field)
{
    const char *value = header ? http_header(request, header) : NULL;
    if (!value || !*value)
        value = http_query(request, query);
    if (!value || !*value)
        return 0;
    /* Fails for what is not UTF-8. */
    return json_object_set_new(args, field, json_string(value)) < 0 ? -1 : 1;
}

json_t *upload_arguments(struct http_request *request)
{
    static const char hint[] = "Example: PUT the bytes of the file with the header X-File-Path: "
                               "/workspace/big.bin, or with ?path=/workspace/big.bin";
    json_t *args = json_object();
    int path = add(args, request, "X-File-Path", "path", "path");
    int session = add(args, request, NULL, "session", "sessionId");
    if (path > 0 && session >= 0 && http_has_body(request))
        return args;
    json_decref(args);
    problem_reply(request, 400, "VALIDATION_FAILED", NULL, hint, "%s",
                  path < 0 || session < 0 ? "The path and the session must be UTF-8"
                                          : "X-File-Path header and body required");
    return NULL;
}
