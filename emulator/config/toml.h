/* TOML 1.0 as wrangler.toml uses it, read into the tree that wrangler.jsonc
 * gives. Dates become the strings they are written as, and so do inf and nan,
 * which JSON does not have. */
#ifndef SANDPIT_CONFIG_TOML_H
#define SANDPIT_CONFIG_TOML_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "config/place.h"

/* A new reference to an object, or NULL with "file:line:column: what" in err.
 */
json_t *toml_parse(const char *text, size_t size, const char *file, struct error *err);

/* Where a value stands in a text that toml_parse accepted: of a table, its
 * header or first key. */
struct place toml_locate(const char *text, size_t size, const struct place_step *path,
                         size_t steps);

#endif
