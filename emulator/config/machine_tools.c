/* Programs: bubblewrap, the tools of the image; and Docker, which is not needed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/machine_internal.h"

/* Only one among the system's programs can be used: containers are made where just those show. */
static bool find_bubblewrap(const struct machine *machine, char to[PATH_MAX])
{
    size_t root = strlen(machine->root);
    struct machine usual = *machine;
    usual.path = "/usr/bin:/bin";
    return (machine_program(machine, "bwrap", to) &&
            (strncmp(to + root, "/usr/", 5) == 0 || strncmp(to + root, "/bin/", 5) == 0)) ||
           machine_program(&usual, "bwrap", to);
}

/* What bubblewrap says when it is not allowed to work. */
static const struct {
    const char *says, *means, *fix;
} refusals[] = {
    {"RTM_NEWADDR", "AppArmor takes its rights away",
     "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
    {"uid map: Permission denied", "AppArmor takes its rights away",
     "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
    {"mount proc", "parts of /proc are covered, as in a container",
     "docker run --security-opt systempaths=unconfined …"},
    {"No permissions to create", "it may not make user namespaces",
     "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
    {"new namespace failed", "it may not make namespaces",
     "docker run --privileged … in a container; else see user-namespaces"},
};

static void refused(const char *says, int status, struct machine_result *result)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (!strstr(says, refusals[i].says))
            continue;
        machine_find(result, MACHINE_ERROR, "bubblewrap starts nothing: %s (%.160s)",
                     refusals[i].means, says);
        machine_fix(result, "%s", refusals[i].fix);
        return;
    }
    machine_find(result, MACHINE_ERROR, "bubblewrap starts nothing: %.200s%s",
                 *says ? says : "exit status ", *says ? "" : (status < 0 ? "none" : "not 0"));
    machine_fix(result, "see user-namespaces and kernel above");
}

void machine_check_bubblewrap(const struct machine *machine, struct machine_result *result)
{
    static const struct machine_package package = {"bubblewrap", "bubblewrap", "bubblewrap",
                                                   "bubblewrap"};
    char program[PATH_MAX], text[512], version[64];
    if (!find_bubblewrap(machine, program)) {
        machine_find(result, MACHINE_ERROR, "bubblewrap (bwrap) is not installed");
        machine_install(machine, &package, 1, text, sizeof text);
        machine_fix(result, "%s", text);
        return;
    }
    int status = machine_capture((const char *[]){program, "--version", NULL}, text, sizeof text);
    if (status != 0 || strncmp(text, "bubblewrap ", 11) != 0) {
        machine_find(result, MACHINE_ERROR, "'%.200s' is no bubblewrap: it says %.64s", program,
                     *text ? text : "nothing");
        machine_fix(result, "put the real bwrap first in PATH");
        return;
    }
    snprintf(version, sizeof version, "%.*s", (int)strcspn(text + 11, " \n"), text + 11);
    const char *const argv[] = {program,
                                "--ro-bind",
                                "/",
                                "/",
                                "--dev",
                                "/dev",
                                "--proc",
                                "/proc",
                                "--unshare-pid",
                                "--unshare-net",
                                "--unshare-ipc",
                                "--die-with-parent",
                                "--",
                                program,
                                "--version",
                                NULL};
    status = machine_capture(argv, text, sizeof text);
    if (status != 0)
        refused(text, status, result);
    else
        machine_ok(result, "%s starts processes in namespaces of their own", version);
}

/* --- The links of a root ---------------------------------------------------------------------- */

/* Lets bubblewrap make a directory below `etc` of a root; 1 when that is in `where` afterwards. */
static int makes_in(const char *program, const char *root, const char *where)
{
    char text[256], made[PATH_MAX];
    const char *const argv[] = {
        program, "--bind",   root, "/", "--dir", "/etc/made", "--die-with-parent",
        "--",    "/nothing", NULL};
    int status = machine_capture(argv, text, sizeof text);
    if (status < 0)
        return status;
    if (snprintf(made, sizeof made, "%s/made", where) >= (int)sizeof made)
        return -ENAMETOOLONG;
    return rmdir(made) == 0;
}

/* While bubblewrap builds a sandbox, this machine's own root is at /oldroot: a link of the image
 * that leads there shows whether it is followed. The first call shows that it works at all. */
static int follows_links(const char *program, const char *scratch)
{
    char plain[PATH_MAX], plain_etc[PATH_MAX], linked[PATH_MAX], link[PATH_MAX], outside[PATH_MAX];
    char target[PATH_MAX];
    if (strlen(scratch) > PATH_MAX - 64)
        return -ENAMETOOLONG;
    snprintf(plain, sizeof plain, "%s/plain", scratch);
    snprintf(plain_etc, sizeof plain_etc, "%s/plain/etc", scratch);
    snprintf(linked, sizeof linked, "%s/linked", scratch);
    snprintf(link, sizeof link, "%s/linked/etc", scratch);
    snprintf(outside, sizeof outside, "%s/outside", scratch);
    snprintf(target, sizeof target, "/oldroot%s/outside", scratch);
    if (mkdir(plain, 0700) < 0 || mkdir(plain_etc, 0700) < 0 || mkdir(linked, 0700) < 0 ||
        mkdir(outside, 0700) < 0 || symlink(target, link) < 0)
        return -errno;
    int works = makes_in(program, plain, plain_etc);
    if (works <= 0)
        return works ? works : -EOPNOTSUPP;
    return makes_in(program, linked, outside);
}

void machine_check_links(const struct machine *machine, struct machine_result *result)
{
    char program[PATH_MAX];
    if (!find_bubblewrap(machine, program)) {
        machine_could_not(result, "bubblewrap is not installed");
        return;
    }
    int follows = follows_links(program, machine->scratch);
    if (follows < 0)
        machine_could_not(result, "%s",
                          follows == -EOPNOTSUPP ? "bubblewrap starts nothing"
                                                 : strerrordesc_np(-follows));
    else if (follows == 0)
        machine_ok(result, "does not follow links of the root (tried)");
    else {
        machine_find(result, MACHINE_INFO,
                     "follows links of the root (CVE-2026-87766); sandpit prepares its roots so "
                     "that it has none");
        machine_fix(result, "nothing is needed for sandpit; bubblewrap 0.12 does not follow them");
    }
}

/* --- Tools of the image ----------------------------------------------------------------------- */

static const struct {
    const char *tool;
    struct machine_package package;
} packages[] = {
    {"bash", {"bash", "bash", "bash", "bash"}},
    {"git", {"git", "git", "git", "git"}},
    {"curl", {"curl", "curl", "curl", "curl"}},
    {"wget", {"wget", "wget", "wget", "wget"}},
    {"jq", {"jq", "jq", "jq", "jq"}},
    {"file", {"file", "file", "file", "file"}},
    {"ps", {"procps", "procps-ng", "procps-ng", "procps"}},
    {"unzip", {"unzip", "unzip", "unzip", "unzip"}},
    {"zip", {"zip", "zip", "zip", "zip"}},
    {"node", {"nodejs", "nodejs", "nodejs", "nodejs"}},
    {"npm", {"npm", "nodejs-npm", "npm", "npm"}},
    {"npx", {"npm", "nodejs-npm", "npm", "npm"}},
    {"bun", {NULL, NULL, NULL, NULL}},
    {"python3", {"python3", "python3", "python", "python3"}},
    {"inotifywait", {"inotify-tools", "inotify-tools", "inotify-tools", "inotify-tools"}},
};

static bool names(const char *list, const char *tool)
{
    size_t length = strlen(tool);
    for (const char *at = list; *at; at += strspn(at, ", ")) {
        size_t size = strcspn(at, ", ");
        if (size == length && strncmp(at, tool, size) == 0)
            return true;
        at += size;
    }
    return false;
}

void machine_check_tools(const struct machine *machine, struct machine_result *result)
{
    enum { ROWS = sizeof packages / sizeof *packages };
    struct machine_package wanted[ROWS];
    char missing[256], install[256];
    struct error err = {0};
    if (!machine->missing_tools) {
        machine_could_not(result, "nobody knows the image");
        return;
    }
    if (machine->missing_tools(machine->scratch, missing, sizeof missing, &err) < 0) {
        machine_could_not(result, "%s", err.text);
        return;
    }
    if (!*missing) {
        machine_ok(result, "all are here");
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (names(missing, packages[i].tool))
            wanted[count++] = packages[i].package;
    }
    bool shell = names(missing, "bash");
    machine_find(result, shell ? MACHINE_ERROR : MACHINE_INFO,
                 "not on this host, so not in sandboxes: %s%s", missing,
                 shell ? " (without bash no command runs)" : "");
    machine_install(machine, wanted, count, install, sizeof install);
    if (*install)
        machine_fix(result, "%s", install);
    else
        machine_fix(result, "put them on PATH when your sandboxes use them");
}

/* --- Docker ----------------------------------------------------------------------------------- */

void machine_check_docker(const struct machine *machine, struct machine_result *result)
{
    static const char path[] = "/var/run/docker.sock";
    char full[PATH_MAX];
    machine_path(machine, path, full);
    if (access(full, R_OK | W_OK) == 0)
        machine_ok(result, "%s is there; sandpit does without it", path);
    else if (errno == EACCES || errno == EPERM)
        machine_find(result, MACHINE_INFO,
                     "%s is there but not for this user; sandpit does without it", path);
    else
        machine_ok(result, "none; sandpit does without it");
}
