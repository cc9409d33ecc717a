/* /dev of an instance whose ids are mapped by real root. bubblewrap could make it, but binds each
 * device and reads the table of all mounts for each bind. */
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "drivers/chain_internal.h"

#define DEV CHAIN_ROOT "/dev"

static const struct {
    const char *path;
    unsigned minor, major;
} devices[] = {
    {DEV "/null", 3, 1},   {DEV "/zero", 5, 1},    {DEV "/full", 7, 1},
    {DEV "/random", 8, 1}, {DEV "/urandom", 9, 1}, {DEV "/tty", 0, 5},
};
static const struct {
    const char *path, *target;
} links[] = {
    {DEV "/fd", "/proc/self/fd"},       {DEV "/stdin", "/proc/self/fd/0"},
    {DEV "/stdout", "/proc/self/fd/1"}, {DEV "/stderr", "/proc/self/fd/2"},
    {DEV "/core", "/proc/kcore"},       {DEV "/ptmx", "pts/ptmx"},
};

/* Devices work on this tmpfs, but nobody can make one: the kernel lets no user namespace do that.
 * The nodes belong to real root, so that what is inside cannot change them. /dev/shm has the size that
 * containers usually give it. */
void chain_make_dev(uid_t owner)
{
    char options[64];
    snprintf(options, sizeof(options), "mode=755,size=64m,uid=%u,gid=%u", owner, owner);
    if (mount("tmpfs", DEV, "tmpfs", MS_NOSUID, options) < 0)
        chain_fail("mount tmpfs on", DEV);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        if (mknod(devices[i].path, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)) < 0)
            chain_fail("make", devices[i].path);
    }
    chain_make_as(owner);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        if (symlink(links[i].target, links[i].path) < 0)
            chain_fail("link", links[i].path);
    }
    if (mkdir(DEV "/shm", 0755) < 0 || mkdir(DEV "/pts", 0755) < 0)
        chain_fail("make", DEV "/pts");
    chain_make_as(0);
    if (mount("devpts", DEV "/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=620") < 0)
        chain_fail("mount", DEV "/pts");
}
