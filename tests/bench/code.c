#include "code.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "steps.h"

/* How often each is done when --count has its default. */
enum { RUNS = 100, CONTEXTS = 4, CLONES = 1 };
/* A process for the next context needs some 50 ms on an idle machine; --count bounds the files of
 * the repository. */
enum { REFILL_MS = 400, FILES = 10000 };

/* Whether a command is there; what is not cannot be measured. */
static bool have(const char *command)
{
    char line[64];
    double ms;
    struct error err = {0};
    snprintf(line, sizeof line, "command -v %s >/dev/null", command);
    if (raw_bash_run(line, &ms, &err) == 0)
        return true;
    fprintf(stderr, "bench: no %s, so no rows about it\n", command);
    return false;
}

/* Code. */

struct lab {
    const char *language, *program;
    enum row_id row;
    bool there;
    struct buf run;
    char context[64];
};

static const struct lab languages[] = {
    {.language = "javascript", .program = "node", .row = ROW_CODE_JS},
    {.language = "python", .program = "python3", .row = ROW_CODE_PY},
};
enum { LANGUAGES = sizeof languages / sizeof *languages };

/* Makes a context; its id is the answer's. */
static int make_context(struct client *client, struct lab *lab, double *ms, struct error *err)
{
    char body[96];
    snprintf(body, sizeof body, "[{\"language\":\"%s\"}]", lab->language);
    double start = stats_now_ms();
    int result = steps_post(client, body, "\"id\":", "/sandbox/code/createCodeContext", 0, err);
    *ms = stats_now_ms() - start;
    if (result < 0)
        return result;
    const char *id = strstr(client_body(client), "\"id\":\"") + strlen("\"id\":\"");
    snprintf(lab->context, sizeof lab->context, "%.*s", (int)strcspn(id, "\""), id);
    return 0;
}

static int drop_context(struct client *client, const struct lab *lab, struct error *err)
{
    char body[96];
    snprintf(body, sizeof body, "[\"%s\"]", lab->context);
    return steps_post(client, body, NULL, "/sandbox/code/deleteCodeContext", 0, err);
}

static int open_lab(struct client *client, struct lab *lab, struct error *err)
{
    double ms;
    char body[256];
    lab->run = BUF_INIT(SMALL_REQUEST);
    lab->there = have(lab->program);
    int result = lab->there ? make_context(client, lab, &ms, err) : 0;
    snprintf(body, sizeof body, "[\"1+1\",{\"context\":{\"id\":\"%s\",\"language\":\"%s\"}}]",
             lab->context, lab->language);
    if (result == 0 && steps_make_post(&lab->run, body, "/sandbox/code/runCode", 0) < 0)
        result = error_errno(err, ENOMEM, "request");
    return result;
}

/* The next context finds a process that waits: what ran before had time to end. */
static int context_batch(struct bench *bench, struct client *client, struct lab *lab,
                         struct error *err)
{
    int result = 0;
    for (int i = steps_part(bench, CONTEXTS); result == 0 && i > 0; i--) {
        struct lab other = *lab;
        double ms;
        poll(NULL, 0, REFILL_MS);
        result = make_context(client, &other, &ms, err);
        if (result == 0)
            result = steps_add(bench, ROW_CONTEXT, ms, err);
        if (result == 0)
            result = drop_context(client, &other, err);
    }
    return result;
}

static int code_round(struct bench *bench, struct client *client, struct lab *all,
                      struct error *err)
{
    int result = 0;
    for (struct lab *lab = all; result == 0 && lab < all + LANGUAGES; lab++) {
        if (!lab->there)
            continue;
        result = context_batch(bench, client, lab, err);
        poll(NULL, 0, REFILL_MS);
        if (result == 0)
            result = steps_batch(bench, lab->row, client, &lab->run, "\"text\":\"2\"",
                                 steps_part(bench, RUNS), err);
    }
    return result;
}

int measure_code(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    struct lab all[LANGUAGES];
    memcpy(all, languages, sizeof all);
    int result = program_start(&program, bench->scratch, err);
    if (result == 0)
        result = client_open(&client, program.port, err);
    for (int i = 0; result == 0 && i < LANGUAGES; i++)
        result = open_lab(&client, &all[i], err);
    for (int round = 0; result == 0 && round < bench->rounds; round++)
        result = code_round(bench, &client, all, err);
    for (int i = 0; i < LANGUAGES; i++)
        buf_free(&all[i].run);
    return result;
}

/* Clones. */

/* A bare repository with one commit and one pack, as a mirror has: a hundred files in each
 * directory, each with a few lines of its own. */
static int make_repository(const struct bench *bench, struct error *err)
{
    static const char recipe[] =
        "set -e; cd %s; mkdir -p mirror/acme; git init -q --bare mirror/acme/big.git\n"
        "awk 'BEGIN { print \"commit refs/heads/main\\ncommitter b <b@b> 1700000000 +0000\";\n"
        "  print \"data 2\\nm\"; for (i = 0; i < %d; i++) {\n"
        "  t = \"file \" i \"\\n\"; while (length(t) < 400) t = t \"line \" length(t) * i "
        "\"\\n\";\n"
        "  printf \"M 100644 inline d%%d/f%%d\\ndata %%d\\n%%s\\n\", int(i / 100), i, length(t), "
        "t\n"
        "  } }' | git -C mirror/acme/big.git fast-import --quiet\n"
        "git -C mirror/acme/big.git symbolic-ref HEAD refs/heads/main\n"
        "git -C mirror/acme/big.git repack -adq";
    char script[1024];
    double ms;
    int files = steps_part(bench, FILES);
    snprintf(script, sizeof script, recipe, bench->scratch, files < FILES ? files : FILES);
    return raw_bash_run(script, &ms, err);
}

/* The container's layer is a tmpfs, so this one gets one as well. */
static int bare_clone(struct bench *bench, struct error *err)
{
    char script[256], directory[] = "/dev/shm/bench-XXXXXX";
    double ms;
    if (!mkdtemp(directory))
        return error_errno(err, errno, "directory on a tmpfs");
    snprintf(script, sizeof script, "exec git clone -q %s/mirror/acme/big.git %s/big",
             bench->scratch, directory);
    int result = raw_bash_run(script, &ms, err);
    if (result == 0)
        result = steps_add(bench, ROW_BARE_CLONE, ms, err);
    program_run((const char *const[]){"rm", "-rf", directory, NULL});
    return result;
}

static int clone_once(struct bench *bench, struct client *client, int id, struct error *err)
{
    int result = steps_post(client, "[\"true\"]", EXIT_ZERO, "/sandbox/clone-%d/exec", id, err);
    double start = stats_now_ms();
    if (result == 0)
        result = steps_post(client, "[\"https://bench.invalid/acme/big\"]", "\"success\":true",
                            "/sandbox/clone-%d/gitCheckout", id, err);
    double ms = stats_now_ms() - start;
    if (result == 0)
        result = steps_add(bench, ROW_CLONE, ms, err);
    return result < 0 ? result
                      : steps_post(client, "[]", NULL, "/sandbox/clone-%d/destroy", id, err);
}

int measure_clone(struct bench *bench, struct error *err)
{
    CLEANUP_PROGRAM struct program program = {0};
    CLEANUP_CLIENT struct client client = CLIENT_INIT;
    char mirror[128];
    if (!have("git"))
        return 0;
    snprintf(mirror, sizeof mirror, "https://bench.invalid/=%s/mirror", bench->scratch);
    int result = make_repository(bench, err);
    program_mirror = mirror;
    if (result == 0)
        result = program_start(&program, bench->scratch, err);
    program_mirror = NULL;
    if (result == 0)
        result = client_open(&client, program.port, err);
    for (int i = 0; result == 0 && i < bench->rounds * steps_part(bench, CLONES); i++) {
        result = clone_once(bench, &client, i, err);
        if (result == 0)
            result = bare_clone(bench, err);
    }
    return result;
}
