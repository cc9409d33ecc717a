/* The rows. Texts are read by people, in docs/api.md and in error messages: one sentence each. */
#include "worker/methods.h"

#include <string.h>

#include "base/cleanup.h"
#include "worker/nearest.h"
#include "worker/process_shapes.h"

/* Every call that runs in a session takes these three, wherever its options stand. */
#define SESSION_OPTIONS                                                                            \
    {"session", ARG_STRING, "sessionId", "id of the session to run in"},                           \
        {"sessionId", ARG_STRING, NULL, "the same"},                                               \
    {                                                                                              \
        "enableDefaultSession", ARG_BOOLEAN, NULL,                                                 \
            "false: without a session, each call on its own"                                       \
    }

static const struct option_row session_options[] = {SESSION_OPTIONS, {0}};

static const struct option_row exec_options[] = {
    {"cwd", ARG_STRING, NULL, "directory for this command only"},
    {"env", ARG_VARIABLES, NULL, "variables for this command only; null values are skipped"},
    {"timeout", ARG_NUMBER, "timeoutMs", "milliseconds after which the call fails"},
    {"stream", ARG_BOOLEAN, NULL,
     "true: by way of a stream, as the SDK does for callbacks: output keeps its last newline, and "
     "what the command changes in the shell is not kept"},
    {"onOutput", ARG_BOOLEAN, NULL,
     "true, or the header `Accept: text/event-stream`: the answer is the events of that stream, "
     "and last `{type: \"result\", result}`"},
    SESSION_OPTIONS,
    {0}};

static const struct option_row process_options[] = {
    {"processId", ARG_STRING, NULL, "its id; one is made up without it"},
    {"cwd", ARG_STRING, NULL, "where it starts"},
    {"env", ARG_VARIABLES, NULL, "variables of its own; null values are skipped"},
    {"timeout", ARG_NUMBER, "timeoutMs", "milliseconds after which it is ended, without a session"},
    {"encoding", ARG_STRING, NULL, "accepted and not used, as in the original"},
    {"autoCleanup", ARG_BOOLEAN, NULL, "accepted and not used, as in the original"},
    SESSION_OPTIONS,
    {0}};

static const struct option_row file_options[] = {
    {"encoding", ARG_STRING, NULL, "`utf-8` or `base64`"}, SESSION_OPTIONS, {0}};

static const struct option_row read_options[] = {
    {"encoding", ARG_STRING, NULL,
     "`utf-8`, `base64`, or `none`: the bytes themselves, of any size, are the answer"},
    SESSION_OPTIONS,
    {0}};

static const struct option_row mkdir_options[] = {
    {"recursive", ARG_BOOLEAN, NULL, "make missing parents too"}, SESSION_OPTIONS, {0}};

static const struct option_row list_options[] = {
    {"recursive", ARG_BOOLEAN, "options.recursive", "enter subdirectories"},
    {"includeHidden", ARG_BOOLEAN, "options.includeHidden", "list names that begin with a dot"},
    SESSION_OPTIONS,
    {0}};

static const struct option_row git_options[] = {
    {"branch", ARG_STRING, NULL, "branch or tag to check out"},
    {"targetDir", ARG_STRING, NULL, "where to; `/workspace/` and the repository's name without it"},
    {"depth", ARG_NUMBER, NULL, "how many commits of its history"},
    {"cloneTimeoutMs", ARG_NUMBER, "timeoutMs", "milliseconds after which it fails; 600,000"},
    SESSION_OPTIONS,
    {0}};

static const struct option_row context_options[] = {
    {"language", ARG_STRING, NULL, "`python`, `javascript` or `typescript`; Python without it"},
    {"cwd", ARG_STRING, NULL, "where its code starts; `/workspace` without it"},
    {"envVars", ARG_VARIABLES, NULL, "variables of its process"},
    {"timeout", ARG_NUMBER, NULL, "accepted and not used, as in the original"},
    {0}};

static const struct option_row code_options[] = {
    {"context", ARG_OBJECT, NULL, "what `createCodeContext` gave; else the language's default one"},
    {"language", ARG_STRING, NULL, "`python`, `javascript` or `typescript`; Python without it"},
    {"envVars", ARG_VARIABLES, NULL, "accepted and not used, as in the original"},
    {"timeout", ARG_NUMBER, NULL, "accepted and not used, as in the original"},
    {0}};

static const struct option_row wait_port_options[] = {
    {"mode", ARG_STRING, NULL, "`http`, or `tcp`: it accepts a connection; `http` without it"},
    {"path", ARG_STRING, NULL, "what a GET asks for; `/` without it"},
    {"status", ARG_NUMBER_OR_OBJECT, NULL,
     "the status wanted, or `{min, max}`; 200 to 399 without it"},
    {"timeout", ARG_NUMBER, NULL, "milliseconds; without it there is no end"},
    {"interval", ARG_NUMBER, NULL, "milliseconds between two looks, 100 to 10,000; 500 without it"},
    {0}};

static const struct option_row expose_options[] = {
    {"hostname", ARG_STRING, NULL,
     "where previews are reached, such as `localhost:8787` or `example.com`; the request's host "
     "without it"},
    {"name", ARG_STRING, NULL, "what the port is for"},
    {"token", ARG_STRING, NULL,
     "1 to 16 of `a-z 0-9 _` instead of a random one; no other port of the sandbox may have it"},
    {0}};

static const struct option_row create_session_options[] = {
    {"id", ARG_STRING, NULL, "id of the new session; one is made up without it"},
    {"env", ARG_OBJECT, NULL, "variables of its shell; values that are not strings are dropped"},
    {"cwd", ARG_STRING, NULL, "where its shell starts; `/workspace` without it"},
    {"commandTimeoutMs", ARG_NUMBER, NULL, "timeout of commands that give none"},
    {"name", ARG_STRING, NULL, "accepted and not used"},
    {0}};

#define BUCKET_OPTION                                                                              \
    {                                                                                              \
        "bucket", ARG_STRING, NULL, "name of the binding; `TEST_BUCKET` without it"                \
    }

static const struct option_row bucket_put_options[] = {
    {"contentType", ARG_STRING, NULL, "kept with the object"},
    {"encoding", ARG_STRING, NULL, "`base64`: the content is bytes in base64"},
    BUCKET_OPTION,
    {0}};

static const struct option_row bucket_get_options[] = {
    {"encoding", ARG_STRING, NULL, "`base64`: bytes in base64, as for what is not UTF-8"},
    BUCKET_OPTION,
    {0}};

static const struct option_row bucket_options[] = {BUCKET_OPTION, {0}};

static const struct option_row bucket_list_options[] = {
    {"prefix", ARG_STRING, NULL, "only keys that begin with this"},
    {"delimiter", ARG_STRING, NULL, "keys with it after the prefix are told as one prefix"},
    {"limit", ARG_STRING_OR_NUMBER, NULL, "how many, 1 to 1000; 1000 without it"},
    {"cursor", ARG_STRING, NULL, "of a truncated answer: what comes after it"},
    BUCKET_OPTION,
    {0}};

static const struct option_row configure_options[] = {
    {"sleepAfter", ARG_STRING_OR_NUMBER, NULL, "as `setSleepAfter`"},
    {"keepAlive", ARG_BOOLEAN, NULL, "as `setKeepAlive`"},
    {"labels", ARG_OBJECT, NULL, "as `setLabels`"},
    {"containerTimeouts", ARG_OBJECT, NULL, "as `setContainerTimeouts`"},
    {0}};

/* The last parameter of file methods that have no other options. */
#define SESSION_PARAM                                                                              \
    {                                                                                              \
        "session", ARG_SESSION, false, "id of the session, or an options object", "sessionId",     \
            session_options                                                                        \
    }

/* What exec gives is the container's answer with the time that passed on this side: the container
 * always says 0. The token that stands for "no session" is an internal of the SDK. */
static json_t *shape_exec(json_t *result, const json_t *args, int64_t duration_ms)
{
    json_object_set_new(result, "duration", json_integer(duration_ms));
    const char *session = json_string_value(json_object_get(result, "sessionId"));
    if (session && strcmp(session, "__DISABLE_SESSION__") == 0)
        json_object_del(result, "sessionId");
    return result;
}

static json_t *shape_get_session(json_t *result, const json_t *args, int64_t duration_ms)
{
    json_decref(result);
    return json_pack("{s:O}", "id", json_object_get(args, "sessionId"));
}

const struct method_row method_rows[] = {
    {.name = "exec",
     .kind = METHOD_OBJECT,
     .target = "exec",
     .in_session = true,
     .events_on_accept = true,
     .params = {{"command", ARG_STRING, true, "what bash runs"},
                {"options", ARG_OPTIONS, false, "see below", NULL, exec_options}},
     .shape = shape_exec,
     .what = "Runs a command and waits for its end. A command that fails is a result with its exit "
             "code, not an error.",
     .result =
         "{success, exitCode, stdout, stderr, command, duration, timestamp, sessionId?, hint?}",
     .example = "[\"ls -la\", {\"cwd\": \"/workspace\", \"timeout\": 5000}]"},
    {.name = "writeFile",
     .kind = METHOD_OP,
     .target = "POST /api/write",
     .in_session = true,
     .params = {{"path", ARG_STRING, true, "the file; missing directories are made"},
                {"content", ARG_CONTENT, true, "all of its new content"},
                {"options", ARG_OPTIONS, false, "see below", NULL, file_options}},
     .what = "Writes a file, replacing what it held.",
     .result = "{success, path, timestamp}",
     .example = "[\"/workspace/app.py\", \"print(1)\\n\"]"},
    {.name = "writeFileStream",
     .kind = METHOD_OP,
     .target = "RPC files.writeFileStream",
     .in_session = true,
     .upload = true,
     .params = {{"path", ARG_STRING, true,
                 "the file, as `?path=` or in the header `X-File-Path`; missing directories are "
                 "made"},
                SESSION_PARAM},
     .what = "Writes a file of any size from the request's body, which is not JSON but the bytes "
             "themselves. The old content stays until all of the new has arrived. Called with POST "
             "or PUT.",
     .result = "{success, path, bytesWritten, timestamp}",
     .example = "[\"/workspace/big.bin\"]"},
    {.name = "readFile",
     .kind = METHOD_OBJECT,
     .target = "readFile",
     .in_session = true,
     .params = {{"path", ARG_STRING, true, "the file"},
                {"options", ARG_OPTIONS, false, "see below", NULL, read_options}},
     .what = "Reads a file of at most 32 MiB. Without an encoding, binary types come as base64. With "
             "`none` the answer is the file, with `Content-Type` and `Content-Length`.",
     .result = "{success, path, content, timestamp, encoding, isBinary, mimeType, size}",
     .example = "[\"/workspace/app.py\", {\"encoding\": \"utf-8\"}]"},
    {.name = "readFileStream",
     .kind = METHOD_OP,
     .target = "POST /api/read/stream",
     .in_session = true,
     .params = {{"path", ARG_STRING, true, "the file"}, SESSION_PARAM},
     .what = "Reads a file of any size, piece by piece.",
     .result = "server-sent events: metadata, chunk…, complete; or error",
     .example = "[\"/workspace/big.bin\"]"},
    {.name = "mkdir",
     .kind = METHOD_OP,
     .target = "POST /api/mkdir",
     .in_session = true,
     .params = {{"path", ARG_STRING, true, "the new directory"},
                {"options", ARG_OPTIONS, false, "see below", NULL, mkdir_options}},
     .what = "Makes a directory.",
     .result = "{success, path, recursive, timestamp}",
     .example = "[\"/workspace/a/b\", {\"recursive\": true}]"},
    {.name = "deleteFile",
     .aliases = {"rm"},
     .kind = METHOD_OP,
     .target = "POST /api/delete",
     .in_session = true,
     .params = {{"path", ARG_STRING, true, "the file; a directory is refused"}, SESSION_PARAM},
     .what = "Deletes a file.",
     .result = "{success, path, timestamp}",
     .example = "[\"/workspace/app.py\"]"},
    {.name = "renameFile",
     .kind = METHOD_OP,
     .target = "POST /api/rename",
     .in_session = true,
     .params = {{"oldPath", ARG_STRING, true, "what there is"},
                {"newPath", ARG_STRING, true, "its new name"},
                SESSION_PARAM},
     .what = "Renames a file or directory, over what has the new name.",
     .result = "{success, path, newPath, timestamp}",
     .example = "[\"/workspace/a.txt\", \"/workspace/b.txt\"]"},
    {.name = "moveFile",
     .kind = METHOD_OP,
     .target = "POST /api/move",
     .in_session = true,
     .params = {{"sourcePath", ARG_STRING, true, "what there is"},
                {"destinationPath", ARG_STRING, true, "its new name, or a directory to move into"},
                SESSION_PARAM},
     .what = "Moves a file or directory.",
     .result = "{success, path, newPath, timestamp}",
     .example = "[\"/workspace/a.txt\", \"/tmp/a.txt\"]"},
    {.name = "listFiles",
     .aliases = {"readdir"},
     .kind = METHOD_OP,
     .target = "POST /api/list-files",
     .in_session = true,
     .params = {{"path", ARG_STRING, true, "the directory"},
                {"options", ARG_OPTIONS, false, "see below", NULL, list_options}},
     .what = "Lists a directory.",
     .result = "{success, path, files: [{name, absolutePath, relativePath, type, size, modifiedAt, "
               "mode, permissions}], count, timestamp}",
     .example = "[\"/workspace\", {\"recursive\": true}]"},
    {.name = "exists",
     .kind = METHOD_OP,
     .target = "POST /api/exists",
     .in_session = true,
     .params = {{"path", ARG_STRING, true, "what to look for"}, SESSION_PARAM},
     .what = "Says whether a path exists. The result is an object, so test its `exists`.",
     .result = "{success, path, exists, timestamp}",
     .example = "[\"/workspace/app.py\"]"},
    {.name = "gitCheckout",
     .kind = METHOD_OBJECT,
     .target = "gitCheckout",
     .in_session = true,
     .params = {{"repoUrl", ARG_STRING, true,
                 "http, https, git, ssh or host:path; a path or file:// is inside the sandbox"},
                {"options", ARG_SESSION, false, "see below; or only the target directory",
                 "targetDir", git_options}},
     .what = "Clones a repository.",
     .result = "{success, repoUrl, branch, targetDir, timestamp}",
     .example = "[\"https://github.com/octocat/Hello-World\", {\"branch\": \"master\", "
                "\"depth\": 1}]"},
    {.name = "runCode",
     .kind = METHOD_OBJECT,
     .target = "runCode",
     .params = {{"code", ARG_STRING, true, "what to run; the last expression is its result"},
                {"options", ARG_OPTIONS, false, "see below", NULL, code_options}},
     .what = "Runs code in a context of the code interpreter, which keeps variables for later "
             "runs. An exception is a result with `error`.",
     .result = "{code, logs: {stdout, stderr}, error?: {name, message, traceback}, results: "
               "[{text?, html?, png?, jpeg?, svg?, latex?, markdown?, javascript?, json?}]}",
     .example = "[\"x = 20\\nx + 1\", {\"language\": \"python\"}]"},
    {.name = "runCodeStream",
     .kind = METHOD_OBJECT,
     .target = "runCodeStream",
     .params = {{"code", ARG_STRING, true, "what to run"},
                {"options", ARG_OPTIONS, false, "see below", NULL, code_options}},
     .what = "The same as events, which come when the code is done.",
     .result = "server-sent events: stdout?, stderr?, result…, then execution_complete or error",
     .example = "[\"console.log(1); [1, 2]\", {\"language\": \"javascript\"}]"},
    {.name = "createCodeContext",
     .kind = METHOD_OBJECT,
     .target = "createCodeContext",
     .params = {{"options", ARG_OPTIONS, false, "see below", NULL, context_options}},
     .what = "Makes a context: one process with variables of its own.",
     .result = "{id, language, cwd, createdAt, lastUsed}",
     .example = "[{\"language\": \"javascript\"}]"},
    {.name = "listCodeContexts",
     .kind = METHOD_OBJECT,
     .target = "listCodeContexts",
     .what = "Lists the contexts.",
     .result = "[{id, language, cwd, createdAt, lastUsed}]",
     .example = "[]"},
    {.name = "deleteCodeContext",
     .kind = METHOD_OBJECT,
     .target = "deleteCodeContext",
     .params = {{"contextId", ARG_STRING, true, "its `id`"}},
     .what = "Ends a context and what runs in it.",
     .result = "{success, contextId, timestamp}",
     .example = "[\"6f1c0a52-30c5-4a8e-9d0e-6a7c4d8e5b10\"]"},
    {.name = "execStream",
     .kind = METHOD_OP,
     .target = "POST /api/execute/stream",
     .in_session = true,
     .params = {{"command", ARG_STRING, true, "what bash runs"},
                {"options", ARG_OPTIONS, false, "see below; the timeout is not used", NULL,
                 exec_options}},
     .what = "Runs a command in a copy of the session's shell and gives its output as it comes, line "
             "by line. The command goes on when the client leaves.",
     .result = "server-sent events: start, stdout and stderr…, complete",
     .example = "[\"for i in 1 2 3; do echo $i; sleep 1; done\"]"},
    {.name = "startProcess",
     .aliases = {"spawn"},
     .kind = METHOD_OP,
     .target = "POST /api/process/start",
     .in_session = true,
     .params = {{"command", ARG_STRING, true, "what bash runs"},
                {"options", ARG_OPTIONS, false, "see below", NULL, process_options},
                SESSION_PARAM},
     .shape = shape_process_started,
     .what = "Starts a command in a copy of the session's shell and does not wait for it.",
     .result = "{id, pid, command, status, startTime, sessionId?}",
     .example = "[\"python3 -m http.server 8080\", {\"processId\": \"web\"}]"},
    {.name = "listProcesses",
     .kind = METHOD_OP,
     .target = "GET /api/process/list",
     .in_session = true,
     .params = {SESSION_PARAM},
     .shape = shape_process_list,
     .what = "Lists the processes of all sessions, those that run first. Streamed commands are among "
             "them.",
     .result = "[{id, pid?, command, status, startTime, exitCode?, sessionId?}]",
     .example = "[]"},
    {.name = "getProcess",
     .kind = METHOD_OBJECT,
     .target = "getProcess",
     .in_session = true,
     .params = {{"processId", ARG_STRING, true, "its `id`"}, SESSION_PARAM},
     .shape = shape_process,
     .what = "Gives a process, or null when there is none of this id.",
     .result = "{id, pid?, command, status: running, completed, failed, killed or error, startTime, "
               "endTime?, exitCode?, sessionId?}",
     .example = "[\"web\"]"},
    {.name = "killProcess",
     .aliases = {"process.stop"},
     .kind = METHOD_OBJECT,
     .target = "killProcess",
     .params = {{"processId", ARG_STRING_OR_NUMBER, true, "its `id`, or its pid as a number"},
                {"signal", ARG_STRING_OR_NUMBER, false, "accepted and not used, as in the original"},
                SESSION_PARAM},
     .what = "Ends a process and all that it started: SIGTERM, and SIGKILL after 5 s. Answers when "
             "they are gone.",
     .result = "{success, processId, timestamp}",
     .example = "[\"web\"]"},
    {.name = "isProcessRunning",
     .kind = METHOD_OBJECT,
     .target = "isProcessRunning",
     .params = {{"processId", ARG_STRING_OR_NUMBER, true, "its pid as a number, or its `id`"}},
     .what = "Says whether a process runs. Of older documents; the SDK has `getProcess`.",
     .result = "true or false",
     .example = "[17]"},
    {.name = "killAllProcesses",
     .kind = METHOD_OP,
     .target = "DELETE /api/process/kill-all",
     .params = {SESSION_PARAM},
     .shape = shape_killed_count,
     .what = "Ends all processes, of all sessions.",
     .result = "how many there were",
     .example = "[]"},
    {.name = "getProcessLogs",
     .kind = METHOD_OP,
     .target = "GET /api/process/{processId}/logs",
     .params = {{"processId", ARG_STRING, true, "its `id`"}, SESSION_PARAM},
     .shape = shape_process_logs,
     .what = "Gives what a process has printed, of each stream at least the last 8 MiB.",
     .result = "{stdout, stderr, processId}",
     .example = "[\"web\"]"},
    {.name = "streamProcessLogs",
     .kind = METHOD_OP,
     .target = "GET /api/process/{processId}/stream",
     .params = {{"processId", ARG_STRING, true, "its `id`"},
                {"options", ARG_SESSION, false, "see below; or only the session", "sessionId",
                 session_options}},
     .what = "Gives what a process has printed, and then each line as it comes.",
     .result = "server-sent events: process_info, stdout and stderr…, exit",
     .example = "[\"web\"]"},
    {.name = "cleanupCompletedProcesses",
     .kind = METHOD_LOCAL,
     .shape = shape_cleaned_count,
     .what = "Does nothing, as in the original.",
     .result = "0",
     .example = "[]"},
    {.name = "exposePort",
     .kind = METHOD_OBJECT,
     .target = "exposePort",
     .wants_host = true,
     .params = {{"port", ARG_STRING_OR_NUMBER, true, "1024 to 65535, not 3000"},
                {"options", ARG_OPTIONS, false, "see below", NULL, expose_options}},
     .what = "Gives a port a preview URL, and starts the container. Whoever has the URL reaches the "
             "port: its token is all that protects it. `pathUrl` is the same for clients that do not "
             "resolve names below localhost. Exposed again, a port keeps its token.",
     .result = "{url, port, name?, pathUrl}",
     .example = "[8080, {\"name\": \"web\"}]"},
    {.name = "unexposePort",
     .kind = METHOD_OBJECT,
     .target = "unexposePort",
     .params = {{"port", ARG_STRING_OR_NUMBER, true, "the port"}},
     .what = "Takes the preview URL back. Does not start the container.",
     .result = "{success, port}",
     .example = "[8080]"},
    {.name = "getExposedPorts",
     .kind = METHOD_OBJECT,
     .target = "getExposedPorts",
     .wants_host = true,
     .params = {{"hostname", ARG_STRING, false, "as for `exposePort`"}},
     .what = "Lists the ports that were exposed in the container that runs. Does not start one.",
     .result = "[{url, port, status}]",
     .example = "[]"},
    {.name = "isPortExposed",
     .kind = METHOD_OBJECT,
     .target = "isPortExposed",
     .params = {{"port", ARG_STRING_OR_NUMBER, true, "the port"}},
     .what = "Says whether a port is among them.",
     .result = "true or false",
     .example = "[8080]"},
    {.name = "validatePortToken",
     .kind = METHOD_OBJECT,
     .target = "validatePortToken",
     .params = {{"port", ARG_STRING_OR_NUMBER, true, "the port"},
                {"token", ARG_STRING, true, "what to compare with its token"}},
     .what = "Says whether this is the token of the port, be it active or not.",
     .result = "true or false",
     .example = "[8080, \"my_token\"]"},
    {.name = "waitForLog",
     .kind = METHOD_OBJECT,
     .target = "waitForLog",
     .params = {{"processId", ARG_STRING, true, "its `id`"},
                {"pattern", ARG_STRING_OR_OBJECT, true,
                 "a text, or a regular expression as `/source/flags` or `{source, flags}`"},
                {"timeout", ARG_NUMBER, false, "milliseconds; without it there is no end"}},
     .what = "Waits until a process has printed something. Like JavaScript it looks at all output at "
             "once: `^` and `$` stand for lines only with the flag `m`.",
     .result = "{line, match?}",
     .example = "[\"web\", \"/listening on port (\\\\d+)/\", 30000]"},
    {.name = "waitForPort",
     .kind = METHOD_OBJECT,
     .target = "waitForPort",
     .params = {{"processId", ARG_STRING, true, "its `id`"},
                {"port", ARG_NUMBER, true, "on which it will listen"},
                {"options", ARG_OPTIONS, false, "see below", NULL, wait_port_options}},
     .what = "Waits until a process serves on a port, from inside the container.",
     .result = "{success}",
     .example = "[\"web\", 8080, {\"path\": \"/health\", \"timeout\": 30000}]"},
    {.name = "waitForExit",
     .kind = METHOD_OBJECT,
     .target = "waitForExit",
     .params = {{"processId", ARG_STRING, true, "its `id`"},
                {"timeout", ARG_NUMBER, false, "milliseconds; without it there is no end"}},
     .what = "Waits until a process has ended.",
     .result = "{exitCode}",
     .example = "[\"web\", 30000]"},
    {.name = "createSession",
     .kind = METHOD_OBJECT,
     .target = "createSession",
     .params = {{"options", ARG_OPTIONS, false, "see below", NULL, create_session_options}},
     .what = "Starts a shell with its own directory and variables. Pass its id as `session`.",
     .result = "{success, id, sessionId}",
     .example = "[{\"id\": \"build\", \"cwd\": \"/tmp\", \"env\": {\"CI\": \"1\"}}]"},
    {.name = "getSession",
     .kind = METHOD_LOCAL,
     .params = {{"sessionId", ARG_STRING, true, "the id"}},
     .shape = shape_get_session,
     .what = "Gives the handle of a session without a check that it exists: a session that does "
             "not is made by the first call that names it.",
     .result = "{id}",
     .example = "[\"build\"]"},
    {.name = "deleteSession",
     .kind = METHOD_OBJECT,
     .target = "deleteSession",
     .params = {{"sessionId", ARG_STRING, true, "the id; the default session is refused"}},
     .what = "Ends a session's shell and what it runs.",
     .result = "{success, sessionId, timestamp}",
     .example = "[\"build\"]"},
    {.name = "setEnvVars",
     .kind = METHOD_OBJECT,
     .target = "setEnvVars",
     .params = {{"envVars", ARG_VARIABLES, true, "names and values; null unsets"}, SESSION_PARAM},
     .what = "Sets variables for the sandbox, or for one session when one is named.",
     .result = "{success}",
     .example = "[{\"API_URL\": \"http://localhost:9000\", \"DEBUG\": null}]"},
    {.name = "getState",
     .kind = METHOD_OBJECT,
     .target = "getState",
     .what = "Says what the container does. Does not start it and is no activity.",
     .result = "{status: stopped, running, healthy or stopped_with_code, lastChange, exitCode?}",
     .example = "[]"},
    {.name = "start",
     .kind = METHOD_OBJECT,
     .target = "start",
     .params = {{"options", ARG_OBJECT, false, "accepted and not used"}},
     .what = "Starts the container. Every other call that needs it does so too.",
     .result = "{success, status}",
     .example = "[]"},
    {.name = "stop",
     .kind = METHOD_OBJECT,
     .target = "stop",
     .params = {{"signal", ARG_STRING_OR_NUMBER, false, "`SIGTERM` without it"}},
     .what = "Stops the container: files, processes and sessions are gone, settings stay.",
     .result = "{success}",
     .example = "[]"},
    {.name = "destroy",
     .kind = METHOD_OBJECT,
     .target = "destroy",
     .what = "Ends the container at once. The id can be used again.",
     .result = "{success}",
     .example = "[]"},
    {.name = "setSleepAfter",
     .kind = METHOD_OBJECT,
     .target = "setSleepAfter",
     .params = {{"sleepAfter", ARG_STRING_OR_NUMBER, true,
                 "`30s`, `10m`, `1h`, or a number of seconds"}},
     .what = "Sets the idle time after which the container stops.",
     .result = "{success}",
     .example = "[\"5m\"]"},
    {.name = "setKeepAlive",
     .kind = METHOD_OBJECT,
     .target = "setKeepAlive",
     .params = {{"keepAlive", ARG_BOOLEAN, true, "whether to stay up when idle"}},
     .what = "Turns the idle stop off or on.",
     .result = "{success}",
     .example = "[true]"},
    {.name = "configure",
     .kind = METHOD_OBJECT,
     .target = "configure",
     .params = {{"options", ARG_OPTIONS, true, "see below", NULL, configure_options}},
     .what = "Sets several options of `getSandbox` at once; what is left out stays.",
     .result = "{success}",
     .example = "[{\"sleepAfter\": \"5m\", \"keepAlive\": false}]"},
    {.name = "setLabels",
     .kind = METHOD_OBJECT,
     .target = "setLabels",
     .params = {{"labels", ARG_OBJECT, true, "names and texts; they replace those that were set"}},
     .what = "Sets the container's labels. One that runs gets them with its next start.",
     .result = "{success}",
     .example = "[{\"team\": \"search\", \"run\": \"42\"}]"},
    {.name = "setContainerTimeouts",
     .kind = METHOD_OBJECT,
     .target = "setContainerTimeouts",
     .params = {{"containerTimeouts", ARG_OBJECT, true,
                 "{instanceGetTimeoutMS: 5000-300000, portReadyTimeoutMS: 10000-600000, "
                 "waitIntervalMS: 100-5000}"}},
     .what = "Sets how long a start may take. What is left out stays.",
     .result = "{success}",
     .example = "[{\"portReadyTimeoutMS\": 120000}]"},
    {.name = "getContainerPlacementId",
     .kind = METHOD_OBJECT,
     .target = "getContainerPlacementId",
     .what = "Gives the placement id: that of the variable `CLOUDFLARE_PLACEMENT_ID` in the container, "
             "null without it, and nothing before the first session.",
     .result = "{placementId?}",
     .example = "[]"},
    {.name = "initServers",
     .kind = METHOD_OBJECT,
     .target = "initServers",
     .what = "Starts three WebSocket servers in the sandbox, with node or python3: echo on port "
             "8080, code on 8081, terminal on 8082. `/ws/echo`, `/ws/code` and `/ws/terminal` lead "
             "to them. Those that run already are not counted.",
     .result = "{success, serversStarted, serversFailed, errors?}",
     .example = "[]"},
    {.name = "containerFetch",
     .kind = METHOD_FETCH,
     .params = {{"url", ARG_STRING, true, "a URL, of which the path counts; or a path"},
                {"init", ARG_NUMBER_OR_OBJECT, false,
                 "{method, headers, body, redirect} of `fetch`; or the port"},
                {"port", ARG_NUMBER, false, "of the server; not 3000"}},
     .what = "Asks a server in the sandbox. Answers over 32 MiB, and streams, go through "
             "`/sandbox/{id}/proxy/{port}/…`, which takes any method and body.",
     .result = "{status, headers, body, encoding?: `base64` when the body is not UTF-8}",
     .example = "[\"http://localhost/api\", {\"method\": \"GET\"}, 8080]"},
    {.name = "ping",
     .kind = METHOD_OP,
     .target = "GET /api/ping",
     .what = "Asks the container whether it is well. Starts it.",
     .result = "{success, status, timestamp}",
     .example = "[]"},
    {.name = "version",
     .kind = METHOD_OP,
     .target = "GET /api/version",
     .what = "Gives the version of the container's image. Starts it.",
     .result = "{success, version, timestamp}",
     .example = "[]"},
    {.name = "bucketPut",
     .kind = METHOD_BUCKET,
     .target = "put",
     .params = {{"key", ARG_STRING, true, "1 to 1,024 bytes"},
                {"content", ARG_CONTENT, true, "the object"},
                {"options", ARG_OPTIONS, false, "see below", NULL, bucket_put_options}},
     .what = "Stores an object in a bucket of the project, which outlives every container. Not a "
             "method of the SDK: a Worker would use its R2 binding.",
     .result = "{success, key, etag}",
     .example = "[\"backup/app.py\", \"print(1)\\n\"]"},
    {.name = "bucketGet",
     .kind = METHOD_BUCKET,
     .target = "get",
     .params = {{"key", ARG_STRING, true, "of the object"},
                {"options", ARG_OPTIONS, false, "see below", NULL, bucket_get_options}},
     .what = "Gives an object of a bucket.",
     .result = "{success, key, content, contentType?, size, etag, encoding?}",
     .example = "[\"backup/app.py\"]"},
    {.name = "bucketDelete",
     .kind = METHOD_BUCKET,
     .target = "delete",
     .params = {{"key", ARG_STRING, true, "of the object; there may be none"},
                {"options", ARG_OPTIONS, false, "see below", NULL, bucket_options}},
     .what = "Deletes an object of a bucket.",
     .result = "{success, key}",
     .example = "[\"backup/app.py\"]"},
    {.name = "bucketList",
     .kind = METHOD_BUCKET,
     .target = "list",
     .params = {{"options", ARG_OPTIONS, false, "see below", NULL, bucket_list_options}},
     .what = "Lists a bucket in the order of the keys' bytes.",
     .result = "{objects: [{key, size, etag, uploaded, httpMetadata}], truncated, cursor?, "
               "delimitedPrefixes, success}",
     .example = "[{\"prefix\": \"backup/\"}]"},
    {0}};

/* Every request looks through all names, most of which differ at once. */
static bool is_same(const char *name, const char *other)
{
    return *name == *other && strcmp(name, other) == 0;
}

static bool row_has_name(const struct method_row *row, const char *name)
{
    if (is_same(row->name, name))
        return true;
    for (size_t i = 0; i < ALIASES_MAX && row->aliases[i]; i++) {
        if (is_same(row->aliases[i], name))
            return true;
    }
    return false;
}

const struct method_row *method_find(const char *name)
{
    for (const struct method_row *row = method_rows; row->name; row++) {
        if (row_has_name(row, name))
            return row;
    }
    return NULL;
}

const char *method_nearest(const char *name)
{
    struct nearest nearest = nearest_to(name);
    for (const struct method_row *row = method_rows; row->name; row++) {
        nearest_try(&nearest, row->name);
        for (size_t i = 0; i < ALIASES_MAX && row->aliases[i]; i++)
            nearest_try(&nearest, row->aliases[i]);
    }
    return nearest.best;
}

int method_content_index(const struct method_row *row)
{
    for (int i = 0; i < PARAMS_MAX && row->params[i].name; i++) {
        if (row->params[i].type == ARG_CONTENT)
            return i;
    }
    return -1;
}
