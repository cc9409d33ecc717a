/* Buckets over HTTP: both faces, keys that attack, and what outlives what. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static struct reply put(const char *key, const char *content)
{
    CLEANUP_JSON json_t *body = json_pack("{s:s, s:s}", "key", key, "content", content);
    CLEANUP_FREE char *text = json_dumps(body, 0);
    return post(&emulator, "/api/bucket/put", text);
}

TEST api_routes_have_the_shapes_of_the_original(void)
{
    CLEANUP_REPLY struct reply a =
        post(&emulator, "/api/bucket/put",
             "{\"key\": \"a/b.txt\", \"content\": \"hi\", \"contentType\": \"text/plain\"}");
    ASSERT_EQm(keep(a.body), 200, a.status);
    ASSERT_STR_EQ("a/b.txt", text_at(a.json, "key"));
    ASSERT(json_is_true(at(a.json, "success")));
    CLEANUP_REPLY struct reply b = get(&emulator, "/api/bucket/get?key=a%2Fb.txt");
    ASSERT_EQm(keep(b.body), 200, b.status);
    ASSERT_STR_EQ("hi", text_at(b.json, "content"));
    ASSERT_STR_EQ("text/plain", text_at(b.json, "contentType"));
    ASSERT_EQ(2, number_at(b.json, "size"));
    ASSERT_STR_EQ("49f68a5c8493ec2c0bf489821c21fc3b", text_at(b.json, "etag"));
    CLEANUP_REPLY struct reply c = post(&emulator, "/api/bucket/delete", "{\"key\": \"a/b.txt\"}");
    ASSERT_EQ(200, c.status);
    CLEANUP_REPLY struct reply d = get(&emulator, "/api/bucket/get?key=a%2Fb.txt");
    ASSERT_EQ(404, d.status);
    ASSERT_STR_EQ("OBJECT_NOT_FOUND", text_at(d.json, "code"));
    CLEANUP_REPLY struct reply e = get(&emulator, "/api/bucket/get");
    ASSERT_EQ(400, e.status);
    CLEANUP_REPLY struct reply f = post(&emulator, "/api/bucket/put", "{\"content\": \"x\"}");
    ASSERT_EQ(400, f.status);
    CLEANUP_REPLY struct reply g = get(&emulator, "/api/bucket/get?key=a&bucket=NOBODY");
    ASSERT_EQ(404, g.status);
    ASSERT_STR_EQ("BUCKET_NOT_FOUND", text_at(g.json, "code"));
    ASSERT(strstr(text_at(g.json, "hint"), "TEST_BUCKET"));
    PASS();
}

TEST methods_do_the_same_and_wake_no_sandbox(void)
{
    CLEANUP_REPLY struct reply a = post(&emulator, "/sandbox/nobody/bucketPut",
                                        "[\"m.bin\", \"AP8=\", {\"encoding\": "
                                        "\"base64\", \"contentType\": \"x/y\"}]");
    ASSERT_EQm(keep(a.body), 200, a.status);
    CLEANUP_REPLY struct reply b = post(&emulator, "/sandbox/nobody/bucketGet", "[\"m.bin\"]");
    ASSERT_STR_EQm("what is no text comes as base64", "AP8=", text_at(b.json, "content"));
    ASSERT_STR_EQ("base64", text_at(b.json, "encoding"));
    ASSERT_EQ(2, number_at(b.json, "size"));
    CLEANUP_REPLY struct reply c = post(&emulator, "/sandbox/nobody/bucketList",
                                        "[{\"prefix\": "
                                        "\"m\"}]");
    ASSERT_STR_EQ("m.bin", text_at(c.json, "objects.0.key"));
    ASSERT_STR_EQ("x/y", text_at(c.json, "objects.0.httpMetadata.contentType"));
    CLEANUP_REPLY struct reply d = post(&emulator, "/sandbox/nobody/bucketDelete", "[\"m.bin\"]");
    ASSERT_EQ(200, d.status);
    CLEANUP_REPLY struct reply e = post(&emulator, "/sandbox/nobody/bucketPut",
                                        "[\"bad\", \"*\", {\"encoding\": \"base64\"}]");
    ASSERT_EQ(400, e.status);
    CLEANUP_REPLY struct reply f = get(&emulator, "/cdn-cgi/local/sandboxes/nobody");
    ASSERT_EQ(404, f.status);
    PASS();
}

/* How many files there are below the emulator's directory. */
static int count_files(void)
{
    CLEANUP_FREE char *out = NULL;
    const char *const argv[] = {"sh", "-c", "find \"$0\" | wc -l", emulator.dir, NULL};
    return run_command(&emulator, argv, &out, NULL) == 0 ? (int)strtol(out, NULL, 10) : -1;
}

/* Every key is only a key: none leads to a file, and none is taken for another. */
TEST keys_that_attack_are_only_keys(void)
{
    static const char *const keys[] = {
        "..",          "../../objects.sqlite",
        "/etc/passwd", "a/../b",
        ".",           "~",
        "A",           "a",
        "a\\..\\b",    "\xc3\xa9",
        "%2e%2e%2f",   "a b&c=d",
        "-rf",         "$(id)",
        "'\"`;",       "\xf0\x9f\x98\x80",
        "a\nb",        "TEST_BUCKET",
    };
    enum { COUNT = sizeof keys / sizeof *keys };
    int files = count_files();
    for (size_t i = 0; i < COUNT; i++) {
        CLEANUP_REPLY struct reply a = put(keys[i], keys[i]);
        ASSERT_EQm(keys[i], 200, a.status);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CLEANUP_JSON json_t *args = json_pack("[s]", keys[i]);
        CLEANUP_FREE char *text = json_dumps(args, 0);
        CLEANUP_REPLY struct reply a = post(&emulator, "/sandbox/x/bucketGet", text);
        ASSERT_STR_EQm(keys[i], keys[i], text_at(a.json, "content"));
    }
    CLEANUP_REPLY struct reply nul =
        post(&emulator, "/api/bucket/put", "{\"key\": \"a\\u0000b\", \"content\": \"x\"}");
    ASSERT_EQ(400, nul.status);
    char longest[1026];
    memset(longest, 'k', sizeof longest);
    longest[1025] = '\0';
    CLEANUP_REPLY struct reply over = put(longest, "x");
    ASSERT_EQ(400, over.status);
    longest[1024] = '\0';
    CLEANUP_REPLY struct reply most = put(longest, "x");
    ASSERT_EQ(200, most.status);
    CLEANUP_REPLY struct reply empty = put("", "x");
    ASSERT_EQ(400, empty.status);
    ASSERT_EQm("no file was made", files, count_files());
    PASS();
}

TEST large_contents_come_back_as_they_went(void)
{
    enum { SIZE = 3 << 20 };
    CLEANUP_BUF struct buf body = BUF_INIT(8 << 20);
    buf_adds(&body, "{\"key\": \"large\", \"content\": \"");
    for (int i = 0; i < SIZE / 8; i++)
        buf_adds(&body, "ab\\n\\u00e9\\\"12"); /* eight bytes each */
    buf_adds(&body, "\"}");
    CLEANUP_REPLY struct reply a = post(&emulator, "/api/bucket/put", buf_text(&body));
    ASSERT_EQ(200, a.status);
    CLEANUP_REPLY struct reply b = get(&emulator, "/api/bucket/get?key=large");
    ASSERT_EQ(SIZE, number_at(b.json, "size"));
    const char *content = text_at(b.json, "content");
    ASSERT_EQ(SIZE, (int)strlen(content));
    for (int i = 0; i < SIZE; i += 8)
        ASSERT_EQ(0, memcmp("ab\n\xc3\xa9\"12", content + i, 8));
    PASS();
}

TEST lists_are_bounded_and_go_on_at_the_cursor(void)
{
    for (int i = 0; i < 5; i++) {
        char key[16];
        snprintf(key, sizeof key, "list/%d", i);
        CLEANUP_REPLY struct reply a = put(key, "x");
    }
    CLEANUP_REPLY struct reply a = get(&emulator, "/api/bucket/list?prefix=list/&limit=3");
    ASSERT_EQm(keep(a.body), 200, a.status);
    ASSERT_EQ(3, (int)json_array_size(at(a.json, "objects")));
    ASSERT(json_is_true(at(a.json, "truncated")));
    char next[256];
    snprintf(next, sizeof next, "[{\"prefix\": \"list/\", \"cursor\": \"%s\"}]",
             text_at(a.json, "cursor"));
    CLEANUP_REPLY struct reply b = post(&emulator, "/sandbox/x/bucketList", next);
    ASSERT_EQ(2, (int)json_array_size(at(b.json, "objects")));
    ASSERT_STR_EQ("list/3", text_at(b.json, "objects.0.key"));
    ASSERT(json_is_false(at(b.json, "truncated")));
    CLEANUP_REPLY struct reply c = get(&emulator, "/api/bucket/list?prefix=li&delimiter=/");
    ASSERT_STR_EQ("list/", text_at(c.json, "delimitedPrefixes.0"));
    static const char *const bad[] = {"limit=0", "limit=1001", "limit=x", "limit=1.5", "cursor=!"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char route[64];
        snprintf(route, sizeof route, "/api/bucket/list?%s", bad[i]);
        CLEANUP_REPLY struct reply d = get(&emulator, route);
        ASSERT_EQm(bad[i], 400, d.status);
    }
    PASS();
}

TEST objects_outlive_sleep_destroy_and_a_restart(void)
{
    CLEANUP_REPLY struct reply a = put("kept", "still here");
    CLEANUP_REPLY struct reply b = post(&emulator, "/sandbox/b/exec", "[\"true\"]");
    ASSERT_EQ(200, b.status);
    CLEANUP_REPLY struct reply c =
        post(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"10m\"}");
    CLEANUP_REPLY struct reply d = post(&emulator, "/sandbox/b/destroy", "");
    ASSERT_EQ(200, d.status);
    CLEANUP_REPLY struct reply e = get(&emulator, "/api/bucket/get?key=kept");
    ASSERT_STR_EQ("still here", text_at(e.json, "content"));
    emulator_kill(&emulator);
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    CLEANUP_REPLY struct reply f = get(&emulator, "/api/bucket/get?key=kept");
    ASSERT_STR_EQ("still here", text_at(f.json, "content"));
    PASS();
}

TEST a_reset_empties_them(void)
{
    CLEANUP_REPLY struct reply a = put("kept", "x");
    CLEANUP_REPLY struct reply b = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT_EQ(200, b.status);
    CLEANUP_REPLY struct reply c = get(&emulator, "/api/bucket/list");
    ASSERT_EQ(0, (int)json_array_size(at(c.json, "objects")));
    PASS();
}

TEST bindings_of_the_project_are_buckets_of_their_own(void)
{
    struct emulator project = {0};
    char file[96];
    snprintf(project.dir, sizeof project.dir, "/tmp/sandpit-test-XXXXXX");
    ASSERT(mkdtemp(project.dir));
    snprintf(file, sizeof file, "%s/wrangler.jsonc", project.dir);
    FILE *config = fopen(file, "w");
    fputs("{\"name\": \"b\", \"r2_buckets\": [{\"binding\": \"UPLOADS\", \"bucket_name\": \"u\"}]}",
          config);
    fclose(config);
    ASSERT_EQ(0, emulator_start(&project, NULL));
    CLEANUP_REPLY struct reply a =
        post(&project, "/api/bucket/put?bucket=UPLOADS", "{\"key\": \"k\", \"content\": \"mine\"}");
    ASSERT_EQm(keep(a.body), 200, a.status);
    CLEANUP_REPLY struct reply b = get(&project, "/api/bucket/get?key=k&bucket=UPLOADS");
    ASSERT_STR_EQ("mine", text_at(b.json, "content"));
    CLEANUP_REPLY struct reply c =
        post(&project, "/sandbox/x/bucketGet", "[\"k\", {\"bucket\": \"UPLOADS\"}]");
    ASSERT_STR_EQ("mine", text_at(c.json, "content"));
    CLEANUP_REPLY struct reply d = get(&project, "/api/bucket/get?key=k");
    ASSERT_EQ(404, d.status);
    ASSERT_EQ(0, emulator_stop(&project));
    emulator_clean(&project);
    PASS();
}

SUITE(buckets_suite)
{
    RUN_TEST(api_routes_have_the_shapes_of_the_original);
    RUN_TEST(methods_do_the_same_and_wake_no_sandbox);
    RUN_TEST(keys_that_attack_are_only_keys);
    RUN_TEST(large_contents_come_back_as_they_went);
    RUN_TEST(lists_are_bounded_and_go_on_at_the_cursor);
    RUN_TEST(objects_outlive_sleep_destroy_and_a_restart);
    RUN_TEST(a_reset_empties_them);
    RUN_TEST(bindings_of_the_project_are_buckets_of_their_own);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, buckets_suite);
    GREATEST_MAIN_END();
}
