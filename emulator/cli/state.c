#include "cli/state.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static int join(char *to, size_t size, struct error *err, const char *a, const char *b)
{
    if (snprintf(to, size, "%s/%s", a, b) >= (int)size)
        return error_errno(err, ENAMETOOLONG, "state directory below '%s'", a);
    return 0;
}

int state_choose(const char *persist_to, const char *project_dir, char *to, size_t size,
                 struct error *err)
{
    char cwd[PATH_MAX];
    if (persist_to && persist_to[0] == '/')
        return join(to, size, err, persist_to, "sandpit");
    if (persist_to) {
        char below[PATH_MAX];
        if (!getcwd(cwd, sizeof cwd))
            return error_errno(err, errno, "current directory");
        if (join(below, sizeof below, err, cwd, persist_to) < 0)
            return -err->code;
        return join(to, size, err, below, "sandpit");
    }
    if (project_dir)
        return join(to, size, err, project_dir, ".wrangler/state/sandpit");
    const char *state = getenv("XDG_STATE_HOME");
    if (state && state[0] == '/')
        return join(to, size, err, state, "sandpit/default");
    const char *home = getenv("HOME");
    const struct passwd *user = home && home[0] == '/' ? NULL : getpwuid(geteuid());
    if (user)
        home = user->pw_dir;
    if (!home || home[0] != '/')
        return error_set(err, ENOENT,
                         "neither XDG_STATE_HOME nor HOME is set: use --persist-to "
                         "or --ephemeral");
    return join(to, size, err, home, ".local/state/sandpit/default");
}

static int make_directories(const char *dir, struct error *err)
{
    CLEANUP_FREE char *path = strdup(dir);
    if (!path)
        return error_errno(err, ENOMEM, "state directory");
    for (char *at = path + 1;; at++) {
        if (*at && *at != '/')
            continue;
        char kept = *at;
        *at = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return error_errno(err, errno, "state directory '%s'", path);
        if (!kept)
            return 0;
        *at = kept;
    }
}

static int refused(int fd, const char *dir, struct error *err)
{
    char text[256];
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    CLEANUP_JSON json_t *holder = json_loads(text, 0, NULL);
    json_int_t pid = json_integer_value(json_object_get(holder, "pid"));
    json_int_t port = json_integer_value(json_object_get(holder, "port"));
    if (!pid)
        return error_set(err, EWOULDBLOCK, "another sandpit is starting on '%s'", dir);
    return error_set(err, EWOULDBLOCK,
                     "another sandpit (pid %lld, port %lld) uses '%s': stop it, or start this one "
                     "with --persist-to another directory or --ephemeral",
                     (long long)pid, (long long)port, dir);
}

int state_lock(const char *dir, struct error *err)
{
    int result = make_directories(dir, err);
    if (result < 0)
        return result;
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/lock", dir);
    CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_errno(err, errno, "open '%s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? refused(fd, dir, err)
                                    : error_errno(err, errno, "lock '%s'", path);
    if (ftruncate(fd, 0) < 0)
        return error_errno(err, errno, "write '%s'", path);
    return steal_fd(&fd);
}

int state_publish(int lock, uint16_t port, struct error *err)
{
    char text[64];
    int size = snprintf(text, sizeof text, "{\"pid\":%d,\"port\":%u}\n", (int)getpid(), port);
    if (pwrite(lock, text, (size_t)size, 0) != size)
        return error_errno(err, errno, "write the lock file");
    return 0;
}
