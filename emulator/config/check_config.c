/* Checks of the configuration: flags, classes, bindings, migrations, instances. */
#include <stdio.h>
#include <string.h>

#include "config/check_internal.h"
#include "config/image.h"

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
    } else if (!inspection->has_main && is_own_file(project)) {
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

/* The word `type` of export { type NAME } or export type { NAME }, which makes it vanish; count
 * when there is none. */
static size_t type_word(const struct script *script, const char *name)
{
    for (size_t i = 0; i + 3 < script->count; i++) {
        if (!script_is(script, i, "export"))
            continue;
        size_t brace = i + 1 + script_is(script, i + 1, "type");
        size_t until = script_is(script, brace, "{") ? script->tokens[brace].pair : brace;
        for (size_t at = brace + 1; at < until; at++) {
            if (!script_is(script, at, name))
                continue;
            if (brace > i + 1)
                return i + 1;
            if (script_is(script, at - 1, "type"))
                return at - 1;
        }
    }
    return script->count;
}

/* A class of the file's own lacks the word only; another one is the SDK's. */
static void fix_export(struct finding *finding, const struct script_file *main, const char *name)
{
    char line[256] = "export ";
    struct splice splice = {0, 0, line};
    const struct script *script = &main->script;
    size_t class = script_class(script, name), type = type_word(script, name);
    bool mark = main->text.size >= 3 && memcmp(buf_text(&main->text), "\xEF\xBB\xBF", 3) == 0;
    if (type < script->count) {
        splice = (struct splice){script->tokens[type].at,
                                 script->tokens[type + 1].at - script->tokens[type].at, ""};
    } else if (class < script->count) {
        splice.at = script->tokens[class].at;
    } else {
        splice.at = mark ? 3 : 0;
        snprintf(line, sizeof line, "export { Sandbox%s%s } from '@cloudflare/sandbox';\n",
                 strcmp(name, "Sandbox") == 0 ? "" : " as ",
                 strcmp(name, "Sandbox") == 0 ? "" : name);
    }
    fix_splice(finding, buf_text(&main->text), main->text.size, &splice);
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
        if (finding)
            snprintf(finding->file, sizeof finding->file, "%s", main->relative);
        if (finding)
            finding->place = (struct place){1, 1};
        fix_export(finding, main, name);
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
        const char *version = inspection->has_sdk ? inspection->sdk.version : SANDBOX_VERSION;
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

/* The index of the migration that names the class in this list; their count when none does. */
static size_t migration_of(const json_t *migrations, const char *list, const char *class)
{
    size_t i = 0;
    while (i < json_array_size(migrations) &&
           !list_has(json_object_get(json_array_get(migrations, i), list), class))
        i++;
    return i;
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
        size_t made = migration_of(migrations, "new_sqlite_classes", name);
        if (made < json_array_size(migrations) || renamed(migrations, name) ||
            json_object_get(exports, name))
            continue;
        size_t old = migration_of(migrations, "new_classes", name);
        if (old < json_array_size(migrations)) {
            struct where list = where_name(where_index(where, old), "new_classes");
            struct finding *finding = find_in_config(
                inspection, check, list,
                "class %s is in new_classes: containers need new_sqlite_classes", name);
            /* Classes beside it may be meant to stay as they are. */
            const json_t *migration = json_array_get(migrations, old);
            if (json_array_size(json_object_get(migration, "new_classes")) == 1 &&
                !json_object_get(migration, "new_sqlite_classes"))
                fix_rename(inspection, finding, list, "new_classes", "new_sqlite_classes");
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
        fix_add_member(inspection, finding, i, "max_instances", "5");
    }
}
