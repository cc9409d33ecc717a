#include "config/script.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 200000, DEPTH_MAX = 32 };

/* Characters. */

static bool starts_name(unsigned char c)
{
    return isalpha(c) || c == '_' || c == '$' || c >= 0x80;
}

static size_t skip_until(const char *text, size_t size, size_t at, const char *end)
{
    const char *found = memmem(text + at, size - at, end, strlen(end));
    return found ? (size_t)(found - text) + strlen(end) : size;
}

/* Behind the string that starts at `at`; a line ends it too. */
static size_t skip_string(const char *text, size_t size, size_t at)
{
    char quote = text[at++];
    while (at < size && text[at] != quote && text[at] != '\n')
        at += text[at] == '\\' ? 2 : 1;
    return at < size ? at + 1 : size;
}

/* Behind the template that starts at `at`, with what stands in its holes. */
static size_t skip_template(const char *text, size_t size, size_t at, bool *holes, int depth)
{
    at++;
    while (at < size && text[at] != '`') {
        if (text[at] == '\\') {
            at += 2;
        } else if (text[at] == '$' && at + 1 < size && text[at + 1] == '{' && depth < DEPTH_MAX) {
            int open = 1;
            bool inner;
            *holes = true;
            for (at += 2; at < size && open > 0;) {
                char c = text[at];
                if (c == '`')
                    at = skip_template(text, size, at, &inner, depth + 1);
                else if (c == '"' || c == '\'')
                    at = skip_string(text, size, at);
                else {
                    open += c == '{' ? 1 : c == '}' ? -1 : 0;
                    at++;
                }
            }
        } else {
            at++;
        }
    }
    return at < size ? at + 1 : size;
}

/* Behind the regular expression that starts at `at`, or `at` when it does not end in its line. */
static size_t skip_regex(const char *text, size_t size, size_t at)
{
    bool in_set = false;
    for (size_t i = at + 1; i < size && text[i] != '\n'; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i] == '[' || text[i] == ']')
            in_set = text[i] == '[';
        else if (text[i] == '/' && !in_set)
            return i + 1;
    }
    return at;
}

/* Tokens. */

static int add(struct script *script, enum token_kind kind, size_t at, size_t size, bool holes)
{
    if (script->count >= TOKENS_MAX)
        return -E2BIG;
    if ((script->count & (script->count - 1)) == 0) {
        size_t room = script->count ? script->count * 2 : 1;
        struct token *tokens = realloc(script->tokens, room * sizeof *tokens);
        if (!tokens)
            return -ENOMEM;
        script->tokens = tokens;
    }
    script->tokens[script->count] =
        (struct token){.kind = kind, .holes = holes, .at = at, .size = size, .pair = script->count};
    script->count++;
    return 0;
}

bool script_is(const struct script *script, size_t at, const char *text)
{
    if (at >= script->count)
        return false;
    const struct token *token = &script->tokens[at];
    return token->kind != TOKEN_STRING && token->size == strlen(text) &&
           memcmp(script->text + token->at, text, token->size) == 0;
}

/* A slash divides behind a value, and begins a regular expression elsewhere. */
static bool divides(const struct script *script)
{
    static const char *const words[] = {"return", "typeof", "case", "in", "of", "await", "void"};
    if (script->count == 0)
        return false;
    size_t last = script->count - 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (script_is(script, last, words[i]))
            return false;
    }
    return script->tokens[last].kind != TOKEN_OTHER || script_is(script, last, ")") ||
           script_is(script, last, "]") || script_is(script, last, "}");
}

static int read_token(struct script *script, size_t *at)
{
    const char *text = script->text;
    size_t size = script->size, start = *at, end = start + 1;
    unsigned char c = (unsigned char)text[start];
    enum token_kind kind = TOKEN_OTHER;
    bool holes = false;
    if (starts_name(c)) {
        kind = TOKEN_NAME;
        while (end < size &&
               (starts_name((unsigned char)text[end]) || isdigit((unsigned char)text[end])))
            end++;
    } else if (isdigit(c)) {
        kind = TOKEN_NUMBER;
        while (end < size &&
               (isalnum((unsigned char)text[end]) || text[end] == '.' || text[end] == '_'))
            end++;
    } else if (c == '"' || c == '\'') {
        kind = TOKEN_STRING;
        end = skip_string(text, size, start);
    } else if (c == '`') {
        kind = TOKEN_TEMPLATE;
        end = skip_template(text, size, start, &holes, 0);
    } else if (c == '/' && !divides(script)) {
        size_t behind = skip_regex(text, size, start);
        end = behind > start ? behind : end;
    } else if (c == '=' && end < size && text[end] == '>') {
        end++;
    }
    end = end < size ? end : size;
    *at = end;
    return add(script, kind, start, end - start, holes);
}

/* Brackets get to know each other; those that do not fit stay alone. */
static int pair_brackets(struct script *script)
{
    size_t *open = malloc((script->count + 1) * sizeof *open);
    size_t depth = 0;
    if (!open)
        return -ENOMEM;
    for (size_t i = 0; i < script->count; i++) {
        const struct token *token = &script->tokens[i];
        char c = token->kind == TOKEN_OTHER && token->size == 1 ? script->text[token->at] : ' ';
        if (strchr("([{", c))
            open[depth++] = i;
        else if (strchr(")]}", c) && depth > 0) {
            size_t from = open[--depth];
            script->tokens[from].pair = i;
            script->tokens[i].pair = from;
        }
    }
    free(open);
    return 0;
}

int script_read(struct script *script, const char *text, size_t size)
{
    *script = (struct script){.text = text, .size = size};
    for (size_t at = 0; at < size;) {
        int result = 0;
        if (isspace((unsigned char)text[at]) || text[at] == '\0')
            at++;
        else if (text[at] == '/' && at + 1 < size && text[at + 1] == '/')
            at = skip_until(text, size, at, "\n");
        else if (text[at] == '/' && at + 1 < size && text[at + 1] == '*')
            at = skip_until(text, size, at + 2, "*/");
        else
            result = read_token(script, &at);
        if (result < 0)
            return result;
    }
    return pair_brackets(script);
}

void script_free(struct script *script)
{
    free(script->tokens);
    *script = (struct script){.count = 0};
}

/* Looking. */

bool script_text(const struct script *script, size_t at, char *to, size_t room)
{
    if (at >= script->count)
        return false;
    const struct token *token = &script->tokens[at];
    bool plain = token->kind == TOKEN_STRING || (token->kind == TOKEN_TEMPLATE && !token->holes);
    if (!plain || token->size < 2 || token->size - 2 >= room)
        return false;
    memcpy(to, script->text + token->at + 1, token->size - 2);
    to[token->size - 2] = '\0';
    return true;
}

size_t script_call(const struct script *script, const char *name, size_t from)
{
    for (size_t i = from; i + 1 < script->count; i++) {
        if (script_is(script, i, name) && script_is(script, i + 1, "(") &&
            script->tokens[i + 1].pair > i + 1)
            return i;
    }
    return script->count;
}

bool script_names(const struct script *script, const char *name)
{
    for (size_t i = 0; i < script->count; i++) {
        if (script->tokens[i].kind == TOKEN_NAME && script_is(script, i, name))
            return true;
    }
    return false;
}

/* The index of the next comma on this level, or `until`. */
static size_t next_comma(const struct script *script, size_t at, size_t until)
{
    while (at < until && !script_is(script, at, ","))
        at = script->tokens[at].pair > at ? script->tokens[at].pair + 1 : at + 1;
    return at < until ? at : until;
}

struct tokens script_argument(const struct script *script, size_t call, size_t n)
{
    size_t until = script->tokens[call + 1].pair, from = call + 2;
    for (; from < until; n--) {
        size_t comma = next_comma(script, from, until);
        if (n == 0)
            return (struct tokens){from, comma};
        from = comma + 1;
    }
    return (struct tokens){0, 0};
}

struct tokens script_member(const struct script *script, struct tokens object, const char *name)
{
    char key[64];
    if (object.from >= object.until || !script_is(script, object.from, "{"))
        return (struct tokens){0, 0};
    size_t until = script->tokens[object.from].pair;
    for (size_t at = object.from + 1; at < until;) {
        size_t comma = next_comma(script, at, until);
        bool named = script_is(script, at, name) ||
                     (script_text(script, at, key, sizeof key) && strcmp(key, name) == 0);
        if (named && at + 1 < comma && script_is(script, at + 1, ":"))
            return (struct tokens){at + 2, comma};
        if (named && at + 1 == comma)
            return (struct tokens){at, comma};
        at = comma + 1;
    }
    return (struct tokens){0, 0};
}

/* export { A, B as C } */
static bool list_exports(const struct script *script, size_t brace, const char *name)
{
    size_t until = script->tokens[brace].pair;
    for (size_t at = brace + 1; at < until;) {
        size_t comma = next_comma(script, at, until);
        /* `type A` is gone when it runs; `type` alone, or `type as A`, is a name. */
        bool type = script_is(script, at, "type") && comma > at + 1 &&
                    (!script_is(script, at + 1, "as") || comma > at + 3);
        if (comma > at && !type && script_is(script, comma - 1, name))
            return true;
        at = comma + 1;
    }
    return false;
}

size_t script_class(const struct script *script, const char *name)
{
    size_t i = 0;
    while (i < script->count && !(script_is(script, i, "class") && script_is(script, i + 1, name)))
        i++;
    return i;
}

struct tokens script_value(const struct script *script, size_t name)
{
    char text[64];
    const struct token *token = &script->tokens[name];
    if (token->kind != TOKEN_NAME || token->size >= sizeof text)
        return (struct tokens){0, 0};
    memcpy(text, script->text + token->at, token->size);
    text[token->size] = '\0';
    for (size_t i = 1; i + 1 < script->count; i++) {
        bool declared = script_is(script, i - 1, "const") || script_is(script, i - 1, "let") ||
                        script_is(script, i - 1, "var");
        if (!declared || !script_is(script, i, text) || !script_is(script, i + 1, "="))
            continue;
        size_t until = i + 2;
        while (until < script->count && !script_is(script, until, ";") &&
               !script_is(script, until, "const") && !script_is(script, until, "return") &&
               !(until > i + 2 && script_is(script, until, "await")))
            until = script->tokens[until].pair > until ? script->tokens[until].pair + 1 : until + 1;
        return (struct tokens){i + 2, until};
    }
    return (struct tokens){0, 0};
}

long script_number(const struct script *script, struct tokens value)
{
    if (value.until != value.from + 1)
        return -1;
    const struct token *token = &script->tokens[value.from];
    if (token->kind == TOKEN_NAME) {
        value = script_value(script, value.from);
        if (value.from >= value.until)
            return -1;
        /* Of the statement only its first token: a line end ends it too. */
        token = &script->tokens[value.from];
        bool alone = value.until == value.from + 1 ||
                     memchr(script->text + token->at, '\n',
                            script->tokens[value.from + 1].at - token->at) != NULL;
        if (!alone)
            return -1;
    }
    if (token->kind != TOKEN_NUMBER)
        return -1;
    long number = 0;
    for (size_t i = 0; i < token->size; i++) {
        char c = script->text[token->at + i];
        if (c == '_')
            continue;
        if (!isdigit((unsigned char)c) || number > 1000000)
            return -1;
        number = number * 10 + (c - '0');
    }
    return number;
}

bool script_exports(const struct script *script, const char *name)
{
    static const char *const words[] = {"class", "const", "let", "var", "function"};
    for (size_t i = 0; i + 1 < script->count; i++) {
        if (!script_is(script, i, "export"))
            continue;
        if (script_is(script, i + 1, "{") && list_exports(script, i + 1, name))
            return true;
        size_t at = i + 1 + script_is(script, i + 1, "abstract");
        for (size_t word = 0; word < sizeof words / sizeof *words; word++) {
            if (script_is(script, at, words[word]) && script_is(script, at + 1, name))
                return true;
        }
    }
    return false;
}
