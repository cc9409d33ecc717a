#include "container/written.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop.h"

enum { PATHS_MAX = 10000, PATH_BYTES_MAX = 256 * 1024, LOOK_MS = 20, ONE_PATH_MAX = 4096 };

/* Where people keep what they would miss; the rest belongs to the image. */
static const char *const places[] = {"/workspace/", "/home/", "/root/", "/tmp/"};

struct name {
    char *text;
    bool directory;
};

struct names {
    struct name *items;
    size_t count, room;
};

bool written_root_ok(int root)
{
    struct statfs fs;
    return fstatfs(root, &fs) == 0 &&
           (fs.f_type == TMPFS_MAGIC || fs.f_type == OVERLAYFS_SUPER_MAGIC);
}

static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i].text);
    free(names->items);
}

static int names_add(struct names *names, const struct dirent *entry)
{
    if (names->count == names->room) {
        size_t room = names->room ? names->room * 2 : 16;
        struct name *items = realloc(names->items, room * sizeof *items);
        if (!items)
            return -ENOMEM;
        names->items = items;
        names->room = room;
    }
    char *text = strdup(entry->d_name);
    if (!text)
        return -ENOMEM;
    names->items[names->count++] = (struct name){text, entry->d_type == DT_DIR};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* A directory below the root, by a path that no link can lead elsewhere; or NULL. */
static DIR *open_below(int root, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV |
                                      RESOLVE_NO_MAGICLINKS};
    CLEANUP_FD int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir)
        steal_fd(&fd);
    return dir;
}

static bool is_full(const struct written *to)
{
    return to->files + to->directories >= PATHS_MAX ||
           to->paths.size + ONE_PATH_MAX > PATH_BYTES_MAX;
}

static void add_path(struct written *to, const char *directory, const struct name *name)
{
    char path[ONE_PATH_MAX];
    size_t parts[] = {strlen(directory), strlen(name->text)};
    size_t size = parts[0] + parts[1] + (name->directory ? 2 : 1);
    if (size > sizeof path || is_full(to)) {
        to->cut = true;
        return;
    }
    memcpy(path, directory, parts[0]);
    memcpy(path + parts[0], name->text, parts[1]);
    if (name->directory)
        path[size - 2] = '/';
    path[size - 1] = '\0';
    if (buf_add(&to->paths, path, size) < 0)
        to->cut = true;
    else if (name->directory)
        to->directories++;
    else
        to->files++;
}

/* Adds what is in one directory: files, then directories, by name. */
static void look_into(int root, const char *directory, struct written *to)
{
    struct names names = {0};
    CLEANUP_DIR DIR *dir = open_below(root, directory + 1);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (names.count >= PATHS_MAX || names_add(&names, entry) < 0) {
            to->cut = true;
            break;
        }
    }
    if (names.count > 1)
        qsort(names.items, names.count, sizeof *names.items, by_name);
    for (int directories = 0; directories < 2; directories++) {
        for (size_t i = 0; i < names.count; i++) {
            if (names.items[i].directory == (directories == 1))
                add_path(to, directory, &names.items[i]);
        }
    }
    names_free(&names);
}

/* The list is its own queue: each directory in it is looked into when its turn comes. */
void written_collect(int root, struct written *to)
{
    int64_t until = loop_now_ns() + MS_NS(LOOK_MS);
    to->paths.max = PATH_BYTES_MAX;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t at = to->paths.size;
        look_into(root, places[i], to);
        while (at < to->paths.size) {
            char directory[ONE_PATH_MAX];
            size_t size = strlen(to->paths.data + at);
            memcpy(directory, to->paths.data + at, size + 1); /* the buffer may move */
            at += size + 1;
            if (directory[size - 1] != '/')
                continue;
            if (is_full(to) || loop_now_ns() > until) {
                to->cut = true;
                return;
            }
            look_into(root, directory, to);
        }
    }
}

void written_free(struct written *written)
{
    buf_free(&written->paths);
    *written = (struct written){0};
}

const char *written_next(const struct written *written, const char *at)
{
    const char *next = at ? at + strlen(at) + 1 : written->paths.data;
    return next && next < written->paths.data + written->paths.size ? next : NULL;
}

bool written_has(const struct written *written, const char *path)
{
    size_t size = strlen(path);
    for (const char *at = NULL; (at = written_next(written, at));) {
        if (strncmp(at, path, size) == 0 && (!at[size] || strcmp(at + size, "/") == 0))
            return true;
    }
    return false;
}
