/* Steps with processes, and with a server that runs in the sandbox. */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

#define BOX "/sandbox/box/"

enum { LINES = 3000 };

static void quietly(const struct emulator *emulator, const char *path, const char *body)
{
    CLEANUP_REPLY struct reply reply = post(emulator, path, body);
}

static const char *status_of(const struct emulator *emulator, const char *id)
{
    char body[64];
    snprintf(body, sizeof body, "[\"%s\"]", id);
    CLEANUP_REPLY struct reply reply = post(emulator, BOX "getProcess", body);
    return keep(text_at(reply.json, "status"));
}

/* Where steps start. */

/* One that has printed and ended. */
static void with_ended(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "startProcess",
            "[\"echo ready; seq 3000; exit 7\",{\"processId\":\"ended\"}]");
    quietly(emulator, BOX "waitForExit", "[\"ended\"]");
}

static void with_victim(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "startProcess", "[\"sleep 700 & sleep 700\",{\"processId\":\"victim\"}]");
}

static void none_running(const struct emulator *emulator, int number)
{
    quietly(emulator, BOX "killAllProcesses", "[]");
}

/* It keeps no connection, so that the emulator keeps none either. */
static void with_server(const struct emulator *emulator, int number)
{
    static const char server[] =
        "[\"/tmp/server.js\",\"const s=require('http').createServer((q,r)=>{r.setHeader("
        "'connection','close');r.end('hello '+q.url)});s.on('upgrade',(q,c)=>{c.on('error',()=>0);"
        "c.end('HTTP/1.1 101 Switching Protocols\\\\r\\\\nUpgrade: websocket\\\\r\\\\n"
        "Connection: Upgrade\\\\r\\\\n\\\\r\\\\nthrough')});"
        "s.listen(8080,()=>require('fs').writeFileSync('/tmp/up',''))\"]";
    quietly(emulator, BOX "writeFile", server);
    quietly(emulator, BOX "exec",
            "[\"test -e /tmp/up || { setsid node /tmp/server.js </dev/null >/dev/null 2>&1 & "
            "for i in $(seq 200); do test -e /tmp/up && break; sleep 0.05; done; }\"]");
}

static void with_server_and_victim(const struct emulator *emulator, int number)
{
    with_server(emulator, number);
    with_victim(emulator, number);
}

/* What a good answer must be. */

static const char *runs(const struct emulator *emulator, const struct reply *reply, int number)
{
    char id[32], body[64], expected[32];
    snprintf(id, sizeof id, "run-%d", number);
    snprintf(body, sizeof body, "[\"%s\",\"out\",5000]", id);
    snprintf(expected, sizeof expected, "out %d", number);
    CLEANUP_REPLY struct reply waited = post(emulator, BOX "waitForLog", body);
    const char *line = text_at(waited.json, "line");
    /* Without memory for its output the log says how much is missing, in a line of its own. */
    if (strcmp(line, expected) != 0 && !strstr(line, "bytes of older output dropped]"))
        return keep(waited.body ? waited.body : "its output should come");
    return strcmp(status_of(emulator, id), "running") == 0 ? NULL : "it should run";
}

/* NULL when what says that it is complete has all lines. */
static const char *has_lines(const struct reply *reply, const char *end)
{
    const char *text = reply->body ? reply->body : "";
    int seen = 0;
    /* A stream that breaks must not claim to be complete, or must say what is missing. */
    if (!strstr(text, end) || strstr(text, "bytes of older output dropped]"))
        return NULL;
    for (const char *at = text; (at = strstr(at, "\\n")); at++)
        seen++;
    return seen >= LINES ? NULL : keep("a complete stream lacks lines");
}

static const char *streamed(const struct emulator *emulator, const struct reply *reply, int number)
{
    return has_lines(reply, "\"type\":\"complete\"");
}

static const char *followed(const struct emulator *emulator, const struct reply *reply, int number)
{
    return has_lines(reply, "\"type\":\"exit\"");
}

static const char *has_logs(const struct emulator *emulator, const struct reply *reply, int number)
{
    const char *out = text_at(reply->json, "stdout");
    return strncmp(out, "ready\n1\n", 8) == 0 && strstr(out, "\n3000\n") ? NULL
                                                                         : "the logs have holes";
}

static const char *is_killed(const struct emulator *emulator, const struct reply *reply, int number)
{
    return strcmp(status_of(emulator, "victim"), "killed") == 0 ? NULL : "it should be killed";
}

static const char *found(const struct emulator *emulator, const struct reply *reply, int number)
{
    return strcmp(text_at(reply->json, "line"), "ready") == 0 ? NULL : "the line was printed";
}

static const char *has_code(const struct emulator *emulator, const struct reply *reply, int number)
{
    return number_at(reply->json, "exitCode") == 7 ? NULL : "it ended with 7";
}

static const char *was_waited_for(const struct emulator *emulator, const struct reply *reply,
                                  int number)
{
    return reply->status == 200 ? NULL : "the port is open";
}

static const char *was_fetched(const struct emulator *emulator, const struct reply *reply,
                               int number)
{
    return number_at(reply->json, "status") == 200 &&
                   strcmp(text_at(reply->json, "body"), "hello /a") == 0
               ? NULL
               : "the server says hello";
}

static const char *was_forwarded(const struct emulator *emulator, const struct reply *reply,
                                 int number)
{
    return reply->body && strcmp(reply->body, "hello /a") == 0 ? NULL : "the server says hello";
}

static const char *went_through(const struct emulator *emulator, const struct reply *reply,
                                int number)
{
    /* A tunnel that breaks has no way to say so. */
    return strncmp("through", reply->body ? reply->body : "", reply->size) == 0
               ? NULL
               : "the server says through";
}

const struct step process_steps[] = {
    {"startProcess", BOX "startProcess", "[\"echo out %d; sleep 700\",{\"processId\":\"run-%d\"}]",
     NULL, runs, none_running},
    {"execStream", BOX "execStream", "[\"seq 3000\"]", NULL, streamed, NULL},
    {"execStream without session", BOX "execStream",
     "[\"seq 3000\",{\"enableDefaultSession\":false}]", NULL, streamed, NULL},
    {"exec by way of a stream", BOX "exec", "[\"seq 3000\",{\"onOutput\":true}]", NULL, streamed,
     NULL},
    {"streamProcessLogs", BOX "streamProcessLogs", "[\"ended\"]", with_ended, followed, NULL},
    {"getProcessLogs", BOX "getProcessLogs", "[\"ended\"]", with_ended, has_logs, NULL},
    {"killProcess", BOX "killProcess", "[\"victim\"]", with_victim, is_killed, none_running},
    {"killAllProcesses", BOX "killAllProcesses", "[]", with_victim, is_killed, none_running},
    {"waitForLog", BOX "waitForLog", "[\"ended\",\"/rea(dy)/\",9000]", with_ended, found, NULL},
    {"waitForExit", BOX "waitForExit", "[\"ended\",9000]", with_ended, has_code, NULL},
    {"waitForPort", "/api/process/victim/waitForPort?sandboxId=box",
     "{\"port\":8080,\"timeout\":9000}", with_server_and_victim, was_waited_for, none_running},
    {"containerFetch", BOX "containerFetch", "[\"/a\",8080]", with_server, was_fetched, NULL},
    {"forwarded request", BOX "proxy/8080/a", NULL, with_server, was_forwarded, NULL},
    {"wsConnect", BOX "ws/8080/a", step_upgrade, with_server, went_through, NULL},
    {0},
};
