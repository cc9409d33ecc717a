#include "control/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "base/jsonstr.h"
#include "base/percent.h"
#include "control/faults.h"
#include "control/feeds.h"

#define PREFIX "/cdn-cgi/local"

struct control {
    struct control_config config;
    uint16_t port;
    uint64_t advanced; /* the last event when the last advance was over */
    struct later *laters;
};

/* A request whose answer comes later; `request` is NULL once the client has left. */
struct later {
    struct control *control;
    struct http_request *request;
    uint64_t after; /* the last event before an advance */
    struct call call;
    json_t *args;
    struct later *next, *previous;
};

struct control *control_new(const struct control_config *config)
{
    struct control *control = calloc(1, sizeof *control);
    if (control)
        control->config = *config;
    return control;
}

static void later_free(struct later *later)
{
    *(later->previous ? &later->previous->next : &later->control->laters) = later->next;
    if (later->next)
        later->next->previous = later->previous;
    json_decref(later->args);
    free(later);
}

/* What the end of the emulator has overtaken is never answered. */
void control_free(struct control *control)
{
    while (control && control->laters)
        later_free(control->laters);
    free(control);
}

void control_set_port(struct control *control, uint16_t port)
{
    control->port = port;
}

static void later_gone(void *arg)
{
    struct later *later = arg;
    later->request = NULL;
}

static struct later *later_new(struct control *control, struct http_request *request)
{
    struct later *later = calloc(1, sizeof *later);
    if (!later) {
        http_reply_error(request, 500, "INTERNAL_ERROR", NULL, "out of memory");
        return NULL;
    }
    later->control = control;
    later->request = request;
    later->next = control->laters;
    if (later->next)
        later->next->previous = later;
    control->laters = later;
    http_on_gone(request, later_gone, later);
    return later;
}

/* Alive, ready, information. */

static void health(struct control *control, struct http_request *request, const char *id)
{
    http_reply_json(request, 200, json_pack("{s:s}", "status", "ok"));
}

static void ready(struct control *control, struct http_request *request, const char *id)
{
    http_reply_json(request, 200, json_pack("{s:b}", "ready", 1));
}

static void info(struct control *control, struct http_request *request, const char *id)
{
    const struct control_config *config = &control->config;
    http_reply_json(request, 200,
                    json_pack("{s:s, s:s, s:s, s:i, s:i, s:s}", "version", SANDPIT_VERSION,
                              "sdkVersion", config->sdk_version, "driver", config->driver, "pid",
                              (int)getpid(), "port", (int)control->port, "stateDirectory",
                              config->state_dir));
}

/* Sandboxes. */

static void list_sandboxes(struct control *control, struct http_request *request, const char *id)
{
    http_reply_json(request, 200,
                    json_pack("{s:o}", "sandboxes", objects_describe(control->config.objects)));
}

static struct object *find(struct control *control, struct http_request *request, const char *id)
{
    struct object *object = objects_find(control->config.objects, http_query(request, "class"), id);
    if (!object)
        http_reply_error(request, 404, "SANDBOX_NOT_FOUND",
                         "`sandpit ps` lists the sandboxes; ?class= names another class",
                         "there is no sandbox '%s'", id);
    return object;
}

static void one_sandbox(struct control *control, struct http_request *request, const char *id)
{
    struct object *object = find(control, request, id);
    if (object)
        http_reply_json(request, 200, object_describe(object));
}

static void lifecycle_done(struct call *call, struct answer *answer)
{
    struct later *later = call->arg;
    if (later->request && answer->code == CODE_OK)
        http_reply_json(later->request, 200, json_incref(answer->body));
    else if (later->request)
        http_reply_error(later->request, code_row(answer->code)->status,
                         code_row(answer->code)->name, NULL, "%s", answer->message);
    later_free(later);
}

static void lifecycle(struct control *control, struct http_request *request, const char *id,
                      const char *method)
{
    struct object *object = find(control, request, id);
    struct later *later = object ? later_new(control, request) : NULL;
    if (!later)
        return;
    later->args = json_object();
    later->call = (struct call){.args = later->args, .done = lifecycle_done, .arg = later};
    object_method_call(object, object_method(method), &later->call);
}

static void stop(struct control *control, struct http_request *request, const char *id)
{
    lifecycle(control, request, id, "stop");
}

static void destroy(struct control *control, struct http_request *request, const char *id)
{
    lifecycle(control, request, id, "destroy");
}

static void replace(struct control *control, struct http_request *request, const char *id)
{
    lifecycle(control, request, id, "replace");
}

static void reset_done(void *arg, const struct error *err)
{
    struct later *later = arg;
    struct error buckets = {0};
    if (!err && later->control->config.buckets &&
        buckets_clear(later->control->config.buckets, &buckets) < 0)
        err = &buckets;
    if (later->request && err)
        http_reply_error(later->request, 500, "INTERNAL_ERROR",
                         "the containers are gone; what is stored was kept", "%s", err->text);
    else if (later->request)
        http_reply_json(later->request, 200, json_pack("{s:b}", "success", 1));
    later_free(later);
}

static void reset(struct control *control, struct http_request *request, const char *id)
{
    struct later *later = later_new(control, request);
    if (later)
        objects_reset(control->config.objects, reset_done, later);
}

/* The clock. */

static void show_clock(struct control *control, struct http_request *request, const char *id)
{
    http_reply_json(request, 200, clock_describe(control->config.clock));
}

/* The sandboxes that are on their way from one state to another. */
static json_t *unsettled(struct objects *objects)
{
    json_t *pending = json_array();
    CLEANUP_JSON json_t *list = objects_describe(objects);
    size_t index;
    json_t *one;
    json_array_foreach(list, index, one)
    {
        const char *state = json_string_value(json_object_get(one, "state"));
        if (strcmp(state, "stopping") == 0 || strcmp(state, "running") == 0)
            json_array_append(pending, json_object_get(one, "id"));
    }
    return pending;
}

static void advanced(void *arg, bool settled, int error)
{
    struct later *later = arg;
    struct control *control = later->control;
    struct events *events = objects_events(control->config.objects);
    /* One that queued behind another does not tell what that one caused. */
    uint64_t after = later->after > control->advanced ? later->after : control->advanced;
    control->advanced = events_last(events);
    if (later->request && error == -E2BIG) {
        http_reply_error(later->request, 409, "TOO_MANY_TIMERS", "advance in smaller steps",
                         "more than 100,000 timers were due");
    } else if (later->request) {
        json_t *answer = json_pack("{s:o, s:b, s:o}", "now", clock_timestamp(control->config.clock),
                                   "settled", settled, "events", events_after(events, after));
        if (!settled)
            json_object_set_new(answer, "pending", unsettled(control->config.objects));
        http_reply_json(later->request, 200, answer);
    }
    later_free(later);
}

static void bad_advance(struct http_request *request, const char *what)
{
    http_reply_error(request, 400, "INVALID_TIME",
                     "{\"by\": \"10m\"} with units d, h, m, s, ms, or {\"to\": "
                     "\"2027-01-01T00:00:00Z\"}; the clock never goes back",
                     "%s", what);
}

static int start_advance(struct later *later, const json_t *body, struct error *err)
{
    struct clock *clock = later->control->config.clock;
    const char *by = json_string_value(json_object_get(body, "by"));
    const char *to = json_string_value(json_object_get(body, "to"));
    if (json_object_size(body) != 1 || (!by && !to))
        return error_set(err, EINVAL, "advance takes exactly one of \"by\" and \"to\", a string");
    if (by) {
        int64_t ms = clock_parse_duration(by);
        if (ms < 0)
            return error_set(err, EINVAL, "\"%.40s\" is %s", by,
                             ms == -ERANGE ? "more than a hundred years" : "not a duration");
        return clock_advance_by(clock, ms, advanced, later, err);
    }
    int64_t ms = clock_parse_time(to);
    if (ms < 0)
        return error_set(err, EINVAL, "\"%.40s\" is not an ISO 8601 time", to);
    return clock_advance_to(clock, ms, advanced, later, err);
}

static void advance(struct control *control, struct http_request *request, const char *id)
{
    json_error_t where;
    const struct buf *text = http_body(request);
    CLEANUP_JSON json_t *body = heap_load_json(buf_text(text), text->size, 0, &where);
    if (!body) {
        http_reply_error(request, 400, "INVALID_JSON", "send {\"by\": \"10m\"}",
                         "the body is not JSON: %s (line %d, column %d)", where.text, where.line,
                         where.column);
        return;
    }
    struct error err = {0};
    struct later *later = later_new(control, request);
    if (!later)
        return;
    later->after = events_last(objects_events(control->config.objects));
    if (start_advance(later, body, &err) < 0) {
        bad_advance(request, err.text);
        later_free(later);
    }
}

static void next(struct control *control, struct http_request *request, const char *id)
{
    struct error err = {0};
    struct later *later = later_new(control, request);
    if (!later)
        return;
    later->after = events_last(objects_events(control->config.objects));
    if (clock_advance_next(control->config.clock, advanced, later, &err) < 0) {
        http_reply_error(request, 409, "NO_TIMER",
                         "a timer is pending once a sandbox runs (and is not kept alive)", "%s",
                         err.text);
        later_free(later);
    }
}

static void freeze(struct control *control, struct http_request *request, const char *id)
{
    clock_freeze(control->config.clock);
    show_clock(control, request, id);
}

static void resume(struct control *control, struct http_request *request, const char *id)
{
    clock_resume(control->config.clock);
    show_clock(control, request, id);
}

static void report(struct control *control, struct http_request *request, const char *id)
{
    http_reply_json(request, 200, objects_report(control->config.objects));
}

/* What happened, and what sandboxes say. */

static void events(struct control *control, struct http_request *request, const char *id)
{
    feeds_events(request, control->config.objects, control->config.clock);
}

static void logs(struct control *control, struct http_request *request, const char *id)
{
    struct object *object = find(control, request, id);
    if (object)
        feeds_logs(request, object, control->config.clock);
}

static void why(struct control *control, struct http_request *request, const char *id)
{
    struct object *object = find(control, request, id);
    if (object)
        http_reply_json(request, 200, object_why(object));
}

/* What goes wrong. */

static void show_faults(struct control *control, struct http_request *request, const char *id)
{
    faults_show(request, control->config.objects);
}

static void add_fault(struct control *control, struct http_request *request, const char *id)
{
    faults_order(request, control->config.objects);
}

static void clear_faults(struct control *control, struct http_request *request, const char *id)
{
    faults_take_back(request, control->config.objects, NULL);
}

static void remove_fault(struct control *control, struct http_request *request, const char *id)
{
    faults_take_back(request, control->config.objects, id);
}

/* `*` stands for one segment, the id of a sandbox or a fault. */
static const struct row {
    const char *method;
    const char *path;
    void (*run)(struct control *control, struct http_request *request, const char *id);
    const char *what;
} rows[] = {
    {"GET", "/health", health, "`{status}`: the process is alive"},
    {"GET", "/ready", ready, "`{ready}`: a request would be served"},
    {"GET", "/info", info, "`{version, sdkVersion, driver, pid, port, stateDirectory}`"},
    {"GET", "/sandboxes", list_sandboxes, "`{sandboxes: […]}`, each as below"},
    {"GET", "/sandboxes/*", one_sandbox,
     "`{id, class, state, since, why, sleepAt, sleepAfterMs, inflight, lastActivity, keepAlive, "
     "sessions, processes, ports, network, containerUrl, limits, oomKills, location, "
     "labels, containerTimeouts}`; `?class=` names another "
     "class than the default"},
    {"POST", "/sandboxes/*/stop", stop,
     "ends the container (TERM, KILL after 10 s or `--stop-grace`) and answers when it is gone; "
     "the "
     "next call starts a fresh one"},
    {"POST", "/sandboxes/*/destroy", destroy, "ends it at once and answers when it is gone"},
    {"POST", "/sandboxes/*/replace", replace,
     "the platform swaps the container: calls in flight get 409 `OPERATION_INTERRUPTED`, the next "
     "one a fresh container; answers when the old one is gone"},
    {"GET", "/sandboxes/*/why", why,
     "`{id, class, why, last, now, wouldHaveKept}`: the life before this one and this one: "
     "`{number, "
     "runtime, startedAt, startedBy, did, lastCallAt, lastCommand, end, endedAt, why, lost, "
     "lostMore, lostIsAll}`"},
    {"GET", "/sandboxes/*/logs", logs,
     "what its commands and processes wrote, one JSON object in each line: `{seq, at, source, "
     "stream, text}`; `?after=seq`, `?source=name`, `?since=10m`, `?follow=1`"},
    {"GET", "/clock", show_clock, "`{now, mode, offsetMs, pending: [{at, sandbox, kind}]}`"},
    {"POST", "/clock/advance", advance,
     "`{\"by\": \"10m\"}` or `{\"to\": \"2027-01-01T00:00:00Z\"}`: fires what is due on the way, "
     "waits until it is over, answers `{now, settled, events}`; never goes back"},
    {"POST", "/clock/next", next, "advances to the next pending timer"},
    {"POST", "/clock/freeze", freeze, "stops the clock; advancing still works"},
    {"POST", "/clock/resume", resume, "lets it run again"},
    {"GET", "/events", events,
     "the last 10,000 events, one JSON object in each line: `{v, seq, at, real, sandbox, runtime, "
     "type, reason, data}`; `?after=seq`, `?sandbox=id`, `?type=prefix`, `?since=10m`; "
     "`?follow=1`: "
     "the same as server-sent events, and then those that come ([events.md](events.md))"},
    {"GET", "/report", report,
     "`{now, clean, sandboxes, processes, ports, leaks: [{id, class, state, since, why, keepAlive, "
     "processes, ports}], usage, prices}`: the sandboxes that were used and never destroyed, and "
     "what "
     "all containers would have cost ([testing.md](testing.md#the-report))"},
    {"GET", "/faults", show_faults,
     "`{faults: [{id, on, do, times?, sandbox?, ms?, exitCode?, fired}]}`; `times` is what is "
     "left"},
    {"POST", "/faults", add_fault,
     "`{on: start, exec, port or write, do: no-instance, max-instances, crash, oom, replace, "
     "delay, "
     "refuse or enospc, times?, sandbox?, ms?, exitCode?}` → `{id}`; without `times` until it is "
     "removed ([faults.md](faults.md))"},
    {"DELETE", "/faults", clear_faults, "removes all: `{removed}`"},
    {"DELETE", "/faults/*", remove_fault, "removes one: `{removed}`"},
    {"POST", "/reset", reset, "destroys every sandbox and all storage, clock back to real time"},
};

int control_markdown(struct buf *to)
{
    int result = buf_adds(to, "| call | does |\n|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows && result >= 0; i++) {
        const char *star = strchr(rows[i].path, '*');
        int before = star ? (int)(star - rows[i].path) : (int)strlen(rows[i].path);
        result = buf_addf(to, "| `%s " PREFIX "%.*s%s%s` | %s |\n", rows[i].method, before,
                          rows[i].path, star ? "{id}" : "", star ? star + 1 : "", rows[i].what);
    }
    return result;
}

/* Whether the path is the row's; the segment at `*` goes to *id and *id_size. */
static bool matches(const char *pattern, const char *path, const char **id, size_t *id_size)
{
    const char *star = strchr(pattern, '*');
    if (!star)
        return strcmp(pattern, path) == 0;
    size_t before = (size_t)(star - pattern);
    if (strncmp(pattern, path, before) != 0)
        return false;
    *id = path + before;
    *id_size = strcspn(*id, "/");
    return *id_size > 0 && strcmp(star + 1, *id + *id_size) == 0;
}

void control_handle(void *arg, struct http_request *request)
{
    struct control *control = arg;
    const char *path = http_path(request) + strlen(PREFIX);
    char allowed[64] = ""; /* the methods that the path has */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *segment = "";
        size_t size = 0;
        if (!matches(rows[i].path, path, &segment, &size))
            continue;
        if (strcmp(rows[i].method, http_method(request)) != 0) {
            size_t used = strlen(allowed);
            snprintf(allowed + used, sizeof allowed - used, "%s%s", used ? ", " : "",
                     rows[i].method);
            continue;
        }
        char id[256];
        if (percent_decode(segment, size, id, sizeof id) < 0) {
            http_reply_error(request, 400, "INVALID_ID", NULL, "the sandbox id cannot be decoded");
            return;
        }
        rows[i].run(control, request, id);
        return;
    }
    if (*allowed) {
        http_set_header(request, "Allow", allowed);
        http_reply_error(request, 405, "METHOD_NOT_ALLOWED", NULL, "use %s for this path", allowed);
    } else {
        http_reply_error(request, 404, "ROUTE_NOT_FOUND", "docs/api.md lists the control API",
                         "Not found: %.200s", http_path(request));
    }
}

/* The page. */

extern const char control_page_start[], control_page_end[];

void control_page(void *arg, struct http_request *request)
{
    size_t size = (size_t)(control_page_end - control_page_start);
    char *copy = malloc(size);
    if (!copy) {
        http_reply_error(request, 500, "INTERNAL_ERROR", NULL, "out of memory");
        return;
    }
    memcpy(copy, control_page_start, size);
    http_set_header(request, "X-Frame-Options", "DENY");
    http_set_header(request, "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                    "connect-src 'self'; img-src data:; frame-ancestors 'none'");
    http_set_header(request, "Cache-Control", "no-store");
    http_reply_bytes(request, 200, "text/html; charset=utf-8", copy, size);
}
