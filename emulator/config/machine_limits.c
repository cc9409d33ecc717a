/* Memory, control groups, and the directories that the emulator writes to. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/machine_internal.h"

enum { MEMORY_KIB = 1024 * 1024 };

void machine_check_memory(const struct machine *machine, struct machine_result *result)
{
    char text[4096];
    machine_read(machine, "/proc/meminfo", text, sizeof text);
    const char *line = strstr(text, "MemAvailable:");
    if (!line) {
        machine_could_not(result, "/proc/meminfo does not tell what is available");
        return;
    }
    long kib = strtol(line + strlen("MemAvailable:"), NULL, 10);
    if (kib >= MEMORY_KIB) {
        machine_ok(result, "%.1f GiB are available", (double)kib / MEMORY_KIB);
        return;
    }
    machine_find(result, MACHINE_WARNING,
                 "only %ld MiB of memory are available; one sandbox may use 1 GiB", kib / 1024);
    machine_fix(result, "end other programs, or add swap");
}

/* --- Control groups --------------------------------------------------------------------------- */

static const char *const controllers[] = {"memory", "pids", "cpu"};
enum { CONTROLLERS = sizeof controllers / sizeof *controllers };

struct groups {
    bool one, two;              /* which versions are mounted */
    bool here[CONTROLLERS];     /* the kernel offers it */
    bool writable[CONTROLLERS]; /* and we may use it */
};

static bool has_item(const char *list, const char *item, const char *separators)
{
    size_t length = strlen(item);
    for (const char *at = list; *at; at += strspn(at, separators)) {
        size_t size = strcspn(at, separators);
        if (size == length && strncmp(at, item, size) == 0)
            return true;
        at += size;
    }
    return false;
}

static bool may_write(const struct machine *machine, const char *path, const char *options)
{
    char full[PATH_MAX];
    machine_path(machine, path, full);
    return !has_item(options, "ro", ",") && access(full, W_OK) == 0;
}

/* Our own group in the unified hierarchy, from the line "0::/path". */
static void own_group(const struct machine *machine, char *to, size_t size)
{
    char text[8192];
    to[0] = '\0';
    if (machine_read(machine, "/proc/self/cgroup", text, sizeof text) <= 0)
        return;
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return;
    line = strchr(line, '/');
    if (line && strcspn(line, "\n") > 1)
        snprintf(to, size, "%.*s", (int)strcspn(line, "\n"), line);
}

static void look_at_two(const struct machine *machine, const char *mount, const char *options,
                        struct groups *groups)
{
    char own[2048], dir[PATH_MAX], path[PATH_MAX + 32], offers[512];
    own_group(machine, own, sizeof own);
    snprintf(dir, sizeof dir, "%.1024s%.2047s", mount, own);
    snprintf(path, sizeof path, "%s/cgroup.controllers", dir);
    if (machine_read(machine, path, offers, sizeof offers) < 0)
        return;
    groups->two = true;
    for (int i = 0; i < CONTROLLERS; i++) {
        if (!has_item(offers, controllers[i], " "))
            continue;
        groups->here[i] = true;
        groups->writable[i] |= may_write(machine, dir, options);
    }
}

static void look_at_one(const struct machine *machine, const char *mount, const char *options,
                        struct groups *groups)
{
    for (int i = 0; i < CONTROLLERS; i++) {
        if (!has_item(options, controllers[i], ","))
            continue;
        groups->one = groups->here[i] = true;
        groups->writable[i] |= may_write(machine, mount, options);
    }
}

static struct groups look_at_groups(const struct machine *machine)
{
    struct groups groups = {0};
    char path[PATH_MAX], line[8192], mount[1024], type[64], options[1024];
    machine_path(machine, "/proc/self/mounts", path);
    CLEANUP_FILE FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*s %1023s %63s %1023s", mount, type, options) != 3)
            continue;
        if (strcmp(type, "cgroup2") == 0)
            look_at_two(machine, mount, options, &groups);
        else if (strcmp(type, "cgroup") == 0)
            look_at_one(machine, mount, options, &groups);
    }
    return groups;
}

static void list(const bool *which, bool value, char to[64])
{
    to[0] = '\0';
    for (int i = 0; i < CONTROLLERS; i++) {
        size_t used = strlen(to);
        if (which[i] == value)
            snprintf(to + used, 64 - used, "%s%s", used ? ", " : "", controllers[i]);
    }
}

void machine_check_cgroups(const struct machine *machine, struct machine_result *result)
{
    struct groups groups = look_at_groups(machine);
    const char *version = groups.one   ? (groups.two ? "v1 and v2" : "v1")
                          : groups.two ? "v2"
                                       : "none";
    char absent[64], closed[64], open[64];
    list(groups.here, false, absent);
    list(groups.writable, false, closed);
    list(groups.writable, true, open);
    if (!*closed) {
        machine_ok(result, "%s, with %s to use", version, open);
        return;
    }
    bool root = machine->uid == 0;
    machine_find(
        result, root ? MACHINE_WARNING : MACHINE_INFO, "%s %s: %s of sandboxes %s not limited%s",
        version, *absent ? "without all controllers" : "that may not be written to", closed,
        strchr(closed, ',') ? "are" : "is", root ? "" : " as a whole, only in each process");
    if (*absent && !groups.one && !groups.two)
        machine_fix(result, "sudo mount -t cgroup2 none /sys/fs/cgroup");
    else if (machine_contained(machine))
        machine_fix(result, "docker run --privileged --cgroupns=private …");
    else if (root)
        machine_fix(result, "boot with cgroup_enable=memory, or mount the hierarchy of: %s",
                    closed);
    else
        machine_fix(result, "systemd-run --user --scope -p Delegate=yes sandpit dev");
}

/* --- Directories ------------------------------------------------------------------------------ */

/* The directory itself or, while it does not exist, the nearest one that does. */
static void nearest_directory(char *path)
{
    while (access(path, F_OK) < 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            snprintf(path, 2, "/");
            return;
        }
        *slash = '\0';
    }
}

/* Files of an earlier run as another user, most often as root, are in the way. */
static const char *foreign_file(const char *dir)
{
    static const char *const names[] = {"lock", "objects.sqlite", "objects.sqlite-wal"};
    char path[PATH_MAX + 32];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (access(path, R_OK | W_OK) < 0 && errno != ENOENT && errno != ENOTDIR)
            return names[i];
    }
    return NULL;
}

void machine_check_state(const struct machine *machine, struct machine_result *result)
{
    static const char *const otherwise = "sandpit dev --persist-to DIR, or --ephemeral";
    char path[PATH_MAX];
    struct stat status;
    if (!machine->state_dir) {
        machine_could_not(result, "there is no directory for it: HOME is not set, or the project's "
                                  "configuration cannot be read");
        return;
    }
    machine_path(machine, machine->state_dir, path);
    nearest_directory(path);
    if (stat(path, &status) < 0 || !S_ISDIR(status.st_mode) || access(path, W_OK | X_OK) < 0) {
        int error = errno;
        bool other = stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
        machine_find(result, MACHINE_ERROR, "'%.200s' cannot be written to: %s", path,
                     strerrordesc_np(other ? ENOTDIR : error));
        machine_fix(result, "%s", otherwise);
        return;
    }
    const char *foreign = foreign_file(path);
    if (foreign) {
        machine_find(result, MACHINE_ERROR, "'%.200s/%s' belongs to another user", path, foreign);
        machine_fix(result, "sudo chown -R \"$USER\" '%.200s'", path);
        return;
    }
    machine_ok(result, "%.250s can be written to", machine->state_dir);
}

void machine_check_locator(const struct machine *machine, struct machine_result *result)
{
    char path[PATH_MAX] = "";
    struct error err = {0};
    int code = machine->locator ? machine->locator(path, &err) : -ENOSYS;
    if (code == -ENOSYS && !machine->locator) {
        machine_could_not(result, "nobody knows where it is");
    } else if (code == 0) {
        machine_ok(result, "%.250s is this user's alone", path);
    } else if (code == -ENOENT) {
        machine_ok(result, "%.250s will be made", path);
    } else {
        machine_find(result, MACHINE_ERROR, "%.300s", err.text);
        machine_fix(result,
                    "chmod 700 '%.120s' if it is yours; else export XDG_RUNTIME_DIR with a "
                    "directory of your own",
                    path);
    }
}
