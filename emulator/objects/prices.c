#include "objects/prices.h"

#define SOURCE "https://developers.cloudflare.com/containers/pricing/"
#define AS_OF "2026-08-03"

/* The list: dollars for each second of one unit, beyond what a month of the paid plan includes. */
static const struct {
    const char *resource, *unit;
    double usd;
} rates[PRICE_KINDS] = {
    [PRICE_CPU] = {"cpu", "vCPU-second", 0.000020},
    [PRICE_MEMORY] = {"memory", "GiB-second", 0.0000025},
    [PRICE_DISK] = {"disk", "GB-second", 0.00000007},
};

struct cost prices_cost(const struct billed_size *size, int64_t active_ms)
{
    double seconds = (double)active_ms / 1000;
    return (struct cost){.usd = {
                             [PRICE_CPU] = size->vcpus * seconds * rates[PRICE_CPU].usd,
                             [PRICE_MEMORY] = size->memory_gib * seconds * rates[PRICE_MEMORY].usd,
                             [PRICE_DISK] = size->disk_gb * seconds * rates[PRICE_DISK].usd,
                         }};
}

void prices_add(struct cost *to, const struct cost *more)
{
    for (int i = 0; i < PRICE_KINDS; i++)
        to->usd[i] += more->usd[i];
}

json_t *prices_cost_json(const struct cost *cost)
{
    const double *usd = cost->usd;
    return json_pack("{s:f, s:f, s:f, s:f}", "cpuAtMost", usd[PRICE_CPU], "memory",
                     usd[PRICE_MEMORY], "disk", usd[PRICE_DISK], "atMost",
                     usd[PRICE_CPU] + usd[PRICE_MEMORY] + usd[PRICE_DISK]);
}

json_t *prices_describe(void)
{
    json_t *list = json_array();
    for (int i = 0; i < PRICE_KINDS; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:f}", "resource", rates[i].resource,
                                              "unit", rates[i].unit, "usd", rates[i].usd));
    return json_pack("{s:s, s:s, s:s, s:o}", "currency", "USD", "asOf", AS_OF, "source", SOURCE,
                     "rates", list);
}
