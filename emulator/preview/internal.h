/* What the files of this layer share. */
#ifndef SANDPIT_PREVIEW_INTERNAL_H
#define SANDPIT_PREVIEW_INTERNAL_H

#include "preview/preview.h"
#include "proxy/edit.h"

struct visit;

struct preview {
    struct preview_config config;
    struct visit *visits;
    bool closing;
};

/* Where a request came from: one of the two. */
struct source {
    const struct head *head;
    const struct http_raw *raw;
    struct http_request *request;
    const char *label;
    struct span path;
    bool by_path;
};

/* request.c: what the server gets. */
int request_edit(const struct source *source, const char *id, uint16_t port,
                 struct proxy_request *to);

/* refuse.c: what is said when nothing is forwarded. */
enum refusal_kind {
    REFUSE_TOKEN,    /* nothing has it */
    REFUSE_STALE,    /* the container is another one, or none */
    REFUSE_SILENT,   /* nobody listens */
    REFUSE_EXPOSE,   /* the Dockerfile does not expose it */
    REFUSE_LOST,     /* the connection broke */
    REFUSE_BAD,      /* what came is no answer */
    REFUSE_OVERDUE,  /* nothing came */
    REFUSE_TOO_LONG, /* the head */
    REFUSE_MEMORY,
};
/* `detail` goes into the text of some, and may be NULL. */
void refuse_fill(enum refusal_kind kind, bool faithful, uint16_t port, const char *detail,
                 struct proxy_answer *answer);

#endif
