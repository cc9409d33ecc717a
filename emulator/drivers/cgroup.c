#include "drivers/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum controller { MEMORY, PIDS, CPU, CONTROLLERS };
static const char *const controller_names[CONTROLLERS] = {"memory", "pids", "cpu"};

enum {
    CPU_QUOTA_MIN_US = 1000, /* the kernel takes no less */
    LOOK_MS = 50,            /* between two looks at the count of kills */
    NAME_MAX_BYTES = 96,
};

/* Every limit, for both versions: which file gets what, in this order. */
#define CPU_PERIOD "100000"
static const struct setting {
    int version;
    enum controller controller;
    const char *file;
    const char *format; /* of the value */
    bool optional;      /* depends on how the kernel was built or started */
} settings[] = {
    {1, MEMORY, "memory.limit_in_bytes", "%llu", false},
    /* Memory and swap together; not below the limit of memory, hence after it. */
    {1, MEMORY, "memory.memsw.limit_in_bytes", "%llu", true},
    {1, PIDS, "pids.max", "%llu", false},
    {1, CPU, "cpu.cfs_period_us", CPU_PERIOD, false},
    {1, CPU, "cpu.cfs_quota_us", "%llu", false},
    {2, MEMORY, "memory.max", "%llu", false},
    {2, MEMORY, "memory.swap.max", "0", true},
    {2, PIDS, "pids.max", "%llu", false},
    {2, CPU, "cpu.max", "%llu " CPU_PERIOD, false},
};

/* A hierarchy with the parent group of this emulator in it. */
struct tree {
    int version;
    bool has[CONTROLLERS];
    char *path; /* of the parent group */
};

struct cgroups {
    struct loop *loop;
    struct cgroup_reaper reaper;
    struct tree trees[CGROUP_TREES];
    size_t tree_count;
    int why_not[CONTROLLERS]; /* an errno for each controller that cannot be used */
    char *note;
    struct cgroup *first;
    struct watch inotify; /* version 2: changes of memory.events */
};

struct cgroup {
    struct cgroups *groups;
    struct cgroup *next, **link;
    char *paths[CGROUP_TREES]; /* by tree */
    int entries[CGROUP_TREES]; /* where the child enters, -1 when closed */
    int counts;                /* memory.oom_control or memory.events, -1 when there is none */
    struct watch event;        /* version 1: an eventfd */
    int inotify_watch;         /* version 2: -1 when there is none */
    unsigned kills, told;
    bool again;
    struct timer look;
    void (*killed)(void *arg, unsigned kills);
    void *arg;
};

/* Files. */

static int write_text(const char *dir, const char *file, const char *text)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
        return -ENAMETOOLONG;
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int open_in(const char *dir, const char *file, int flags)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
        return -ENAMETOOLONG;
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Finding the hierarchies. */

static struct tree *add_tree(struct cgroups *groups, int version, const char *base, int *error)
{
    char name[NAME_MAX_BYTES];
    struct tree *tree = &groups->trees[groups->tree_count];
    *tree = (struct tree){.version = version};
    reaper_sweep(&groups->reaper, base);
    reaper_own_name(name, sizeof name);
    if (asprintf(&tree->path, "%s/%s", base, name) < 0) {
        tree->path = NULL;
        *error = -ENOMEM;
        return NULL;
    }
    *error = groups->reaper.ops.make(tree->path);
    if (*error < 0 && *error != -EEXIST) {
        free(tree->path);
        tree->path = NULL;
        return NULL;
    }
    groups->tree_count++;
    return tree;
}

static void find_version_1(struct cgroups *groups, const char *root)
{
    for (int i = 0; i < CONTROLLERS; i++) {
        char base[PATH_MAX];
        snprintf(base, sizeof base, "%s/%s", root, controller_names[i]);
        CLEANUP_FD int there = open_in(base, "cgroup.procs", O_PATH);
        if (there < 0)
            continue;
        int error = 0;
        struct tree *tree = add_tree(groups, 1, base, &error);
        groups->why_not[i] = tree ? 0 : -error;
        if (tree)
            tree->has[i] = true;
    }
}

static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length) {
        bool begins = at == list || at[-1] == ' ';
        if (begins && (at[length] == ' ' || at[length] == '\n' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* A controller must be handed down twice: to our group, and by it to those of the containers. */
static int hand_down(const char *base, const char *own, const char *name)
{
    char text[32];
    snprintf(text, sizeof text, "+%s", name);
    int error = write_text(base, "cgroup.subtree_control", text);
    return error < 0 ? error : write_text(own, "cgroup.subtree_control", text);
}

/* Where version 1 has its directories beside it, version 2 is in "unified". */
static void find_version_2(struct cgroups *groups, const char *root)
{
    char base[PATH_MAX], list[1024] = "";
    snprintf(base, sizeof base, "%s", root);
    CLEANUP_FD int fd = open_in(base, "cgroup.controllers", O_RDONLY);
    if (fd < 0) {
        snprintf(base, sizeof base, "%s/unified", root);
        fd = open_in(base, "cgroup.controllers", O_RDONLY);
    }
    ssize_t size = fd < 0 ? 0 : read(fd, list, sizeof list - 1);
    list[size > 0 ? size : 0] = '\0';
    struct tree *tree = NULL;
    int error = 0;
    for (int i = 0; i < CONTROLLERS; i++) {
        if (groups->why_not[i] != ENODEV || !is_listed(list, controller_names[i]))
            continue;
        if (!tree && !error)
            tree = add_tree(groups, 2, base, &error);
        int result = tree ? hand_down(base, tree->path, controller_names[i]) : error;
        groups->why_not[i] = -result;
        if (tree)
            tree->has[i] = result == 0;
    }
}

/* Version 2 has its own way to say that memory ran out. */
static void inotify_ready(void *arg, uint32_t events);

static void watch_version_2(struct cgroups *groups)
{
    for (size_t i = 0; i < groups->tree_count; i++) {
        if (groups->trees[i].version != 2 || !groups->trees[i].has[MEMORY])
            continue;
        int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (fd >= 0 && loop_watch(groups->loop, &groups->inotify, fd, EPOLLIN) < 0)
            close(fd);
    }
}

static char *write_note(const struct cgroups *groups)
{
    static const char *const instead[CONTROLLERS] = {"memory only for each process by itself",
                                                     "processes only for ordinary users", NULL};
    CLEANUP_BUF struct buf lost = BUF_INIT(400);
    CLEANUP_BUF struct buf still = BUF_INIT(400);
    int why = 0;
    for (int i = 0; i < CONTROLLERS; i++) {
        if (!groups->why_not[i])
            continue;
        why = groups->why_not[i];
        buf_addf(&lost, "%s%s", lost.size ? ", " : "", controller_names[i]);
        if (instead[i])
            buf_addf(&still, "%s%s", still.size ? ", " : "; limited are ", instead[i]);
    }
    char *note = NULL;
    if (why && asprintf(&note, "no control group for %s (%s)%s", buf_text(&lost),
                        why == ENODEV ? "this machine has none" : strerror(why),
                        still.size ? buf_text(&still) : "") < 0)
        note = NULL;
    return note;
}

struct cgroups *cgroups_new(struct loop *loop, const char *root, const struct cgroup_ops *ops)
{
    struct cgroups *groups = calloc(1, sizeof *groups);
    if (!groups)
        return NULL;
    groups->loop = loop;
    groups->inotify = (struct watch){.ready = inotify_ready, .arg = groups, .fd = -1};
    reaper_init(&groups->reaper, loop, ops);
    for (int i = 0; i < CONTROLLERS; i++)
        groups->why_not[i] = ENODEV;
    find_version_1(groups, root);
    find_version_2(groups, root);
    watch_version_2(groups);
    groups->note = write_note(groups);
    return groups;
}

void cgroups_free(struct cgroups *groups)
{
    if (!groups)
        return;
    for (size_t i = 0; i < groups->tree_count; i++) {
        reaper_take(&groups->reaper, groups->trees[i].path);
        free(groups->trees[i].path);
    }
    reaper_close(&groups->reaper);
    int fd = groups->inotify.fd;
    loop_unwatch(groups->loop, &groups->inotify);
    cleanup_fd(&fd);
    free(groups->note);
    free(groups);
}

const char *cgroups_note(const struct cgroups *groups)
{
    return groups->note;
}

struct instance_limits cgroups_beyond(const struct cgroups *groups, struct instance_limits limits)
{
    return (struct instance_limits){
        .memory_bytes = groups->why_not[MEMORY] ? limits.memory_bytes : 0,
        .pids = groups->why_not[PIDS] ? limits.pids : 0,
        .cpu_millis = groups->why_not[CPU] ? limits.cpu_millis : 0,
    };
}

/* One container's groups. */

static unsigned long long limit_of(const struct instance_limits *limits, enum controller which)
{
    unsigned long long quota = limits->cpu_millis * 100ULL;
    switch (which) {
    case MEMORY:
        return limits->memory_bytes;
    case PIDS:
        return limits->pids;
    case CPU:
        return quota && quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : quota;
    case CONTROLLERS:
        break;
    }
    return 0;
}

static int set(const struct tree *tree, const char *path, enum controller which,
               const struct instance_limits *limits, struct error *err)
{
    unsigned long long value = limit_of(limits, which);
    for (size_t i = 0; value && i < sizeof settings / sizeof *settings; i++) {
        const struct setting *setting = &settings[i];
        if (setting->version != tree->version || setting->controller != which)
            continue;
        char text[64];
        snprintf(text, sizeof text, setting->format, value);
        int error = write_text(path, setting->file, text);
        if (error < 0 && !setting->optional)
            return error_errno(err, -error, "set %s to %s", setting->file, text);
    }
    return 0;
}

/* What the child of a start writes to. It is one thread, which may move itself by "tasks" without
 * the lock that all forks of the machine share; the other file waits some milliseconds for that.
 * Version 2 has nothing alike for ordinary groups. */
static const char *const entry_names[] = {[1] = "tasks", [2] = "cgroup.procs"};

/* The name of the next container's groups: one row of numbers for the process, however many drivers
 * it has. */
static unsigned long long made;

/* The group for CPU is made also without a limit: a container with a thousand busy processes then
 * weighs no more than one of the emulator's or of another container's. */
static int join_tree(struct cgroup *group, size_t index, const struct instance_limits *limits,
                     struct error *err)
{
    struct cgroups *groups = group->groups;
    const struct tree *tree = &groups->trees[index];
    char *path = NULL;
    if (asprintf(&path, "%s/%llu", tree->path, made) < 0)
        return error_errno(err, ENOMEM, "control group");
    int error = groups->reaper.ops.make(path);
    if (error < 0) {
        free(path);
        return error_errno(err, -error, "make a control group in '%s'", tree->path);
    }
    group->paths[index] = path;
    for (int which = 0; which < CPU; which++) {
        error = tree->has[which] ? set(tree, path, which, limits, err) : 0;
        if (error < 0)
            return error;
    }
    const char *entry = entry_names[tree->version];
    int fd = open_in(path, entry, O_WRONLY);
    if (fd < 0)
        return error_errno(err, -fd, "open %s of '%s'", entry, path);
    group->entries[index] = fd;
    return 0;
}

/* Being told. Nothing depends on it but the time of an event: the count is read when it matters. */

static void look(void *arg);

static void watch_version_1(struct cgroup *group, const char *path)
{
    char text[32];
    CLEANUP_FD int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    group->counts = open_in(path, "memory.oom_control", O_RDONLY);
    if (event < 0 || group->counts < 0)
        return;
    snprintf(text, sizeof text, "%d %d", event, group->counts);
    if (write_text(path, "cgroup.event_control", text) == 0 &&
        loop_watch(group->groups->loop, &group->event, event, EPOLLIN) == 0)
        steal_fd(&event);
}

static void watch_kills(struct cgroup *group)
{
    const struct cgroups *groups = group->groups;
    for (size_t i = 0; i < groups->tree_count; i++) {
        if (!groups->trees[i].has[MEMORY])
            continue;
        if (groups->trees[i].version == 1) {
            watch_version_1(group, group->paths[i]);
            return;
        }
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/memory.events", group->paths[i]);
        group->counts = open_in(group->paths[i], "memory.events", O_RDONLY);
        if (groups->inotify.fd >= 0)
            group->inotify_watch = inotify_add_watch(groups->inotify.fd, path, IN_MODIFY);
    }
}

unsigned cgroup_kills(struct cgroup *group)
{
    char text[1024];
    ssize_t size = group->counts < 0 ? -1 : pread(group->counts, text, sizeof text - 1, 0);
    if (size <= 0)
        return group->kills;
    text[size] = '\0';
    const char *at = strncmp(text, "oom_kill ", 9) == 0 ? text : strstr(text, "\noom_kill ");
    if (at)
        group->kills = (unsigned)strtoul(strchr(at, ' '), NULL, 10);
    return group->kills;
}

/* The kernel tells before it counts, and may tell very often: one look now, and further ones in
 * steps of time while something changes. */
static void look(void *arg)
{
    struct cgroup *group = arg;
    unsigned kills = cgroup_kills(group);
    bool grown = kills > group->told;
    if (grown || group->again)
        loop_arm(group->groups->loop, &group->look, MS_NS(LOOK_MS));
    group->again = false;
    group->told = kills;
    if (grown && group->killed)
        group->killed(group->arg, kills);
}

static void notice(struct cgroup *group)
{
    group->again = true;
    if (!timer_armed(&group->look))
        look(group);
}

static void event_ready(void *arg, uint32_t events)
{
    struct cgroup *group = arg;
    uint64_t count;
    if (read(group->event.fd, &count, sizeof count) > 0)
        notice(group);
}

static void inotify_ready(void *arg, uint32_t events)
{
    struct cgroups *groups = arg;
    char room[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t size = read(groups->inotify.fd, room, sizeof room);
    for (ssize_t at = 0; at < size;) {
        const struct inotify_event *event = (const void *)(room + at);
        at += (ssize_t)(sizeof *event + event->len);
        struct cgroup *group = groups->first;
        while (group && group->inotify_watch != event->wd)
            group = group->next;
        if (group)
            notice(group);
    }
}

void cgroup_on_kill(struct cgroup *group, void (*killed)(void *arg, unsigned kills), void *arg)
{
    group->killed = killed;
    group->arg = arg;
}

/* Life and end. */

struct cgroup *cgroup_new(struct cgroups *groups, const struct instance_limits *limits,
                          struct error *err)
{
    struct cgroup *group = calloc(1, sizeof *group);
    if (!group) {
        error_errno(err, ENOMEM, "control group");
        return NULL;
    }
    group->groups = groups;
    group->counts = group->inotify_watch = -1;
    group->event = (struct watch){.ready = event_ready, .arg = group, .fd = -1};
    group->look = (struct timer){.fire = look, .arg = group};
    group->link = &groups->first;
    group->next = groups->first;
    if (group->next)
        group->next->link = &group->next;
    groups->first = group;
    for (size_t i = 0; i < CGROUP_TREES; i++)
        group->entries[i] = -1;
    made++;
    for (size_t i = 0; i < groups->tree_count; i++) {
        if (join_tree(group, i, limits, err) < 0) {
            cgroup_free(group);
            return NULL;
        }
    }
    watch_kills(group);
    return group;
}

size_t cgroup_entries(const struct cgroup *group, int to[CGROUP_TREES])
{
    size_t count = 0;
    for (size_t i = 0; i < CGROUP_TREES; i++) {
        if (group->entries[i] >= 0)
            to[count++] = group->entries[i];
    }
    return count;
}

void cgroup_entered(struct cgroup *group)
{
    for (size_t i = 0; i < CGROUP_TREES; i++) {
        int fd = steal_fd(&group->entries[i]);
        cleanup_fd(&fd);
    }
}

void cgroup_limit_cpu(struct cgroup *group, const struct instance_limits *limits)
{
    for (size_t i = 0; i < group->groups->tree_count; i++) {
        const struct tree *tree = &group->groups->trees[i];
        if (tree->has[CPU])
            set(tree, group->paths[i], CPU, limits, NULL);
    }
}

void cgroup_free(struct cgroup *group)
{
    if (!group)
        return;
    struct cgroups *groups = group->groups;
    loop_disarm(groups->loop, &group->look);
    int event = group->event.fd;
    loop_unwatch(groups->loop, &group->event);
    cleanup_fd(&event);
    cleanup_fd(&group->counts);
    if (group->inotify_watch >= 0)
        inotify_rm_watch(groups->inotify.fd, group->inotify_watch);
    cgroup_entered(group);
    for (size_t i = 0; i < CGROUP_TREES; i++) {
        if (group->paths[i])
            reaper_take(&groups->reaper, group->paths[i]);
        free(group->paths[i]);
    }
    *group->link = group->next;
    if (group->next)
        group->next->link = group->link;
    free(group);
}
