#include "worker/arguments.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const type_names[] = {
    [ARG_STRING] = "string",
    [ARG_NUMBER] = "number",
    [ARG_BOOLEAN] = "boolean",
    [ARG_STRING_OR_NUMBER] = "string or number",
    [ARG_STRING_OR_OBJECT] = "string or object",
    [ARG_NUMBER_OR_OBJECT] = "number or object",
    [ARG_OBJECT] = "object",
    [ARG_VARIABLES] = "object of strings",
    [ARG_CONTENT] = "string",
    [ARG_OPTIONS] = "object",
    [ARG_SESSION] = "string or object",
};

const char *arg_type_name(enum arg_type type)
{
    return type_names[type];
}

static const char *value_type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

static bool has_type(const json_t *value, enum arg_type type)
{
    switch (type) {
    case ARG_STRING:
    case ARG_CONTENT:
        return json_is_string(value);
    case ARG_NUMBER:
        return json_is_number(value);
    case ARG_BOOLEAN:
        return json_is_boolean(value);
    case ARG_STRING_OR_NUMBER:
        return json_is_string(value) || json_is_number(value);
    case ARG_OBJECT:
    case ARG_VARIABLES:
    case ARG_OPTIONS:
        return json_is_object(value);
    case ARG_SESSION:
    case ARG_STRING_OR_OBJECT:
        return json_is_string(value) || json_is_object(value);
    case ARG_NUMBER_OR_OBJECT:
        return json_is_number(value) || json_is_object(value);
    }
    return false;
}

static bool has_nul(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value);
}

static int check_variables(const json_t *variables, const char *where, struct error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)variables, name, value)
    {
        if (!json_is_string(value) && !json_is_null(value))
            return error_set(err, EINVAL, "%s.%.100s must be a string or null, not %s", where, name,
                             value_type_name(value));
        if (has_nul(value))
            return error_set(err, EINVAL, "%s.%.100s must not contain a NUL character", where,
                             name);
    }
    return 0;
}

/* `where` says which argument it is: "argument 1 (command)", "options.cwd". */
static int check(const json_t *value, enum arg_type type, const char *where, struct error *err)
{
    if (!has_type(value, type))
        return error_set(err, EINVAL, "%s must be a value of type %s, not %s", where,
                         arg_type_name(type), value_type_name(value));
    if (type != ARG_CONTENT && has_nul(value))
        return error_set(err, EINVAL, "%s must not contain a NUL character", where);
    return type == ARG_VARIABLES ? check_variables(value, where, err) : 0;
}

/* Sets args.field; "a.b" goes into a nested object. */
static void put(json_t *args, const char *field, json_t *value)
{
    const char *dot = strchr(field, '.');
    if (!dot) {
        json_object_set(args, field, value);
        return;
    }
    CLEANUP_FREE char *outer = strndup(field, (size_t)(dot - field));
    if (!outer)
        return;
    json_t *inner = json_object_get(args, outer);
    if (!inner) {
        inner = json_object();
        json_object_set_new(args, outer, inner);
    }
    json_object_set(inner, dot + 1, value);
}

static int take_options(json_t *args, const struct option_row *options, const json_t *from,
                        const char *prefix, struct error *err)
{
    for (const struct option_row *option = options; option->name; option++) {
        json_t *value = json_object_get(from, option->name);
        if (!value || json_is_null(value))
            continue;
        char where[96];
        snprintf(where, sizeof where, "%s%s", prefix, option->name);
        int result = check(value, option->type, where, err);
        if (result < 0)
            return result;
        put(args, option->field ? option->field : option->name, value);
    }
    return 0;
}

/* One value for one parameter. Null stands for JavaScript's undefined. */
static int take_value(json_t *args, const struct param_row *param, json_t *value, bool cut,
                      const char *where, struct error *err)
{
    const char *field = param->field ? param->field : param->name;
    if (param->type == ARG_CONTENT && cut) {
        json_object_set_new(args, field, json_null());
        return 0;
    }
    if (!value || json_is_null(value)) {
        if (!param->required)
            return 0;
        return error_set(err, EINVAL, "%s is missing: a value of type %s is required", where,
                         arg_type_name(param->type));
    }
    int result = check(value, param->type, where, err);
    if (result < 0)
        return result;
    if (param->options && json_is_object(value)) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%s.", param->name);
        return take_options(args, param->options, value, prefix, err);
    }
    put(args, field, value);
    return 0;
}

static size_t count_params(const struct method_row *row)
{
    size_t count = 0;
    while (count < PARAMS_MAX && row->params[count].name)
        count++;
    return count;
}

json_t *arguments_positional(const struct method_row *row, const json_t *array, bool cut,
                             struct error *err)
{
    size_t count = count_params(row);
    if (json_array_size(array) > count) {
        error_set(err, EINVAL, "%s takes at most %zu argument%s, not %zu", row->name, count,
                  count == 1 ? "" : "s", json_array_size(array));
        return NULL;
    }
    CLEANUP_JSON json_t *args = json_object();
    for (size_t i = 0; i < count; i++) {
        char where[96];
        snprintf(where, sizeof where, "%s: argument %zu (%s)", row->name, i + 1,
                 row->params[i].name);
        if (take_value(args, &row->params[i], json_array_get(array, i), cut, where, err) < 0)
            return NULL;
    }
    return steal_pointer(&args);
}

json_t *arguments_named(const struct method_row *row, const json_t *object, bool cut,
                        struct error *err)
{
    CLEANUP_JSON json_t *args = json_object();
    size_t count = count_params(row);
    for (size_t i = 0; i < count; i++) {
        const struct param_row *param = &row->params[i];
        /* The options' members may stand beside the parameters, so the object that holds them is
         * not required by itself. */
        struct param_row own = *param;
        own.required = param->required && !param->options;
        json_t *value = json_object_get(object, param->name);
        if (take_value(args, &own, value, cut, param->name, err) < 0)
            return NULL;
        if (param->options && take_options(args, param->options, object, "", err) < 0)
            return NULL;
    }
    return steal_pointer(&args);
}
