/* What a demo does with an answer: paths, saved values, expectations. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "cli/demo.h"
#include "clock/clock.h"

enum { SHOWN_BYTES = 160, EXPANDED_MAX = 64 << 20 };

/* One step of a path: ".name" or "[7]"; the length, or 0 when it is neither. */
static size_t path_step(const char *at)
{
    if (*at == '.') {
        size_t size = strcspn(at + 1, ".[");
        return size ? size + 1 : 0;
    }
    size_t digits = *at == '[' ? strspn(at + 1, "0123456789") : 0;
    return digits > 0 && digits < 9 && at[digits + 1] == ']' ? digits + 2 : 0;
}

static const json_t *member(const json_t *object, const char *name, size_t size)
{
    char copy[128];
    if (size >= sizeof copy)
        return NULL;
    snprintf(copy, sizeof copy, "%.*s", (int)size, name);
    return json_object_get(object, copy);
}

bool demo_path_valid(const char *path)
{
    if (*path != '.')
        return false;
    path += path[1] == '[' || !path[1]; /* "." alone, and ".[0]" as jq writes it */
    for (size_t size; *path; path += size) {
        size = path_step(path);
        if (!size)
            return false;
    }
    return true;
}

const json_t *demo_at(const json_t *json, const char *path)
{
    path += path[1] == '[' || !path[1];
    for (size_t size; json && *path; path += size) {
        size = path_step(path);
        if (!size)
            return NULL;
        if (*path == '[')
            json = json_array_get(json, strtoul(path + 1, NULL, 10));
        else
            json = member(json, path + 1, size - 1);
    }
    return json;
}

/* Saved values. */

static int add_value(struct buf *to, const json_t *value, bool escaped)
{
    CLEANUP_FREE char *dumped =
        json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *text = dumped ? dumped : json_string_value(value);
    size_t size = dumped ? strlen(dumped) : json_string_length(value);
    if (!text)
        return -ENOMEM;
    return escaped ? jsonstr_escape(to, text, size) : buf_add(to, text, size);
}

int demo_expand(struct buf *to, const char *text, const struct demo_values *values, bool escaped,
                struct error *err)
{
    for (const char *open; (open = strstr(text, "{{")); text = strstr(open, "}}") + 2) {
        const char *close = strstr(open, "}}");
        if (!close)
            break;
        const json_t *value = member(values->values, open + 2, (size_t)(close - open - 2));
        if (!value)
            return error_set(err, ENOENT, "no value was saved as '%.*s'",
                             (int)(close - open - 2 > 60 ? 60 : close - open - 2), open + 2);
        buf_add(to, text, (size_t)(open - text));
        int result = add_value(to, value, escaped);
        if (result < 0)
            return error_errno(err, -result, "put in a saved value");
    }
    int result = buf_adds(to, text);
    return result < 0 ? error_errno(err, -result, "put in the saved values") : 0;
}

/* Expectations. */

/* JSON for people: compact, cut where it gets long. */
static void shorten(const json_t *value, char to[SHOWN_BYTES])
{
    CLEANUP_FREE char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (!text) {
        snprintf(to, SHOWN_BYTES, "nothing");
        return;
    }
    int written = snprintf(to, SHOWN_BYTES, "%s", text);
    if (written >= SHOWN_BYTES)
        snprintf(to + SHOWN_BYTES - 5, 5, " …");
}

static bool contains(const json_t *found, const json_t *wanted)
{
    const char *part = json_string_value(wanted);
    if (json_is_string(found))
        return part && strstr(json_string_value(found), part);
    CLEANUP_FREE char *text = json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY);
    return text && part && strstr(text, part);
}

/* 20 and 20.0 are the same here, as they are for everybody who reads the answer. */
static bool equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static bool holds(enum demo_relation relation, const json_t *found, const json_t *wanted)
{
    bool numbers = json_is_number(found) && json_is_number(wanted);
    switch (relation) {
    case DEMO_IS:
        return found && equal(found, wanted);
    case DEMO_IS_NOT:
        return !found || !equal(found, wanted);
    case DEMO_HAS:
        return found && contains(found, wanted);
    case DEMO_AT_LEAST:
        return numbers && json_number_value(found) >= json_number_value(wanted);
    case DEMO_BELOW:
        return numbers && json_number_value(found) < json_number_value(wanted);
    case DEMO_EXISTS:
        return found;
    case DEMO_ABSENT:
        return !found;
    case DEMO_STATUS:
    case DEMO_TEXT:
    case DEMO_NO_TEXT:
        break;
    }
    return false;
}

/* The value of a check with its names replaced; NULL with err. */
static json_t *wanted_value(const struct demo_check *check, const struct demo_values *values,
                            struct error *err)
{
    CLEANUP_BUF struct buf text = BUF_INIT(EXPANDED_MAX);
    json_error_t where;
    if (demo_expand(&text, check->value, values, true, err) < 0)
        return NULL;
    json_t *value = json_loadb(buf_text(&text), text.size, JSON_DECODE_ANY, &where);
    if (!value)
        error_set(err, EINVAL, "the value is not JSON: %s", where.text);
    return value;
}

static int check_text(const struct demo_check *check, const struct client_answer *answer,
                      const json_t *wanted, struct error *err)
{
    const char *part = json_string_value(wanted);
    bool found = part && memmem(buf_text(&answer->body), answer->body.size, part, strlen(part));
    if (found == (check->relation == DEMO_TEXT))
        return 0;
    return error_set(err, EINVAL, "expected %s, but the answer is %d %.*s", check->text,
                     answer->status, SHOWN_BYTES, buf_text(&answer->body));
}

int demo_check(const struct demo_check *check, const struct client_answer *answer,
               const struct demo_values *values, struct error *err)
{
    if (check->relation == DEMO_STATUS) {
        if (answer->status == check->status)
            return 0;
        return error_set(err, EINVAL, "expected %d, but %d came: %.*s", check->status,
                         answer->status, SHOWN_BYTES, buf_text(&answer->body));
    }
    CLEANUP_JSON json_t *wanted = check->value ? wanted_value(check, values, err) : NULL;
    if (check->value && !wanted)
        return -EINVAL;
    if (check->relation == DEMO_TEXT || check->relation == DEMO_NO_TEXT)
        return check_text(check, answer, wanted, err);
    const json_t *found = demo_at(answer->json, check->path);
    if (holds(check->relation, found, wanted))
        return 0;
    char shown[SHOWN_BYTES];
    shorten(found, shown);
    return error_set(err, EINVAL, "expected %s, but %s is %s", check->text + strlen("json "),
                     check->path, shown);
}

/* The clock. */

static const struct clock_row {
    const char *word;
    const char *member; /* of the body that takes the second word; NULL = there is none */
    const char *path;
} clock_rows[] = {
    {"advance", "by", "advance"}, {"to", "to", "advance"},    {"next", NULL, "next"},
    {"freeze", NULL, "freeze"},   {"resume", NULL, "resume"},
};

static const struct clock_row *clock_row(const char *text, const char **value)
{
    size_t size = strcspn(text, " \t\n");
    *value = text + size + strspn(text + size, " \t\n");
    for (size_t i = 0; i < sizeof clock_rows / sizeof *clock_rows; i++) {
        if (strlen(clock_rows[i].word) == size && strncmp(clock_rows[i].word, text, size) == 0)
            return &clock_rows[i];
    }
    return NULL;
}

bool demo_clock_valid(const char *text)
{
    const char *value;
    const struct clock_row *row = clock_row(text, &value);
    if (!row || !row->member)
        return row && !*value;
    return strcmp(row->member, "by") == 0 ? clock_parse_duration(value) >= 0
                                          : clock_parse_time(value) >= 0;
}

void demo_clock_request(const char *text, struct demo_request *request)
{
    const char *value;
    const struct clock_row *row = clock_row(text, &value);
    *request = (struct demo_request){.method = "POST"};
    snprintf(request->path, sizeof request->path, "/cdn-cgi/local/clock/%s", row->path);
    if (row->member)
        snprintf(request->body, sizeof request->body, "{\"%s\": \"%s\"}", row->member, value);
}
