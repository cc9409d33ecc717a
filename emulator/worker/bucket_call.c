#include "worker/bucket_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/utf8.h"
#include "buckets/buckets.h"
#include "worker/problem.h"

/* What an object may have, and an answer with every byte of it escaped. */
#define VALUE_MAX ((size_t)256 << 20)
#define REPLY_MAX ((size_t)512 << 20)

/* One bucket call on its way. */
struct asked {
    struct http_request *request;
    const struct worker_config *config;
    const json_t *args;
    const struct body *body;
    struct bucket_key key;
};

static const char *text_of(const struct asked *asked, const char *name)
{
    const char *text = json_string_value(json_object_get(asked->args, name));
    return text ? text : "";
}

static void reply_failure(const struct asked *asked, const struct error *err)
{
    switch (err->code) {
    case EINVAL:
        problem_reply(asked->request, 400, "VALIDATION_FAILED", NULL, NULL, "%s", err->text);
        return;
    case ENOENT:
        problem_reply(asked->request, 404, "OBJECT_NOT_FOUND", NULL,
                      "bucketList tells what is there", "%s", err->text);
        return;
    default:
        problem_reply(asked->request, 500, "INTERNAL_ERROR", NULL, NULL, "%s", err->text);
    }
}

static bool wants_base64(const struct asked *asked)
{
    return strcmp(text_of(asked, "encoding"), "base64") == 0;
}

/* The text of the content, wherever body_read() left it. */
static int take_content(const struct asked *asked, struct buf *to, struct error *err)
{
    const json_t *value = json_object_get(asked->args, "content");
    if (!asked->body->content) {
        int result = buf_add(to, json_string_value(value), json_string_length(value));
        return result < 0 ? error_errno(err, -result, "take the content") : 0;
    }
    const char *at = asked->body->content, *end = at + asked->body->content_size;
    char piece[16384];
    long size;
    while ((size = jsonstr_unescape(&at, end, piece, sizeof piece)) > 0) {
        int result = buf_add(to, piece, (size_t)size);
        if (result < 0)
            return error_errno(err, -result, "take the content");
    }
    return size < 0 ? error_set(err, EINVAL, "content is not a valid JSON string") : 0;
}

static int decode_content(struct buf *data, struct error *err)
{
    CLEANUP_BUF struct buf decoded = BUF_INIT(VALUE_MAX);
    const char *at = buf_text(data), *end = at + data->size;
    char piece[16384];
    long size;
    while ((size = base64_decode(&at, end, piece, sizeof piece)) > 0)
        buf_add(&decoded, piece, (size_t)size);
    if (size < 0)
        return error_set(err, EINVAL, "content is not base64");
    if (decoded.error)
        return error_errno(err, -decoded.error, "decode the content");
    struct buf old = *data;
    *data = decoded;
    decoded = old;
    return 0;
}

static void put(const struct asked *asked, struct buckets *buckets)
{
    struct error err = {0};
    CLEANUP_BUF struct buf data = BUF_INIT(VALUE_MAX);
    const char *type = json_string_value(json_object_get(asked->args, "contentType"));
    char etag[33];
    int result = take_content(asked, &data, &err);
    if (result == 0 && wants_base64(asked))
        result = decode_content(&data, &err);
    if (result == 0)
        result = bucket_put(buckets, &asked->key, buf_text(&data), data.size, type,
                            clock_now_ms(asked->config->clock), etag, &err);
    if (result < 0) {
        reply_failure(asked, &err);
        return;
    }
    http_reply_json(asked->request, 200,
                    json_pack("{s:b, s:s%, s:s}", "success", 1, "key", asked->key.key,
                              asked->key.size, "etag", etag));
}

static bool is_utf8(const struct buf *data)
{
    const char *at = buf_text(data), *end = at + data->size;
    while (at < end) {
        int size = utf8_step(at, end);
        if (size < 0)
            return false;
        at += size;
    }
    return true;
}

static int write_text(void *arg, struct buf *to)
{
    const struct buf *data = arg;
    return jsonstr_escape(to, buf_text(data), data->size);
}

static int write_base64(void *arg, struct buf *to)
{
    const struct buf *data = arg;
    return base64_encode(to, buf_text(data), data->size);
}

static void get(const struct asked *asked, struct buckets *buckets)
{
    struct error err = {0};
    CLEANUP_OBJECT struct bucket_object object;
    if (bucket_get(buckets, &asked->key, &object, &err) < 0) {
        reply_failure(asked, &err);
        return;
    }
    bool base64 = wants_base64(asked) || !is_utf8(&object.data);
    CLEANUP_JSON json_t *answer = json_pack(
        "{s:b, s:s%, s:n, s:s*, s:I, s:s, s:s*}", "success", 1, "key", asked->key.key,
        asked->key.size, "content", "contentType", object.content_type, "size",
        (json_int_t)object.data.size, "etag", object.etag, "encoding", base64 ? "base64" : NULL);
    CLEANUP_BUF struct buf text = BUF_INIT(REPLY_MAX);
    if (!answer ||
        json_write(&text, answer, base64 ? write_base64 : write_text, &object.data) < 0) {
        problem_reply(asked->request, 500, "INTERNAL_ERROR", NULL, NULL,
                      "The object is too large to answer");
        return;
    }
    size_t size = text.size;
    http_reply_bytes(asked->request, 200, "application/json", buf_steal(&text), size);
}

static void delete (const struct asked *asked, struct buckets *buckets)
{
    struct error err = {0};
    if (bucket_delete(buckets, &asked->key, &err) < 0)
        reply_failure(asked, &err);
    else
        http_reply_json(
            asked->request, 200,
            json_pack("{s:b, s:s%}", "success", 1, "key", asked->key.key, asked->key.size));
}

/* A number, or digits when it came with the query; BUCKET_LIST_MAX without one. -1 = neither. */
static int read_limit(const json_t *limit)
{
    double value = BUCKET_LIST_MAX;
    char *end = NULL;
    if (json_is_string(limit)) {
        value = strtod(json_string_value(limit), &end);
        if (end == json_string_value(limit) || *end)
            return -1;
    } else if (limit) {
        value = json_number_value(limit);
    }
    return value >= 1 && value <= BUCKET_LIST_MAX && value == (int)value ? (int)value : -1;
}

static void list(const struct asked *asked, struct buckets *buckets)
{
    struct error err = {0};
    struct bucket_query query = {.bucket = asked->key.bucket,
                                 .prefix = text_of(asked, "prefix"),
                                 .delimiter = text_of(asked, "delimiter"),
                                 .cursor = text_of(asked, "cursor"),
                                 .limit = read_limit(json_object_get(asked->args, "limit"))};
    if (query.limit < 0 || strlen(query.prefix) > BUCKET_KEY_MAX) {
        problem_reply(asked->request, 400, "VALIDATION_FAILED", NULL, NULL,
                      "limit must be a whole number from 1 to %d, and prefix at most %d bytes",
                      BUCKET_LIST_MAX, BUCKET_KEY_MAX);
        return;
    }
    json_t *answer = bucket_list(buckets, &query, &err);
    if (!answer) {
        reply_failure(asked, &err);
        return;
    }
    json_object_set_new(answer, "success", json_true());
    http_reply_json(asked->request, 200, answer);
}

static const struct bucket_row {
    const char *target;
    void (*run)(const struct asked *asked, struct buckets *buckets);
} rows[] = {{"put", put}, {"get", get}, {"delete", delete}, {"list", list}};

static const struct bucket_row *find(const char *target)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].target, target) == 0)
            return &rows[i];
    }
    return NULL;
}

bool bucket_call_known(const char *target)
{
    return find(target) != NULL;
}

static void reply_no_bucket(const struct asked *asked)
{
    CLEANUP_BUF struct buf names = BUF_INIT(1024);
    if (asked->config->buckets)
        buckets_names(asked->config->buckets, &names);
    CLEANUP_BUF struct buf hint = BUF_INIT(1200);
    buf_addf(&hint, "There are: %s. r2_buckets of the configuration binds more", buf_text(&names));
    problem_reply(asked->request, 404, "BUCKET_NOT_FOUND", NULL, buf_text(&hint),
                  "There is no bucket '%.100s'", asked->key.bucket);
}

void bucket_call(struct http_request *request, const struct worker_config *config,
                 const struct method_row *row, json_t *args, const struct body *body)
{
    CLEANUP_JSON json_t *taken = args;
    struct asked asked = {.request = request, .config = config, .args = taken, .body = body};
    const json_t *key = json_object_get(taken, "key");
    const char *bucket = text_of(&asked, "bucket");
    asked.key = (struct bucket_key){.bucket = *bucket ? bucket : BUCKET_DEFAULT,
                                    .key = json_is_string(key) ? json_string_value(key) : "",
                                    .size = json_string_length(key)};
    if (!config->buckets || !buckets_bound(config->buckets, asked.key.bucket))
        reply_no_bucket(&asked);
    else
        find(row->target)->run(&asked, config->buckets);
}
