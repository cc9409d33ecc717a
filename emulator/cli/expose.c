#include "cli/expose.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/image.h"
#include "config/npm.h"

static void add(struct expose *to, uint16_t first, uint16_t last)
{
    if (to->count == EXPOSE_PORTS_MAX)
        return;
    to->ports[to->count].first = first;
    to->ports[to->count].last = last;
    to->count++;
}

static void add_ports(const struct project_class *from, struct expose *to)
{
    struct image_facts image = image_facts(from->from);
    if (image.sandbox)
        add(to, SANDBOX_PORT, SANDBOX_PORT);
    if (image.opencode)
        add(to, OPENCODE_PORT, OPENCODE_PORT);
    for (size_t i = 0; i < from->facts.port_count; i++) {
        const struct dockerfile_ports *ports = &from->facts.ports[i];
        if (ports->tcp)
            add(to, ports->first, ports->last);
    }
    const char *slash = from->dockerfile ? strrchr(from->dockerfile, '/') : NULL;
    snprintf(to->file, sizeof to->file, "%.63s", slash ? slash + 1 : "");
}

/* What the project was made with. */
static enum expose_rule rule_of_project(const char *sdk_version, const struct project *project,
                                        char *why, size_t size)
{
    struct npm_sdk found = {.where = "--sdk-version", .exact = true};
    const char *name = "wrangler", *free_from = NPM_WRANGLER_FREE;
    bool known = !sdk_version && npm_find(project->dir, "wrangler", &found) &&
                 npm_order(&found, NPM_WRANGLER_FREE) != NPM_OPEN;
    if (!known) {
        name = "@cloudflare/sandbox";
        free_from = NPM_SDK_FREE;
        known = sdk_version || npm_find_sdk(project->dir, &found);
    }
    if (sdk_version)
        snprintf(found.version, sizeof found.version, "%.31s", sdk_version);
    if (!known) {
        snprintf(why, size,
                 "nothing tells the project's version of wrangler; before " NPM_WRANGLER_FREE
                 " it refuses such a port in local development");
        return EXPOSE_WARN;
    }
    bool old = npm_before(found.version, free_from);
    bool wrangler = strcmp(name, "wrangler") == 0;
    snprintf(why, size, "%s is %s (%s)%s", name, found.version, found.where,
             !old       ? "; since wrangler " NPM_WRANGLER_FREE " no port needs it"
             : wrangler ? ", which refuses such a port"
                        : ", of the time of wrangler before " NPM_WRANGLER_FREE
                          ", which refuses such a port");
    return old ? EXPOSE_STRICT : EXPOSE_WARN;
}

struct expose expose_of_project(const char *option, const char *sdk_version,
                                const struct project *project)
{
    struct expose to = {.rule = EXPOSE_OFF};
    if (option) {
        snprintf(to.why, sizeof to.why, "the option says so");
        to.rule = strcmp(option, "strict") == 0 ? EXPOSE_STRICT
                  : strcmp(option, "warn") == 0 ? EXPOSE_WARN
                                                : EXPOSE_OFF;
    } else if (project->found && *project->classes[0].image) {
        to.rule = rule_of_project(sdk_version, project, to.why, sizeof to.why);
    }
    return to;
}

void expose_choose(const struct expose *rule, const char *option, const struct project_class *from,
                   struct expose *to)
{
    *to = *rule;
    add_ports(from, to);
    if (option || rule->rule != EXPOSE_STRICT)
        return;
    if (!from->dockerfile) {
        to->rule = EXPOSE_WARN;
        snprintf(to->why, sizeof to->why,
                 "the image has no Dockerfile here that could tell its ports");
    } else if (!image_facts(from->from).sandbox) {
        to->rule = EXPOSE_WARN;
        snprintf(to->why, sizeof to->why, "what the image %.80s exposes is not known", from->from);
    }
}

/* The control port is the image's; nobody else can use it. */
static bool exposes_own(const struct expose *expose)
{
    for (size_t i = 0; i < expose->count; i++) {
        if (expose->ports[i].first != SANDBOX_PORT || expose->ports[i].last != SANDBOX_PORT)
            return true;
    }
    return false;
}

void expose_warn(const struct object_class *classes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct expose *expose = &classes[i].expose;
        if (expose->rule == EXPOSE_OFF || !*expose->file || exposes_own(expose))
            continue;
        log_warn("class %s exposes no port of yours: %s will refuse connections to all of them. "
                 "Add EXPOSE lines to %s (%s)",
                 classes[i].name,
                 expose->rule == EXPOSE_STRICT ? "--expose-check=strict"
                                               : "wrangler before " NPM_WRANGLER_FREE,
                 expose->file, expose->why);
    }
}
