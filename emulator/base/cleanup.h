/* Scope-bound cleanup and ownership transfer. A variable marked CLEANUP_x is released when its
 * scope ends; steal_x() hands the value on and leaves an empty one behind. */
#ifndef SANDPIT_BASE_CLEANUP_H
#define SANDPIT_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline void cleanup_fd(const int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
    }
}

static inline void cleanup_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static inline void cleanup_file(FILE **file)
{
    if (*file)
        fclose(*file);
}

static inline void cleanup_json(json_t **json)
{
    json_decref(*json);
}

#define CLEANUP_FREE __attribute__((cleanup(cleanup_free)))
#define CLEANUP_FD __attribute__((cleanup(cleanup_fd)))
#define CLEANUP_DIR __attribute__((cleanup(cleanup_dir)))
#define CLEANUP_FILE __attribute__((cleanup(cleanup_file)))
#define CLEANUP_JSON __attribute__((cleanup(cleanup_json)))

static inline int steal_fd(int *fd)
{
    int value = *fd;
    *fd = -1;
    return value;
}

static inline void *steal_pointer_(void *where)
{
    void *value = *(void **)where;
    *(void **)where = NULL;
    return value;
}
#define steal_pointer(where) ((__typeof__(*(where)))steal_pointer_(where))

#endif
