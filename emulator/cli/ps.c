/* `sandpit ps`: the sandboxes of a running emulator. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/text.h"

static const char *member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* "team=search, run=42". */
static const char *labels_text(const json_t *labels, struct buf *to)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)labels, name, value)
        buf_addf(to, "%s%s=%s", to->size ? ", " : "", name, json_string_value(value));
    return to->size ? buf_text(to) : NULL;
}

/* "8080 (web), 9000". */
static const char *ports_text(const json_t *ports, struct buf *to)
{
    size_t index;
    json_t *one;
    json_array_foreach(ports, index, one)
    {
        const char *name = member(one, "name");
        buf_addf(to, "%s%lld%s%s%s", to->size ? ", " : "",
                 (long long)json_integer_value(json_object_get(one, "port")), name ? " (" : "",
                 name ? name : "", name ? ")" : "");
    }
    return to->size ? buf_text(to) : NULL;
}

/* The last two columns are only there when a sandbox has something for them. */
static bool any_placed(const json_t *list)
{
    size_t index;
    json_t *one;
    json_array_foreach(list, index, one)
    {
        if (json_is_object(json_object_get(one, "location")) ||
            json_object_size(json_object_get(one, "labels")) > 0)
            return true;
    }
    return false;
}

static int add_sandbox(struct table *table, const json_t *one, int64_t now)
{
    CLEANUP_BUF struct buf labels = BUF_INIT(4096), ports = BUF_INIT(4096);
    char since[48] = "", sleeps[32] = "", inflight[24], inside[64], length[32];
    int64_t at = text_time(json_object_get(one, "since"));
    if (at >= 0) {
        text_duration(now - at, length);
        snprintf(since, sizeof since, "%s ago", length);
    }
    at = text_time(json_object_get(one, "sleepAt"));
    if (json_is_true(json_object_get(one, "keepAlive")))
        snprintf(sleeps, sizeof sleeps, "never");
    else if (at >= 0)
        text_duration(at - now, sleeps);
    snprintf(inflight, sizeof inflight, "%lld",
             (long long)json_integer_value(json_object_get(one, "inflight")));
    snprintf(inside, sizeof inside, "%zu/%lld", json_array_size(json_object_get(one, "sessions")),
             (long long)json_integer_value(json_object_get(one, "processes")));
    return table_add(table, (const char *[]){member(one, "id"), member(one, "class"),
                                             member(one, "state"), since, sleeps, inflight, inside,
                                             ports_text(json_object_get(one, "ports"), &ports),
                                             member(one, "why"),
                                             member(json_object_get(one, "location"), "colo"),
                                             labels_text(json_object_get(one, "labels"), &labels)});
}

static int print_sandboxes(const json_t *list, int64_t now)
{
    CLEANUP_TABLE struct table table = {.columns = any_placed(list) ? 11 : 9};
    int result =
        table_add(&table, (const char *[]){"ID", "CLASS", "STATE", "SINCE", "SLEEPS IN", "INFLIGHT",
                                           "SESS/PROC", "PORTS", "WHY", "LOCATION", "LABELS"});
    size_t index;
    json_t *one;
    json_array_foreach(list, index, one)
    {
        if (result == 0)
            result = add_sandbox(&table, one, now);
    }
    table_print(&table, stdout);
    return result < 0 ? 1 : 0;
}

int cmd_ps(int argc, char **argv)
{
    struct client_choice choice = {0};
    bool json = false;
    const struct opt rows[] = {
        OPT_FLAG("json", 0, &json, "print the emulator's answer as JSON"),
        CLIENT_OPTIONS(&choice),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit ps [options]",
        .about = "Lists the sandboxes of a running emulator. Times are of its own clock.",
        .rows = rows};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    struct client client;
    CLEANUP_ANSWER struct client_answer answer = {0};
    CLEANUP_ANSWER struct client_answer clock = {0};
    if (client_choose(&choice, &client, &err) < 0 ||
        client_call(&client, "GET", "/cdn-cgi/local/sandboxes", NULL, &answer, &err) < 0)
        return text_fail("ps", &err, 1);
    if (json) {
        text_json(answer.json);
        return 0;
    }
    if (client_call(&client, "GET", "/cdn-cgi/local/clock", NULL, &clock, &err) < 0)
        return text_fail("ps", &err, 1);
    int64_t now = text_time(json_object_get(clock.json, "now"));
    return print_sandboxes(json_object_get(answer.json, "sandboxes"), now);
}
