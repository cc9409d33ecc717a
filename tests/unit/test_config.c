#include "greatest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/dockerfile.h"
#include "config/image.h"
#include "config/jsonc.h"
#include "config/wrangler.h"

static const struct {
    const char *text;
    const char *compact; /* NULL: refused with `error` */
    const char *error;
} jsonc_rows[] = {
    {"{}", "{}", NULL},
    {"\xEF\xBB\xBF{\"a\": 1}", "{\"a\":1}", NULL},
    {"{\"a\": 1, // one\n \"b\": 2}", "{\"a\":1,\"b\":2}", NULL},
    {"/* x */ {\"a\": /* y */ 1} // end", "{\"a\":1}", NULL},
    {"{\"url\": \"http://x/*y*/\", \"s\": \"a\\\"//b\"}",
     "{\"url\":\"http://x/*y*/\",\"s\":\"a\\\"//b\"}", NULL},
    {"{\"a\": [1, 2, ], }", "{\"a\":[1,2]}", NULL},
    {"{\"a\": [1, // last\n /* really */ ],\r\n}\r\n", "{\"a\":[1]}", NULL},
    {"{\"a\": \"x,\", \"b\": \",]\"}", "{\"a\":\"x,\",\"b\":\",]\"}", NULL},
    {"{\"a\": 1, \"a\": 2}", "{\"a\":2}", NULL},
    {"[,]", NULL, "f:1:2: "},
    {"[1,,]", NULL, "f:1:4: "},
    {"{\"a\":,}", NULL, "f:1:6: "},
    {"{\n  // one\n  \"a\" 1\n}", NULL, "f:3:7: "},
    {"{\n  /* two\n lines */ \"a\": x\n}", NULL, "f:3:16: "},
    {"{\n  \"a\": 1 /* open", NULL, "f:2:10: the comment does not end"},
    {"{\"a\": \"open", NULL, "f:1:"},
    {"{} x", NULL, "f:1:4: "},
    {"", NULL, "f:1:0: "},
    {"/", NULL, "f:1:1: "},
    {"\"\\", NULL, "f:1:"},
};

TEST jsonc_takes_comments_and_trailing_commas_and_places_errors(void)
{
    for (size_t i = 0; i < sizeof jsonc_rows / sizeof *jsonc_rows; i++) {
        struct error err = {0};
        const char *text = jsonc_rows[i].text;
        CLEANUP_JSON json_t *value = jsonc_parse(text, strlen(text), "f", &err);
        if (!jsonc_rows[i].compact) {
            ASSERTm(text, value == NULL);
            char start[64];
            snprintf(start, sizeof start, "%.*s", (int)strlen(jsonc_rows[i].error), err.text);
            ASSERT_STR_EQm(text, jsonc_rows[i].error, start);
            continue;
        }
        ASSERTm(err.text, value != NULL);
        CLEANUP_FREE char *compact = json_dumps(value, JSON_COMPACT);
        ASSERT_STR_EQm(text, jsonc_rows[i].compact, compact);
    }
    PASS();
}

TEST jsonc_finds_where_a_value_stands(void)
{
    const char *text =
        "{ // {\n  \"x\": {\"list\": []},\n  \"list\": [ 1, /* , */ {\"k\": \"]\"},\n"
        "    {\"k\": \"\xC3\xA9\", \"v\": true}]\n}";
    struct jsonc_step path[] = {{.name = "list"}, {.index = 2}, {.name = "v"}};
    struct jsonc_place place = jsonc_locate(text, strlen(text), path, 3);
    ASSERT_EQ(4, place.line);
    ASSERT_EQ(21, place.column);
    path[2].name = "k";
    path[1].index = 1;
    place = jsonc_locate(text, strlen(text), path, 3);
    ASSERT_EQ(3, place.line);
    ASSERT_EQ(30, place.column);
    path[2].name = "none";
    ASSERT_EQ(0, jsonc_locate(text, strlen(text), path, 3).line);
    path[1].index = 9;
    ASSERT_EQ(0, jsonc_locate(text, strlen(text), path, 2).line);
    PASS();
}

static const struct {
    const char *text;
    const char *image; /* NULL: refused with `error` */
    const char *error;
} dockerfile_rows[] = {
    {"FROM a:1", "a:1", NULL},
    {"from a:1 as x\n", "a:1", NULL},
    {"# FROM no\n\n  FROM a:1 # not a comment here\n", NULL,
     "D:3: FROM takes an image and perhaps AS and a name"},
    {"FROM --platform=linux/amd64 a:1 AS x\r\nRUN true\r\n", "a:1", NULL},
    {"FROM \\\n  # why\n\n  --platform=$BUILDPLATFORM \\\n a:1\n", "a:1", NULL},
    {"ARG V=0.7.4\nFROM r/s:${V}\n", "r/s:0.7.4", NULL},
    {"ARG V=\"0.7.4\" W='x'\nFROM r/s:$V-$W\n", "r/s:0.7.4-x", NULL},
    {"ARG V\nFROM r/s:${V:-1.2}\n", "r/s:1.2", NULL},
    {"ARG V=\nFROM r/s:${V:-1.2}${V-3}\n", "r/s:1.2", NULL},
    {"ARG A=1\nARG B=${A}.5\nFROM r/s:${C:-${B}}\n", "r/s:1.5", NULL},
    {"ARG V=1\nFROM r/s:1${V:+-python}\n", "r/s:1-python", NULL},
    {"ARG B=a:1\nFROM $B AS base\nARG B=c:3\nFROM base\n", "a:1", NULL},
    {"FROM a:1 AS one\nFROM b:2 AS two\nFROM ONE\n", "a:1", NULL},
    {"FROM a:1 AS a\nFROM a AS b\nFROM b AS c\n", "a:1", NULL},
    {"FROM a:1\nRUN <<EOF\nFROM z:9\nEOF\nRUN echo <<<x\n", "a:1", NULL},
    {"FROM a:1\nCOPY <<-\"E\" /x\nFROM z:9\n\tE\n", "a:1", NULL},
    {"FROM a:1\nRUN echo \\\nFROM b:2\n", "a:1", NULL},
    {"# escape=`\nFROM `\n a:1\nCOPY x C:\\\nFROM b:2\n", "b:2", NULL},
    {"\xEF\xBB\xBF"
     "FROM a:1",
     "a:1", NULL},
    {"RUN true\n", NULL, "D: there is no FROM"},
    {"\n\nFROM\n", NULL, "D:3: FROM needs an image"},
    {"ARG V\nFROM $V\n", NULL, "D:2: FROM has an empty image: an ARG it uses has no default"},
    {"FROM ${V\n", NULL, "D:1: cannot read '${V'"},
    {"FROM a:${V?x}\n", NULL, "D:1: cannot read 'a:${V?x}'"},
    {"", NULL, "D: there is no FROM"},
};

TEST dockerfile_gives_the_image_of_its_final_stage(void)
{
    for (size_t i = 0; i < sizeof dockerfile_rows / sizeof *dockerfile_rows; i++) {
        const char *text = dockerfile_rows[i].text;
        char image[DOCKERFILE_IMAGE_MAX] = "";
        struct error err = {0};
        int result = dockerfile_base(text, strlen(text), "D", image, &err);
        if (dockerfile_rows[i].image) {
            ASSERT_EQm(err.text, 0, result);
            ASSERT_STR_EQm(text, dockerfile_rows[i].image, image);
        } else {
            ASSERTm(text, result < 0);
            ASSERT_STR_EQm(text, dockerfile_rows[i].error, err.text);
        }
    }
    PASS();
}

static const struct {
    const char *reference;
    const char *version;
    bool python;
} image_rows[] = {
    {"cloudflare/sandbox:0.6.3-python", "0.6.3", true},
    {"docker.io/cloudflare/sandbox:0.7.4", "0.7.4", false},
    {"registry:5000/mirror/cloudflare/sandbox:0.12.7-opencode", "0.12.7", false},
    {"cloudflare/sandbox:0.5.6", "0.5.6", true},
    {"cloudflare/sandbox:0.4.18", "0.4.18", true},
    {"cloudflare/sandbox:0.6", "0.6", false},
    {"cloudflare/sandbox:1.0.0", "1.0.0", false},
    {"cloudflare/sandbox:0.9.1@sha256:00ff", "0.9.1", false},
    {"cloudflare/sandbox@sha256:00ff", "", true},
    {"cloudflare/sandbox", "", true},
    {"cloudflare/sandbox:latest", "", true},
    {"localhost:5000/cloudflare/sandbox", "", true},
    {"notcloudflare/sandbox:0.7.4", "", true},
    {"cloudflare/sandbox-fork:0.7.4", "", true},
    {"python:3.11", "", true},
    {"", "", true},
};

TEST image_tags_tell_version_and_python(void)
{
    for (size_t i = 0; i < sizeof image_rows / sizeof *image_rows; i++) {
        struct image_facts facts = image_facts(image_rows[i].reference);
        ASSERT_STR_EQm(image_rows[i].reference, image_rows[i].version, facts.version);
        ASSERT_EQm(image_rows[i].reference, image_rows[i].python, facts.python);
    }
    PASS();
}

static char scratch[] = "/tmp/sandpit-config-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    CLEANUP_FILE FILE *file = fopen(path, "we");
    if (file)
        fputs(text, file);
}

static void drop(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    unlink(path);
}

static const struct {
    const char *text;
    const char *error;
} project_errors[] = {
    {"[]", "wrangler.jsonc:1:1: an object is expected"},
    {"{\"name\": 1}", "wrangler.jsonc:1:10: name must be a string"},
    {"{\"containers\": {}}", "wrangler.jsonc:1:16: containers must be an array"},
    {"{\"containers\": [1]}", "wrangler.jsonc:1:17: containers[0] must be an object"},
    {"{\n \"containers\": [\n  {\"class_name\": 5}]}",
     "wrangler.jsonc:3:18: containers[0].class_name must be a string"},
    {"{\"containers\": [{\"image\": \"x:1\"}]}",
     "wrangler.jsonc:1:17: containers[0].class_name must be a string"},
    {"{\"containers\": [{\"class_name\": \"A\"}]}",
     "wrangler.jsonc:1:17: containers[0].image must be a string"},
    {"{\"containers\": [{\"class_name\": \"A\", \"image\": \"./Dockerfile\"}]}",
     "wrangler.jsonc:1:46: containers[0].image names a Dockerfile that is not there: ./Dockerfile"},
    {"{\"containers\": [{\"class_name\": \"A\", \"image\": \"x:1\"},\n"
     "{\"class_name\": \"A\", \"image\": \"x:1\"}]}",
     "wrangler.jsonc:2:16: containers[1].class_name is the class of an earlier container"},
    {"{\"containers\": [{\"class_name\": \"A\", \"image\": \"x:1\", \"max_instances\": \"5\"}]}",
     "wrangler.jsonc:1:70: containers[0].max_instances must be a whole number"},
    {"{\"containers\": [{\"class_name\": \"A\", \"image\": \"bad\"}]}", "bad: there is no FROM"},
    {"{\"sandpit\": 1}", "wrangler.jsonc:1:13: sandpit must be an object"},
    {"{\"sandpit\": {\"network\": \"none\"}}",
     "wrangler.jsonc:1:25: sandpit.network must be an object: class name to network"},
    {"{\"sandpit\": {\"network\": {\"B\": \"none\"}}}",
     "wrangler.jsonc:1:31: sandpit.network.B is not a class of containers"},
    {"{\"sandpit\": {\"network\": {\"Sandbox\": \"bridge\"}}}",
     "wrangler.jsonc:1:37: sandpit.network.Sandbox must be auto, none, pasta or slirp4netns"},
};

TEST project_errors_name_file_line_and_member(void)
{
    put("bad", "RUN true\n");
    for (size_t i = 0; i < sizeof project_errors / sizeof *project_errors; i++) {
        put("wrangler.jsonc", project_errors[i].text);
        struct error err = {0};
        CLEANUP_PROJECT struct project project;
        int result = project_load(scratch, NULL, &project, &err);
        ASSERTm(project_errors[i].text, result < 0);
        ASSERT_STR_EQ(project_errors[i].error, err.text);
    }
    drop("wrangler.jsonc");
    drop("bad");
    PASS();
}

TEST a_directory_without_configuration_has_the_class_sandbox(void)
{
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    ASSERT_EQm(err.text, 0, project_load(scratch, NULL, &project, &err));
    ASSERT_FALSE(project.found);
    ASSERT_EQ(1, project.class_count);
    ASSERT_STR_EQ("Sandbox", project.classes[0].name);
    ASSERT(project.classes[0].python);
    ASSERT_STR_EQ("", project.file);
    ASSERT_STR_EQ(strrchr(scratch, '/') + 1, project.name);
    PASS();
}

TEST a_toml_file_alone_is_refused_in_words(void)
{
    put("wrangler.toml", "name = 'x'\n");
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    ASSERT(project_load(scratch, NULL, &project, &err) < 0);
    ASSERT_STR_EQ("wrangler.toml is not read by this version; use wrangler.jsonc", err.text);
    put("wrangler.json", "{}");
    CLEANUP_PROJECT struct project other;
    ASSERT_EQ(0, project_load(scratch, NULL, &other, &err));
    ASSERT(other.found);
    ASSERT_STR_EQ("Sandbox", other.classes[0].name);
    drop("wrangler.json");
    drop("wrangler.toml");
    PASS();
}

static int load_fixture(const char *name, const char *file, struct project *project,
                        struct error *err)
{
    char path[512];
    const char *dot = file ? file : "";
    snprintf(path, sizeof path, "%s/projects/%s%s%s", FIXTURES_DIR, name, file ? "/" : "", dot);
    return project_load(file ? "." : path, file ? path : NULL, project, err);
}

TEST the_minimal_project_is_read(void)
{
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    int result = load_fixture("minimal-jsonc", NULL, &project, &err);
    ASSERT_EQm(err.text, 0, result);
    ASSERT(project.found);
    ASSERT_STR_EQ("minimal", project.name);
    ASSERT_STR_EQ("src/index.ts", project.main);
    ASSERT_EQ(1, project.class_count);
    ASSERT_STR_EQ("Sandbox", project.classes[0].name);
    ASSERT_STR_EQ("0.12.7", project.classes[0].version);
    ASSERT(project.classes[0].python);
    ASSERT_STR_EQ("lite", project.classes[0].instance_type);
    ASSERT_EQ(5, project.classes[0].max_instances);
    ASSERT(project.classes[0].dockerfile == NULL);
    PASS();
}

TEST a_dockerfile_is_followed_to_its_base(void)
{
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    int result = load_fixture("dockerfile-stages", "wrangler.jsonc", &project, &err);
    ASSERT_EQm(err.text, 0, result);
    ASSERT_EQ(2, project.class_count);
    ASSERT_STR_EQ("docker.io/cloudflare/sandbox:0.7.4", project.classes[0].from);
    ASSERT_STR_EQ("./Dockerfile", project.classes[0].image);
    ASSERT_STR_EQ("0.7.4", project.classes[0].version);
    ASSERT_FALSE(project.classes[0].python);
    ASSERT(project.classes[0].dockerfile != NULL);
    ASSERT_STR_EQ("SandboxPython", project.classes[1].name);
    ASSERT(project.classes[1].python);
    PASS();
}

TEST a_tag_from_0_6_on_without_python_is_lean(void)
{
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    int result = load_fixture("lean", NULL, &project, &err);
    ASSERT_EQm(err.text, 0, result);
    ASSERT_STR_EQ("0.6.3", project.classes[0].version);
    ASSERT_FALSE(project.classes[0].python);
    PASS();
}

TEST a_directory_image_means_its_dockerfile(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s/box", scratch);
    mkdir(path, 0700);
    put("box/Dockerfile", "FROM cloudflare/sandbox:0.5.0\n");
    put("wrangler.jsonc", "{\"containers\": [{\"class_name\": \"A\", \"image\": \"box\"}]}");
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    int result = project_load(scratch, NULL, &project, &err);
    drop("wrangler.jsonc");
    drop("box/Dockerfile");
    rmdir(path);
    ASSERT_EQm(err.text, 0, result);
    ASSERT_STR_EQ("0.5.0", project.classes[0].version);
    ASSERT(project.classes[0].python);
    PASS();
}

TEST instance_types_and_their_older_names_have_sizes(void)
{
    static const struct {
        const char *name;
        unsigned cpu_millis;
        unsigned memory_mib, disk_mb;
    } rows[] = {
        {"lite", 63, 256, 2000},
        {"basic", 250, 1024, 4000},
        {"standard-1", 500, 4096, 8000},
        {"standard-2", 1000, 6144, 12000},
        {"standard-3", 2000, 8192, 16000},
        {"standard-4", 4000, 12288, 20000},
        {"dev", 63, 256, 2000},
        {"standard", 500, 4096, 8000},
        {"premium", 4000, 12288, 20000},
    };
    struct instance_size size;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ASSERTm(rows[i].name, instance_type_find(rows[i].name, &size));
        ASSERT_EQ(rows[i].cpu_millis, size.cpu_millis);
        ASSERT_EQ(rows[i].memory_mib, size.memory_bytes >> 20);
        ASSERT_EQ(rows[i].disk_mb, size.disk_bytes / 1000000);
    }
    ASSERT_FALSE(instance_type_find("Lite", &size));
    ASSERT_FALSE(instance_type_find("", &size));
    PASS();
}

TEST sizes_and_cpus_are_read_as_docker_reads_them(void)
{
    static const struct {
        const char *text;
        unsigned long long bytes;
    } right[] = {{"512M", 512ULL << 20}, {"1g", 1ULL << 30},     {"1.5G", 3ULL << 29},
                 {"64MiB", 64ULL << 20}, {"64mb", 64ULL << 20},  {"2048", 2048},
                 {"100b", 100},          {"16384k", 16ULL << 20}};
    static const char *const wrong[] = {"",     "M",    "-1M",    "1X",        "1MM", "1 M",
                                        "1e3M", "0x10", "1.2.3M", "99999999T", "nan", "100bb"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        ASSERTm(right[i].text, parse_size(right[i].text, &bytes));
        ASSERT_EQm(right[i].text, right[i].bytes, bytes);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ASSERT_FALSEm(wrong[i], parse_size(wrong[i], &bytes));
    unsigned millis = 0;
    ASSERT(parse_cpus("0.25", &millis) && millis == 250);
    ASSERT(parse_cpus("4", &millis) && millis == 4000);
    ASSERT_FALSE(parse_cpus("0", &millis));
    ASSERT_FALSE(parse_cpus("1x", &millis));
    ASSERT_FALSE(parse_cpus("-1", &millis));
    PASS();
}

TEST a_class_may_have_a_network_of_its_own(void)
{
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    put("wrangler.jsonc", "{\"containers\": [{\"class_name\": \"A\", \"image\": \"x:1\"},"
                          "{\"class_name\": \"B\", \"image\": \"x:1\"}],"
                          "\"sandpit\": {\"network\": {\"B\": \"none\"}}}");
    int result = project_load(scratch, NULL, &project, &err);
    drop("wrangler.jsonc");
    ASSERT_EQm(err.text, 0, result);
    ASSERT_STR_EQ("", project.classes[0].network);
    ASSERT_STR_EQ("none", project.classes[1].network);
    PASS();
}

static int load_type(const char *type, struct project *project, struct error *err)
{
    char text[512];
    snprintf(
        text, sizeof text,
        "{\"containers\": [{\"class_name\": \"A\", \"image\": \"cloudflare/sandbox:0.12.7\"%s%s}]}",
        type ? ", \"instance_type\": " : "", type ? type : "");
    put("wrangler.jsonc", text);
    int result = project_load(scratch, NULL, project, err);
    drop("wrangler.jsonc");
    return result;
}

TEST an_instance_type_is_a_word_or_an_object(void)
{
    struct error err = {0};
    CLEANUP_PROJECT struct project none, word, object, odd, wrong;
    ASSERT_EQm(err.text, 0, load_type(NULL, &none, &err));
    ASSERT_FALSE(none.classes[0].sized);
    ASSERT_EQm(err.text, 0, load_type("\"standard-2\"", &word, &err));
    ASSERT(word.classes[0].sized);
    ASSERT_EQ(6144, word.classes[0].size.memory_bytes >> 20);
    ASSERT_EQm(err.text, 0, load_type("{\"vcpu\": 0.5, \"memory_mib\": 300}", &object, &err));
    ASSERT_EQ(500, object.classes[0].size.cpu_millis);
    ASSERT_EQ(300, object.classes[0].size.memory_bytes >> 20);
    ASSERT_EQm("the smallest type's", 2000, object.classes[0].size.disk_bytes / 1000000);
    ASSERT_STR_EQ("", object.classes[0].instance_type);
    ASSERT(load_type("\"huge\"", &odd, &err) < 0);
    ASSERTm(err.text, strstr(err.text, "containers[0].instance_type must be one of lite, basic"));
    ASSERT(load_type("{\"memory_mib\": \"1\"}", &wrong, &err) < 0);
    ASSERTm(err.text, strstr(err.text, "containers[0].instance_type.memory_mib must be a number"));
    PASS();
}

SUITE(config)
{
    RUN_TEST(jsonc_takes_comments_and_trailing_commas_and_places_errors);
    RUN_TEST(jsonc_finds_where_a_value_stands);
    RUN_TEST(dockerfile_gives_the_image_of_its_final_stage);
    RUN_TEST(image_tags_tell_version_and_python);
    RUN_TEST(project_errors_name_file_line_and_member);
    RUN_TEST(a_directory_without_configuration_has_the_class_sandbox);
    RUN_TEST(a_toml_file_alone_is_refused_in_words);
    RUN_TEST(the_minimal_project_is_read);
    RUN_TEST(a_dockerfile_is_followed_to_its_base);
    RUN_TEST(a_tag_from_0_6_on_without_python_is_lean);
    RUN_TEST(a_directory_image_means_its_dockerfile);
    RUN_TEST(instance_types_and_their_older_names_have_sizes);
    RUN_TEST(sizes_and_cpus_are_read_as_docker_reads_them);
    RUN_TEST(an_instance_type_is_a_word_or_an_object);
    RUN_TEST(a_class_may_have_a_network_of_its_own);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    if (!mkdtemp(scratch))
        return 1;
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(config);
    rmdir(scratch);
    GREATEST_MAIN_END();
}
