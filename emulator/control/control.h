/* The control API under /cdn-cgi/local and the start page: what the emulator knows of itself, and
 * the lifecycle and the clock by hand. Control calls never count as activity of a sandbox. */
#ifndef SANDPIT_CONTROL_CONTROL_H
#define SANDPIT_CONTROL_CONTROL_H

#include "buckets/buckets.h"
#include "clock/clock.h"
#include "http/http.h"
#include "objects/objects.h"

struct control;

struct control_config {
    struct loop *loop;
    struct clock *clock;
    struct objects *objects;
    struct buckets *buckets;
    const char *driver;    /* "bwrap" */
    const char *state_dir; /* "" for --ephemeral */
    const char *sdk_version;
};

struct control *control_new(const struct control_config *config);
void control_free(struct control *control);
/* The port is known only after the server has started. */
void control_set_port(struct control *control, uint16_t port);

/* Appends the control section of docs/api.md. */
int control_markdown(struct buf *to);

/* The handlers: OWNER_CONTROL, and the page at "/". */
void control_handle(void *arg, struct http_request *request);
void control_page(void *arg, struct http_request *request);

#endif
