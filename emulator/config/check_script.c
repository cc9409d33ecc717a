/* Checks of the Worker's script: ports, host names, tokens, ids, commands. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/check_internal.h"

/* A port, an id and a token share one part of a host name: 63 = 5 + 1 + id + 1 + 16. */
enum { ID_MAX = 63, ID_PREVIEW_MAX = 40, TOKEN_MAX = 16 };

/* For every call of a name, with its file. */
#define EACH_CALL(INSPECTION, NAME, FILE, CALL)                                                    \
    for (bool more_ = false; inspection_call(INSPECTION, NAME, &(FILE), &(CALL), more_);           \
         more_ = true)

static bool is_one(struct tokens tokens)
{
    return tokens.until == tokens.from + 1;
}

/* exposePort. */

void check_reserved_port(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    bool old = inspection->has_sdk && npm_before(inspection->sdk.version, "0.7.2");
    EACH_CALL(inspection, "exposePort", file, call)
    {
        struct tokens port = script_argument(&file->script, call, 0);
        long number = script_number(&file->script, port);
        if (number < 0)
            continue;
        bool reserved = number == 3000 || (number == 8787 && old);
        if (!reserved && number >= 1024 && number <= 65535)
            continue;
        struct finding *finding =
            find_in_script(inspection, check, file, port.from,
                           reserved ? "Port %ld is reserved: exposePort refuses it"
                                    : "port %ld is not in the "
                                      "range 1024 to 65535 that "
                                      "exposePort takes",
                           number);
        if (file->script.tokens[port.from].kind == TOKEN_NAME)
            port = script_value(&file->script, port.from);
        fix_tokens(finding, file, (struct tokens){port.from, port.from + 1},
                   number == 8787 ? "8788" : "8080");
    }
}

/* const { hostname } = new URL(…): the index of the name in the braces, or 0. */
static size_t destructured(const struct script *script)
{
    for (size_t i = 1; i + 1 < script->count; i++) {
        size_t close = script->tokens[i].pair;
        if (!script_is(script, i, "{") || close <= i || !script_is(script, close + 1, "=") ||
            !script_is(script, close + 2, "new") || !script_is(script, close + 3, "URL"))
            continue;
        for (size_t at = i + 1; at < close; at++) {
            if (script_is(script, at, "hostname") && !script_is(script, at + 1, ":") &&
                !script_is(script, at - 1, ":"))
                return at;
        }
    }
    return 0;
}

/* What exposePort is given as its hostname, with a variable followed once. */
static struct tokens hostname_of(const struct script *script, size_t call)
{
    struct tokens value = script_member(script, script_argument(script, call, 1), "hostname");
    if (is_one(value) && script->tokens[value.from].kind == TOKEN_NAME) {
        struct tokens given = script_value(script, value.from);
        if (given.from < given.until)
            return given;
    }
    return value;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcasecmp(text + size - tail, end) == 0;
}

/* The text of a literal, or of env.NAME in vars. */
static bool literal_of(const struct inspection *inspection, const struct script *script,
                       struct tokens value, char *to, size_t room)
{
    if (is_one(value))
        return script_text(script, value.from, to, room);
    if (value.until != value.from + 3 || !script_is(script, value.from, "env"))
        return false;
    const struct token *name = &script->tokens[value.from + 2];
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)(name->size < 63 ? name->size : 63),
             script->text + name->at);
    const char *text = json_string_value(json_object_get(inspection->project.vars, key));
    return text && snprintf(to, room, "%s", text) < (int)room;
}

void check_workers_dev(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    EACH_CALL(inspection, "exposePort", file, call)
    {
        char host[256];
        struct tokens value = hostname_of(&file->script, call);
        if (value.from < value.until &&
            literal_of(inspection, &file->script, value, host, sizeof host) &&
            ends_with(host, ".workers.dev"))
            find_in_script(inspection, check, file, call,
                           "%.100s cannot have preview URLs: .workers.dev has no wildcard "
                           "subdomains (CUSTOM_DOMAIN_REQUIRED); use a domain of yours with a "
                           "wildcard DNS record",
                           host);
    }
}

/* request.headers.get('host') */
static bool asks_header(const struct script *script, struct tokens value)
{
    char name[16];
    for (size_t i = value.from; i + 3 < value.until; i++) {
        if (script_is(script, i, "headers") && script_is(script, i + 2, "get") &&
            script_text(script, i + 4, name, sizeof name) && strcasecmp(name, "host") == 0)
            return true;
    }
    return false;
}

void check_hostname(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    EACH_CALL(inspection, "exposePort", file, call)
    {
        const struct script *script = &file->script;
        struct tokens value = hostname_of(script, call);
        if (value.from >= value.until)
            continue;
        bool property = script_is(script, value.until - 1, "hostname");
        size_t braces = is_one(value) && property ? destructured(script) : 0;
        struct finding *finding = NULL;
        if (asks_header(script, value)) {
            finding = find_in_script(inspection, check, file, call,
                                     "the Host header is what a client says, and may be missing: "
                                     "pass the host of the request's URL");
            fix_tokens(finding, file, value, "new URL(request.url).host");
        } else if (property && (braces || !is_one(value))) {
            finding = find_in_script(inspection, check, file, call,
                                     "hostname has no port, so preview URLs lose :8787 in local "
                                     "development: pass host");
            if (braces)
                fix_tokens(finding, file, (struct tokens){braces, braces + 1}, "host: hostname");
            else
                fix_tokens(finding, file, (struct tokens){value.until - 1, value.until}, "host");
        }
    }
}

void check_token(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    bool old = inspection->has_sdk && npm_before(inspection->sdk.version, "0.8");
    EACH_CALL(inspection, "exposePort", file, call)
    {
        char token[256];
        const struct script *script = &file->script;
        struct tokens value = script_member(script, script_argument(script, call, 1), "token");
        if (!is_one(value) || !script_text(script, value.from, token, sizeof token))
            continue;
        const char *allowed = old ? "abcdefghijklmnopqrstuvwxyz0123456789_-"
                                  : "abcdefghijklmnopqrstuvwxyz0123456789_";
        size_t size = strlen(token);
        if (size >= 1 && size <= TOKEN_MAX && strspn(token, allowed) == size)
            continue;
        find_in_script(inspection, check, file, value.from,
                       "the token '%.40s' is refused: 1 to 16 of a-z, 0-9 and %s", token,
                       old ? "_ -" : "_");
    }
}

void check_proxy(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    if (!inspection_call(inspection, "exposePort", &file, &call, false) ||
        inspection_names(inspection, "proxyToSandbox"))
        return;
    struct finding *finding =
        find_in_script(inspection, check, file, call,
                       "exposePort without proxyToSandbox: the Worker never leads requests for "
                       "preview URLs to the sandbox");
    const struct script *main = &inspection->files[0]->script;
    size_t handler = script_call(main, "fetch", 0);
    while (handler < main->count && !(script_is(main, handler - 1, "async") ||
                                      script_is(main, main->tokens[handler + 1].pair + 1, "{")))
        handler = script_call(main, "fetch", handler + 1);
    size_t body = handler < main->count ? main->tokens[handler + 1].pair + 1 : main->count;
    while (body < main->count && !script_is(main, body, "{"))
        body++;
    if (body >= main->count || inspection->files[0] != file || !finding)
        return;
    size_t behind = main->tokens[body].at + 1;
    CLEANUP_BUF struct buf insert = BUF_INIT(SOURCE_BYTES_MAX);
    buf_adds(&insert, "import { proxyToSandbox } from '@cloudflare/sandbox';\n");
    buf_add(&insert, main->text, behind);
    buf_adds(&insert, "\n        const preview = await proxyToSandbox(request, env);"
                      "\n        if (preview) return preview;");
    const struct splice splice = {0, behind, buf_text(&insert)};
    fix_splice(finding, main->text, main->size, &splice);
}

void check_preview_binding(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    const json_t *section = project_section(&inspection->project, "durable_objects", NULL);
    const json_t *bindings = json_object_get(section, "bindings");
    if (json_array_size(bindings) == 0 ||
        !inspection_call(inspection, "proxyToSandbox", &file, &call, false))
        return;
    for (size_t i = 0; i < json_array_size(bindings); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(bindings, i), "name"));
        if (name && strcmp(name, "Sandbox") == 0)
            return;
    }
    find_in_script(inspection, check, file, call,
                   "proxyToSandbox looks for a binding that is named Sandbox, and there is none");
}

/* Ids. */

/* The id of a getSandbox call that is a literal. */
static bool literal_id(const struct script_file *file, size_t call, struct tokens *value, char *to,
                       size_t room)
{
    *value = script_argument(&file->script, call, 1);
    return is_one(*value) && script_text(&file->script, value->from, to, room);
}

static bool normalizes(const struct script *script, size_t call)
{
    struct tokens value = script_member(script, script_argument(script, call, 2), "normalizeId");
    return value.from < value.until && script_is(script, value.from, "true");
}

void check_id_case(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    EACH_CALL(inspection, "getSandbox", file, call)
    {
        char id[256];
        struct tokens value;
        if (!literal_id(file, call, &value, id, sizeof id) || normalizes(&file->script, call))
            continue;
        char lower[260] = "'";
        size_t size = strlen(id);
        bool upper = false;
        for (size_t i = 0; i < size; i++) {
            upper |= isupper((unsigned char)id[i]) != 0;
            lower[i + 1] = (char)tolower((unsigned char)id[i]);
        }
        lower[size + 1] = '\'';
        if (!upper)
            continue;
        struct finding *finding = find_in_script(
            inspection, check, file, value.from,
            "'%.63s' has upper case. Preview URLs require lowercase sandbox IDs: use normalizeId "
            "or another id",
            id);
        fix_tokens(finding, file, value, lower);
    }
}

void check_id_length(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    EACH_CALL(inspection, "getSandbox", file, call)
    {
        char id[1024];
        struct tokens value;
        if (!literal_id(file, call, &value, id, sizeof id) || strlen(id) <= ID_PREVIEW_MAX)
            continue;
        size_t size = strlen(id);
        struct finding *finding = find_in_script(
            inspection, check, file, value.from,
            size > ID_MAX ? "an id of %zu characters is refused: there may be 63"
                          : "an id of %zu characters is too long for preview URLs: with port and "
                            "token a part of a host name has 63, which leaves 40",
            size);
        if (finding && size > ID_MAX)
            finding->severity = MACHINE_ERROR;
    }
}

/* Of a literal, what a host name does not take; of an expression, Math.random(), whose dot it does
 * not take either. */
void check_id_characters(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    EACH_CALL(inspection, "getSandbox", file, call)
    {
        char id[1024];
        struct tokens value;
        const struct script *script = &file->script;
        bool literal = literal_id(file, call, &value, id, sizeof id);
        bool random = false;
        for (size_t i = value.from; i < value.until; i++) {
            const struct token *token = &script->tokens[i];
            random |= memmem(script->text + token->at, token->size, "Math.random", 11) != NULL ||
                      (script_is(script, i, "Math") && script_is(script, i + 2, "random"));
        }
        size_t plain = literal ? strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789-_")
                               : 0;
        if (literal && id[plain])
            find_in_script(inspection, check, file, value.from,
                           "'%.63s' has characters that no host name takes: preview URLs do not "
                           "work",
                           id);
        else if (random)
            find_in_script(inspection, check, file, value.from,
                           "Math.random() puts a dot into the id, which ends the part of a host "
                           "name: use crypto.randomUUID()");
    }
}

/* Commands. */

void check_injection(struct inspection *inspection, const struct project_check *check)
{
    static const char *const calls[] = {"exec", "execStream", "startProcess"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct script_file *file;
        size_t call;
        EACH_CALL(inspection, calls[i], file, call)
        {
            struct tokens command = script_argument(&file->script, call, 0);
            if (call == 0 || !script_is(&file->script, call - 1, ".") || !is_one(command) ||
                !file->script.tokens[command.from].holes)
                continue;
            find_in_script(inspection, check, file, command.from,
                           "a command with values put in: quotes, $( and ; in them are the "
                           "shell's. Pass what others can choose in env, or use runCode");
        }
    }
}

/* Whether an id is another one each time. */
static bool is_fresh(const struct script *script, struct tokens value)
{
    static const char *const words[] = {"randomUUID", "Date.now", "Math.random"};
    for (size_t i = value.from; i < value.until; i++) {
        const struct token *token = &script->tokens[i];
        if (token->kind == TOKEN_STRING)
            continue;
        for (size_t word = 0; word < sizeof words / sizeof *words; word++) {
            if (memmem(script->text + token->at, token->size, words[word], strlen(words[word])))
                return true;
        }
        if (script_is(script, i, "Date") && script_is(script, i + 2, "now"))
            return true;
    }
    return false;
}

void check_leak(struct inspection *inspection, const struct project_check *check)
{
    const struct script_file *file;
    size_t call;
    if (inspection_names(inspection, "destroy"))
        return;
    EACH_CALL(inspection, "getSandbox", file, call)
    {
        struct tokens id = script_argument(&file->script, call, 1);
        if (is_fresh(&file->script, id))
            find_in_script(inspection, check, file, call,
                           "a fresh sandbox each time, and none is destroyed: each runs on until "
                           "it is idle for sleepAfter. Call destroy() in a finally block");
    }
}
