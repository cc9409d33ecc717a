/* From what a client sent to the argument object of the layer below, by the rows of methods.h. */
#ifndef SANDPIT_WORKER_ARGUMENTS_H
#define SANDPIT_WORKER_ARGUMENTS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "worker/methods.h"

/* Positional arguments, as the SDK's method takes them. With `cut`, the ARG_CONTENT argument was
 * taken out of the body and is null. Unknown options are ignored, as the SDK does. A new reference,
 * or NULL with err naming the parameter and the type wanted. */
json_t *arguments_positional(const struct method_row *row, const json_t *array, bool cut,
                             struct error *err);

/* Named arguments: parameters and their options are members of one object; an options object under
 * the parameter's own name is read too. */
json_t *arguments_named(const struct method_row *row, const json_t *object, bool cut,
                        struct error *err);

#endif
