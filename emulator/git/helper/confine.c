#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/helper/helper.h"

void drop_capabilities(int keep_capability)
{
    uint64_t keep = keep_capability >= 0 ? 1ULL << keep_capability : 0;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[2], data[2];
    if (syscall(SYS_capget, &head, has) < 0)
        fatal("fatal: capabilities: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        uint32_t kept = has[i].permitted & (uint32_t)(keep >> (32 * i));
        data[i] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
    }
    /* Without CAP_SETPCAP the bounding set stays, which then cannot give anything back either:
     * nothing is executed any more, and no_new_privs is set. */
    for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
        prctl(PR_CAPBSET_DROP, i);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, data) < 0)
        fatal("fatal: capabilities: %s", strerror(errno));
}

/* Where the kernel has Landlock, nothing but `writable` can be changed. Its later versions know
 * more kinds of changes; each is asked for only where it is known. */
static void only_write_to(const char *writable)
{
    static const uint64_t read =
        LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
    static const uint64_t first = (1ULL << 13) - 1, refer = 1ULL << 13, truncate = 1ULL << 14;
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return;
    struct landlock_ruleset_attr all = {.handled_access_fs = first | (version > 1 ? refer : 0) |
                                                             (version > 2 ? truncate : 0)};
    CLEANUP_FD int rules =
        (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all.handled_access_fs, 0);
    CLEANUP_FD int root = open("/", O_PATH | O_CLOEXEC);
    CLEANUP_FD int dir = open(writable, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr everywhere = {.allowed_access = read, .parent_fd = root};
    struct landlock_path_beneath_attr here = {.allowed_access = all.handled_access_fs,
                                              .parent_fd = dir};
    if (rules < 0 || root < 0 || dir < 0 ||
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &everywhere, 0) < 0 ||
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &here, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        fatal("fatal: restrict writing to '%s': %s", writable, strerror(errno));
}

static void limit(int what, unsigned gibibytes)
{
    struct rlimit old, limit;
    rlim_t most = (rlim_t)gibibytes << 30;
    if (getrlimit(what, &old) < 0)
        return;
    limit = old;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > most)
        limit.rlim_cur = most;
    setrlimit(what, &limit);
}

void confine_phase(int keep_capability, const char *writable)
{
    struct rlimit none = {0, 0};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_CORE, &none);
    limit(RLIMIT_FSIZE, GIT_GIBIBYTES);
#ifndef __SANITIZE_ADDRESS__
    limit(RLIMIT_AS, MEMORY_GIBIBYTES);
#endif
    drop_capabilities(keep_capability);
    if (writable)
        only_write_to(writable);
}
