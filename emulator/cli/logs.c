/* `sandpit logs`: what the commands and processes of a sandbox wrote. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/percent.h"
#include "cli/commands.h"
#include "cli/feed.h"
#include "cli/text.h"

enum { SOURCE_WIDTH = 12, PATH_BYTES_MAX = 4096 };

static void print_line(const json_t *line)
{
    const char *stream = feed_member(line, "stream"), *source = feed_member(line, "source");
    const char *colour = strcmp(stream, "stderr") == 0   ? "\033[31m"
                         : strcmp(stream, "stdout") == 0 ? ""
                                                         : "\033[2m";
    feed_put_time(feed_member(line, "at"));
    fputs("  ", stdout);
    feed_put_coloured(source, SOURCE_WIDTH, log_name_colour(source));
    putchar(' ');
    feed_put_coloured(feed_member(line, "text"), 0, colour);
    putchar('\n');
}

static int run(const struct client_choice *choice, struct feed_request *request, const char *id,
               struct error *err)
{
    CLEANUP_BUF struct buf path = BUF_INIT(PATH_BYTES_MAX);
    struct client client;
    buf_adds(&path, "/sandboxes/");
    percent_encode(&path, id);
    if (buf_adds(&path, "/logs") < 0)
        return error_set(err, E2BIG, "the sandbox id is too long");
    request->path = buf_text(&path);
    int result = client_choose(choice, &client, err);
    return result < 0 ? result : feed_run(&client, request, err);
}

int cmd_logs(int argc, char **argv)
{
    struct client_choice choice = {0};
    const char *class_name = NULL, *since = NULL, *source = NULL;
    struct feed_request request = {.print = print_line};
    const struct opt rows[] = {
        OPT_FLAG("follow", 'f', &request.follow, "go on with what comes"),
        OPT_TEXT("since", 0, &since, "DURATION", "the last 10m, by the emulator's clock"),
        OPT_TEXT("source", 0, &source, "NAME", "exec, container, or the id of a process"),
        OPT_TEXT("class", 0, &class_name, "NAME", "the sandbox of this class"),
        OPT_FLAG("json", 0, &request.json, "one JSON object in each line"),
        CLIENT_OPTIONS(&choice),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit logs [options] ID",
        .about =
            "Shows what the processes of a sandbox wrote, and which commands were run, of its\n"
            "container and of the one before.",
        .rows = rows,
        .min = 1,
        .max = 1};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    bool failed = feed_query(&request, "since", since) < 0 ||
                  feed_query(&request, "source", source) < 0 ||
                  feed_query(&request, "class", class_name) < 0;
    if (failed)
        error_set(&err, E2BIG, "the arguments are too long");
    failed = failed || run(&choice, &request, rest.arguments[0], &err) < 0;
    buf_free(&request.query);
    return failed ? text_fail("logs", &err, 1) : 0;
}
