#include "worker/path.h"

#include <string.h>

#include "base/cleanup.h"
#include "worker/target.h"

/* Takes "{name}" of the pattern and one segment of the path; both move on. */
static bool take_segment(const char **pattern, const char **path, bool raw, json_t *values)
{
    size_t length = strcspn(*path, "/");
    size_t name_length = strcspn(*pattern, "}");
    CLEANUP_FREE char *text = NULL;
    if (length)
        text = raw ? strndup(*path, length) : target_decode(*path, length);
    CLEANUP_FREE char *name = strndup(*pattern + 1, name_length - 1);
    if (!text || !name)
        return false;
    if (values)
        json_object_set_new(values, name, json_string(text));
    *path += length;
    *pattern += name_length + 1;
    return true;
}

static bool fits(const char *pattern, const char *path, bool raw, json_t *values)
{
    CLEANUP_JSON json_t *found = values && strchr(pattern, '{') ? json_object() : NULL;
    while (*pattern) {
        if (*pattern == '{') {
            if (!take_segment(&pattern, &path, raw, found))
                return false;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    if (*path)
        return false;
    if (found)
        json_object_update(values, found);
    return true;
}

bool path_fits(const char *pattern, const char *path, json_t *values)
{
    return fits(pattern, path, false, values);
}

bool path_fits_raw(const char *pattern, const char *path, json_t *values)
{
    return fits(pattern, path, true, values);
}
