/* The head that a server inside a container gets, made from the client's. What belongs to the
 * connection and not to the request is left out, by a table; so is every field that holds the
 * emulator's own token. */
#ifndef SANDPIT_PROXY_EDIT_H
#define SANDPIT_PROXY_EDIT_H

#include "proxy/proxy.h"

struct edit_field {
    const char *name, *value; /* a value of NULL: only left out */
};

struct edit {
    struct span path;             /* "/…" */
    struct span query;            /* or a missing one */
    const char *host;             /* the Host that the server sees */
    const char *token;            /* of the emulator, or NULL */
    const char *answer_fields;    /* as in proxy_request */
    const struct edit_field *add; /* these replace fields of the same name; ends with NULL */
};

/* answer_fields for what is served on the emulator's own host name: a page from a sandbox must not
 * become a page of that origin, which may call everything. */
extern const char edit_other_origin[];

/* Whether the request asks for an upgrade, which needs both headers. */
bool edit_is_upgrade(const struct head *head);
/* Fills all of `to` from the request. -ENOMEM, or -EMSGSIZE when the head became too large. */
int edit_request(struct http_request *request, const struct edit *edit, struct proxy_request *to);
/* The same for one that never was libmicrohttpd's. */
int edit_raw(const struct http_raw *raw, const struct edit *edit, struct proxy_request *to);

#endif
