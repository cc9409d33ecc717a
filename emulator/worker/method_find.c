/* Finding a row by its name. Every request does, most of them twice. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/methods.h"
#include "worker/nearest.h"

enum { NAMES_MAX = 256 };

/* All names and aliases in strcmp()'s order, filled at the first use. */
struct name {
    const char *name;
    const struct method_row *row;
};

static int compare(const void *one, const void *other)
{
    return strcmp(((const struct name *)one)->name, ((const struct name *)other)->name);
}

static size_t fill(struct name names[NAMES_MAX])
{
    size_t count = 0;
    for (const struct method_row *row = method_rows; row->name; row++) {
        assert(count + 1 + ALIASES_MAX <= NAMES_MAX);
        names[count++] = (struct name){row->name, row};
        for (size_t i = 0; i < ALIASES_MAX && row->aliases[i]; i++)
            names[count++] = (struct name){row->aliases[i], row};
    }
    qsort(names, count, sizeof *names, compare);
    return count;
}

const struct method_row *method_find(const char *name)
{
    static struct name names[NAMES_MAX];
    static size_t count;
    if (!count)
        count = fill(names);
    const struct name wanted = {.name = name};
    const struct name *found = bsearch(&wanted, names, count, sizeof *names, compare);
    return found ? found->row : NULL;
}

const char *method_nearest(const char *name)
{
    struct nearest nearest = nearest_to(name);
    for (const struct method_row *row = method_rows; row->name; row++) {
        nearest_try(&nearest, row->name);
        for (size_t i = 0; i < ALIASES_MAX && row->aliases[i]; i++)
            nearest_try(&nearest, row->aliases[i]);
    }
    return nearest.best;
}

int method_content_index(const struct method_row *row)
{
    for (int i = 0; i < PARAMS_MAX && row->params[i].name; i++) {
        if (row->params[i].type == ARG_CONTENT)
            return i;
    }
    return -1;
}
