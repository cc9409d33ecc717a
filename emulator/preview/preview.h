/* Preview URLs: a request whose Host or path names an exposed port of a sandbox and its token is
 * forwarded to that port. Previews never start a container, and what has no valid token is no
 * activity of a sandbox. */
#ifndef SANDPIT_PREVIEW_PREVIEW_H
#define SANDPIT_PREVIEW_PREVIEW_H

#include "clock/clock.h"
#include "http/http.h"
#include "objects/objects.h"
#include "proxy/proxy.h"

struct preview;

struct preview_config {
    struct loop *loop;
    struct clock *clock;
    struct objects *objects;
    struct proxy *proxy; /* shared with others */
    bool faithful;       /* answers hold no hints */
};

struct preview *preview_new(const struct preview_config *config);
/* The emulator ends: before the proxy is freed. */
void preview_close(struct preview *preview);
/* After the http server's end. */
void preview_free(struct preview *preview);

/* For http_config: raw, handle[OWNER_PREVIEW] and has_domain; arg is the struct preview. */
void preview_raw(void *arg, struct http_raw *raw);
void preview_handle(void *arg, struct http_request *request);
bool preview_has_domain(void *arg, struct span domain);

#endif
