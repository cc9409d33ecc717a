#include "greatest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
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
    {"", NULL, "f:1:1: "},
    {"{\n \"a\": 1\n   \"bcd\": 2}", NULL, "f:3:4: '}' expected near '\"bcd\"'"},
    {"{\"a\": \"\xC3\xA9\xC3\xA9\" \"\xC3\xA9\"}", NULL, "f:1:12: "},
    {"{\"a\":\n  wrong}", NULL, "f:2:3: "},
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
    struct place_step path[] = {{.name = "list"}, {.index = 2}, {.name = "v"}};
    struct place place = jsonc_locate(text, strlen(text), path, 3);
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
    {"{\"containers\": [{\"class_name\": \"A\", \"image\": \"bad\"}]}", "bad:1:1: there is no FROM"},
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

TEST a_toml_file_is_read_where_there_is_no_json(void)
{
    put("wrangler.toml", "name = 'x'\n[[containers]]\nclass_name = 'Box'\nimage = 'r/i:1'\n");
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    ASSERT_EQm(err.text, 0, project_load(scratch, NULL, &project, &err));
    ASSERT(project.found);
    ASSERT_STR_EQ("x", project.name);
    ASSERT_STR_EQ("Box", project.classes[0].name);
    put("wrangler.json", "{}");
    CLEANUP_PROJECT struct project other;
    ASSERT_EQ(0, project_load(scratch, NULL, &other, &err));
    ASSERT(other.found);
    ASSERT_STR_EQ("Sandbox", other.classes[0].name);
    drop("wrangler.json");
    drop("wrangler.toml");
    PASS();
}

static const struct {
    const char *text, *error;
} toml_errors[] = {
    {"name = 1", "wrangler.toml:1:8: name must be a string"},
    {"containers = 1", "wrangler.toml:1:14: containers must be an array"},
    {"[[containers]]\nimage = 'x:1'", "wrangler.toml:1:3: containers[0].class_name must be a string"},
    {"# é\n[[containers]]\nclass_name = 'A'\nimage = 'x:1'\nmax_instances = '5'",
     "wrangler.toml:5:17: containers[0].max_instances must be a whole number"},
    {"[[containers]]\nclass_name = 'A'\nimage = 'x:1'\n[containers.instance_type]\nvcpu = 'two'",
     "wrangler.toml:5:8: containers[0].instance_type.vcpu must be a number above 0"},
    {"[durable_objects]\nbindings = [{ name = 'A' }]",
     "wrangler.toml:2:13: durable_objects.bindings[0].class_name must be a string"},
    {"[[durable_objects.bindings]]\nname = 'A'\nclass_name = 5",
     "wrangler.toml:3:14: durable_objects.bindings[0].class_name must be a string"},
    {"compatibility_flags = ['a', 1]",
     "wrangler.toml:1:29: compatibility_flags[1] must be a string"},
    {"[[migrations]]\nnew_sqlite_classes = ['A']",
     "wrangler.toml:1:3: migrations[0].tag must be a string"},
    {"vars = 1", "wrangler.toml:1:8: vars must be an object"},
    {"name = 'x", "wrangler.toml:1:8: the string does not end"},
    {"env = 1", "wrangler.toml:1:7: env must be an object"},
};

TEST errors_in_toml_are_placed_as_those_in_json(void)
{
    for (size_t i = 0; i < sizeof toml_errors / sizeof *toml_errors; i++) {
        put("wrangler.toml", toml_errors[i].text);
        struct error err = {0};
        CLEANUP_PROJECT struct project project;
        ASSERTm(toml_errors[i].text, project_load(scratch, NULL, &project, &err) < 0);
        ASSERT_STR_EQ(toml_errors[i].error, err.text);
    }
    drop("wrangler.toml");
    PASS();
}

/* The same project in both languages, top level and environment. */
static const char as_json[] =
    "{\"name\": \"app\", \"main\": \"a.ts\", \"vars\": {\"A\": \"top\"},\n"
    "\"containers\": [{\"class_name\": \"One\", \"image\": \"r/i:1\", \"max_instances\": 3}],\n"
    "\"env\": {\"staging\": {\"vars\": {\"A\": \"low\"}, \"containers\": [\n"
    "{\"class_name\": \"Two\", \"image\": \"r/i:2\",\n"
    " \"instance_type\": {\"vcpu\": 2, \"memory_mib\": 512}}],\n"
    "\"r2_buckets\": [{\"binding\": \"B\", \"bucket_name\": \"b\"}]},\n"
    "\"bare\": {}, \"named\": {\"name\": \"own\"}}}";
static const char as_toml[] = "name = 'app'\nmain = 'a.ts'\n[vars]\nA = 'top'\n"
                              "[[containers]]\nclass_name = 'One'\nimage = 'r/i:1'\n"
                              "max_instances = 3\n[env.staging.vars]\nA = 'low'\n"
                              "[[env.staging.containers]]\nclass_name = 'Two'\nimage = 'r/i:2'\n"
                              "instance_type = { vcpu = 2, memory_mib = 512 }\n"
                              "[[env.staging.r2_buckets]]\nbinding = 'B'\nbucket_name = 'b'\n"
                              "[env.bare]\n[env.named]\nname = 'own'\n";

static enum greatest_test_res check_environments(const char *file, const char *text)
{
    struct error err = {0};
    put(file, text);
    CLEANUP_PROJECT struct project top, staging, bare, named, none;
    ASSERT_EQm(err.text, 0, project_load(scratch, NULL, &top, &err));
    ASSERT_STR_EQ("app", top.name);
    ASSERT_STR_EQ("One", top.classes[0].name);
    ASSERT_EQ(3, top.classes[0].max_instances);
    ASSERT_STR_EQ("top", json_string_value(json_object_get(top.vars, "A")));
    ASSERT_EQm(err.text, 0, project_load_environment(scratch, NULL, "staging", &staging, &err));
    ASSERT_STR_EQ("app-staging", staging.name);
    ASSERT_STR_EQ("a.ts", staging.main);
    ASSERT_STR_EQ("Two", staging.classes[0].name);
    ASSERT_EQ(2000, staging.classes[0].size.cpu_millis);
    ASSERT_EQ((uint64_t)512 << 20, staging.classes[0].size.memory_bytes);
    ASSERT_STR_EQ("low", json_string_value(json_object_get(staging.vars, "A")));
    ASSERT_STR_EQ("B", json_string_value(json_array_get(staging.buckets, 0)));
    ASSERT_EQm(err.text, 0, project_load_environment(scratch, NULL, "bare", &bare, &err));
    ASSERT_EQm("vars are not inherited", NULL, bare.vars);
    ASSERT_STR_EQm("containers are not inherited", "Sandbox", bare.classes[0].name);
    ASSERT_EQm(err.text, 0, project_load_environment(scratch, NULL, "named", &named, &err));
    ASSERT_STR_EQ("own", named.name);
    ASSERT(project_load_environment(scratch, NULL, "prod", &none, &err) < 0);
    ASSERTm(err.text, strstr(err.text, "env has no environment 'prod'; there is staging, bare, named"));
    drop(file);
    PASS();
}

TEST an_environment_inherits_what_wrangler_inherits_in_json(void)
{
    return check_environments("wrangler.jsonc", as_json);
}

TEST an_environment_inherits_what_wrangler_inherits_in_toml(void)
{
    return check_environments("wrangler.toml", as_toml);
}

TEST image_vars_are_values_of_args(void)
{
    put("Dockerfile", "ARG V=0.6.0\nFROM cloudflare/sandbox:$V\nARG P=80\nEXPOSE $P\n");
    put("wrangler.jsonc", "{\"containers\": [{\"class_name\": \"A\", \"image\": \"./Dockerfile\","
                          "\"image_build_context\": \".\","
                          "\"image_vars\": {\"V\": \"0.7.4\", \"P\": \"8080 9090\"}}]}");
    struct error err = {0};
    CLEANUP_PROJECT struct project project;
    ASSERT_EQm(err.text, 0, project_load(scratch, NULL, &project, &err));
    ASSERT_STR_EQ("0.7.4", project.classes[0].version);
    ASSERT(dockerfile_exposes(&project.classes[0].facts, 9090));
    ASSERT_FALSE(dockerfile_exposes(&project.classes[0].facts, 80));
    put("wrangler.jsonc", "{\"containers\": [{\"class_name\": \"A\", \"image\": \"./Dockerfile\",\n"
                          "\"image_build_context\": \"none\"}]}");
    CLEANUP_PROJECT struct project other;
    ASSERT(project_load(scratch, NULL, &other, &err) < 0);
    ASSERT_STR_EQ("wrangler.jsonc:2:24: containers[0].image_build_context names no directory",
                  err.text);
    drop("wrangler.jsonc");
    drop("Dockerfile");
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
    RUN_TEST(image_tags_tell_version_and_python);
    RUN_TEST(project_errors_name_file_line_and_member);
    RUN_TEST(a_directory_without_configuration_has_the_class_sandbox);
    RUN_TEST(a_toml_file_is_read_where_there_is_no_json);
    RUN_TEST(errors_in_toml_are_placed_as_those_in_json);
    RUN_TEST(an_environment_inherits_what_wrangler_inherits_in_json);
    RUN_TEST(an_environment_inherits_what_wrangler_inherits_in_toml);
    RUN_TEST(image_vars_are_values_of_args);
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
