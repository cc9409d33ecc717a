#include "runtime/runtime.h"

#include <fcntl.h>
#include <stdio.h>

enum { FIFO_PATH_MAX = sizeof RT_FIFO_DIR + 16, FIFOS_MAX = 3 };

static void fifo_path(char path[FIFO_PATH_MAX], int number, int which)
{
    snprintf(path, FIFO_PATH_MAX, RT_FIFO_DIR "/%d.%d", number, which);
}

void fifos_init(void)
{
    mkdir(RT_FIFO_DIR, 0700);
}

/* The sandbox may have removed the directory or taken the name: each is put right once. */
static int make(const char *path)
{
    for (int i = 0; i < 2; i++) {
        if (mkfifo(path, 0600) == 0)
            return 0;
        if (errno == ENOENT)
            fifos_init();
        else if (errno == EEXIST)
            unlink(path);
        else
            break;
    }
    return mkfifo(path, 0600) == 0 ? 0 : -errno;
}

/* A pair is read from the moment it exists, so a writer's open never waits. */
static int make_and_open(const char *path)
{
    CLEANUP_FD int fd = -1;
    struct stat st;
    int error = make(path);
    int opened;

    if (error)
        return error;
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        error = -errno;
    else if (!S_ISFIFO(st.st_mode))
        error = -EINVAL;
    if (error) {
        unlink(path);
        return error;
    }
    opened = fd;
    fd = -1;
    return opened;
}

int fifos_make(const struct request *request, struct answer *answer)
{
    static int last;
    char path[FIFO_PATH_MAX];
    int count = request->value ? request->value : 2;

    if (request->size || count < 2 || count > FIFOS_MAX)
        return -EBADMSG;
    last = last < INT_MAX ? last + 1 : 1;
    for (int i = 1; i <= count; i++) {
        int fd;

        fifo_path(path, last, i);
        fd = make_and_open(path);
        if (fd >= 0) {
            answer_fd(answer, fd);
            continue;
        }
        while (--i > 0) {
            fifo_path(path, last, i);
            unlink(path);
        }
        return fd;
    }
    return last;
}

int fifos_drop(const struct request *request, struct answer *answer)
{
    char path[FIFO_PATH_MAX];

    answer->later = true;
    for (int i = 1; i <= FIFOS_MAX && request->value > 0; i++) {
        fifo_path(path, request->value, i);
        unlink(path);
    }
    return 0;
}
