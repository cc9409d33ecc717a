#include "cli/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cli/expose.h"

/* What was read once; classes may be in use until the end. */
struct reading {
    struct reading *before;
    struct project project;
    struct object_class *classes;
};

struct reload {
    struct reload_config config;
    struct reading *last;
};

static void reading_free(struct reading *reading)
{
    free(reading->classes);
    project_free(&reading->project);
    free(reading);
}

struct reload *reload_new(const struct reload_config *config)
{
    struct reload *reload = calloc(1, sizeof *reload);
    if (reload)
        reload->config = *config;
    return reload;
}

static int bind_buckets(struct buckets *buckets, const struct project *project, struct error *err)
{
    int result = 0;
    for (size_t i = 0; i < json_array_size(project->buckets) && result == 0; i++)
        result = buckets_bind(buckets, json_string_value(json_array_get(project->buckets, i)));
    return result < 0 ? error_errno(err, -result, "buckets") : 0;
}

static int read_again(const struct reload_config *config, struct reading *reading,
                      struct error *err)
{
    int result = project_load_environment(config->dir, config->file, config->environment,
                                          &reading->project, err);
    if (result == 0)
        result = classes_make(&config->classes, &reading->project, &reading->classes, err);
    if (result == 0)
        result = bind_buckets(config->buckets, &reading->project, err);
    if (result == 0 &&
        objects_set_classes(config->objects, reading->classes, reading->project.class_count) < 0)
        result = error_errno(err, ENOMEM, "classes");
    return result;
}

static void tell(const struct reload *reload)
{
    const struct reading *reading = reload->last;
    CLEANUP_BUF struct buf names = BUF_INIT(2048);
    int running = objects_running(reload->config.objects);
    const char *slash = strrchr(reading->project.file, '/');
    for (size_t i = 0; i < reading->project.class_count; i++)
        buf_addf(&names, "%s%s", i ? ", " : "", reading->classes[i].name);
    log_info("%s read again: %s", slash ? slash + 1 : "the directory", buf_text(&names));
    if (running > 0)
        log_info("%d container%s: what changed comes with the next start (sandpit replace ID)",
                 running,
                 running == 1 ? " keeps what it started with" : "s keep what they started with");
    expose_warn(reading->classes, reading->project.class_count);
}

void reload_run(struct reload *reload)
{
    struct error err = {0};
    struct reading *reading = calloc(1, sizeof *reading);
    if (!reading) {
        log_error("out of memory");
        return;
    }
    if (read_again(&reload->config, reading, &err) < 0) {
        log_error("%s", err.text);
        log_error("nothing was changed");
        reading_free(reading);
        return;
    }
    reading->before = reload->last;
    reload->last = reading;
    tell(reload);
}

void reload_free(struct reload *reload)
{
    while (reload && reload->last) {
        struct reading *reading = reload->last;
        reload->last = reading->before;
        reading_free(reading);
    }
    free(reload);
}
