#include "cli/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/image.h"
#include "config/npm.h"

/* A longer one than a day would only hide a mistake. */
enum { COLD_START_MAX_MS = 24 * 3600 * 1000 };

/* A Worker's variable: of the configuration, or of the emulator's own environment. */
static const char *variable(void *arg, const char *name)
{
    const struct project *project = arg;
    const char *value = json_string_value(json_object_get(project->vars, name));
    return value ? value : getenv(name);
}

int platform_choose(const struct platform_options *options, const struct project *project,
                    struct platform_config *to, struct error *err)
{
    *to = (struct platform_config){
        .sdk_retries = options->sdk_retries && strcmp(options->sdk_retries, "on") == 0,
        .geo_latency = options->geo_latency,
        .timeouts = platform_timeouts_default,
    };
    platform_timeouts_from(&to->timeouts, variable, (void *)project);
    if (options->cold_start) {
        to->cold_start_ms = clock_parse_duration(options->cold_start);
        if (to->cold_start_ms < 0 || to->cold_start_ms > COLD_START_MAX_MS)
            return error_set(err, EINVAL,
                             "--cold-start takes a duration up to 24h, such as 2s or 1m30s, not "
                             "'%s'",
                             options->cold_start);
    }
    if (options->colo && !(to->colo = colo_find(options->colo, err)))
        return error_wrap(err, "--colo");
    return 0;
}

static void warn(const struct project_class *class, const struct npm_sdk *sdk)
{
    char image[PROJECT_IMAGE_MAX + 32];
    image_with(class->from, sdk->version, "", image, sizeof image);
    log_warn(
        "class %s: the image is of version %s, but @cloudflare/sandbox is %s (%s). Use the image "
        "%s, or run: npm install @cloudflare/sandbox@%s",
        class->name, class->version, sdk->version, sdk->where, image, class->version);
}

int platform_versions(const struct platform_options *options, const struct project *project,
                      struct object_class *classes, struct error *err)
{
    struct npm_sdk sdk = {.where = "--sdk-version", .exact = true};
    const char *given = options->sdk_version;
    if (given && (!npm_is_version(given) || strlen(given) >= sizeof sdk.version))
        return error_set(err, EINVAL,
                         "--sdk-version takes a version such as 0.12 or 0.7.4, not '%s'", given);
    if (given)
        memcpy(sdk.version, given, strlen(given) + 1);
    else if (!project->found || !npm_find_sdk(project->dir, &sdk))
        return 0;
    bool warned = false;
    for (size_t i = 0; i < project->class_count; i++) {
        const struct project_class *class = &project->classes[i];
        if (!*class->version || npm_fits(&sdk, class->version))
            continue;
        snprintf(classes[i].sdk_mismatch, sizeof classes[i].sdk_mismatch, "%s", sdk.version);
        if (!warned)
            warn(class, &sdk);
        warned = true;
    }
    return 0;
}
