/* The type of a file in a container: its extension, else what `file` says, else a look at it. */
#ifndef SANDPIT_CONTAINER_DETECT_H
#define SANDPIT_CONTAINER_DETECT_H

#include "container/files.h"
#include "container/run.h"

struct detect {
    struct run run;
    const char *head; /* the first bytes of the file, and how many there are */
    size_t head_size;
    char type[128];
    void (*done)(void *arg, const char *type);
    void *arg;
};

/* done() comes exactly once, perhaps before this returns, unless detect_close() came first. */
void detect_start(struct detect *detect, const struct file_job *file, const char *head,
                  size_t head_size, void (*done)(void *arg, const char *type), void *arg);
void detect_close(struct detect *detect);

#endif
