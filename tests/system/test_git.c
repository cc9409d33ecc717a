/* gitCheckout against real servers on loopback, mirrors without a network, and repositories that
 * mean harm. What comes out must serve the container's own git. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static char root[64]; /* repositories, served and as mirrors */
static int http_port, git_port, silent_port, server;

/* --- Help ------------------------------------------------------------------------------------- */

/* printf into a ring of buffers. */
static const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *text(const char *format, ...)
{
    static char ring[8][2048];
    static int next;
    va_list args;
    next = (next + 1) % 8;
    va_start(args, format);
    vsnprintf(ring[next], sizeof ring[next], format, args);
    va_end(args);
    return ring[next];
}

static struct reply checkout(const char *arguments)
{
    return post(&emulator, "/sandbox/git/gitCheckout", arguments);
}

/* Runs a command in the sandbox; its output, kept. */
static const char *inside(const char *command)
{
    json_t *arguments = json_pack("[s]", text("(cd /workspace; %s)", command));
    char *body = json_dumps(arguments, 0);
    CLEANUP_REPLY struct reply reply = post(&emulator, "/sandbox/git/exec", body);
    free(body);
    json_decref(arguments);
    return keep(text("%s%s", text_at(reply.json, "stdout"), text_at(reply.json, "stderr")));
}

static struct reply face(const char *body)
{
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/git");
    const char *url = text_at(shown.json, "containerUrl");
    return request(&emulator, "POST", "/api/git/checkout",
                   text("Host: %s\r\n", strlen(url) > 7 ? url + 7 : ""), body);
}

static bool was_noted(const char *type, const char *word)
{
    CLEANUP_REPLY struct reply events = get(&emulator, "/cdn-cgi/local/events");
    const char *at_type = events.body;
    while (at_type && (at_type = strstr(at_type, type))) {
        const char *end = strchr(at_type, '\n'), *found = strstr(at_type, word);
        if (found && (!end || found < end))
            return true;
        at_type = end;
    }
    return false;
}

/* Scratch directories of clones that are still there. */
static int leftovers(void)
{
    const char *argv[] = {"find", emulator.run_root, "-name", "git-*", NULL};
    char *out = NULL, *errors = NULL;
    run_command(&emulator, argv, &out, &errors);
    int lines = 0;
    for (const char *c = out; c && *c; c++)
        lines += *c == '\n';
    free(out);
    free(errors);
    return lines;
}

/* --- Servers ---------------------------------------------------------------------------------- */

TEST a_clone_over_http_serves_the_containers_own_git(void)
{
    CLEANUP_REPLY struct reply reply =
        checkout(text("[\"http://127.0.0.1:%d/acme/plain.git\"]", http_port));
    ASSERT_EQm(keep(reply.body), 200, reply.status);
    ASSERT_STR_EQ("trunk", text_at(reply.json, "branch"));
    ASSERT_STR_EQ("/workspace/plain", text_at(reply.json, "targetDir"));
    ASSERT_STR_EQ("## trunk...origin/trunk", inside("cd plain && git status -sb"));
    ASSERT_STR_EQ("4", inside("git -C plain log --oneline | wc -l"));
    ASSERT_STR_EQ("", inside("git -C plain fsck --no-progress --strict"));
    ASSERT_STR_EQ("file1\n1\nran", inside("cd plain; readlink link; cat link; ./run"));
    ASSERT_STR_EQ("6", inside("wc -c < plain/t.crlf"));
    ASSERT_STR_EQ(
        " M file1\n-1\n+more",
        inside("cd plain; echo more > file1; git status -s; git diff | grep '^[-+][^-+]'"));
    ASSERT_STR_EQ("5 0", inside("cd plain; git -c user.name=a -c user.email=a@b commit -qam five; "
                                "echo $(git log --oneline | wc -l) $(git status -s | wc -l)"));
    ASSERT_STR_EQ("light\nv1.0", inside("git -C plain tag"));
    ASSERT_STR_EQ("origin/HEAD -> origin/trunk\norigin/side\norigin/trunk",
                  inside("git -C plain branch -r | sed 's/^ *//'"));
    ASSERT_STR_EQ("root", inside("stat -c %U plain/file2 plain/.git/config | sort -u"));
    ASSERT(was_noted("git.cloned", "/workspace/plain"));
    ASSERT_EQ(0, leftovers());
    PASS();
}

TEST git_urls_branches_and_tags_are_checked_out(void)
{
    CLEANUP_REPLY struct reply side = checkout(
        text("[\"git://127.0.0.1:%d/acme/plain.git\", {\"branch\": \"side\", \"targetDir\": "
             "\"/workspace/side\"}]",
             git_port));
    ASSERT_EQm(keep(side.body), 200, side.status);
    ASSERT_STR_EQ("side", text_at(side.json, "branch"));
    ASSERT_STR_EQ("## side...origin/side", inside("git -C side status -sb"));
    CLEANUP_REPLY struct reply tag = checkout(
        text("[\"git://127.0.0.1:%d/acme/plain.git\", {\"branch\": \"v1.0\", \"targetDir\": "
             "\"/workspace/tag\"}]",
             git_port));
    ASSERT_EQm(keep(tag.body), 200, tag.status);
    ASSERT_STR_EQ("v1.0", text_at(tag.json, "branch"));
    ASSERT_STR_EQ("## HEAD (no branch)\nv1.0",
                  inside("cd tag; git status -sb; git describe --exact-match"));
    PASS();
}

TEST depth_leaves_the_last_commits_alone(void)
{
    CLEANUP_REPLY struct reply one = checkout(
        text("[\"http://127.0.0.1:%d/acme/plain.git\", {\"depth\": 1, \"targetDir\": \"one\"}]",
             http_port));
    ASSERT_EQm(keep(one.body), 200, one.status);
    ASSERT_STR_EQ("one", text_at(one.json, "targetDir"));
    ASSERT_STR_EQ("1 true 0", inside("cd one; echo $(git log --oneline | wc -l) $(git rev-parse "
                                     "--is-shallow-repository) $(git status -s | wc -l)"));
    ASSERT_STR_EQ("", inside("git -C one fsck --no-progress"));
    ASSERT_STR_EQ("no", inside("git -C one cat-file -e origin/trunk~1 2>/dev/null || echo no"));
    CLEANUP_REPLY struct reply two =
        checkout("[\"https://github.com/acme/plain\", {\"depth\": 2, \"targetDir\": \"two\"}]");
    ASSERT_EQm(keep(two.body), 200, two.status);
    ASSERT_STR_EQ("2", inside("cd two; git log --oneline | wc -l"));
    ASSERT_STR_EQ("ok", inside("cd two; git fsck --no-progress && git checkout -q HEAD~1 && echo "
                               "ok"));
    PASS();
}

TEST a_path_is_one_of_the_sandbox(void)
{
    inside("mkdir -p /workspace/src && cd /workspace/src && git init -q -b trunk && echo a > a && "
           "git add a && git -c user.name=a -c user.email=a@b commit -qm a; cd /workspace");
    CLEANUP_REPLY struct reply golden =
        face("{\"repoUrl\":\"file:///workspace/src\",\"targetDir\":\"/workspace/c1\"}");
    ASSERT_EQm(keep(golden.body), 200, golden.status);
    ASSERT_STR_EQ(text("{\"success\":true,\"repoUrl\":\"file:///workspace/src\",\"branch\":"
                       "\"trunk\",\"targetDir\":\"/workspace/c1\",\"timestamp\":\"%s\"}",
                       text_at(golden.json, "timestamp")),
                  golden.body);
    CLEANUP_REPLY struct reply relative = checkout("[\"./src\", \"c2\"]");
    ASSERT_EQm(keep(relative.body), 200, relative.status);
    ASSERT_STR_EQ("/workspace/./src\n0",
                  inside("cd c2; git remote get-url origin; git status -s | wc -l"));
    inside("cd /workspace; git -C src -c user.name=a -c user.email=a@b commit -q --allow-empty -m "
           "b");
    CLEANUP_REPLY struct reply cut =
        checkout("[\"file:///workspace/src\", {\"depth\": 1, \"targetDir\": \"/tmp/c3\"}]");
    ASSERT_EQm(keep(cut.body), 200, cut.status);
    ASSERT_STR_EQ("1", inside("git -C /tmp/c3 log --oneline | wc -l"));
    /* The same path on this host is another one. */
    CLEANUP_REPLY struct reply outside =
        checkout(text("[\"%s/acme/plain.git\", \"/workspace/c4\"]", root));
    ASSERT_EQ(500, outside.status);
    ASSERT(strstr(text_at(outside.json, "error"), "does not exist"));
    CLEANUP_REPLY struct reply file =
        checkout(text("[\"file://%s/acme/plain.git\", \"/workspace/c4\"]", root));
    ASSERT_EQ(500, file.status);
    ASSERT(strstr(text_at(file.json, "error"), "does not appear to be a git repository"));
    ASSERT_STR_EQ("gone", inside("test -e /workspace/c4 || echo gone"));
    PASS();
}

/* --- Mirrors ---------------------------------------------------------------------------------- */

TEST a_mirror_needs_no_network_and_is_named(void)
{
    CLEANUP_REPLY struct reply reply =
        checkout("[\"https://github.com/acme/plain\", \"/workspace/mirrored\"]");
    ASSERT_EQm(keep(reply.body), 200, reply.status);
    ASSERT_STR_EQ("https://github.com/acme/plain",
                  inside("git -C mirrored remote get-url origin; git -C mirrored status -s"));
    ASSERT(was_noted("git.mirror", "acme/plain.git"));
    const char *argv[] = {"grep", "-q", "comes from the mirror", emulator.log, NULL};
    char *out = NULL, *errors = NULL;
    ASSERT_EQ(0, run_command(&emulator, argv, &out, &errors));
    free(out);
    free(errors);
    CLEANUP_REPLY struct reply loose =
        checkout("[\"https://github.com/acme/loose.git\", \"/workspace/loose\"]");
    ASSERT_EQm(keep(loose.body), 200, loose.status);
    ASSERT_STR_EQ("4", inside("cd loose; git fsck --no-progress; git log --oneline | wc -l"));
    CLEANUP_REPLY struct reply empty =
        checkout("[\"https://github.com/acme/empty\", \"/workspace/empty\"]");
    ASSERT_EQm(keep(empty.body), 200, empty.status);
    ASSERT_STR_EQ("0", inside("git -C empty status -s | wc -l"));
    CLEANUP_REPLY struct reply missing = checkout("[\"https://github.com/acme/nothing\"]");
    ASSERT_EQ(500, missing.status);
    ASSERT_STR_EQ("GIT_OPERATION_FAILED", text_at(missing.json, "code"));
    ASSERT_STR_EQ("fatal: repository 'https://github.com/acme/nothing/' not found",
                  text_at(missing.json, "context.stderr"));
    ASSERT(strstr(text_at(missing.json, "hint"), "sandpit git mirror"));
    PASS();
}

static int mirror(const char *url, char **out, char **errors)
{
    const char *argv[] = {SANDPIT_BINARY, "git", "mirror", "--project", root, url, NULL};
    return run_command(&emulator, argv, out, errors);
}

TEST the_store_is_filled_and_brought_up_to_date(void)
{
    char *out = NULL, *errors = NULL;
    char url[96];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/acme/loose.git", http_port);
    int code = mirror(url, &out, &errors);
    ASSERT_EQm(keep(errors), 0, code);
    ASSERT(strstr(out, "4 branches and tags"));
    ASSERT(strstr(out, "data/sandpit/git/127.0.0.1/acme/loose.git"));
    free(out);
    free(errors);
    const char *change[] = {"git", "-C", text("%s/acme/loose.git", root), "tag", "new", NULL};
    ASSERT_EQ(0, run_command(&emulator, change, &out, &errors));
    free(out);
    free(errors);
    ASSERT_EQ(0, mirror(url, &out, &errors));
    ASSERT(strstr(out, "5 branches and tags"));
    free(out);
    free(errors);
    CLEANUP_REPLY struct reply reply = checkout(text("[\"%s\", \"/workspace/stored\"]", url));
    ASSERT_EQm(keep(reply.body), 200, reply.status);
    ASSERT(was_noted("git.mirror", "data/sandpit/git"));
    ASSERT_STR_EQ("light\nnew\nv1.0", inside("git -C stored tag; git -C stored status -s"));
    ASSERT_EQ(1, mirror(text("http://127.0.0.1:%d/acme/nothing", http_port), &out, &errors));
    ASSERT(strstr(errors, "not found"));
    free(out);
    free(errors);
    PASS();
}

/* --- What goes wrong -------------------------------------------------------------------------- */

TEST failures_have_the_texts_of_git_and_leave_nothing(void)
{
    CLEANUP_REPLY struct reply branch = checkout(
        text("[\"git://127.0.0.1:%d/acme/plain.git\", {\"branch\": \"nope\", \"targetDir\": "
             "\"/workspace/w1\"}]",
             git_port));
    ASSERT_EQ(500, branch.status);
    ASSERT_STR_EQ("GIT_OPERATION_FAILED", text_at(branch.json, "code"));
    ASSERT(strstr(text_at(branch.json, "error"),
                  "fatal: Remote branch nope not found in upstream origin"));
    ASSERT_EQ(128, number_at(branch.json, "context.exitCode"));
    CLEANUP_REPLY struct reply missing =
        checkout(text("[\"http://127.0.0.1:%d/acme/nope.git\", \"/workspace/w1\"]", http_port));
    ASSERT_EQ(500, missing.status);
    ASSERT_STR_EQ(
        text("fatal: repository 'http://127.0.0.1:%d/acme/nope.git/' not found", http_port),
        text_at(missing.json, "context.stderr"));
    CLEANUP_REPLY struct reply refused = checkout("[\"http://127.0.0.1:1/x\", \"/workspace/w1\"]");
    ASSERT_EQ(500, refused.status);
    ASSERT(strstr(text_at(refused.json, "error"), "unable to access"));
    CLEANUP_REPLY struct reply exists = checkout("[\"https://github.com/acme/plain\", \"/etc\"]");
    ASSERT_EQ(500, exists.status);
    ASSERT_STR_EQ("fatal: destination path '/etc' already exists and is not an empty directory.",
                  text_at(exists.json, "context.stderr"));
    ASSERT_STR_EQ("gone", inside("test -e /workspace/w1 || echo gone"));
    inside("mkdir -p /workspace/there");
    CLEANUP_REPLY struct reply there =
        checkout("[\"https://github.com/acme/plain\", \"/workspace/there\"]");
    ASSERT_EQm(keep(there.body), 200, there.status);
    CLEANUP_REPLY struct reply ssh = checkout("[\"git@127.0.0.1:acme/plain.git\"]");
    ASSERT_EQ(500, ssh.status);
    ASSERT_EQ(0, leftovers());
    PASS();
}

TEST arguments_are_checked_where_the_original_does(void)
{
    static const char *const urls[] = {"{\"repoUrl\":\"\"}", "{\"repoUrl\":\" \"}",
                                       "{\"repoUrl\":5}", "{}"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        CLEANUP_REPLY struct reply reply = face(urls[i]);
        ASSERT_EQm(urls[i], 400, reply.status);
        ASSERT_STR_EQ("INVALID_GIT_URL", text_at(reply.json, "code"));
        ASSERT_STR_EQ("repoUrl", text_at(reply.json, "context.validationErrors.0.field"));
    }
    static const char *const times[] = {"0", "-1", "1.5", "\"x\""};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        CLEANUP_REPLY struct reply reply =
            face(text("{\"repoUrl\":\"/x\",\"timeoutMs\":%s}", times[i]));
        ASSERT_EQm(times[i], 400, reply.status);
        ASSERT_STR_EQ("INVALID_TIMEOUT", text_at(reply.json, "context.validationErrors.0.code"));
    }
    CLEANUP_REPLY struct reply zero =
        post(&emulator, "/api/git/clone", "{\"repoUrl\":\"https://x/y\",\"cloneTimeoutMs\":0}");
    ASSERT(zero.status >= 400);
    ASSERT(strstr(text_at(zero.json, "error"), "Invalid clone timeout: 0"));
    CLEANUP_REPLY struct reply depth = checkout("[\"https://x/y\", {\"depth\": 0}]");
    ASSERT_EQ(500, depth.status);
    ASSERT(strstr(text_at(depth.json, "error"), "Invalid depth value: 0"));
    CLEANUP_REPLY struct reply api =
        request(&emulator, "POST", "/api/git/clone", "X-Sandbox-Id: git\r\n",
                "{\"repoUrl\":\"https://github.com/acme/plain\",\"targetDir\":\"/tmp/api\"}");
    ASSERT_EQm(keep(api.body), 200, api.status);
    PASS();
}

TEST a_server_that_never_answers_runs_into_the_timeout(void)
{
    long long before = test_ms();
    CLEANUP_REPLY struct reply reply =
        checkout(text("[\"http://127.0.0.1:%d/a/slow\", {\"cloneTimeoutMs\": 700}]", silent_port));
    ASSERT_EQ(502, reply.status);
    ASSERT_STR_EQ("GIT_NETWORK_ERROR", text_at(reply.json, "code"));
    ASSERT(strstr(text_at(reply.json, "error"), "Git clone timed out after 1 seconds"));
    ASSERT_EQ(124, number_at(reply.json, "context.exitCode"));
    ASSERT(test_ms() - before < 10000);
    ASSERT_EQ(0, leftovers());
    ASSERT_STR_EQ("gone", inside("test -e /workspace/slow || echo gone"));
    PASS();
}

static bool is_cloning(void *arg)
{
    return leftovers() > 0;
}

TEST a_clone_ends_with_its_container(void)
{
    CLEANUP_REPLY struct reply first = post(&emulator, "/sandbox/going/exec", "[\"true\"]");
    ASSERT_EQ(200, first.status);
    int fd = dial(&emulator);
    const char *body = text("[\"http://127.0.0.1:%d/a/slow\"]", silent_port);
    const char *head = text("POST /sandbox/going/gitCheckout HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            strlen(body), body);
    ASSERT_EQ(0, send_all(fd, head, strlen(head)));
    ASSERTm("the helper runs", eventually(is_cloning, NULL, 10000));
    CLEANUP_REPLY struct reply gone = post(&emulator, "/sandbox/going/destroy", "[]");
    ASSERT_EQ(200, gone.status);
    CLEANUP_REPLY struct reply reply = read_reply(fd);
    close(fd);
    ASSERT_STR_EQ("OPERATION_INTERRUPTED", text_at(reply.json, "code"));
    /* The directory goes only when every process that could write there has. */
    ASSERT_EQ(0, leftovers());
    PASS();
}

TEST credentials_work_and_are_not_shown(void)
{
    CLEANUP_REPLY struct reply fine = checkout(
        text("[\"http://user:s3cret@127.0.0.1:%d/private/acme/plain.git\", \"/workspace/p1\"]",
             http_port));
    ASSERT_EQm(keep(fine.body), 200, fine.status);
    ASSERT(strstr(text_at(fine.json, "repoUrl"), "user:s3cret@"));
    CLEANUP_REPLY struct reply wrong = checkout(
        text("[\"http://user:wr0ng@127.0.0.1:%d/private/acme/plain.git\", \"/workspace/p2\"]",
             http_port));
    ASSERT_EQ(500, wrong.status);
    ASSERT(strstr(text_at(wrong.json, "error"), "Authentication failed"));
    ASSERT_FALSE(strstr(wrong.body, "wr0ng"));
    ASSERT(strstr(text_at(wrong.json, "context.repository"), "http://******@127.0.0.1"));
    CLEANUP_REPLY struct reply none = checkout(
        text("[\"http://127.0.0.1:%d/private/acme/plain.git?token=hush\", \"/workspace/p2\"]",
             http_port));
    ASSERT_EQ(500, none.status);
    ASSERT(strstr(text_at(none.json, "error"), "could not read Username"));
    ASSERT_FALSE(strstr(none.body, "hush"));
    ASSERT_FALSE(was_noted("git.", "s3cret"));
    PASS();
}

/* --- Harm ------------------------------------------------------------------------------------- */

TEST hostile_repositories_change_nothing_beside_their_directory(void)
{
    static const char *const names[] = {"up",   "dots", "hooks",  "case",
                                        "link", "long", "module", "through"};
    char canary[96];
    snprintf(canary, sizeof canary, "%s/canary", root);
    ASSERT_EQ(0, mkdir(canary, 0755));
    inside(text("mkdir -p /workspace/evil %s; touch /tmp/before", canary));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CLEANUP_REPLY struct reply reply = checkout(
            text("[\"https://github.com/evil/%s\", \"/workspace/evil/%s\"]", names[i], names[i]));
        ASSERTm(keep(text("%s: %d %s", names[i], reply.status, reply.body)),
                reply.status == 200 || reply.status == 500);
        if (reply.status == 500)
            ASSERT_STR_EQm(names[i], "GIT_OPERATION_FAILED", text_at(reply.json, "code"));
    }
    /* rmdir fails when something was written through a link. */
    ASSERT_EQ(0, rmdir(canary));
    ASSERT_STR_EQ("", inside(text("ls %s; find / -xdev -name '*canary*' -newer /tmp/before "
                                  "-not -path '/workspace/evil/*/*' -not -path %s",
                                  canary, canary)));
    ASSERT_STR_EQ("", inside("ls /workspace/evil/*/.git/hooks | grep post-checkout"));
    ASSERT_STR_EQ("case dots hooks link long module through up",
                  inside("cd /workspace; echo $(ls evil)"));
    ASSERT_STR_EQ("0", inside("ls -A evil/module/s | wc -l"));
    CLEANUP_REPLY struct reply after =
        checkout("[\"https://github.com/acme/plain\", \"/workspace/sane\"]");
    ASSERT_EQm(keep(after.body), 200, after.status);
    PASS();
}

SUITE(git_suite)
{
    RUN_TEST(a_clone_over_http_serves_the_containers_own_git);
    RUN_TEST(git_urls_branches_and_tags_are_checked_out);
    RUN_TEST(depth_leaves_the_last_commits_alone);
    RUN_TEST(a_path_is_one_of_the_sandbox);
    RUN_TEST(a_mirror_needs_no_network_and_is_named);
    RUN_TEST(failures_have_the_texts_of_git_and_leave_nothing);
    RUN_TEST(arguments_are_checked_where_the_original_does);
    RUN_TEST(a_server_that_never_answers_runs_into_the_timeout);
    RUN_TEST(a_clone_ends_with_its_container);
    RUN_TEST(credentials_work_and_are_not_shown);
    RUN_TEST(hostile_repositories_change_nothing_beside_their_directory);
    RUN_TEST(the_store_is_filled_and_brought_up_to_date);
}

/* The ways into a container differ with who started it. */
SUITE(rootless_git_suite)
{
    RUN_TEST(a_clone_over_http_serves_the_containers_own_git);
    RUN_TEST(depth_leaves_the_last_commits_alone);
    RUN_TEST(a_path_is_one_of_the_sandbox);
    RUN_TEST(a_clone_ends_with_its_container);
    RUN_TEST(hostile_repositories_change_nothing_beside_their_directory);
}

/* --- Setup ------------------------------------------------------------------------------------ */

static int start_servers(void)
{
    int pair[2];
    char line[64] = "";
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -1;
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(pair[1], STDOUT_FILENO);
        execlp("python3", "python3", SANDPIT_SOURCE "/tests/git/serve.py", root, (char *)NULL);
        _exit(127);
    }
    close(pair[1]);
    FILE *file = fdopen(pair[0], "r");
    bool told = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    return told && sscanf(line, "%d %d %d", &http_port, &git_port, &silent_port) == 3 ? 0 : -1;
}

static int prepare(void)
{
    char *out = NULL, *errors = NULL;
    snprintf(root, sizeof root, "/tmp/sandpit-repos-XXXXXX");
    if (!mkdtemp(root) || start_servers() < 0)
        return -1;
    setenv("XDG_DATA_HOME", text("%s/data", root), 1);
    const char *argv[] = {SANDPIT_SOURCE "/tests/git/make", root, text("%d", silent_port), NULL};
    const struct emulator nowhere = {.dir = "/", .run_root = "/"};
    int code = run_command(&nowhere, argv, &out, &errors);
    if (code != 0)
        printf("make: %s%s\n", out, errors);
    free(out);
    free(errors);
    return code;
}

static void clean(void)
{
    const char *argv[] = {"rm", "-rf", root, NULL};
    char *out = NULL, *errors = NULL;
    const struct emulator nowhere = {.dir = "/", .run_root = "/"};
    if (server > 0)
        kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    run_command(&nowhere, argv, &out, &errors);
    free(out);
    free(errors);
}

/* Another user of this host, or why there is none. */
static const char *become_another(void)
{
    if (geteuid() != 0)
        return "the suite before was it";
    if (!emulator_runs_as(61234))
        return "another user cannot execute " SANDPIT_BINARY;
    emulator = (struct emulator){.uid = 61234};
    return chmod(root, 0755) == 0 ? NULL : "its directory cannot be opened";
}

/* 0 when it started and ended as it should. */
static int with_emulator(void (*suite)(void))
{
    char mirrors[128];
    const char *extra[] = {"--git-mirror", mirrors, NULL};
    snprintf(mirrors, sizeof mirrors, "https://github.com/=%s", root);
    if (emulator_start(&emulator, extra) < 0) {
        printf("the emulator did not start: see %s\n", emulator.log);
        return 1;
    }
    suite();
    if (emulator_stop(&emulator) != 0) {
        printf("the emulator did not end cleanly: see %s\n", emulator.log);
        return 1;
    }
    emulator_clean(&emulator);
    return 0;
}

GREATEST_MAIN_DEFS();

static void run_all(void)
{
    RUN_SUITE(git_suite);
}

static void run_rootless(void)
{
    RUN_SUITE(rootless_git_suite);
}

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP git_suite: %s\n", missing);
        return 77;
    }
    int result = prepare();
    if (result == 0)
        result = with_emulator(run_all);
    const char *lacking = result == 0 ? become_another() : "the suite before failed to run";
    if (lacking)
        printf("SKIP rootless_git_suite: %s\n", lacking);
    else
        result = with_emulator(run_rootless);
    clean();
    if (result != 0)
        return 1;
    GREATEST_MAIN_END();
}
