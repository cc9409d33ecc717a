#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "container/internal.h"

json_t *arg_invalid_context(const char *field, const char *message, const char *code)
{
    return json_pack("{s:[{s:s,s:s,s:s}]}", "validationErrors", "field", field, "message", message,
                     "code", code);
}

void arg_invalid(struct call *call, const char *field, const char *code, const char *format, ...)
{
    CLEANUP_FREE char *message = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&message, format, args) < 0)
        message = NULL;
    va_end(args);
    const char *text = message ? message : "invalid";
    call_error(call, CODE_VALIDATION_FAILED, NULL, arg_invalid_context(field, text, code), "%s",
               text);
}

/* The value, or NULL when absent or null. */
static json_t *get(const struct call *call, const char *name)
{
    json_t *value = json_object_get(call->args, name);
    return json_is_null(value) ? NULL : value;
}

static bool wrong_type(struct call *call, const char *name, const char *expected)
{
    arg_invalid(call, name, "INVALID_TYPE", "'%s' must be %s", name, expected);
    return false;
}

bool arg_text(struct call *call, const char *name, bool required, const char **value)
{
    json_t *found = get(call, name);
    if (!found) {
        if (required)
            arg_invalid(call, name, "REQUIRED", "'%s' is required and must be a string", name);
        return !required;
    }
    if (!json_is_string(found))
        return wrong_type(call, name, "a string");
    if (strlen(json_string_value(found)) != json_string_length(found)) {
        arg_invalid(call, name, "NUL_CHARACTER", "'%s' must not contain a NUL character", name);
        return false;
    }
    *value = json_string_value(found);
    return true;
}

bool arg_number(struct call *call, const char *name, double *value)
{
    json_t *found = get(call, name);
    if (!found)
        return true;
    if (!json_is_number(found))
        return wrong_type(call, name, "a number");
    *value = json_number_value(found);
    return true;
}

bool arg_flag(struct call *call, const char *name, bool *value)
{
    json_t *found = get(call, name);
    if (!found)
        return true;
    if (!json_is_boolean(found))
        return wrong_type(call, name, "true or false");
    *value = json_is_true(found);
    return true;
}

bool arg_env(struct call *call, const char *name, const json_t **value)
{
    json_t *found = get(call, name);
    if (!found)
        return true;
    if (!json_is_object(found))
        return wrong_type(call, name, "an object of strings");
    const char *key;
    json_t *entry;
    json_object_foreach(found, key, entry)
    {
        if (json_is_null(entry))
            continue;
        if (!json_is_string(entry) ||
            strlen(json_string_value(entry)) != json_string_length(entry)) {
            arg_invalid(call, name, "INVALID_TYPE",
                        "'%s.%s' must be a string without NUL characters, or null", name, key);
            return false;
        }
    }
    *value = found;
    return true;
}

bool text_is_blank(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return *text == '\0';
}

int64_t timeout_of(double ms)
{
    const double year = 365 * 24 * 3600e3;
    if (!(ms > 0))
        return 0;
    return ms > year ? (int64_t)year : ms < 1 ? 1 : (int64_t)ms;
}
