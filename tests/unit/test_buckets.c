/* The store behind r2_buckets, in memory and in a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "buckets/buckets.h"
#include "buckets/md5.h"
#include "greatest.h"

static struct buckets *buckets;

static struct bucket_key key_of(const char *bucket, const char *key)
{
    return (struct bucket_key){.bucket = bucket, .key = key, .size = strlen(key)};
}

static int put(const char *bucket, const char *key, const char *value)
{
    char etag[33];
    struct bucket_key where = key_of(bucket, key);
    return bucket_put(buckets, &where, value, strlen(value), NULL, 1000, etag, NULL);
}

/* What a key holds, "-" when there is nothing; kept until the next call. */
static const char *got(const char *bucket, const char *key)
{
    static char text[256];
    CLEANUP_OBJECT struct bucket_object object;
    struct bucket_key where = key_of(bucket, key);
    int result = bucket_get(buckets, &where, &object, NULL);
    snprintf(text, sizeof text, "%s", result == 0 ? buf_text(&object.data) : "-");
    return text;
}

/* The keys and prefixes of a list as one text, cursors followed `pages` times. */
static const char *listed(struct bucket_query query, int *pages)
{
    static char text[512];
    char cursor[4096] = "";
    size_t size = 0;
    text[0] = '\0';
    for (*pages = 0; *pages < 20;) {
        query.cursor = cursor;
        CLEANUP_JSON json_t *answer = bucket_list(buckets, &query, NULL);
        ++*pages;
        size_t i;
        json_t *one;
        json_array_foreach(json_object_get(answer, "objects"), i, one)
        {
            size += (size_t)snprintf(text + size, sizeof text - size, "%s ",
                                     json_string_value(json_object_get(one, "key")));
        }
        json_array_foreach(json_object_get(answer, "delimitedPrefixes"), i, one)
        {
            size +=
                (size_t)snprintf(text + size, sizeof text - size, "(%s) ", json_string_value(one));
        }
        if (!json_is_true(json_object_get(answer, "truncated")))
            return text;
        snprintf(cursor, sizeof cursor, "%s", json_string_value(json_object_get(answer, "cursor")));
    }
    return "it does not end";
}

TEST etags_are_md5(void)
{
    static const struct {
        const char *text, *sum;
    } rows[] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"12345678901234567890123456789012345678901234567890123456",
         "49f193adce178490e34d1b3a4ec0064c"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char sum[33];
        md5_text(rows[i].text, strlen(rows[i].text), sum);
        ASSERT_STR_EQ(rows[i].sum, sum);
    }
    PASS();
}

TEST every_key_is_itself_and_no_other(void)
{
    static const char *const keys[] = {
        "a",
        "A",
        "..",
        ".",
        "/",
        "//",
        "../../etc/passwd",
        "a/b",
        "a/",
        "a\\b",
        "%2e%2e",
        "a%00b",
        "\xc3\xa9",
        "e\xcc\x81",
        " ",
        "a\nb",
        "con",
        "'; DROP TABLE objects; --",
        "\x7f",
        "*",
        "\xf0\x9f\x98\x80",
    };
    enum { COUNT = sizeof keys / sizeof *keys };
    for (size_t i = 0; i < COUNT; i++) {
        char value[16];
        snprintf(value, sizeof value, "v%zu", i);
        ASSERT_EQm(keys[i], 0, put("B", keys[i], value));
    }
    for (size_t i = 0; i < COUNT; i++) {
        char value[16];
        snprintf(value, sizeof value, "v%zu", i);
        ASSERT_STR_EQm(keys[i], value, got("B", keys[i]));
        ASSERT_STR_EQm(keys[i], "-", got("C", keys[i]));
    }
    struct bucket_key with_nul = {.bucket = "B", .key = "a\0b", .size = 3};
    char etag[33];
    ASSERT_EQ(0, bucket_put(buckets, &with_nul, "nul", 3, NULL, 0, etag, NULL));
    ASSERT_STR_EQ("v0", got("B", "a"));
    ASSERT_EQ(0, buckets_clear(buckets, NULL));
    ASSERT_STR_EQ("-", got("B", "a"));
    PASS();
}

TEST keys_have_1_to_1024_bytes(void)
{
    char key[BUCKET_KEY_MAX + 2];
    memset(key, 'k', sizeof key);
    key[BUCKET_KEY_MAX + 1] = '\0';
    ASSERT_EQ(-EINVAL, put("B", key, "x"));
    key[BUCKET_KEY_MAX] = '\0';
    ASSERT_EQ(0, put("B", key, "x"));
    ASSERT_STR_EQ("x", got("B", key));
    ASSERT_EQ(-EINVAL, put("B", "", "x"));
    ASSERT_EQ(0, buckets_clear(buckets, NULL));
    PASS();
}

TEST objects_keep_bytes_type_and_etag(void)
{
    struct bucket_key key = key_of("B", "bytes");
    char etag[33];
    ASSERT_EQ(0, bucket_put(buckets, &key, "a\0\xff", 3, "image/png", 1500, etag, NULL));
    CLEANUP_OBJECT struct bucket_object object;
    ASSERT_EQ(0, bucket_get(buckets, &key, &object, NULL));
    ASSERT_EQ(3, (int)object.data.size);
    ASSERT_EQ(0, memcmp("a\0\xff", buf_text(&object.data), 3));
    ASSERT_STR_EQ("image/png", object.content_type);
    ASSERT_STR_EQ(etag, object.etag);
    ASSERT_EQ(1500, (int)object.uploaded_ms);
    ASSERT_EQ(0, bucket_put(buckets, &key, "", 0, NULL, 2000, etag, NULL));
    CLEANUP_OBJECT struct bucket_object empty;
    ASSERT_EQ(0, bucket_get(buckets, &key, &empty, NULL));
    ASSERT_EQ(0, (int)empty.data.size);
    ASSERT_EQ(NULL, empty.content_type);
    ASSERT_EQ(0, bucket_delete(buckets, &key, NULL));
    ASSERT_EQ(0, bucket_delete(buckets, &key, NULL));
    ASSERT_STR_EQ("-", got("B", "bytes"));
    PASS();
}

TEST lists_go_in_the_order_of_bytes_page_by_page(void)
{
    static const char *const keys[] = {"b",     "a/2",      "a/1", "B", "a",
                                       "a/x/1", "\xc3\xa9", "a0",  "b/"};
    int pages;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ASSERT_EQ(0, put("L", keys[i], "v"));
    ASSERT_EQ(0, put("M", "a/3", "v"));
    static const char all[] = "B a a/1 a/2 a/x/1 a0 b b/ \xc3\xa9 ";
    struct bucket_query query = {.bucket = "L", .prefix = "", .delimiter = "", .limit = 1000};
    ASSERT_STR_EQ(all, listed(query, &pages));
    ASSERT_EQ(1, pages);
    query.limit = 1;
    ASSERT_STR_EQ(all, listed(query, &pages));
    ASSERT_EQ(9, pages);
    query.limit = 9;
    ASSERT_STR_EQ(all, listed(query, &pages));
    ASSERT_EQm("a full page that is the last is not truncated", 1, pages);
    query.prefix = "a/";
    query.limit = 2;
    ASSERT_STR_EQ("a/1 a/2 a/x/1 ", listed(query, &pages));
    ASSERT_EQ(2, pages);
    PASS();
}

TEST a_delimiter_folds_what_is_below(void)
{
    int pages;
    struct bucket_query query = {.bucket = "L", .prefix = "", .delimiter = "/", .limit = 1000};
    ASSERT_STR_EQ("B a a0 b \xc3\xa9 (a/) (b/) ", listed(query, &pages));
    query.limit = 2;
    ASSERT_STR_EQ("B a a0 (a/) b (b/) \xc3\xa9 ", listed(query, &pages));
    ASSERT_EQ(4, pages);
    query.prefix = "a/";
    query.limit = 1000;
    ASSERT_STR_EQ("a/1 a/2 (a/x/) ", listed(query, &pages));
    query.prefix = "nothing";
    ASSERT_STR_EQ("", listed(query, &pages));
    query.cursor = "!!";
    struct error err = {0};
    ASSERT_EQ(NULL, bucket_list(buckets, &query, &err));
    ASSERT_EQ(EINVAL, err.code);
    PASS();
}

TEST a_file_keeps_what_was_put_and_foreign_files_are_refused(void)
{
    char dir[] = "/tmp/sandpit-test-XXXXXX", path[64];
    ASSERT(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/buckets.sqlite", dir);
    struct buckets *memory = buckets;
    struct error err = {0};
    buckets = buckets_open(path, &err);
    ASSERTm(err.text, buckets);
    ASSERT_EQ(0, put("B", "k", "kept"));
    buckets_close(buckets);
    buckets = buckets_open(path, &err);
    ASSERTm(err.text, buckets);
    ASSERT_STR_EQ("kept", got("B", "k"));
    buckets_close(buckets);
    buckets = memory;
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 2000; i++)
        fputs("not a database ", file);
    fclose(file);
    ASSERT_EQ(NULL, buckets_open(path, &err));
    ASSERTm(err.text, strstr(err.text, path));
    unlink(path);
    rmdir(dir);
    PASS();
}

TEST bindings_are_known_by_name(void)
{
    ASSERT_EQ(0, buckets_bind(buckets, "ONE"));
    ASSERT_EQ(0, buckets_bind(buckets, "TWO"));
    ASSERT_EQ(0, buckets_bind(buckets, "ONE"));
    ASSERT(buckets_bound(buckets, "TWO"));
    ASSERT_FALSE(buckets_bound(buckets, "two"));
    CLEANUP_BUF struct buf names = BUF_INIT(100);
    ASSERT_EQ(0, buckets_names(buckets, &names));
    ASSERT_STR_EQ("ONE, TWO", buf_text(&names));
    PASS();
}

SUITE(buckets_suite)
{
    RUN_TEST(etags_are_md5);
    RUN_TEST(every_key_is_itself_and_no_other);
    RUN_TEST(keys_have_1_to_1024_bytes);
    RUN_TEST(objects_keep_bytes_type_and_etag);
    RUN_TEST(lists_go_in_the_order_of_bytes_page_by_page);
    RUN_TEST(a_delimiter_folds_what_is_below);
    RUN_TEST(a_file_keeps_what_was_put_and_foreign_files_are_refused);
    RUN_TEST(bindings_are_known_by_name);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    buckets = buckets_open(":memory:", NULL);
    RUN_SUITE(buckets_suite);
    buckets_close(buckets);
    GREATEST_MAIN_END();
}
