/* The environment of what runs in a sandbox: where each variable comes from, which one wins, and
 * what never gets there. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

/* In the value of every variable that belongs to the Worker or to this host. */
#define MARK "worker-only-5c1e"

static struct emulator emulator;

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

/* Standard output of a command; kept until the next call. */
static const char *output(const char *box, const char *arguments)
{
    CLEANUP_REPLY struct reply reply = call(box, "exec", arguments);
    return keep(reply.status == 200 ? text_at(reply.json, "stdout") : reply.body);
}

static int succeeds(const char *box, const char *method, const char *arguments)
{
    CLEANUP_REPLY struct reply reply = call(box, method, arguments);
    return reply.status == 200;
}

TEST the_image_gives_path_home_language_and_version(void)
{
    ASSERT_STR_EQ("/root C.UTF-8 C.UTF-8 0.12.7",
                  output("image", "[\"echo $HOME $LANG $LC_ALL $SANDBOX_VERSION\"]"));
    ASSERT(strstr(output("image", "[\"echo :$PATH:\"]"), ":/usr/bin:"));
    PASS();
}

TEST the_command_wins_over_the_session_over_the_sandbox_over_the_image(void)
{
    const char *all = "echo $SANDBOX_VERSION $BOX $SESSION $COMMAND";
    char line[512];
    ASSERT(succeeds("order", "setEnvVars",
                    "[{\"SANDBOX_VERSION\":\"box\",\"BOX\":\"box\",\"SESSION\":\"box\","
                    "\"COMMAND\":\"box\"}]"));
    ASSERT(succeeds("order", "createSession",
                    "[{\"id\":\"s\",\"env\":{\"SESSION\":\"session\",\"COMMAND\":\"session\"}}]"));
    snprintf(line, sizeof line, "[\"%s\",{\"session\":\"s\",\"env\":{\"COMMAND\":\"command\"}}]",
             all);
    ASSERT_STR_EQ("box box session command", output("order", line));
    /* Each layer is what it was, once the one above is gone. */
    snprintf(line, sizeof line, "[\"%s\",{\"session\":\"s\"}]", all);
    ASSERT_STR_EQ("box box session session", output("order", line));
    snprintf(line, sizeof line, "[\"%s\"]", all);
    ASSERT_STR_EQ("box box box box", output("order", line));
    snprintf(line, sizeof line,
             "[\"%s\",{\"enableDefaultSession\":false,\"env\":{\"COMMAND\":\"command\"}}]", all);
    ASSERT_STR_EQ("box box box command\n", output("order", line));
    PASS();
}

TEST a_variable_exported_in_a_session_wins_there_until_it_is_set_again(void)
{
    ASSERT(succeeds("exported", "setEnvVars", "[{\"V\":\"1\"}]"));
    ASSERT_STR_EQ("shell", output("exported", "[\"export V=shell; echo $V\"]"));
    ASSERT_STR_EQ("shell", output("exported", "[\"echo $V\"]"));
    ASSERT_STR_EQ("1", output("exported", "[\"echo $V\",{\"session\":\"other\"}]"));
    ASSERT(succeeds("exported", "setEnvVars", "[{\"V\":\"2\"}]"));
    ASSERT_STR_EQ("2", output("exported", "[\"echo $V\"]"));
    PASS();
}

TEST null_unsets_for_the_sandbox_hides_from_a_session_and_is_skipped_for_a_command(void)
{
    ASSERT(succeeds("null", "exec", "[\"true\"]"));
    ASSERT(succeeds("null", "setEnvVars", "[{\"A\":\"a\",\"B\":\"b\"}]"));
    ASSERT_STR_EQ("a b", output("null", "[\"echo $A $B\"]"));
    ASSERT_STR_EQ("a b", output("null", "[\"echo $A $B\",{\"env\":{\"A\":null}}]"));
    ASSERT(succeeds("null", "createSession", "[{\"id\":\"n\",\"env\":{\"A\":null}}]"));
    ASSERT_STR_EQ("unset b", output("null", "[\"echo ${A-unset} $B\",{\"session\":\"n\"}]"));
    ASSERT(succeeds("null", "setEnvVars", "[{\"A\":null}]"));
    ASSERT_STR_EQ("unset b", output("null", "[\"echo ${A-unset} $B\"]"));
    ASSERT_STR_EQ("unset b\n", output("null", "[\"echo ${A-unset} $B\","
                                              "{\"enableDefaultSession\":false}]"));
    /* A session that the container made by itself knows nothing of the sandbox's variables. */
    ASSERT_STR_EQ("unset unset",
                  output("null", "[\"echo ${A-unset} ${B-unset}\",{\"session\":\"later\"}]"));
    PASS();
}

/* As in the original: what the container was started with is in its own environment, which nothing
 * can change any more. */
TEST null_unsets_in_the_default_session_what_the_container_was_started_with(void)
{
    const char *show = "[\"echo ${A-unset}\"]";
    ASSERT(succeeds("started", "setEnvVars", "[{\"A\":\"a\"}]"));
    ASSERT_STR_EQ("a", output("started", show));
    ASSERT(succeeds("started", "setEnvVars", "[{\"A\":null}]"));
    ASSERT_STR_EQ("unset", output("started", show));
    ASSERT_STR_EQ("a", output("started", "[\"echo ${A-unset}\",{\"session\":\"later\"}]"));
    ASSERT(succeeds("started", "stop", "[]"));
    ASSERT_STR_EQ("unset", output("started", "[\"echo ${A-unset}\",{\"session\":\"later\"}]"));
    PASS();
}

TEST variables_set_for_a_session_are_only_its_own(void)
{
    CLEANUP_REPLY struct reply set =
        request(&emulator, "POST", "/api/env/set", "X-Sandbox-Id: own\r\nX-Session-Id: mine\r\n",
                "{\"envVars\":{\"OWN\":\"it's \\\"$(id)\\\" `id` \\\\n\",\"HOME\":null}}");
    ASSERT_EQ(200, set.status);
    ASSERT_STR_EQ("it's \"$(id)\" `id` \\n gone",
                  output("own", "[\"echo \\\"$OWN\\\" ${HOME-gone}\",{\"session\":\"mine\"}]"));
    ASSERT_STR_EQ("unset /root", output("own", "[\"echo ${OWN-unset} $HOME\"]"));
    PASS();
}

TEST variables_of_the_sandbox_are_kept_by_the_next_container_of_this_run(void)
{
    ASSERT(succeeds("again", "setEnvVars", "[{\"KEPT\":\"yes\"}]"));
    ASSERT_STR_EQ("yes", output("again", "[\"export SHELL_ONLY=1; echo $KEPT\"]"));
    ASSERT(succeeds("again", "stop", "[]"));
    ASSERT_STR_EQ("yes gone", output("again", "[\"echo $KEPT ${SHELL_ONLY-gone}\"]"));
    PASS();
}

TEST streams_processes_and_contexts_get_them_too(void)
{
    ASSERT(succeeds("kinds", "setEnvVars", "[{\"BOX\":\"box\",\"OVER\":\"box\"}]"));
    CLEANUP_REPLY struct reply stream =
        call("kinds", "execStream", "[\"echo $BOX $OVER\",{\"env\":{\"OVER\":\"command\"}}]");
    ASSERT(strstr(stream.body, "\"box command\\n\""));
    CLEANUP_REPLY struct reply started =
        call("kinds", "startProcess",
             "[\"echo $BOX $OVER\",{\"processId\":\"p\",\"env\":{\"OVER\":\"command\"}}]");
    ASSERT_EQ(200, started.status);
    ASSERT(succeeds("kinds", "waitForExit", "[\"p\", 20000]"));
    CLEANUP_REPLY struct reply logs = call("kinds", "getProcessLogs", "[\"p\"]");
    ASSERT_STR_EQ("box command\n", text_at(logs.json, "stdout"));
    if (!strstr(output("kinds", "[\"command -v node\"]"), "node"))
        PASSm("node is not on this host: contexts were not tried");
    CLEANUP_REPLY struct reply context =
        call("kinds", "createCodeContext",
             "[{\"language\":\"javascript\",\"envVars\":{\"OVER\":\"context\"}}]");
    CLEANUP_FREE char *arguments = NULL;
    ASSERT(asprintf(&arguments,
                    "[\"process.env.BOX + ' ' + process.env.OVER\",{\"context\":{\"id\":\"%s\"}}]",
                    text_at(context.json, "id")) > 0);
    CLEANUP_REPLY struct reply run = call("kinds", "runCode", arguments);
    ASSERT_STR_EQ("'box context'", text_at(run.json, "results.0.text"));
    PASS();
}

/* Files and variables of a project and its developer, none of which may get inside. */
static int write_text(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", emulator.dir, name);
    CLEANUP_FILE FILE *file = fopen(path, "we");
    return file && fputs(text, file) >= 0 ? 0 : -1;
}

static int make_project(void)
{
    snprintf(emulator.dir, sizeof emulator.dir, "/tmp/sandpit-test-XXXXXX");
    if (!mkdtemp(emulator.dir))
        return -1;
    setenv("CLOUDFLARE_API_TOKEN", MARK "-host", 1);
    setenv("R2_SECRET_ACCESS_KEY", MARK "-host", 1);
    if (write_text("wrangler.jsonc",
                   "{\"name\": \"project\", \"main\": \"src/index.ts\",\n"
                   " \"vars\": {\"API_HOST\": \"" MARK "-vars\", \"SANDBOX_LOG_LEVEL\": \"" MARK
                   "-log\", \"DEEP\": {\"a\": \"" MARK "\"}},\n"
                   " \"env\": {\"dev\": {\"vars\": {\"STAGE\": \"" MARK "-env\"}}},\n"
                   " \"containers\": [{\"class_name\": \"Sandbox\", \"image\": "
                   "\"docker.io/cloudflare/sandbox:0.12.7-python\"}]}\n") < 0 ||
        write_text(".dev.vars", "API_KEY=" MARK "-dev-vars\n") < 0 ||
        write_text(".dev.vars.dev", "API_KEY=" MARK "-dev-vars-dev\n") < 0 ||
        write_text(".env", "DATABASE_URL=" MARK "-dot-env\n") < 0)
        return -1;
    return 0;
}

/* Whether a file contains the mark; the end of a variable is a NUL. */
static bool holds_mark(const char *path)
{
    static char bytes[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    for (ssize_t got;
         fd >= 0 && used < sizeof bytes && (got = read(fd, bytes + used, sizeof bytes - used)) > 0;)
        used += (size_t)got;
    if (fd >= 0)
        close(fd);
    return memmem(bytes, used, MARK, strlen(MARK)) != NULL;
}

/* Counts the processes of pid namespaces below ours; those with the mark are printed. */
static int marked_processes(int *seen)
{
    char path[300], ours[64] = "", theirs[64] = "";
    int marked = 0;
    *seen = 0;
    if (readlink("/proc/self/ns/pid", ours, sizeof ours - 1) < 0)
        return -1;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        snprintf(path, sizeof path, "/proc/%s/ns/pid", entry->d_name);
        ssize_t size = isdigit((unsigned char)entry->d_name[0])
                           ? readlink(path, theirs, sizeof theirs - 1)
                           : -1;
        if (size < 0)
            continue;
        theirs[size] = '\0';
        if (strcmp(ours, theirs) == 0)
            continue;
        ++*seen;
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        if (!holds_mark(path))
            continue;
        marked++;
        printf("%s has the mark\n", path);
    }
    if (proc)
        closedir(proc);
    return marked;
}

/* Everything that a sandbox can run is started, then all of it is looked at, from inside and from
 * outside. */
TEST nothing_of_the_worker_or_this_host_is_in_any_environment(void)
{
    ASSERT(succeeds("secret", "exec", "[\"sleep 120 & env\"]"));
    ASSERT(succeeds("secret", "startProcess", "[\"sleep 120\"]"));
    ASSERT(succeeds("secret", "createCodeContext", "[{\"language\":\"python\"}]"));
    CLEANUP_REPLY struct reply session = call("secret", "exec", "[\"env; export -p; set\"]");
    ASSERT_FALSE(strstr(text_at(session.json, "stdout"), MARK));
    ASSERT(strstr(text_at(session.json, "stdout"), "SANDBOX_VERSION"));
    CLEANUP_REPLY struct reply single =
        call("secret", "exec", "[\"env\",{\"enableDefaultSession\":false}]");
    ASSERT_FALSE(strstr(text_at(single.json, "stdout"), MARK));
    ASSERT(strstr(text_at(single.json, "stdout"), "SANDBOX_VERSION"));
    CLEANUP_REPLY struct reply inside =
        call("secret", "exec", "[\"cat /proc/[0-9]*/environ 2>/dev/null | tr '\\\\0' '\\\\n'\"]");
    ASSERT_FALSE(strstr(text_at(inside.json, "stdout"), MARK));
    ASSERT(strstr(text_at(inside.json, "stdout"), "SANDBOX_VERSION"));
    CLEANUP_REPLY struct reply first = call("secret", "readFile", "[\"/proc/1/environ\"]");
    ASSERT_FALSE(first.body && strstr(first.body, MARK));
    int seen;
    ASSERT_EQ(0, marked_processes(&seen));
    ASSERTm("the test saw no process of a container", seen > 4);
    PASS();
}

TEST the_projects_files_are_not_to_be_seen(void)
{
    CLEANUP_REPLY struct reply found = call(
        "secret", "exec",
        "[\"grep -rls " MARK " /workspace /root /home /tmp /run /etc /var 2>/dev/null | head\"]");
    ASSERT_STR_EQ("", text_at(found.json, "stdout"));
    PASS();
}

SUITE(environment)
{
    RUN_TEST(the_image_gives_path_home_language_and_version);
    RUN_TEST(the_command_wins_over_the_session_over_the_sandbox_over_the_image);
    RUN_TEST(a_variable_exported_in_a_session_wins_there_until_it_is_set_again);
    RUN_TEST(null_unsets_for_the_sandbox_hides_from_a_session_and_is_skipped_for_a_command);
    RUN_TEST(null_unsets_in_the_default_session_what_the_container_was_started_with);
    RUN_TEST(variables_set_for_a_session_are_only_its_own);
    RUN_TEST(variables_of_the_sandbox_are_kept_by_the_next_container_of_this_run);
    RUN_TEST(streams_processes_and_contexts_get_them_too);
    RUN_TEST(nothing_of_the_worker_or_this_host_is_in_any_environment);
    RUN_TEST(the_projects_files_are_not_to_be_seen);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    if (!emulator_missing() && make_project() < 0) {
        printf("the project could not be written below /tmp\n");
        return 1;
    }
    SYSTEM_SUITE(emulator, environment);
    GREATEST_MAIN_END();
}
