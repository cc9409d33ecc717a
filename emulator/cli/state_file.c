#include "cli/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/percent.h"
#include "buckets/buckets.h"
#include "objects/store.h"

/* Marks the files ("sndx"), as each of the two stores marks its own. */
#define APPLICATION_ID "1936614520"
enum { FORMAT = 1, URI_MAX = 3 * PATH_MAX + 64 };

/* The tables of a file, as sqlite keeps their text; one that has others is not ours. */
static const char *const tables[] = {
    "CREATE TABLE bucket_objects (bucket TEXT NOT NULL, key BLOB NOT NULL, size INTEGER NOT NULL,"
    " etag TEXT NOT NULL, type TEXT, uploaded INTEGER NOT NULL, value BLOB NOT NULL,"
    " PRIMARY KEY (bucket, key))",
    "CREATE TABLE objects (row INTEGER PRIMARY KEY, class TEXT NOT NULL, id TEXT NOT NULL,"
    " secret TEXT NOT NULL, created INTEGER NOT NULL, UNIQUE (class, id))",
    "CREATE TABLE storage (object INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
    " PRIMARY KEY (object, key)) WITHOUT ROWID",
};
enum { TABLES = sizeof tables / sizeof *tables };

/* What no emulator would have stored: a row that is found says what is wrong. */
static const struct {
    const char *sql, *problem;
} checks[] = {
    {"SELECT 1 FROM file.objects WHERE typeof(class) != 'text' OR length(class) NOT BETWEEN 1 AND "
     "63"
     " OR typeof(id) != 'text' OR length(id) NOT BETWEEN 1 AND 63 OR instr(id, char(0))"
     " OR instr(class, char(0))",
     "a sandbox has no proper name"},
    {"SELECT 1 FROM file.objects WHERE typeof(secret) != 'text' OR length(secret) != 16"
     " OR secret GLOB '*[^a-z0-9]*' OR typeof(created) != 'integer'",
     "a sandbox has no proper secret"},
    {"SELECT 1 FROM file.storage WHERE object NOT IN (SELECT row FROM file.objects)"
     " OR typeof(key) != 'text' OR typeof(value) != 'text'",
     "something is stored for no sandbox"},
    {"SELECT 1 FROM file.bucket_objects WHERE typeof(bucket) != 'text'"
     " OR length(bucket) NOT BETWEEN 1 AND 63 OR typeof(key) != 'blob'"
     " OR length(key) NOT BETWEEN 1 AND 1024 OR typeof(value) != 'blob' OR size != length(value)"
     " OR typeof(etag) != 'text' OR length(etag) != 32 OR typeof(uploaded) != 'integer'",
     "an object of a bucket is not whole"},
};

static void close_db(sqlite3 **db)
{
    sqlite3_close(*db);
}
#define CLEANUP_DB __attribute__((cleanup(close_db)))

static int fail(sqlite3 *db, const char *what, struct error *err)
{
    int code = sqlite3_errcode(db) & 0xff;
    return error_set(err, code == SQLITE_FULL ? ENOSPC : EIO, "%s: %s", what, sqlite3_errmsg(db));
}

static int run(sqlite3 *db, const char *sql, const char *what, struct error *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(db, what, err);
}

/* The first number of the first row: -1 when that fails, 0 when there is no row. */
static long long number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    long long value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK) {
        int result = sqlite3_step(statement);
        value = result == SQLITE_ROW    ? sqlite3_column_int64(statement, 0)
                : result == SQLITE_DONE ? 0
                                        : -1;
    }
    sqlite3_finalize(statement);
    return value;
}

static int attach(sqlite3 *db, const char *path, const char *mode, const char *name,
                  struct error *err)
{
    CLEANUP_BUF struct buf uri = BUF_INIT(URI_MAX);
    char sql[64];
    buf_adds(&uri, "file:");
    percent_encode(&uri, path);
    if (buf_addf(&uri, "?%s", mode) < 0)
        return error_errno(err, ENAMETOOLONG, "'%s'", path);
    sqlite3_stmt *statement = NULL;
    snprintf(sql, sizeof sql, "ATTACH ? AS %s", name);
    int result = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (result == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, buf_text(&uri), -1, SQLITE_STATIC);
        result = sqlite3_step(statement) == SQLITE_DONE ? SQLITE_OK : SQLITE_ERROR;
    }
    result = result == SQLITE_OK ? 0 : fail(db, path, err);
    sqlite3_finalize(statement);
    return result;
}

/* Opens both stores of a directory, as an emulator does at its start: that makes what is missing,
 * and refuses what is damaged or newer, in its words. */
static int open_stores(const char *dir, sqlite3 **db, struct error *err)
{
    char objects[PATH_MAX + 32], buckets[PATH_MAX + 32];
    snprintf(objects, sizeof objects, "%s/objects.sqlite", dir);
    snprintf(buckets, sizeof buckets, "%s/buckets.sqlite", dir);
    struct store *store = store_open(objects, err);
    struct buckets *opened = store ? buckets_open(buckets, err) : NULL;
    store_close(store);
    buckets_close(opened);
    if (!opened)
        return -err->code;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
    if (sqlite3_open_v2(objects, db, flags, NULL) != SQLITE_OK)
        return fail(*db, objects, err);
    /* Without a WAL one transaction over both files is one: after a crash either both have it or
     * none. The emulator sets the WAL again. */
    int result = attach(*db, buckets, "mode=rw", "buckets", err);
    if (result == 0)
        result = run(*db,
                     "PRAGMA main.journal_mode = DELETE; PRAGMA buckets.journal_mode = DELETE;"
                     "PRAGMA synchronous = FULL",
                     "prepare the state", err);
    return result;
}

static void count(sqlite3 *db, const char *objects, const char *buckets, struct state_counts *to)
{
    char sql[96];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", objects);
    to->sandboxes = number(db, sql);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", buckets);
    to->bucket_objects = number(db, sql);
}

/* Export. */

static int make_file(const char *path, struct error *err)
{
    CLEANUP_DB sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK)
        return fail(db, path, err);
    int result = 0;
    for (size_t i = 0; i < TABLES && result == 0; i++)
        result = run(db, tables[i], path, err);
    if (result == 0)
        result = run(db, "PRAGMA application_id = " APPLICATION_ID "; PRAGMA user_version = 1",
                     path, err);
    return result;
}

static int fill_file(const char *dir, const char *path, struct state_counts *counts,
                     struct error *err)
{
    CLEANUP_DB sqlite3 *db = NULL;
    int result = open_stores(dir, &db, err);
    if (result == 0)
        result = attach(db, path, "mode=rw", "file", err);
    if (result == 0)
        result =
            run(db,
                "BEGIN;"
                "INSERT INTO file.objects SELECT row, class, id, secret, created FROM main.objects;"
                "INSERT INTO file.storage SELECT object, key, value FROM main.storage;"
                "INSERT INTO file.bucket_objects SELECT bucket, key, size, etag, type, uploaded,"
                " value FROM buckets.objects;"
                "COMMIT",
                "export", err);
    if (result == 0)
        count(db, "file.objects", "file.bucket_objects", counts);
    return result;
}

static int put_in_place(const char *fresh, const char *path, bool force, struct error *err)
{
    CLEANUP_FD int fd = open(fresh, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return error_errno(err, errno, "write '%s'", path);
    unsigned flags = force ? 0 : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, fresh, AT_FDCWD, path, flags) < 0)
        return errno == EEXIST
                   ? error_set(err, EEXIST, "'%s' is there already: --force replaces it", path)
                   : error_errno(err, errno, "write '%s'", path);
    return 0;
}

int state_export(const char *dir, const char *path, bool force, struct state_counts *counts,
                 struct error *err)
{
    char fresh[PATH_MAX], journal[PATH_MAX + 16];
    struct stat status;
    if (!force && lstat(path, &status) == 0)
        return error_set(err, EEXIST, "'%s' is there already: --force replaces it", path);
    if (snprintf(fresh, sizeof fresh, "%s.%d.new", path, (int)getpid()) >= (int)sizeof fresh)
        return error_errno(err, ENAMETOOLONG, "'%s'", path);
    /* It holds secrets, and sqlite would make it for everybody to read. */
    CLEANUP_FD int made = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0)
        return error_errno(err, errno, "write '%s'", path);
    int result = make_file(fresh, err);
    if (result == 0)
        result = fill_file(dir, fresh, counts, err);
    if (result == 0)
        result = put_in_place(fresh, path, force, err);
    if (result < 0) {
        unlink(fresh);
        snprintf(journal, sizeof journal, "%s-journal", fresh);
        unlink(journal);
    }
    return result;
}

/* Import. */

static int refuse(const char *path, const char *problem, struct error *err)
{
    return error_set(err, EUCLEAN, "'%s' is not imported: %s", path, problem);
}

/* Its tables are ours to the letter, so it brings no triggers or views either. */
static bool has_our_tables(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    size_t at = 0;
    const char *sql = "SELECT sql FROM file.sqlite_master WHERE name NOT LIKE 'sqlite_autoindex_%'"
                      " ORDER BY name";
    bool same = sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK;
    while (same && sqlite3_step(statement) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        same = at < TABLES && text && strcmp(text, tables[at]) == 0;
        at++;
    }
    sqlite3_finalize(statement);
    return same && at == TABLES;
}

static bool is_whole(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    bool whole = sqlite3_prepare_v2(db, "PRAGMA file.integrity_check(1)", -1, &statement, NULL) ==
                     SQLITE_OK &&
                 sqlite3_step(statement) == SQLITE_ROW &&
                 strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    sqlite3_finalize(statement);
    return whole;
}

static int check_file(sqlite3 *db, const char *path, struct error *err)
{
    char text[128];
    long long application = number(db, "PRAGMA file.application_id");
    long long format = number(db, "PRAGMA file.user_version");
    snprintf(text, sizeof text, "%lld", application);
    if (application < 0 || format < 0 || strcmp(text, APPLICATION_ID) != 0)
        return refuse(path, "it is not a file of `sandpit state export`", err);
    if (format > FORMAT) {
        snprintf(text, sizeof text,
                 "a newer sandpit wrote it (format %lld, this one reads %d); use that version",
                 format, FORMAT);
        return refuse(path, text, err);
    }
    if (!has_our_tables(db) || !is_whole(db))
        return refuse(path, "it is damaged", err);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        char sql[800];
        snprintf(sql, sizeof sql, "SELECT EXISTS (%s)", checks[i].sql);
        if (number(db, sql) != 0)
            return refuse(path, checks[i].problem, err);
    }
    return 0;
}

/* The file is read as it stands: nothing is written beside it, and no journal of it is believed. */
static int attach_file(sqlite3 *db, const char *path, struct error *err)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return error_errno(err, errno, "read '%s'", path);
    if (!S_ISREG(status.st_mode))
        return refuse(path, "it is not a file", err);
    char whole[PATH_MAX];
    if (!realpath(path, whole))
        return error_errno(err, errno, "read '%s'", path);
    struct error inner = {0};
    int result = attach(db, whole, "mode=ro&immutable=1", "file", &inner);
    if (result < 0)
        return refuse(path, "it is not a file of `sandpit state export`", err);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return run(db, "PRAGMA cell_size_check = ON", path, err);
}

/* Before a store is touched, or even made. */
static int check_alone(const char *path, struct error *err)
{
    CLEANUP_DB sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
    if (sqlite3_open_v2(":memory:", &db, flags, NULL) != SQLITE_OK)
        return fail(db, path, err);
    int result = attach_file(db, path, err);
    return result < 0 ? result : check_file(db, path, err);
}

static int replace_all(sqlite3 *db, struct error *err)
{
    int result =
        run(db,
            "BEGIN IMMEDIATE;"
            "DELETE FROM main.storage; DELETE FROM main.objects;"
            "DELETE FROM buckets.objects;"
            "INSERT INTO main.objects (row, class, id, secret, created)"
            " SELECT row, class, id, secret, created FROM file.objects;"
            "INSERT INTO main.storage (object, key, value)"
            " SELECT object, key, value FROM file.storage;"
            "INSERT INTO buckets.objects (bucket, key, size, etag, type, uploaded, value)"
            " SELECT bucket, key, size, etag, type, uploaded, value FROM file.bucket_objects;"
            "COMMIT",
            "import", err);
    if (result < 0)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

int state_import(const char *dir, const char *path, bool force, struct state_counts *counts,
                 struct error *err)
{
    CLEANUP_DB sqlite3 *db = NULL;
    int result = check_alone(path, err);
    if (result == 0)
        result = open_stores(dir, &db, err);
    if (result < 0)
        return result;
    struct state_counts there;
    count(db, "main.objects", "buckets.objects", &there);
    if (!force && (there.sandboxes || there.bucket_objects))
        return error_set(err, EEXIST,
                         "'%s' holds %lld sandboxes and %lld objects in buckets: export them first "
                         "if you want them, then --force replaces them",
                         dir, there.sandboxes, there.bucket_objects);
    result = attach_file(db, path, err);
    if (result == 0)
        result = check_file(db, path, err);
    if (result == 0)
        result = replace_all(db, err);
    if (result == 0)
        count(db, "main.objects", "buckets.objects", counts);
    return result;
}

int state_remove(const char *dir, struct error *err)
{
    static const char *const names[] = {"objects.sqlite", "buckets.sqlite"};
    /* The journals go first: one that is left would be read into the next file of that name. */
    static const char *const ends[] = {"-wal", "-shm", "-journal", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t j = 0; j < sizeof ends / sizeof *ends; j++) {
            char path[PATH_MAX + 64];
            snprintf(path, sizeof path, "%s/%s%s", dir, names[i], ends[j]);
            if (unlink(path) < 0 && errno != ENOENT)
                return error_errno(err, errno, "remove '%s'", path);
        }
    }
    return 0;
}
