#include "config/instance_type.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define GB ((uint64_t)1000000000)
#define LITE 63, 256 * MIB, 2 * GB, 0.0625
#define STANDARD_1 500, 4 * GIB, 8 * GB, 0
#define STANDARD_4 4000, 12 * GIB, 20 * GB, 0

static const struct {
    const char *name;
    struct instance_size size;
} types[] = {
    {"lite", {LITE}},
    {"basic", {250, 1 * GIB, 4 * GB, 0}},
    {"standard-1", {STANDARD_1}},
    {"standard-2", {1000, 6 * GIB, 12 * GB, 0}},
    {"standard-3", {2000, 8 * GIB, 16 * GB, 0}},
    {"standard-4", {STANDARD_4}},
    /* Names of earlier years. */
    {"dev", {LITE}},
    {"standard", {STANDARD_1}},
    {"premium", {STANDARD_4}},
};

bool instance_type_find(const char *name, struct instance_size *size)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) == 0) {
            *size = types[i].size;
            return true;
        }
    }
    return false;
}

double instance_vcpus(const struct instance_size *size)
{
    return size->vcpus > 0 ? size->vcpus : size->cpu_millis / 1000.0;
}

void instance_type_names(char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types && used < size; i++)
        used += (size_t)snprintf(to + used, size - used, "%s%s", i ? ", " : "", types[i].name);
}

/* The number at the beginning, or -1; nothing but digits and one point, as strtod takes more. */
static double parse_number(const char *text, const char **end)
{
    size_t length = strspn(text, "0123456789.");
    char *stop;
    double number = length ? strtod(text, &stop) : -1;
    if (length && stop != text + length)
        return -1;
    *end = text + length;
    return number;
}

bool parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "bkmgt";
    const char *end = text;
    double number = parse_number(text, &end);
    if (number < 0)
        return false;
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : units;
    if (!unit)
        return false;
    const char *rest = *end ? end + 1 : end;
    bool plain = unit == units;
    if (*rest && (plain || (strcasecmp(rest, "b") != 0 && strcasecmp(rest, "ib") != 0)))
        return false;
    for (const char *at = units; at < unit; at++)
        number *= 1024;
    if (number > (double)((uint64_t)1 << 53))
        return false;
    *bytes = (uint64_t)number;
    return true;
}

bool parse_cpus(const char *text, unsigned *millis)
{
    const char *end = text;
    double number = parse_number(text, &end);
    if (number < 0.001 || number > 1024 || *end)
        return false;
    *millis = (unsigned)(number * 1000 + 0.5);
    return true;
}
