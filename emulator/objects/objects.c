/* The registry: a class and an id name one object. */
#include "objects/objects.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/random.h"
#include "objects/hints.h"
#include "objects/internal.h"

static size_t hash(const char *class_name, const char *id)
{
    size_t value = 1469598103934665603u;
    for (const char *at = class_name; *at; at++)
        value = (value ^ (unsigned char)*at) * 1099511628211u;
    value = (value ^ '/') * 1099511628211u;
    for (const char *at = id; *at; at++)
        value = (value ^ (unsigned char)*at) * 1099511628211u;
    return value;
}

static struct object **bucket(struct objects *objects, const char *class_name, const char *id)
{
    return &objects->buckets[hash(class_name, id) & (objects->bucket_count - 1)];
}

static int grow(struct objects *objects)
{
    if (objects->count < objects->bucket_count)
        return 0;
    size_t count = objects->bucket_count ? objects->bucket_count * 2 : 64;
    struct object **buckets = calloc(count, sizeof(struct object *));
    if (!buckets)
        return -ENOMEM;
    free(objects->buckets);
    objects->buckets = buckets;
    objects->bucket_count = count;
    for (struct object *object = objects->first; object; object = object->next) {
        struct object **at = bucket(objects, object->class->name, object->id);
        object->next_in_bucket = *at;
        *at = object;
    }
    return 0;
}

static struct object *add(struct objects *objects, const struct object_class *class, const char *id,
                          const char *secret, int64_t row)
{
    struct object *object = calloc(1, sizeof *object);
    if (!object || grow(objects) < 0) {
        free(object);
        return NULL;
    }
    object->objects = objects;
    object->class = class;
    object->id = strdup(id);
    object->row = row;
    object->sleep_after_ms = objects->config.sleep_after_ms;
    object->last_what = "nothing";
    object->since_ms = clock_now_ms(objects->clock);
    snprintf(object->why, sizeof object->why, "not used yet");
    snprintf(object->secret, sizeof object->secret, "%s", secret);
    if (!object->id || asprintf(&object->session_id, "sandbox-%s", id) < 0) {
        free(object->id);
        free(object);
        return NULL;
    }
    struct object **at = bucket(objects, class->name, id);
    object->next_in_bucket = *at;
    *at = object;
    *objects->last = object;
    objects->last = &object->next;
    objects->count++;
    return object;
}

struct loading {
    struct objects *objects;
    bool failed;
};

static void add_stored(void *arg, int64_t row, const char *class_name, const char *id,
                       const char *secret)
{
    struct loading *loading = arg;
    struct objects *objects = loading->objects;
    const struct object_class *class = objects_class(objects, class_name);
    if (!class) {
        log_debug("stored sandbox %s is of class %s, which this project does not have", id,
                  class_name);
        return;
    }
    if (!add(objects, class, id, secret, row))
        loading->failed = true;
}

/* A sandbox that is stored but not known here could never be made. */
static int load(struct objects *objects, struct error *err)
{
    struct loading loading = {.objects = objects};
    if (grow(objects) < 0)
        return error_errno(err, ENOMEM, "objects");
    int result = store_each(objects->store, add_stored, &loading, err);
    if (result == 0 && loading.failed)
        result = error_errno(err, ENOMEM, "stored sandboxes");
    return result;
}

struct objects *objects_new(struct loop *loop, struct clock *clock, struct driver *driver,
                            struct store *store, const struct objects_config *config,
                            struct error *err)
{
    struct objects *objects = calloc(1, sizeof *objects);
    if (!objects || !(objects->events = events_new(clock))) {
        error_errno(err, ENOMEM, "objects");
        free(objects);
        return NULL;
    }
    objects->loop = loop;
    objects->clock = clock;
    objects->driver = driver;
    objects->store = store;
    objects->config = *config;
    if (!objects->config.ports.rules)
        objects->config.ports.rules = port_rules_of(NULL);
    objects->last = &objects->first;
    int known = objects_set_classes(objects, config->classes, config->class_count);
    if (known < 0)
        error_errno(err, -known, "objects");
    if (known < 0 || load(objects, err) < 0 || preview_hosts_load(objects, err) < 0) {
        objects_free(objects);
        return NULL;
    }
    return objects;
}

static void free_all(struct objects *objects)
{
    struct object *object = objects->first;
    while (object) {
        struct object *next = object->next;
        if (object->inflight)
            object->orphan = true; /* a stream is still open: it frees the object when it closes */
        else
            object_free(object);
        object = next;
    }
    objects->first = NULL;
    objects->last = &objects->first;
    objects->count = 0;
    for (size_t i = 0; i < objects->bucket_count; i++)
        objects->buckets[i] = NULL;
}

void objects_free(struct objects *objects)
{
    if (!objects)
        return;
    free_all(objects);
    preview_hosts_free(objects);
    loop_cancel(objects->loop, &objects->endings_task);
    loop_cancel(objects->loop, &objects->reset_task);
    faults_clear(objects);
    events_free(objects->events);
    free(objects->buckets);
    free(objects->origin);
    classes_free(objects);
    json_decref(objects->expose_told);
    free(objects);
}

struct events *objects_events(struct objects *objects)
{
    return objects->events;
}

void objects_set_origin(struct objects *objects, const char *host_and_port)
{
    free(objects->origin);
    objects->origin = strdup(host_and_port);
}

/* What String.length says: UTF-16 units. */
static size_t javascript_length(const char *text)
{
    size_t units = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        units += (c & 0xc0) != 0x80; /* the first byte of a character */
        units += c >= 0xf0;          /* beyond U+FFFF: two units */
    }
    return units;
}

int object_id_check(const char *id, const char **code, struct error *err)
{
    static const char *const reserved[] = {"www",    "api",        "admin",  "root",
                                           "system", "cloudflare", "workers"};
    size_t length = strlen(id), units = javascript_length(id);
    *code = NULL;
    if (units < 1 || units > 63) {
        *code = "INVALID_SANDBOX_ID_LENGTH";
        return error_set(err, EINVAL, "Sandbox ID must be 1-63 characters long, got %zu", units);
    }
    if (id[0] == '-' || id[length - 1] == '-') {
        *code = "INVALID_SANDBOX_ID_HYPHENS";
        return error_set(err, EINVAL, "Sandbox ID '%s' must not start or end with a hyphen", id);
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (strcasecmp(id, reserved[i]) == 0) {
            *code = "RESERVED_SANDBOX_ID";
            return error_set(err, EINVAL, "Sandbox ID '%s' is reserved", id);
        }
    }
    return 0;
}

struct object *objects_find(struct objects *objects, const char *class_name, const char *id)
{
    const struct object_class *class = objects_class(objects, class_name);
    struct object *object = class ? *bucket(objects, class->name, id) : NULL;
    while (object && (!class_is(object, class) || strcmp(object->id, id) != 0))
        object = object->next_in_bucket;
    return object;
}

struct object *objects_get(struct objects *objects, const char *class_name, const char *id,
                           struct error *err)
{
    const struct object_class *class = objects_class(objects, class_name);
    if (!class) {
        error_set(err, ENOENT, "Class '%s' not found", class_name);
        return NULL;
    }
    struct object *object = objects_find(objects, class->name, id);
    if (object)
        return object;
    char secret[SECRET_LENGTH + 1];
    random_text(secret, SECRET_LENGTH, "abcdefghijklmnopqrstuvwxyz0123456789");
    int64_t row =
        store_create(objects->store, class->name, id, secret, clock_now_ms(objects->clock), err);
    if (row < 0)
        return NULL;
    object = add(objects, class, id, secret, row);
    if (object)
        hints_id(object);
    else
        error_errno(err, ENOMEM, "sandbox '%s'", id);
    return object;
}

const char *object_id(const struct object *object)
{
    return object->id;
}

/* The id as it stands in a host label, or "object{row}" where it cannot. */
static void label_id(const struct object *object, char *to, size_t size)
{
    bool safe = strlen(object->id) <= 63 - strlen("3000--") - SECRET_LENGTH;
    size_t i = 0;
    for (; object->id[i] && i + 1 < size; i++) {
        char c = object->id[i];
        safe = safe && (isalnum((unsigned char)c) || c == '-' || c == '_');
        to[i] = (char)tolower((unsigned char)c);
    }
    to[i] = '\0';
    if (!safe)
        snprintf(to, size, "object%lld", (long long)object->row);
}

/* Compares in a time that does not depend on where the two differ. */
static bool same_secret(const char *a, const char *b)
{
    unsigned char difference = 0;
    for (int i = 0; i < SECRET_LENGTH; i++)
        difference |= (unsigned char)(a[i] ^ b[i]);
    return difference == 0;
}

struct object *objects_by_label(struct objects *objects, const char *label)
{
    size_t length = strlen(label);
    const char *prefix = "3000-";
    if (length < strlen(prefix) + 2 + SECRET_LENGTH || strncmp(label, prefix, strlen(prefix)) != 0)
        return NULL;
    const char *secret = label + length - SECRET_LENGTH;
    if (secret[-1] != '-')
        return NULL;
    const char *id = label + strlen(prefix);
    size_t id_length = (size_t)(secret - 1 - id);
    struct object *found = NULL;
    for (struct object *object = objects->first; object; object = object->next) {
        if (same_secret(object->secret, secret))
            found = object;
    }
    char expected[80];
    if (found)
        label_id(found, expected, sizeof expected);
    if (!found || strlen(expected) != id_length || strncmp(expected, id, id_length) != 0)
        return NULL;
    return found;
}

/* The end of all containers: at exit, and for reset. */

static bool any_container(const struct objects *objects)
{
    for (const struct object *object = objects->first; object; object = object->next) {
        if (object_has_container(object))
            return true;
    }
    return false;
}

void objects_container_gone(struct objects *objects)
{
    if (!objects->empty || any_container(objects))
        return;
    void (*empty)(void *arg) = objects->empty;
    objects->empty = NULL;
    empty(objects->empty_arg);
}

static void end_all(struct objects *objects, const char *why, void (*done)(void *arg), void *arg)
{
    objects->closing = true;
    objects->empty = done;
    objects->empty_arg = arg;
    for (struct object *object = objects->first; object; object = object->next) {
        if (object_has_container(object))
            object_destroy(object, why);
        platform_end(object);
    }
    objects_container_gone(objects);
}

int objects_running(const struct objects *objects)
{
    int count = 0;
    for (const struct object *object = objects->first; object; object = object->next)
        count += object_has_container(object);
    return count;
}

/* Who waits for the reset that is under way. */
struct reset {
    void (*done)(void *arg, const struct error *err);
    void *arg;
    struct reset *next;
};

static void tell_resets(struct objects *objects, const struct error *err)
{
    struct reset *reset = objects->resets;
    objects->resets = NULL;
    while (reset) {
        struct reset *next = reset->next;
        reset->done(reset->arg, err);
        free(reset);
        reset = next;
    }
}

/* Runs from the loop, when no callback of a container or call is on the stack any more. */
static void reset_finish(void *arg)
{
    struct objects *objects = arg;
    struct error err = {0};
    if (clock_advancing(objects->clock)) { /* it would set the clock after us */
        clock_when_settled(objects->clock, &objects->reset_task);
        return;
    }
    int result = store_clear(objects->store, &err);
    objects->closing = false;
    if (result == 0) {
        free_all(objects);
        preview_hosts_free(objects);
        faults_clear(objects);
        objects->faults.numbers = 0;
        clock_reset(objects->clock);
        random_again();
        events_add(objects->events, NULL, NULL, "reset", NULL, NULL);
    }
    tell_resets(objects, result < 0 ? &err : NULL);
}

static void reset_empty(void *arg)
{
    struct objects *objects = arg;
    objects->reset_task = (struct task){.run = reset_finish, .arg = objects};
    clock_when_settled(objects->clock, &objects->reset_task);
}

void objects_shutdown(struct objects *objects, void (*done)(void *arg), void *arg)
{
    struct error err = {0};
    error_set(&err, ECANCELED, "the emulator ends");
    tell_resets(objects, &err);
    end_all(objects, "the emulator ends", done, arg);
}

/* One that comes while another is under way has nothing more to do than to wait for its end. */
void objects_reset(struct objects *objects, void (*done)(void *arg, const struct error *err),
                   void *arg)
{
    bool first = !objects->resets;
    struct reset *reset = calloc(1, sizeof *reset);
    if (!reset || (first && objects->closing)) {
        struct error err = {0};
        error_errno(&err, reset ? EBUSY : ENOMEM, "reset");
        free(reset);
        done(arg, &err);
        return;
    }
    *reset = (struct reset){.done = done, .arg = arg, .next = objects->resets};
    objects->resets = reset;
    if (first)
        end_all(objects, "reset", reset_empty, objects);
}

/* What the control API shows. */

const char *object_state_name(enum object_state state)
{
    switch (state) {
    case OBJECT_NOT_CREATED:
        return "not_created";
    case OBJECT_STARTING:
        return "running";
    case OBJECT_HEALTHY:
        return "healthy";
    case OBJECT_STOPPING:
        return "stopping";
    case OBJECT_STOPPED:
        return "stopped";
    case OBJECT_DESTROYED:
        return "destroyed";
    }
    return "";
}

static json_t *time_or_null(bool there, int64_t ms)
{
    char text[25];
    clock_format(ms, text);
    return there ? json_string(text) : json_null();
}

/* null where there is no limit. */
static json_t *describe_limits(const struct object_class *class)
{
    const struct instance_limits *limits = &class->limits;
    const char *type = *class->instance_type ? class->instance_type : NULL;
    json_t *described =
        json_pack("{s:s?, s:n, s:n, s:n, s:I}", "instanceType", type, "memoryMiB", "cpus", "pids",
                  "diskMiB", (json_int_t)(class->upper_bytes >> 20));
    if (limits->memory_bytes)
        json_object_set_new(described, "memoryMiB",
                            json_integer((json_int_t)(limits->memory_bytes >> 20)));
    if (limits->cpu_millis)
        json_object_set_new(described, "cpus", json_real(limits->cpu_millis / 1000.0));
    if (limits->pids)
        json_object_set_new(described, "pids", json_integer(limits->pids));
    return described;
}

json_t *object_describe(struct object *object)
{
    object_load(object);
    char id[80], url[256] = "";
    label_id(object, id, sizeof id);
    if (object->objects->origin)
        snprintf(url, sizeof url, "http://3000-%s-%s.%s", id, object->secret,
                 object->objects->origin);
    json_t *inside = object->container ? container_describe(object->container) : json_object();
    json_t *sessions = json_incref(json_object_get(inside, "sessions"));
    json_t *processes = json_incref(json_object_get(inside, "processes"));
    json_t *last = object->last_ms ? json_pack("{s:s, s:o}", "what", object->last_what, "when",
                                               time_or_null(true, object->last_ms))
                                   : json_null();
    json_t *described = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:i, s:o, s:b, s:o, s:o, s:o, s:s, s:s}", "id",
        object->id, "class", object->class->name, "state", object_state_name(object->state),
        "since", time_or_null(true, object->since_ms), "why", hints_text(object->why), "sleepAt",
        time_or_null(object->idle.slot != 0 && !object->keep_alive, object->idle.due_ms),
        "sleepAfterMs", (json_int_t)object->sleep_after_ms, "inflight", object->inflight,
        "lastActivity", last, "keepAlive", object->keep_alive, "sessions",
        sessions ? sessions : json_array(), "processes", processes ? processes : json_integer(0),
        "ports", ports_describe(object), "network", egress_name(object), "containerUrl", url);
    json_decref(inside);
    json_object_set_new(described, "limits", describe_limits(object->class));
    json_object_set_new(described, "oomKills", json_integer(object->kills));
    platform_describe(object, described);
    return described;
}

json_t *objects_describe(struct objects *objects)
{
    json_t *list = json_array();
    for (struct object *object = objects->first; object; object = object->next)
        json_array_append_new(list, object_describe(object));
    return list;
}
