/* exposePort and its relatives, as the SDK's line has them. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "objects/internal.h"

enum { URL_MAX = 1024 };

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
    uint16_t port = port_check(ports_rules(object), json_object_get(call->args, "port"), &err);
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
    *host = ports_own_host(object);
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
    const struct port_rules *rules = ports_rules(object);
    const struct exposed *there = ports_find(object, port);
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
    json_t *url = ports_url(object, exposed, &ask->host);
    json_t *path = object->objects->config.faithful ? NULL : ports_url(object, exposed, NULL);
    call_result(ask->outer, json_pack("{s:o*, s:i, s:s*, s:o*}", "url", url, "port", exposed->port,
                                      "name", exposed->name, "pathUrl", path));
}

/* Older containers know which ports are exposed. True when that was answered. */
static bool is_registered(struct ask *ask)
{
    const struct exposed *there = ports_find(ask->object, ask->port);
    if (!ports_rules(ask->object)->registry || !ports_active(ask->object, there))
        return false;
    call_error(ask->outer, CODE_PORT_ALREADY_EXPOSED, "port.expose",
               json_pack("{s:i, s:s*}", "port", ask->port, "portName", there->name),
               "Port %u is already exposed", ask->port);
    return true;
}

static void expose_go(struct ask *ask)
{
    struct object *object = ask->object;
    struct call *outer = ask->outer;
    struct error err = {0};
    char token[TOKEN_MAX + 1];
    const char *name = text_arg(outer, "name");
    if (is_registered(ask))
        return;
    choose_token(object, ask->port, text_arg(outer, "token"), token);
    const struct exposed *other = other_with(object, ask->port, token);
    if (other) {
        call_error(outer, CODE_SECURITY_ERROR, NULL, NULL,
                   "Token is already in use by port %u. Use another token", other->port);
        return;
    }
    CLEANUP_FREE char *kept = name ? strdup(name) : NULL;
    if (ask->host.form == HOST_FORM_CUSTOM && preview_hosts_add(object, ask->host.name, &err) < 0) {
        storage_failed(outer, &err);
        return;
    }
    struct exposed *exposed = (name && !kept) ? NULL : ports_add(object, ask->port);
    if (!exposed) {
        call_error(outer, CODE_INTERNAL_ERROR, NULL, NULL, "No room for another exposed port");
        return;
    }
    if (ports_store(object, ask->port, token, name, &err) < 0) {
        if (!*exposed->token)
            ports_drop(object, ask->port);
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
    const struct port_rules *rules = ports_rules(object);
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
    } else {
        expose_note(object, port,
                    "exposePort"); /* which asks nobody; the request will be refused */
        with_container(object, call, port, &host, expose_go);
    }
}

/* unexposePort. */

void ports_unexpose(struct object *object, struct call *call)
{
    struct error err = {0};
    uint16_t port = port_arg(object, call);
    const struct exposed *there = port ? ports_find(object, port) : NULL;
    if (!port)
        return;
    if (ports_rules(object)->registry && !ports_active(object, there)) {
        call_error(call, CODE_PORT_NOT_EXPOSED, "port.unexpose", json_pack("{s:i}", "port", port),
                   "Port %u is not exposed", port);
        return;
    }
    if (there && ports_store(object, port, NULL, NULL, &err) < 0) {
        storage_failed(call, &err);
        return;
    }
    if (there)
        object_note(object, "port.unexposed", NULL, json_pack("{s:i}", "port", port));
    ports_drop(object, port);
    call_result(call, json_pack("{s:b, s:i}", "success", 1, "port", port));
}

/* getExposedPorts, isPortExposed, validatePortToken. */

static void list_go(struct ask *ask)
{
    json_t *list = json_array();
    for (const struct exposed *at = ask->object->ports.first; at; at = at->next) {
        if (ports_active(ask->object, at))
            json_array_append_new(list, json_pack("{s:o*, s:i, s:s}", "url",
                                                  ports_url(ask->object, at, &ask->host), "port",
                                                  at->port, "status", "active"));
    }
    call_result(ask->outer, list);
}

static void is_exposed_go(struct ask *ask)
{
    call_result(ask->outer,
                json_boolean(ports_active(ask->object, ports_find(ask->object, ask->port))));
}

static void validate_go(struct ask *ask)
{
    const char *token = text_arg(ask->outer, "token");
    const struct exposed *exposed = ports_find(ask->object, ask->port);
    bool known =
        exposed && (!ports_rules(ask->object)->registry || ports_active(ask->object, exposed));
    bool same =
        token_same(exposed ? exposed->token : "", token ? token : "", token ? strlen(token) : 0);
    call_result(ask->outer, json_boolean(known && same));
}

/* Older lines ask the container, and so start it. */
static void look(struct object *object, struct call *call, uint16_t port,
                 const struct preview_host *host, void (*go)(struct ask *ask))
{
    (ports_rules(object)->registry ? with_container : without_container)(object, call, port, host,
                                                                         go);
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
    struct preview_host host = ports_own_host(object);
    uint16_t port = port_check(ports_rules(object), json_object_get(call->args, "port"), &err);
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
