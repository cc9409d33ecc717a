/* What a container costs by Cloudflare's public price list. docs/testing.md tells the sources. */
#ifndef SANDPIT_OBJECTS_PRICES_H
#define SANDPIT_OBJECTS_PRICES_H

#include <jansson.h>
#include <stdint.h>

/* The size of an instance as it is billed; what it gets on this machine may be less. */
struct billed_size {
    double vcpus;
    double memory_gib; /* 2^30 bytes */
    double disk_gb;    /* 10^9 bytes */
};

enum price_kind { PRICE_CPU, PRICE_MEMORY, PRICE_DISK, PRICE_KINDS };

/* Dollars, by kind. */
struct cost {
    double usd[PRICE_KINDS];
};

/* CPU is billed as far as it is used, which nobody knows here: its part is what it would be when
 * all of it were busy all the time, and so the most it can be. */
struct cost prices_cost(const struct billed_size *size, int64_t active_ms);
void prices_add(struct cost *to, const struct cost *more);
/* {cpuAtMost, memory, disk, atMost}; new reference. */
json_t *prices_cost_json(const struct cost *cost);
/* {currency, asOf, source, rates: [{resource, unit, usd}]}; new reference. */
json_t *prices_describe(void);

#endif
