#include "worker/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "worker/arguments.h"
#include "worker/nearest.h"
#include "worker/parts.h"
#include "worker/path.h"
#include "worker/upload.h"
#include "worker/worker_call.h"

static json_t *shape_success(json_t *result, const json_t *args, int64_t duration_ms)
{
    json_decref(result);
    return json_pack("{s:b}", "success", 1);
}

static json_t *shape_destroyed(json_t *result, const json_t *args, int64_t duration_ms)
{
    json_decref(result);
    return json_pack("{s:b, s:s}", "success", 1, "message", "Sandbox destroyed");
}

static json_t *shape_stopped(json_t *result, const json_t *args, int64_t duration_ms)
{
    json_decref(result);
    return json_pack("{s:b, s:s}", "success", 1, "message", "Container stopped");
}

static json_t *shape_session(json_t *result, const json_t *args, int64_t duration_ms)
{
    CLEANUP_JSON json_t *session = result;
    json_t *id = json_object_get(session, "id");
    if (!id)
        id = json_object_get(args, "id");
    return json_pack("{s:b, s:O*}", "success", 1, "sessionId", id);
}

static json_t *shape_context_deleted(json_t *result, const json_t *args, int64_t duration_ms)
{
    json_decref(result);
    return json_pack("{s:b, s:O*}", "success", 1, "contextId", json_object_get(args, "contextId"));
}

/* A command may come as a list of words. */
static void join_command(json_t *body)
{
    const json_t *words = json_object_get(body, "command");
    if (!json_is_array(words))
        return;
    CLEANUP_BUF struct buf line = BUF_INIT(32 << 20);
    size_t i;
    json_t *word;
    json_array_foreach((json_t *)words, i, word)
    {
        if (!json_is_string(word) || (i > 0 && buf_addc(&line, ' ') < 0) ||
            buf_add(&line, json_string_value(word), json_string_length(word)) < 0)
            return;
    }
    json_object_set_new(body, "command", json_stringn(buf_text(&line), line.size));
}

static void ask_for_bytes(json_t *body)
{
    json_object_set_new(body, "encoding", json_string("none"));
}

/* The port of a path. */
static void read_port(json_t *body)
{
    const char *text = json_string_value(json_object_get(body, "port"));
    if (text && *text && strlen(text) <= 9 && strspn(text, "0123456789") == strlen(text))
        json_object_set_new(body, "port", json_integer(strtol(text, NULL, 10)));
}

static json_t *shape_is_exposed(json_t *result, const json_t *args, int64_t duration_ms)
{
    return json_pack("{s:o, s:O}", "exposed", result, "port", json_object_get(args, "port"));
}

const struct api_row api_rows[] = {
    {.method = "POST",
     .path = "/api/session/create",
     .name = "createSession",
     .example = "{\"id\": \"build\"}",
     .result = "{success, sessionId}",
     .shape = shape_session},
    {.method = "POST",
     .path = "/api/session/delete",
     .name = "deleteSession",
     .example = "{\"sessionId\": \"build\"}",
     .result = "{success, sessionId, timestamp}"},
    {.method = "POST",
     .path = "/api/init",
     .name = "initServers",
     .example = "",
     .result = "{success, serversStarted, serversFailed, errors?}"},
    {.method = "GET",
     .path = "/api/state",
     .name = "getState",
     .example = "",
     .result = "{status, lastChange, exitCode?}"},
    {.method = "GET",
     .path = "/api/placement-id",
     .name = "getContainerPlacementId",
     .example = "",
     .result = "{placementId?}"},
    {.method = "POST",
     .path = "/api/execute",
     .name = "exec",
     .example = "{\"command\": \"ls -la\"}",
     .result =
         "{success, exitCode, stdout, stderr, command, duration, timestamp, sessionId?, hint?}",
     .prepare = join_command},
    {.method = "POST",
     .path = "/api/file/read",
     .name = "readFile",
     .example = "{\"path\": \"/workspace/a.txt\"}",
     .result = "{success, path, content, timestamp, encoding, isBinary, mimeType, size}"},
    {.method = "POST",
     .path = "/api/read/stream",
     .name = "readFileStream",
     .example = "{\"path\": \"/workspace/a.txt\"}",
     .result = "server-sent events"},
    {.method = "POST",
     .path = "/api/file/write",
     .name = "writeFile",
     .example = "{\"path\": \"/workspace/a.txt\", \"content\": \"hi\"}",
     .result = "{success}",
     .shape = shape_success},
    {.method = "PUT",
     .path = "/api/file/write-stream",
     .name = "writeFileStream",
     .example = "{\"path\": \"/workspace/big.bin\"}",
     .result = "{success, path, bytesWritten, timestamp}"},
    {.method = "POST",
     .path = "/api/file/read-binary",
     .name = "readFile",
     .example = "{\"path\": \"/workspace/big.bin\"}",
     .result = "the bytes",
     .prepare = ask_for_bytes},
    {.method = "POST",
     .path = "/api/file/mkdir",
     .name = "mkdir",
     .example = "{\"path\": \"/workspace/d\", \"recursive\": true}",
     .result = "{success}",
     .shape = shape_success},
    {.method = "DELETE",
     .path = "/api/file/delete",
     .name = "deleteFile",
     .example = "{\"path\": \"/workspace/a.txt\"}",
     .result = "{success}",
     .shape = shape_success},
    {.method = "POST",
     .path = "/api/file/rename",
     .name = "renameFile",
     .example = "{\"oldPath\": \"/workspace/a.txt\", \"newPath\": \"/workspace/b.txt\"}",
     .result = "{success}",
     .shape = shape_success},
    {.method = "POST",
     .path = "/api/file/move",
     .name = "moveFile",
     .example = "{\"sourcePath\": \"/workspace/a.txt\", \"destinationPath\": \"/tmp/a.txt\"}",
     .result = "{success}",
     .shape = shape_success},
    {.method = "POST",
     .path = "/api/file/exists",
     .name = "exists",
     .example = "{\"path\": \"/workspace/a.txt\"}",
     .result = "{success, path, exists, timestamp}"},
    {.method = "POST",
     .path = "/api/list-files",
     .name = "listFiles",
     .example = "{\"path\": \"/workspace\", \"options\": {\"recursive\": true}}",
     .result = "{success, path, files, count, timestamp}"},
    {.method = "POST",
     .path = "/api/git/clone",
     .name = "gitCheckout",
     .example = "{\"repoUrl\": \"https://github.com/octocat/Hello-World\"}",
     .result = "{success, repoUrl, branch, targetDir, timestamp}"},
    {.method = "POST",
     .path = "/api/env/set",
     .name = "setEnvVars",
     .example = "{\"envVars\": {\"DEBUG\": \"1\"}}",
     .result = "{success}",
     .shape = shape_success},
    {.method = "POST",
     .path = "/api/execStream",
     .name = "execStream",
     .example = "{\"command\": \"make\"}",
     .result = "server-sent events",
     .prepare = join_command},
    {.method = "POST",
     .path = "/api/process/start",
     .name = "startProcess",
     .example = "{\"command\": \"python3 -m http.server 8080\", \"processId\": \"web\"}",
     .result = "{id, pid, command, status, startTime, sessionId?}"},
    {.method = "GET",
     .path = "/api/process/list",
     .name = "listProcesses",
     .example = "",
     .result = "[{id, pid?, command, status, startTime, exitCode?, sessionId?}]"},
    {.method = "POST",
     .path = "/api/process/kill-all",
     .name = "killAllProcesses",
     .example = "",
     .result = "{success}",
     .shape = shape_success},
    {.method = "GET",
     .path = "/api/process/{processId}",
     .name = "getProcess",
     .example = "",
     .result = "{id, pid?, command, status, startTime, endTime?, exitCode?, sessionId?} or null"},
    {.method = "DELETE",
     .path = "/api/process/{processId}",
     .name = "killProcess",
     .example = "",
     .result = "{success}",
     .shape = shape_success},
    {.method = "GET",
     .path = "/api/process/{processId}/logs",
     .name = "getProcessLogs",
     .example = "",
     .result = "{stdout, stderr, processId}"},
    {.method = "GET",
     .path = "/api/process/{processId}/stream",
     .name = "streamProcessLogs",
     .example = "",
     .result = "server-sent events"},
    {.method = "POST",
     .path = "/api/process/{processId}/waitForLog",
     .name = "waitForLog",
     .example = "{\"pattern\": \"ready\", \"timeout\": 30000}",
     .result = "{line, match?}"},
    {.method = "POST",
     .path = "/api/process/{processId}/waitForPort",
     .name = "waitForPort",
     .example = "{\"port\": 8080, \"options\": {\"path\": \"/health\"}}",
     .result = "{success}"},
    {.method = "POST",
     .path = "/api/process/{processId}/waitForExit",
     .name = "waitForExit",
     .example = "{\"timeout\": 30000}",
     .result = "{exitCode}"},
    {.method = "POST",
     .path = "/api/port/expose",
     .name = "exposePort",
     .example = "{\"port\": 8080, \"name\": \"web\"}",
     .result = "{url, port, name?, pathUrl}",
     .no_session = true},
    {.method = "GET",
     .path = "/api/exposed-ports",
     .name = "getExposedPorts",
     .example = "",
     .result = "[{url, port, status}]"},
    {.method = "GET",
     .path = "/api/exposed-ports/{port}",
     .name = "isPortExposed",
     .example = "",
     .result = "{exposed, port}",
     .shape = shape_is_exposed,
     .prepare = read_port},
    {.method = "DELETE",
     .path = "/api/exposed-ports/{port}",
     .name = "unexposePort",
     .example = "",
     .result = "{success, port}",
     .prepare = read_port},
    {.method = "POST",
     .path = "/api/code/context/create",
     .name = "createCodeContext",
     .example = "{\"language\": \"javascript\"}",
     .result = "{id, language, cwd, createdAt, lastUsed}"},
    {.method = "GET",
     .path = "/api/code/context/list",
     .name = "listCodeContexts",
     .example = "",
     .result = "[{id, language, cwd, createdAt, lastUsed}]"},
    {.method = "DELETE",
     .path = "/api/code/context/{contextId}",
     .name = "deleteCodeContext",
     .example = "",
     .result = "{success, contextId}",
     .shape = shape_context_deleted},
    {.method = "POST",
     .path = "/api/code/execute",
     .name = "runCode",
     .example = "{\"code\": \"1 + 1\", \"options\": {\"language\": \"python\"}}",
     .result = "{code, logs, error?, results}"},
    {.method = "POST",
     .path = "/api/code/execute/stream",
     .name = "runCodeStream",
     .example = "{\"code\": \"1 + 1\"}",
     .result = "server-sent events"},
    {.method = "POST",
     .path = "/api/bucket/put",
     .name = "bucketPut",
     .example = "{\"key\": \"a.txt\", \"content\": \"hi\", \"contentType\": \"text/plain\"}",
     .result = "{success, key, etag}",
     .query = "bucket"},
    {.method = "GET",
     .path = "/api/bucket/get",
     .name = "bucketGet",
     .example = "",
     .result = "{success, key, content, contentType?, size, etag, encoding?}",
     .query = "key encoding bucket"},
    {.method = "POST",
     .path = "/api/bucket/delete",
     .name = "bucketDelete",
     .example = "{\"key\": \"a.txt\"}",
     .result = "{success, key}",
     .query = "bucket"},
    {.method = "GET",
     .path = "/api/bucket/list",
     .name = "bucketList",
     .example = "",
     .result = "{objects, truncated, cursor?, delimitedPrefixes, success}",
     .query = "prefix delimiter limit cursor bucket"},
    {.method = "POST",
     .path = "/cleanup",
     .name = "destroy",
     .example = "",
     .result = "{success, message}",
     .shape = shape_destroyed},
    {.method = "POST",
     .path = "/api/container/stop",
     .name = "stop",
     .example = "",
     .result = "{success, message}",
     .shape = shape_stopped},
    {0}};

/* The row of a path, if not with this method then with another, so that a wrong method can be told
 * from a wrong path. */
static const struct api_row *find_row(const char *method, const char *path)
{
    const struct api_row *other = NULL;
    for (const struct api_row *row = api_rows; row->method; row++) {
        if (!path_fits(row->path, path, NULL))
            continue;
        if (strcmp(row->method, method) == 0)
            return row;
        if (!other)
            other = row;
    }
    return other;
}

static void reply_no_route(struct http_request *request)
{
    const char *path = http_path(request);
    struct nearest nearest = nearest_to(path);
    const struct api_row *like = NULL;
    for (const struct api_row *row = api_rows; row->method; row++) {
        const char *before = nearest.best;
        nearest_try(&nearest, row->path);
        if (nearest.best != before)
            like = row;
    }
    char hint[160];
    if (like)
        snprintf(hint, sizeof hint, "Did you mean %s %s? All routes are in docs/api.md",
                 like->method, like->path);
    else
        snprintf(hint, sizeof hint,
                 "All routes are in docs/api.md; POST /sandbox/{id}/{method} calls SDK methods");
    problem_reply(request, 404, "ROUTE_NOT_FOUND", NULL, hint, "Not found: %.20s %.200s",
                  http_method(request), path);
}

struct hint {
    char text[400];
};

static struct hint hint_example(const struct api_row *row)
{
    struct hint hint;
    char *to = hint.text;
    size_t size = sizeof hint.text;
    if (method_find(row->name)->upload)
        snprintf(to, size, "Example: %s %s with the bytes and X-File-Path: /workspace/big.bin",
                 row->method, row->path);
    else if (row->query && !*row->example)
        snprintf(to, size, "Example: %s %s?%.*s=…", row->method, row->path,
                 (int)strcspn(row->query, " "), row->query);
    else if (*row->example)
        snprintf(to, size, "Example: %s %s with the body %s", row->method, row->path, row->example);
    else
        snprintf(to, size, "Example: %s %s", row->method, row->path);
    return hint;
}

/* Arguments of the query; those of the body win. */
static void take_query(const struct api_row *row, struct http_request *request, json_t *body)
{
    char name[32];
    int used;
    for (const char *at = row->query; at && sscanf(at, " %31s%n", name, &used) == 1; at += used) {
        const char *value = http_query(request, name);
        if (value && !json_object_get(body, name))
            json_object_set_new(body, name, json_text(value));
    }
}

/* The arguments, or NULL after an error was answered. */
static json_t *read_arguments(struct http_request *request, const struct api_row *row,
                              const struct method_row *method, struct body *body)
{
    const char *member = method_content_index(method) >= 0 ? "content" : NULL;
    int result = 0;
    if (strcmp(row->method, "GET") != 0)
        result = body_read(body, request, member, -1);
    if (result == 0)
        body->json = json_object();
    if (result < 0) {
        problem_reply(request, 400, "INVALID_JSON", NULL, hint_example(row).text,
                      "The body is not JSON: %s at line %d, column %d", body->error.text,
                      body->error.line, body->error.column);
        return NULL;
    }
    if (!json_is_object(body->json)) {
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, hint_example(row).text,
                      "The body must be a JSON object");
        return NULL;
    }
    /* Ids of processes are taken as they stand, as the container does. */
    bool raw = strncmp(row->path, "/api/process/", strlen("/api/process/")) == 0;
    (raw ? path_fits_raw : path_fits)(row->path, http_path(request), body->json);
    take_query(row, request, body->json);
    if (row->prepare)
        row->prepare(body->json);
    struct error err = {0};
    json_t *args = arguments_named(method, body->json, body->content != NULL, &err);
    if (!args)
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, hint_example(row).text, "%s",
                      err.text);
    return args;
}

bool api_uploads(const char *method, const char *path)
{
    const struct api_row *row = find_row(method, path);
    return row && strcmp(row->method, method) == 0 && method_find(row->name)->upload;
}

void api_route(struct worker *worker, struct http_request *request)
{
    const struct api_row *row = find_row(http_method(request), http_path(request));
    if (!row) {
        reply_no_route(request);
        return;
    }
    if (strcmp(http_method(request), row->method) != 0) {
        http_set_header(request, "Allow", row->method);
        problem_reply(request, 405, "METHOD_NOT_ALLOWED", NULL, hint_example(row).text,
                      "%s takes %s, not %.20s", row->path, row->method, http_method(request));
        return;
    }
    CLEANUP_TARGET struct target target = TARGET_INIT;
    if (target_from_headers(&target, request, worker->config.objects) < 0)
        return;
    if (row->no_session && target.session) {
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, "Leave X-Session-Id out",
                      "Ports belong to the sandbox and are not exposed by a session");
        return;
    }
    const struct method_row *method = method_find(row->name);
    CLEANUP_BODY struct body body = BODY_INIT;
    json_t *args = method->upload ? upload_arguments(request)
                                  : read_arguments(request, row, method, &body);
    if (args)
        worker_call_row(request, &worker->config, FACE_API, method, &target, args, &body,
                        row->shape);
}
