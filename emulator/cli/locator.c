#include "cli/locator.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/process.h"
#include "config/wrangler.h"

enum { ENTRY_BYTES_MAX = 16384 };

static void dir_path(char to[PATH_MAX])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat status;
    if (runtime && runtime[0] == '/' && strlen(runtime) < PATH_MAX - 64 &&
        stat(runtime, &status) == 0 && S_ISDIR(status.st_mode) && access(runtime, W_OK) == 0)
        snprintf(to, PATH_MAX, "%s/sandpit", runtime);
    else
        snprintf(to, PATH_MAX, "/tmp/sandpit-%u", (unsigned)geteuid());
}

int locator_check(char to[PATH_MAX], struct error *err)
{
    struct stat status;
    dir_path(to);
    if (lstat(to, &status) < 0)
        return error_errno(err, errno, "look at '%s'", to);
    if (!S_ISDIR(status.st_mode))
        return error_set(err, EPERM, "'%s' is not a directory (a symlink is not taken)", to);
    if (status.st_uid != geteuid())
        return error_set(err, EPERM, "'%s' belongs to another user", to);
    if (status.st_mode & 077)
        return error_set(err, EPERM, "'%s' is open to other users; chmod 700 it", to);
    return 0;
}

int locator_dir(char to[PATH_MAX], struct error *err)
{
    dir_path(to);
    if (mkdir(to, 0700) < 0 && errno != EEXIST)
        return error_errno(err, errno, "make '%s'", to);
    return locator_check(to, err);
}

static int open_dir(struct error *err)
{
    char path[PATH_MAX];
    int result = locator_dir(path, err);
    if (result < 0)
        return result;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? error_errno(err, errno, "open '%s'", path) : fd;
}

static int write_whole(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t wrote = write(fd, text, size);
        if (wrote < 0 && errno != EINTR)
            return -errno;
        if (wrote > 0) {
            text += wrote;
            size -= (size_t)wrote;
        }
    }
    return 0;
}

int locator_write(const struct locator_entry *entry, struct error *err)
{
    CLEANUP_FD int dir = open_dir(err);
    if (dir < 0)
        return dir;
    int pid = getpid();
    CLEANUP_JSON json_t *root =
        json_pack("{s:i, s:I, s:i, s:s, s:s, s:s}", "pid", pid, "startTime",
                  (json_int_t)process_own_start(), "port", entry->port, "url", entry->url,
                  "stateDir", entry->state_dir, "project", entry->project);
    if (root && entry->token[0])
        json_object_set_new(root, "token", json_string(entry->token));
    CLEANUP_FREE char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (!text)
        return error_set(err, EINVAL, "the locator entry is not UTF-8");
    char name[32], fresh[40];
    snprintf(name, sizeof name, "%d.json", pid);
    snprintf(fresh, sizeof fresh, ".%d.json.new", pid);
    unlinkat(dir, fresh, 0);
    CLEANUP_FD int fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int result = fd < 0 ? -errno : write_whole(fd, text, strlen(text));
    if (result == 0 && renameat(dir, fresh, dir, name) < 0)
        result = -errno;
    return result < 0 ? error_errno(err, -result, "write locator entry '%s'", name) : 0;
}

static void run_dir_name(char *to, size_t size)
{
    snprintf(to, size, "run-%d-%llu", getpid(), process_own_start());
}

void locator_remove(void)
{
    CLEANUP_FD int dir = open_dir(NULL);
    if (dir < 0)
        return;
    char name[64];
    snprintf(name, sizeof name, "%d.json", getpid());
    unlinkat(dir, name, 0);
    run_dir_name(name, sizeof name);
    locator_remove_tree(dir, name);
}

static void copy_member(const json_t *root, const char *name, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(root, name));
    snprintf(to, size, "%s", text ? text : "");
}

/* Reads one entry; false when it is not a whole one. */
static bool read_entry(int dir, const char *name, struct locator_entry *entry)
{
    CLEANUP_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    char text[ENTRY_BYTES_MAX];
    ssize_t size = read(fd, text, sizeof text);
    CLEANUP_JSON json_t *root = size > 0 ? json_loadb(text, (size_t)size, 0, NULL) : NULL;
    if (!json_is_object(root))
        return false;
    *entry = (struct locator_entry){0};
    entry->pid = (int)json_integer_value(json_object_get(root, "pid"));
    entry->start_time = (unsigned long long)json_integer_value(json_object_get(root, "startTime"));
    entry->port = (int)json_integer_value(json_object_get(root, "port"));
    copy_member(root, "url", entry->url, sizeof entry->url);
    copy_member(root, "stateDir", entry->state_dir, sizeof entry->state_dir);
    copy_member(root, "project", entry->project, sizeof entry->project);
    copy_member(root, "token", entry->token, sizeof entry->token);
    return entry->pid > 0 && entry->start_time > 0;
}

/* Calls each() for the entries of living processes and deletes the others. */
static int each_entry(void (*each)(void *arg, const struct locator_entry *entry), void *arg,
                      struct error *err)
{
    CLEANUP_FD int dir = open_dir(err);
    if (dir < 0)
        return dir;
    CLEANUP_DIR DIR *list = fdopendir(dir);
    if (!list)
        return error_errno(err, errno, "list the locator directory");
    int fd = steal_fd(&dir);
    for (struct dirent *item; (item = readdir(list));) {
        int pid = 0, used = 0;
        if (sscanf(item->d_name, "%9d.json%n", &pid, &used) != 1 || item->d_name[used] || used == 0)
            continue;
        struct locator_entry entry;
        bool whole = read_entry(fd, item->d_name, &entry) && entry.pid == pid;
        if (whole && process_is(pid, entry.start_time))
            each(arg, &entry);
        else if (process_gone(pid, whole ? entry.start_time : 0))
            unlinkat(fd, item->d_name, 0);
    }
    return 0;
}

struct search {
    const char *project; /* absolute, or NULL */
    int port;
    const char *here; /* the current directory when neither is given */
    size_t found_length;
    int found; /* how many are as good as *to */
    int live;
    struct locator_entry *to;
    struct buf list;
};

static bool is_within(const char *path, const char *dir)
{
    size_t length = strlen(dir);
    return length > 0 && strncmp(path, dir, length) == 0 &&
           (path[length] == '/' || path[length] == '\0' || dir[length - 1] == '/');
}

static void search_entry(void *arg, const struct locator_entry *entry)
{
    struct search *search = arg;
    search->live++;
    buf_addf(&search->list, "\n  --port %d  %s", entry->port,
             entry->project[0] ? entry->project : "(no project)");
    size_t length = 0; /* how well it matches */
    if (search->port > 0)
        length = entry->port == search->port;
    else if (search->project)
        length = strcmp(entry->project, search->project) == 0;
    else if (is_within(search->here, entry->project))
        length = strlen(entry->project);
    else
        length = search->live == 1 ? 1 : 0;
    if (length == 0 || length < search->found_length)
        return;
    search->found = length == search->found_length ? search->found + 1 : 1;
    search->found_length = length;
    *search->to = *entry;
}

static int search_result(const struct search *search, struct error *err)
{
    if (search->live == 0)
        return error_set(err, ENOENT, "no sandpit is running; start one with: sandpit dev");
    if (search->port > 0 && search->found == 0)
        return error_set(err, ENOENT, "no sandpit is running on port %d", search->port);
    if (search->project && search->found == 0)
        return error_set(err, ENOENT, "no sandpit is running for '%s'", search->project);
    /* Without a question, one that does not match the current directory will do if it is alone. */
    bool exact = search->port > 0 || search->project || search->found_length > 1;
    if (search->found == 1 && (exact || search->live == 1))
        return 0;
    return error_set(err, EEXIST, "several sandpits are running; choose one with:%s",
                     buf_text(&search->list));
}

int locator_find(const char *project, int port, struct locator_entry *found, struct error *err)
{
    char full[PATH_MAX], here[PATH_MAX];
    if (project && project_locate(project, full, err) < 0)
        return -err->code;
    if (!getcwd(here, sizeof here))
        snprintf(here, sizeof here, "/");
    struct search search = {.project = project ? full : NULL,
                            .port = port,
                            .here = here,
                            .to = found,
                            .list = BUF_INIT(400)};
    int result = each_entry(search_entry, &search, err);
    result = result < 0 ? result : search_result(&search, err);
    buf_free(&search.list);
    return result;
}

/* Removes the run directories of processes that have ended. */
static void sweep_run_dirs(int dir)
{
    CLEANUP_FD int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP_DIR DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (!list)
        return;
    steal_fd(&copy);
    for (struct dirent *item; (item = readdir(list));) {
        int pid = 0, used = 0;
        unsigned long long start = 0;
        if (sscanf(item->d_name, "run-%9d-%llu%n", &pid, &start, &used) == 2 &&
            !item->d_name[used] && process_gone(pid, start))
            locator_remove_tree(dir, item->d_name);
    }
}

int locator_run_dir(char *to, size_t size, struct error *err)
{
    char path[PATH_MAX], name[64];
    int result = locator_dir(path, err);
    if (result < 0)
        return result;
    CLEANUP_FD int dir = open_dir(err);
    if (dir < 0)
        return dir;
    /* Without it in the name others would take ours for the directory of a dead process. */
    if (!process_own_start())
        return error_errno(err, errno, "read the start time of this process");
    sweep_run_dirs(dir);
    run_dir_name(name, sizeof name);
    if ((size_t)snprintf(to, size, "%s/%s", path, name) >= size)
        return error_set(err, ENAMETOOLONG, "'%s/%s' is too long", path, name);
    locator_remove_tree(dir, name);
    if (mkdirat(dir, name, 0700) < 0)
        return error_errno(err, errno, "make '%s'", to);
    return 0;
}
