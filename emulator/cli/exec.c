/* `sandpit exec`: one command in a sandbox, with its output and its exit status. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/percent.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "clock/clock.h"

/* What `docker exec` exits with when the command could not be run at all. */
enum { EXIT_NOT_RUN = 125, COMMAND_BYTES_MAX = 1 << 20, PATH_BYTES_MAX = 4096 };

struct exec_options {
    struct client_choice choice;
    struct opt_list env;
    const char *cwd;
    const char *session;
    const char *timeout;
    const char *class_name;
};

static int add_variables(json_t *options, const struct opt_list *list, struct error *err)
{
    if (list->count == 0)
        return 0;
    json_t *env = json_object();
    json_object_set_new(options, "env", env);
    for (size_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        char name[256];
        size_t length = equals ? (size_t)(equals - list->items[i]) : 0;
        if (length == 0 || length >= sizeof name)
            return error_set(err, EINVAL, "--env takes NAME=VALUE, not '%s'", list->items[i]);
        memcpy(name, list->items[i], length);
        name[length] = '\0';
        if (json_object_set_new(env, name, json_string(equals + 1)) < 0)
            return error_set(err, EINVAL, "--env %s: not UTF-8", name);
    }
    return 0;
}

/* The SDK's options of exec. Without --session the command runs on its own, with its output as it
 * is; the default session of the sandbox is left alone. */
static int fill_options(json_t *options, const struct exec_options *given, struct error *err)
{
    if (given->session)
        json_object_set_new(options, "session", json_string(given->session));
    else
        json_object_set_new(options, "enableDefaultSession", json_false());
    if (given->cwd)
        json_object_set_new(options, "cwd", json_string(given->cwd));
    if (given->timeout) {
        int64_t ms = clock_parse_duration(given->timeout);
        if (ms <= 0)
            return error_set(err, EINVAL, "--timeout takes a duration such as 30s, not '%s'",
                             given->timeout);
        json_object_set_new(options, "timeout", json_integer(ms));
    }
    return add_variables(options, &given->env, err);
}

static int make_request(const struct exec_options *given, const struct opt_rest *rest,
                        struct buf *path, json_t **body, struct error *err)
{
    CLEANUP_BUF struct buf command = BUF_INIT(COMMAND_BYTES_MAX);
    if (text_quote_all(&command, rest->rest, rest->rest_count) < 0)
        return error_set(err, E2BIG, "the command is longer than %d bytes", COMMAND_BYTES_MAX);
    CLEANUP_JSON json_t *options = json_object();
    int result = fill_options(options, given, err);
    if (result < 0)
        return result;
    *body = json_pack("[s, O]", buf_text(&command), options);
    if (!*body)
        return error_set(err, EINVAL, "the command is not UTF-8");
    result = buf_adds(path, "/sandbox/");
    result = result < 0 ? result : percent_encode(path, rest->arguments[0]);
    result = result < 0 ? result : buf_adds(path, "/exec");
    if (result == 0 && given->class_name) {
        result = buf_adds(path, "?class=");
        result = result < 0 ? result : percent_encode(path, given->class_name);
    }
    return result < 0 ? error_set(err, E2BIG, "the sandbox id is too long") : 0;
}

static void print_output(const json_t *answer, const char *name, FILE *to)
{
    const json_t *text = json_object_get(answer, name);
    if (json_is_string(text))
        fwrite(json_string_value(text), 1, json_string_length(text), to);
    fflush(to);
}

static int report(const struct client_answer *answer, struct error *err)
{
    const json_t *code = json_object_get(answer->json, "exitCode");
    if (answer->status == 200 && json_is_integer(code)) {
        print_output(answer->json, "stdout", stdout);
        print_output(answer->json, "stderr", stderr);
        return (int)json_integer_value(code) & 0xFF;
    }
    const char *text = json_string_value(json_object_get(answer->json, "error"));
    const char *hint = json_string_value(json_object_get(answer->json, "hint"));
    if (text)
        error_set(err, EINVAL, "%s%s%s", text, hint ? "\nhint: " : "", hint ? hint : "");
    else
        error_set(err, EINVAL, "the emulator answered with status %d", answer->status);
    return text_fail("exec", err, EXIT_NOT_RUN);
}

int cmd_exec(int argc, char **argv)
{
    struct exec_options given = {0};
    const struct opt rows[] = {
        OPT_LIST("env", 'e', &given.env, "K=V", "set a variable for the command (repeatable)"),
        OPT_TEXT("workdir", 'w', &given.cwd, "DIR", "run in DIR (default /workspace)"),
        OPT_TEXT("session", 's', &given.session, "ID", "run in this session, keeping its state"),
        OPT_TEXT("timeout", 't', &given.timeout, "D", "give up after D (30s, 5m)"),
        OPT_TEXT("class", 0, &given.class_name, "NAME", "the sandbox of this class"),
        CLIENT_OPTIONS(&given.choice),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit exec [options] ID [--] CMD…",
        .about = "Runs CMD in the sandbox ID, which starts when it must, and exits with CMD's\n"
                 "status; 125 when it could not be run.",
        .rows = rows,
        .min = 1,
        .max = 1,
        .rest = true};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    if (rest.rest_count == 0) {
        error_set(&err, EINVAL, "there is no command after the id");
        return text_fail("exec", &err, 2);
    }
    CLEANUP_BUF struct buf path = BUF_INIT(PATH_BYTES_MAX);
    CLEANUP_JSON json_t *body = NULL;
    if (make_request(&given, &rest, &path, &body, &err) < 0)
        return text_fail("exec", &err, 2);
    struct client client;
    if (client_choose(&given.choice, &client, &err) < 0)
        return text_fail("exec", &err, EXIT_NOT_RUN);
    CLEANUP_ANSWER struct client_answer answer = {0};
    if (client_request(&client, "POST", buf_text(&path), body, 0, &answer, &err) < 0)
        return text_fail("exec", &err, EXIT_NOT_RUN);
    return report(&answer, &err);
}
