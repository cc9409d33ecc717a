/* Every type of event. The page docs/events.md is printed from here, and a test looks whether a
 * source file says one that is not. */
#include <string.h>

#include "objects/events.h"

const struct event_type event_types[] = {
    {"container.starting", "a call needs the container and it has none",
     "network, labels, location"},
    {"container.healthy", "the first call can be made", ""},
    {"container.stopping", "it sleeps, was stopped or replaced; `reason` says which and why", ""},
    {"container.stopped", "its tree is gone and its files with it; also when it ended by itself",
     "exitCode"},
    {"container.destroyed", "the same after `destroy()`, or a `destroy()` without a container",
     "exitCode"},
    {"container.oom", "the kernel ended a process for lack of memory", "kills, memoryMiB"},
    {"container.refused", "the platform has no room for it", "reason, running, maxInstances"},
    {"container.coldStart", "`--cold-start` makes it wait, or is skipped on a frozen clock",
     "ms, skipped"},
    {"sdk.retry", "`--sdk-retries`: the start is tried again later, as the SDK does",
     "attempt, delayMs"},
    {"version.mismatch", "the project's SDK and the image have different versions",
     "sdkVersion, containerVersion"},
    {"location.pinned", "the first request has fixed where the sandbox is", "colo, region, city"},
    {"labels.set", "its labels were changed", "labels"},
    {"fault.fired", "a fault struck; [faults.md](faults.md)", "faultId, on, do, left"},
    {"session.created", "a shell runs", "sessionId"},
    {"session.exited", "a shell ended by itself", "sessionId, exitCode"},
    {"session.recreated",
     "a session of the previous container was named again: its directory, variables and functions "
     "are gone",
     "sessionId"},
    {"interpreter.created", "a code context is there", "contextId, language"},
    {"interpreter.deleted", "a code context was deleted", "contextId"},
    {"interpreter.exited", "the process of a code context ended by itself",
     "contextId, language, exitCode, why"},
    {"git.cloned", "a clone is complete", "repository, targetDir, branch, ms"},
    {"git.progress", "a clone goes on", "repository, targetDir, step, done, total, bytes"},
    {"git.mirror", "a clone came from a mirror instead of the network",
     "repository, targetDir, mirror"},
    {"process.exited", "a background process ended, but not with its container", "processId, status, exitCode"},
    {"process.forgotten",
     "a background process that has ended is forgotten, because there are too many; told for the "
     "first and then for each hundredth",
     "processId, kept, count"},
    {"port.exposed", "a port has a preview URL, or was put into the registry of older SDKs",
     "port, name"},
    {"port.unexposed", "its URL is taken back", "port"},
    {"network.failed", "the container goes on without a network", "network"},
    {"network.refused", "a command failed because there is no network", "network, command"},
    {"keepAlive.on", "`keepAlive` was switched on", ""},
    {"keepAlive.off", "`keepAlive` was switched off; the idle time starts anew", ""},
    {"hint.id", "the id will not survive in the host name of a preview", "problem"},
    {"hint.expose", "a port is used that the Dockerfile does not expose; each once",
     "port, use, rule, class"},
    {"hint.preview", "what about previews is different in production; each once", ""},
    {"hint.keepAlive", "`keepAlive` was switched back: callers seem to disagree", "keepAlive"},
    {"hint.location", "a request came from far away from where the sandbox is", "from, colo, ms"},
    {"reset", "everything was destroyed and forgotten, and the clock is real again", ""},
    {"lost", "stands for events that are not kept any more; it has the number of the last of them",
     "count"},
    {NULL, NULL, NULL},
};

const struct event_type *event_type(const char *type)
{
    for (const struct event_type *row = event_types; row->type; row++) {
        if (strcmp(row->type, type) == 0)
            return row;
    }
    return NULL;
}

int event_types_markdown(struct buf *to)
{
    int result = buf_adds(to, "| type | what happened | data |\n|---|---|---|\n");
    for (const struct event_type *row = event_types; row->type && result >= 0; row++)
        result = buf_addf(to, "| `%s` | %s | %s%s%s |\n", row->type, row->what,
                          *row->data ? "`" : "", row->data, *row->data ? "`" : "");
    return result;
}
