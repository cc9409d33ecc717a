/* What bubblewrap is told for every container. */
#include <string.h>
#include <unistd.h>

#include "drivers/chain.h"
#include "drivers/starter.h"

/* Docker's default capabilities less MKNOD, NET_RAW and AUDIT_WRITE: enough for package managers
 * and servers, none that reaches the host or lets a process look into PID 1. */
#define CAPABILITY(name) "--cap-add", "CAP_" name

static const char *const fixed[] = {
    /* clang-format off */
    "--proc", "/proc",
    "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
    "--die-with-parent", "--as-pid-1",
    "--seccomp", "5",
    "--cap-drop", "ALL",
    CAPABILITY("CHOWN"), CAPABILITY("DAC_OVERRIDE"), CAPABILITY("FSETID"), CAPABILITY("FOWNER"),
    CAPABILITY("SETGID"), CAPABILITY("SETUID"), CAPABILITY("SETFCAP"), CAPABILITY("SETPCAP"),
    CAPABILITY("NET_BIND_SERVICE"), CAPABILITY("SYS_CHROOT"), CAPABILITY("KILL"),
    "--chdir", "/",
    /* clang-format on */
};
static const char *const dev[] = {"--dev", "/dev"};
static const char *const program[] = {"--", "/proc/self/fd/4", NULL};
_Static_assert(CHAIN_RUNTIME_FD == 4 && CHAIN_FILTER_FD == 5, "numbers in the arguments");

/* Parts of /proc that are not a container's: root may write the kernel's settings without any
 * capability, and some files tell of the whole machine. As Docker does it. */
enum masked { READ_ONLY, EMPTY_FILE, EMPTY_DIR };
static const struct {
    const char *path;
    enum masked masked;
} masks[] = {
    {"/proc/sys", READ_ONLY},          {"/proc/sysrq-trigger", READ_ONLY},
    {"/proc/bus", READ_ONLY},          {"/proc/irq", READ_ONLY},
    {"/proc/fs", READ_ONLY},           {"/proc/kcore", EMPTY_FILE},
    {"/proc/keys", EMPTY_FILE},        {"/proc/latency_stats", EMPTY_FILE},
    {"/proc/timer_list", EMPTY_FILE},  {"/proc/timer_stats", EMPTY_FILE},
    {"/proc/sched_debug", EMPTY_FILE}, {"/proc/acpi", EMPTY_DIR},
    {"/proc/scsi", EMPTY_DIR},         {"/proc/asound", EMPTY_DIR},
};
enum { MASK_WORDS = 4 };

_Static_assert(sizeof(fixed) / sizeof(fixed[0]) + sizeof(dev) / sizeof(dev[0]) +
                       sizeof(program) / sizeof(program[0]) +
                       MASK_WORDS * (sizeof(masks) / sizeof(masks[0])) <=
                   STARTER_ARGUMENTS,
               "room for the arguments");

static size_t add_mask(const char **to, const char *path, enum masked masked)
{
    switch (masked) {
    case READ_ONLY:
        memcpy(to, (const char *[]){"--ro-bind", path, path}, 3 * sizeof(*to));
        return 3;
    case EMPTY_FILE:
        memcpy(to, (const char *[]){"--dev-bind", "/dev/null", path}, 3 * sizeof(*to));
        return 3;
    case EMPTY_DIR:
        memcpy(to, (const char *[]){"--tmpfs", path, "--remount-ro", path}, 4 * sizeof(*to));
        return 4;
    }
    return 0;
}

void starter_arguments(const char *to[STARTER_ARGUMENTS], bool with_dev)
{
    size_t count = 0;
    if (with_dev) {
        memcpy(to, dev, sizeof(dev));
        count += sizeof(dev) / sizeof(dev[0]);
    }
    memcpy(to + count, fixed, sizeof(fixed));
    count += sizeof(fixed) / sizeof(fixed[0]);
    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        if (access(masks[i].path, F_OK) == 0)
            count += add_mask(to + count, masks[i].path, masks[i].masked);
    }
    memcpy(to + count, program, sizeof(program));
}
