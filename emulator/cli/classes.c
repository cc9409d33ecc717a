#include "cli/classes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/expose.h"
#include "cli/networks.h"

static int make(const struct class_options *options, const struct expose *rule,
                const struct project_class *from, struct object_class *to, struct error *err)
{
    snprintf(to->name, sizeof to->name, "%s", from->name);
    snprintf(to->version, sizeof to->version, "%s",
             *from->version ? from->version : DEFAULT_VERSION);
    to->python = from->python;
    to->max_instances = from->max_instances;
    to->env = from->facts.env;
    expose_choose(rule, options->expose_check, from, &to->expose);
    int result = limits_choose(options->limits, from, to, err);
    return result < 0 ? result : networks_choose(options->network, from, to, err);
}

int classes_make(const struct class_options *options, const struct project *project,
                 struct object_class **to, struct error *err)
{
    struct object_class *classes = calloc(project->class_count, sizeof *classes);
    *to = classes;
    if (!classes)
        return error_errno(err, ENOMEM, "classes");
    const struct expose rule =
        expose_of_project(options->expose_check, options->platform->sdk_version, project);
    for (size_t i = 0; i < project->class_count; i++) {
        int result = make(options, &rule, &project->classes[i], &classes[i], err);
        if (result < 0)
            return result;
    }
    return platform_versions(options->platform, project, classes, err);
}
