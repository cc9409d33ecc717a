/* Results, files, programs and packages: what all checks use. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/machine_internal.h"

/* --- Results ---------------------------------------------------------------------------------- */

static void write_line(char *to, size_t size, const char *format, va_list args)
{
    vsnprintf(to, size, format, args);
    for (; *to; to++) {
        if ((unsigned char)*to < ' ' || *to == 0x7f)
            *to = ' ';
    }
}

void machine_ok(struct machine_result *result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *result = (struct machine_result){.outcome = MACHINE_OK};
    write_line(result->reason, sizeof result->reason, format, args);
    va_end(args);
}

void machine_find(struct machine_result *result, enum machine_severity severity, const char *format,
                  ...)
{
    va_list args;
    va_start(args, format);
    *result = (struct machine_result){.outcome = MACHINE_FINDING, .severity = severity};
    write_line(result->reason, sizeof result->reason, format, args);
    va_end(args);
}

void machine_fix(struct machine_result *result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(result->fix, sizeof result->fix, format, args);
    va_end(args);
}

void machine_could_not(struct machine_result *result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *result = (struct machine_result){.outcome = MACHINE_COULD_NOT_RUN};
    write_line(result->reason, sizeof result->reason, format, args);
    va_end(args);
}

/* --- Files ------------------------------------------------------------------------------------ */

void machine_path(const struct machine *machine, const char *path, char to[PATH_MAX])
{
    snprintf(to, PATH_MAX, "%s%s", machine->root, path);
}

ssize_t machine_read(const struct machine *machine, const char *path, char *to, size_t size)
{
    char full[PATH_MAX];
    size_t used = 0;
    machine_path(machine, path, full);
    to[0] = '\0';
    CLEANUP_FD int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    while (used + 1 < size) {
        ssize_t got = read(fd, to + used, size - 1 - used);
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    while (used > 0 && (to[used - 1] == '\n' || to[used - 1] == ' '))
        used--;
    to[used] = '\0';
    return (ssize_t)used;
}

long machine_number(const struct machine *machine, const char *path, long otherwise)
{
    char text[32], *end;
    if (machine_read(machine, path, text, sizeof text) <= 0)
        return otherwise;
    long number = strtol(text, &end, 10);
    return *end ? otherwise : number;
}

bool machine_has(const struct machine *machine, const char *path)
{
    char full[PATH_MAX];
    machine_path(machine, path, full);
    return access(full, F_OK) == 0;
}

bool machine_contained(const struct machine *machine)
{
    return machine_has(machine, "/.dockerenv") || machine_has(machine, "/run/.containerenv");
}

bool machine_program(const struct machine *machine, const char *name, char to[PATH_MAX])
{
    struct stat status;
    for (const char *at = machine->path; *at;) {
        size_t size = strcspn(at, ":");
        int length = snprintf(to, PATH_MAX, "%s%.*s/%s", machine->root, (int)size, at, name);
        if (*at == '/' && length < PATH_MAX && stat(to, &status) == 0 && S_ISREG(status.st_mode) &&
            access(to, X_OK) == 0)
            return true;
        at += size + (at[size] == ':');
    }
    return false;
}

/* --- Packages --------------------------------------------------------------------------------- */

static const struct manager {
    const char *program, *install;
    size_t column; /* in struct machine_package */
} managers[] = {
    {"/usr/bin/apt-get", "apt install", offsetof(struct machine_package, apt)},
    {"/usr/bin/dnf", "dnf install", offsetof(struct machine_package, dnf)},
    {"/usr/bin/pacman", "pacman -S", offsetof(struct machine_package, pacman)},
    {"/sbin/apk", "apk add", offsetof(struct machine_package, apk)},
};

static const char *package_name(const struct machine_package *package, size_t column)
{
    return *(const char *const *)((const char *)package + column);
}

static bool has_word(const char *line, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = line; (at = strstr(at, word)); at++) {
        if (at > line && at[-1] == ' ' && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

void machine_install(const struct machine *machine, const struct machine_package *packages,
                     size_t count, char *to, size_t size)
{
    const struct manager *manager = NULL;
    for (size_t i = 0; !manager && i < sizeof managers / sizeof *managers; i++) {
        if (machine_has(machine, managers[i].program))
            manager = &managers[i];
    }
    size_t used = 0;
    to[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        const char *name = package_name(&packages[i], manager ? manager->column : 0);
        if (!name || has_word(to, name))
            continue;
        if (used == 0)
            used = (size_t)snprintf(to, size, "%s%s", machine->uid == 0 || !manager ? "" : "sudo ",
                                    manager ? manager->install : "install");
        if (used < size)
            used += (size_t)snprintf(to + used, size - used, " %s", name);
    }
}

/* --- Processes -------------------------------------------------------------------------------- */

static void keep_output(int fd, char *to, size_t size)
{
    char rest[256];
    size_t used = 0;
    for (;;) {
        size_t room = size - 1 - used;
        ssize_t got = read(fd, room ? to + used : rest, room ? room : sizeof rest);
        if (got <= 0)
            break;
        used += room ? (size_t)got : 0;
    }
    while (used > 0 && (to[used - 1] == '\n' || to[used - 1] == ' '))
        used--;
    to[used] = '\0';
}

int machine_capture(const char *const *argv, char *to, size_t size)
{
    int pair[2], status;
    to[0] = '\0';
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(null, STDIN_FILENO);
        dup2(pair[1], STDOUT_FILENO);
        dup2(pair[1], STDERR_FILENO);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    int error = errno;
    close(pair[1]);
    if (pid > 0)
        keep_output(pair[0], to, size);
    close(pair[0]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return pid < 0 ? -error : -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int machine_in_child(int (*try)(const struct machine *machine), const struct machine *machine)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int error = -try(machine);
        _exit(error < 0 || error > 127 ? EPROTO : error);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
