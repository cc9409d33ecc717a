/* The lives of sandboxes as lines of the log, each behind the sandbox's name. */
#include <string.h>

#include "base/log.h"
#include "objects/internal.h"

/* `%s` is the event's reason, or what was last called where it has none. */
static const struct {
    const char *type;
    const char *text;
} told[] = {
    {"container.starting", "%s"},
    {"container.stopping", "%s"},
    {"container.destroyed", "%s"},
    {"container.refused", "is refused a container: %s"},
    {"fault.fired", "a fault strikes: %s"},
    {"session.recreated", "a session of the last container begins anew: %s"},
    {"keepAlive.on", "keepAlive is on: it does not sleep"},
    {"keepAlive.off", "keepAlive is off: it sleeps when idle"},
};

void console_tell(const struct object *object, const char *type, const char *reason)
{
    if (!log_enabled(LOG_INFO))
        return;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        if (strcmp(told[i].type, type) != 0)
            continue;
        const char *text = told[i].text;
        const char *gap = strstr(text, "%s");
        const char *fill = gap ? (reason ? reason : object->last_what) : "";
        int before = gap ? (int)(gap - text) : (int)strlen(text);
        log_about(LOG_INFO, object->id, "%.*s%s%s", before, text, fill, gap ? gap + 2 : "");
        return;
    }
}
