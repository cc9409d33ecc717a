/* Checks of the configuration: flags, classes, bindings, migrations, instances. */
#include <stdio.h>
#include <string.h>

#include "config/check_internal.h"

/* Why it could not be read says where. */
void check_config(struct inspection *inspection, const struct project_check *check)
{
    const char *text = inspection->error.text;
    char file[128] = "";
    struct place place = {0, 0};
    if (inspection->error.code == 0)
        return;
    int length = 0;
    if (sscanf(text, "%127[^:]:%d:%d: %n", file, &place.line, &place.column, &length) == 3 &&
        length)
        text += length;
    else if (sscanf(text, "%127[^:]:%d: %n", file, &place.line, &length) == 2 && length)
        text += length;
    else
        *file = '\0';
    struct finding *finding = find_in_config(inspection, check, (struct where){0}, "%s", text);
    if (!finding)
        return;
    finding->place = place;
    snprintf(finding->file, sizeof finding->file, "%.127s", file);
}

static bool list_has(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *item = json_string_value(json_array_get(list, i));
        if (item && strcmp(item, text) == 0)
            return true;
    }
    return false;
}

void check_nodejs_compat(struct inspection *inspection, const struct project_check *check)
{
    struct where where;
    const json_t *flags = project_section(&inspection->project, "compatibility_flags", &where);
    if (list_has(flags, "nodejs_compat"))
        return;
    struct finding *finding = find_in_config(
        inspection, check, where,
        "compatibility_flags lacks nodejs_compat: the SDK uses Node.js APIs and the Worker fails "
        "when it starts");
    if (flags)
        fix_add(inspection, finding, where, "\"nodejs_compat\"");
    else
        fix_add_section(inspection, finding, "\"compatibility_flags\": [\"nodejs_compat\"]",
                        "compatibility_flags = [\"nodejs_compat\"]", false);
}

/* A module of a framework, or what a build makes, need not be there. */
static bool is_own_file(const struct project *project)
{
    static const char *const endings[] = {".ts", ".tsx", ".js", ".mjs", ".jsx"};
    const char *dot = strrchr(project->main, '.');
    if (!dot || project->main[0] == '@' || project_section(project, "build", NULL))
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(dot, endings[i]) == 0)
            return true;
    }
    return false;
}

void check_main(struct inspection *inspection, const struct project_check *check)
{
    struct where where;
    const struct project *project = &inspection->project;
    project_section(project, "main", &where);
    if (!*project->main) {
        struct finding *finding = find_in_config(
            inspection, check, where, "there is no main: wrangler does not know what to run");
        fix_add_section(inspection, finding, "\"main\": \"src/index.ts\"",
                        "main = \"src/index.ts\"", false);
    } else if (inspection->file_count == 0 && is_own_file(project)) {
        find_in_config(inspection, check, where, "main names a file that is not there: %.200s",
                       project->main);
    }
}

/* Classes of containers[], which the built-in one is not. */
static size_t class_count(const struct inspection *inspection)
{
    const struct project *project = &inspection->project;
    return *project->classes[0].image ? project->class_count : 0;
}

/* The bindings of Durable Objects. */

static const json_t *bindings_of(const struct inspection *inspection, struct where *where)
{
    const json_t *section = project_section(&inspection->project, "durable_objects", where);
    *where = where_name(*where, "bindings");
    return json_object_get(section, "bindings");
}

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static bool is_bound(const json_t *bindings, const char *class)
{
    for (size_t i = 0; i < json_array_size(bindings); i++) {
        if (strcmp(member(json_array_get(bindings, i), "class_name"), class) == 0)
            return true;
    }
    return false;
}

void check_class_export(struct inspection *inspection, const struct project_check *check)
{
    for (size_t i = 0; i < class_count(inspection); i++) {
        const char *name = inspection->project.classes[i].name;
        if (inspection_exports(inspection, name))
            continue;
        const struct script_file *main = inspection->files[0];
        struct finding *finding =
            find_in_config(inspection, check, where_class(inspection, i, "class_name"),
                           "Class '%s' not found: %s does not export it", name, main->relative);
        char line[256];
        if (strcmp(name, "Sandbox") == 0)
            snprintf(line, sizeof line, "export { Sandbox } from '@cloudflare/sandbox';\n");
        else
            snprintf(line, sizeof line, "export { Sandbox as %s } from '@cloudflare/sandbox';\n",
                     name);
        const struct splice splice = {0, 0, line};
        if (finding)
            snprintf(finding->file, sizeof finding->file, "%.127s", main->relative);
        if (finding)
            finding->place = (struct place){1, 1};
        fix_splice(finding, buf_text(&main->text), main->text.size, &splice);
    }
}

void check_class_binding(struct inspection *inspection, const struct project_check *check)
{
    struct where where;
    const json_t *bindings = bindings_of(inspection, &where);
    for (size_t i = 0; i < class_count(inspection); i++) {
        const char *name = inspection->project.classes[i].name;
        if (is_bound(bindings, name))
            continue;
        struct finding *finding =
            find_in_config(inspection, check, where_class(inspection, i, "class_name"),
                           "no binding of durable_objects leads to class %s: the Worker cannot "
                           "reach its sandboxes",
                           name);
        char json[256], toml[256];
        snprintf(json, sizeof json, "{ \"name\": \"%s\", \"class_name\": \"%s\" }", name, name);
        if (bindings && !inspection->project.source.toml) {
            fix_add(inspection, finding, where, json);
            continue;
        }
        snprintf(
            json, sizeof json,
            "\"durable_objects\": { \"bindings\": [{ \"name\": \"%s\", \"class_name\": \"%s\" }] }",
            name, name);
        snprintf(toml, sizeof toml,
                 "[[durable_objects.bindings]]\nname = \"%s\"\nclass_name = \"%s\"", name, name);
        fix_add_section(inspection, finding, json, toml, true);
    }
}

void check_binding_class(struct inspection *inspection, const struct project_check *check)
{
    struct where where;
    const json_t *bindings = bindings_of(inspection, &where);
    for (size_t i = 0; i < json_array_size(bindings); i++) {
        const json_t *binding = json_array_get(bindings, i);
        const char *class = member(binding, "class_name");
        bool container = false;
        for (size_t at = 0; at < class_count(inspection); at++)
            container |= strcmp(inspection->project.classes[at].name, class) == 0;
        if (container || json_object_get(binding, "script_name") ||
            inspection_exports(inspection, class))
            continue;
        find_in_config(inspection, check, where_name(where_index(where, i), "class_name"),
                       "binding %.60s leads to class %.60s, which %.60s does not export and no "
                       "container has",
                       member(binding, "name"), class, inspection->project.main);
    }
}

/* Whether a script makes it a sandbox: it is the SDK's, or extends it. */
static bool is_sandbox_class(const struct inspection *inspection, const char *name)
{
    if (strcmp(name, "Sandbox") == 0)
        return true;
    for (size_t file = 0; file < inspection->file_count; file++) {
        const struct script *script = &inspection->files[file]->script;
        for (size_t i = 0; i + 3 < script->count; i++) {
            bool extends = script_is(script, i, "class") && script_is(script, i + 1, name) &&
                           script_is(script, i + 2, "extends") &&
                           script_is(script, i + 3, "Sandbox");
            bool renamed = script_is(script, i, "Sandbox") && script_is(script, i + 1, "as") &&
                           script_is(script, i + 2, name);
            if (extends || renamed)
                return true;
        }
    }
    return false;
}

void check_binding_container(struct inspection *inspection, const struct project_check *check)
{
    struct where where;
    const json_t *bindings = bindings_of(inspection, &where);
    for (size_t i = 0; i < json_array_size(bindings); i++) {
        const json_t *binding = json_array_get(bindings, i);
        const char *class = member(binding, "class_name");
        bool container = json_object_get(binding, "script_name") != NULL;
        for (size_t at = 0; at < class_count(inspection); at++)
            container |= strcmp(inspection->project.classes[at].name, class) == 0;
        if (container || !is_sandbox_class(inspection, class))
            continue;
        struct finding *finding =
            find_in_config(inspection, check, where_name(where_index(where, i), "class_name"),
                           "class %.60s has no container: containers[] does not name it", class);
        struct where list;
        char json[384], toml[384];
        const char *image = "docker.io/cloudflare/sandbox:";
        const char *version = inspection->has_sdk ? inspection->sdk.version : "0.12.7";
        snprintf(json, sizeof json,
                 "{ \"class_name\": \"%.60s\", \"image\": \"%s%s\", \"max_instances\": 5 }", class,
                 image, version);
        snprintf(toml, sizeof toml,
                 "[[containers]]\nclass_name = \"%.60s\"\nimage = \"%s%s\"\nmax_instances = 5",
                 class, image, version);
        if (project_section(&inspection->project, "containers", &list) &&
            !inspection->project.source.toml) {
            fix_add(inspection, finding, list, json);
            continue;
        }
        char section[448];
        snprintf(section, sizeof section, "\"containers\": [%s]", json);
        fix_add_section(inspection, finding, section, toml, true);
    }
}

/* Migrations. */

/* Whether a migration names the class in this list. */
static bool migrated(const json_t *migrations, const char *list, const char *class)
{
    for (size_t i = 0; i < json_array_size(migrations); i++) {
        if (list_has(json_object_get(json_array_get(migrations, i), list), class))
            return true;
    }
    return false;
}

/* A class that another one was renamed to. */
static bool renamed(const json_t *migrations, const char *class)
{
    for (size_t i = 0; i < json_array_size(migrations); i++) {
        const json_t *list = json_object_get(json_array_get(migrations, i), "renamed_classes");
        for (size_t at = 0; at < json_array_size(list); at++) {
            if (strcmp(member(json_array_get(list, at), "to"), class) == 0)
                return true;
        }
    }
    return false;
}

static void add_migration(struct inspection *inspection, struct finding *finding,
                          const json_t *migrations, struct where where, const char *class)
{
    char json[256], toml[256];
    char tag[24];
    snprintf(tag, sizeof tag, "v%zu", json_array_size(migrations) + 1);
    if (migrations && !inspection->project.source.toml) {
        /* Behind the others, which are in order of time. */
        snprintf(json, sizeof json, "\"new_sqlite_classes\": [\"%s\"]", class);
        const json_t *last = json_array_get(migrations, json_array_size(migrations) - 1);
        where = where_index(where, json_array_size(migrations) - 1);
        if (last && !json_object_get(last, "new_sqlite_classes")) {
            fix_add(inspection, finding, where, json);
        } else if (last) {
            snprintf(json, sizeof json, "\"%s\"", class);
            fix_add(inspection, finding, where_name(where, "new_sqlite_classes"), json);
        }
        return;
    }
    snprintf(json, sizeof json,
             "\"migrations\": [{ \"tag\": \"%s\", \"new_sqlite_classes\": [\"%s\"] }]", tag, class);
    snprintf(toml, sizeof toml, "[[migrations]]\ntag = \"%s\"\nnew_sqlite_classes = [\"%s\"]", tag,
             class);
    fix_add_section(inspection, finding, json, toml, true);
}

void check_migrations(struct inspection *inspection, const struct project_check *check)
{
    struct where where;
    const json_t *migrations = project_section(&inspection->project, "migrations", &where);
    const json_t *exports = project_section(&inspection->project, "exports", NULL);
    for (size_t i = 0; i < class_count(inspection); i++) {
        const char *name = inspection->project.classes[i].name;
        if (migrated(migrations, "new_sqlite_classes", name) || renamed(migrations, name) ||
            json_object_get(exports, name))
            continue;
        if (migrated(migrations, "new_classes", name)) {
            find_in_config(inspection, check, where,
                           "class %s is in new_classes: containers need new_sqlite_classes", name);
            continue;
        }
        struct finding *finding = find_in_config(
            inspection, check, where,
            "no migration makes class %s: deploying fails with \"Class '%s' not found\"; it needs "
            "new_sqlite_classes",
            name, name);
        add_migration(inspection, finding, migrations, where, name);
    }
}

/* Instances. */

void check_max_instances(struct inspection *inspection, const struct project_check *check)
{
    for (size_t i = 0; i < class_count(inspection); i++) {
        const struct project_class *class = &inspection->project.classes[i];
        if (class->max_instances > 0)
            continue;
        struct finding *finding = find_in_config(
            inspection, check, where_class(inspection, i, NULL),
            "class %s has no max_instances: nothing but the account's limit bounds how many "
            "sandboxes run and cost",
            class->name);
        if (!inspection->project.source.toml) {
            fix_add(inspection, finding, where_class(inspection, i, NULL), "\"max_instances\": 5");
        } else {
            /* In the line behind class_name's. */
            const struct source *source = &inspection->project.source;
            struct place place = source_place(source, where_class(inspection, i, "class_name"));
            const char *text = buf_text(&source->text), *at = text;
            for (int line = 1; line <= place.line && at; line++)
                at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
            const struct splice splice = {at ? (size_t)(at - text) : source->text.size, 0,
                                          at ? "max_instances = 5\n" : "\nmax_instances = 5\n"};
            fix_splice(finding, text, source->text.size, &splice);
        }
    }
}
