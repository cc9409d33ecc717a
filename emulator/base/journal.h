/* The gate through which every outside effect passes once: accepted requests, clock calls, faults
 * and process exits. With a journal file open, each becomes one JSON line; without one, nothing. */
#ifndef SANDPIT_BASE_JOURNAL_H
#define SANDPIT_BASE_JOURNAL_H

#include <stdbool.h>

#include "base/error.h"

enum journal_kind { JOURNAL_REQUEST, JOURNAL_CLOCK, JOURNAL_FAULT, JOURNAL_EXIT };

/* Appends to `path`, created 0600. One journal for the process. */
int journal_open(const char *path, struct error *err);
void journal_close(void);
bool journal_is_open(void);
/* `subject` is the sandbox id or "", `what` one line such as "POST /api/execute". */
void journal_note(enum journal_kind kind, long long at_ms, const char *subject, const char *what);

#endif
