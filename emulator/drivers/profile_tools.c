/* Tools of the caller's PATH that live outside the system directories (a Node in /opt, a Python of
 * pyenv): shown read-only, as little of them as makes them work. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "drivers/profile.h"

enum { LINE_MAX_BYTES = 8192 };

static const char base_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* Never shown, or made by the chain: a tool directory there is left out. */
static const char *const closed[] = {"/dev", "/proc", "/sys", "/run", "/workspace"};

static const char *const image_tools[] = {"bash", "git", "curl",  "wget",    "jq",
                                          "file", "ps",  "unzip", "zip",     "node",
                                          "npm",  "npx", "bun",   "python3", "inotifywait"};

static bool is_directory(const char *path, struct stat *st)
{
    return stat(path, st) == 0 && S_ISDIR(st->st_mode);
}

static int components(const char *path)
{
    int count = 0;
    for (const char *c = path; *c; c++)
        count += *c == '/' && c[1] != '\0' && c[1] != '/';
    return count;
}

/* The home directory that a path lies in, as its length; 0 when in none. */
static size_t home_length(const char *path)
{
    char home[PATH_MAX];
    const char *own = getenv("HOME");
    if (own && *own == '/' && realpath(own, home) && components(home) > 0 &&
        profile_below(path, home))
        return strlen(home);
    if (profile_below(path, "/root"))
        return strlen("/root");
    if (!profile_below(path, "/home"))
        return 0;
    size_t parent = strlen("/home");
    return path[parent] ? parent + 1 + strcspn(path + parent + 1, "/") : parent;
}

static bool holds_home(const char *path)
{
    char home[PATH_MAX];
    const char *own = getenv("HOME");
    return own && realpath(own, home) && profile_below(home, path);
}

/* Shortens ".../bin" to its prefix when that is surely the tool's own: two levels below a home
 * (~/.nvm/versions), or two levels below / outside of homes (/opt/node). Otherwise only the bin
 * directory itself may be shown. */
static void widen(char *path)
{
    char prefix[PATH_MAX];
    size_t length = strlen(path);
    if (length < 4 || strcmp(path + length - 4, "/bin") != 0)
        return;
    snprintf(prefix, sizeof(prefix), "%.*s", (int)(length - 4), path);
    struct stat st;
    if (!is_directory(prefix, &st) || (st.st_mode & S_IWOTH) || holds_home(prefix))
        return;
    if (components(prefix + home_length(prefix)) >= 2)
        path[length - 4] = '\0';
}

static bool has_python(const char *bin)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/python3", bin) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

static bool is_closed(const char *path)
{
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
        if (profile_below(path, closed[i]))
            return true;
    }
    return components(path) == 0 || (home_length(path) > 0 && !path[home_length(path)]);
}

static bool on_path(const struct buf *path, const char *bin)
{
    size_t length = strlen(bin);
    for (const char *at = buf_text(path); *at; at += strspn(at, ":")) {
        size_t size = strcspn(at, ":");
        if (size == length && memcmp(at, bin, size) == 0)
            return true;
        at += size;
    }
    return false;
}

/* Shows a bin directory and puts it on PATH. `system` is how many trees are the system's own: what
 * lies in those needs no showing and is no addition to PATH. */
static int add_bin(struct profile *profile, struct buf *path, size_t system, const char *dir)
{
    char bin[PATH_MAX], tree[PATH_MAX];
    struct stat st;
    if (*dir != '/' || !realpath(dir, bin) || !is_directory(bin, &st) || (st.st_mode & S_IWOTH) ||
        is_closed(bin) || strchr(bin, ':') || on_path(path, bin))
        return 0;
    for (size_t i = 0; i < system; i++) {
        if (profile_below(bin, profile->trees[i]))
            return 0;
    }
    if (!profile_shows(profile, bin)) {
        if (profile->tree_count >= system + PROFILE_TOOLS_MAX)
            return 0;
        memcpy(tree, bin, sizeof(tree));
        widen(tree);
        int error = profile_add_bind(profile, tree, !has_python(bin));
        if (error)
            return error;
    }
    return buf_addf(path, ":%s", bin);
}

/* The first word of a small file. */
static bool first_word(const char *path, char *word, size_t size)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, word, size - 1);
    if (got <= 0)
        return false;
    word[got] = '\0';
    word[strcspn(word, " \t\r\n")] = '\0';
    return *word != '\0';
}

/* The shims of version managers need the manager. Of pyenv's, the version that it selects can be
 * used without it. */
static int add_shims(struct profile *profile, struct buf *path, size_t system, const char *dir)
{
    char file[PATH_MAX], version[128];
    int root = (int)(strlen(dir) - strlen("/shims"));
    if (snprintf(file, sizeof(file), "%.*s/version", root, dir) >= (int)sizeof(file) ||
        !first_word(file, version, sizeof(version)) || strchr(version, '/') || *version == '.')
        return 0;
    char bin[PATH_MAX];
    if (snprintf(bin, sizeof(bin), "%.*s/versions/%s/bin", root, dir, version) >= (int)sizeof(bin))
        return 0;
    return has_python(bin) ? add_bin(profile, path, system, bin) : 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

static int add_entry(struct profile *profile, struct buf *path, size_t system, char *dir)
{
    for (size_t length = strlen(dir); length > 1 && dir[length - 1] == '/'; length--)
        dir[length - 1] = '\0';
    if (ends_with(dir, "/shims"))
        return add_shims(profile, path, system, dir);
    return add_bin(profile, path, system, dir);
}

int profile_find(const struct profile *profile, const char *name, char **where)
{
    char path[PATH_MAX], real[PATH_MAX];
    struct stat st;
    int index = 0;
    for (const char *at = profile->path; *at; index++) {
        size_t size = strcspn(at, ":");
        int length = snprintf(path, sizeof(path), "%.*s/%s", (int)size, at, name);
        at += size + (at[size] == ':');
        if (length >= (int)sizeof(path) || !realpath(path, real) || !profile_shows(profile, real) ||
            stat(real, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
            continue;
        if (where)
            *where = strdup(path);
        return where && !*where ? -1 : index;
    }
    return -1;
}

static int list_missing(struct profile *profile)
{
    CLEANUP_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);
    int error = 0;
    for (size_t i = 0; !error && i < sizeof(image_tools) / sizeof(image_tools[0]); i++) {
        if (profile_find(profile, image_tools[i], NULL) >= 0)
            continue;
        error =
            buf_addf(&line, "%s%s",
                     line.size ? ", " : "not on this host, so not in sandboxes: ", image_tools[i]);
    }
    if (!error && line.size)
        profile->missing = buf_steal(&line);
    return error;
}

int profile_add_tools(struct profile *profile, struct error *err)
{
    const char *given = getenv("PATH");
    CLEANUP_FREE char *copy = strdup(given ? given : "");
    CLEANUP_BUF struct buf path = BUF_INIT(PROFILE_TOOLS_MAX * PATH_MAX);
    size_t system = profile->tree_count;
    int error = copy ? buf_adds(&path, base_path) : -ENOMEM;
    for (char *dir = copy, *next; !error && dir; dir = next) {
        next = strchr(dir, ':');
        if (next)
            *next++ = '\0';
        error = add_entry(profile, &path, system, dir);
    }
    if (!error) {
        profile->path = buf_steal(&path);
        error = profile->path ? list_missing(profile) : -ENOMEM;
    }
    return error ? error_errno(err, -error, "tools on PATH") : 0;
}
