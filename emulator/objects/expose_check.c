#include "objects/expose_check.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "objects/internal.h"

static const char refusal[] = "connect(): Connection refused: container port not found. Make sure "
                              "you exposed the port in your container definition.";

static const char *const rules[] = {
    [EXPOSE_OFF] = "off", [EXPOSE_WARN] = "warn", [EXPOSE_STRICT] = "strict"};

bool expose_has(const struct expose *expose, int port)
{
    for (size_t i = 0; i < expose->count; i++) {
        if (port >= expose->ports[i].first && port <= expose->ports[i].last)
            return true;
    }
    return false;
}

/* "add EXPOSE 8080 to Dockerfile; rule strict: wrangler 4.20.0 …" */
static void explain(const struct object_class *class, int port, struct buf *to)
{
    const struct expose *expose = &class->expose;
    if (*expose->file)
        buf_addf(to, "add the line EXPOSE %d to %s of class %s", port, expose->file, class->name);
    else
        buf_addf(to, "give class %s a Dockerfile with the line EXPOSE %d", class->name, port);
    buf_addf(to, "; --expose-check is %s: %s", rules[expose->rule], expose->why);
}

/* Each port of a class is told once, until the configuration is read again. */
static bool is_news(struct object *object, int port)
{
    struct objects *objects = object->objects;
    char key[96];
    snprintf(key, sizeof key, "%s %d", object->class->name, port);
    if (!objects->expose_told)
        objects->expose_told = json_object();
    if (json_object_get(objects->expose_told, key))
        return false;
    json_object_set_new(objects->expose_told, key, json_true());
    return true;
}

static void tell(struct object *object, int port, const char *what, const char *text)
{
    object_note(object, "hint.expose", text,
                json_pack("{s:i, s:s, s:s, s:s}", "port", port, "use", what, "rule",
                          rules[object->class->expose.rule], "class", object->class->name));
    log_warn("port %d (%s) is not exposed: %s", port, what, text);
}

void expose_note(struct object *object, int port, const char *what)
{
    const struct expose *expose = &object->class->expose;
    if (expose->rule == EXPOSE_OFF || expose_has(expose, port) || !is_news(object, port))
        return;
    CLEANUP_BUF struct buf text = BUF_INIT(512);
    explain(object->class, port, &text);
    tell(object, port, what, buf_text(&text));
}

bool expose_refuses(struct object *object, int port, const char *what, struct call *call)
{
    const struct expose *expose = &object->class->expose;
    expose_note(object, port, what);
    if (expose->rule != EXPOSE_STRICT || expose_has(expose, port))
        return false;
    CLEANUP_BUF struct buf hint = BUF_INIT(512);
    explain(object->class, port, &hint);
    bool faithful = object->objects->config.faithful;
    struct answer answer = {
        .code = CODE_PLAIN_ERROR,
        .body = json_pack("{s:i, s:s}", "port", port, "rule", rules[expose->rule]),
        .message = strdup(refusal),
        .hint = faithful ? NULL : buf_steal(&hint),
    };
    call_finish(call, &answer);
    return true;
}
