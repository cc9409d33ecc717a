#include "config/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/check_internal.h"

const struct project_check project_checks[] = {
    {"config", MACHINE_ERROR, check_config},
    {"nodejs-compat", MACHINE_ERROR, check_nodejs_compat},
    {"main", MACHINE_ERROR, check_main},
    {"class-export", MACHINE_ERROR, check_class_export},
    {"class-binding", MACHINE_ERROR, check_class_binding},
    {"binding-class", MACHINE_ERROR, check_binding_class},
    {"binding-container", MACHINE_ERROR, check_binding_container},
    {"migrations", MACHINE_ERROR, check_migrations},
    {"max-instances", MACHINE_WARNING, check_max_instances},
    {"instance-type", MACHINE_INFO, check_instance_type},
    {"version", MACHINE_WARNING, check_version},
    {"python", MACHINE_ERROR, check_python},
    {"expose", MACHINE_WARNING, check_expose},
    {"expose-comment", MACHINE_ERROR, check_expose_comment},
    {"expose-port", MACHINE_ERROR, check_expose_port},
    {"reserved-port", MACHINE_ERROR, check_reserved_port},
    {"workers-dev", MACHINE_ERROR, check_workers_dev},
    {"hostname", MACHINE_WARNING, check_hostname},
    {"token", MACHINE_ERROR, check_token},
    {"proxy", MACHINE_ERROR, check_proxy},
    {"preview-binding", MACHINE_ERROR, check_preview_binding},
    {"id-case", MACHINE_WARNING, check_id_case},
    {"id-length", MACHINE_WARNING, check_id_length},
    {"id-characters", MACHINE_WARNING, check_id_characters},
    {"injection", MACHINE_INFO, check_injection},
    {"leak", MACHINE_INFO, check_leak},
};
const size_t project_check_count = sizeof project_checks / sizeof *project_checks;

/* Findings. */

static struct finding *add(struct inspection *inspection, const struct project_check *check,
                           const char *file, struct place place, const char *format, va_list rest)
{
    struct findings *to = inspection->findings;
    struct finding *list = realloc(to->list, (to->count + 1) * sizeof *list);
    if (!list) {
        inspection->lost = true;
        return NULL;
    }
    to->list = list;
    struct finding *finding = &list[to->count++];
    *finding = (struct finding){.check = check, .severity = check->severity, .place = place};
    snprintf(finding->file, sizeof finding->file, "%s", file);
    vsnprintf(finding->reason, sizeof finding->reason, format, rest);
    return finding;
}

struct finding *find_in_config(struct inspection *inspection, const struct project_check *check,
                               struct where where, const char *format, ...)
{
    const struct source *source = &inspection->project.source;
    struct place place = source->root ? source_place(source, where) : (struct place){0, 0};
    va_list rest;
    va_start(rest, format);
    struct finding *finding =
        add(inspection, check, source->file ? source->file : "", place, format, rest);
    va_end(rest);
    return finding;
}

struct finding *find_in_script(struct inspection *inspection, const struct project_check *check,
                               const struct script_file *file, size_t token, const char *format,
                               ...)
{
    va_list rest;
    va_start(rest, format);
    struct finding *finding =
        add(inspection, check, file->relative,
            place_at(buf_text(&file->text), file->script.tokens[token].at), format, rest);
    va_end(rest);
    return finding;
}

struct finding *find_in_dockerfile(struct inspection *inspection, const struct project_check *check,
                                   const struct project_class *class, int line, const char *format,
                                   ...)
{
    va_list rest;
    va_start(rest, format);
    struct finding *finding =
        add(inspection, check, project_relative(&inspection->project, class->dockerfile),
            (struct place){line, line ? 1 : 0}, format, rest);
    va_end(rest);
    return finding;
}

struct where where_class(const struct inspection *inspection, size_t class, const char *member)
{
    struct where where;
    project_section(&inspection->project, "containers", &where);
    where = where_index(where, class);
    return member ? where_name(where, member) : where;
}

void findings_free(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        free(findings->list[i].fix);
    free(findings->list);
    *findings = (struct findings){.count = 0};
}

/* The project. */

/* Of the time when ports had to be exposed. */
static bool is_old(const struct inspection *inspection)
{
    struct npm_sdk wrangler;
    enum npm_order order = npm_find(inspection->project.dir, "wrangler", &wrangler)
                               ? npm_order(&wrangler, NPM_WRANGLER_FREE)
                               : NPM_OPEN;
    if (order != NPM_OPEN)
        return order == NPM_BEFORE;
    return inspection->has_sdk && npm_before(inspection->sdk.version, NPM_SDK_FREE);
}

int project_inspect(const char *dir, const char *config_file, const char *environment,
                    struct findings *to)
{
    struct inspection *inspection = calloc(1, sizeof *inspection);
    *to = (struct findings){.count = 0};
    if (!inspection)
        return -ENOMEM;
    inspection->findings = to;
    int result = project_load_environment(dir, config_file, environment, &inspection->project,
                                          &inspection->error);
    if (result < 0) {
        check_config(inspection, &project_checks[0]);
    } else if (inspection->project.found) {
        inspection->has_sdk = npm_find_sdk(inspection->project.dir, &inspection->sdk);
        inspection->old_wrangler = is_old(inspection);
        inspection_read_scripts(inspection);
        for (size_t i = 0; i < project_check_count; i++)
            project_checks[i].run(inspection, &project_checks[i]);
    }
    result = inspection->lost ? -ENOMEM : 0;
    inspection_free(inspection);
    free(inspection);
    return result;
}
