#include "drivers/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/cleanup.h"

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

/* What Docker's default profile leaves out. Most need capabilities that a container lacks, too; the
 * filter keeps it from the code behind them. Names that this architecture or libseccomp does not
 * know are skipped. */
static const char *const denied[] = {
    /* clang-format off */
    /* keys, programs and counters in the kernel */
    "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "lookup_dcookie",
    /* modules, other kernels, the machine */
    "init_module", "finit_module", "delete_module", "create_module", "query_module",
    "get_kernel_syms", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct",
    "quotactl", "quotactl_fd", "syslog", "vhangup", "iopl", "ioperm", "nfsservctl",
    /* the time of this host */
    "settimeofday", "stime", "clock_settime", "clock_settime64", "clock_adjtime",
    "clock_adjtime64",
    /* mounts, name spaces and files by handle */
    "mount", "umount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick",
    "move_mount", "open_tree", "open_tree_attr", "mount_setattr", "setns", "open_by_handle_at",
    "fanotify_init",
    /* placement of memory, comparison of processes */
    "mbind", "set_mempolicy", "set_mempolicy_home_node", "move_pages", "migrate_pages", "kcmp",
    /* a second way to most system calls */
    "io_uring_setup", "io_uring_enter", "io_uring_register",
    /* obsolete */
    "_sysctl", "uselib", "ustat", "sysfs", "vm86", "vm86old", "vserver", "afs_syscall", "getpmsg",
    "putpmsg", "security", "tuxcall", "bdflush", "idle",
    /* clang-format on */
};

/* One argument of a call, compared under a mask. */
struct rule {
    const char *name;
    unsigned argument;
    uint64_t mask, value;
};

static const struct rule rules[] = {
    /* Putting input into a terminal. The kernel looks at 32 bits of the request, so the rule does,
     * too (CVE-2019-10063). */
    {"ioctl", 1, UINT32_MAX, TIOCSTI},
    {"ioctl", 1, UINT32_MAX, TIOCLINUX},
    /* Sockets to the hypervisor know no network namespace. */
    {"socket", 0, UINT32_MAX, AF_VSOCK},
};

static const struct rule userns_rules[] = {
    {"unshare", 0, CLONE_NEWUSER, CLONE_NEWUSER},
    {"clone", 0, CLONE_NEWUSER, CLONE_NEWUSER},
};

/* Execution domains: Linux (0), its 32-bit and 2.6 variants, and the question what it is (all
 * ones). */
enum { DOMAINS = 0x20008, TOP_BIT = 31 };

static int deny(scmp_filter_ctx filter, int code, const struct rule *rule)
{
    int number = seccomp_syscall_resolve_name(rule->name);
    if (number < 0) /* unknown, or another architecture's */
        return 0;
    if (!rule->mask)
        return seccomp_rule_add(filter, SCMP_ACT_ERRNO(code), number, 0);
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(code), number, 1,
                            SCMP_CMP(rule->argument, SCMP_CMP_MASKED_EQ, rule->mask, rule->value));
}

static int deny_all(scmp_filter_ctx filter, const struct rule *list, size_t count)
{
    int error = 0;
    for (size_t i = 0; !error && i < count; i++)
        error = deny(filter, EPERM, &list[i]);
    return error;
}

/* A rule compares an argument once, so "neither allowed nor all ones" is said bit by bit: a wrong
 * bit without the top bit, and the top bit without any other. */
static int deny_personality(scmp_filter_ctx filter)
{
    const uint64_t top = UINT64_C(1) << TOP_BIT;
    int error = 0;
    for (int i = 0; !error && i < TOP_BIT; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if (!(bit & DOMAINS))
            error = deny(filter, EPERM, &(struct rule){"personality", 0, top | bit, bit});
        if (!error)
            error = deny(filter, EPERM, &(struct rule){"personality", 0, top | bit, top});
    }
    return error;
}

static int fill(scmp_filter_ctx filter, bool no_userns)
{
    /* Another architecture's calls (32-bit x86, x32) have other numbers, which the rules do not
     * name. The optimisation is a search tree instead of a list; older libraries lack it. */
    int error = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (size_t i = 0; !error && i < sizeof(denied) / sizeof(denied[0]); i++)
        error = deny(filter, EPERM, &(struct rule){.name = denied[i]});
    if (!error)
        error = deny_all(filter, rules, sizeof(rules) / sizeof(rules[0]));
    if (!error)
        error = deny_personality(filter);
    if (error || !no_userns)
        return error;
    error = deny_all(filter, userns_rules, sizeof(userns_rules) / sizeof(userns_rules[0]));
    /* Its flags are in memory, where no filter can look; the C library then uses clone. */
    return error ? error : deny(filter, ENOSYS, &(struct rule){.name = "clone3"});
}

int seccomp_filter(bool no_userns, struct error *err)
{
    CLEANUP_FD int fd = memfd_create("sandpit-filter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_errno(err, errno, "memfd for the system call filter");
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int error = filter ? fill(filter, no_userns) : -ENOMEM;
    if (!error)
        error = seccomp_export_bpf(filter, fd);
    seccomp_release(filter);
    if (error)
        return error_errno(err, -error, "system call filter");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, errno, "seal the system call filter");
    return steal_fd(&fd);
}
