/* What the files that read a project share. */
#ifndef SANDPIT_CONFIG_WRANGLER_INTERNAL_H
#define SANDPIT_CONFIG_WRANGLER_INTERNAL_H

#include "config/wrangler.h"

/* wrangler_class.c: the container classes. */
int project_classes(struct project *project, struct error *err);
int project_builtin_class(struct project *project, struct error *err);
struct project_class *project_class(struct project *project, const char *name);

/* wrangler_worker.c: what the Worker is given, as far as its shape goes. */
int project_worker(struct project *project, struct error *err);
/* Our own section, which wrangler passes over with a warning. */
int project_own(struct project *project, struct error *err);

#endif
