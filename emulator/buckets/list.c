/* Listing a bucket: in the order of the keys' bytes, from a position on. A position is the least
 * key that may come next; the cursor is that in base64. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "buckets/internal.h"

/* Behind every key that begins with a text: no UTF-8 has this byte. */
#define BEHIND '\xff'

struct listing {
    struct buckets *buckets;
    const struct bucket_query *query;
    struct buf position;
    json_t *objects, *prefixes;
    bool truncated;
};

static int decode_cursor(const char *cursor, struct buf *to, struct error *err)
{
    const char *end = cursor + strlen(cursor);
    char piece[256];
    long size;
    while ((size = base64_decode(&cursor, end, piece, sizeof piece)) > 0)
        buf_add(to, piece, (size_t)size);
    return size < 0 || to->error ? error_set(err, EINVAL, "the cursor is not one of a list") : 0;
}

static void set_position(struct listing *listing, const char *key, size_t size, char last)
{
    buf_clear(&listing->position);
    buf_add(&listing->position, key, size);
    buf_addc(&listing->position, last);
}

/* {key, size, etag, uploaded, httpMetadata: {contentType}} */
static json_t *describe(sqlite3_stmt *statement)
{
    char uploaded[32] = "";
    time_t seconds = (time_t)(sqlite3_column_int64(statement, 4) / 1000);
    int ms = (int)(sqlite3_column_int64(statement, 4) % 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts)) {
        size_t size = strftime(uploaded, sizeof uploaded, "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(uploaded + size, sizeof uploaded - size, ".%03dZ", ms);
    }
    const char *type = (const char *)sqlite3_column_text(statement, 3);
    json_t *metadata = type ? json_pack("{s:s}", "contentType", type) : json_object();
    return json_pack("{s:s%, s:I, s:s, s:s, s:o}", "key", sqlite3_column_blob(statement, 0),
                     (size_t)sqlite3_column_bytes(statement, 0), "size",
                     (json_int_t)sqlite3_column_int64(statement, 1), "etag",
                     sqlite3_column_text(statement, 2), "uploaded", uploaded, "httpMetadata",
                     metadata);
}

/* The bytes of a key up to and with the first delimiter after the prefix; 0 when it has none. */
static size_t common_prefix(const struct bucket_query *query, const char *key, size_t size)
{
    size_t prefix = strlen(query->prefix), delimiter = strlen(query->delimiter);
    if (!delimiter)
        return 0;
    const char *found = memmem(key + prefix, size - prefix, query->delimiter, delimiter);
    return found ? (size_t)(found - key) + delimiter : 0;
}

/* Takes rows from the position on. 1 = go on from the new position, 0 = the end. */
static int take_rows(struct listing *listing, struct error *err)
{
    const struct bucket_query *query = listing->query;
    size_t prefix = strlen(query->prefix);
    sqlite3_stmt *statement = buckets_begin(listing->buckets, BUCKET_LIST);
    sqlite3_bind_text(statement, 1, query->bucket, -1, SQLITE_STATIC);
    sqlite3_bind_blob64(statement, 2, buf_text(&listing->position), listing->position.size,
                        SQLITE_TRANSIENT);
    for (;;) {
        int result = sqlite3_step(statement);
        if (result == SQLITE_DONE)
            return 0;
        if (result != SQLITE_ROW)
            return buckets_fail(listing->buckets, err);
        const char *key = sqlite3_column_blob(statement, 0);
        size_t size = (size_t)sqlite3_column_bytes(statement, 0);
        if (size < prefix || memcmp(key, query->prefix, prefix) != 0)
            return 0;
        size_t count = json_array_size(listing->objects) + json_array_size(listing->prefixes);
        if (count >= (size_t)query->limit) {
            listing->truncated = true;
            return 0;
        }
        size_t common = common_prefix(query, key, size);
        set_position(listing, key, common ? common : size, common ? BEHIND : '\0');
        if (common) {
            json_array_append_new(listing->prefixes, json_stringn(key, common));
            return 1; /* past all that share it */
        }
        json_array_append_new(listing->objects, describe(statement));
    }
}

static json_t *finish(struct listing *listing)
{
    CLEANUP_BUF struct buf cursor = BUF_INIT(4096);
    json_t *answer =
        json_pack("{s:O, s:b}", "objects", listing->objects, "truncated", listing->truncated);
    if (listing->truncated &&
        base64_encode(&cursor, buf_text(&listing->position), listing->position.size) == 0)
        json_object_set_new(answer, "cursor", json_string(buf_text(&cursor)));
    json_object_set(answer, "delimitedPrefixes", listing->prefixes);
    return answer;
}

json_t *bucket_list(struct buckets *buckets, const struct bucket_query *query, struct error *err)
{
    CLEANUP_JSON json_t *objects = json_array();
    CLEANUP_JSON json_t *prefixes = json_array();
    struct listing listing = {.buckets = buckets,
                              .query = query,
                              .position = BUF_INIT(2 * BUCKET_KEY_MAX),
                              .objects = objects,
                              .prefixes = prefixes};
    int result = decode_cursor(query->cursor, &listing.position, err);
    /* A cursor of another prefix leads no further back than this one's first key. */
    if (result == 0 && strcmp(buf_text(&listing.position), query->prefix) < 0) {
        buf_clear(&listing.position);
        result = buf_adds(&listing.position, query->prefix);
    }
    do {
        result = result < 0 ? result : take_rows(&listing, err);
    } while (result == 1);
    sqlite3_reset(buckets->statements[BUCKET_LIST]);
    json_t *answer = result < 0 ? NULL : finish(&listing);
    buf_free(&listing.position);
    return answer;
}
