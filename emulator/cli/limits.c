#include "cli/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define MIB ((uint64_t)1 << 20)

/* What wrangler takes for a class without a type. */
#define BILLED_DEFAULT "lite"

enum { DEFAULT_PIDS = 1024 };
/* A class without a type. */
static const struct instance_size default_size = {
    .memory_bytes = 1024 * MIB, .disk_bytes = 512 * MIB, .cpu_millis = 0};
/* Below this bash and its children do not live. */
#define MEMORY_MIN (16 * MIB)

static int override(const struct limits_options *options, struct instance_limits *limits,
                    struct error *err)
{
    if (options->memory &&
        (!parse_size(options->memory, &limits->memory_bytes) || limits->memory_bytes < MEMORY_MIN))
        return error_set(err, EINVAL,
                         "--memory takes a size from 16M, such as 512M or 2G, not '%s'",
                         options->memory);
    if (options->cpus && !parse_cpus(options->cpus, &limits->cpu_millis))
        return error_set(err, EINVAL, "--cpus takes a number of CPUs, such as 0.5, not '%s'",
                         options->cpus);
    if (options->pids)
        limits->pids = (unsigned)options->pids;
    return 0;
}

/* Billed is the size that is configured, whatever it gets on this machine. */
static void bill(const struct project_class *from, struct object_class *to)
{
    struct instance_size size = from->size;
    const char *name = *from->instance_type ? from->instance_type : "custom";
    if (!from->sized && instance_type_find(BILLED_DEFAULT, &size))
        name = BILLED_DEFAULT;
    snprintf(to->billed_as, sizeof to->billed_as, "%s", name);
    to->billed = (struct billed_size){.vcpus = instance_vcpus(&size),
                                      .memory_gib = (double)size.memory_bytes / (1024 * MIB),
                                      .disk_gb = (double)size.disk_bytes / 1e9};
}

int limits_choose(const struct limits_options *options, const struct project_class *from,
                  struct object_class *to, struct error *err)
{
    const struct instance_size *size = from->sized ? &from->size : &default_size;
    snprintf(to->instance_type, sizeof to->instance_type, "%s", from->instance_type);
    bill(from, to);
    to->limits = (struct instance_limits){0};
    if (!options->none)
        to->limits = (struct instance_limits){.memory_bytes = size->memory_bytes,
                                              .pids = DEFAULT_PIDS,
                                              .cpu_millis = size->cpu_millis};
    int result = override(options, &to->limits, err);
    /* The layer is in memory and counts as the container's: with at most half of it, writing too
     * much gives ENOSPC before the processes run out of the other half. */
    uint64_t half = to->limits.memory_bytes / 2;
    to->upper_bytes = half && half < size->disk_bytes ? half : size->disk_bytes;
    return result;
}

void limits_text(const struct object_class *class, char *to, size_t size)
{
    const struct instance_limits *limits = &class->limits;
    CLEANUP_BUF struct buf text = BUF_INIT(256);
    if (limits->memory_bytes)
        buf_addf(&text, "%llu MiB memory, ", (unsigned long long)(limits->memory_bytes / MIB));
    if (limits->pids)
        buf_addf(&text, "%u processes, ", limits->pids);
    if (limits->cpu_millis)
        buf_addf(&text, "%g CPU, ", limits->cpu_millis / 1000.0);
    buf_addf(&text, "%llu MiB disk", (unsigned long long)(class->upper_bytes / MIB));
    snprintf(to, size, "%s", buf_text(&text));
}
