#include "drivers/cgroup_reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/process.h"

#define NAME_FORMAT "sandpit-%d-%llu-%llu"

enum { FIRST_WAIT_MS = 1, LAST_WAIT_MS = 2000, CLOSE_TRIES = 50, KILL_ROUND = 4096 };

struct doomed {
    struct doomed *next;
    char path[];
};

static int make_directory(const char *path)
{
    return mkdir(path, 0755) < 0 ? -errno : 0;
}

static int remove_directory(const char *path)
{
    return rmdir(path) < 0 ? -errno : 0;
}

/* Names. */

/* A pid means something only together with its namespace: an emulator in another container may have
 * the same control groups in sight. */
static unsigned long long pid_namespace(void)
{
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? (unsigned long long)status.st_ino : 0;
}

void reaper_own_name(char *to, size_t size)
{
    snprintf(to, size, NAME_FORMAT, getpid(), process_own_start(), pid_namespace());
}

static bool is_leftover(const char *name)
{
    int pid = 0, used = 0;
    unsigned long long start = 0, namespace = 0;
    return sscanf(name, "sandpit-%9d-%llu-%llu%n", &pid, &start, &namespace, &used) == 3 &&
           used > 0 && !name[used] && namespace == pid_namespace() && process_gone(pid, start);
}

/* Killing. */

static bool kill_whole(const char *path)
{
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/cgroup.kill", path);
    CLEANUP_FD int fd = open(file, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, "1", 1) == 1;
}

/* A process that this pid namespace does not show is listed as 0, and 0 would mean ourselves. */
static void kill_each(const char *path)
{
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    CLEANUP_FILE FILE *list = fopen(file, "re");
    int pid;
    for (int i = 0; list && i < KILL_ROUND && fscanf(list, "%d", &pid) == 1; i++) {
        if (pid > 1 && pid != getpid())
            kill(pid, SIGKILL);
    }
}

/* Tries every group once; false while some are left. */
static bool try_all(struct cgroup_reaper *reaper)
{
    for (struct doomed **at = &reaper->first; *at;) {
        struct doomed *doomed = *at;
        int error = reaper->ops.remove(doomed->path);
        if (error == -EBUSY || error == -ENOTEMPTY) {
            if (!kill_whole(doomed->path))
                kill_each(doomed->path);
            at = &doomed->next;
            continue;
        }
        if (error && error != -ENOENT)
            log_warn("remove control group '%s': %s", doomed->path, strerror(-error));
        *at = doomed->next;
        free(doomed);
    }
    reaper->last = &reaper->first;
    while (*reaper->last)
        reaper->last = &(*reaper->last)->next;
    return reaper->first == NULL;
}

static void try_again(void *arg)
{
    struct cgroup_reaper *reaper = arg;
    if (try_all(reaper) || timer_armed(&reaper->timer))
        return;
    loop_arm(reaper->loop, &reaper->timer, MS_NS(reaper->wait_ms));
    reaper->wait_ms = reaper->wait_ms * 2 > LAST_WAIT_MS ? LAST_WAIT_MS : reaper->wait_ms * 2;
}

static void add(struct cgroup_reaper *reaper, const char *path)
{
    size_t size = strlen(path) + 1;
    struct doomed *doomed = malloc(sizeof *doomed + size);
    if (!doomed)
        return; /* the next start finds it */
    doomed->next = NULL;
    memcpy(doomed->path, path, size);
    *reaper->last = doomed;
    reaper->last = &doomed->next;
}

static void start_trying(struct cgroup_reaper *reaper)
{
    reaper->wait_ms = FIRST_WAIT_MS;
    try_again(reaper);
}

void reaper_init(struct cgroup_reaper *reaper, struct loop *loop, const struct cgroup_ops *ops)
{
    *reaper = (struct cgroup_reaper){
        .loop = loop, .ops = {make_directory, remove_directory}, .wait_ms = FIRST_WAIT_MS};
    if (ops)
        reaper->ops = *ops;
    reaper->last = &reaper->first;
    reaper->timer = (struct timer){.fire = try_again, .arg = reaper};
}

void reaper_take(struct cgroup_reaper *reaper, const char *path)
{
    add(reaper, path);
    start_trying(reaper);
}

/* Those inside first: a group with groups in it cannot be removed. */
static void take_tree(struct cgroup_reaper *reaper, const char *path)
{
    char inner[PATH_MAX];
    CLEANUP_DIR DIR *list = opendir(path);
    for (struct dirent *item; list && (item = readdir(list));) {
        if (item->d_type == DT_DIR && item->d_name[0] != '.' &&
            snprintf(inner, sizeof inner, "%s/%s", path, item->d_name) < PATH_MAX)
            add(reaper, inner);
    }
    add(reaper, path);
}

void reaper_sweep(struct cgroup_reaper *reaper, const char *base)
{
    char path[PATH_MAX];
    CLEANUP_DIR DIR *list = opendir(base);
    for (struct dirent *item; list && (item = readdir(list));) {
        if (is_leftover(item->d_name) &&
            snprintf(path, sizeof path, "%s/%s", base, item->d_name) < PATH_MAX)
            take_tree(reaper, path);
    }
    if (reaper->first)
        start_trying(reaper);
}

void reaper_close(struct cgroup_reaper *reaper)
{
    loop_disarm(reaper->loop, &reaper->timer);
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int i = 0; i < CLOSE_TRIES && !try_all(reaper); i++)
        nanosleep(&moment, NULL);
    while (reaper->first) {
        struct doomed *doomed = reaper->first;
        reaper->first = doomed->next;
        free(doomed);
    }
    reaper->last = &reaper->first;
}
