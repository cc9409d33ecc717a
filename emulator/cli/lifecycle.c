/* `sandpit stop`, `sandpit destroy` and `sandpit replace`: the lifecycle by hand. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/percent.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/text.h"

enum { PATH_BYTES_MAX = 4096 };

static int send_one(const struct client *client, const char *action, const char *id,
                    const char *class_name, struct error *err)
{
    CLEANUP_BUF struct buf path = BUF_INIT(PATH_BYTES_MAX);
    int result = buf_adds(&path, "/cdn-cgi/local/sandboxes/");
    result = result < 0 ? result : percent_encode(&path, id);
    result = result < 0 ? result : buf_addf(&path, "/%s", action);
    if (result == 0 && class_name) {
        result = buf_adds(&path, "?class=");
        result = result < 0 ? result : percent_encode(&path, class_name);
    }
    if (result < 0)
        return error_set(err, E2BIG, "the sandbox id is too long");
    CLEANUP_ANSWER struct client_answer answer = {0};
    return client_call(client, "POST", buf_text(&path), NULL, &answer, err);
}

static int lifecycle(int argc, char **argv, const char *action, const char *synopsis,
                     const char *about)
{
    struct client_choice choice = {0};
    const char *class_name = NULL;
    const struct opt rows[] = {
        OPT_TEXT("class", 0, &class_name, "NAME", "the sandboxes of this class"),
        CLIENT_OPTIONS(&choice),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = synopsis, .about = about, .rows = rows, .min = 1, .max = 64};
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    struct client client;
    if (client_choose(&choice, &client, &err) < 0)
        return text_fail(action, &err, 1);
    code = 0;
    for (int i = 0; i < rest.argument_count; i++) {
        if (send_one(&client, action, rest.arguments[i], class_name, &err) < 0)
            code = text_fail(action, &err, 1);
        else
            printf("%s\n", rest.arguments[i]);
    }
    return code;
}

int cmd_stop(int argc, char **argv)
{
    return lifecycle(
        argc, argv, "stop", "sandpit stop [options] ID…",
        "Stops the containers of sandboxes, as the end of their idle time does: files\n"
        "and processes are gone, storage stays.");
}

int cmd_destroy(int argc, char **argv)
{
    return lifecycle(argc, argv, "destroy", "sandpit destroy [options] ID…",
                     "Destroys sandboxes, as destroy() does: at once, with all files and "
                     "processes.\nOptions such as sleepAfter stay.");
}

int cmd_replace(int argc, char **argv)
{
    return lifecycle(
        argc, argv, "replace", "sandpit replace [options] ID…",
        "Takes the containers of sandboxes away, as the platform does when it moves "
        "them:\ncalls in flight are interrupted, the next one gets a fresh container.");
}
