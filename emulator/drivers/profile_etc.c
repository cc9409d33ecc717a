/* /etc inside: what programs need of the host's, by name, and generated accounts. Files that not
 * everybody may read are never taken, whatever their name. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "drivers/profile.h"

enum { FILE_BYTES_MAX = 4 * 1024 * 1024, DEPTH_MAX = 8 };

/* Small directories are copied, which costs a container nothing; large ones get an overlay. */
enum taken { FILE_COPY, TREE_COPY, TREE_OVERLAY };
static const struct {
    const char *pattern;
    enum taken taken;
} allowed[] = {
    {"ld.so.cache", FILE_COPY},
    {"ld.so.conf", FILE_COPY},
    {"nsswitch.conf", FILE_COPY},
    {"localtime", FILE_COPY},
    {"timezone", FILE_COPY},
    {"os-release", FILE_COPY},
    {"debian_version", FILE_COPY},
    {"mime.types", FILE_COPY},
    {"services", FILE_COPY},
    {"protocols", FILE_COPY},
    {"bash.bashrc", FILE_COPY},
    {"profile", FILE_COPY},
    {"inputrc", FILE_COPY},
    {"magic", FILE_COPY},
    {"magic.mime", FILE_COPY},
    {"host.conf", FILE_COPY},
    {"gai.conf", FILE_COPY},
    {"login.defs", FILE_COPY},
    {"shells", FILE_COPY},
    {"wgetrc", FILE_COPY},
    {"issue", FILE_COPY},
    {"ssl/openssl.cnf", FILE_COPY},
    {"ca-certificates", TREE_COPY},
    {"ld.so.conf.d", TREE_COPY},
    {"profile.d", TREE_COPY},
    {"python3*", TREE_COPY},
    {"perl", TREE_COPY},
    {"terminfo", TREE_COPY},
    {"java-*", TREE_OVERLAY},
    {"ImageMagick-*", TREE_COPY},
    {"dpkg", TREE_COPY},
    {"alternatives", TREE_OVERLAY},
    {"ssl/certs", TREE_OVERLAY},
    {"fonts", TREE_OVERLAY},
};

/* Debian's base accounts: what owns files under /usr must have a name. */
static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
                             "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                             "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                             "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
                             "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
                             "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
                             "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                             "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
                             "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char group[] = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\n"
                            "disk:x:6:\nmail:x:8:\nman:x:12:\nsudo:x:27:\nwww-data:x:33:\n"
                            "shadow:x:42:\nutmp:x:43:\nstaff:x:50:\nusers:x:100:\n"
                            "nogroup:x:65534:\n";
static const char nsswitch[] = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                               "services: files\nprotocols: files\n";

static int copy_file(int from_dir, const char *from, int to_dir, const char *to)
{
    CLEANUP_FD int in = openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (in < 0 || fstat(in, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > FILE_BYTES_MAX)
        return 0;
    CLEANUP_FD int out =
        openat(to_dir, to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (out < 0)
        return -errno;
    for (off_t left = st.st_size; left > 0;) {
        ssize_t moved = sendfile(out, in, NULL, (size_t)left);
        if (moved < 0)
            return -errno;
        if (moved == 0)
            break;
        left -= moved;
    }
    return fchmod(out, st.st_mode & 0755) < 0 ? -errno : 0;
}

static int copy_link(int from_dir, const char *from, int to_dir, const char *to)
{
    char target[PATH_MAX];
    ssize_t size = readlinkat(from_dir, from, target, sizeof(target) - 1);
    if (size < 0)
        return -errno;
    target[size] = '\0';
    return symlinkat(target, to_dir, to) < 0 && errno != EEXIST ? -errno : 0;
}

static int copy_entry(int from_dir, const char *from, int to_dir, const char *to, int depth);

static int copy_tree(int from_dir, const char *from, int to_dir, const char *to, int depth)
{
    if (mkdirat(to_dir, to, 0755) < 0 && errno != EEXIST)
        return -errno;
    CLEANUP_FD int out = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int in = openat(from_dir, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP_DIR DIR *dir = in < 0 ? NULL : fdopendir(in);
    if (out < 0 || !dir)
        return -errno;
    int error = 0;
    for (struct dirent *entry; !error && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            error = copy_entry(dirfd(dir), entry->d_name, out, entry->d_name, depth - 1);
    }
    return error;
}

/* Copies what can be copied. Something that is gone or unreadable by now is simply not there. */
static int copy_entry(int from_dir, const char *from, int to_dir, const char *to, int depth)
{
    struct stat st;
    int error = 0;
    if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISREG(st.st_mode))
        error = copy_file(from_dir, from, to_dir, to);
    else if (S_ISLNK(st.st_mode))
        error = copy_link(from_dir, from, to_dir, to);
    else if (S_ISDIR(st.st_mode) && depth > 0 && (st.st_mode & S_IROTH))
        error = copy_tree(from_dir, from, to_dir, to, depth);
    return error == -ENOENT || error == -EACCES ? 0 : error;
}

/* "ssl/certs": the row's path may have one parent. */
static int make_parent(int etc, const char *name)
{
    char parent[NAME_MAX + 1];
    const char *slash = strchr(name, '/');
    if (!slash)
        return 0;
    snprintf(parent, sizeof(parent), "%.*s", (int)(slash - name), name);
    return mkdirat(etc, parent, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static int take(struct profile *profile, int etc, const char *path, enum taken taken)
{
    const char *name = path + strlen("/etc/");
    struct stat st;
    if (lstat(path, &st) < 0 || S_ISDIR(st.st_mode) == (taken == FILE_COPY))
        return 0;
    int error = make_parent(etc, name);
    if (error)
        return error;
    if (taken != TREE_OVERLAY)
        return copy_entry(AT_FDCWD, path, etc, name, DEPTH_MAX);
    if (mkdirat(etc, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    return profile_add_overlay(profile, path, path);
}

static int take_allowed(struct profile *profile, int etc)
{
    int error = 0;
    for (size_t i = 0; !error && i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        char pattern[64];
        snprintf(pattern, sizeof(pattern), "/etc/%s", allowed[i].pattern);
        glob_t found;
        if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
            continue;
        for (size_t j = 0; !error && j < found.gl_pathc; j++)
            error = take(profile, etc, found.gl_pathv[j], allowed[i].taken);
        globfree(&found);
    }
    return error;
}

static int generate(int etc, const char *name, const char *text, bool replace)
{
    int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL);
    CLEANUP_FD int fd = openat(etc, name, flags, 0644);
    if (fd < 0)
        return !replace && errno == EEXIST ? 0 : -errno;
    size_t size = strlen(text);
    return write(fd, text, size) == (ssize_t)size ? 0 : -EIO;
}

static int fill(struct profile *profile, int etc)
{
    /* hosts and hostname differ between containers: the chain writes them. */
    int error = take_allowed(profile, etc);
    if (!error)
        error = generate(etc, "passwd", passwd, true);
    if (!error)
        error = generate(etc, "group", group, true);
    if (!error)
        error = generate(etc, "resolv.conf", "", true);
    if (!error)
        error = generate(etc, "nsswitch.conf", nsswitch, false);
    if (!error && symlinkat("/proc/mounts", etc, "mtab") < 0 && errno != EEXIST)
        error = -errno;
    return error;
}

static int prepare(struct profile *profile, const char *run_dir, struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/etc", run_dir);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return error_errno(err, errno, "make '%s'", path);
    CLEANUP_FD int etc = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (etc < 0)
        return error_errno(err, errno, "open '%s'", path);
    /* /etc is mounted before what lies in it. */
    int error = profile_add_overlay(profile, "/etc", path);
    if (!error)
        error = profile_add_outside(profile, "/etc");
    if (!error)
        error = fill(profile, etc);
    return error ? error_errno(err, -error, "fill '%s'", path) : 0;
}

int profile_add_etc(struct profile *profile, const char *run_dir, struct error *err)
{
    /* Processes of a container may run as any user and must be able to read all of it. */
    mode_t mask = umask(022);
    int error = prepare(profile, run_dir, err);
    umask(mask);
    return error;
}
