/* What the SDK says about ports, tokens and preview URLs, by its line. Pure. */
#ifndef SANDPIT_OBJECTS_PORT_RULES_H
#define SANDPIT_OBJECTS_PORT_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { TOKEN_LENGTH = 16, TOKEN_MAX = 63, PREVIEW_LABEL_MAX = 63 };

/* What a preview URL is worth after its container was replaced. */
enum after_restart {
    RESTART_FORGOTTEN, /* 404: the registry of ports was the container's */
    RESTART_LIVES,     /* it works, and starts the container */
    RESTART_STALE,     /* 410 until the port is exposed again */
};

/* The rules of a line of the SDK, from this version on. */
struct port_rules {
    int minor, patch;   /* of 0.minor.patch */
    bool hyphens;       /* in tokens */
    bool custom_tokens; /* the option is there */
    bool reserves_8787; /* too */
    bool registry;      /* exposed ports are the container's: exposing twice is an error */
    enum after_restart after;
};
/* `version` is "0.7.4", or "0.7" for its last; NULL = the newest. */
const struct port_rules *port_rules_of(const char *version);

/* The port, or 0 with the SDK's message in err. */
uint16_t port_check(const struct port_rules *rules, const json_t *value, struct error *err);
/* 0, or -EINVAL with the SDK's message. */
int token_check(const struct port_rules *rules, const char *token, struct error *err);
void token_make(const struct port_rules *rules, char to[TOKEN_LENGTH + 1]);
/* Takes the same time wherever the two differ, and whatever the sizes are. */
bool token_same(const char *stored, const char *given, size_t size);

/* Where previews are to be reached. */
enum host_form {
    HOST_FORM_LOCAL,   /* a name of this machine: previews are below localhost */
    HOST_FORM_ADDRESS, /* an address, below which there are no names */
    HOST_FORM_CUSTOM,  /* a domain */
};
struct preview_host {
    enum host_form form;
    char name[256]; /* lower case, without the port */
    char port[8];   /* ":8787", or "" */
};
/* -EINVAL when it is neither a name nor an address. */
int preview_host_parse(const char *hostname, struct preview_host *to, struct error *err);
bool preview_host_is_workers_dev(const struct preview_host *host);
/* Whether a certificate for *.{zone} does not cover names below it. */
bool preview_host_is_nested(const struct preview_host *host);

/* "{port}-{id}-{token}". -EINVAL when the id cannot stand in a host name. */
int preview_label(struct buf *to, uint16_t port, const char *id, const char *token);
/* The URL for a label; `origin` is "localhost:8787" or NULL. */
int preview_url(struct buf *to, const struct preview_host *host, const char *label);
int preview_path_url(struct buf *to, const char *origin, const char *label);

/* A label in its parts, one split after the other, the longest id first. */
struct label_split {
    uint16_t port;
    const char *rest;  /* behind the port */
    size_t id_size;    /* of the id at rest; 0 = none was tried yet */
    const char *token; /* behind the id */
    size_t token_size;
};
/* False when the label is none of a preview. */
bool label_begin(const struct port_rules *rules, const char *label, struct label_split *split);
bool label_next(const struct port_rules *rules, struct label_split *split);

#endif
