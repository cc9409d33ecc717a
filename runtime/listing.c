#include "runtime/runtime.h"

#include <fcntl.h>
#include <string.h>

enum {
    LISTED_PATH_MAX = 65535, /* deeper entries are left out and the listing ends with an error */
    BATCH = 32 * 1024,
};

/* Lives in the worker only, so it costs the runtime nothing. */
struct listing {
    int out;
    bool recursive;
    int error;        /* told at the end */
    size_t path_size; /* of the directory being listed, with its slash */
    char path[LISTED_PATH_MAX];
    size_t used;
    char batch[BATCH];
};
static struct listing listing;

static int flush(void)
{
    size_t done = 0;

    while (done < listing.used) {
        ssize_t wrote = write(listing.out, listing.batch + done, listing.used - done);

        if (wrote < 0)
            return -errno;
        done += (size_t)wrote;
    }
    listing.used = 0;
    return 0;
}

static int put(const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        size_t part = sizeof listing.batch - listing.used;

        if (part > size)
            part = size;
        memcpy(listing.batch + listing.used, at, part);
        listing.used += part;
        at += part;
        size -= part;
        if (listing.used == sizeof listing.batch && flush() < 0)
            return -EPIPE;
    }
    return 0;
}

/* The path of what is listed grows with each directory entered and shrinks as it is left. */
static int list_entry(void *arg, int dir, const char *name)
{
    size_t size = strlen(name);
    size_t whole = listing.path_size + size;
    struct rt_entry entry = {.path_size = (uint32_t)whole};
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
        return 0;
    if (whole >= sizeof listing.path) {
        listing.error = ENAMETOOLONG;
        return 0;
    }
    memcpy(listing.path + listing.path_size, name, size);
    paths_fill_stat(&entry.stat, &st);
    if (put(&entry, sizeof entry) < 0 || put(listing.path, whole) < 0)
        return -EPIPE;
    if (!listing.recursive || !S_ISDIR(st.st_mode))
        return 0;
    listing.path[whole] = '/';
    listing.path_size = whole + 1;
    return 1;
}

static int list_leave(void *arg, int dir, const char *name, int error)
{
    listing.path_size -= strlen(name) + 1;
    return 0;
}

static void list(int out, int dir, bool recursive)
{
    struct walk_visitor visitor = {.entry = list_entry, .leave = list_leave};
    struct rt_entry last = {0};
    int error;

    listing.out = out;
    listing.recursive = recursive;
    error = walk_tree(dir, &visitor);
    last.error = error ? -error : listing.error;
    if (error != -EPIPE && put(&last, sizeof last) == 0)
        flush();
}

int listing_request(const struct request *request, struct answer *answer)
{
    struct rt_path how;
    CLEANUP_FD int base = -1;
    CLEANUP_FD int dir = -1;
    CLEANUP_FD int write_end = -1;
    int ends[2];
    char *path;
    pid_t pid;
    int error = paths_parse(request, RT_RECURSIVE, &how, &path, NULL, &base);

    if (error)
        return error;
    dir = openat(base, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (dir < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    write_end = ends[1];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    answer_fd(answer, ends[0]);
    pid = reap_fork(write_end, dir);
    if (pid == 0) {
        list(write_end, dir, how.flags & RT_RECURSIVE);
        _exit(0);
    }
    return pid < 0 ? pid : 0;
}
