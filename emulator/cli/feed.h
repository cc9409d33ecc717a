/* What `sandpit events` and `sandpit logs` share: lines of JSON from the emulator, once or for as
 * long as they come, printed as they are or readably. */
#ifndef SANDPIT_CLI_FEED_H
#define SANDPIT_CLI_FEED_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/client.h"

struct feed_request {
    const char *path; /* below /cdn-cgi/local, encoded */
    struct buf query; /* "&name=value"…, made by feed_query() */
    bool follow, json;
    void (*print)(const json_t *line);
};

/* Adds a parameter; nothing for a NULL value. */
int feed_query(struct feed_request *request, const char *name, const char *value);
int feed_run(const struct client *client, const struct feed_request *request, struct error *err);

/* A member that is a text, or "". */
const char *feed_member(const json_t *object, const char *name);
/* Prints text from a sandbox without what could steer a terminal, and blanks up to `width`. */
void feed_put(const char *text, int width);
/* "10:31:02.123" of an ISO time, dim on a terminal. */
void feed_put_time(const char *iso);
/* The same in a colour: an escape sequence that is used on a terminal only. */
void feed_put_coloured(const char *text, int width, const char *colour);

#endif
