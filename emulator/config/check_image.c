/* Checks of images and Dockerfiles: versions, Python, EXPOSE, sizes. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/check_internal.h"
#include "config/image.h"

static bool is_container(const struct project_class *class)
{
    return *class->image != '\0';
}

/* A finding about a class's image: in its Dockerfile's FROM, or in the configuration. */
#define FIND_IMAGE(INSPECTION, CHECK, INDEX, ...)                                                  \
    ((INSPECTION)->project.classes[INDEX].dockerfile                                               \
         ? find_in_dockerfile(INSPECTION, CHECK, &(INSPECTION)->project.classes[INDEX],            \
                              (INSPECTION)->project.classes[INDEX].facts.from_line, __VA_ARGS__)   \
         : find_in_config(INSPECTION, CHECK, where_class(INSPECTION, INDEX, "image"),              \
                          __VA_ARGS__))

/* Our estimate of what the variants need to be of use: no public figure is known, so it is only an
 * info. The plain one is content with any. */
static const struct {
    const char *tag;
    uint64_t memory;
    const char *type, *why;
} needs[] = {
    {"-opencode", (uint64_t)4 << 30, "standard-1", "an agent with its server"},
    {"-desktop", (uint64_t)4 << 30, "standard-1", "a desktop with a browser"},
    {"-python", (uint64_t)1 << 30, "basic", "the Python interpreter with its data packages"},
};

void check_instance_type(struct inspection *inspection, const struct project_check *check)
{
    for (size_t i = 0; i < inspection->project.class_count; i++) {
        const struct project_class *class = &inspection->project.classes[i];
        struct instance_size size = class->size;
        if (!class->sized)
            instance_type_find("lite", &size); /* the platform's default */
        for (size_t at = 0; is_container(class) && at < sizeof needs / sizeof *needs; at++) {
            if (!strstr(class->from, needs[at].tag) || size.memory_bytes >= needs[at].memory)
                continue;
            struct where where = where_class(inspection, i, "instance_type");
            struct finding *finding = find_in_config(
                inspection, check, where,
                "class %s has %llu MiB of memory%s, which may be little for %s: consider %s",
                class->name, (unsigned long long)(size.memory_bytes >> 20),
                class->sized ? "" : " (lite, without instance_type)", needs[at].why,
                needs[at].type);
            char value[64];
            snprintf(value, sizeof value, "\"%s\"", needs[at].type);
            if (*class->instance_type)
                fix_string(inspection, finding, where, needs[at].type);
            else if (!class->sized)
                fix_add_member(inspection, finding, i, "instance_type", value);
        }
    }
}

void check_version(struct inspection *inspection, const struct project_check *check)
{
    for (size_t i = 0; i < inspection->project.class_count; i++) {
        const struct project_class *class = &inspection->project.classes[i];
        const struct npm_sdk *sdk = &inspection->sdk;
        if (!inspection->has_sdk || !*class->version || npm_fits(sdk, class->version))
            continue;
        char image[PROJECT_IMAGE_MAX + 32];
        image_with(class->from, sdk->version, "", image, sizeof image);
        struct finding *finding = FIND_IMAGE(
            inspection, check, i,
            "the image of class %s is of version %s, but @cloudflare/sandbox is %s (%s): calls may "
            "fail in ways that nothing explains",
            class->name, class->version, sdk->version, sdk->where);
        fix_image(inspection, finding, i, image);
    }
}

/* Python. */

/* Whether the words of a command name Python. */
static bool runs_python(const struct script *script, struct tokens tokens)
{
    static const char *const words[] = {"python", "python3", "pip", "pip3"};
    if (tokens.from >= tokens.until)
        return false;
    const struct token *token = &script->tokens[tokens.from];
    const char *text = script->text + token->at;
    if (token->kind != TOKEN_STRING && token->kind != TOKEN_TEMPLATE)
        return false;
    for (size_t at = 1; at + 1 < token->size;) {
        size_t size = 0;
        while (at + size + 1 < token->size &&
               (isalnum((unsigned char)text[at + size]) || strchr("_-./", text[at + size])))
            size++;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            if (strlen(words[i]) == size && memcmp(text + at, words[i], size) == 0)
                return true;
        }
        at += size + 1;
    }
    return false;
}

/* The first place where a script wants Python. */
static bool wants_python(const struct inspection *inspection, const struct script_file **file,
                         size_t *token)
{
    static const char *const calls[] = {"exec", "execStream", "startProcess"};
    static const char *const contexts[] = {"runCode", "createCodeContext", "runCodeStream"};
    for (size_t i = 0; i < 3; i++) {
        for (bool more = false; inspection_call(inspection, calls[i], file, token, more);
             more = true) {
            const struct script *script = &(*file)->script;
            if (*token > 0 && script_is(script, *token - 1, ".") &&
                runs_python(script, script_argument(script, *token, 0)))
                return true;
        }
    }
    for (size_t i = 0; i < 3; i++) {
        for (bool more = false; inspection_call(inspection, contexts[i], file, token, more);
             more = true) {
            const struct script *script = &(*file)->script;
            char language[32];
            for (size_t n = 0; n < 2; n++) {
                struct tokens value =
                    script_member(script, script_argument(script, *token, n), "language");
                if (value.from < value.until &&
                    script_text(script, value.from, language, sizeof language) &&
                    strcmp(language, "python") == 0)
                    return true;
            }
        }
    }
    return false;
}

void check_python(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t token;
    for (size_t i = 0; i < inspection->project.class_count; i++) {
        if (inspection->project.classes[i].python)
            return;
    }
    if (!wants_python(inspection, &file, &token))
        return;
    const struct project_class *class = &inspection->project.classes[0];
    struct place place = place_at(buf_text(&file->text), file->script.tokens[token].at);
    struct finding *finding =
        FIND_IMAGE(inspection, check, 0,
                   "%s:%d runs Python, which the image of class %s lacks: since 0.6 only tags with "
                   "-python have it",
                   file->relative, place.line, class->name);
    char image[PROJECT_IMAGE_MAX + 32];
    image_with(class->from, class->version, "-python", image, sizeof image);
    fix_image(inspection, finding, 0, image);
}

/* EXPOSE. */

static void find_unexposed(struct inspection *inspection, const struct project_check *check,
                           const struct project_class *class, const struct script_file *file,
                           size_t call, long port)
{
    struct finding *finding = find_in_dockerfile(
        inspection, check, class, class->facts.expose_line,
        "%s:%d uses port %ld, which no EXPOSE names: %s answers \"Connection refused: container "
        "port not found\" in local development",
        file->relative, place_at(buf_text(&file->text), file->script.tokens[call].at).line, port,
        inspection->old_wrangler ? "the project's wrangler" : "wrangler before " NPM_WRANGLER_FREE);
    if (!finding)
        return;
    finding->severity = inspection->old_wrangler ? MACHINE_ERROR : MACHINE_INFO;
    char line[64];
    snprintf(line, sizeof line, "EXPOSE %ld", port);
    fix_dockerfile(finding, class, line);
}

/* Each port once, whoever uses it. */
static bool is_told(const struct inspection *inspection, const struct project_check *check,
                    long port)
{
    char text[64];
    snprintf(text, sizeof text, "uses port %ld,", port);
    for (size_t i = 0; i < inspection->findings->count; i++) {
        const struct finding *finding = &inspection->findings->list[i];
        if (finding->check == check && strstr(finding->reason, text))
            return true;
    }
    return false;
}

/* Of several classes a script does not tell whose port it is: one that exposes it will do. */
void check_expose(struct inspection *inspection, const struct project_check *check)
{
    static const struct {
        const char *name;
        size_t argument;
    } calls[] = {{"exposePort", 0}, {"wsConnect", 1}, {"containerFetch", 2}, {"containerFetch", 1}};
    const struct project *project = &inspection->project;
    const struct project_class *first = NULL;
    for (size_t i = 0; i < project->class_count; i++) {
        if (!project->classes[i].dockerfile && is_container(&project->classes[i]))
            return;
        first = first ? first : project->classes[i].dockerfile ? &project->classes[i] : NULL;
    }
    for (size_t i = 0; first && i < sizeof calls / sizeof *calls; i++) {
        const struct script_file *file;
        size_t call;
        for (bool more = false; inspection_call(inspection, calls[i].name, &file, &call, more);
             more = true) {
            struct tokens port = script_argument(&file->script, call, calls[i].argument);
            long number = script_number(&file->script, port);
            bool exposed = number < 0 || number > 65535 || number == SANDBOX_PORT;
            for (size_t at = 0; at < project->class_count; at++)
                exposed |=
                    dockerfile_exposes(&project->classes[at].facts, (int)number) ||
                    (number == OPENCODE_PORT && image_facts(project->classes[at].from).opencode);
            if (!exposed && !is_told(inspection, check, number))
                find_unexposed(inspection, check, first, file, call, number);
        }
    }
}

static void check_notes(struct inspection *inspection, const struct project_check *check,
                        enum dockerfile_problem problem)
{
    for (size_t i = 0; i < inspection->project.class_count; i++) {
        const struct project_class *class = &inspection->project.classes[i];
        for (size_t at = 0; at < class->facts.note_count; at++) {
            const struct dockerfile_note *note = &class->facts.notes[at];
            if (note->problem != problem)
                continue;
            struct finding *finding = find_in_dockerfile(
                inspection, check, class, note->line,
                problem == DOCKERFILE_COMMENT
                    ? "a comment behind EXPOSE: Docker takes '%.60s' for ports and the build fails"
                    : "'%.60s' is no port for EXPOSE: the build fails",
                note->text);
            if (problem == DOCKERFILE_COMMENT)
                fix_comment(finding, class, note->line);
        }
    }
}

void check_expose_comment(struct inspection *inspection, const struct project_check *check)
{
    check_notes(inspection, check, DOCKERFILE_COMMENT);
}

void check_expose_port(struct inspection *inspection, const struct project_check *check)
{
    check_notes(inspection, check, DOCKERFILE_NO_PORT);
}
