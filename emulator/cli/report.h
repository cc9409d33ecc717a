/* The report of GET /cdn-cgi/local/report for people: what was not cleaned up, and what it cost. */
#ifndef SANDPIT_CLI_REPORT_H
#define SANDPIT_CLI_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/client.h"

/* A new reference, or NULL with the error. */
json_t *report_fetch(const struct client *client, struct error *err);
bool report_is_clean(const json_t *report);
/* Nothing when no container was ever there. */
void report_print(const json_t *report, FILE *to);

#endif
