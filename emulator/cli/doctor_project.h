/* What `sandpit doctor` and `sandpit dev` say about a project. */
#ifndef SANDPIT_CLI_DOCTOR_PROJECT_H
#define SANDPIT_CLI_DOCTOR_PROJECT_H

#include <jansson.h>

#include "base/buf.h"
#include "config/check.h"

/* 0 when there is neither an error nor a warning, else 1. */
int doctor_project_status(const struct findings *findings);
int doctor_project_text(struct buf *to, const struct findings *findings, bool colours);
/* [{id, severity, file, line, column, reason, fix, docs}]; new reference. */
json_t *doctor_project_json(const struct findings *findings);
/* The short form: a line for each of the first few errors and warnings. */
void doctor_project_warn(const char *dir, const char *config_file, const char *environment);

#endif
