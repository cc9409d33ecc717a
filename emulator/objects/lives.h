/* What is remembered of an object's containers: the one that runs and the one before it, so that
 * users can ask why something is gone. Kept in memory only. */
#ifndef SANDPIT_OBJECTS_LIVES_H
#define SANDPIT_OBJECTS_LIVES_H

#include <jansson.h>

#include "container/call.h"
#include "container/container.h"
#include "container/written.h"
#include "objects/objects.h"

struct pending;

/* What calls did, by kind. */
enum life_count { LIFE_EXECS, LIFE_FILES, LIFE_PROCESSES, LIFE_CODE, LIFE_CLONES, LIFE_COUNTS };

enum life_end {
    LIFE_RUNS,
    LIFE_SLEPT,
    LIFE_STOPPED,
    LIFE_DESTROYED,
    LIFE_REPLACED, /* the platform took it away */
    LIFE_CRASHED, /* it ended by itself */
    LIFE_FAILED,  /* it never became ready */
};

struct life {
    int number; /* from 1, in this process */
    char runtime[37];
    int64_t started_ms, ended_ms;
    const char *started_by; /* the operation that needed it */
    enum life_end end;
    char why[200];
    unsigned counts[LIFE_COUNTS];
    unsigned kills; /* for lack of memory */
    int64_t last_ms;
    char last_command[100]; /* of the last call if it was a command, else "" */
    json_t *sessions;       /* an object whose keys are the ids; bounded */
    json_t *made;           /* the same, of those that were made by a call for just that */
    json_t *recreated;      /* those whose first answer should say so */
    struct written written;
};

struct lives {
    struct life now, last;
};

/* The touch points of object.c. */
void life_begin(struct object *object);
/* Just before a call goes to the container. */
void life_call(struct pending *pending);
/* Its answer: a line in the log, and hints (hints.c). */
void life_answered(struct pending *pending, struct answer *answer);
/* A note of the container, before it becomes an event. */
void life_note(struct object *object, const char *type, const json_t *data);
void life_output(struct object *object, const char *source, const char *stream, const char *data,
                 size_t size);
/* Takes the paths. */
void life_left(struct object *object, struct written *written);
/* The container is gone; object->why says why. */
void life_over(struct object *object, enum life_end end);
void lives_free(struct object *object);

/* The life before the current one, or NULL. */
const struct life *life_before(const struct object *object);
/* "slept", "was destroyed" …: how a sentence on the container ends. */
const char *life_end_phrase(enum life_end end);

#endif
