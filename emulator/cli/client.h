/* A small blocking HTTP/1.1 client for the commands that talk to a running emulator: JSON in, JSON
 * out, one connection for each request, loopback addresses only. */
#ifndef SANDPIT_CLI_CLIENT_H
#define SANDPIT_CLI_CLIENT_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/options.h"

struct client {
    char host[128]; /* as in the URL: "localhost", "127.0.0.1", "[::1]" */
    uint16_t port;
    char token[128]; /* "" = none */
};

struct client_answer {
    int status;
    struct buf body;
    json_t *json; /* NULL when the body is not JSON */
};

#define CLEANUP_ANSWER __attribute__((cleanup(client_answer_free)))
void client_answer_free(struct client_answer *answer);

/* "http://localhost:8787"; a path is refused. */
int client_parse_url(const char *url, struct client *client, struct error *err);

/* Sends one request; body may be NULL. timeout_ms bounds the whole exchange, 0 = no bound. Fails
 * with -ECONNREFUSED and a hint when nothing listens; any HTTP status is an answer, not an error.
 * The answer may be uninitialised; it must be freed also after an error. */
int client_request(const struct client *client, const char *method, const char *path,
                   const json_t *body, int timeout_ms, struct client_answer *answer,
                   struct error *err);

/* The same with any bytes as the body (NULL = none) and further headers: whole lines with CRLF, or
 * NULL. */
struct client_message {
    const char *method, *path;
    const char *headers;
    const char *body;
    size_t body_size;
};
int client_send(const struct client *client, const struct client_message *message, int timeout_ms,
                struct client_answer *answer, struct error *err);

/* GETs a stream of server-sent events and gives the data of each, until the emulator ends it (0), the
 * callback returns something else than 0 (which is returned), or something fails. */
int client_follow(const struct client *client, const char *path,
                  int (*event)(void *arg, const char *data), void *arg, struct error *err);

/* As client_request; statuses from 400 on are errors with the emulator's text (and hint). */
int client_call(const struct client *client, const char *method, const char *path,
                const json_t *body, struct client_answer *answer, struct error *err);

/* Which emulator a command means: --url, --port, --project, then $SANDPIT_URL, then the locator. */
struct client_choice {
    const char *url;
    long port;
    const char *project;
};
#define CLIENT_OPTIONS(CHOICE)                                                                     \
    OPT_NUMBER("port", 'p', &(CHOICE)->port, 1, 65535, "N", "the emulator on this port"),          \
        OPT_TEXT("url", 0, &(CHOICE)->url, "URL", "the emulator at this URL"),                     \
        OPT_TEXT("project", 0, &(CHOICE)->project, "DIR", "the emulator of this project")
int client_choose(const struct client_choice *choice, struct client *client, struct error *err);

#endif
