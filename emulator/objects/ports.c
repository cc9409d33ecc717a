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

static const struct port_rules *rules_of(const struct object *object)
{
    return object->objects->config.ports.rules;
}

/* The list. */

static struct exposed *find(const struct object *object, uint16_t port)
{
    struct exposed *at = object->ports.first;
    while (at && at->port < port)
        at = at->next;
    return at && at->port == port ? at : NULL;
}

static bool is_active(const struct object *object, const struct exposed *exposed)
{
    return exposed && exposed->active && object->state == OBJECT_HEALTHY;
}

static struct exposed *add(struct object *object, uint16_t port)
{
    struct exposed *exposed = find(object, port);
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

static void drop(struct object *object, uint16_t port)
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
        drop(object, object->ports.first->port);
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
            json_object_set_new(active, key,
                                json_pack("{s:s, s:s}", "token", at->token, "runtimeIdentityID",
                                          object->runtime));
    }
    key_of(port, key);
    if (token)
        json_object_set_new(active, key, json_pack("{s:s, s:s}", "token", token,
                                                   "runtimeIdentityID", object->runtime));
    else
        json_object_del(active, key);
    return active;
}

/* Stores what the lists become when this port has the token (NULL = none). */
static int store_ports(struct object *object, uint16_t port, const char *token, const char *name,
                       struct error *err)
{
    bool runs = *object->runtime != '\0';
    CLEANUP_JSON json_t *tokens = tokens_json(
        object, port,
        token ? json_pack("{s:s, s:s*}", "token", token, "name", name) : NULL);
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
    struct exposed *exposed = add(object, (uint16_t)port);
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
    json_object_foreach(tokens, key, entry)
        good = load_one(object, key, entry) && good;
    return good;
}

static int forget_runtime(struct object *object, bool tokens, struct error *err)
{
    const struct store_change changes[] = {
        {"activePreviewPorts", NULL}, {"currentRuntimeIdentity", NULL}, {"portTokens", NULL}};
    if (!tokens && !object->ports.stored_runtime)
        return 0;
    int result =
        store_change(object->objects->store, object->row, changes, tokens ? 3 : 2, err);
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

static json_t *label_json(const struct object *object, const struct exposed *exposed,
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
static struct preview_host own_host(const struct object *object)
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
    struct preview_host host = own_host(object);
    json_t *list = json_array();
    for (const struct exposed *at = object->ports.first; at; at = at->next)
        json_array_append_new(
            list, json_pack("{s:i, s:s*, s:s, s:o*, s:o*}", "port", at->port, "name", at->name,
                            "status", is_active(object, at) ? "active" : "stale", "url",
                            label_json(object, at, &host), "pathUrl",
                            label_json(object, at, NULL)));
    return list;
}

void ports_numbers(const struct object *object, json_t *to)
{
    for (const struct exposed *at = object->ports.first; at; at = at->next) {
        if (is_active(object, at))
            json_array_append_new(to, json_integer(at->port));
    }
}

/* Calls that need the container first. */
struct ask {
    struct call call;
    struct call *outer;
    struct object *object;
    json_t *args;
    uint16_t port;
    struct preview_host host;
    void (*go)(struct ask *ask);
};

static void ask_done(struct call *call, struct answer *answer)
{
    struct ask *ask = call->arg;
    if (answer->code == CODE_OK)
        ask->go(ask);
    else
        ask->outer->done(ask->outer, answer);
    json_decref(ask->args);
    free(ask);
}

/* Calls go() when the container runs and has its default session. */
static void with_container(struct object *object, struct call *outer, uint16_t port,
                           const struct preview_host *host, void (*go)(struct ask *ask))
{
    struct ask *ask = calloc(1, sizeof *ask);
    json_t *args = json_pack("{s:s}", "sessionId", object->session_id);
    if (!ask || !args) {
        free(ask);
        json_decref(args);
        call_error(outer, CODE_INTERNAL_ERROR, NULL, NULL, "out of memory");
        return;
    }
    *ask = (struct ask){
        .outer = outer, .object = object, .args = args, .port = port, .host = *host, .go = go};
    ask->call = (struct call){.args = args, .done = ask_done, .arg = ask};
    object_call(object, container_op("ping"), &ask->call);
}

static void without_container(struct object *object, struct call *outer, uint16_t port,
                              const struct preview_host *host, void (*go)(struct ask *ask))
{
    struct ask ask = {.outer = outer, .object = object, .port = port, .host = *host, .go = go};
    go(&ask);
}

static void storage_failed(struct call *call, const struct error *err)
{
    call_error(call, err->code == EBUSY ? CODE_CONTAINER_UNAVAILABLE : CODE_INTERNAL_ERROR, NULL,
               NULL, "%s", err->text);
}

static const char *text_arg(const struct call *call, const char *name)
{
    return json_string_value(json_object_get(call->args, name));
}

static uint16_t port_arg(struct object *object, struct call *call)
{
    struct error err = {0};
    uint16_t port = port_check(rules_of(object), json_object_get(call->args, "port"), &err);
    if (!port)
        call_error(call, CODE_SECURITY_ERROR, NULL, NULL, "%s", err.text);
    return port;
}

/* Host names have no upper case, and the id is part of one. */
static bool id_is_lower(struct object *object, struct call *call)
{
    for (const char *at = object->id; *at; at++) {
        if (!isupper((unsigned char)*at))
            continue;
        call_error(call, CODE_SECURITY_ERROR, NULL, NULL,
                   "Preview URLs require lowercase sandbox IDs: '%s' has upper case. Call "
                   "getSandbox with {normalizeId: true}, or use '?normalizeId=1' here",
                   object->id);
        return false;
    }
    return true;
}

static bool host_arg(struct object *object, struct call *call, struct preview_host *host)
{
    struct error err = {0};
    const char *hostname = text_arg(call, "hostname");
    *host = own_host(object);
    if (!hostname || preview_host_parse(hostname, host, &err) == 0)
        return true;
    call_error(call, CODE_SECURITY_ERROR, NULL, NULL, "%s", err.text);
    return false;
}

/* exposePort. */

static void tell(struct object *object, const char *text)
{
    object_note(object, "hint.preview", text, NULL);
    log_warn("sandbox %s: %s", object->id, text);
}

/* What works here and not there, once. */
static void warn_other_world(struct object *object, const struct preview_host *host)
{
    struct objects *objects = object->objects;
    if (!objects->told_rules) {
        objects->told_rules = true;
        tell(object, objects->config.ports.production
                         ? "with wrangler dev before 4.136 the Dockerfile must EXPOSE a port, "
                           "and previews are below localhost"
                         : "in production previews need a custom domain with a wildcard DNS "
                           "record (.workers.dev cannot); every port is reachable without EXPOSE");
    }
    if (preview_host_is_nested(host) && !objects->told_nested) {
        objects->told_nested = true;
        tell(object, "a certificate for one level does not cover previews below a subdomain: "
                     "this domain needs a wildcard certificate of its own");
    }
}

static bool domain_will_do(struct object *object, struct call *call,
                           const struct preview_host *host)
{
    bool custom = host->form == HOST_FORM_CUSTOM && !preview_host_is_workers_dev(host);
    bool workers_dev = host->form == HOST_FORM_CUSTOM && !custom;
    if (custom || (!workers_dev && !object->objects->config.ports.production))
        return true;
    const char *given = text_arg(call, "hostname");
    call_error(call, CODE_CUSTOM_DOMAIN_REQUIRED, NULL,
               json_pack("{s:s}", "originalError", given ? given : host->name),
               "Port exposure requires a custom domain: %s",
               workers_dev ? ".workers.dev domains do not support wildcard subdomains"
                           : "--rules production has no previews below localhost");
    return false;
}

static const struct exposed *other_with(const struct object *object, uint16_t port,
                                        const char *token)
{
    const struct exposed *at = object->ports.first;
    while (at && (at->port == port || strcmp(at->token, token) != 0))
        at = at->next;
    return at;
}

/* Given, kept or new. */
static void choose_token(const struct object *object, uint16_t port, const char *given,
                         char to[TOKEN_MAX + 1])
{
    const struct port_rules *rules = rules_of(object);
    const struct exposed *there = find(object, port);
    if (given && rules->custom_tokens)
        memcpy(to, given, strlen(given) + 1);
    else if (there && !rules->registry)
        memcpy(to, there->token, sizeof there->token);
    else
        token_make(rules, to);
}

static void expose_result(struct ask *ask, const struct exposed *exposed)
{
    struct object *object = ask->object;
    json_t *url = label_json(object, exposed, &ask->host);
    json_t *path = object->objects->config.faithful ? NULL : label_json(object, exposed, NULL);
    call_result(ask->outer, json_pack("{s:o*, s:i, s:s*, s:o*}", "url", url, "port", exposed->port,
                                      "name", exposed->name, "pathUrl", path));
}

static void expose_go(struct ask *ask)
{
    struct object *object = ask->object;
    struct call *outer = ask->outer;
    struct error err = {0};
    char token[TOKEN_MAX + 1];
    const char *name = text_arg(outer, "name");
    choose_token(object, ask->port, text_arg(outer, "token"), token);
    const struct exposed *other = other_with(object, ask->port, token);
    if (other) {
        call_error(outer, CODE_SECURITY_ERROR, NULL, NULL,
                   "Token is already in use by port %u. Use another token", other->port);
        return;
    }
    CLEANUP_FREE char *kept = name ? strdup(name) : NULL;
    if (ask->host.form == HOST_FORM_CUSTOM &&
        preview_hosts_add(object, ask->host.name, &err) < 0) {
        storage_failed(outer, &err);
        return;
    }
    struct exposed *exposed = (name && !kept) ? NULL : add(object, ask->port);
    if (!exposed) {
        call_error(outer, CODE_INTERNAL_ERROR, NULL, NULL, "No room for another exposed port");
        return;
    }
    if (store_ports(object, ask->port, token, name, &err) < 0) {
        if (!*exposed->token)
            drop(object, ask->port);
        storage_failed(outer, &err);
        return;
    }
    memcpy(exposed->token, token, sizeof token);
    free(exposed->name);
    exposed->name = steal_pointer(&kept);
    exposed->active = object->state == OBJECT_HEALTHY;
    object_note(object, "port.exposed", NULL,
                json_pack("{s:i, s:s*}", "port", ask->port, "name", exposed->name));
    warn_other_world(object, &ask->host);
    expose_result(ask, exposed);
}

void ports_expose(struct object *object, struct call *call)
{
    struct error err = {0};
    struct preview_host host;
    CLEANUP_BUF struct buf label = BUF_INIT(URL_MAX);
    const char *token = text_arg(call, "token");
    const struct port_rules *rules = rules_of(object);
    uint16_t port = port_arg(object, call);
    if (!port || !host_arg(object, call, &host) || !domain_will_do(object, call, &host) ||
        !id_is_lower(object, call))
        return;
    if (preview_label(&label, port, object->id, "") < 0) {
        call_error(call, CODE_SECURITY_ERROR, NULL, NULL,
                   "Failed to construct preview URL: the id '%s' cannot stand in a host name",
                   object->id);
    } else if (token && rules->custom_tokens && token_check(rules, token, &err) < 0) {
        call_error(call, CODE_SECURITY_ERROR, NULL, NULL, "%s", err.text);
    } else if (rules->registry && is_active(object, find(object, port))) {
        const struct exposed *there = find(object, port);
        call_error(call, CODE_PORT_ALREADY_EXPOSED, "port.expose",
                   json_pack("{s:i, s:s*}", "port", port, "portName", there->name),
                   "Port %u is already exposed", port);
    } else {
        expose_note(object, port, "exposePort"); /* which asks nobody; the request will be refused */
        with_container(object, call, port, &host, expose_go);
    }
}

/* unexposePort. */

void ports_unexpose(struct object *object, struct call *call)
{
    struct error err = {0};
    uint16_t port = port_arg(object, call);
    const struct exposed *there = port ? find(object, port) : NULL;
    if (!port)
        return;
    if (rules_of(object)->registry && !is_active(object, there)) {
        call_error(call, CODE_PORT_NOT_EXPOSED, "port.unexpose", json_pack("{s:i}", "port", port),
                   "Port %u is not exposed", port);
        return;
    }
    if (there && store_ports(object, port, NULL, NULL, &err) < 0) {
        storage_failed(call, &err);
        return;
    }
    if (there)
        object_note(object, "port.unexposed", NULL, json_pack("{s:i}", "port", port));
    drop(object, port);
    call_result(call, json_pack("{s:b, s:i}", "success", 1, "port", port));
}

/* getExposedPorts, isPortExposed, validatePortToken. */

static void list_go(struct ask *ask)
{
    json_t *list = json_array();
    for (const struct exposed *at = ask->object->ports.first; at; at = at->next) {
        if (is_active(ask->object, at))
            json_array_append_new(list, json_pack("{s:o*, s:i, s:s}", "url",
                                                  label_json(ask->object, at, &ask->host), "port",
                                                  at->port, "status", "active"));
    }
    call_result(ask->outer, list);
}

static void is_exposed_go(struct ask *ask)
{
    call_result(ask->outer,
                json_boolean(is_active(ask->object, find(ask->object, ask->port))));
}

static void validate_go(struct ask *ask)
{
    const char *token = text_arg(ask->outer, "token");
    const struct exposed *exposed = find(ask->object, ask->port);
    bool known = exposed && (!rules_of(ask->object)->registry || is_active(ask->object, exposed));
    bool same = token_same(exposed ? exposed->token : "", token ? token : "",
                           token ? strlen(token) : 0);
    call_result(ask->outer, json_boolean(known && same));
}

/* Older lines ask the container, and so start it. */
static void look(struct object *object, struct call *call, uint16_t port,
                 const struct preview_host *host, void (*go)(struct ask *ask))
{
    (rules_of(object)->registry ? with_container : without_container)(object, call, port, host, go);
}

void ports_list(struct object *object, struct call *call)
{
    struct preview_host host;
    if (host_arg(object, call, &host) && id_is_lower(object, call))
        look(object, call, 0, &host, list_go);
}

static void look_at_port(struct object *object, struct call *call, void (*go)(struct ask *ask))
{
    struct error err = {0};
    struct preview_host host = own_host(object);
    uint16_t port = port_check(rules_of(object), json_object_get(call->args, "port"), &err);
    if (port)
        look(object, call, port, &host, go);
    else
        call_result(call, json_false());
}

void ports_is_exposed(struct object *object, struct call *call)
{
    look_at_port(object, call, is_exposed_go);
}

void ports_validate(struct object *object, struct call *call)
{
    look_at_port(object, call, validate_go);
}

/* The owner of a label. */

static enum preview_state state_of(struct object *object, const struct label_split *split)
{
    object_load(object);
    const struct port_rules *rules = rules_of(object);
    const struct exposed *exposed = find(object, split->port);
    if (!token_same(exposed ? exposed->token : "", split->token, split->token_size))
        return PREVIEW_INVALID;
    if (is_active(object, exposed))
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
