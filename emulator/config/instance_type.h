/* Instance types: how much of a machine a container gets. */
#ifndef SANDPIT_CONFIG_INSTANCE_TYPE_H
#define SANDPIT_CONFIG_INSTANCE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct instance_size {
    unsigned cpu_millis; /* 1000 = one CPU */
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    double vcpus; /* where that is no whole number of thousandths; else 0 */
};

/* False for a word that names no type. Older names are known. */
bool instance_type_find(const char *name, struct instance_size *size);
/* "lite, basic, …" for messages. */
void instance_type_names(char *to, size_t size);
/* How many CPUs that is, exactly. */
double instance_vcpus(const struct instance_size *size);

/* "512M", "1.5g", "1GiB", "1073741824": docker's way to write it, in powers of 1024. False when it
 * is none or more than 2^53. */
bool parse_size(const char *text, uint64_t *bytes);
/* "0.5" → 500. False when it is no number from 0.001 to 1024. */
bool parse_cpus(const char *text, unsigned *millis);

#endif
