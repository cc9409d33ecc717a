#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/dev_internal.h"
#include "cli/networks.h"

static void print_limits(const struct dev *dev)
{
    char text[256];
    for (size_t i = 0; i < dev->project.class_count; i++) {
        limits_text(&dev->classes[i], text, sizeof text);
        printf(" limits of %s: %s\n", dev->classes[i].name, text);
    }
    const char *note = driver_limits_note(dev->driver);
    if (note && !dev->settings.limits.none)
        log_warn("%s", note);
}

/* What of the boundary around sandboxes is not as it should be. */
static void print_boundary(const struct dev *dev)
{
    const char *warning = driver_warning(dev->driver), *limited = driver_limited(dev->driver);
    bool colours = log_colours(STDOUT_FILENO);
    if (warning)
        printf(" %s✘ %s%s\n", colours ? "\x1b[31m" : "", warning, colours ? "\x1b[0m" : "");
    if (limited)
        printf(" %s\n", limited);
}

void dev_print_banner(const struct dev *dev)
{
    const struct project *project = &dev->project;
    printf("\n sandpit %s\n ──────────────\n", SANDPIT_VERSION);
    if (!project->found)
        printf(" no wrangler.jsonc here: one built-in class, Sandbox (with Python)\n");
    else
        printf(" configuration: %s%s\n", project->file,
               project->above ? " (found above this directory)" : "");
    for (size_t i = 0; project->found && i < project->class_count; i++)
        printf(" class %s: %s, version %s, %s\n", dev->classes[i].name,
               *project->classes[i].from ? project->classes[i].from : "built in",
               dev->classes[i].version,
               dev->classes[i].python ? "with Python" : "lean: no Python in the image");
    if (*project->main)
        printf(" the built-in Worker serves; your script %s is not run\n", project->main);
    const char *missing = driver_missing_tools(dev->driver);
    if (missing)
        printf(" %s\n", missing);
    print_boundary(dev);
    print_limits(dev);
    char network[512];
    networks_text(dev->classes, project->class_count, network, sizeof network);
    printf(" %s\n", network);
    printf(" previews: http://{port}-{id}-{token}.localhost:%u; where such names do not resolve "
           "(Safari, many CI machines), use pathUrl or a Host header\n",
           http_port(dev->http));
    printf(" state: %s\n", *dev->state_dir ? dev->state_dir : "none (--ephemeral)");
    if (!dev_is_loopback(dev->settings.ip))
        log_warn("listening on %s: others on the network reach this emulator with the token",
                 dev->settings.ip);
    if (*dev->token)
        printf(" send the header: Authorization: Bearer %s\n", dev->token);
}
