/* Exposed ports of an object and their preview URLs. What is stored is what the SDK stores:
 * portTokens outlives containers, activePreviewPorts belongs to one runtime. */
#ifndef SANDPIT_OBJECTS_PORTS_H
#define SANDPIT_OBJECTS_PORTS_H

#include "objects/objects.h"
#include "objects/port_rules.h"

struct exposed {
    struct exposed *next; /* by port */
    uint16_t port;
    bool active; /* in the current container */
    char token[TOKEN_MAX + 1];
    char *name; /* or NULL */
};

struct ports {
    struct exposed *first;
    unsigned count;
    bool stored_runtime; /* activePreviewPorts is stored */
};

/* Inside: the list of an object's ports, and what is stored of it. */
const struct port_rules *ports_rules(const struct object *object);
struct exposed *ports_find(const struct object *object, uint16_t port);
bool ports_active(const struct object *object, const struct exposed *exposed); /* may be NULL */
/* NULL when there is no room. */
struct exposed *ports_add(struct object *object, uint16_t port);
void ports_drop(struct object *object, uint16_t port);
/* Stores what the list becomes when this port has the token (NULL = none). */
int ports_store(struct object *object, uint16_t port, const char *token, const char *name,
                struct error *err);
/* The URL of a port, below the host or, when that is NULL, by path. New reference, or NULL. */
json_t *ports_url(const struct object *object, const struct exposed *exposed,
                  const struct preview_host *host);
/* Where requests come in when nobody says. */
struct preview_host ports_own_host(const struct object *object);

/* port_methods.c: rows of the table of methods. */
void ports_expose(struct object *object, struct call *call);
void ports_unexpose(struct object *object, struct call *call);
void ports_list(struct object *object, struct call *call);
void ports_is_exposed(struct object *object, struct call *call);
void ports_validate(struct object *object, struct call *call);

/* Reads what is stored; false when that failed. */
bool ports_load(struct object *object);
void ports_free(struct object *object);
/* The container is gone: no URL leads to it any more. */
void ports_gone(struct object *object);
/* destroy(): the tokens are forgotten too. */
int ports_forget(struct object *object, struct error *err);
/* [{port, name?, status, url, pathUrl}] for the control API; new reference. */
json_t *ports_describe(const struct object *object);
/* Adds the numbers of the active ones to the array. */
void ports_numbers(const struct object *object, json_t *to);

/* preview_hosts.c: the domains that exposePort was given, by which previews are found. */
struct preview_hosts {
    char **names;
    size_t count;
};
int preview_hosts_load(struct objects *objects, struct error *err);
/* Remembers it, here and in the object's storage. */
int preview_hosts_add(struct object *object, const char *name, struct error *err);
void preview_hosts_free(struct objects *objects);

#endif
