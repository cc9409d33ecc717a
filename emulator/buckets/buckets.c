#include "buckets/buckets.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "buckets/internal.h"
#include "buckets/md5.h"

/* Marks our files ("sndb"). */
#define APPLICATION_ID 1936614498
#define OBJECT_MAX ((size_t)1 << 30)

enum { FORMAT = 1 };

static const char schema[] =
    "CREATE TABLE objects (bucket TEXT NOT NULL, key BLOB NOT NULL, size INTEGER NOT NULL,"
    " etag TEXT NOT NULL, type TEXT, uploaded INTEGER NOT NULL, value BLOB NOT NULL,"
    " PRIMARY KEY (bucket, key));"
    "PRAGMA application_id = 1936614498; PRAGMA user_version = 1;";

static const char *const texts[BUCKET_STATEMENTS] = {
    [BUCKET_PUT] = "INSERT INTO objects (bucket, key, size, etag, type, uploaded, value)"
                   " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (bucket, key) DO UPDATE SET"
                   " size = excluded.size, etag = excluded.etag, type = excluded.type,"
                   " uploaded = excluded.uploaded, value = excluded.value",
    [BUCKET_GET] = "SELECT value, type, etag, uploaded FROM objects WHERE bucket = ? AND key = ?",
    [BUCKET_DELETE] = "DELETE FROM objects WHERE bucket = ? AND key = ?",
    [BUCKET_LIST] = "SELECT key, size, etag, type, uploaded FROM objects"
                    " WHERE bucket = ? AND key >= ? ORDER BY key",
    [BUCKET_CLEAR] = "DELETE FROM objects",
};

int buckets_fail(const struct buckets *buckets, struct error *err)
{
    int code = sqlite3_errcode(buckets->db) & 0xff;
    return error_set(err,
                     code == SQLITE_FULL    ? ENOSPC
                     : code == SQLITE_NOMEM ? ENOMEM
                                            : EIO,
                     "buckets '%s': %s", buckets->path, sqlite3_errmsg(buckets->db));
}

sqlite3_stmt *buckets_begin(struct buckets *buckets, enum bucket_statement which)
{
    sqlite3_stmt *statement = buckets->statements[which];
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return statement;
}

static int run(struct buckets *buckets, const char *sql, struct error *err)
{
    return sqlite3_exec(buckets->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : buckets_fail(buckets, err);
}

static long long number(struct buckets *buckets, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    long long value = -1;
    if (sqlite3_prepare_v2(buckets->db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static int check_schema(struct buckets *buckets, struct error *err)
{
    long long tables = number(buckets, "SELECT count(*) FROM sqlite_master");
    long long application = number(buckets, "PRAGMA application_id");
    long long format = number(buckets, "PRAGMA user_version");
    if (tables == 0)
        return run(buckets, schema, err);
    if (tables < 0 || application != APPLICATION_ID)
        return error_set(err, EUCLEAN,
                         "'%s' is damaged or not a file of sandpit's buckets (%s): move it away",
                         buckets->path, sqlite3_errmsg(buckets->db));
    if (format > FORMAT)
        return error_set(err, EUCLEAN, "'%s' was written by a newer sandpit: use that version",
                         buckets->path);
    return 0;
}

static int open_file(struct buckets *buckets, struct error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(buckets->path, &buckets->db, flags, NULL) != SQLITE_OK)
        return buckets_fail(buckets, err);
    int result = run(buckets, "PRAGMA locking_mode = EXCLUSIVE", err);
    if (result == 0)
        result = check_schema(buckets, err);
    if (result == 0)
        result =
            run(buckets,
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -256",
                err);
    for (int i = 0; i < BUCKET_STATEMENTS && result == 0; i++) {
        if (sqlite3_prepare_v3(buckets->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &buckets->statements[i], NULL) != SQLITE_OK)
            result = buckets_fail(buckets, err);
    }
    return result;
}

struct buckets *buckets_open(const char *path, struct error *err)
{
    struct buckets *buckets = calloc(1, sizeof *buckets);
    if (buckets)
        buckets->path = strdup(path);
    if (!buckets || !buckets->path || !(buckets->names = json_array())) {
        error_errno(err, ENOMEM, "buckets");
        buckets_close(buckets);
        return NULL;
    }
    if (open_file(buckets, err) < 0) {
        buckets_close(buckets);
        return NULL;
    }
    return buckets;
}

void buckets_close(struct buckets *buckets)
{
    if (!buckets)
        return;
    for (int i = 0; i < BUCKET_STATEMENTS; i++)
        sqlite3_finalize(buckets->statements[i]);
    sqlite3_close(buckets->db);
    json_decref(buckets->names);
    free(buckets->path);
    free(buckets);
}

int buckets_bind(struct buckets *buckets, const char *name)
{
    if (buckets_bound(buckets, name))
        return 0;
    return json_array_append_new(buckets->names, json_string(name)) < 0 ? -ENOMEM : 0;
}

bool buckets_bound(const struct buckets *buckets, const char *name)
{
    for (size_t i = 0; i < json_array_size(buckets->names); i++) {
        if (strcmp(json_string_value(json_array_get(buckets->names, i)), name) == 0)
            return true;
    }
    return false;
}

int buckets_names(const struct buckets *buckets, struct buf *to)
{
    for (size_t i = 0; i < json_array_size(buckets->names); i++)
        buf_addf(to, "%s%s", i ? ", " : "", json_string_value(json_array_get(buckets->names, i)));
    return to->error;
}

/* Objects. */

static void bind_key(sqlite3_stmt *statement, const struct bucket_key *key)
{
    sqlite3_bind_text(statement, 1, key->bucket, -1, SQLITE_STATIC);
    sqlite3_bind_blob64(statement, 2, key->key, key->size, SQLITE_STATIC);
}

static int step(struct buckets *buckets, sqlite3_stmt *statement, struct error *err)
{
    int result = sqlite3_step(statement) == SQLITE_DONE ? 0 : buckets_fail(buckets, err);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement); /* they point into what the caller is about to free */
    return result;
}

static int check_key(const struct bucket_key *key, struct error *err)
{
    if (key->size == 0 || key->size > BUCKET_KEY_MAX)
        return error_set(err, EINVAL, "a key has 1 to %d bytes, not %zu", BUCKET_KEY_MAX,
                         key->size);
    return 0;
}

int bucket_put(struct buckets *buckets, const struct bucket_key *key, const char *data, size_t size,
               const char *content_type, int64_t now_ms, char etag[33], struct error *err)
{
    int result = check_key(key, err);
    if (result < 0)
        return result;
    md5_text(data, size, etag);
    sqlite3_stmt *statement = buckets_begin(buckets, BUCKET_PUT);
    bind_key(statement, key);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)size);
    sqlite3_bind_text(statement, 4, etag, -1, SQLITE_STATIC);
    if (content_type)
        sqlite3_bind_text(statement, 5, content_type, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 6, now_ms);
    /* An empty value must not become NULL, which a null pointer would. */
    sqlite3_bind_blob64(statement, 7, size ? data : "", size, SQLITE_STATIC);
    return step(buckets, statement, err);
}

/* The current row of BUCKET_GET. */
static int copy_object(sqlite3_stmt *statement, struct bucket_object *object)
{
    const void *data = sqlite3_column_blob(statement, 0);
    size_t size = (size_t)sqlite3_column_bytes(statement, 0);
    const char *type = (const char *)sqlite3_column_text(statement, 1);
    const char *etag = (const char *)sqlite3_column_text(statement, 2);
    object->uploaded_ms = sqlite3_column_int64(statement, 3);
    snprintf(object->etag, sizeof object->etag, "%s", etag ? etag : "");
    if (type && !(object->content_type = strdup(type)))
        return -ENOMEM;
    return size && !data ? -ENOMEM : buf_add(&object->data, data ? data : "", size);
}

int bucket_get(struct buckets *buckets, const struct bucket_key *key, struct bucket_object *object,
               struct error *err)
{
    *object = (struct bucket_object){.data = BUF_INIT(OBJECT_MAX)};
    int result = check_key(key, err);
    if (result < 0)
        return result;
    sqlite3_stmt *statement = buckets_begin(buckets, BUCKET_GET);
    bind_key(statement, key);
    int found = sqlite3_step(statement);
    if (found == SQLITE_ROW) {
        result = copy_object(statement, object);
        result = result < 0 ? error_errno(err, -result, "read the object") : 0;
    } else if (found == SQLITE_DONE) {
        result = error_set(err, ENOENT, "Object not found: %.*s", (int)key->size, key->key);
    } else {
        result = buckets_fail(buckets, err);
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return result;
}

void bucket_object_free(struct bucket_object *object)
{
    buf_free(&object->data);
    free(object->content_type);
    object->content_type = NULL;
}

int bucket_delete(struct buckets *buckets, const struct bucket_key *key, struct error *err)
{
    int result = check_key(key, err);
    if (result < 0)
        return result;
    sqlite3_stmt *statement = buckets_begin(buckets, BUCKET_DELETE);
    bind_key(statement, key);
    return step(buckets, statement, err);
}

int buckets_clear(struct buckets *buckets, struct error *err)
{
    return step(buckets, buckets_begin(buckets, BUCKET_CLEAR), err);
}
