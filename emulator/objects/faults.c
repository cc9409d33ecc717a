#include "objects/faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/journal.h"
#include "objects/internal.h"

enum { TIMES_MAX = 1000000, MS_MAX = 86400000, EXIT_CODE_MAX = 255 };

#define ON(WHAT) (1U << (WHAT))
#define CALLS (ON(FAULT_EXEC) | ON(FAULT_PORT) | ON(FAULT_WRITE))

static const char *const on_names[FAULT_ONS] = {
    [FAULT_START] = "start",
    [FAULT_EXEC] = "exec",
    [FAULT_PORT] = "port",
    [FAULT_WRITE] = "write",
};

/* Where each may strike, and which members it takes. */
static const struct {
    const char *name;
    unsigned where;
    bool ms, exit_code;
} does[FAULT_DOES] = {
    [FAULT_NONE] = {"", 0, false, false},
    [FAULT_NO_INSTANCE] = {"no-instance", ON(FAULT_START), false, false},
    [FAULT_MAX_INSTANCES] = {"max-instances", ON(FAULT_START), false, false},
    [FAULT_CRASH] = {"crash", ON(FAULT_START) | CALLS, true, true},
    [FAULT_OOM] = {"oom", ON(FAULT_START) | CALLS, true, false},
    [FAULT_REPLACE] = {"replace", CALLS, true, false},
    [FAULT_DELAY] = {"delay", ON(FAULT_START) | CALLS, true, false},
    [FAULT_REFUSE] = {"refuse", ON(FAULT_START) | ON(FAULT_PORT), false, false},
    [FAULT_ENOSPC] = {"enospc", ON(FAULT_WRITE), false, false},
};

static const struct {
    const char *op;
    enum fault_on on;
} kinds[] = {
    {"execute", FAULT_EXEC},     {"executeStream", FAULT_EXEC}, {"processStart", FAULT_EXEC},
    {"executeCode", FAULT_EXEC}, {"gitCheckout", FAULT_EXEC},   {"connect", FAULT_PORT},
    {"write", FAULT_WRITE},      {"writeStream", FAULT_WRITE},
};

const char *fault_on_name(enum fault_on on)
{
    return on_names[on];
}

const char *fault_do_name(enum fault_do what)
{
    return does[what].name;
}

bool fault_allowed(enum fault_on on, enum fault_do what)
{
    return does[what].where & ON(on);
}

enum fault_on fault_kind(const struct op *op)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].op, op->name) == 0)
            return kinds[i].on;
    }
    return FAULT_ONS;
}

/* Reading an order. */

static enum fault_on on_of(const char *name)
{
    int on = 0;
    while (name && on < FAULT_ONS && strcmp(on_names[on], name) != 0)
        on++;
    return name ? (enum fault_on)on : FAULT_ONS;
}

static enum fault_do do_of(const char *name)
{
    int what = FAULT_NONE + 1;
    while (name && what < FAULT_DOES && strcmp(does[what].name, name) != 0)
        what++;
    return name && what < FAULT_DOES ? (enum fault_do)what : FAULT_NONE;
}

/* "crash, oom or delay": what may be done on `on`. */
static void list_does(enum fault_on on, char *to, size_t size)
{
    size_t used = 0;
    int left = 0;
    for (int what = FAULT_NONE + 1; what < FAULT_DOES; what++)
        left += fault_allowed(on, (enum fault_do)what);
    for (int what = FAULT_NONE + 1; what < FAULT_DOES && used < size; what++) {
        if (!fault_allowed(on, (enum fault_do)what))
            continue;
        left--;
        const char *after = left > 1 ? ", " : left == 1 ? " or " : "";
        used += (size_t)snprintf(to + used, size - used, "%s%s", does[what].name, after);
    }
}

/* A whole number from `least` to `most`; *to stays when there is none. */
static int take_number(const json_t *wanted, const char *name, long least, long most, long *to,
                       struct error *err)
{
    const json_t *value = json_object_get(wanted, name);
    if (!value)
        return 0;
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < least || number > most)
        return error_set(err, EINVAL, "\"%s\" must be a whole number from %ld to %ld", name, least,
                         most);
    *to = (long)number;
    return 0;
}

static int check_members(const json_t *wanted, struct error *err)
{
    static const char *const known[] = {"on", "do", "times", "sandbox", "ms", "exitCode"};
    const char *name;
    json_t *value;
    if (!json_is_object(wanted))
        return error_set(err, EINVAL,
                         "a fault is an object: {\"on\", \"do\", \"times\"?, "
                         "\"sandbox\"?, \"ms\"?, \"exitCode\"?}");
    json_object_foreach((json_t *)wanted, name, value)
    {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i], name) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            return error_set(err, EINVAL,
                             "\"%.40s\" is no member of a fault: on, do, times, sandbox, ms and "
                             "exitCode are",
                             name);
    }
    return 0;
}

static int take_kind(const json_t *wanted, struct fault *fault, struct error *err)
{
    const char *on = json_string_value(json_object_get(wanted, "on"));
    const char *what = json_string_value(json_object_get(wanted, "do"));
    fault->on = on_of(on);
    if (fault->on == FAULT_ONS)
        return error_set(err, EINVAL, "\"on\" must be start, exec, port or write%s%.40s%s",
                         on ? ", not '" : "", on ? on : "", on ? "'" : "");
    fault->shot.what = do_of(what);
    if (fault->shot.what != FAULT_NONE && fault_allowed(fault->on, fault->shot.what))
        return 0;
    char allowed[128];
    list_does(fault->on, allowed, sizeof allowed);
    return error_set(err, EINVAL, "\"do\" on %s must be %s%s%.40s%s", on, allowed,
                     what ? ", not '" : "", what ? what : "", what ? "'" : "");
}

static int take_numbers(const json_t *wanted, struct fault *fault, struct error *err)
{
    enum fault_do what = fault->shot.what;
    long ms = -1, exit_code = -1;
    fault->left = -1;
    if (take_number(wanted, "times", 1, TIMES_MAX, &fault->left, err) < 0 ||
        take_number(wanted, "ms", 0, MS_MAX, &ms, err) < 0 ||
        take_number(wanted, "exitCode", 0, EXIT_CODE_MAX, &exit_code, err) < 0)
        return -EINVAL;
    if (ms >= 0 && !does[what].ms)
        return error_set(err, EINVAL, "\"ms\" goes with delay, crash, oom and replace, not with %s",
                         does[what].name);
    if (exit_code >= 0 && !does[what].exit_code)
        return error_set(err, EINVAL, "\"exitCode\" goes with crash, not with %s", does[what].name);
    if (ms < 0 && what == FAULT_DELAY)
        return error_set(err, EINVAL, "delay needs \"ms\", how many milliseconds");
    fault->shot.ms = ms < 0 ? 0 : ms;
    fault->shot.exit_code = exit_code < 0 ? 1 : (int)exit_code;
    return 0;
}

static int take_sandbox(const json_t *wanted, struct fault *fault, struct error *err)
{
    const json_t *sandbox = json_object_get(wanted, "sandbox");
    if (!sandbox)
        return 0;
    if (!json_is_string(sandbox) || json_string_length(sandbox) == 0)
        return error_set(err, EINVAL, "\"sandbox\" must be the id of a sandbox");
    fault->sandbox = strdup(json_string_value(sandbox));
    return fault->sandbox ? 0 : error_errno(err, ENOMEM, "fault");
}

/* The list. */

static void id_of(const struct fault *fault, char id[FAULT_ID_SIZE])
{
    snprintf(id, FAULT_ID_SIZE, "fault-%u", fault->number);
}

static void fault_free(struct fault *fault)
{
    free(fault->sandbox);
    free(fault);
}

int faults_add(struct objects *objects, const json_t *wanted, char id[FAULT_ID_SIZE],
               struct error *err)
{
    struct faults *faults = &objects->faults;
    if (faults->count == FAULTS_MAX)
        return error_set(err, E2BIG, "there are %d faults already", FAULTS_MAX);
    struct fault *fault = calloc(1, sizeof *fault);
    if (!fault)
        return error_errno(err, ENOMEM, "fault");
    int result = check_members(wanted, err);
    if (result == 0)
        result = take_kind(wanted, fault, err);
    if (result == 0)
        result = take_numbers(wanted, fault, err);
    if (result == 0)
        result = take_sandbox(wanted, fault, err);
    if (result < 0) {
        fault_free(fault);
        return result;
    }
    fault->number = ++faults->numbers;
    struct fault **last = &faults->first;
    while (*last)
        last = &(*last)->next;
    *last = fault;
    faults->count++;
    id_of(fault, id);
    return 0;
}

json_t *faults_list(const struct objects *objects)
{
    json_t *list = json_array();
    for (const struct fault *fault = objects->faults.first; fault; fault = fault->next) {
        char id[FAULT_ID_SIZE];
        enum fault_do what = fault->shot.what;
        id_of(fault, id);
        json_t *one = json_pack("{s:s, s:s, s:s}", "id", id, "on", on_names[fault->on], "do",
                                does[what].name);
        if (fault->left >= 0)
            json_object_set_new(one, "times", json_integer(fault->left));
        if (fault->sandbox)
            json_object_set_new(one, "sandbox", json_string(fault->sandbox));
        if (does[what].ms)
            json_object_set_new(one, "ms", json_integer(fault->shot.ms));
        if (does[what].exit_code)
            json_object_set_new(one, "exitCode", json_integer(fault->shot.exit_code));
        json_object_set_new(one, "fired", json_integer(fault->fired));
        json_array_append_new(list, one);
    }
    return list;
}

static void take_out(struct faults *faults, struct fault **where)
{
    struct fault *fault = *where;
    *where = fault->next;
    faults->count--;
    fault_free(fault);
}

int faults_remove(struct objects *objects, const char *id)
{
    for (struct fault **at = &objects->faults.first; *at; at = &(*at)->next) {
        char own[FAULT_ID_SIZE];
        id_of(*at, own);
        if (strcmp(own, id) == 0) {
            take_out(&objects->faults, at);
            return 0;
        }
    }
    return -ENOENT;
}

size_t faults_clear(struct objects *objects)
{
    size_t count = objects->faults.count;
    while (objects->faults.first)
        take_out(&objects->faults, &objects->faults.first);
    return count;
}

/* Striking. */

static void tell(struct object *object, const struct fault *fault)
{
    char id[FAULT_ID_SIZE], reason[64];
    id_of(fault, id);
    snprintf(reason, sizeof reason, "%s on %s", does[fault->shot.what].name, on_names[fault->on]);
    json_t *data = json_pack("{s:s, s:s, s:s}", "faultId", id, "on", on_names[fault->on], "do",
                             does[fault->shot.what].name);
    if (fault->left >= 0)
        json_object_set_new(data, "left", json_integer(fault->left));
    journal_note(JOURNAL_FAULT, clock_now_ms(object->objects->clock), object->id, reason);
    object_note(object, "fault.fired", reason, data);
}

static bool fits(const struct fault *fault, const struct object *object, enum fault_on on)
{
    return fault->on == on && (!fault->sandbox || strcmp(fault->sandbox, object->id) == 0);
}

bool object_port_fault(const struct object *object)
{
    const struct fault *at = object->objects->faults.first;
    while (at && !fits(at, object, FAULT_PORT))
        at = at->next;
    return at != NULL;
}

bool fault_draw(struct object *object, enum fault_on on, struct fault_shot *shot)
{
    struct faults *faults = &object->objects->faults;
    for (struct fault **at = &faults->first; *at; at = &(*at)->next) {
        struct fault *fault = *at;
        if (!fits(fault, object, on))
            continue;
        *shot = fault->shot;
        fault->fired++;
        if (fault->left > 0)
            fault->left--;
        tell(object, fault);
        if (fault->left == 0)
            take_out(faults, at);
        return true;
    }
    return false;
}
