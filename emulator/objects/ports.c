#include "objects/ports.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "objects/internal.h"

enum { PORTS_MAX = 1000, URL_MAX = 1024 };

const struct port_rules *ports_rules(const struct object *object)
{
    return object->objects->config.ports.rules;
}

/* The list. */

struct exposed *ports_find(const struct object *object, uint16_t port)
{
    struct exposed *at = object->ports.first;
    while (at && at->port < port)
        at = at->next;
    return at && at->port == port ? at : NULL;
}

bool ports_active(const struct object *object, const struct exposed *exposed)
{
    return exposed && exposed->active && object->state == OBJECT_HEALTHY;
}

struct exposed *ports_add(struct object *object, uint16_t port)
{
    struct exposed *exposed = ports_find(object, port);
    if (exposed || object->ports.count >= PORTS_MAX)
        return exposed;
    exposed = calloc(1, sizeof *exposed);
    if (!exposed)
        return NULL;
    exposed->port = port;
    struct exposed **at = &object->ports.first;
    while (*at && (*at)->port < port)
        at = &(*at)->next;
    exposed->next = *at;
    *at = exposed;
    object->ports.count++;
    return exposed;
}

void ports_drop(struct object *object, uint16_t port)
{
    struct exposed **at = &object->ports.first;
    while (*at && (*at)->port != port)
        at = &(*at)->next;
    struct exposed *exposed = *at;
    if (!exposed)
        return;
    *at = exposed->next;
    object->ports.count--;
    free(exposed->name);
    free(exposed);
}

void ports_free(struct object *object)
{
    while (object->ports.first)
        ports_drop(object, object->ports.first->port);
}

/* What is stored. */

static void key_of(uint16_t port, char to[8])
{
    snprintf(to, 8, "%u", port);
}

/* {"8080": {token, name?}}, without one port or with another entry for it. */
static json_t *tokens_json(const struct object *object, uint16_t port, json_t *entry)
{
    json_t *tokens = json_object();
    char key[8];
    for (const struct exposed *at = object->ports.first; at; at = at->next) {
        key_of(at->port, key);
        json_object_set_new(tokens, key,
                            json_pack("{s:s, s:s*}", "token", at->token, "name", at->name));
    }
    key_of(port, key);
    if (entry)
        json_object_set_new(tokens, key, entry);
    else
        json_object_del(tokens, key);
    return tokens;
}

static json_t *active_json(const struct object *object, uint16_t port, const char *token)
{
    json_t *active = json_object();
    char key[8];
    for (const struct exposed *at = object->ports.first; at; at = at->next) {
        key_of(at->port, key);
        if (at->active)
            json_object_set_new(
                active, key,
                json_pack("{s:s, s:s}", "token", at->token, "runtimeIdentityID", object->runtime));
    }
    key_of(port, key);
    if (token)
        json_object_set_new(
            active, key,
            json_pack("{s:s, s:s}", "token", token, "runtimeIdentityID", object->runtime));
    else
        json_object_del(active, key);
    return active;
}

/* Stores what the lists become when this port has the token (NULL = none). */
int ports_store(struct object *object, uint16_t port, const char *token, const char *name,
                struct error *err)
{
    bool runs = *object->runtime != '\0';
    CLEANUP_JSON json_t *tokens = tokens_json(
        object, port, token ? json_pack("{s:s, s:s*}", "token", token, "name", name) : NULL);
    CLEANUP_JSON json_t *active = runs ? active_json(object, port, token) : NULL;
    CLEANUP_JSON json_t *runtime = runs ? json_string(object->runtime) : NULL;
    if (!tokens || (runs && (!active || !runtime)))
        return error_errno(err, ENOMEM, "storage");
    const struct store_change changes[] = {{"portTokens", tokens},
                                           {"activePreviewPorts", active},
                                           {"currentRuntimeIdentity", runtime}};
    int result = store_change(object->objects->store, object->row, changes, 3, err);
    object->ports.stored_runtime = result == 0 ? runs : object->ports.stored_runtime;
    return result;
}

/* An older form of the entry is the token itself. */
static bool load_one(struct object *object, const char *key, const json_t *entry)
{
    const char *token = json_string_value(entry), *name = NULL;
    long port = strtol(key, NULL, 10);
    if (json_is_object(entry)) {
        token = json_string_value(json_object_get(entry, "token"));
        name = json_string_value(json_object_get(entry, "name"));
    }
    if (!token || !*token || strlen(token) > TOKEN_MAX || port < 1 || port > 65535)
        return true;
    struct exposed *exposed = ports_add(object, (uint16_t)port);
    if (!exposed)
        return object->ports.count >= PORTS_MAX;
    memcpy(exposed->token, token, strlen(token) + 1);
    free(exposed->name);
    exposed->name = name ? strdup(name) : NULL;
    return !name || exposed->name;
}

bool ports_load(struct object *object)
{
    struct error err = {0};
    const char *key;
    json_t *entry;
    bool good = true;
    CLEANUP_JSON json_t *tokens =
        store_get(object->objects->store, object->row, "portTokens", &err);
    if (err.code) {
        log_error("sandbox %s: its ports could not be read: %s", object->id, err.text);
        return false;
    }
    json_object_foreach(tokens, key, entry) good = load_one(object, key, entry) && good;
    return good;
}

static int forget_runtime(struct object *object, bool tokens, struct error *err)
{
    const struct store_change changes[] = {
        {"activePreviewPorts", NULL}, {"currentRuntimeIdentity", NULL}, {"portTokens", NULL}};
    if (!tokens && !object->ports.stored_runtime)
        return 0;
    int result = store_change(object->objects->store, object->row, changes, tokens ? 3 : 2, err);
    if (result == 0)
        object->ports.stored_runtime = false;
    return result;
}

void ports_gone(struct object *object)
{
    struct error err = {0};
    for (struct exposed *at = object->ports.first; at; at = at->next)
        at->active = false;
    if (forget_runtime(object, false, &err) < 0) /* the next container has another identity */
        log_warn("sandbox %s: %s", object->id, err.text);
}

int ports_forget(struct object *object, struct error *err)
{
    if (object->loaded && !object->ports.first && !object->ports.stored_runtime)
        return 0;
    int result = forget_runtime(object, true, err);
    if (result == 0)
        ports_free(object);
    return result;
}

/* URLs. */

json_t *ports_url(const struct object *object, const struct exposed *exposed,
                  const struct preview_host *host)
{
    CLEANUP_BUF struct buf label = BUF_INIT(URL_MAX), text = BUF_INIT(URL_MAX);
    const char *origin = object->objects->origin;
    if (preview_label(&label, exposed->port, object->id, exposed->token) < 0)
        return NULL;
    int result = host ? preview_url(&text, host, buf_text(&label))
                      : preview_path_url(&text, origin ? origin : "localhost", buf_text(&label));
    return result < 0 ? NULL : json_string(buf_text(&text));
}

/* Where requests come in when nobody says. */
struct preview_host ports_own_host(const struct object *object)
{
    struct preview_host host;
    struct error err = {0};
    const char *origin = object->objects->origin;
    if (preview_host_parse(origin ? origin : "localhost", &host, &err) < 0)
        preview_host_parse("localhost", &host, &err);
    return host;
}

json_t *ports_describe(const struct object *object)
{
    struct preview_host host = ports_own_host(object);
    json_t *list = json_array();
    for (const struct exposed *at = object->ports.first; at; at = at->next)
        json_array_append_new(
            list, json_pack("{s:i, s:s*, s:s, s:o*, s:o*}", "port", at->port, "name", at->name,
                            "status", ports_active(object, at) ? "active" : "stale", "url",
                            ports_url(object, at, &host), "pathUrl", ports_url(object, at, NULL)));
    return list;
}

void ports_numbers(const struct object *object, json_t *to)
{
    for (const struct exposed *at = object->ports.first; at; at = at->next) {
        if (ports_active(object, at))
            json_array_append_new(to, json_integer(at->port));
    }
}

/* The owner of a label. */

static enum preview_state state_of(struct object *object, const struct label_split *split)
{
    object_load(object);
    const struct port_rules *rules = ports_rules(object);
    const struct exposed *exposed = ports_find(object, split->port);
    if (!token_same(exposed ? exposed->token : "", split->token, split->token_size))
        return PREVIEW_INVALID;
    if (ports_active(object, exposed))
        return PREVIEW_ACTIVE;
    switch (rules->after) {
    case RESTART_FORGOTTEN:
        return PREVIEW_INVALID;
    case RESTART_LIVES:
        return PREVIEW_WAKES;
    case RESTART_STALE:
        break;
    }
    return PREVIEW_STALE;
}

enum preview_state objects_preview(struct objects *objects, const char *label,
                                   struct object **object, uint16_t *port)
{
    const struct port_rules *rules = objects->config.ports.rules;
    struct label_split split;
    char id[64];
    if (!label_begin(rules, label, &split))
        return PREVIEW_INVALID;
    *port = split.port;
    while (label_next(rules, &split)) {
        if (split.id_size >= sizeof id)
            continue;
        for (size_t i = 0; i < split.id_size; i++)
            id[i] = (char)tolower((unsigned char)split.rest[i]);
        id[split.id_size] = '\0';
        for (size_t i = 0; i < objects->config.class_count; i++) {
            *object = objects_find(objects, objects->config.classes[i].name, id);
            enum preview_state state = *object ? state_of(*object, &split) : PREVIEW_INVALID;
            if (state != PREVIEW_INVALID)
                return state;
        }
    }
    *object = NULL;
    return PREVIEW_INVALID;
}
