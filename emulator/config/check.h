/* What can be wrong with a project, seen before anything runs: one table of checks. Each finding
 * says where it is, why it matters and, where that can be told, what to change as a diff. */
#ifndef SANDPIT_CONFIG_CHECK_H
#define SANDPIT_CONFIG_CHECK_H

#include "config/machine.h"
#include "config/place.h"

struct inspection;

struct project_check {
    const char *id; /* also the heading in docs/doctor.md */
    enum machine_severity severity;
    void (*run)(struct inspection *inspection, const struct project_check *check);
};

struct finding {
    const struct project_check *check;
    enum machine_severity severity; /* mostly the check's */
    char file[128];                 /* below the project's directory; "" = none */
    struct place place;             /* line 0 = the file as a whole */
    char reason[512];
    char *fix; /* a diff, or NULL */
};

struct findings {
    struct finding *list;
    size_t count;
};

extern const struct project_check project_checks[];
extern const size_t project_check_count;

/* Looks at the project in `dir` as the environment (NULL = none) has it, with a configuration file
 * or NULL. In the order of files and lines. -ENOMEM, or 0: what cannot be read is a finding. */
int project_inspect(const char *dir, const char *config_file, const char *environment,
                    struct findings *to);
void findings_free(struct findings *findings);
#define CLEANUP_FINDINGS __attribute__((cleanup(findings_free)))

#endif
