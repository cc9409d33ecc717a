/* Buckets: what `r2_buckets` binds, kept on this machine. They belong to the project, not to a
 * sandbox, so they outlive sleep, destroy and a restart of the emulator.
 *
 * All of it is one sqlite file. Keys are rows and never become names of files, so no key can lead
 * anywhere; a put is one commit, and is there as a whole or not at all. */
#ifndef SANDPIT_BUCKETS_BUCKETS_H
#define SANDPIT_BUCKETS_BUCKETS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct buckets;

enum { BUCKET_KEY_MAX = 1024, BUCKET_LIST_MAX = 1000, BUCKET_NAME_MAX = 63 };

/* The bucket that the documents' own examples use; it exists without a binding. */
#define BUCKET_DEFAULT "TEST_BUCKET"

/* ":memory:" for --ephemeral. A file that is damaged, or is another program's, is refused. */
struct buckets *buckets_open(const char *path, struct error *err);
void buckets_close(struct buckets *buckets);

/* Makes a binding known. What is stored under bindings that are no longer known stays. */
int buckets_bind(struct buckets *buckets, const char *name);
bool buckets_bound(const struct buckets *buckets, const char *name);
/* "TEST_BUCKET, UPLOADS" */
int buckets_names(const struct buckets *buckets, struct buf *to);

struct bucket_key {
    const char *bucket;
    const char *key; /* 1 to BUCKET_KEY_MAX bytes */
    size_t size;
};

struct bucket_object {
    struct buf data;
    char *content_type; /* or NULL; malloc'd */
    char etag[33];
    int64_t uploaded_ms;
};
void bucket_object_free(struct bucket_object *object);
#define CLEANUP_OBJECT __attribute__((cleanup(bucket_object_free)))

/* Replaces what has the key; content_type may be NULL; the etag is given back. */
int bucket_put(struct buckets *buckets, const struct bucket_key *key, const char *data, size_t size,
               const char *content_type, int64_t now_ms, char etag[33], struct error *err);
/* -ENOENT when there is none. The object may be uninitialised; free it also after an error. */
int bucket_get(struct buckets *buckets, const struct bucket_key *key, struct bucket_object *object,
               struct error *err);
/* 0 also when there was none. */
int bucket_delete(struct buckets *buckets, const struct bucket_key *key, struct error *err);

struct bucket_query {
    const char *bucket;
    const char *prefix;    /* "" = all */
    const char *delimiter; /* "" = none: keys with it after the prefix are told as one prefix */
    const char *cursor;    /* of an answer, or "" */
    int limit;             /* 1 to BUCKET_LIST_MAX, of objects and prefixes together */
};
/* {objects: [{key, size, etag, uploaded, httpMetadata}], truncated, cursor?, delimitedPrefixes}
 * in the order of the keys' bytes; a new reference, or NULL: -EINVAL for a bad cursor. */
json_t *bucket_list(struct buckets *buckets, const struct bucket_query *query, struct error *err);

/* Empties every bucket. */
int buckets_clear(struct buckets *buckets, struct error *err);

#endif
