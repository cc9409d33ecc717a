/* What the files of this folder share. */
#ifndef SANDPIT_BUCKETS_INTERNAL_H
#define SANDPIT_BUCKETS_INTERNAL_H

#include <sqlite3.h>

#include "buckets/buckets.h"

enum bucket_statement {
    BUCKET_PUT,
    BUCKET_GET,
    BUCKET_DELETE,
    BUCKET_LIST,
    BUCKET_CLEAR,
    BUCKET_STATEMENTS
};

struct buckets {
    sqlite3 *db;
    char *path;
    sqlite3_stmt *statements[BUCKET_STATEMENTS];
    json_t *names; /* of the bindings, an array */
};

/* The error of the last statement. */
int buckets_fail(const struct buckets *buckets, struct error *err);
/* The statement, reset and without values. */
sqlite3_stmt *buckets_begin(struct buckets *buckets, enum bucket_statement which);

#endif
