/* A project's configuration and Dockerfiles, as its sandboxes show them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "greatest.h"
#include "support.h"

static void close_project(struct emulator *emulator)
{
    if (emulator->pid > 0)
        emulator_stop(emulator);
    emulator_clean(emulator);
}
#define CLEANUP_EMULATOR __attribute__((cleanup(close_project)))

static void make(struct emulator *emulator)
{
    *emulator = (struct emulator){.pid = 0};
    snprintf(emulator->dir, sizeof emulator->dir, "/tmp/sandpit-test-XXXXXX");
    if (!mkdtemp(emulator->dir))
        abort();
}

static void put(const struct emulator *emulator, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", emulator->dir, name);
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) < 0)
        abort();
}

static const char *output_of(const struct emulator *emulator, const char *path, const char *body)
{
    CLEANUP_REPLY struct reply reply = post(emulator, path, body);
    return keep(text_at(reply.json, "stdout"));
}

/* What the emulator said so far. */
static const char *log_of(const struct emulator *emulator)
{
    static char text[65536];
    FILE *file = fopen(emulator->log, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    if (file)
        fclose(file);
    return text;
}

static const char one_class[] =
    "{\"containers\": [{\"class_name\": \"Sandbox\", \"image\": \"./Dockerfile\"}]}";

/* A server on 8080 and one on 9001, which listen when this is answered. */
static const char serve[] =
    "[\"for port in 8080 9001; do python3 -m http.server --bind 127.0.0.1 $port "
    ">/dev/null 2>&1 & until (: < /dev/tcp/127.0.0.1/$port) 2>/dev/null; do :; done; done\"]";

/* The first use of a port, without a connection to it. */
static const char expose[] = "[8080, {\"hostname\": \"localhost\"}]";

static const char refusal[] = "connect(): Connection refused: container port not found. Make sure "
                              "you exposed the port in your container definition.";

TEST a_toml_project_with_environments_and_classes_is_served(void)
{
    static const char *const staging[] = {"--env", "staging", NULL};
    CLEANUP_EMULATOR struct emulator project;
    make(&project);
    put(&project, "wrangler.toml",
        "name = 'app'\n[[containers]]\nclass_name = 'Sandbox'\nimage = 'cloudflare/sandbox:0.5.0'\n"
        "[[env.staging.containers]]\nclass_name = 'Sandbox'\nimage = 'cloudflare/sandbox:0.7.4'\n"
        "[[env.staging.containers]]\nclass_name = 'SandboxPython'\n"
        "image = 'cloudflare/sandbox:0.6.3-python'\n"
        "[[env.staging.containers]]\nclass_name = 'SandboxMusl'\n"
        "image = 'cloudflare/sandbox:0.8.0'\n");
    ASSERT_EQ(0, emulator_start(&project, staging));
    static const struct {
        const char *path, *headers, *version;
    } rows[] = {
        {"/sandbox/a/exec", NULL, "0.7.4"},
        {"/sandbox/a/exec?class=SandboxPython", NULL, "0.6.3"},
        {"/sandbox/a/exec", "X-Sandbox-Class: SandboxPython\r\n", "0.6.3"},
        {"/sandbox/a/exec", "X-Sandbox-Type: python\r\n", "0.6.3"},
        {"/sandbox/a/exec", "X-Sandbox-Type: musl\r\n", "0.8.0"},
        {"/sandbox/a/exec", "X-Sandbox-Type: standalone\r\n", "0.7.4"},
        {"/sandbox/a/exec?class=Sandbox", "X-Sandbox-Type: python\r\n", "0.7.4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP_REPLY struct reply reply =
            request(&project, "POST", rows[i].path, rows[i].headers, "[\"echo $SANDBOX_VERSION\"]");
        ASSERT_STR_EQm(rows[i].headers ? rows[i].headers : rows[i].path, rows[i].version,
                       text_at(reply.json, "stdout"));
    }
    CLEANUP_REPLY struct reply unknown =
        request(&project, "POST", "/sandbox/a/exec", "X-Sandbox-Class: Nobody\r\n", "[\"true\"]");
    ASSERT_EQ(404, unknown.status);
    ASSERT_STR_EQ("Class 'Nobody' not found", text_at(unknown.json, "error"));
    PASS();
}

TEST env_of_the_dockerfile_is_in_containers_below_what_callers_set(void)
{
    CLEANUP_EMULATOR struct emulator project;
    make(&project);
    put(&project, "wrangler.jsonc", one_class);
    put(&project, "Dockerfile",
        "FROM cloudflare/sandbox:0.12.7 AS base\nENV A=image B=image C=image\nFROM base\n"
        "ENV B=\"two words\" PATH=/opt/own/bin:$PATH\n");
    ASSERT_EQ(0, emulator_start(&project, NULL));
    ASSERT_STR_EQ("image|two words|image",
                  output_of(&project, "/sandbox/e/exec", "[\"echo \\\"$A|$B|$C\\\"\"]"));
    const char *path = output_of(&project, "/sandbox/e/exec", "[\"echo $PATH; command -v ls\"]");
    ASSERT_EQm(path, 0, strncmp(path, "/opt/own/bin:/", 14));
    ASSERTm(path, strstr(path, "/ls"));
    CLEANUP_REPLY struct reply set = post(&project, "/sandbox/e/setEnvVars", "[{\"A\": \"set\"}]");
    ASSERT_STR_EQ("set|two words|mine",
                  output_of(&project, "/sandbox/e/exec",
                            "[\"echo \\\"$A|$B|$C\\\"\", {\"env\": {\"C\": \"mine\"}}]"));
    PASS();
}

TEST a_port_without_expose_is_refused_where_wrangler_refused_it(void)
{
    CLEANUP_EMULATOR struct emulator project;
    make(&project);
    put(&project, "wrangler.jsonc", one_class);
    put(&project, "package.json", "{\"devDependencies\": {\"wrangler\": \"4.20.0\"}}");
    put(&project, "Dockerfile",
        "FROM cloudflare/sandbox:0.12.7-python\nEXPOSE 9000-9010 8081/tcp\n");
    ASSERT_EQ(0, emulator_start(&project, NULL));
    output_of(&project, "/sandbox/e/exec", serve);
    CLEANUP_REPLY struct reply proxied = get(&project, "/sandbox/e/proxy/8080/");
    ASSERT_EQ(500, proxied.status);
    ASSERT_STR_EQ(refusal, text_at(proxied.json, "error"));
    const char *hint = text_at(proxied.json, "hint");
    ASSERTm(keep(hint), strstr(hint, "add the line EXPOSE 8080 to Dockerfile of class Sandbox"));
    ASSERTm(keep(hint),
            strstr(hint, "--expose-check is strict: wrangler is 4.20.0 (package.json)"));
    CLEANUP_REPLY struct reply fetched =
        post(&project, "/sandbox/e/containerFetch", "[\"http://x/\", {}, 8080]");
    ASSERT_STR_EQ(refusal, text_at(fetched.json, "error"));
    CLEANUP_REPLY struct reply other = get(&project, "/sandbox/e/proxy/9001/");
    ASSERT_EQ(200, other.status);
    CLEANUP_REPLY struct reply init = post(&project, "/api/init", "");
    ASSERTm("what looks from the inside is not asked", init.status != 500);
    CLEANUP_REPLY struct reply events = get(&project, "/cdn-cgi/local/events");
    ASSERT(strstr(events.body, "\"hint.expose\""));
    PASS();
}

TEST strict_without_hints_says_what_the_original_says(void)
{
    static const char *const options[] = {"--expose-check=strict", "--faithful", NULL};
    CLEANUP_EMULATOR struct emulator project;
    make(&project);
    put(&project, "wrangler.jsonc", one_class);
    put(&project, "Dockerfile", "FROM cloudflare/sandbox:0.12.7\n");
    ASSERT_EQ(0, emulator_start(&project, options));
    CLEANUP_REPLY struct reply proxied = get(&project, "/sandbox/e/proxy/8080/");
    ASSERT_STR_EQ(refusal, text_at(proxied.json, "error"));
    ASSERT_EQ(NULL, at(proxied.json, "hint"));
    ASSERT(strstr(log_of(&project), "class Sandbox exposes no port of yours"));
    PASS();
}

TEST what_the_image_itself_exposes_needs_no_line(void)
{
    static const char *const options[] = {"--expose-check=strict", NULL};
    CLEANUP_EMULATOR struct emulator project;
    make(&project);
    put(&project, "wrangler.jsonc", one_class);
    put(&project, "Dockerfile", "FROM cloudflare/sandbox:0.12.7-opencode\n");
    ASSERT_EQ(0, emulator_start(&project, options));
    CLEANUP_REPLY struct reply own =
        post(&project, "/sandbox/e/exposePort", "[4096, {\"hostname\": \"localhost\"}]");
    ASSERT_EQ(200, own.status);
    ASSERT(!strstr(log_of(&project), "port 4096 (exposePort) is not exposed"));
    CLEANUP_REPLY struct reply other = post(&project, "/sandbox/e/exposePort", expose);
    ASSERT(strstr(log_of(&project), "port 8080 (exposePort) is not exposed"));
    PASS();
}

TEST with_warn_a_port_works_and_is_told_once(void)
{
    static const char *const options[] = {"--expose-check=warn", NULL};
    CLEANUP_EMULATOR struct emulator project;
    make(&project);
    put(&project, "wrangler.jsonc", one_class);
    put(&project, "Dockerfile", "FROM cloudflare/sandbox:0.12.7-python\nEXPOSE 9000\n");
    ASSERT_EQ(0, emulator_start(&project, options));
    output_of(&project, "/sandbox/e/exec", serve);
    for (int i = 0; i < 3; i++) {
        CLEANUP_REPLY struct reply proxied = get(&project, "/sandbox/e/proxy/8080/");
        ASSERT_EQ(200, proxied.status);
    }
    const char *log = log_of(&project),
               *first = strstr(log, "port 8080 (a request) is not exposed");
    ASSERTm(keep(log), first);
    ASSERT(!strstr(first + 1, "port 8080 (a request) is not exposed"));
    PASS();
}

static const struct {
    const char *package, *dockerfile, *rule;
} defaults[] = {
    {"{\"devDependencies\": {\"wrangler\": \"4.135.9\"}}", "FROM cloudflare/sandbox:0.12.7",
     "strict"},
    {"{\"devDependencies\": {\"wrangler\": \"4.136.0\"}}", "FROM cloudflare/sandbox:0.12.7",
     "warn"},
    {"{\"devDependencies\": {\"wrangler\": \"^4.20.0\"}}", "FROM cloudflare/sandbox:0.12.7",
     "warn"},
    {"{\"dependencies\": {\"@cloudflare/sandbox\": \"^0.7.4\"}}", "FROM cloudflare/sandbox:0.7.4",
     "strict"},
    {"{\"dependencies\": {\"@cloudflare/sandbox\": \"0.12.1\"}}", "FROM cloudflare/sandbox:0.12.1",
     "warn"},
    {"{\"dependencies\": {\"@cloudflare/sandbox\": \"0.7.4\"}, "
     "\"devDependencies\": {\"wrangler\": \"^4.20.0\"}}",
     "FROM cloudflare/sandbox:0.7.4", "strict"},
    {"{}", "FROM cloudflare/sandbox:0.7.4", "warn"},
    {"{\"devDependencies\": {\"wrangler\": \"^3.90.0\"}}", "FROM cloudflare/sandbox:0.12.7",
     "strict"},
    {"{\"dependencies\": {\"@cloudflare/sandbox\": \"0.7.4\"}, "
     "\"devDependencies\": {\"wrangler\": \"^4.136.0\"}}",
     "FROM cloudflare/sandbox:0.7.4", "warn"},
    {"{\"devDependencies\": {\"wrangler\": \"4.20.0\"}}", "FROM node:20", "warn"},
};

TEST without_the_option_the_project_decides(void)
{
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        char wanted[64];
        CLEANUP_EMULATOR struct emulator project;
        make(&project);
        put(&project, "wrangler.jsonc", one_class);
        put(&project, "package.json", defaults[i].package);
        put(&project, "Dockerfile", defaults[i].dockerfile);
        ASSERT_EQ(0, emulator_start(&project, NULL));
        CLEANUP_REPLY struct reply exposed = post(&project, "/sandbox/e/exposePort", expose);
        ASSERT_EQ(200, exposed.status);
        snprintf(wanted, sizeof wanted, "--expose-check is %s: ", defaults[i].rule);
        ASSERTm(keep(log_of(&project)), strstr(log_of(&project), wanted));
    }
    PASS();
}

TEST without_a_project_or_in_production_nobody_asks(void)
{
    static const char *const production[] = {"--rules", "production", NULL};
    CLEANUP_EMULATOR struct emulator none, deployed;
    make(&none);
    ASSERT_EQ(0, emulator_start(&none, NULL));
    CLEANUP_REPLY struct reply a = post(&none, "/sandbox/e/exposePort", expose);
    ASSERT_EQ(200, a.status);
    ASSERT(!strstr(log_of(&none), "expose-check"));
    make(&deployed);
    put(&deployed, "wrangler.jsonc", one_class);
    put(&deployed, "package.json", "{\"devDependencies\": {\"wrangler\": \"4.20.0\"}}");
    put(&deployed, "Dockerfile", "FROM cloudflare/sandbox:0.12.7\n");
    ASSERT_EQ(0, emulator_start(&deployed, production));
    CLEANUP_REPLY struct reply b =
        post(&deployed, "/sandbox/e/exposePort", "[8080, {\"hostname\": \"example.com\"}]");
    ASSERT_EQ(200, b.status);
    ASSERT(!strstr(log_of(&deployed), "expose-check"));
    PASS();
}

TEST a_configuration_above_is_taken_and_said(void)
{
    static const char *const below[] = {"packages/app", NULL};
    char dir[256], said[320], state[320];
    CLEANUP_EMULATOR struct emulator project;
    make(&project);
    snprintf(dir, sizeof dir, "%s/packages", project.dir);
    ASSERT_EQ(0, mkdir(dir, 0700));
    snprintf(dir, sizeof dir, "%s/packages/app", project.dir);
    ASSERT_EQ(0, mkdir(dir, 0700));
    put(&project, "wrangler.jsonc", one_class);
    put(&project, "Dockerfile", "FROM cloudflare/sandbox:0.7.4\n");
    ASSERT_EQ(0, emulator_start(&project, below));
    snprintf(said, sizeof said, "configuration: %s/wrangler.jsonc (found above", project.dir);
    ASSERTm(keep(log_of(&project)), strstr(log_of(&project), said));
    ASSERT_STR_EQ("0.7.4", output_of(&project, "/sandbox/a/exec", "[\"echo $SANDBOX_VERSION\"]"));
    const char *const ps[] = {SANDPIT_BINARY, "ps", "--project", dir, NULL};
    char *out = NULL, *errors = NULL;
    int status = run_command(&project, ps, &out, &errors);
    snprintf(state, sizeof state, "%s", out ? out : "");
    free(out);
    free(errors);
    ASSERT_EQ(0, status);
    ASSERTm(keep(state), strstr(state, "a"));
    PASS();
}

TEST what_init_writes_is_served_without_a_warning(void)
{
    CLEANUP_EMULATOR struct emulator project;
    make(&project);
    const char *const init[] = {SANDPIT_BINARY, "init", project.dir, NULL};
    char *out = NULL, *errors = NULL;
    int status = run_command(&project, init, &out, &errors);
    free(out);
    free(errors);
    ASSERT_EQ(0, status);
    ASSERT_EQ(0, emulator_start(&project, NULL));
    ASSERT_STR_EQ("hello", output_of(&project, "/sandbox/my-box/exec", "[\"echo hello\"]"));
    CLEANUP_REPLY struct reply exposed = post(&project, "/sandbox/my-box/exposePort", expose);
    ASSERT_EQ(200, exposed.status);
    const char *log = log_of(&project);
    ASSERTm(keep(log), !strstr(log, "doctor") && !strstr(log, "is not exposed") &&
                           !strstr(log, "exposes no port"));
    PASS();
}

SUITE(project_suite)
{
    RUN_TEST(a_configuration_above_is_taken_and_said);
    RUN_TEST(what_init_writes_is_served_without_a_warning);
    RUN_TEST(a_toml_project_with_environments_and_classes_is_served);
    RUN_TEST(env_of_the_dockerfile_is_in_containers_below_what_callers_set);
    RUN_TEST(a_port_without_expose_is_refused_where_wrangler_refused_it);
    RUN_TEST(strict_without_hints_says_what_the_original_says);
    RUN_TEST(what_the_image_itself_exposes_needs_no_line);
    RUN_TEST(with_warn_a_port_works_and_is_told_once);
    RUN_TEST(without_the_option_the_project_decides);
    RUN_TEST(without_a_project_or_in_production_nobody_asks);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP project_suite: %s\n", missing);
        return 77;
    }
    RUN_SUITE(project_suite);
    GREATEST_MAIN_END();
}
