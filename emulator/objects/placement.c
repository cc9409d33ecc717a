#include "objects/placement.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const region_names[REGIONS] = {
    [REGION_WNAM] = "WNAM", [REGION_ENAM] = "ENAM", [REGION_SAM] = "SAM",
    [REGION_WEUR] = "WEUR", [REGION_EEUR] = "EEUR", [REGION_APAC] = "APAC",
    [REGION_OC] = "OC",     [REGION_AFR] = "AFR",   [REGION_ME] = "ME",
};

/* A region stands for the place in its middle. */
const struct colo colos[] = {
    {"WNAM", REGION_WNAM, "western North America"},
    {"ENAM", REGION_ENAM, "eastern North America"},
    {"SAM", REGION_SAM, "South America"},
    {"WEUR", REGION_WEUR, "western Europe"},
    {"EEUR", REGION_EEUR, "eastern Europe"},
    {"APAC", REGION_APAC, "Asia-Pacific"},
    {"OC", REGION_OC, "Oceania"},
    {"AFR", REGION_AFR, "Africa"},
    {"ME", REGION_ME, "Middle East"},
    {"SFO", REGION_WNAM, "San Francisco"},
    {"SEA", REGION_WNAM, "Seattle"},
    {"IAD", REGION_ENAM, "Ashburn"},
    {"EWR", REGION_ENAM, "Newark"},
    {"GRU", REGION_SAM, "São Paulo"},
    {"AMS", REGION_WEUR, "Amsterdam"},
    {"FRA", REGION_WEUR, "Frankfurt"},
    {"LHR", REGION_WEUR, "London"},
    {"WAW", REGION_EEUR, "Warsaw"},
    {"SIN", REGION_APAC, "Singapore"},
    {"NRT", REGION_APAC, "Tokyo"},
    {"SYD", REGION_OC, "Sydney"},
    {"JNB", REGION_AFR, "Johannesburg"},
    {"DXB", REGION_ME, "Dubai"},
    {NULL, REGION_WEUR, NULL},
};

/* There and back between regions in milliseconds: rough figures for demonstration, no measurements.
 * Within one region: between two of its cities. */
static const int distances[REGIONS][REGIONS] = {
    /*               WNAM ENAM SAM  WEUR EEUR APAC OC   AFR  ME */
    [REGION_WNAM] = {20, 65, 175, 140, 165, 115, 140, 280, 220},
    [REGION_ENAM] = {65, 20, 115, 80, 105, 200, 200, 230, 165},
    [REGION_SAM] = {175, 115, 30, 190, 215, 310, 310, 335, 270},
    [REGION_WEUR] = {140, 80, 190, 15, 30, 170, 270, 160, 110},
    [REGION_EEUR] = {165, 105, 215, 30, 15, 180, 290, 180, 120},
    [REGION_APAC] = {115, 200, 310, 170, 180, 70, 95, 240, 85},
    [REGION_OC] = {140, 200, 310, 270, 290, 95, 25, 290, 180},
    [REGION_AFR] = {280, 230, 335, 160, 180, 240, 290, 40, 150},
    [REGION_ME] = {220, 165, 270, 110, 120, 85, 180, 150, 20},
};

const char *region_name(enum region region)
{
    return region_names[region];
}

const struct colo *colo_find(const char *name, struct error *err)
{
    char all[256];
    size_t used = 0;
    for (const struct colo *colo = colos; colo->name; colo++) {
        if (strcasecmp(colo->name, name) == 0)
            return colo;
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "",
                                     colo->name);
    }
    error_set(err, EINVAL, "'%.40s' is no place that is known here: %s", name, all);
    return NULL;
}

int colo_distance_ms(const struct colo *from, const struct colo *to)
{
    return from == to ? 0 : distances[from->region][to->region];
}
