#include "objects/lives.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "objects/hints.h"
#include "objects/internal.h"
#include "objects/logs.h"

enum { SESSIONS_MAX = 1000, COMMAND_SHOWN = 200, LOST_SHOWN = 20 };

static const struct {
    const char *op;
    enum life_count count;
} counted[] = {
    {"execute", LIFE_EXECS},     {"executeStream", LIFE_EXECS}, {"processStart", LIFE_PROCESSES},
    {"executeCode", LIFE_CODE},  {"gitCheckout", LIFE_CLONES},  {"read", LIFE_FILES},
    {"readStream", LIFE_FILES},  {"readRaw", LIFE_FILES},       {"write", LIFE_FILES},
    {"writeStream", LIFE_FILES}, {"delete", LIFE_FILES},        {"rename", LIFE_FILES},
    {"move", LIFE_FILES},        {"mkdir", LIFE_FILES},         {"listFiles", LIFE_FILES},
    {"exists", LIFE_FILES},
};

static const char *const count_names[LIFE_COUNTS] = {
    [LIFE_EXECS] = "execs",   [LIFE_FILES] = "fileCalls", [LIFE_PROCESSES] = "processes",
    [LIFE_CODE] = "codeRuns", [LIFE_CLONES] = "clones",
};

static const struct {
    const char *name, *phrase;
} ends[] = {
    [LIFE_RUNS] = {"running", "runs"},           [LIFE_SLEPT] = {"slept", "slept"},
    [LIFE_STOPPED] = {"stopped", "was stopped"}, [LIFE_DESTROYED] = {"destroyed", "was destroyed"},
    [LIFE_REPLACED] = {"replaced", "was replaced"},
    [LIFE_CRASHED] = {"crashed", "crashed"},     [LIFE_FAILED] = {"failed", "failed to start"},
};

const char *life_end_phrase(enum life_end end)
{
    return ends[end].phrase;
}

static void life_clear(struct life *life)
{
    json_decref(life->sessions);
    json_decref(life->made);
    json_decref(life->recreated);
    written_free(&life->written);
    *life = (struct life){0};
}

void lives_free(struct object *object)
{
    logs_free(object->logs);
    object->logs = NULL;
    if (!object->life)
        return;
    life_clear(&object->life->now);
    life_clear(&object->life->last);
    free(object->life);
    object->life = NULL;
}

const struct life *life_before(const struct object *object)
{
    return object->life && object->life->last.number ? &object->life->last : NULL;
}

struct logs *object_logs(struct object *object)
{
    if (!object->logs)
        object->logs = logs_new(object->objects->clock);
    return object->logs;
}

int object_logs_write(struct object *object, const struct feed_filter *filter, struct buf *to)
{
    return object_logs(object) ? logs_write(object->logs, filter, to) : -ENOMEM;
}

struct stream *object_logs_follow(struct object *object, const struct feed_filter *filter)
{
    return object_logs(object) ? logs_follow(object->logs, filter) : NULL;
}

static void log_text(struct object *object, const char *source, const char *stream,
                     const char *text)
{
    struct logs *logs = object_logs(object);
    if (logs)
        logs_line(logs, source, stream, text, strlen(text));
}

void life_begin(struct object *object)
{
    if (!object->life)
        object->life = calloc(1, sizeof *object->life);
    if (object_logs(object))
        logs_begin(object->logs);
    char text[160];
    snprintf(text, sizeof text, "the container starts, for %s", object->last_what);
    log_text(object, "container", "info", text);
    if (!object->life)
        return;
    struct life *life = &object->life->now;
    life_clear(life);
    *life = (struct life){.number = object->lives,
                          .started_ms = clock_now_ms(object->objects->clock),
                          .started_by = object->last_what,
                          .sessions = json_object(),
                          .made = json_object(),
                          .recreated = json_object()};
    snprintf(life->runtime, sizeof life->runtime, "%s", object->runtime);
}

static void remember_id(json_t *set, const json_t *id)
{
    if (json_is_string(id) && json_object_size(set) < SESSIONS_MAX)
        json_object_set(set, json_string_value(id), json_true());
}

static bool has_id(const json_t *set, const json_t *id)
{
    return json_is_string(id) && json_object_get(set, json_string_value(id));
}

void life_call(struct pending *pending)
{
    pending->started_ns = loop_now_ns();
    if (!pending->object->life)
        return;
    struct life *life = &pending->object->life->now;
    const char *name = pending->op->name;
    const json_t *args = pending->inner.args;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        if (strcmp(counted[i].op, name) == 0) {
            life->counts[counted[i].count]++;
            break;
        }
    }
    const char *command = json_string_value(json_object_get(args, "command"));
    snprintf(life->last_command, sizeof life->last_command, "%s", command ? command : "");
    life->last_ms = clock_now_ms(pending->object->objects->clock);
    if (strcmp(name, "sessionCreate") == 0)
        remember_id(life->made, json_object_get(args, "id"));
}

/* One line for each command: how it ended, or that it began. */
static void log_command(struct pending *pending, const struct answer *answer)
{
    const char *command = json_string_value(json_object_get(pending->inner.args, "command"));
    const json_t *status = json_object_get(answer->body, "exitCode");
    const char *process = json_string_value(json_object_get(answer->body, "processId"));
    struct logs *logs = command ? object_logs(pending->object) : NULL;
    if (!logs)
        return;
    char text[COMMAND_SHOWN + 64], end[48];
    if (answer->code != CODE_OK)
        snprintf(end, sizeof end, "%s", code_row(answer->code)->name);
    else if (json_is_integer(status))
        snprintf(end, sizeof end, "exit %lld", (long long)json_integer_value(status));
    else
        snprintf(end, sizeof end, "started");
    size_t shown = strnlen(command, COMMAND_SHOWN);
    int size = snprintf(text, sizeof text, "$ %.*s%s  (%s, %lldms)", (int)shown, command,
                        command[shown] ? "…" : "", end,
                        (long long)((loop_now_ns() - pending->started_ns) / 1000000));
    if (size > 0)
        logs_line(logs, process ? process : "exec", "info", text,
                  (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

static void log_process_end(struct object *object, const json_t *data)
{
    const char *id = json_string_value(json_object_get(data, "processId"));
    const char *status = json_string_value(json_object_get(data, "status"));
    const json_t *code = json_object_get(data, "exitCode");
    char text[96];
    if (json_is_integer(code))
        snprintf(text, sizeof text, "ended: %s, exit %lld", status ? status : "",
                 (long long)json_integer_value(code));
    else
        snprintf(text, sizeof text, "ended: %s", status ? status : "");
    if (id)
        log_text(object, id, "info", text);
}

void life_answered(struct pending *pending, struct answer *answer)
{
    log_command(pending, answer);
    hints_answer(pending, answer);
}

void life_note(struct object *object, const char *type, const json_t *data)
{
    const json_t *id = json_object_get(data, "sessionId");
    if (strcmp(type, "process.exited") == 0)
        log_process_end(object, data);
    if (!object->life || strcmp(type, "session.created") != 0)
        return;
    struct life *life = &object->life->now;
    bool first = !has_id(life->sessions, id);
    remember_id(life->sessions, id);
    if (first && !has_id(life->made, id) && has_id(object->life->last.sessions, id) &&
        hints_session_recreated(object, json_string_value(id)))
        remember_id(life->recreated, id);
}

void life_output(struct object *object, const char *source, const char *stream, const char *data,
                 size_t size)
{
    struct logs *logs = object_logs(object);
    if (logs)
        logs_output(logs, source, stream, data, size);
}

void life_left(struct object *object, struct written *written)
{
    if (!object->life)
        return;
    object->life->now.written = *written;
    *written = (struct written){0};
}

void life_over(struct object *object, enum life_end end)
{
    char text[200];
    snprintf(text, sizeof text, "the container is gone: %.150s", object->why);
    log_text(object, "container", "info", text);
    if (!object->life || !object->life->now.number)
        return;
    struct life *life = &object->life->now;
    life->end = end;
    life->kills = object->kills;
    life->ended_ms = clock_now_ms(object->objects->clock);
    snprintf(life->why, sizeof life->why, "%s", object->why);
    life_clear(&object->life->last);
    object->life->last = *life;
    *life = (struct life){0};
}

/* What the control API tells. */

static json_t *time_text(int64_t ms)
{
    char text[25];
    clock_format(ms, text);
    return json_string(text);
}

/* The first files, and how many more there were. Names need not be UTF-8. */
static void describe_lost(json_t *to, const struct written *written)
{
    json_t *list = json_array();
    for (const char *at = NULL;
         json_array_size(list) < LOST_SHOWN && (at = written_next(written, at));) {
        if (at[strlen(at) - 1] != '/')
            json_array_append_new(list, hints_text(at));
    }
    json_int_t more = (json_int_t)written->files - (json_int_t)json_array_size(list);
    json_object_set_new(to, "lost", list);
    json_object_set_new(to, "lostMore", json_integer(more));
    json_object_set_new(to, "lostIsAll", json_boolean(!written->cut));
}

static json_t *describe_life(const struct life *life)
{
    json_t *did = json_object();
    for (int i = 0; i < LIFE_COUNTS; i++)
        json_object_set_new(did, count_names[i], json_integer(life->counts[i]));
    json_object_set_new(did, "sessions",
                        json_integer((json_int_t)json_object_size(life->sessions)));
    json_t *described = json_pack("{s:i, s:s, s:o, s:s, s:o}", "number", life->number, "runtime",
                                  life->runtime, "startedAt", time_text(life->started_ms),
                                  "startedBy", life->started_by, "did", did);
    if (life->last_ms)
        json_object_set_new(described, "lastCallAt", time_text(life->last_ms));
    if (*life->last_command)
        json_object_set_new(described, "lastCommand", hints_text(life->last_command));
    json_object_set_new(described, "end", json_string(ends[life->end].name));
    if (life->end == LIFE_RUNS)
        return described;
    json_object_set_new(described, "endedAt", time_text(life->ended_ms));
    json_object_set_new(described, "why", hints_text(life->why));
    describe_lost(described, &life->written);
    return described;
}

/* What would have kept the files, by how the life ended. */
static json_t *advice(const struct object *object, const struct life *life)
{
    static const char *const bucket = "keep what must outlive a container in a bucket (R2), and "
                                      "fetch it when the next one starts";
    int64_t seconds = object->sleep_after_ms / 1000;
    bool minutes = seconds >= 60 && seconds % 60 == 0;
    json_t *list = json_array();
    if (life->end == LIFE_SLEPT) {
        json_array_append_new(list, json_string("keepAlive: true (and destroy() when done)"));
        json_array_append_new(list, json_sprintf("a longer sleepAfter than %lld%s",
                                                 (long long)(minutes ? seconds / 60 : seconds),
                                                 minutes ? "m" : "s"));
    }
    if (life->end == LIFE_CRASHED && life->kills)
        json_array_append_new(list, json_string("more memory: a larger instance_type"));
    json_array_append_new(list, json_string(bucket));
    return list;
}

json_t *object_why(struct object *object)
{
    const struct life *last = life_before(object);
    const struct life *now = object->life && object->life->now.number ? &object->life->now : NULL;
    json_t *described = json_pack("{s:s, s:s, s:o}", "id", object->id, "class", object->class->name,
                                  "why", hints_text(object->why));
    json_object_set_new(described, "last", last ? describe_life(last) : json_null());
    json_object_set_new(described, "now", now ? describe_life(now) : json_null());
    json_object_set_new(described, "wouldHaveKept", last ? advice(object, last) : json_array());
    return described;
}
