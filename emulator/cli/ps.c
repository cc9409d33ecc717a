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

static int add_sandbox(struct table *table, const json_t *one, int64_t now)
{
    char since[48] = "", sleeps[32] = "", inflight[24], length[32];
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
    return table_add(table,
                     (const char *[]){member(one, "id"), member(one, "class"), member(one, "state"),
                                      since, sleeps, inflight, member(one, "why")});
}

static int print_sandboxes(const json_t *list, int64_t now)
{
    CLEANUP_TABLE struct table table = {.columns = 7};
    int result = table_add(
        &table, (const char *[]){"ID", "CLASS", "STATE", "SINCE", "SLEEPS IN", "INFLIGHT", "WHY"});
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
