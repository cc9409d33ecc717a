/* What the checks say while an emulator runs: at its start, and when a container does not start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "cli/doctor.h"

enum { CAUSES_MAX = 4, HINT_MS = 200, REMEMBER_S = 30 };

void doctor_warn(void)
{
    struct machine machine = machine_here();
    machine.quick = true;
    for (size_t i = 0; i < machine_check_count; i++) {
        struct machine_result result = {0};
        if (!(machine_checks[i].flags & MACHINE_QUICK))
            continue;
        machine_checks[i].run(&machine, &result);
        if (result.severity >= MACHINE_WARNING)
            log_warn("%s; fix: %s", result.reason, result.fix);
    }
}

static long long seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* The likeliest cause that is really there. */
static void look(const char *error, char *to, size_t size)
{
    struct machine_check checks[CAUSES_MAX];
    struct machine_result results[CAUSES_MAX];
    struct machine machine = machine_here();
    size_t count = machine_checks_for(error, checks, CAUSES_MAX);
    machine_run(&machine, checks, count, results, HINT_MS);
    for (size_t i = 0; i < count; i++) {
        if (results[i].severity < MACHINE_WARNING)
            continue;
        snprintf(to, size, "%s; fix: %s (" DOCTOR_DOCS "%s)", results[i].reason, results[i].fix,
                 checks[i].id);
        return;
    }
    snprintf(to, size, "`sandpit doctor` tells what this machine lacks");
}

/* A thousand starts that fail for the same reason look once. */
char *doctor_hint(void *arg, const char *error)
{
    static char last_error[512], hint[1024];
    static long long last_at;
    bool same = *hint && strncmp(error, last_error, sizeof last_error - 1) == 0;
    if (!same || seconds() - last_at >= REMEMBER_S) {
        snprintf(last_error, sizeof last_error, "%s", error);
        look(error, hint, sizeof hint);
        last_at = seconds();
    }
    return strdup(hint);
}
