/* The calls that can be made to fail; the linker leads the emulator's here (--wrap). */
#include "torture.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct torture *page;
extern const char __executable_start[], _end[];

/* Frames of shared libraries are left out. */
static void note_callers(void)
{
    void *frames[4 * TORTURE_FRAMES];
    int count = backtrace(frames, 4 * TORTURE_FRAMES), used = 0;
    for (int i = 2; i < count && used < TORTURE_FRAMES; i++) {
        const char *at = frames[i];
        if (at > __executable_start && at < _end)
            page->where[used++] = at - __executable_start;
    }
}

/* Counts the call and says whether it is the one. Children count on the same page. */
__attribute__((noinline)) static bool fails(enum torture_kind kind, int error)
{
    if (!page)
        return false;
    atomic_fetch_add(&page->calls[kind], 1);
    if (atomic_load(&page->kind) != (int)kind)
        return false;
    long left = atomic_fetch_sub(&page->left, 1);
    if (left > 1 || left <= 1 - atomic_load(&page->length))
        return false;
    if (atomic_fetch_add(&page->failed, 1) == 0)
        note_callers();
    errno = error;
    return true;
}

/* A wrapper that passes its arguments on. */
#define WRAP(kind, error, failure, result, name, parameters, arguments)                            \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters                                                                \
    {                                                                                              \
        return fails(kind, error) ? failure : __real_##name arguments;                             \
    }

/* Memory. */
WRAP(TORTURE_MEMORY, ENOMEM, NULL, void *, malloc, (size_t size), (size))
WRAP(TORTURE_MEMORY, ENOMEM, NULL, void *, calloc, (size_t count, size_t size), (count, size))
WRAP(TORTURE_MEMORY, ENOMEM, NULL, void *, realloc, (void *old, size_t size), (old, size))
WRAP(TORTURE_MEMORY, ENOMEM, NULL, void *, reallocarray, (void *old, size_t count, size_t size),
     (old, count, size))
WRAP(TORTURE_MEMORY, ENOMEM, NULL, char *, strdup, (const char *text), (text))
WRAP(TORTURE_MEMORY, ENOMEM, NULL, char *, strndup, (const char *text, size_t size), (text, size))
WRAP(TORTURE_MEMORY, ENOMEM, -1, int, vasprintf, (char **to, const char *format, va_list args),
     (to, format, args))

char *__real_realpath(const char *path, char *to);
char *__wrap_realpath(const char *path, char *to);
char *__wrap_realpath(const char *path, char *to)
{
    return !to && fails(TORTURE_MEMORY, ENOMEM) ? NULL : __real_realpath(path, to);
}

int __wrap_asprintf(char **to, const char *format, ...);
int __wrap_asprintf(char **to, const char *format, ...)
{
    if (fails(TORTURE_MEMORY, ENOMEM))
        return -1;
    va_list args;
    va_start(args, format);
    int size = __real_vasprintf(to, format, args);
    va_end(args);
    return size;
}

static void *sqlite_malloc(int size)
{
    return fails(TORTURE_SQLITE, ENOMEM) ? NULL : __real_malloc((size_t)size);
}

static void *sqlite_realloc(void *old, int size)
{
    return fails(TORTURE_SQLITE, ENOMEM) ? NULL : __real_realloc(old, (size_t)size);
}

static int sqlite_size(void *memory)
{
    return memory ? (int)malloc_usable_size(memory) : 0;
}

static int sqlite_round(int size)
{
    return (size + 7) & ~7;
}

static int sqlite_begin(void *arg)
{
    return SQLITE_OK;
}

static void sqlite_end(void *arg)
{
}

/* Descriptors. */
WRAP(TORTURE_OPEN, EMFILE, NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP(TORTURE_OPEN, EMFILE, NULL, void *, opendir, (const char *path), (path))
WRAP(TORTURE_OPEN, ENOMEM, NULL, void *, fdopendir, (int fd), (fd))
WRAP(TORTURE_CREATE, EMFILE, -1, int, socketpair, (int domain, int type, int protocol, int *pair),
     (domain, type, protocol, pair))
WRAP(TORTURE_CREATE, EMFILE, -1, int, socket, (int domain, int type, int protocol),
     (domain, type, protocol))
WRAP(TORTURE_CREATE, EMFILE, -1, int, pipe2, (int *pair, int flags), (pair, flags))
WRAP(TORTURE_CREATE, EMFILE, -1, int, epoll_create1, (int flags), (flags))
WRAP(TORTURE_CREATE, EMFILE, -1, int, eventfd, (unsigned value, int flags), (value, flags))
WRAP(TORTURE_CREATE, EMFILE, -1, int, memfd_create, (const char *name, unsigned flags),
     (name, flags))
WRAP(TORTURE_CREATE, EMFILE, -1, int, signalfd, (int fd, const void *mask, int flags),
     (fd, mask, flags))
WRAP(TORTURE_CREATE, EMFILE, -1, int, inotify_init1, (int flags), (flags))
WRAP(TORTURE_CREATE, ENOSPC, -1, int, inotify_add_watch, (int fd, const char *path, unsigned mask),
     (fd, path, mask))

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
    return fails(TORTURE_OPEN, EMFILE) ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int dir, const char *path, int flags, mode_t mode);
int __wrap_openat(int dir, const char *path, int flags, mode_t mode);
int __wrap_openat(int dir, const char *path, int flags, mode_t mode)
{
    return fails(TORTURE_OPEN, EMFILE) ? -1 : __real_openat(dir, path, flags, mode);
}

int __real_fcntl(int fd, int command, long value);
int __wrap_fcntl(int fd, int command, long value);
int __wrap_fcntl(int fd, int command, long value)
{
    bool makes = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    return makes && fails(TORTURE_CREATE, EMFILE) ? -1 : __real_fcntl(fd, command, value);
}

/* What is done with them. Nothing depends on what goes to the terminal. */
WRAP(TORTURE_READ, EIO, -1, ssize_t, read, (int fd, void *to, size_t size), (fd, to, size))
WRAP(TORTURE_READ, EIO, -1, ssize_t, pread, (int fd, void *to, size_t size, off_t at),
     (fd, to, size, at))
WRAP(TORTURE_WRITE, ENOSPC, -1, ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at),
     (fd, data, size, at))
WRAP(TORTURE_WRITE, ENOSPC, -1, int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(TORTURE_WRITE, EIO, -1, off_t, lseek, (int fd, off_t at, int from), (fd, at, from))
WRAP(TORTURE_WRITE, EIO, -1, ssize_t, sendfile, (int to, int from, off_t *at, size_t size),
     (to, from, at, size))
WRAP(TORTURE_SEND, ENOBUFS, -1, ssize_t, send, (int fd, const void *data, size_t size, int flags),
     (fd, data, size, flags))
WRAP(TORTURE_SEND, ENOBUFS, -1, ssize_t, sendmsg, (int fd, const struct msghdr *data, int flags),
     (fd, data, flags))
WRAP(TORTURE_RECEIVE, ECONNRESET, -1, ssize_t, recv, (int fd, void *to, size_t size, int flags),
     (fd, to, size, flags))
WRAP(TORTURE_RECEIVE, ENOMEM, -1, ssize_t, recvmsg, (int fd, struct msghdr *to, int flags),
     (fd, to, flags))
WRAP(TORTURE_RECEIVE, EMFILE, -1, int, accept4,
     (int fd, struct sockaddr *from, socklen_t *size, int flags), (fd, from, size, flags))

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    bool counts = fd > STDERR_FILENO;
    return counts && fails(TORTURE_WRITE, ENOSPC) ? -1 : __real_write(fd, data, size);
}

int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    bool counts = what != EPOLL_CTL_DEL;
    return counts && fails(TORTURE_WATCH, ENOMEM) ? -1 : __real_epoll_ctl(epoll, what, fd, event);
}

/* Processes, and what makes a container. */
WRAP(TORTURE_FORK, EAGAIN, -1, pid_t, fork, (void), ())
WRAP(TORTURE_SYSTEM, EPERM, -1, int, mount,
     (const char *source, const char *target, const char *type, unsigned long flags,
      const void *data),
     (source, target, type, flags, data))
WRAP(TORTURE_SYSTEM, EPERM, -1, int, unshare, (int flags), (flags))
WRAP(TORTURE_SYSTEM, ENOSPC, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(TORTURE_SYSTEM, ENOSPC, -1, int, mkdirat, (int dir, const char *path, mode_t mode),
     (dir, path, mode))
WRAP(TORTURE_SYSTEM, ENOSPC, -1, int, mknod, (const char *path, mode_t mode, dev_t device),
     (path, mode, device))
WRAP(TORTURE_SYSTEM, ENOSPC, -1, int, symlink, (const char *text, const char *path), (text, path))
WRAP(TORTURE_SYSTEM, ENOSPC, -1, int, symlinkat, (const char *text, int dir, const char *path),
     (text, dir, path))
WRAP(TORTURE_SYSTEM, EIO, -1, int, renameat, (int from, const char *old, int to, const char *path),
     (from, old, to, path))
WRAP(TORTURE_SYSTEM, EPERM, -1, int, chdir, (const char *path), (path))

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    bool failed = false;
    if (number == SYS_clone || number == SYS_clone3)
        failed = fails(TORTURE_FORK, EAGAIN);
    else if (number == SYS_pidfd_open)
        failed = fails(TORTURE_CREATE, EMFILE);
    else if (number == SYS_openat2)
        failed = fails(TORTURE_OPEN, EMFILE);
    else
        failed = fails(TORTURE_SYSTEM, EPERM);
    return failed ? -1 : __real_syscall(number, a, b, c, d, e, f);
}

__attribute__((constructor)) static void begin(void)
{
    static const sqlite3_mem_methods methods = {sqlite_malloc, free,         sqlite_realloc,
                                                sqlite_size,   sqlite_round, sqlite_begin,
                                                sqlite_end,    NULL};
    const char *path = getenv(TORTURE_VARIABLE);
    int fd = path ? __real_open(path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (fd < 0)
        return;
    void *shared = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
    page = shared == MAP_FAILED ? NULL : shared;
}
