/* What an emulator can say beyond the original: why a file is gone, that a session began anew, that
 * an id will not do for previews. In answers they stand under "hint", which --faithful leaves out;
 * events and warnings stay. */
#ifndef SANDPIT_OBJECTS_HINTS_H
#define SANDPIT_OBJECTS_HINTS_H

#include <jansson.h>
#include <stdbool.h>

#include "container/call.h"
#include "objects/objects.h"

struct pending;

/* Adds a hint to an answer of the container, or takes all away. */
void hints_answer(struct pending *pending, struct answer *answer);
/* A session of the previous container is there again; false when that is nothing to tell. */
bool hints_session_recreated(struct object *object, const char *id);
/* An id is used for the first time. */
void hints_id(struct object *object);
/* keepAlive was changed to this. */
void hints_keep_alive(struct object *object, bool on);
/* A text that need not be UTF-8. */
json_t *hints_text(const char *text);

#endif
