/* `sandpit fault`: makes things go wrong on purpose. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/percent.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "clock/clock.h"

#define PATH "/cdn-cgi/local/faults"

struct order {
    const char *sandbox, *wait;
    long times, exit_code;
    bool json;
};

static const char *member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* A number of the fault, or "-". */
static const char *number(const json_t *fault, const char *name, const char *none, char to[24])
{
    const json_t *value = json_object_get(fault, name);
    snprintf(to, 24, "%lld", (long long)json_integer_value(value));
    return value ? to : none;
}

static int print_faults(const json_t *faults)
{
    CLEANUP_TABLE struct table table = {.columns = 8};
    if (json_array_size(faults) == 0) {
        printf("no faults\n");
        return 0;
    }
    int result = table_add(&table, (const char *[]){"ID", "ON", "DO", "SANDBOX", "TIMES LEFT", "MS",
                                                    "EXIT CODE", "FIRED"});
    size_t index;
    json_t *fault;
    json_array_foreach(faults, index, fault)
    {
        char times[24], ms[24], code[24], fired[24];
        const char *sandbox = member(fault, "sandbox");
        if (result == 0)
            result =
                table_add(&table, (const char *[]){member(fault, "id"), member(fault, "on"),
                                                   member(fault, "do"), sandbox ? sandbox : "all",
                                                   number(fault, "times", "any", times),
                                                   number(fault, "ms", NULL, ms),
                                                   number(fault, "exitCode", NULL, code),
                                                   number(fault, "fired", NULL, fired)});
    }
    table_print(&table, stdout);
    return result;
}

static int list(const struct client *client, bool json, struct error *err)
{
    CLEANUP_ANSWER struct client_answer answer = {0};
    int result = client_call(client, "GET", PATH, NULL, &answer, err);
    if (result < 0)
        return result;
    if (json)
        text_json(answer.json);
    else
        print_faults(json_object_get(answer.json, "faults"));
    return 0;
}

/* The emulator checks the rest and names what is allowed. */
static int add(const struct client *client, const char *on, const char *what,
               const struct order *order, struct error *err)
{
    CLEANUP_JSON json_t *body = json_pack("{s:s, s:s}", "on", on, "do", what);
    if (!body)
        return error_set(err, EINVAL, "the arguments are not UTF-8");
    if (order->wait) {
        int64_t ms = clock_parse_duration(order->wait);
        if (ms < 0)
            return error_set(err, EINVAL, "--wait takes a duration such as 500ms or 2s, not '%s'",
                             order->wait);
        json_object_set_new(body, "ms", json_integer(ms));
    }
    if (order->times)
        json_object_set_new(body, "times", json_integer(order->times));
    if (order->exit_code >= 0)
        json_object_set_new(body, "exitCode", json_integer(order->exit_code));
    if (order->sandbox && json_object_set_new(body, "sandbox", json_string(order->sandbox)) < 0)
        return error_set(err, EINVAL, "the sandbox id is not UTF-8");
    CLEANUP_ANSWER struct client_answer answer = {0};
    int result = client_call(client, "POST", PATH, body, &answer, err);
    if (result == 0 && order->json)
        text_json(answer.json);
    else if (result == 0)
        printf("%s\n", member(answer.json, "id"));
    return result;
}

static int take_back(const struct client *client, const char *id, bool json, struct error *err)
{
    CLEANUP_BUF struct buf path = BUF_INIT(1024);
    CLEANUP_ANSWER struct client_answer answer = {0};
    int result = buf_adds(&path, PATH);
    if (id && result == 0)
        result = buf_addc(&path, '/') < 0 ? -E2BIG : percent_encode(&path, id);
    if (result < 0)
        return error_set(err, E2BIG, "the id is too long");
    result = client_call(client, "DELETE", buf_text(&path), NULL, &answer, err);
    if (result == 0 && json)
        text_json(answer.json);
    else if (result == 0)
        printf("%lld removed\n",
               (long long)json_integer_value(json_object_get(answer.json, "removed")));
    return result;
}

/* "list", "clear", "remove ID", "[add] ON DO". */
static int act(const struct client_choice *choice, char **words, int count,
               const struct order *order, struct error *err)
{
    const char *action = count ? words[0] : "list";
    bool removes = strcmp(action, "remove") == 0;
    bool lists = strcmp(action, "list") == 0, clears = strcmp(action, "clear") == 0;
    if (strcmp(action, "add") == 0) {
        words++;
        count--;
    }
    if ((lists || clears) ? count > 1 : count != 2) {
        error_set(err, EINVAL,
                  "what is meant? list, clear, remove ID, or ON DO such as start "
                  "no-instance");
        return 2;
    }
    struct client client;
    if (client_choose(choice, &client, err) < 0)
        return 1;
    int result = lists     ? list(&client, order->json, err)
                 : clears  ? take_back(&client, NULL, order->json, err)
                 : removes ? take_back(&client, words[1], order->json, err)
                           : add(&client, words[0], words[1], order, err);
    return result < 0 ? 1 : 0;
}

int cmd_fault(int argc, char **argv)
{
    struct client_choice choice = {0};
    struct order order = {.exit_code = -1};
    const struct opt rows[] = {
        OPT_NUMBER("times", 'n', &order.times, 1, 1000000, "N",
                   "strike N times (default: until it is removed)"),
        OPT_TEXT("sandbox", 0, &order.sandbox, "ID", "strike this sandbox only"),
        OPT_TEXT("wait", 0, &order.wait, "DURATION",
                 "how long a delay is, or after how long a crash, oom or replace comes"),
        OPT_NUMBER("exit-code", 0, &order.exit_code, 0, 255, "N", "of a crash (default 1)"),
        OPT_FLAG("json", 0, &order.json, "print the emulator's answer as JSON"),
        CLIENT_OPTIONS(&choice),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit fault [options] [list|[add] ON DO|remove ID|clear]",
        .about = "Makes something go wrong, so that you see what your program does about it:\n"
                 "  start  no-instance, max-instances, crash, oom, delay, refuse\n"
                 "  exec   crash, oom, replace, delay\n"
                 "  port   refuse, crash, oom, replace, delay\n"
                 "  write  enospc, crash, oom, replace, delay\n"
                 "For example: sandpit fault start no-instance --times 2 --sandbox box",
        .rows = rows,
        .max = 3};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    code = act(&choice, rest.arguments, rest.argument_count, &order, &err);
    return code ? text_fail("fault", &err, code) : 0;
}
