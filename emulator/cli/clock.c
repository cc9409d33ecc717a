/* `sandpit clock`: shows and turns the emulator's clock. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "clock/clock.h"
#include "worker/nearest.h"

static const struct action {
    const char *name;
    const char *method;
    const char *path;
    const char *member; /* the request's member that takes the argument; NULL = no argument */
} actions[] = {
    {"show", "GET", "/cdn-cgi/local/clock", NULL},
    {"advance", "POST", "/cdn-cgi/local/clock/advance", "by"},
    {"to", "POST", "/cdn-cgi/local/clock/advance", "to"},
    {"next", "POST", "/cdn-cgi/local/clock/next", NULL},
    {"freeze", "POST", "/cdn-cgi/local/clock/freeze", NULL},
    {"resume", "POST", "/cdn-cgi/local/clock/resume", NULL},
};

static const struct action *find_action(const char *name, struct error *err)
{
    struct nearest nearest = nearest_to(name);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
        nearest_try(&nearest, actions[i].name);
    }
    if (nearest.best)
        error_set(err, EINVAL, "unknown action '%s'; did you mean %s?", name, nearest.best);
    else
        error_set(err, EINVAL, "unknown action '%s'", name);
    return NULL;
}

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* What happened on the way, one line for each event. */
static void print_events(const json_t *events)
{
    CLEANUP_TABLE struct table table = {.columns = 4};
    size_t index;
    json_t *event;
    json_array_foreach(events, index, event)
    {
        if (table_add(&table, (const char *[]){member(event, "at"), member(event, "sandbox"),
                                               member(event, "type"), member(event, "reason")}) < 0)
            return;
    }
    if (table.rows > 0)
        table_print(&table, stdout);
}

static void print_clock(const json_t *clock)
{
    printf("now      %s\nmode     %s\n", member(clock, "now"), member(clock, "mode"));
    int64_t now = text_time(json_object_get(clock, "now"));
    const json_t *pending = json_object_get(clock, "pending");
    if (json_array_size(pending) == 0)
        printf("pending  nothing\n");
    size_t index;
    json_t *timer;
    json_array_foreach(pending, index, timer)
    {
        char left[32];
        text_duration(text_time(json_object_get(timer, "at")) - now, left);
        printf("%-9s%s  %s  in %s  %s\n", index == 0 ? "pending" : "", member(timer, "at"),
               member(timer, "kind"), left, member(timer, "sandbox"));
    }
}

static int act(const struct client *client, const struct action *action, const char *argument,
               bool json, struct error *err)
{
    CLEANUP_JSON json_t *body = argument ? json_pack("{s:s}", action->member, argument) : NULL;
    CLEANUP_ANSWER struct client_answer answer = {0};
    int result = client_call(client, action->method, action->path, body, &answer, err);
    if (result < 0)
        return result;
    bool unsettled = json_is_false(json_object_get(answer.json, "settled"));
    if (json) {
        text_json(answer.json);
    } else {
        print_events(json_object_get(answer.json, "events"));
        CLEANUP_ANSWER struct client_answer clock = {0};
        result = client_call(client, "GET", "/cdn-cgi/local/clock", NULL, &clock, err);
        if (result < 0)
            return result;
        print_clock(clock.json);
    }
    return unsettled ? error_set(err, ETIMEDOUT, "not everything has settled yet") : 0;
}

static int check_argument(const struct action *action, const char *argument, struct error *err)
{
    if (!argument)
        return 0;
    if (strcmp(action->member, "by") == 0 && clock_parse_duration(argument) < 0)
        return error_set(err, EINVAL, "'%s' is no duration (90s, 10m, 2h30m, 1d)", argument);
    if (strcmp(action->member, "to") == 0 && clock_parse_time(argument) < 0)
        return error_set(err, EINVAL, "'%s' is no time (2027-01-01T00:00:00Z)", argument);
    return 0;
}

int cmd_clock(int argc, char **argv)
{
    struct client_choice choice = {0};
    bool json = false;
    const struct opt rows[] = {
        OPT_FLAG("json", 0, &json, "print the emulator's answer as JSON"),
        CLIENT_OPTIONS(&choice),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit clock [options] [show|advance D|to TIME|next|freeze|resume]",
        .about = "Shows the emulator's clock and what is due, or turns it:\n"
                 "  advance D   forward by D (90s, 10m, 2h30m, 1d), firing what is due\n"
                 "  to TIME     forward to an ISO 8601 time\n"
                 "  next        forward to the next pending timer\n"
                 "  freeze      stop the clock\n"
                 "  resume      let it run",
        .rows = rows,
        .max = 2};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    const struct action *action =
        find_action(rest.argument_count > 0 ? rest.arguments[0] : "show", &err);
    if (!action)
        return text_fail("clock", &err, 2);
    const char *argument = rest.argument_count > 1 ? rest.arguments[1] : NULL;
    if (!argument != !action->member) {
        error_set(&err, EINVAL, "%s %s", action->name,
                  action->member ? "needs an argument: a duration or a time" : "takes no argument");
        return text_fail("clock", &err, 2);
    }
    if (check_argument(action, argument, &err) < 0)
        return text_fail("clock", &err, 2);
    struct client client;
    if (client_choose(&choice, &client, &err) < 0 || act(&client, action, argument, json, &err) < 0)
        return text_fail("clock", &err, 1);
    return 0;
}
