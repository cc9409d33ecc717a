/* A configuration file: its text, the tree that was read from it, and where
 * each value stands. The same for JSON with comments and for TOML. */
#ifndef SANDPIT_CONFIG_SOURCE_H
#define SANDPIT_CONFIG_SOURCE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "config/place.h"

enum { SOURCE_BYTES_MAX = 1 << 20, WHERE_STEPS_MAX = 8 };

struct source {
    const char *file; /* base name, in the path that it was read from */
    struct buf text;
    bool toml;
    json_t *root; /* an object */
};

/* The way to a value. */
struct where {
    struct place_step steps[WHERE_STEPS_MAX];
    size_t count;
};

struct where where_name(struct where where, const char *name);
struct where where_index(struct where where, size_t index);

/* A whole file of at most SOURCE_BYTES_MAX into `to`. */
int source_text(const char *path, struct buf *to, struct error *err);
/* Reads and parses; the path must outlive the source. To be freed also after an
 * error. */
int source_read(struct source *source, const char *path, struct error *err);
void source_free(struct source *source);

/* A value that is not there is placed at what should contain it. */
struct place source_place(const struct source *source, struct where where);
/* "wrangler.jsonc:4:17: containers[0].class_name must be a string"; returns
 * -EINVAL. */
int source_complain(const struct source *source, struct where where, struct error *err,
                    const char *problem);
/* Copies an optional string member of `object`, which stands at `where`; ""
 * when it is not there. */
int source_string(const struct source *source, const json_t *object, struct where where,
                  const char *name, char *to, size_t room, struct error *err);

#endif
