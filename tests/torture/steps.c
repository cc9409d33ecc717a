#include "steps.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOX "/sandbox/box/"

enum { ENTRIES = 40, LARGE = 100000 };

/* Small helpers. */

__attribute__((format(printf, 1, 2))) static const char *told(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return keep(text);
}

static void quietly(const struct emulator *emulator, const char *path, const char *body)
{
    CLEANUP_REPLY struct reply reply = post(emulator, path, body);
}

/* NULL when the command says `expected`. */
static const char *says(const struct emulator *emulator, const char *body, const char *expected)
{
    CLEANUP_REPLY struct reply reply = post(emulator, BOX "exec", body);
    if (reply.status == 200 && strcmp(text_at(reply.json, "stdout"), expected) == 0)
        return NULL;
    return told("%s should say '%s', but: %d %s", body, expected, reply.status,
                reply.body ? reply.body : "no answer");
}

const char *steps_sandbox_works(const struct emulator *emulator)
{
    const char *wrong = says(emulator, "[\"echo in\"]", "in");
    return wrong ? wrong
                 : says(emulator, "[\"echo out\",{\"enableDefaultSession\":false}]", "out\n");
}

bool steps_prepare(const struct emulator *emulator)
{
    char command[512];
    snprintf(command, sizeof command,
             "[\"mkdir -p d && cd d && touch $(seq %d) && cd .. && printf small > small.txt && "
             "head -c %d /dev/zero | tr '\\\\0' x > large.txt && echo ready\"]",
             ENTRIES, LARGE);
    return says(emulator, command, "ready") == NULL;
}

const char step_upgrade[] = "";

static struct reply upgrade(const struct emulator *emulator, const char *path)
{
    char text[512];
    int size = snprintf(text, sizeof text,
                        "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                        "Upgrade: websocket\r\n\r\n",
                        path);
    struct reply reply = {0};
    int fd = dial(emulator);
    if (fd >= 0 && send_all(fd, text, (size_t)size) == 0)
        reply = read_reply(fd);
    if (fd >= 0)
        close(fd);
    return reply;
}

struct reply step_run(const struct emulator *emulator, const struct step *step, int number)
{
    char path[256];
    snprintf(path, sizeof path, step->path, number, number);
    if (step->body == step_upgrade)
        return upgrade(emulator, path);
    if (!step->body)
        return get(emulator, path);
    char *body = NULL;
    if (asprintf(&body, step->body, number, number, number) < 0)
        return (struct reply){0};
    struct reply reply = post(emulator, path, body);
    free(body);
    return reply;
}

/* Where steps start. */

static void destroyed(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "destroy", "[]");
}

static void stopped(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "stop", "[]");
}

static void forget_fresh(const struct emulator *emulator, int number)
{
    char path[64];
    snprintf(path, sizeof path, "/sandbox/fresh-%d/destroy", number);
    quietly(emulator, path, "[]");
}

static void with_session(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "createSession", "[{\"id\":\"gone\"}]");
}

static void delete_session(const struct emulator *emulator, int number)
{
    char body[64];
    snprintf(body, sizeof body, "[\"made-%d\"]", number);
    quietly(emulator, BOX "deleteSession", body);
    quietly(emulator, BOX "deleteSession", "[\"gone\"]");
}

static void with_file(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "exec", "[\"rm -rf a.txt b.txt new; printf old > a.txt\"]");
}

static void unset_variable(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "setEnvVars", "[{\"TORTURED\":null}]");
}

static void usual_options(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "setSleepAfter", "[\"10m\"]");
    quietly(emulator, BOX "setKeepAlive", "[false]");
}

/* What a good answer must be. */

static const char *stdout_is(const struct reply *reply, const char *expected)
{
    if (strcmp(text_at(reply->json, "stdout"), expected) == 0 &&
        number_at(reply->json, "exitCode") == 0 &&
        strcmp(text_at(reply->json, "stderr"), "") == 0 && *text_at(reply->json, "command") &&
        *text_at(reply->json, "timestamp"))
        return NULL;
    return told("the output should be '%s'", expected);
}

static const char *said_hello(const struct emulator *emulator, const struct reply *reply,
                              int number)
{
    return stdout_is(reply, "hello");
}

static const char *ran(const struct emulator *emulator, const struct reply *reply, int number)
{
    char expected[32];
    snprintf(expected, sizeof expected, "out %d", number);
    const char *wrong = stdout_is(reply, expected);
    snprintf(expected, sizeof expected, "%d", number);
    return wrong ? wrong : says(emulator, "[\"cat ran.txt\"]", expected);
}

static const char *ran_alone(const struct emulator *emulator, const struct reply *reply, int number)
{
    return stdout_is(reply, "alone\n");
}

static const char *ran_wrapped(const struct emulator *emulator, const struct reply *reply,
                               int number)
{
    const char *wrong = stdout_is(reply, "it's here /tmp");
    return wrong ? wrong : says(emulator, "[\"echo ${A-unset} $PWD\"]", "unset /workspace");
}

static const char *wrote(const struct emulator *emulator, const struct reply *reply, int number)
{
    char expected[32];
    snprintf(expected, sizeof expected, "written %d", number);
    return says(emulator, "[\"cat w.txt\"]", expected);
}

static const char *read_small(const struct emulator *emulator, const struct reply *reply,
                              int number)
{
    bool fine = strcmp(text_at(reply->json, "content"), "small") == 0 &&
                strcmp(text_at(reply->json, "encoding"), "utf-8") == 0 &&
                number_at(reply->json, "size") == 5 && *text_at(reply->json, "mimeType");
    return fine ? NULL : "the file should be read";
}

static const char *read_large(const struct emulator *emulator, const struct reply *reply,
                              int number)
{
    const char *content = text_at(reply->json, "content");
    bool fine = strlen(content) == LARGE && strspn(content, "x") == LARGE;
    return fine ? NULL : "all of the file should be read";
}

static const char *read_raw(const struct emulator *emulator, const struct reply *reply, int number)
{
    bool fine = reply->size == LARGE && strspn(reply->body, "x") == LARGE;
    return fine ? NULL : "all bytes of the file should come";
}

static const char *wrote_stream(const struct emulator *emulator, const struct reply *reply,
                                int number)
{
    char expected[32];
    snprintf(expected, sizeof expected, "streamed %d", number);
    return says(emulator, "[\"cat s.txt\"]", expected);
}

/* A stream that breaks must not claim to be complete. */
static const char *streamed(const struct emulator *emulator, const struct reply *reply, int number)
{
    const char *text = reply->body ? reply->body : "";
    if (!strstr(text, "\"type\":\"complete\""))
        return NULL;
    size_t seen = 0;
    for (const char *at = text; (at = strstr(at, "\"data\":\"")); at++)
        seen += strspn(at + strlen("\"data\":\""), "x");
    return seen == LARGE ? NULL : told("a complete stream had %zu of %d bytes", seen, LARGE);
}

static const char *listed(const struct emulator *emulator, const struct reply *reply, int number)
{
    const json_t *files = at(reply->json, "files");
    size_t count = json_array_size(files), whole = 0;
    for (size_t i = 0; i < count; i++)
        whole += json_object_size(json_array_get(files, i)) ==
                     json_object_size(json_array_get(files, 0)) &&
                 *text_at(json_array_get(files, i), "name");
    return whole == ENTRIES && number_at(reply->json, "count") == ENTRIES
               ? NULL
               : told("%zu whole entries of %d", whole, ENTRIES);
}

static const char *made(const struct emulator *emulator, const struct reply *reply, int number)
{
    return says(emulator, "[\"test -d new/deep && echo yes\"]", "yes");
}

static const char *renamed(const struct emulator *emulator, const struct reply *reply, int number)
{
    return says(emulator, "[\"cat b.txt; test -e a.txt || echo -moved\"]", "old-moved");
}

static const char *deleted(const struct emulator *emulator, const struct reply *reply, int number)
{
    return says(emulator, "[\"test -e a.txt || echo gone\"]", "gone");
}

static const char *exists(const struct emulator *emulator, const struct reply *reply, int number)
{
    return json_is_true(at(reply->json, "exists")) ? NULL : "the file exists";
}

static const char *has_session(const struct emulator *emulator, const struct reply *reply,
                               int number)
{
    char body[96], expected[32];
    snprintf(body, sizeof body, "[\"echo $V $PWD\",{\"session\":\"made-%d\"}]", number);
    snprintf(expected, sizeof expected, "%d /tmp", number);
    return says(emulator, body, expected);
}

static const char *has_no_session(const struct emulator *emulator, const struct reply *reply,
                                  int number)
{
    CLEANUP_REPLY struct reply box = get(emulator, "/cdn-cgi/local/sandboxes/box");
    return strstr(box.body ? box.body : "", "\"gone\"") ? "the session is still listed" : NULL;
}

/* In the session and, after the container was replaced, in the next one. */
static const char *has_variable(const struct emulator *emulator, const struct reply *reply,
                                int number)
{
    char expected[32];
    snprintf(expected, sizeof expected, "it's %d", number);
    const char *wrong = says(emulator, "[\"echo \\\"$TORTURED\\\"\"]", expected);
    if (wrong)
        return wrong;
    quietly(emulator, BOX "stop", "[]");
    wrong = says(emulator, "[\"echo \\\"$TORTURED\\\"\"]", expected);
    return wrong || steps_prepare(emulator) ? wrong : "the next container should work";
}

static const char *box_has(const struct emulator *emulator, const char *member, long long value)
{
    CLEANUP_REPLY struct reply box = get(emulator, "/cdn-cgi/local/sandboxes/box");
    const json_t *found = at(box.json, member);
    long long is = json_is_boolean(found) ? json_is_true(found) : number_at(box.json, member);
    return is == value ? NULL : told("%s is %lld, not %lld", member, is, value);
}

static const char *sleeps_later(const struct emulator *emulator, const struct reply *reply,
                                int number)
{
    return box_has(emulator, "sleepAfterMs", 7200000);
}

static const char *kept_alive(const struct emulator *emulator, const struct reply *reply,
                              int number)
{
    return box_has(emulator, "keepAlive", 1);
}

static const char *is_healthy(const struct emulator *emulator, const struct reply *reply,
                              int number)
{
    return strcmp(text_at(reply->json, "status"), "healthy") == 0 ? NULL : "it is healthy";
}

static const char *is_exposed(const struct emulator *emulator, const struct reply *reply,
                              int number)
{
    const char *wrong = box_has(emulator, "ports.0.port", 8080);
    if (wrong)
        return wrong;
    return strstr(text_at(reply->json, "url"), "8080-box-tok.") ? NULL : "it has the token's URL";
}

static void take_back(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "unexposePort", "[8080]");
}

#define PREVIEW "/cdn-cgi/local/preview/8080-box-tok/small.txt"

/* A server behind an exposed port; it stays for the next try, and has no pipe to the emulator. */
static void with_preview(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "exposePort", "[8080,{\"token\":\"tok\"}]");
    CLEANUP_REPLY struct reply there = get(emulator, PREVIEW);
    if (there.status == 200)
        return;
    quietly(emulator, BOX "exec",
            "[\"cd /workspace; python3 -m http.server 8080 </dev/null >/dev/null 2>&1 & for i in "
            "$(seq 100); do (: </dev/tcp/127.0.0.1/8080) 2>/dev/null && exit; sleep 0.05; "
            "done\",{\"enableDefaultSession\":false}]");
}

static const char *previewed(const struct emulator *emulator, const struct reply *reply, int number)
{
    return reply->body && strcmp(reply->body, "small") == 0 ? NULL : "it is the file";
}

static const char *box_is(const struct emulator *emulator, const char *state)
{
    CLEANUP_REPLY struct reply box = get(emulator, "/cdn-cgi/local/sandboxes/box");
    return strcmp(text_at(box.json, "state"), state) == 0
               ? NULL
               : told("it should be %s, but: %s", state, box.body ? box.body : "no answer");
}

static const char *is_asleep(const struct emulator *emulator, const struct reply *reply, int number)
{
    return json_is_true(at(reply->json, "settled")) ? box_is(emulator, "stopped") : NULL;
}

static const char *is_stopped(const struct emulator *emulator, const struct reply *reply,
                              int number)
{
    return box_is(emulator, "stopped");
}

static const char *is_destroyed(const struct emulator *emulator, const struct reply *reply,
                                int number)
{
    return box_is(emulator, "destroyed");
}

/* The description of a running sandbox, alone and in the list. */
static const char *described(const json_t *box)
{
    bool fine = strcmp(text_at(box, "state"), "healthy") == 0 &&
                json_is_string(at(box, "lastActivity.when")) &&
                json_is_string(at(box, "sleepAt")) && *text_at(box, "containerUrl") &&
                strcmp(text_at(box, "sessions.0"), "sandbox-box") == 0;
    return fine ? NULL : "the description has holes";
}

static const char *described_alone(const struct emulator *emulator, const struct reply *reply,
                                   int number)
{
    return described(reply->json);
}

static const char *described_in_list(const struct emulator *emulator, const struct reply *reply,
                                     int number)
{
    const json_t *list = at(reply->json, "sandboxes");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(text_at(json_array_get(list, i), "id"), "box") == 0)
            return described(json_array_get(list, i));
    }
    return "the sandbox is not listed";
}

static const char *is_json(const struct emulator *emulator, const struct reply *reply, int number)
{
    return reply->json && json_object_size(reply->json) > 0 ? NULL : "the answer should be JSON";
}

static const char *has_events(const struct emulator *emulator, const struct reply *reply,
                              int number)
{
    size_t size = reply->size;
    return size > 2 && reply->body[size - 1] == '\n' && reply->body[size - 2] == '}'
               ? NULL
               : "the events are cut";
}

#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X1K X64 X64 X64 X64 X64 X64 X64 X64 X64 X64 X64 X64 X64 X64 X64 X64
#define X8K X1K X1K X1K X1K X1K X1K X1K X1K

static const char *wrote_large(const struct emulator *emulator, const struct reply *reply,
                               int number)
{
    char expected[32];
    snprintf(expected, sizeof expected, "8192 %d", number);
    return says(emulator, "[\"echo $(head -1 W.txt | tr -d '\\\\n' | wc -c) $(tail -1 W.txt)\"]",
                expected);
}

const struct step steps[] = {
    {"first exec", BOX "exec", "[\"echo hello\"]", destroyed, said_hello, NULL},
    {"exec after sleep", BOX "exec", "[\"echo hello\"]", stopped, said_hello, NULL},
    {"exec", BOX "exec", "[\"printf %d > ran.txt; echo out %d\"]", NULL, ran, NULL},
    {"exec without session", BOX "exec", "[\"echo alone\",{\"enableDefaultSession\":false}]", NULL,
     ran_alone, NULL},
    {"exec with env and cwd", BOX "exec",
     "[\"echo $A $PWD\",{\"env\":{\"A\":\"it's here\"},\"cwd\":\"/tmp\"}]", NULL, ran_wrapped,
     NULL},
    {"api execute", "/api/execute?sandboxId=box", "{\"command\":\"echo hello\"}", NULL, said_hello,
     NULL},
    {"writeFile", BOX "writeFile", "[\"/workspace/w.txt\",\"written %d\"]", NULL, wrote, NULL},
    {"large writeFile", BOX "writeFile", "[\"/workspace/W.txt\",\"" X8K "\\n%d\"]", NULL,
     wrote_large, NULL},
    {"readFile", BOX "readFile", "[\"/workspace/small.txt\"]", NULL, read_small, NULL},
    {"large readFile", BOX "readFile", "[\"large.txt\"]", NULL, read_large, NULL},
    {"writeFileStream", BOX "writeFileStream?path=/workspace/s.txt", "streamed %d", NULL,
     wrote_stream, NULL},
    {"raw readFile", BOX "readFile", "[\"/workspace/large.txt\",{\"encoding\":\"none\"}]", NULL,
     read_raw, NULL},
    {"readFileStream", BOX "readFileStream", "[\"/workspace/large.txt\"]", NULL, streamed, NULL},
    {"listFiles", BOX "listFiles", "[\"/workspace/d\"]", NULL, listed, NULL},
    {"mkdir", BOX "mkdir", "[\"/workspace/new/deep\",{\"recursive\":true}]", with_file, made, NULL},
    {"renameFile", BOX "renameFile", "[\"/workspace/a.txt\",\"/workspace/b.txt\"]", with_file,
     renamed, NULL},
    {"moveFile", BOX "moveFile", "[\"/workspace/a.txt\",\"/workspace/b.txt\"]", with_file, renamed,
     NULL},
    {"deleteFile", BOX "deleteFile", "[\"/workspace/a.txt\"]", with_file, deleted, NULL},
    {"exists", BOX "exists", "[\"/workspace/small.txt\"]", NULL, exists, NULL},
    {"createSession", BOX "createSession",
     "[{\"id\":\"made-%d\",\"env\":{\"V\":\"%d\"},\"cwd\":\"/tmp\"}]", NULL, has_session,
     delete_session},
    {"deleteSession", BOX "deleteSession", "[\"gone\"]", with_session, has_no_session,
     delete_session},
    {"setEnvVars", BOX "setEnvVars", "[{\"TORTURED\":\"it's %d\"}]", NULL, has_variable,
     unset_variable},
    {"setSleepAfter", BOX "setSleepAfter", "[\"2h\"]", NULL, sleeps_later, usual_options},
    {"setKeepAlive", BOX "setKeepAlive", "[true]", NULL, kept_alive, usual_options},
    {"getState", BOX "getState", "[]", NULL, is_healthy, NULL},
    {"sandboxes", "/cdn-cgi/local/sandboxes", NULL, NULL, described_in_list, NULL},
    {"sandbox", "/cdn-cgi/local/sandboxes/box", NULL, NULL, described_alone, NULL},
    {"clock", "/cdn-cgi/local/clock", NULL, NULL, is_json, NULL},
    {"events", "/cdn-cgi/local/events", NULL, NULL, has_events, NULL},
    {"exposePort", BOX "exposePort", "[8080,{\"token\":\"tok\"}]", take_back, is_exposed, NULL},
    {"preview", PREVIEW, NULL, with_preview, previewed, NULL},
    {"idle sleep", "/cdn-cgi/local/clock/advance", "{\"by\":\"11m\"}", NULL, is_asleep, NULL},
    {"stop", BOX "stop", "[]", NULL, is_stopped, NULL},
    {"destroy", BOX "destroy", "[]", NULL, is_destroyed, NULL},
    /* Last, because each stays in the list of sandboxes. */
    {"new sandbox", "/sandbox/fresh-%d/exec", "[\"echo hello\"]", NULL, said_hello, forget_fresh},
    {0},
};
