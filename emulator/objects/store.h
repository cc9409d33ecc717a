/* Durable Object storage: one sqlite file, one connection on the loop, WAL; every change is
 * committed before it is acknowledged. */
#ifndef SANDPIT_OBJECTS_STORE_H
#define SANDPIT_OBJECTS_STORE_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

struct store;

/* Opens or creates `path` (":memory:" for --ephemeral) and keeps other programs out of it. A file
 * that is corrupt or from a newer version is refused with what to do about it. When another program
 * has it open already it is shared; a change made while that one writes is then -EBUSY at once. */
struct store *store_open(const char *path, struct error *err);
void store_close(struct store *store);

/* Calls each() for every object. */
int store_each(struct store *store,
               void (*each)(void *arg, int64_t row, const char *class_name, const char *id,
                            const char *secret),
               void *arg, struct error *err);
/* Makes the row of a new object; returns its number or a negative errno. */
int64_t store_create(struct store *store, const char *class_name, const char *id,
                     const char *secret, int64_t now_ms, struct error *err);
int store_put(struct store *store, int64_t row, const char *key, const json_t *value,
              struct error *err);
/* Several keys at once, all or none; NULL as a value deletes the key. */
struct store_change {
    const char *key;
    const json_t *value;
};
int store_change(struct store *store, int64_t row, const struct store_change *changes, size_t count,
                 struct error *err);
/* Calls each() for every object that has the key; value is borrowed. */
int store_each_value(struct store *store, const char *key,
                     void (*each)(void *arg, const json_t *value), void *arg, struct error *err);
/* New reference, or NULL when the key does not exist (err->code 0) or on failure. */
json_t *store_get(struct store *store, int64_t row, const char *key, struct error *err);
int store_delete(struct store *store, int64_t row, const char *key, struct error *err);
/* Forgets every object. */
int store_clear(struct store *store, struct error *err);

#endif
