/* `sandpit why`: the last life of a sandbox's container, in five lines. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/percent.h"
#include "cli/commands.h"
#include "cli/feed.h"
#include "cli/text.h"

enum { PATH_BYTES_MAX = 4096, LABEL_WIDTH = 9 };

/* What a life did, and how one and many of it are called. */
static const struct {
    const char *member, *one, *many;
} things[] = {
    {"execs", "command", "commands"},      {"fileCalls", "file call", "file calls"},
    {"processes", "process", "processes"}, {"codeRuns", "code run", "code runs"},
    {"clones", "clone", "clones"},         {"sessions", "session", "sessions"},
};

static void label(const char *name)
{
    feed_put_coloured(name, LABEL_WIDTH, "\033[1m");
}

static long long number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void print_start(const json_t *life)
{
    label("started");
    printf("%s, by ", feed_member(life, "startedAt"));
    feed_put(feed_member(life, "startedBy"), 0);
    printf(" (container %lld of this sandbox)\n", number(life, "number"));
}

static void print_did(const json_t *did)
{
    bool any = false;
    label("did");
    for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
        long long count = number(did, things[i].member);
        if (count == 0)
            continue;
        printf("%s%lld %s", any ? ", " : "", count, count == 1 ? things[i].one : things[i].many);
        any = true;
    }
    puts(any ? "" : "nothing");
}

static void print_end(const json_t *life)
{
    const char *command = feed_member(life, "lastCommand");
    label("ended");
    if (!*feed_member(life, "endedAt")) {
        puts("not yet: it runs");
        return;
    }
    printf("%s, ", feed_member(life, "endedAt"));
    feed_put(feed_member(life, "why"), 0);
    if (*command && strcmp(feed_member(life, "end"), "slept") == 0) {
        fputs(" \"", stdout);
        feed_put(command, 0);
        putchar('"');
    }
    putchar('\n');
}

static void print_lost(const json_t *life)
{
    const json_t *lost = json_object_get(life, "lost");
    size_t index;
    json_t *path;
    label("lost");
    if (json_array_size(lost) == 0) {
        puts("no files");
        return;
    }
    json_array_foreach(lost, index, path)
    {
        fputs(index ? ", " : "", stdout);
        feed_put(json_string_value(path), 0);
    }
    long long more = number(life, "lostMore");
    bool all = json_is_true(json_object_get(life, "lostIsAll"));
    if (more > 0)
        printf(" and %lld more%s", more, all ? "" : " at least");
    putchar('\n');
}

static void print_advice(const json_t *list)
{
    size_t index;
    json_t *text;
    label("instead");
    json_array_foreach(list, index, text)
    {
        fputs(index ? "; or " : "", stdout);
        feed_put(json_string_value(text), 0);
    }
    putchar('\n');
}

static void print_why(const json_t *answer)
{
    const json_t *last = json_object_get(answer, "last"), *now = json_object_get(answer, "now");
    const json_t *life = json_is_object(last) ? last : now;
    if (!json_is_object(life)) {
        printf("no container of this sandbox has run since the emulator started\n");
        return;
    }
    print_start(life);
    print_did(json_object_get(life, "did"));
    print_end(life);
    if (life == now)
        return;
    print_lost(life);
    print_advice(json_object_get(answer, "wouldHaveKept"));
    if (json_is_object(now)) {
        label("now");
        printf("another one runs since %s\n", feed_member(now, "startedAt"));
    }
}

static int ask(const struct client_choice *choice, const char *id, const char *class_name,
               struct client_answer *answer, struct error *err)
{
    CLEANUP_BUF struct buf path = BUF_INIT(PATH_BYTES_MAX);
    struct client client;
    buf_adds(&path, "/cdn-cgi/local/sandboxes/");
    percent_encode(&path, id);
    buf_adds(&path, "/why");
    if (class_name) {
        buf_adds(&path, "?class=");
        percent_encode(&path, class_name);
    }
    if (path.error)
        return error_set(err, E2BIG, "the sandbox id is too long");
    int result = client_choose(choice, &client, err);
    return result < 0 ? result : client_call(&client, "GET", buf_text(&path), NULL, answer, err);
}

int cmd_why(int argc, char **argv)
{
    struct client_choice choice = {0};
    const char *class_name = NULL;
    bool json = false;
    const struct opt rows[] = {
        OPT_TEXT("class", 0, &class_name, "NAME", "the sandbox of this class"),
        OPT_FLAG("json", 0, &json, "print the emulator's answer as JSON"),
        CLIENT_OPTIONS(&choice),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit why [options] ID",
        .about = "Tells the last life of a sandbox's container: how it began, what it did, why it\n"
                 "ended, which files were lost with it, and what would have kept them.",
        .rows = rows,
        .min = 1,
        .max = 1};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    CLEANUP_ANSWER struct client_answer answer = {0};
    if (ask(&choice, rest.arguments[0], class_name, &answer, &err) < 0)
        return text_fail("why", &err, 1);
    if (json)
        text_json(answer.json);
    else
        print_why(answer.json);
    return 0;
}
