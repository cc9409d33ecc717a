#include "runtime/runtime.h"

#include <fcntl.h>
#include <string.h>

/* Removes what it can and remembers the first failure, as rm -rf does. */
static void note(int *first, int result)
{
    if (result < 0 && errno != ENOENT && *first == 0)
        *first = errno;
}

static int remove_entry(void *arg, int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0)
        return 0;
    if (errno == EISDIR)
        return 1;
    note(arg, -1);
    return 0;
}

static int remove_directory(void *arg, int dir, const char *name, int error)
{
    int *first = arg;
    int result;

    if (dir < 0)
        return 0;
    result = unlinkat(dir, name, AT_REMOVEDIR);
    if (result < 0 && error && *first == 0)
        *first = -error; /* why it is not empty says more than that it is not */
    note(first, result);
    return 0;
}

/* In the worker; returns a positive errno or 0. */
static int remove_tree(int base, const char *path, int dir)
{
    int first = 0;
    struct walk_visitor visitor = {.entry = remove_entry, .leave = remove_directory, .arg = &first};
    int error = walk_tree(dir, &visitor);

    if (error)
        return -error;
    note(&first, unlinkat(base, path, AT_REMOVEDIR));
    return first;
}

/* Refused before anything below is touched, as rm refuses them. */
static bool is_precious(const char *path, int dir)
{
    size_t end = strlen(path);
    size_t start;
    struct stat st;
    struct stat root;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    if (end - start <= 2 && strncmp(path + start, "..", end - start) == 0)
        return true; /* "/", "." or ".." */
    return fstat(dir, &st) < 0 || stat("/", &root) < 0 ||
           (st.st_dev == root.st_dev && st.st_ino == root.st_ino);
}

int remove_request(const struct request *request, struct answer *answer)
{
    struct rt_path how;
    CLEANUP_FD int base = -1;
    CLEANUP_FD int dir = -1;
    char *path;
    pid_t pid;
    int error = paths_parse(request, RT_RECURSIVE, &how, &path, NULL, &base);

    if (error)
        return error;
    if (unlinkat(base, path, 0) == 0)
        return 0;
    if (errno != EISDIR || !(how.flags & RT_RECURSIVE))
        return -errno;
    dir = openat(base, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    if (is_precious(path, dir))
        return -EINVAL;
    error = reap_reserve();
    if (error)
        return error;
    pid = reap_fork(dir, base);
    if (pid == 0)
        _exit(remove_tree(base, path, dir));
    if (pid < 0)
        return pid;
    reap_worker(pid, request->id, request->op);
    answer->later = true;
    return 0;
}
