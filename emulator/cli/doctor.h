/* What `doctor` shows, and what `dev` says of it. */
#ifndef SANDPIT_CLI_DOCTOR_H
#define SANDPIT_CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "config/machine.h"

/* The page that explains a finding, without its id. */
#define DOCTOR_DOCS "docs/doctor.md#"

/* How severities look and are called, by enum machine_severity. */
struct doctor_mark {
    const char *mark, *colour, *word;
};
extern const struct doctor_mark doctor_marks[];

enum { DOCTOR_CLEAN = 0, DOCTOR_FINDINGS = 1, DOCTOR_COULD_NOT_RUN = 2 };

/* A line for each check, the fix below a finding, and a closing line. */
int doctor_text(struct buf *to, const struct machine_check *checks,
                const struct machine_result *results, size_t count, bool colours);
/* {ok, checks: [{id, title, result, severity, reason, fix, docs}]}; a new reference. */
json_t *doctor_json(const struct machine_check *checks, const struct machine_result *results,
                    size_t count);
/* DOCTOR_FINDINGS with an error or a warning, else DOCTOR_COULD_NOT_RUN when that befell a check,
 * else DOCTOR_CLEAN. */
int doctor_status(const struct machine_result *results, size_t count);

/* Logs what the quick checks found, a line for each error and warning. Takes a millisecond. */
void doctor_warn(void);
/* Why a container may not have started, or NULL; malloc'd. `error` is what was said of it. Blocks
 * for at most 200 ms, and remembers each answer for 30 s. */
char *doctor_hint(void *arg, const char *error);

#endif
