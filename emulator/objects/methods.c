/* The methods that the Durable Object answers itself, or that it prepares for the container. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/quote.h"
#include "container/environment.h"
#include "objects/internal.h"

static json_t *success(void)
{
    return json_pack("{s:b}", "success", 1);
}

static void get_state(struct object *object, struct call *call)
{
    call_result(call, status_describe(object));
}

/* Methods that end in a container operation with arguments of their own. */
struct follow {
    struct call call;
    struct call *outer;
    struct object *object;
    json_t *args;
    /* Makes the outer result of a successful answer; NULL = {"success": true}. */
    json_t *(*shape)(const struct follow *follow);
};

static void follow_done(struct call *call, struct answer *answer)
{
    struct follow *follow = call->arg;
    if (answer->code != CODE_OK) {
        follow->outer->done(follow->outer, answer);
    } else if (json_is_integer(json_object_get(answer->body, "exitCode")) &&
               json_integer_value(json_object_get(answer->body, "exitCode")) != 0) {
        call_error(follow->outer, CODE_PLAIN_ERROR, NULL, NULL, "%s",
                   json_string_value(json_object_get(answer->body, "stderr")));
    } else {
        call_result(follow->outer, follow->shape ? follow->shape(follow) : success());
    }
    json_decref(follow->args);
    free(follow);
}

/* Takes args. */
static void follow_call(struct object *object, struct call *outer, const char *op, json_t *args,
                        json_t *(*shape)(const struct follow *follow))
{
    struct follow *follow = calloc(1, sizeof *follow);
    if (!follow || !args) {
        free(follow);
        json_decref(args);
        call_error(outer, CODE_INTERNAL_ERROR, NULL, NULL, "out of memory");
        return;
    }
    *follow = (struct follow){.outer = outer, .object = object, .args = args, .shape = shape};
    follow->call = (struct call){.args = args, .done = follow_done, .arg = follow};
    object_call(object, container_op(op), &follow->call);
}

static json_t *start_result(const struct follow *follow)
{
    return json_pack("{s:b, s:s}", "success", 1, "status", "healthy");
}

static void start(struct object *object, struct call *call)
{
    follow_call(object, call, "ping", json_object(), start_result);
}

static void ended(void *arg)
{
    call_result(arg, success());
}

static void answer_when_gone(struct object *object, struct call *call)
{
    if (object_when_gone(object, ended, call) < 0)
        call_error(call, CODE_INTERNAL_ERROR, NULL, NULL,
                   "Out of memory: the container ends, but this cannot wait for it");
}

static void stop(struct object *object, struct call *call)
{
    object_stop(object, LIFE_STOPPED, "stopped by stop()");
    answer_when_gone(object, call);
}

static void storage_failed(struct call *call, const struct error *err)
{
    call_error(call, err->code == EBUSY ? CODE_CONTAINER_UNAVAILABLE : CODE_INTERNAL_ERROR, NULL,
               NULL, "%s", err->text);
}

static void destroy(struct object *object, struct call *call)
{
    struct error err = {0};
    if (ports_forget(object, &err) < 0) {
        storage_failed(call, &err);
        return;
    }
    object_destroy(object, "destroyed by destroy()");
    answer_when_gone(object, call);
}

static void replace(struct object *object, struct call *call)
{
    object_replace(object, "replaced by the platform");
    answer_when_gone(object, call);
}

/* Variables. */

/* "export A='1'; unset B", or NULL with a text for the first bad entry. */
static char *export_command(const json_t *vars, struct error *err)
{
    CLEANUP_BUF struct buf text = BUF_INIT(1024 * 1024);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)vars, name, value)
    {
        if (!environment_name_ok(name)) {
            error_set(err, EINVAL, "Invalid environment variable name: '%s'", name);
            return NULL;
        }
        if (!json_is_string(value) && !json_is_null(value)) {
            error_set(err, EINVAL, "environment variable '%s' must be a string or null", name);
            return NULL;
        }
        buf_addf(&text, "%s%s %s", text.size ? "; " : "", json_is_null(value) ? "unset" : "export",
                 name);
        if (json_is_string(value)) {
            buf_addc(&text, '=');
            quote_word(&text, json_string_value(value));
        }
    }
    if (text.error) {
        error_errno(err, -text.error, "environment variables");
        return NULL;
    }
    return buf_steal(&text);
}

static void remember_env(struct object *object, const json_t *vars)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)vars, name, value)
    {
        if (json_is_null(value))
            json_object_del(object->env, name);
        else
            json_object_set(object->env, name, value);
    }
}

static void set_env_vars(struct object *object, struct call *call)
{
    struct error err = {0};
    const json_t *vars = json_object_get(call->args, "envVars");
    const char *session = json_string_value(json_object_get(call->args, "sessionId"));
    CLEANUP_FREE char *command = json_is_object(vars) ? export_command(vars, &err) : NULL;
    if (!command) {
        call_error(call, CODE_VALIDATION_FAILED, NULL,
                   json_pack("{s:[{s:s, s:s, s:s}]}", "validationErrors", "field", "envVars",
                             "message", err.code ? err.text : "must be an object", "code",
                             "INVALID_ENV"),
                   "%s", err.code ? err.text : "envVars must be an object");
        return;
    }
    if (!session)
        remember_env(object, vars);
    if (!session && object->session == SESSION_READY && object->state == OBJECT_HEALTHY)
        session = object->session_id;
    if (!session || !*command) {
        call_result(call, success());
        return;
    }
    follow_call(object, call, "execute",
                json_pack("{s:s, s:s}", "command", command, "sessionId", session), NULL);
}

/* Sessions. */

static json_t *session_result(const struct follow *follow)
{
    platform_handshake(follow->object);
    json_t *id = json_object_get(follow->args, "id");
    return json_pack("{s:b, s:O, s:O}", "success", 1, "id", id, "sessionId", id);
}

static void create_session(struct object *object, struct call *call)
{
    json_t *args = json_deep_copy(call->args);
    object_add_env(object, args);
    json_t *id = json_object_get(args, "id");
    if (!id || json_is_null(id)) {
        char made[48];
        snprintf(made, sizeof made, "session-%lld",
                 (long long)clock_now_ms(object->objects->clock));
        json_object_set_new(args, "id", json_string(made));
    } else if (json_is_string(id) && strcmp(json_string_value(id), "__DISABLE_SESSION__") == 0) {
        json_decref(args);
        call_error(call, CODE_PLAIN_ERROR, NULL, NULL,
                   "the session id '__DISABLE_SESSION__' is reserved");
        return;
    }
    follow_call(object, call, "sessionCreate", args, session_result);
}

static json_t *deleted_result(const struct follow *follow)
{
    return json_pack("{s:b, s:O, s:o}", "success", 1, "sessionId",
                     json_object_get(follow->args, "sessionId"), "timestamp",
                     clock_timestamp(follow->object->objects->clock));
}

static void delete_session(struct object *object, struct call *call)
{
    json_t *id = json_object_get(call->args, "sessionId");
    if (json_is_string(id) && strcmp(json_string_value(id), object->session_id) == 0) {
        call_error(call, CODE_PLAIN_ERROR, NULL, NULL,
                   "Cannot delete the default session '%s'; use destroy() to end the sandbox",
                   object->session_id);
        return;
    }
    follow_call(object, call, "sessionDelete", json_pack("{s:O?}", "sessionId", id),
                deleted_result);
}

/* Files. */

/* The bytes themselves are another operation of the container than a text about them. */
static void read_file(struct object *object, struct call *call)
{
    const char *encoding = json_string_value(json_object_get(call->args, "encoding"));
    bool raw = encoding && strcmp(encoding, "none") == 0;
    object_call(object, container_op(raw ? "readRaw" : "read"), call);
}

/* Git. */

/* What the SDK's client refuses before it asks the container. */
static bool is_positive(const json_t *value)
{
    double number = json_number_value(value);
    return json_is_number(value) && number >= 1 && number == (double)(long long)number;
}

static void git_checkout(struct object *object, struct call *call)
{
    static const struct {
        const char *field, *what, *such_as;
    } rows[] = {{"depth", "depth value", " (e.g., 1, 5, 10)"},
                {"timeoutMs", "clone timeout", " (milliseconds)"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *value = json_object_get(call->args, rows[i].field);
        if (!value || json_is_null(value) || is_positive(value))
            continue;
        CLEANUP_FREE char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        call_error(call, CODE_PLAIN_ERROR, NULL, NULL,
                   "Invalid %s: %.40s. Must be a positive integer%s", rows[i].what,
                   shown ? shown : "", rows[i].such_as);
        return;
    }
    object_call(object, container_op("gitCheckout"), call);
}

static void get_placement_id(struct object *object, struct call *call)
{
    call_result(call, json_pack("{s:O*}", "placementId", object->platform.placement_id));
}

/* Options. */

static void option_result(struct call *call, int result, const struct error *err)
{
    if (result == 0)
        call_result(call, success());
    else if (result == -EINVAL)
        call_error(call, CODE_PLAIN_ERROR, NULL, NULL, "%s", err->text);
    else
        storage_failed(call, err);
}

static int set_options(struct object *object, const json_t *args, struct error *err)
{
    const json_t *sleep = json_object_get(args, "sleepAfter");
    const json_t *keep = json_object_get(args, "keepAlive");
    if (keep && !json_is_boolean(keep))
        return error_set(err, EINVAL, "keepAlive must be true or false");
    const json_t *labels = json_object_get(args, "labels");
    const json_t *timeouts = json_object_get(args, "containerTimeouts");
    int result = labels ? platform_set_labels(object, labels, err) : 0;
    if (result == 0 && timeouts)
        result = platform_set_timeouts(object, timeouts, err);
    if (result == 0 && sleep)
        result = object_set_sleep_after(object, sleep, err);
    if (result == 0 && keep)
        result = object_set_keep_alive(object, json_is_true(keep), err);
    return result;
}

/* Equal values change nothing and are no activity. */
static void configure(struct object *object, struct call *call)
{
    struct error err = {0};
    int result = set_options(object, call->args, &err);
    option_result(call, result, &err);
}

/* The setters are activity whatever they set, but for keepAlive: true. */
static void set_sleep_after(struct object *object, struct call *call)
{
    struct error err = {0};
    int result = set_options(object, call->args, &err);
    if (result == 0)
        object_renew(object, "setSleepAfter");
    option_result(call, result, &err);
}

static void set_keep_alive(struct object *object, struct call *call)
{
    struct error err = {0};
    int result = set_options(object, call->args, &err);
    if (result == 0 && !object->keep_alive)
        object_renew(object, "setKeepAlive");
    option_result(call, result, &err);
}

static const struct object_method methods[] = {
    {"getState", get_state},
    {"initServers", servers_start},
    {"start", start},
    {"stop", stop},
    {"destroy", destroy},
    {"replace", replace},
    {"setEnvVars", set_env_vars},
    {"createSession", create_session},
    {"deleteSession", delete_session},
    {"getContainerPlacementId", get_placement_id},
    {"readFile", read_file},
    {"gitCheckout", git_checkout},
    {"exec", exec_run},
    {"isProcessRunning", process_is_running},
    {"killProcess", process_kill},
    {"getProcess", process_get},
    {"waitForLog", wait_for_log},
    {"waitForPort", wait_for_port},
    {"waitForExit", wait_for_exit},
    {"exposePort", ports_expose},
    {"unexposePort", ports_unexpose},
    {"getExposedPorts", ports_list},
    {"isPortExposed", ports_is_exposed},
    {"validatePortToken", ports_validate},
    {"setSleepAfter", set_sleep_after},
    {"setKeepAlive", set_keep_alive},
    {"setLabels", configure},
    {"setContainerTimeouts", configure},
    {"configure", configure},
    {"createCodeContext", interpreter_create},
    {"listCodeContexts", interpreter_list},
    {"deleteCodeContext", interpreter_delete},
    {"runCode", interpreter_run},
    {"runCodeStream", interpreter_run_stream},
};

const struct object_method *object_method(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    }
    return NULL;
}

void object_method_call(struct object *object, const struct object_method *method,
                        struct call *call)
{
    object_load(object);
    method->run(object, call);
}
