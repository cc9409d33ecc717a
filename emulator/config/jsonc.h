/* JSON as people write it in wrangler.jsonc: with comments, trailing commas and
 * perhaps a byte order mark. All of these are blanked in a copy, so that lines
 * and columns of jansson's errors are those of the file. */
#ifndef SANDPIT_CONFIG_JSONC_H
#define SANDPIT_CONFIG_JSONC_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "config/place.h"

/* A new reference, or NULL with "file:line:column: what" in err. */
json_t *jsonc_parse(const char *text, size_t size, const char *file, struct error *err);

/* Where a value stands in a text that jsonc_parse accepted. The last member of
 * a name wins, as with jansson. */
struct place jsonc_locate(const char *text, size_t size, const struct place_step *path,
                          size_t steps);

#endif
