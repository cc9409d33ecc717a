#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Field 22 of /proc/PID/stat, or a negative errno; -ESRCH when there is no such process. The name
 * in field 2 may contain spaces and brackets, so counting starts after the last closing one. */
static int start_of(int pid, unsigned long long *start)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    ssize_t size = read(fd, text, sizeof text - 1);
    if (size <= 0)
        return size < 0 ? -errno : -EPROTO;
    text[size] = '\0';
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    *start = at ? strtoull(at + 1, NULL, 10) : 0;
    return *start ? 0 : -EPROTO;
}

unsigned long long process_own_start(void)
{
    static unsigned long long start;
    static int known_for;
    if (known_for != getpid())
        known_for = start_of(getpid(), &start) == 0 ? getpid() : 0;
    return known_for ? start : 0;
}

bool process_is(int pid, unsigned long long start)
{
    unsigned long long found = 0;
    return start_of(pid, &found) == 0 && found == start;
}

bool process_gone(int pid, unsigned long long start)
{
    unsigned long long found = 0;
    int result = start_of(pid, &found);
    return result == -ESRCH || (result == 0 && start && found != start);
}
