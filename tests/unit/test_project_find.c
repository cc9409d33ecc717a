/* Which configuration is a directory's, and what is not read of it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/check.h"
#include "config/wrangler.h"
#include "greatest.h"

static char scratch[PATH_MAX];

static const char *path_of(const char *name)
{
    static char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

static void put(const char *name, const char *text)
{
    CLEANUP_FILE FILE *file = fopen(path_of(name), "we");
    if (file)
        fputs(text, file);
}

/* The names of the configuration that is read for a directory below the scratch one. */
static const char *found_for(const char *dir, bool *above)
{
    static char found[PATH_MAX];
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    if (project_load(path_of(dir), NULL, &project, &err) < 0)
        return "error";
    *above = project.above;
    snprintf(found, sizeof found, "%s",
             project.found ? project.file + strlen(scratch) + 1 : "none");
    return found;
}

TEST a_configuration_is_looked_for_in_the_directories_above(void)
{
    bool above;
    mkdir(path_of("a"), 0700);
    mkdir(path_of("a/b"), 0700);
    ASSERT_STR_EQ("none", found_for("a/b", &above));
    put("wrangler.toml", "name = 'top'\n");
    ASSERT_STR_EQ("wrangler.toml", found_for("a/b", &above));
    ASSERT(above);
    ASSERT_STR_EQ("wrangler.toml", found_for(".", &above));
    ASSERT_FALSE(above);
    put("a/wrangler.toml", "name = 'a'\n");
    ASSERT_STR_EQ("a/wrangler.toml", found_for("a/b", &above));
    put("a/b/wrangler.jsonc", "{}");
    ASSERT_STR_EQ("a/b/wrangler.jsonc", found_for("a/b", &above));
    ASSERT_FALSE(above);
    put("wrangler.json", "{}");
    ASSERT_STR_EQm("wrangler looks for each name in all of them first", "wrangler.json",
                   found_for("a/b", &above));
    char dir[PATH_MAX];
    struct error err = {0};
    ASSERT_EQ(0, project_locate(path_of("a/b"), dir, &err));
    ASSERT_STR_EQ(scratch, dir);
    unlink(path_of("wrangler.json"));
    mkdir(path_of("wrangler.json"), 0700);
    ASSERT_STR_EQm("a directory is no configuration", "a/b/wrangler.jsonc",
                   found_for("a/b", &above));
    rmdir(path_of("wrangler.json"));
    unlink(path_of("a/b/wrangler.jsonc"));
    unlink(path_of("a/wrangler.toml"));
    unlink(path_of("wrangler.toml"));
    PASS();
}

TEST paths_start_where_a_linked_configuration_is_linked(void)
{
    put("shared.jsonc", "{\"containers\": [{\"class_name\": \"A\", \"image\": \"./Dockerfile\"}]}");
    put("a/Dockerfile", "FROM cloudflare/sandbox:0.7.4\n");
    ASSERT_EQ(0, symlink("../shared.jsonc", path_of("a/wrangler.jsonc")));
    struct error err = {0};
    CLEANUP_PROJECT struct project looked, named;
    ASSERT_EQm(err.text, 0, project_load(path_of("a"), NULL, &looked, &err));
    ASSERT_STR_EQ("0.7.4", looked.classes[0].version);
    ASSERT_EQm(err.text, 0, project_load(".", path_of("a/wrangler.jsonc"), &named, &err));
    ASSERT_STR_EQ("0.7.4", named.classes[0].version);
    ASSERT_STR_EQ(looked.file, named.file);
    unlink(path_of("a/wrangler.jsonc"));
    unlink(path_of("a/Dockerfile"));
    unlink(path_of("shared.jsonc"));
    PASS();
}

/* A reader that waits for a writer would hang here; the test's deadline sees it. */
TEST what_is_no_file_is_refused_at_once_and_placed(void)
{
    static const struct {
        const char *image, *error;
    } rows[] = {
        {"./pipe", "wrangler.jsonc:1:46: containers[0].image cannot be read: "},
        {"/dev/zero", "wrangler.jsonc:1:46: containers[0].image cannot be read: "},
        {"./large", "wrangler.jsonc:1:46: containers[0].image cannot be read: "},
        {"./below", "below/Dockerfile:1:1: there is no FROM"},
    };
    mkfifo(path_of("pipe"), 0600);
    put("large", "");
    ASSERT_EQ(0, truncate(path_of("large"), SOURCE_BYTES_MAX + 1));
    mkdir(path_of("below"), 0700);
    put("below/Dockerfile", "RUN x\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"containers\": [{\"class_name\": \"A\", \"image\": \"%s\"}]}", rows[i].image);
        put("wrangler.jsonc", text);
        struct error err = {0};
        CLEANUP_PROJECT struct project project;
        ASSERT(project_load(scratch, NULL, &project, &err) < 0);
        ASSERTm(err.text, strncmp(rows[i].error, err.text, strlen(rows[i].error)) == 0);
    }
    unlink(path_of("wrangler.jsonc"));
    mkfifo(path_of("wrangler.jsonc"), 0600);
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    ASSERT(project_load(scratch, NULL, &project, &err) < 0);
    ASSERTm(err.text, strstr(err.text, "is not a file"));
    unlink(path_of("below/Dockerfile"));
    rmdir(path_of("below"));
    unlink(path_of("wrangler.jsonc"));
    unlink(path_of("large"));
    unlink(path_of("pipe"));
    PASS();
}

TEST a_script_that_is_beside_the_project_or_too_large_is_there(void)
{
    static const char config[] =
        "{\"main\": \"../worker.ts\", \"compatibility_flags\": [\"nodejs_compat\"],\n"
        "\"containers\": [{\"class_name\": \"Box\", \"image\": \"x:1\", \"max_instances\": 1}],\n"
        "\"durable_objects\": {\"bindings\": [{\"name\": \"B\", \"class_name\": \"Box\"}]},\n"
        "\"migrations\": [{\"tag\": \"v1\", \"new_sqlite_classes\": [\"Box\"]}]}";
    put("a/wrangler.jsonc", config);
    put("worker.ts", "export default {};\n");
    CLEANUP_FINDINGS struct findings beside = {0}, large = {0};
    ASSERT_EQ(0, project_inspect(path_of("a"), NULL, NULL, &beside));
    ASSERT_EQ(1, beside.count);
    ASSERT_STR_EQm(beside.list[0].reason, "class-export", beside.list[0].check->id);
    ASSERT_EQm("patch does not leave its directory", NULL, beside.list[0].fix);
    ASSERT_EQ(0, truncate(path_of("worker.ts"), SOURCE_BYTES_MAX + 1));
    ASSERT_EQ(0, project_inspect(path_of("a"), NULL, NULL, &large));
    ASSERT_EQ(0, large.count);
    unlink(path_of("worker.ts"));
    unlink(path_of("a/wrangler.jsonc"));
    PASS();
}

TEST a_fix_has_the_line_ends_of_the_file(void)
{
    put("a/wrangler.jsonc", "{\r\n  \"name\": \"x\"\r\n}\r\n");
    CLEANUP_FINDINGS struct findings findings = {0};
    ASSERT_EQ(0, project_inspect(path_of("a"), NULL, NULL, &findings));
    ASSERT(findings.count > 0 && findings.list[0].fix);
    const char *added = strstr(findings.list[0].fix, "\n+");
    while (added && strncmp(added, "\n+++", 4) == 0)
        added = strstr(added + 1, "\n+");
    ASSERTm(findings.list[0].fix, added);
    const char *end = strchr(added + 1, '\n');
    ASSERTm(findings.list[0].fix, end && end[-1] == '\r');
    unlink(path_of("a/wrangler.jsonc"));
    PASS();
}

SUITE(project_find)
{
    RUN_TEST(a_configuration_is_looked_for_in_the_directories_above);
    RUN_TEST(paths_start_where_a_linked_configuration_is_linked);
    RUN_TEST(what_is_no_file_is_refused_at_once_and_placed);
    RUN_TEST(a_script_that_is_beside_the_project_or_too_large_is_there);
    RUN_TEST(a_fix_has_the_line_ends_of_the_file);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    char dir[] = "/tmp/sandpit-find-XXXXXX";
    if (!mkdtemp(dir) || !realpath(dir, scratch))
        return 1;
    RUN_SUITE(project_find);
    rmdir(path_of("a/b"));
    rmdir(path_of("a"));
    rmdir(scratch);
    GREATEST_MAIN_END();
}
