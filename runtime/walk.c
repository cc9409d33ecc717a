#include "runtime/runtime.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* One directory on the way down. Its names are read at once, so that the walker may remove them and
 * the descriptor can be closed while the walk is far below. */
struct level {
    int fd; /* -1 while closed */
    dev_t device;
    ino_t inode;
    char *names;           /* NUL-terminated, one behind the other */
    size_t size, at, next; /* at: the name being visited */
};
struct walk {
    struct level *levels;
    size_t depth, room;
    const struct walk_visitor *visitor;
};

enum { OPEN_MAX_LEVELS = 32 };

static int names_add(struct level *level, size_t *room, const char *name)
{
    size_t size = strlen(name) + 1;

    if (level->size + size > *room) {
        size_t grown = (*room + size) * 2;
        char *names = realloc(level->names, grown);

        if (!names)
            return -ENOMEM;
        level->names = names;
        *room = grown;
    }
    memcpy(level->names + level->size, name, size);
    level->size += size;
    return 0;
}

static int read_names(struct level *level)
{
    int copy = fcntl(level->fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    size_t room = 0;
    int error = 0;

    if (!dir) {
        error = -errno;
        if (copy >= 0)
            close(copy);
        return error;
    }
    while (!error && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            error = names_add(level, &room, entry->d_name);
    closedir(dir);
    return error;
}

static void level_close(struct level *level)
{
    if (level->fd >= 0)
        close(level->fd);
    level->fd = -1;
}

/* Takes fd. */
static int push(struct walk *walk, int fd)
{
    struct level *level;
    struct stat st;
    int error;

    if (walk->depth == walk->room) {
        size_t room = walk->room ? walk->room * 2 : 16;
        struct level *grown = realloc(walk->levels, room * sizeof *grown);

        if (!grown) {
            close(fd);
            return -ENOMEM;
        }
        walk->levels = grown;
        walk->room = room;
    }
    level = &walk->levels[walk->depth];
    *level = (struct level){.fd = fd};
    error = fstat(fd, &st) < 0 ? -errno : read_names(level);
    if (error) {
        level_close(level);
        free(level->names);
        return error;
    }
    level->device = st.st_dev;
    level->inode = st.st_ino;
    /* The top stays open: every way back can start there. */
    if (walk->depth > OPEN_MAX_LEVELS)
        level_close(&walk->levels[walk->depth - OPEN_MAX_LEVELS]);
    walk->depth++;
    return 0;
}

/* True and kept when fd is the directory that the level was. */
static bool reopened(struct level *level, int fd)
{
    struct stat st;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) < 0 || st.st_dev != level->device || st.st_ino != level->inode) {
        close(fd);
        return false;
    }
    level->fd = fd;
    return true;
}

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };

/* Down from the top again, for when the directory above has been moved meanwhile. */
static void reopen_from_top(struct walk *walk, size_t depth)
{
    int fd = walk->levels[0].fd;

    for (size_t i = 0; i < depth; i++) {
        const struct level *level = &walk->levels[i];
        int below = openat(fd, level->names + level->at, DIRECTORY);

        if (i > 0)
            close(fd);
        fd = below;
        if (fd < 0)
            return;
    }
    reopened(&walk->levels[depth], fd);
}

/* Leaves the last level; the one above is open again if it can be found, and otherwise ends. */
static void pop(struct walk *walk)
{
    struct level *gone = &walk->levels[--walk->depth];
    struct level *above = walk->depth ? gone - 1 : NULL;

    if (above && above->fd < 0 &&
        !reopened(above, gone->fd < 0 ? -1 : openat(gone->fd, "..", DIRECTORY)))
        reopen_from_top(walk, walk->depth - 1);
    level_close(gone);
    free(gone->names);
}

static int leave(struct walk *walk, int error)
{
    const struct walk_visitor *visitor = walk->visitor;
    struct level *level = &walk->levels[walk->depth - 1];

    return visitor->leave(visitor->arg, level->fd, level->names + level->at, error);
}

/* The next name of the last level: 0, or a negative errno that ends the walk. */
static int visit(struct walk *walk, struct level *level)
{
    const struct walk_visitor *visitor = walk->visitor;
    const char *name = level->names + level->next;
    int result;
    int fd;

    level->at = level->next;
    level->next += strlen(name) + 1;
    result = visitor->entry(visitor->arg, level->fd, name);
    if (result <= 0)
        return result;
    fd = openat(level->fd, name, DIRECTORY);
    result = fd < 0 ? -errno : push(walk, fd);
    if (result == -ENOMEM)
        return result;
    return result ? leave(walk, result) : 0;
}

int walk_tree(int top, const struct walk_visitor *visitor)
{
    struct walk walk = {.visitor = visitor};
    int error = push(&walk, top);

    while (!error && walk.depth > 0) {
        struct level *level = &walk.levels[walk.depth - 1];

        if (level->fd >= 0 && level->next < level->size) {
            error = visit(&walk, level);
            continue;
        }
        pop(&walk);
        if (walk.depth > 0)
            error = leave(&walk, 0);
    }
    while (walk.depth > 0)
        pop(&walk);
    free(walk.levels);
    return error;
}
