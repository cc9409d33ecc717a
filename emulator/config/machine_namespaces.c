/* What a container is made of: the kernel's calls, namespaces, mounts. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/machine_internal.h"

#define APPARMOR "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define MAX_NAMESPACES "/proc/sys/user/max_user_namespaces"
#define CLONE_SWITCH "/proc/sys/kernel/unprivileged_userns_clone"

static const char apparmor_fix[] = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
                                   " (or the profile in docs/doctor.md#apparmor)";
static const char contained_user_fix[] =
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    " --security-opt systempaths=unconfined …";
static const char contained_root_fix[] = "docker run --privileged …";

static const char *text_of(int error)
{
    const char *text = strerrordesc_np(-error);
    return text ? text : "unknown error";
}

static const char *contained_fix(const struct machine *machine)
{
    return machine->uid == 0 ? contained_root_fix : contained_user_fix;
}

void machine_check_kernel(const struct machine *machine, struct machine_result *result)
{
    char release[128];
    if (machine_read(machine, "/proc/sys/kernel/osrelease", release, sizeof release) <= 0)
        snprintf(release, sizeof release, "of unknown version");
    const char *missing = machine->tries->missing_call(machine);
    if (!missing) {
        machine_ok(result, "Linux %s has openat2, close_range and pidfds", release);
        return;
    }
    machine_find(result, MACHINE_ERROR, "Linux %s lacks %s, or forbids it", release, missing);
    if (machine_contained(machine))
        machine_fix(result, "docker run --security-opt seccomp=unconfined …");
    else
        machine_fix(result, "start a kernel of 5.9 or newer");
}

/* --- User namespaces -------------------------------------------------------------------------- */

/* Root goes on without them, and its sandboxes are then no boundary; others cannot start any. */
static enum machine_severity without_namespaces(const struct machine *machine)
{
    return machine->uid == 0 ? MACHINE_WARNING : MACHINE_ERROR;
}

static bool switched_off(const struct machine *machine, struct machine_result *result)
{
    if (machine_number(machine, MAX_NAMESPACES, 1) == 0) {
        machine_find(result, without_namespaces(machine),
                     "user namespaces are switched off: user.max_user_namespaces is 0");
        machine_fix(result, "sudo sysctl -w user.max_user_namespaces=15000");
        return true;
    }
    if (machine->uid != 0 && machine_number(machine, CLONE_SWITCH, 1) == 0) {
        machine_find(result, MACHINE_ERROR,
                     "only root may make user namespaces: kernel.unprivileged_userns_clone is 0");
        machine_fix(result, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
        return true;
    }
    return false;
}

static bool restricted(const struct machine *machine)
{
    return machine->uid != 0 && machine_number(machine, APPARMOR, 0) != 0;
}

static void namespaces_refused(const struct machine *machine, int error,
                               struct machine_result *result)
{
    if (restricted(machine)) {
        machine_find(result, MACHINE_ERROR,
                     "AppArmor lets programs make user namespaces but not use them");
        machine_fix(result, apparmor_fix);
        return;
    }
    machine_find(
        result, without_namespaces(machine), "no user namespace can be used: %s%s", text_of(error),
        machine_contained(machine) ? " (this is a container, whose filter forbids it)" : "");
    if (machine_contained(machine))
        machine_fix(result, "%s", contained_fix(machine));
    else if (error == -EINVAL || error == -ENOSYS)
        machine_fix(result, "start a kernel with CONFIG_USER_NS");
    else if (error == -ENOSPC || error == -EUSERS)
        machine_fix(result, "sudo sysctl -w user.max_user_namespaces=15000 "
                            "user.max_mnt_namespaces=15000");
    else
        machine_fix(result, "allow unshare(CLONE_NEWUSER) to this user: a seccomp filter, SELinux "
                            "or another security module forbids it");
}

void machine_check_user_namespaces(const struct machine *machine, struct machine_result *result)
{
    if (switched_off(machine, result))
        return;
    if (machine->quick) {
        machine_ok(result, "not switched off");
        return;
    }
    int error = machine->tries->user_namespace(machine);
    if (error)
        namespaces_refused(machine, error, result);
    else
        machine_ok(result, "one was made and mounted in");
}

void machine_check_apparmor(const struct machine *machine, struct machine_result *result)
{
    if (machine_number(machine, APPARMOR, 0) == 0)
        machine_ok(result, "does not restrict user namespaces");
    else if (machine->uid == 0)
        machine_ok(result, "restricts user namespaces of others, not of root");
    else if (machine->tries->user_namespace(machine) == 0)
        machine_ok(result, "restricts user namespaces, but not those of this program");
    else {
        machine_find(result, MACHINE_ERROR,
                     "AppArmor forbids the user namespaces that sandboxes are made of "
                     "(Ubuntu since 23.10)");
        machine_fix(result, apparmor_fix);
    }
}

/* --- Subordinate ids -------------------------------------------------------------------------- */

/* Whether a line of the file begins with the name or the number. */
static bool listed(const struct machine *machine, const char *path, const char *name)
{
    char text[16384], number[16];
    snprintf(number, sizeof number, "%u", machine->uid);
    if (machine_read(machine, path, text, sizeof text) <= 0)
        return false;
    for (const char *line = text; *line; line += *line == '\n') {
        size_t owner = strcspn(line, ":\n");
        if ((strlen(name) == owner && strncmp(line, name, owner) == 0) ||
            (strlen(number) == owner && strncmp(line, number, owner) == 0))
            return true;
        line += strcspn(line, "\n");
    }
    return false;
}

void machine_check_subids(const struct machine *machine, struct machine_result *result)
{
    static const struct machine_package package = {"uidmap", "shadow-utils", "shadow",
                                                   "shadow-subids"};
    char path[PATH_MAX], install[128];
    if (machine->uid == 0) {
        machine_ok(result, "root needs none");
        return;
    }
    const struct passwd *user = getpwuid(machine->uid);
    const char *name = user ? user->pw_name : "$USER";
    bool listed_both = listed(machine, "/etc/subuid", name) && listed(machine, "/etc/subgid", name);
    bool programs =
        machine_program(machine, "newuidmap", path) && machine_program(machine, "newgidmap", path);
    if (programs && listed_both) {
        machine_ok(result, "newuidmap is there and this user has ids");
        return;
    }
    machine_find(result, MACHINE_INFO,
                 "%s: sandboxes of this user know one user id only, so chown in them fails",
                 programs ? "this user has no lines in /etc/subuid and /etc/subgid"
                          : "newuidmap is not installed");
    if (programs)
        machine_fix(result,
                    "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s",
                    name);
    else {
        machine_install(machine, &package, 1, install, sizeof install);
        machine_fix(result, "%s", install);
    }
}

/* --- Mounts ----------------------------------------------------------------------------------- */

void machine_check_overlay(const struct machine *machine, struct machine_result *result)
{
    const char *where = machine->uid == 0 ? "as root" : "in a user namespace";
    if (machine->uid != 0 && switched_off(machine, result))
        return;
    int error = machine->tries->overlay(machine);
    if (error == 0) {
        machine_ok(result, "one was mounted %s", where);
        return;
    }
    /* An ordinary user's sandboxes go on without. */
    machine_find(result, machine->uid == 0 ? MACHINE_ERROR : MACHINE_WARNING,
                 "no overlay can be mounted %s: %s%s", where, text_of(error),
                 machine->uid == 0 ? "" : "; /usr is read-only in sandboxes");
    if (error == -ENODEV)
        machine_fix(result, "sudo modprobe overlay");
    else if (restricted(machine))
        machine_fix(result, apparmor_fix);
    else if (machine_contained(machine))
        machine_fix(result, "%s", contained_fix(machine));
    else if (machine->uid != 0)
        machine_fix(result, "start a kernel of 5.11 or newer, or run sandpit as root");
    else
        machine_fix(result, "give this process CAP_SYS_ADMIN and a kernel with overlayfs");
}

void machine_check_idmapped(const struct machine *machine, struct machine_result *result)
{
    if (machine->uid != 0) {
        machine_ok(result, "needed by root only");
        return;
    }
    int error = machine->tries->idmapped(machine);
    if (error == 0) {
        machine_ok(result, "one was made below an overlay");
        return;
    }
    if (switched_off(machine, result))
        return;
    machine_find(result, MACHINE_WARNING,
                 "no id-mapped mount can be made (%s): root in a sandbox is root of this machine "
                 "with fewer rights",
                 text_of(error));
    if (machine_contained(machine))
        machine_fix(result, "%s", contained_fix(machine));
    else if (error == -EINVAL)
        machine_fix(result, "have /usr on ext4, btrfs or xfs with a kernel of 5.19 or newer");
    else
        machine_fix(result, "start a kernel of 5.19 or newer, with user namespaces");
}
