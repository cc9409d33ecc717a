/* The languages of the code interpreter. */
#ifndef SANDPIT_CONTAINER_INTERPRETER_LANGUAGE_H
#define SANDPIT_CONTAINER_INTERPRETER_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>

enum language { LANGUAGE_PYTHON, LANGUAGE_JAVASCRIPT, LANGUAGE_TYPESCRIPT, LANGUAGE_COUNT };

struct language_row {
    const char *name;
    const char *program;             /* what must be installed */
    const char *prefix;              /* of its environment variables */
    const char *const *argv;         /* reads the driver and runs it */
    const char *driver, *driver_end; /* the driver's source */
};
const struct language_row *language_row(enum language language);

/* By name or short name, such as "js"; false when it is none. NULL and "" are Python. */
bool language_find(const char *name, enum language *language);

#endif
