#include "objects/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* How long opening waits for another program, first to have the file alone, then to share it. */
enum { SCHEMA_VERSION = 1, ALONE_MS = 300, SHARED_MS = 2000 };

/* Marks our files, so that another program's database is never taken for one ("sndp"). */
#define APPLICATION_ID 0x736e6470

static const char schema[] =
    "CREATE TABLE objects (row INTEGER PRIMARY KEY, class TEXT NOT NULL, id TEXT NOT NULL,"
    " secret TEXT NOT NULL, created INTEGER NOT NULL, UNIQUE (class, id));"
    "CREATE TABLE storage (object INTEGER NOT NULL REFERENCES objects (row) ON DELETE CASCADE,"
    " key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (object, key)) WITHOUT ROWID;"
    "PRAGMA application_id = 1936614512; PRAGMA user_version = 1;";

enum statement { CREATE, PUT, GET, DELETE, EACH, VALUES, CLEAR, STATEMENTS };
static const char *const texts[STATEMENTS] = {
    [CREATE] = "INSERT INTO objects (class, id, secret, created) VALUES (?, ?, ?, ?)",
    [PUT] = ("INSERT INTO storage (object, key, value) VALUES (?, ?, ?)"
             " ON CONFLICT (object, key) DO UPDATE SET value = excluded.value"),
    [GET] = "SELECT value FROM storage WHERE object = ? AND key = ?",
    [DELETE] = "DELETE FROM storage WHERE object = ? AND key = ?",
    [EACH] = "SELECT row, class, id, secret FROM objects ORDER BY row",
    [VALUES] = "SELECT value FROM storage WHERE key = ?",
    [CLEAR] = "DELETE FROM objects",
};

struct store {
    sqlite3 *db;
    char *path;
    sqlite3_stmt *statements[STATEMENTS];
};

static int to_errno(int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return EACCES;
    case SQLITE_NOMEM:
        return ENOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return EUCLEAN;
    default:
        return EIO;
    }
}

static int fail(const struct store *store, struct error *err, const char *what)
{
    int code = sqlite3_extended_errcode(store->db);
    return error_set(err, to_errno(code), "%s '%s': %s", what, store->path,
                     sqlite3_errmsg(store->db));
}

static int run(struct store *store, const char *sql, struct error *err)
{
    if (sqlite3_exec(store->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return fail(store, err, "storage");
    return 0;
}

static long long pragma(struct store *store, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    long long value = -1;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static bool quick_check(struct store *store)
{
    sqlite3_stmt *statement = NULL;
    bool fine =
        sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW &&
        strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    sqlite3_finalize(statement);
    return fine;
}

/* A file of ours, an empty one, or a refusal that says what to do. */
static int check_schema(struct store *store, struct error *err)
{
    long long tables = pragma(store, "SELECT count(*) FROM sqlite_master");
    if (tables < 0 && (sqlite3_errcode(store->db) & 0xff) == SQLITE_BUSY)
        return fail(store, err, "storage");
    long long version = pragma(store, "PRAGMA user_version");
    long long application = pragma(store, "PRAGMA application_id");
    if (version < 0 || application < 0 || tables < 0)
        return error_set(err, EUCLEAN,
                         "'%s' is damaged (%s): move it away, or start with --persist-to another "
                         "directory",
                         store->path, sqlite3_errmsg(store->db));
    if (tables == 0)
        return run(store, schema, err);
    if (application != APPLICATION_ID)
        return error_set(err, EUCLEAN, "'%s' is not a sandpit database", store->path);
    if (version > SCHEMA_VERSION)
        return error_set(err, EUCLEAN,
                         "'%s' was written by a newer sandpit (format %lld, this one reads %d): "
                         "use that version, or start with --persist-to another directory",
                         store->path, version, SCHEMA_VERSION);
    if (!quick_check(store))
        return error_set(err, EUCLEAN, "'%s' is damaged (%s): move it away and start again",
                         store->path, sqlite3_errmsg(store->db));
    return 0;
}

static int prepare(struct store *store, struct error *err)
{
    for (int i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v3(store->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &store->statements[i], NULL) != SQLITE_OK)
            return fail(store, err, "prepare");
    }
    return 0;
}

/* With the file alone to us, no other program can make a request wait or fail, and there is no
 * shared memory file that one could damage. */
static int set_up(struct store *store, bool alone, struct error *err)
{
    sqlite3_busy_timeout(store->db, alone ? ALONE_MS : SHARED_MS);
    int result = alone ? run(store, "PRAGMA locking_mode = EXCLUSIVE", err) : 0;
    if (result == 0)
        result = check_schema(store, err);
    if (result == 0)
        result = run(store,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                     "PRAGMA foreign_keys = ON; PRAGMA cache_size = -256;",
                     err);
    if (result == 0)
        result = prepare(store, err);
    /* From here on the loop is waiting: a lock that another program holds is an error at once. */
    sqlite3_busy_timeout(store->db, 0);
    return result;
}

static void close_file(struct store *store)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(store->statements[i]);
    memset(store->statements, 0, sizeof store->statements);
    sqlite3_close(store->db);
    store->db = NULL;
}

static int open_file(struct store *store, bool alone, struct error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(store->path, &store->db, flags, NULL) != SQLITE_OK)
        return fail(store, err, "open");
    sqlite3_extended_result_codes(store->db, 1);
    return set_up(store, alone, err);
}

struct store *store_open(const char *path, struct error *err)
{
    struct error local = {0};
    struct store *store = calloc(1, sizeof *store);
    if (!store || !(store->path = strdup(path))) {
        error_errno(err, ENOMEM, "storage");
        free(store);
        return NULL;
    }
    int result = open_file(store, true, &local);
    if (result == -EBUSY) {
        close_file(store);
        result = open_file(store, false, &local);
    }
    if (result == -EBUSY)
        error_set(err, EBUSY,
                  "another program has '%s' locked: end it, or start with --persist-to another "
                  "directory",
                  path);
    else if (result < 0)
        error_set(err, -result, "%s", local.text);
    if (result < 0) {
        store_close(store);
        return NULL;
    }
    return store;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    close_file(store);
    free(store->path);
    free(store);
}

static sqlite3_stmt *begin(struct store *store, enum statement which)
{
    sqlite3_stmt *statement = store->statements[which];
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return statement;
}

/* Runs a statement that gives no rows. A statement outside a transaction commits by itself. */
static int step(struct store *store, sqlite3_stmt *statement, struct error *err)
{
    int result = sqlite3_step(statement);
    if (result != SQLITE_DONE && result != SQLITE_ROW) {
        int code = fail(store, err, "storage");
        sqlite3_reset(statement);
        return code;
    }
    sqlite3_reset(statement);
    return 0;
}

int store_each(struct store *store,
               void (*each)(void *arg, int64_t row, const char *class_name, const char *id,
                            const char *secret),
               void *arg, struct error *err)
{
    sqlite3_stmt *statement = begin(store, EACH);
    int result;
    while ((result = sqlite3_step(statement)) == SQLITE_ROW)
        each(arg, sqlite3_column_int64(statement, 0),
             (const char *)sqlite3_column_text(statement, 1),
             (const char *)sqlite3_column_text(statement, 2),
             (const char *)sqlite3_column_text(statement, 3));
    if (result != SQLITE_DONE)
        result = fail(store, err, "storage");
    else
        result = 0;
    sqlite3_reset(statement);
    return result;
}

int64_t store_create(struct store *store, const char *class_name, const char *id,
                     const char *secret, int64_t now_ms, struct error *err)
{
    sqlite3_stmt *statement = begin(store, CREATE);
    sqlite3_bind_text(statement, 1, class_name, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, id, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 3, secret, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 4, now_ms);
    int result = step(store, statement, err);
    return result < 0 ? result : sqlite3_last_insert_rowid(store->db);
}

static sqlite3_stmt *begin_key(struct store *store, enum statement which, int64_t row,
                               const char *key)
{
    sqlite3_stmt *statement = begin(store, which);
    sqlite3_bind_int64(statement, 1, row);
    sqlite3_bind_text(statement, 2, key, -1, SQLITE_STATIC);
    return statement;
}

int store_put(struct store *store, int64_t row, const char *key, const json_t *value,
              struct error *err)
{
    CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return error_errno(err, ENOMEM, "storage");
    sqlite3_stmt *statement = begin_key(store, PUT, row, key);
    sqlite3_bind_text(statement, 3, text, -1, SQLITE_STATIC);
    return step(store, statement, err);
}

json_t *store_get(struct store *store, int64_t row, const char *key, struct error *err)
{
    if (err)
        err->code = 0;
    sqlite3_stmt *statement = begin_key(store, GET, row, key);
    json_t *value = NULL;
    int result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        value = json_loads((const char *)sqlite3_column_text(statement, 0), JSON_DECODE_ANY, NULL);
    else if (result != SQLITE_DONE)
        fail(store, err, "storage");
    sqlite3_reset(statement);
    return value;
}

int store_delete(struct store *store, int64_t row, const char *key, struct error *err)
{
    return step(store, begin_key(store, DELETE, row, key), err);
}

static int change_all(struct store *store, int64_t row, const struct store_change *changes,
                      size_t count, struct error *err)
{
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++)
        result = changes[i].value ? store_put(store, row, changes[i].key, changes[i].value, err)
                                  : store_delete(store, row, changes[i].key, err);
    return result;
}

int store_change(struct store *store, int64_t row, const struct store_change *changes, size_t count,
                 struct error *err)
{
    struct error ignored = {0};
    int result = run(store, "BEGIN IMMEDIATE", err);
    if (result < 0)
        return result;
    result = change_all(store, row, changes, count, err);
    if (result == 0)
        result = run(store, "COMMIT", err);
    if (result < 0 && !sqlite3_get_autocommit(store->db))
        run(store, "ROLLBACK", &ignored);
    return result;
}

int store_each_value(struct store *store, const char *key,
                     void (*each)(void *arg, const json_t *value), void *arg, struct error *err)
{
    sqlite3_stmt *statement = begin(store, VALUES);
    int result;
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        CLEANUP_JSON json_t *value =
            json_loads((const char *)sqlite3_column_text(statement, 0), JSON_DECODE_ANY, NULL);
        if (value)
            each(arg, value);
    }
    result = result == SQLITE_DONE ? 0 : fail(store, err, "storage");
    sqlite3_reset(statement);
    return result;
}

int store_clear(struct store *store, struct error *err)
{
    return step(store, begin(store, CLEAR), err);
}
