/* The code interpreter as the SDK shows it: contexts, a default one for each language, and the
 * container's events put together as one result.
 *
 * The SDK takes the first context of a language that it knows for the default, whoever made it. We
 * also forget contexts with their container, and those whose process ended; the original goes on
 * naming them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "base/jsonstr.h"
#include "container/interpreter_language.h"
#include "objects/internal.h"

enum {
    EVENTS_MAX = 256 << 20,
    LARGE = 64 * 1024, /* strings from here on are not shown to jansson */
};

/* A method on its way through the container. */
struct relay {
    struct call call;
    struct call *outer;
    struct object *object;
    json_t *args;  /* of the container's operation */
    char *context; /* its id, once known */
    enum language language;
    bool raw; /* the events as they are */
    json_t *code;
    struct stream *stream;
    struct buf events;
    struct relay *next; /* of those who wait for a default context */
};

static void relay_free(struct relay *relay)
{
    json_decref(relay->args);
    json_decref(relay->code);
    free(relay->context);
    buf_free(&relay->events);
    free(relay);
}

/* NULL after an error was answered. */
static struct relay *relay_new(struct object *object, struct call *outer)
{
    struct relay *relay = calloc(1, sizeof *relay);
    if (!relay) {
        call_error(outer, CODE_INTERNAL_ERROR, NULL, NULL, "out of memory");
        return NULL;
    }
    relay->object = object;
    relay->outer = outer;
    relay->events = BUF_INIT(EVENTS_MAX);
    return relay;
}

/* Takes args. */
static void relay_call(struct relay *relay, const char *op, json_t *args,
                       void (*done)(struct call *call, struct answer *answer))
{
    json_decref(relay->args);
    relay->args = args;
    relay->call = (struct call){.args = args, .done = done, .arg = relay};
    object_call(relay->object, container_op(op), &relay->call);
}

static void relay_fail(struct relay *relay, const char *why)
{
    struct call *outer = relay->outer;
    relay_free(relay);
    call_error(outer, CODE_INTERNAL_ERROR, NULL, NULL, "%s", why);
}

/* Known contexts. */

static void remember(struct object *object, json_t *id, json_t *language)
{
    size_t i;
    json_t *known;
    if (!object->contexts)
        object->contexts = json_array();
    json_array_foreach(object->contexts, i, known)
    {
        if (json_equal(json_object_get(known, "id"), id))
            return;
    }
    json_array_append_new(object->contexts, json_pack("{s:O,s:O}", "id", id, "language", language));
}

static void forget(struct object *object, const char *id)
{
    for (size_t i = json_array_size(object->contexts); i-- > 0;) {
        const json_t *known = json_array_get(object->contexts, i);
        if (strcmp(json_string_value(json_object_get(known, "id")), id) == 0)
            json_array_remove(object->contexts, i);
    }
}

static const char *default_context(const struct object *object, enum language language)
{
    size_t i;
    json_t *known;
    json_array_foreach(object->contexts, i, known)
    {
        const char *name = json_string_value(json_object_get(known, "language"));
        if (strcmp(name, language_row(language)->name) == 0)
            return json_string_value(json_object_get(known, "id"));
    }
    return NULL;
}

void interpreter_forget(struct object *object)
{
    json_decref(object->contexts);
    object->contexts = NULL;
}

/* False after an error was answered: the SDK checks what the container does not. */
static bool check_language(struct call *call, enum language *language)
{
    const char *name = json_string_value(json_object_get(call->args, "language"));
    if (language_find(name, language))
        return true;
    call_error(call, CODE_SECURITY_ERROR, NULL, json_pack("{s:s}", "code", "INVALID_LANGUAGE"),
               "Unsupported language '%.100s': use python, javascript or typescript", name);
    return false;
}

/* createCodeContext, listCodeContexts, deleteCodeContext. */

/* A CodeContext; its times are those of the answer, as in the SDK. */
static json_t *describe(json_t *id, json_t *language, json_t *cwd, json_t *time)
{
    return json_pack("{s:O,s:O,s:O,s:O,s:O}", "id", id, "language", language, "cwd", cwd,
                     "createdAt", time, "lastUsed", time);
}

static void created(struct call *call, struct answer *answer)
{
    struct relay *relay = call->arg;
    struct call *outer = relay->outer;
    if (answer->code != CODE_OK) {
        relay_free(relay);
        outer->done(outer, answer);
        return;
    }
    json_t *id = json_object_get(answer->body, "contextId");
    json_t *language = json_object_get(answer->body, "language");
    remember(relay->object, id, language);
    relay_free(relay);
    call_result(outer, describe(id, language, json_object_get(answer->body, "cwd"),
                                json_object_get(answer->body, "timestamp")));
}

void interpreter_create(struct object *object, struct call *call)
{
    enum language language;
    if (!check_language(call, &language))
        return;
    struct relay *relay = relay_new(object, call);
    if (relay)
        relay_call(relay, "createContext",
                   json_pack("{s:s,s:O*,s:O*}", "language", language_row(language)->name, "cwd",
                             json_object_get(call->args, "cwd"), "env_vars",
                             json_object_get(call->args, "envVars")),
                   created);
}

static void listed(struct call *call, struct answer *answer)
{
    struct relay *relay = call->arg;
    struct call *outer = relay->outer;
    if (answer->code != CODE_OK) {
        relay_free(relay);
        outer->done(outer, answer);
        return;
    }
    json_t *list = json_array(), *entry;
    size_t i;
    json_array_foreach(json_object_get(answer->body, "contexts"), i, entry)
    {
        json_t *id = json_object_get(entry, "id"), *language = json_object_get(entry, "language");
        remember(relay->object, id, language);
        json_array_append_new(list, describe(id, language, json_object_get(entry, "cwd"),
                                             json_object_get(answer->body, "timestamp")));
    }
    relay_free(relay);
    call_result(outer, list);
}

void interpreter_list(struct object *object, struct call *call)
{
    struct relay *relay = relay_new(object, call);
    if (relay)
        relay_call(relay, "listContexts", json_object(), listed);
}

static void deleted(struct call *call, struct answer *answer)
{
    struct relay *relay = call->arg;
    struct call *outer = relay->outer;
    if (answer->code == CODE_OK || answer->code == CODE_CONTEXT_NOT_FOUND)
        forget(relay->object, json_string_value(json_object_get(relay->args, "id")));
    relay_free(relay);
    outer->done(outer, answer);
}

void interpreter_delete(struct object *object, struct call *call)
{
    struct relay *relay = relay_new(object, call);
    if (relay)
        relay_call(relay, "deleteContext",
                   json_pack("{s:O}", "id", json_object_get(call->args, "contextId")), deleted);
}

/* From events to a result. */

/* Large strings are unescaped by our own code and stand beside the event that jansson reads. */
static json_t *load_large(const char *text, size_t size)
{
    static const char *const members[] = {"text", "html",     "png",        "jpeg",
                                          "svg",  "markdown", "javascript", "latex"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const char *inside = NULL;
        size_t inside_size = 0;
        CLEANUP_FREE char *rest = NULL;
        if (jsonstr_cut(text, size, members[i], -1, LARGE, &inside, &inside_size, &rest) != 1)
            continue;
        CLEANUP_FREE char *plain = malloc(inside_size + 16);
        const char *from = inside, *end = inside + inside_size;
        size_t used = 0;
        long got = 0;
        while (plain &&
               (got = jsonstr_unescape(&from, end, plain + used, inside_size + 16 - used)) > 0)
            used += (size_t)got;
        json_t *event =
            plain && got == 0 ? heap_load_json(rest, strlen(rest), JSON_ALLOW_NUL, NULL) : NULL;
        if (event)
            json_object_set_new(event, members[i], json_stringn_nocheck(plain, used));
        return event;
    }
    return NULL;
}

/* Whole numbers that do not fit 64 bits are what JavaScript makes of them. */
static json_t *load_event(const char *text, size_t size)
{
    json_t *event = size >= LARGE ? load_large(text, size) : NULL;
    if (!event)
        event = heap_load_json(text, size, JSON_ALLOW_NUL, NULL);
    if (!event)
        event = heap_load_json(text, size, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    return event;
}

static json_t *shape_result(const json_t *event)
{
    static const char *const forms[] = {"text",  "html",     "png",        "jpeg", "svg",
                                        "latex", "markdown", "javascript", "json"};
    json_t *result = json_object();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        json_t *value = json_object_get(event, forms[i]);
        if (value)
            json_object_set(result, forms[i], value);
    }
    return result;
}

struct parts {
    json_t *printed[2], *error, *results;
};

static void add_event(struct parts *parts, const json_t *event)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    if (!type)
        return;
    if (strcmp(type, "stdout") == 0)
        json_array_append(parts->printed[0], json_object_get(event, "text"));
    else if (strcmp(type, "stderr") == 0)
        json_array_append(parts->printed[1], json_object_get(event, "text"));
    else if (strcmp(type, "result") == 0)
        json_array_append_new(parts->results, shape_result(event));
    else if (strcmp(type, "error") == 0 && !parts->error)
        parts->error = json_pack("{s:O*,s:O*,s:O*}", "name", json_object_get(event, "ename"),
                                 "message", json_object_get(event, "evalue"), "traceback",
                                 json_object_get(event, "traceback"));
}

static json_t *execution_result(const struct relay *relay)
{
    struct parts parts = {{json_array(), json_array()}, NULL, json_array()};
    const char *at = buf_text(&relay->events), *end = at + relay->events.size;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((line_end ? line_end : end) - at);
        if (size > 6 && memcmp(at, "data: ", 6) == 0) {
            CLEANUP_JSON json_t *event = load_event(at + 6, size - 6);
            add_event(&parts, event);
        }
        at += size + 1;
    }
    return json_pack("{s:O,s:{s:o,s:o},s:o*,s:o}", "code", relay->code, "logs", "stdout",
                     parts.printed[0], "stderr", parts.printed[1], "error", parts.error, "results",
                     parts.results);
}

/* runCode, runCodeStream. */

/* The object may go with the stream, so it is not looked at any more. */
static void collected(struct relay *relay)
{
    struct call *outer = relay->outer;
    stream_abort(steal_pointer(&relay->stream));
    json_t *result = execution_result(relay);
    relay_free(relay);
    call_result(outer, result);
}

static void readable(void *arg)
{
    struct relay *relay = arg;
    for (;;) {
        char *to = buf_reserve(&relay->events, LARGE, NULL);
        if (!to) {
            stream_abort(steal_pointer(&relay->stream));
            relay_fail(relay, "The result is too large");
            return;
        }
        long got = stream_take(relay->stream, to, LARGE);
        if (got == 0)
            return;
        if (got < 0)
            break;
        buf_commit(&relay->events, (size_t)got);
    }
    collected(relay);
}

static void answered(struct call *call, struct answer *answer)
{
    struct relay *relay = call->arg;
    if (answer->code == CODE_INTERNAL_ERROR || answer->code == CODE_CONTEXT_NOT_FOUND)
        forget(relay->object, relay->context);
    if (answer->code != CODE_OK || relay->raw) {
        struct call *outer = relay->outer;
        relay_free(relay);
        outer->done(outer, answer);
        return;
    }
    relay->stream = steal_pointer(&answer->stream);
    stream_set_sink(relay->stream, (struct stream_sink){.readable = readable, .arg = relay});
    readable(relay);
}

/* Takes the id. */
static void run_in(struct relay *relay, char *id)
{
    relay->context = id;
    if (!id) {
        relay_fail(relay, "out of memory");
        return;
    }
    relay_call(relay, "executeCode", json_pack("{s:s,s:O}", "context_id", id, "code", relay->code),
               answered);
}

/* Everybody who waited for the default context of the language. */
static void default_made(struct call *call, struct answer *answer)
{
    struct relay *maker = call->arg;
    struct object *object = maker->object;
    enum language language = maker->language;
    struct relay *relay = object->code_waiting[language];
    object->code_waiting[language] = NULL;
    relay_free(maker);
    json_t *id = json_object_get(answer->body, "contextId");
    if (answer->code == CODE_OK)
        remember(object, id, json_object_get(answer->body, "language"));
    while (relay) {
        struct relay *next = relay->next;
        if (answer->code == CODE_OK) {
            run_in(relay, strdup(json_string_value(id)));
        } else {
            struct answer copy = {.code = answer->code,
                                  .body = json_incref(answer->body),
                                  .message = answer->message ? strdup(answer->message) : NULL};
            struct call *outer = relay->outer;
            relay_free(relay);
            call_finish(outer, &copy);
        }
        relay = next;
    }
}

/* Calls that come together share one. */
static void run_in_default(struct relay *relay)
{
    struct object *object = relay->object;
    const char *known = default_context(object, relay->language);
    if (known) {
        run_in(relay, strdup(known));
        return;
    }
    struct relay **waiting = &object->code_waiting[relay->language];
    bool first = !*waiting;
    while (*waiting)
        waiting = &(*waiting)->next;
    *waiting = relay;
    struct relay *maker = first ? calloc(1, sizeof *maker) : NULL;
    if (!first)
        return;
    if (!maker) {
        *waiting = NULL;
        relay_fail(relay, "out of memory");
        return;
    }
    maker->object = object;
    maker->language = relay->language;
    relay_call(maker, "createContext",
               json_pack("{s:s}", "language", language_row(maker->language)->name), default_made);
}

static void run(struct object *object, struct call *call, bool raw)
{
    enum language language;
    const json_t *context = json_object_get(call->args, "context");
    const char *id = json_string_value(json_object_get(context, "id"));
    if (context && !id) {
        call_error(call, CODE_VALIDATION_FAILED, NULL, NULL,
                   "options.context must be what createCodeContext gave: it has no id");
        return;
    }
    if (!id && !check_language(call, &language))
        return;
    struct relay *relay = relay_new(object, call);
    if (!relay)
        return;
    relay->raw = raw;
    relay->code = json_incref(json_object_get(call->args, "code"));
    if (id) {
        run_in(relay, strdup(id));
        return;
    }
    relay->language = language;
    run_in_default(relay);
}

void interpreter_run(struct object *object, struct call *call)
{
    run(object, call, false);
}

void interpreter_run_stream(struct object *object, struct call *call)
{
    run(object, call, true);
}
