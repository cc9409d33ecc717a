/* The root of an instance: a tmpfs in a private mount namespace, with what the profile shows of
 * this host. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "drivers/chain_internal.h"
#include "drivers/tree.h"

static const struct {
    const char *name;
    mode_t mode;
} mount_points[] = {
    {"dev", 0755},  {"proc", 0755}, {"sys", 0755},
    {"tmp", 01777}, {"run", 0755},  {"workspace", 0755},
};

/* What the steps need beside the chain itself. */
struct making {
    const struct chain *chain;
    bool user; /* in a user namespace from the start: an ordinary user's */
    int ids;   /* the user namespace whose ids the trees of this host get, or -1 */
};

static int copy_file(const char *from, const char *to)
{
    CLEANUP_FD int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (in < 0 || fstat(in, &st) < 0)
        return -1;
    CLEANUP_FD int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0755);
    if (out < 0)
        return -1;
    for (off_t left = st.st_size; left > 0;) {
        ssize_t moved = sendfile(out, in, NULL, (size_t)left);
        if (moved <= 0)
            return -1;
        left -= moved;
    }
    return 0;
}

/* Without overlays a tree of this host is shown as it is. */
static int merge(const struct making *making, const struct chain_step *step)
{
    char options[512];
    if (!making->chain->overlays) {
        snprintf(options, sizeof(options), CHAIN_LOWERS "%s", step->text);
        return step->kind == CHAIN_MERGED ? 0
                                          : tree_attach(options, step->path, -1, TREE_RECURSIVE);
    }
    /* The first says where its notes on files go: only real root may write trusted ones. */
    int size = snprintf(options, sizeof(options),
                        "%s,volatile,lowerdir=" CHAIN_LOWERS "%s,upperdir=" CHAIN_UPPER
                        "%s,workdir=" CHAIN_WORK "%s",
                        making->user ? "userxattr" : "redirect_dir=on", step->text, step->text,
                        step->text);
    if (size >= (int)sizeof(options)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mount("overlay", step->path, "overlay", MS_NODEV | MS_NOSUID, options);
}

/* A file system without other ids shows its files as nobody's, which is enough for tools. */
static int show(const struct making *making, const struct chain_step *step)
{
    unsigned flags = making->user ? TREE_RECURSIVE : 0;
    int result = tree_attach(step->text, step->path, making->ids, flags);
    return result < 0 && making->ids >= 0 ? tree_attach(step->text, step->path, -1, flags) : result;
}

static int take_step(const struct making *making, const struct chain_step *step)
{
    unsigned below = making->chain->overlays ? 0 : TREE_RECURSIVE;
    switch (step->kind) {
    case CHAIN_DIR:
        return mkdir(step->path, step->mode) < 0 && errno != EEXIST ? -1 : 0;
    case CHAIN_LINK:
        return symlink(step->text, step->path);
    case CHAIN_WHITEOUT:
        return mknod(step->path, S_IFCHR, makedev(0, 0));
    case CHAIN_COPY:
        return making->chain->overlays ? 0 : copy_file(step->text, step->path);
    case CHAIN_LOWER:
        return tree_attach(step->text, step->path, making->ids, below);
    case CHAIN_OWN:
        return tree_attach(step->text, step->path, -1, 0);
    case CHAIN_OVERLAY:
    case CHAIN_MERGED:
        return merge(making, step);
    case CHAIN_BIND:
        return show(making, step);
    }
    return 0;
}

static void take_steps(const struct making *making, bool mounts)
{
    static const char *const verbs[] = {
        [CHAIN_DIR] = "make",      [CHAIN_LINK] = "link",    [CHAIN_WHITEOUT] = "hide",
        [CHAIN_COPY] = "copy",     [CHAIN_LOWER] = "show",   [CHAIN_OWN] = "show",
        [CHAIN_OVERLAY] = "mount", [CHAIN_MERGED] = "mount", [CHAIN_BIND] = "show",
    };
    for (size_t i = 0; i < making->chain->step_count; i++) {
        const struct chain_step *step = &making->chain->steps[i];
        if (!(step->when & making->chain->when) || (step->kind >= CHAIN_LOWER) != mounts)
            continue;
        if (take_step(making, step) < 0)
            chain_fail(verbs[step->kind], step->path);
    }
}

/* Whether a name in bubblewrap's root leads to this lower tree. */
static bool is_outside(const struct chain *chain, const char *lower)
{
    for (size_t i = 0; i < chain->step_count; i++) {
        const struct chain_step *step = &chain->steps[i];
        if (step->kind == CHAIN_LINK && strcmp(step->text, lower) == 0)
            return true;
    }
    return false;
}

/* An overlay keeps its layers by itself. bubblewrap reads the table of all mounts for each that it
 * makes, so what is of no use to it goes. */
static void drop_lowers(const struct chain *chain)
{
    for (size_t i = 0; chain->overlays && i < chain->step_count; i++) {
        const struct chain_step *step = &chain->steps[i];
        if ((step->kind != CHAIN_LOWER && step->kind != CHAIN_OWN) || !(step->when & chain->when) ||
            is_outside(chain, step->path))
            continue;
        if (umount2(step->path, MNT_DETACH) < 0)
            chain_fail("leave", step->path);
    }
}

static void write_files(const struct chain *chain)
{
    const char *etc = chain->overlays ? CHAIN_UPPER "/etc" : CHAIN_ROOT "/etc";
    for (size_t i = 0; i < chain->file_count; i++) {
        const struct chain_file *file = &chain->files[i];
        char path[64];
        snprintf(path, sizeof(path), "%s/%s", etc, file->name);
        CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, file->text, strlen(file->text)) < 0)
            chain_fail("write", path);
    }
}

static int ensure_directory(int root, const char *name, mode_t mode)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_IN_ROOT};
    int fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (errno != ENOENT && unlinkat(root, name, 0) < 0)
        return -errno;
    return mkdirat(root, name, mode) < 0 ? -errno : 0;
}

int chain_mount_points(int root)
{
    for (size_t i = 0; i < sizeof(mount_points) / sizeof(mount_points[0]); i++) {
        int error = ensure_directory(root, mount_points[i].name, mount_points[i].mode);
        if (error)
            return error;
    }
    return 0;
}

static void check_mount_points(void)
{
    CLEANUP_FD int root = open(CHAIN_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int error = root < 0 ? -errno : chain_mount_points(root);
    if (error) {
        errno = -error;
        chain_fail("check", "mount points");
    }
}

/* What is made from here on belongs to this id. */
void chain_make_as(uid_t id)
{
    setfsgid(id);
    setfsuid(id);
}

static void mount_tmpfs(const struct chain *chain)
{
    char options[128];
    snprintf(options, sizeof(options), "%s,uid=%u,gid=%u", chain->tmpfs, chain->userns->base,
             chain->userns->base);
    if (unshare(CLONE_NEWNS) < 0)
        chain_fail("unshare", "mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        chain_fail("make private", "/");
    if (chdir(chain->run_dir) < 0)
        chain_fail("enter", chain->run_dir);
    if (mount("tmpfs", "mnt", "tmpfs", MS_NODEV | MS_NOSUID, options) < 0)
        chain_fail("mount tmpfs on", "mnt");
    if (chdir("mnt") < 0)
        chain_fail("enter", "mnt");
}

/* bubblewrap takes devices from here, looks its child up in /proc, which must be that of our pid
 * namespace, and begins in /tmp. */
static void mount_system(const struct making *making)
{
    static const char *const dirs[] = {"dev", "proc", "tmp"};
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        if (mkdir(dirs[i], 0755) < 0)
            chain_fail("make", dirs[i]);
    }
    unsigned flags = TREE_DEVICES | TREE_WRITABLE | (making->user ? TREE_RECURSIVE : 0);
    if (tree_attach("/dev", "dev", -1, flags) < 0)
        chain_fail("show", "/dev");
    if (mount("proc", "proc", "proc", MS_NODEV | MS_NOSUID | MS_NOEXEC, NULL) < 0)
        chain_fail("mount", "/proc");
}

/* Leaves this host. Both roots are stacked on one place for a moment, so no directory for the old
 * one is needed. */
static void change_root(void)
{
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        chain_fail("change to", "the new root");
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        chain_fail("leave", "the old root");
}

static void fill_root(const struct making *making)
{
    uid_t owner = making->chain->userns->base;
    chain_make_as(owner);
    take_steps(making, false);
    write_files(making->chain);
    chain_make_as(0);
    take_steps(making, true);
    drop_lowers(making->chain);
    chain_make_as(owner);
    check_mount_points();
    chain_make_as(0);
    if (making->chain->userns->kind == USERNS_MAPPED)
        chain_make_dev(owner);
}

void chain_build_root(const struct chain *chain)
{
    enum userns_kind kind = chain->userns->kind;
    struct making making = {chain, kind == USERNS_FULL || kind == USERNS_SINGLE, -1};
    umask(0);
    mount_tmpfs(chain);
    mount_system(&making);
    if (kind == USERNS_MAPPED && (making.ids = userns_make(chain->userns)) < 0)
        chain_fail("make", "user namespace");
    fill_root(&making);
    umask(022);
    change_root();
    if (kind == USERNS_MAPPED && (userns_enter(making.ids) < 0 || close(making.ids) < 0))
        chain_fail("enter", "user namespace");
    if (kind != USERNS_NONE && userns_last() < 0)
        chain_fail("close", "user namespace");
}
