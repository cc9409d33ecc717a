#include <stdio.h>

#include "base/cleanup.h"
#include "preview/internal.h"

static const struct {
    int status;
    const char *code; /* NULL: a text, as the original's */
    const char *error, *hint;
} rows[] = {
    [REFUSE_TOKEN] = {404, "INVALID_TOKEN",
                      "Access denied: the token is not valid or the port is not exposed",
                      "exposePort() gives the URL; getExposedPorts() lists those that are valid"},
    [REFUSE_STALE] =
        {410, "STALE_PREVIEW_URL",
         "This preview URL is stale: the container that it was made for is not running",
         "previews do not wake a sandbox: call exposePort() again, and the same URL "
         "works"},
    [REFUSE_SILENT] = {500, "SERVICE_NOT_RESPONDING",
                       "Connection refused: the container is not listening on port %u",
                       "start the server first, and wait for it with waitForPort"},
    [REFUSE_EXPOSE] = {500, "PORT_NOT_IN_DOCKERFILE",
                       "Connection refused: container port not found. Make sure you exposed the "
                       "port in your container definition.",
                       NULL},
    [REFUSE_LOST] = {500, NULL, "Container suddenly disconnected, try again", NULL},
    [REFUSE_BAD] = {502, "BAD_SERVER_ANSWER", "The answer of the server on port %u is not HTTP/1.1",
                    NULL},
    [REFUSE_OVERDUE] = {504, "SERVER_TIMEOUT", "The server on port %u did not answer in time",
                        NULL},
    [REFUSE_TOO_LONG] = {431, "HEAD_TOO_LARGE", "The request head is too large to be forwarded",
                         NULL},
    [REFUSE_MEMORY] = {500, "INTERNAL_ERROR", "Out of memory", NULL},
};

void refuse_fill(enum refusal_kind kind, bool faithful, uint16_t port, const char *detail,
                 struct proxy_answer *answer)
{
    char error[192];
    answer->status = rows[kind].status;
    snprintf(error, sizeof error, rows[kind].error, port);
    if (!rows[kind].code) {
        answer->type = "text/plain; charset=utf-8";
        buf_adds(&answer->body, error);
        return;
    }
    answer->type = "application/json";
    CLEANUP_JSON json_t *body =
        json_pack("{s:s, s:s, s:s*, s:s*}", "error", error, "code", rows[kind].code, "reason",
                  detail, "hint", faithful ? NULL : rows[kind].hint);
    CLEANUP_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    buf_adds(&answer->body, text ? text : "{}");
}
