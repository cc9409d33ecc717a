#include "drivers/profile.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

/* Three of them are in the options of a mount. */
enum { OVERLAY_NAME_MAX = 96 };

/* Trees of programs and libraries. On merged systems all but /usr are links, which are repeated. */
static const char *const program_trees[] = {"/usr",   "/bin",   "/sbin",  "/lib",
                                            "/lib64", "/lib32", "/libx32"};

static const struct {
    const char *path;
    mode_t mode;
} root_dirs[] = {
    {"/workspace", 0755}, {"/tmp", 01777},     {"/run", 0755},       {"/run/lock", 01777},
    {"/var/tmp", 01777},  {"/var/log", 0755},  {"/var/cache", 0755}, {"/var/lib", 0755},
    {"/home", 0755},      {"/root", 0700},     {"/opt", 0755},       {"/srv", 0755},
    {"/mnt", 0755},       {"/media", 0755},    {"/dev", 0755},       {"/proc", 0755},
    {"/sys", 0755},       {"/var/mail", 0755}, {"/var/spool", 0755}, {"/etc", 0755},
};

/* Where lean containers lose their Python. */
static const char *const bin_dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                       "/usr/bin",        "/sbin",          "/bin"};

bool profile_below(const char *path, const char *tree)
{
    size_t length = strlen(tree);
    return strncmp(path, tree, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

bool profile_shows(const struct profile *profile, const char *path)
{
    for (size_t i = 0; i < profile->tree_count; i++) {
        if (profile_below(path, profile->trees[i]))
            return true;
    }
    return false;
}

static int add_tree(struct profile *profile, const char *path)
{
    if (profile->tree_count == sizeof(profile->trees) / sizeof(profile->trees[0]))
        return -E2BIG;
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    profile->trees[profile->tree_count++] = copy;
    return 0;
}

int profile_add_step(struct profile *profile, struct chain_step step)
{
    if (profile->step_count == profile->step_capacity) {
        size_t capacity = profile->step_capacity ? profile->step_capacity * 2 : 64;
        struct chain_step *steps = realloc(profile->steps, capacity * sizeof(*steps));
        if (!steps)
            return -ENOMEM;
        profile->steps = steps;
        profile->step_capacity = capacity;
    }
    char *path = strdup(step.path), *text = step.text ? strdup(step.text) : NULL;
    if (!path || (step.text && !text)) {
        free(path);
        free(text);
        return -ENOMEM;
    }
    step.path = path;
    step.text = text;
    profile->steps[profile->step_count++] = step;
    return 0;
}

/* A step at `base` followed by `path`. */
static int add_at(struct profile *profile, const char *base, const char *path,
                  struct chain_step step)
{
    CLEANUP_FREE char *joined = NULL;
    if (asprintf(&joined, "%s%s", base, path) < 0) {
        joined = NULL;
        return -ENOMEM;
    }
    step.path = joined;
    return profile_add_step(profile, step);
}

/* The directories on the way to `path` and `path` itself, below `base`. One that exists already is
 * no error for the chain, so the first mention of a directory decides its mode. */
int profile_add_dirs(struct profile *profile, const char *base, const char *path, mode_t mode,
                     unsigned when)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        struct chain_step step = {.kind = CHAIN_DIR, .when = when, .mode = 0755};
        int error = add_at(profile, base, part, step);
        if (error)
            return error;
    }
    struct chain_step step = {.kind = CHAIN_DIR, .when = when, .mode = mode};
    return add_at(profile, base, path, step);
}

int profile_add_dir(struct profile *profile, const char *path, mode_t mode)
{
    return profile_add_dirs(profile, CHAIN_ROOT, path, mode, CHAIN_BOTH);
}

/* The name of an overlay's upper and work directory: its path with dashes, "/etc-fonts". */
static void overlay_name(char *name, size_t size, const char *path)
{
    snprintf(name, size, "%s", path);
    for (char *c = name + 1; *c; c++)
        *c = *c == '/' ? '-' : *c;
}

int profile_add_overlay(struct profile *profile, const char *path, const char *lower)
{
    static const char *const tops[] = {CHAIN_LOWERS, CHAIN_UPPER, CHAIN_WORK};
    if (strpbrk(path, ",:\\") || strlen(path) > OVERLAY_NAME_MAX)
        return -EINVAL;
    bool own = strcmp(path, lower) != 0;
    char name[NAME_MAX + 2];
    overlay_name(name, sizeof(name), path);
    int error = 0;
    for (size_t i = 0; !error && i < sizeof(tops) / sizeof(tops[0]); i++)
        error = profile_add_dirs(profile, tops[i], name, 0755, CHAIN_BOTH);
    struct chain_step lowest = {.kind = own ? CHAIN_OWN : CHAIN_LOWER, .text = (char *)lower};
    struct chain_step merged = {.kind = own ? CHAIN_MERGED : CHAIN_OVERLAY, .text = name};
    lowest.when = merged.when = CHAIN_BOTH;
    if (!error)
        error = add_at(profile, CHAIN_LOWERS, name, lowest);
    if (!error)
        error = add_at(profile, CHAIN_ROOT, path, merged);
    return error ? error : add_tree(profile, path);
}

int profile_add_bind(struct profile *profile, const char *path, bool lean)
{
    unsigned when = lean ? CHAIN_BOTH : CHAIN_PYTHON;
    int error = profile_add_dirs(profile, CHAIN_ROOT, path, 0755, when);
    struct chain_step step = {.kind = CHAIN_BIND, .when = when, .text = (char *)path};
    if (!error)
        error = add_at(profile, CHAIN_ROOT, path, step);
    return error ? error : add_tree(profile, path);
}

int profile_add_outside(struct profile *profile, const char *path)
{
    char lower[NAME_MAX];
    snprintf(lower, sizeof(lower), CHAIN_LOWERS "%s", path);
    struct chain_step step = {.kind = CHAIN_LINK, .when = CHAIN_BOTH, .text = lower};
    return add_at(profile, ".", path, step);
}

static int add_program_tree(struct profile *profile, const char *path)
{
    struct stat st;
    char real[PATH_MAX], target[PATH_MAX];
    if (lstat(path, &st) < 0)
        return 0;
    if (S_ISDIR(st.st_mode)) {
        int error = profile_add_dir(profile, path, 0755);
        if (!error)
            error = profile_add_outside(profile, path);
        return error ? error : profile_add_overlay(profile, path, path);
    }
    ssize_t size = S_ISLNK(st.st_mode) ? readlink(path, target, sizeof(target) - 1) : -1;
    if (size < 0 || !realpath(path, real) || !profile_shows(profile, real))
        return 0;
    target[size] = '\0';
    struct chain_step step = {.kind = CHAIN_LINK, .when = CHAIN_BOTH, .text = target};
    int error = add_at(profile, CHAIN_ROOT, path, step);
    return error ? error : add_at(profile, ".", path, step);
}

static int add_root(struct profile *profile)
{
    static const char *const tops[] = {CHAIN_ROOT, CHAIN_LOWERS, CHAIN_UPPER, CHAIN_WORK};
    int error = 0;
    for (size_t i = 0; !error && i < sizeof(tops) / sizeof(tops[0]); i++) {
        struct chain_step step = {.kind = CHAIN_DIR, .when = CHAIN_BOTH, .mode = 0755};
        error = add_at(profile, tops[i], "", step);
    }
    for (size_t i = 0; !error && i < sizeof(root_dirs) / sizeof(root_dirs[0]); i++)
        error = profile_add_dir(profile, root_dirs[i].path, root_dirs[i].mode);
    for (size_t i = 0; !error && i < sizeof(program_trees) / sizeof(program_trees[0]); i++)
        error = add_program_tree(profile, program_trees[i]);
    struct stat st;
    if (!error && lstat("/var/lib/dpkg", &st) == 0 && S_ISDIR(st.st_mode)) {
        error = profile_add_dir(profile, "/var/lib/dpkg", 0755);
        if (!error)
            error = profile_add_overlay(profile, "/var/lib/dpkg", "/var/lib/dpkg");
        /* Names users and groups that the accounts inside do not have; dpkg refuses to go on then.
         */
        struct chain_step step = {.kind = CHAIN_WHITEOUT, .when = CHAIN_BOTH};
        if (!error && lstat("/var/lib/dpkg/statoverride", &st) == 0)
            error = add_at(profile, CHAIN_UPPER, "/var-lib-dpkg/statoverride", step);
    }
    return error;
}

/* The layer under which a path of a program tree is written: "u/usr" and "/local/bin/x". */
static const char *upper_of(const char *path, char *base, size_t size)
{
    const char *rest = strchr(path + 1, '/');
    snprintf(base, size, CHAIN_UPPER "%.*s", rest ? (int)(rest - path) : (int)strlen(path), path);
    return rest ? rest : "";
}

/* A directory that we make in the upper layer hides a link of the same name below it. */
static bool real_directory(const char *path)
{
    char real[PATH_MAX];
    return realpath(path, real) && strcmp(real, path) == 0;
}

/* python* and pip, pip3, pip3.11, pipx; but not pipewire. */
static bool is_python(const char *name)
{
    if (strncmp(name, "python", 6) == 0)
        return true;
    return strncmp(name, "pip", 3) == 0 &&
           (name[3] == '\0' || isdigit((unsigned char)name[3]) || strcmp(name, "pipx") == 0);
}

static int hide_python(struct profile *profile, const char *dir_path)
{
    CLEANUP_DIR DIR *dir = real_directory(dir_path) ? opendir(dir_path) : NULL;
    if (!dir || !profile_shows(profile, dir_path))
        return 0;
    char base[64], name[PATH_MAX];
    const char *rest = upper_of(dir_path, base, sizeof(base));
    int error = *rest ? profile_add_dirs(profile, base, rest, 0755, CHAIN_LEAN) : 0;
    for (struct dirent *entry; !error && (entry = readdir(dir));) {
        if (!is_python(entry->d_name))
            continue;
        struct chain_step step = {.kind = CHAIN_WHITEOUT, .when = CHAIN_LEAN};
        snprintf(name, sizeof(name), "%s/%s", rest, entry->d_name);
        error = add_at(profile, base, name, step);
    }
    return error;
}

/* The emulated image has `python`; many hosts only have python3. */
static int link_python(struct profile *profile)
{
    CLEANUP_FREE char *python = NULL, *python3 = NULL;
    int at3 = profile_find(profile, "python3", &python3);
    int at = profile_find(profile, "python", &python);
    struct stat st;
    if (at3 < 0 || (at >= 0 && at <= at3) || lstat("/usr/local/bin/python", &st) == 0 ||
        !real_directory("/usr/local/bin"))
        return 0;
    int error = profile_add_dirs(profile, CHAIN_UPPER "/usr", "/local/bin", 0755, CHAIN_PYTHON);
    struct chain_step step = {.kind = CHAIN_LINK, .when = CHAIN_PYTHON, .text = python3};
    return error ? error : add_at(profile, CHAIN_UPPER, "/usr/local/bin/python", step);
}

static int build_env(struct profile *profile)
{
    static const char *const fixed[] = {"HOME=/root", "LANG=C.UTF-8",
                                        "PIP_BREAK_SYSTEM_PACKAGES=1"};
    enum { COUNT = sizeof(fixed) / sizeof(fixed[0]) };
    profile->env = calloc(COUNT + 2, sizeof(*profile->env));
    if (!profile->env || asprintf(&profile->env[0], "PATH=%s", profile->path) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < COUNT; i++) {
        profile->env[i + 1] = strdup(fixed[i]);
        if (!profile->env[i + 1])
            return -ENOMEM;
    }
    return 0;
}

int profile_build(struct profile *profile, const char *run_dir, struct error *err)
{
    *profile = (struct profile){0};
    int error = add_root(profile);
    if (error)
        return error_errno(err, -error, "host profile");
    error = profile_add_etc(profile, run_dir, err);
    if (!error)
        error = profile_add_tools(profile, err);
    if (error)
        return error;
    error = link_python(profile);
    for (size_t i = 0; !error && i < sizeof(bin_dirs) / sizeof(bin_dirs[0]); i++)
        error = hide_python(profile, bin_dirs[i]);
    if (!error)
        error = build_env(profile);
    return error ? error_errno(err, -error, "host profile") : 0;
}

void profile_free(struct profile *profile)
{
    for (size_t i = 0; i < profile->step_count; i++) {
        free(profile->steps[i].path);
        free(profile->steps[i].text);
    }
    free(profile->steps);
    for (size_t i = 0; i < profile->tree_count; i++)
        free(profile->trees[i]);
    for (char **entry = profile->env; entry && *entry; entry++)
        free(*entry);
    free(profile->env);
    free(profile->path);
    free(profile->missing);
    *profile = (struct profile){0};
}
