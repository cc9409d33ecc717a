/* waitForLog, waitForPort, waitForExit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "objects/pattern.h"
#include "objects/wait.h"

static bool is(const char *type, const char *wanted)
{
    return strcmp(type, wanted) == 0;
}

/* The log stream begins with what the process is. */
static void note_command(struct waiter *waiter, const char *type, const json_t *event)
{
    if (is(type, "process_info") && !waiter->command)
        waiter->command = json_incref(json_object_get(event, "command"));
}

static json_t *process_args(const struct waiter *waiter)
{
    return json_pack("{s:O?}", "processId", waiter->process);
}

/* waitForExit. */

static enum wait_next exit_event(struct waiter *waiter, const char *type, const json_t *event)
{
    note_command(waiter, type, event);
    if (!is(type, "exit"))
        return WAIT_ON;
    json_t *code = json_object_get(event, "exitCode");
    return waiter_result(waiter,
                         json_pack("{s:o}", "exitCode",
                                   json_is_integer(code) ? json_incref(code) : json_integer(1)));
}

static const struct wait_kind exit_kind = {
    .op = "processStream",
    .size = sizeof(struct waiter),
    .event = exit_event,
};

void wait_for_exit(struct object *object, struct call *call)
{
    struct waiter *waiter = waiter_new(&exit_kind, object, call, strdup("process exit"));
    if (waiter)
        waiter_read(waiter, process_args(waiter));
}

/* waitForLog. */

struct log_waiter {
    struct waiter waiter;
    struct pattern *pattern;
    struct pattern_text text[2]; /* standard output and standard error */
    json_t *exited;              /* the exit code, or null; NULL while it runs */
};

static enum wait_next log_event(struct waiter *base, const char *type, const json_t *event)
{
    struct log_waiter *waiter = (struct log_waiter *)base;
    const json_t *data = json_object_get(event, "data");
    note_command(base, type, event);
    if (is(type, "exit")) {
        json_t *code = json_object_get(event, "exitCode");
        json_decref(waiter->exited);
        waiter->exited = code ? json_incref(code) : json_null();
    } else if (json_is_string(data) && (is(type, "stdout") || is(type, "stderr")) &&
               pattern_add(&waiter->text[is(type, "stderr")], json_string_value(data),
                           json_string_length(data)) < 0) {
        return waiter_error(base, CODE_INTERNAL_ERROR, NULL, "The output is too large");
    }
    return WAIT_ON;
}

static enum wait_next log_look(struct waiter *base)
{
    struct log_waiter *waiter = (struct log_waiter *)base;
    for (int i = 0; i < 2 && base->began; i++) {
        json_t *found = NULL;
        switch (pattern_search(waiter->pattern, &waiter->text[i], &found)) {
        case PATTERN_FOUND:
            return waiter_result(base, found);
        case PATTERN_MORE:
            return WAIT_AGAIN;
        case PATTERN_COSTLY:
            return waiter_error(base, CODE_VALIDATION_FAILED, NULL,
                                "The pattern takes too long to match: %s; one that does not repeat "
                                "what already repeats is faster",
                                base->condition);
        case PATTERN_NONE:
            break;
        }
    }
    return waiter->exited ? waiter_exited(base, waiter->exited) : WAIT_ON;
}

static const char *log_hint(const struct waiter *base)
{
    const struct log_waiter *waiter = (const struct log_waiter *)base;
    if (pattern_matches_lines(waiter->pattern, &waiter->text[0]) ||
        pattern_matches_lines(waiter->pattern, &waiter->text[1]))
        return "A line matches, but ^ and $ stand for the beginning and end of all output: give "
               "the "
               "pattern the flag m";
    return NULL;
}

static void log_release(struct waiter *base)
{
    struct log_waiter *waiter = (struct log_waiter *)base;
    pattern_free(waiter->pattern);
    buf_free(&waiter->text[0].text);
    buf_free(&waiter->text[1].text);
    json_decref(waiter->exited);
}

static const struct wait_kind log_kind = {
    .op = "processStream",
    .size = sizeof(struct log_waiter),
    .event = log_event,
    .look = log_look,
    .hint = log_hint,
    .release = log_release,
};

void wait_for_log(struct object *object, struct call *call)
{
    struct error err = {0};
    struct pattern *pattern = pattern_new(json_object_get(call->args, "pattern"), &err);
    if (!pattern) {
        call_error(call, CODE_VALIDATION_FAILED, NULL,
                   json_pack("{s:[{s:s,s:s,s:s}]}", "validationErrors", "field", "pattern",
                             "message", err.text, "code", "INVALID_PATTERN"),
                   "%s", err.text);
        return;
    }
    struct log_waiter *waiter = waiter_new(&log_kind, object, call, strdup(pattern_shown(pattern)));
    if (!waiter) {
        pattern_free(pattern);
        return;
    }
    waiter->pattern = pattern;
    waiter->text[0] = waiter->text[1] = PATTERN_TEXT_INIT;
    waiter_read(&waiter->waiter, process_args(&waiter->waiter));
}

/* waitForPort. */

struct port_waiter {
    struct waiter waiter;
    json_t *options; /* the call's arguments */
};

static enum wait_next port_event(struct waiter *waiter, const char *type, const json_t *event)
{
    if (is(type, "ready"))
        return waiter_result(waiter, json_pack("{s:b}", "success", 1));
    if (is(type, "process_exited"))
        return waiter_exited(waiter, json_object_get(event, "exitCode"));
    if (is(type, "error"))
        return waiter_error(waiter, CODE_PLAIN_ERROR, NULL, "%s",
                            json_string_value(json_object_get(event, "error")));
    return WAIT_ON;
}

static void port_release(struct waiter *waiter)
{
    json_decref(((struct port_waiter *)waiter)->options);
}

static const struct wait_kind port_kind = {
    .op = "portWatch",
    .size = sizeof(struct port_waiter),
    .event = port_event,
    .release = port_release,
};

/* A number, or {min, max} where each may be missing. */
static void add_status(json_t *args, json_t *status)
{
    bool number = json_is_number(status);
    json_t *min = number ? status : json_object_get(status, "min");
    json_t *max = number ? status : json_object_get(status, "max");
    if (json_is_number(min))
        json_object_set(args, "statusMin", min);
    if (json_is_number(max))
        json_object_set(args, "statusMax", max);
}

/* The process is known: the container does the rest. */
static void port_found(struct call *call, struct answer *answer)
{
    struct port_waiter *waiter = (struct port_waiter *)waiter_answered(call, answer);
    if (!waiter)
        return;
    const json_t *process = json_object_get(answer->body, "process");
    const json_t *options = waiter->options;
    waiter->waiter.command = json_incref(json_object_get(process, "command"));
    json_t *args = json_pack(
        "{s:O?,s:O?,s:O*,s:O*,s:O*}", "port", json_object_get(options, "port"), "processId",
        waiter->waiter.process, "mode", json_object_get(options, "mode"), "path",
        json_object_get(options, "path"), "interval", json_object_get(options, "interval"));
    add_status(args, json_object_get(options, "status"));
    waiter_read(&waiter->waiter, args);
}

static char *port_condition(double port, const json_t *args)
{
    char *text = NULL;
    const char *mode = json_string_value(json_object_get(args, "mode"));
    const char *path = json_string_value(json_object_get(args, "path"));
    int size = mode && strcmp(mode, "tcp") == 0
                   ? asprintf(&text, "port %.0f (TCP)", port)
                   : asprintf(&text, "port %.0f (HTTP %s)", port, path ? path : "/");
    return size < 0 ? NULL : text;
}

void wait_for_port(struct object *object, struct call *call)
{
    double port = json_number_value(json_object_get(call->args, "port"));
    if (!(port >= 1 && port <= 65535 && port == (int)port)) {
        static const char why[] = "A port is a whole number from 1 to 65535";
        call_error(call, CODE_VALIDATION_FAILED, NULL,
                   json_pack("{s:[{s:s,s:s,s:s}]}", "validationErrors", "field", "port", "message",
                             why, "code", "INVALID_PORT"),
                   "%s", why);
        return;
    }
    struct port_waiter *waiter =
        waiter_new(&port_kind, object, call, port_condition(port, call->args));
    if (!waiter)
        return;
    waiter->options = json_incref((json_t *)call->args);
    expose_note(object, (int)port, "waitForPort"); /* which looks from the inside */
    waiter_call(&waiter->waiter, "processGet", process_args(&waiter->waiter), port_found);
}
