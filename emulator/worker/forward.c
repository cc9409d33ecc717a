/* Requests that are forwarded to a port of a sandbox, by path. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "worker/container_fetch.h"
#include "worker/target.h"
#include "worker/tunnel.h"

enum { CONTROL_PORT = 3000, LEAST_PORT = 1024 };

/* The servers of /api/init. */
static const struct {
    const char *path;
    uint16_t port;
} demos[] = {{"/ws/echo", 8080}, {"/ws/code", 8081}, {"/ws/terminal", 8082}};

static const struct word {
    const char *name;
    bool upgrade; /* serves nothing else */
    bool in_path; /* the port and the rest stand in the path, and the query is the server's */
    const char *rest, *what;
} words[] = {
    {"proxy", false, true, "/{port}/…", "`containerFetch`: any method and body, upgrades too"},
    {"ws", true, true, "/{port}/…", "`wsConnect`: WebSocket upgrades only"},
    {"wsConnect", true, false, "?port={port}&path=/…", "the same, with the path in the query"},
};

int forward_markdown(struct buf *to)
{
    buf_adds(to,
             "\n## Forwarded routes\n\n"
             "Requests that reach a server inside the sandbox as they were sent, and its answers "
             "as they come. The server sees the path behind the port, and the whole query; "
             "options of the sandbox go into the headers of the [API routes](#api-routes). A port "
             "is 1024 to 65535 and not 3000.\n\n| route | what |\n|---|---|\n");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        buf_addf(to, "| `/sandbox/{id}/%s%s` | %s |\n", words[i].name, words[i].rest,
                 words[i].what);
    for (size_t i = 0; i < sizeof demos / sizeof *demos; i++)
        buf_addf(to, "| `%s` | upgrades to port %u, where `POST /api/init` starts a server |\n",
                 demos[i].path, demos[i].port);
    return buf_adds(to, "| `/proxy/{port}`, on the container's host | as containers of older SDKs "
                        "had it: `/` of a port that is exposed there |\n"
                        "| `/proxy/{port}/…`, on the container's host | `sandbox.fetch`: the path "
                        "stays as it is |\n");
}

/* What a path below /sandbox/ means. */
struct route {
    struct span id;
    const struct word *word; /* NULL = nothing that is forwarded */
    const char *rest;        /* behind the word: "" or "/…" */
};

static struct route parse(const char *path)
{
    struct route route = {0};
    if (strncmp(path, "/sandbox/", 9) != 0)
        return route;
    route.id = (struct span){path + 9, strcspn(path + 9, "/")};
    const char *name = route.id.at + route.id.size;
    if (*name != '/')
        return route;
    size_t size = strcspn(++name, "/");
    route.rest = name + size;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].name) == size && memcmp(words[i].name, name, size) == 0 &&
            (*route.rest != '\0') == words[i].in_path)
            route.word = &words[i];
    }
    return route;
}

static uint16_t demo_port(const char *path)
{
    for (size_t i = 0; i < sizeof demos / sizeof *demos; i++) {
        if (strcmp(demos[i].path, path) == 0)
            return demos[i].port;
    }
    return 0;
}

bool worker_forwards(enum http_owner owner, const char *path)
{
    if (owner == OWNER_CONTAINER)
        return strncmp(path, "/proxy/", 7) == 0;
    return owner == OWNER_WORKER && (parse(path).word || demo_port(path));
}

static void reply_bad_port(struct http_request *request, struct span text)
{
    struct span reserved = span_of("3000");
    problem_reply(request, 400, "SECURITY_ERROR", NULL,
                  "Use a port from 1024 to 65535 other than 3000",
                  span_same(text, reserved)
                      ? "Invalid port number: %.*s. Port 3000 is reserved for the container's API"
                      : "Invalid port number: %.*s. Must be 1024-65535 and not reserved",
                  (int)(text.size > 40 ? 40 : text.size), text.at ? text.at : "");
}

/* 0 when it is none that may be reached. */
static uint16_t parse_port(struct span text, int least)
{
    int64_t port;
    if (text.size < 1 || text.size > 5 || text.at[0] == '0' || !span_number(text, &port) ||
        port < least || port > 65535 || port == CONTROL_PORT)
        return 0;
    return (uint16_t)port;
}

static bool wants_upgrade(struct http_request *request)
{
    if (edit_is_upgrade(http_head(request)))
        return true;
    http_set_header(request, "Upgrade", "websocket");
    problem_reply(
        request, 426, "UPGRADE_REQUIRED", NULL,
        "Connect with a WebSocket client; /sandbox/{id}/proxy/{port}/ takes plain requests",
        "Expected a WebSocket upgrade");
    return false;
}

/* Where a request on the method route goes to; false after an error was answered. */
static bool aim(struct http_request *request, const struct route *route, struct tunnel_spec *spec)
{
    struct span text = span_of(http_query(request, "port"));
    const char *path = http_query(request, "path");
    spec->path = span_of(path && *path ? path : "/");
    if (route->word->in_path) {
        text = (struct span){route->rest + 1, strcspn(route->rest + 1, "/")};
        const char *rest = text.at + text.size;
        spec->path = span_of(*rest ? rest : "/");
        spec->query = http_head(request)->query;
    } else if (!container_fetch_is_target(spec->path.at)) {
        problem_reply(request, 400, "VALIDATION_FAILED", NULL, "Percent-encode it twice",
                      "path must be the path of a URL");
        return false;
    }
    spec->port = parse_port(text, LEAST_PORT);
    if (!spec->port)
        reply_bad_port(request, text);
    return spec->port != 0;
}

static void sandbox_route(struct worker *worker, struct http_request *request,
                          const struct route *route)
{
    CLEANUP_TARGET struct target target = TARGET_INIT;
    struct tunnel_spec spec = {.face = FACE_METHOD, .answer_fields = edit_other_origin};
    target.headers_only = route->word->in_path;
    if (route->word->upgrade && !wants_upgrade(request))
        return;
    if (target_from_path(&target, request, route->id.at, route->id.size) < 0 ||
        !aim(request, route, &spec))
        return;
    spec.object = target_object(&target, request, worker->config.objects);
    if (spec.object)
        tunnel_start(worker, request, &spec);
}

void forward_route(struct worker *worker, struct http_request *request)
{
    struct route route = parse(http_path(request));
    if (route.word) {
        sandbox_route(worker, request, &route);
        return;
    }
    CLEANUP_TARGET struct target target = TARGET_INIT;
    const struct head *head = http_head(request);
    struct tunnel_spec spec = {.face = FACE_API,
                               .port = demo_port(http_path(request)),
                               .path = head->path,
                               .query = head->query,
                               .answer_fields = edit_other_origin};
    if (!wants_upgrade(request) ||
        target_from_headers(&target, request, worker->config.objects) < 0)
        return;
    spec.object = target_object(&target, request, worker->config.objects);
    if (spec.object)
        tunnel_start(worker, request, &spec);
}

/* The older form has one segment, and only for ports that are exposed. */
static bool is_exposed(struct http_request *request, const struct object *object, struct span text,
                       uint16_t port)
{
    char name[16];
    if (port && object_has_port(object, port))
        return true;
    snprintf(name, sizeof name, "%.*s", (int)(text.size > 10 ? 10 : text.size), text.at);
    http_reply_json(request, 404,
                    json_pack("{s:s, s:s, s:o}", "error", "Port not found", "message",
                              "The port is not exposed", "port",
                              port ? json_integer(port) : json_text(name)));
    return false;
}

void forward_face(struct worker *worker, struct http_request *request, struct object *object)
{
    const struct head *head = http_head(request);
    const char *path = http_path(request) + strlen("/proxy/");
    struct span text = {path, strcspn(path, "/")};
    struct tunnel_spec spec = {.object = object,
                               .face = FACE_PROXY,
                               .port = parse_port(text, 1),
                               .path = head->path,
                               .query = head->query};
    if (path[text.size] == '\0') {
        spec.path = span_of("/");
        if (!is_exposed(request, object, text, spec.port))
            return;
    }
    if (spec.port)
        tunnel_start(worker, request, &spec);
    else
        reply_bad_port(request, text);
}
