#include "drivers/subids.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { LINE_BYTES = 256, COUNT_MAX = 65535 };

static const char *const files[] = {[SUBIDS_UID] = "/etc/subuid", [SUBIDS_GID] = "/etc/subgid"};

/* One line "owner:first:count"; false when it is none. */
static bool parse_line(char *line, const char **owner, struct subids *range)
{
    char *first = strchr(line, ':');
    char *count = first ? strchr(first + 1, ':') : NULL;
    if (!count)
        return false;
    *first++ = '\0';
    *count++ = '\0';
    unsigned long from = strtoul(first, NULL, 10), size = strtoul(count, NULL, 10);
    if (from == 0 || size == 0 || from > UINT32_MAX || size > UINT32_MAX - from)
        return false;
    *owner = line;
    *range = (struct subids){(unsigned)from, (unsigned)size};
    return true;
}

static bool is_caller(const char *owner)
{
    char *end;
    unsigned long uid = strtoul(owner, &end, 10);
    if (end != owner && *end == '\0')
        return uid == getuid();
    struct passwd *account = getpwuid(getuid());
    return account && strcmp(account->pw_name, owner) == 0;
}

int subids_find(enum subids_kind kind, struct subids *range, struct error *err)
{
    CLEANUP_FILE FILE *file = fopen(files[kind], "re");
    char line[LINE_BYTES];
    const char *owner;
    while (file && fgets(line, sizeof(line), file)) {
        if (!parse_line(line, &owner, range) || !is_caller(owner))
            continue;
        if (range->count > COUNT_MAX)
            range->count = COUNT_MAX;
        return 0;
    }
    return error_set(err, ENOENT, "%s gives no ids to this user", files[kind]);
}

bool subids_overlap(enum subids_kind kind, unsigned first, unsigned count)
{
    CLEANUP_FILE FILE *file = fopen(files[kind], "re");
    char line[LINE_BYTES];
    const char *owner;
    struct subids range;
    while (file && fgets(line, sizeof(line), file)) {
        if (parse_line(line, &owner, &range) && range.first < first + count &&
            first < range.first + range.count)
            return true;
    }
    return false;
}

int subids_map(const char *program, int pid, unsigned self, const struct subids *range,
               struct error *err)
{
    char text[4][16];
    snprintf(text[0], sizeof(text[0]), "%d", pid);
    snprintf(text[1], sizeof(text[1]), "%u", self);
    snprintf(text[2], sizeof(text[2]), "%u", range->first);
    snprintf(text[3], sizeof(text[3]), "%u", range->count);
    const char *argv[] = {program, text[0], "0", text[1], "1", "1", text[2], text[3], NULL};
    char *env[] = {NULL};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child;
    int error = posix_spawnp(&child, program, &quiet, NULL, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&quiet);
    if (error)
        return error_errno(err, error, "%s", program);
    int status = 0;
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_set(err, EPERM, "%s could not map the subordinate ids", program);
    return 0;
}
