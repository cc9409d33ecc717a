/* `sandpit events`: what happened in a running emulator, and what happens. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/feed.h"
#include "cli/text.h"
#include "objects/events.h"

enum { SANDBOX_WIDTH = 16, TYPE_WIDTH = 20, DATA_SHOWN = 200 };

/* Members of data as "name=value", for events whose reason does not say it all. */
static void put_data(const json_t *data)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)data, name, value)
    {
        CLEANUP_FREE char *other =
            json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        char text[DATA_SHOWN];
        snprintf(text, sizeof text, " %s=%s", name,
                 json_is_string(value) ? json_string_value(value)
                 : other               ? other
                                       : "");
        feed_put(text, 0);
    }
}

static void print_event(const json_t *event)
{
    const char *sandbox = feed_member(event, "sandbox"), *reason = feed_member(event, "reason");
    feed_put_time(feed_member(event, "at"));
    fputs("  ", stdout);
    feed_put_coloured(*sandbox ? sandbox : "-", SANDBOX_WIDTH, log_name_colour(sandbox));
    putchar(' ');
    const json_t *data = json_object_get(event, "data");
    bool more = *reason || json_object_size(data) > 0;
    feed_put(feed_member(event, "type"), more ? TYPE_WIDTH : 0);
    if (*reason) {
        putchar(' ');
        feed_put(reason, 0);
    } else {
        put_data(data);
    }
    putchar('\n');
}

/* The table of docs/events.md, which needs no emulator. */
static int print_types(void)
{
    CLEANUP_BUF struct buf text = BUF_INIT(1 << 20);
    if (event_types_markdown(&text) < 0)
        return 1;
    fputs(buf_text(&text), stdout);
    return 0;
}

int cmd_events(int argc, char **argv)
{
    struct client_choice choice = {0};
    const char *after = NULL, *sandbox = NULL, *type = NULL, *since = NULL;
    bool types = false;
    struct feed_request request = {.path = "/events", .print = print_event};
    const struct opt rows[] = {
        OPT_FLAG("follow", 'f', &request.follow, "go on with those that come"),
        OPT_TEXT("after", 0, &after, "SEQ", "those with a greater seq"),
        OPT_TEXT("sandbox", 0, &sandbox, "ID", "those of this sandbox"),
        OPT_TEXT("type", 0, &type, "PREFIX", "those whose type begins so: container."),
        OPT_TEXT("since", 0, &since, "DURATION", "those of the last 10m, by the emulator's clock"),
        OPT_FLAG("json", 0, &request.json, "one JSON object in each line"),
        OPT_FLAG("types", 0, &types, "print the types there are, as a Markdown table"),
        CLIENT_OPTIONS(&choice),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit events [options]",
        .about =
            "Shows the events of a running emulator: time by its clock, sandbox, type, reason.",
        .rows = rows};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    if (types)
        return print_types();
    struct error err = {0};
    if (after && (!*after || strspn(after, "0123456789") != strlen(after))) {
        error_set(&err, EINVAL, "--after takes a number, not '%s'", after);
        return text_fail("events", &err, 2);
    }
    struct client client;
    bool failed =
        feed_query(&request, "after", after) < 0 || feed_query(&request, "sandbox", sandbox) < 0 ||
        feed_query(&request, "type", type) < 0 || feed_query(&request, "since", since) < 0;
    if (failed)
        error_set(&err, E2BIG, "the arguments are too long");
    failed = failed || client_choose(&choice, &client, &err) < 0 ||
             feed_run(&client, &request, &err) < 0;
    buf_free(&request.query);
    return failed ? text_fail("events", &err, 1) : 0;
}
