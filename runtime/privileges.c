#include "runtime/runtime.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* What we have at the start is all that a process here may ever have. bubblewrap leaves the
 * bounding set full and hands capabilities on as inheritable and ambient, which a container's root
 * needs as little as Docker's does. Without the right to change them they stay: there are none,
 * then. */
void privileges_limit(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {0};

    if (syscall(SYS_capget, &header, sets) < 0)
        return;
    for (int number = 0; prctl(PR_CAPBSET_READ, number) >= 0; number++)
        if (!(sets[number / 32].permitted & 1U << number % 32))
            prctl(PR_CAPBSET_DROP, number);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    sets[0].inheritable = sets[1].inheritable = 0;
    syscall(SYS_capset, &header, sets);
}
