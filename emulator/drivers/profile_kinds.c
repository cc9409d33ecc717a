/* What differs in the profile for containers whose root is not this host's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "drivers/profile.h"

enum { ETC_DEPTH = 9, LOCAL_DEPTH = 3, OPEN_DIRS_MAX = 300 };

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static char *join(const char *path, const char *name)
{
    char *joined = NULL;
    return asprintf(&joined, "%s/%s", path, name) < 0 ? NULL : joined;
}

static DIR *open_dir(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

static int give(int at, const char *name, uid_t id, int depth)
{
    if (fchownat(at, name, id, id, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    CLEANUP_DIR DIR *dir = depth > 0 ? open_dir(at, name) : NULL;
    int error = 0;
    for (struct dirent *entry; dir && !error && (entry = readdir(dir));) {
        if (!is_dots(entry->d_name))
            error = give(dirfd(dir), entry->d_name, id, depth - 1);
    }
    return error;
}

int profile_give_etc(const char *run_dir, uid_t id)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/etc", run_dir);
    return give(AT_FDCWD, path, id, ETC_DEPTH);
}

/* --- Copies ----------------------------------------------------------------------------------- */

static int copy_dir(struct profile *profile, const char *source, const char *path, int depth);

static int copy_entry(struct profile *profile, const char *source, const char *path, int depth)
{
    struct stat st;
    char target[PATH_MAX];
    struct chain_step step = {.when = CHAIN_BOTH, .path = (char *)path, .text = (char *)source};
    if (lstat(source, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return depth > 0 ? copy_dir(profile, source, path, depth) : 0;
    step.kind = CHAIN_COPY;
    if (S_ISLNK(st.st_mode)) {
        ssize_t size = readlink(source, target, sizeof(target) - 1);
        if (size < 0)
            return -errno;
        target[size] = '\0';
        step.kind = CHAIN_LINK;
        step.text = target;
    }
    return profile_add_step(profile, step);
}

static int copy_dir(struct profile *profile, const char *source, const char *path, int depth)
{
    struct chain_step step = {
        .kind = CHAIN_DIR, .when = CHAIN_BOTH, .mode = 0755, .path = (char *)path};
    CLEANUP_DIR DIR *dir = open_dir(AT_FDCWD, source);
    int error = dir ? profile_add_step(profile, step) : -errno;
    for (struct dirent *entry; !error && (entry = readdir(dir));) {
        if (is_dots(entry->d_name))
            continue;
        CLEANUP_FREE char *from = join(source, entry->d_name);
        CLEANUP_FREE char *to = join(path, entry->d_name);
        error = from && to ? copy_entry(profile, from, to, depth - 1) : -ENOMEM;
    }
    return error;
}

int profile_copy_etc(struct profile *profile, const char *run_dir)
{
    char source[PATH_MAX];
    snprintf(source, sizeof(source), "%s/etc", run_dir);
    return copy_dir(profile, source, CHAIN_ROOT "/etc", ETC_DEPTH);
}

/* --- Directories that can be written ---------------------------------------------------------- */

/* A directory in the upper layer gives the merged one its owner. */
static int open_below(struct profile *profile, const char *path, int depth, int *left)
{
    CLEANUP_DIR DIR *dir = open_dir(AT_FDCWD, path);
    int error = 0;
    for (struct dirent *entry; dir && !error && *left > 0 && (entry = readdir(dir));) {
        if (is_dots(entry->d_name) || entry->d_type != DT_DIR)
            continue;
        CLEANUP_FREE char *below = join(path, entry->d_name);
        if (!below)
            return -ENOMEM;
        --*left;
        error = profile_add_dirs(profile, CHAIN_UPPER, below, 0755, CHAIN_BOTH);
        if (!error && depth > 1)
            error = open_below(profile, below, depth - 1, left);
    }
    return error;
}

int profile_open_usr(struct profile *profile)
{
    int left = OPEN_DIRS_MAX;
    int error = open_below(profile, "/usr", 1, &left);
    if (!error)
        error = open_below(profile, "/usr/local", LOCAL_DEPTH, &left);
    return error ? error : open_below(profile, "/usr/lib/node_modules", 1, &left);
}
