/* Where requests come from and where an object is: a few of Cloudflare's data centres by the code
 * of their airport, the regions of Durable Objects, and how far apart these are. */
#ifndef SANDPIT_OBJECTS_PLACEMENT_H
#define SANDPIT_OBJECTS_PLACEMENT_H

#include <stddef.h>

#include "base/error.h"

enum region {
    REGION_WNAM,
    REGION_ENAM,
    REGION_SAM,
    REGION_WEUR,
    REGION_EEUR,
    REGION_APAC,
    REGION_OC,
    REGION_AFR,
    REGION_ME,
    REGIONS
};

struct colo {
    const char *name; /* "AMS", or a region: "WEUR" */
    enum region region;
    const char *city;
};

extern const struct colo colos[]; /* ends with a NULL name */
/* In any case of letters; NULL with the names that there are in err. */
const struct colo *colo_find(const char *name, struct error *err);
const char *region_name(enum region region);
/* There and back in milliseconds; 0 for the same place. */
int colo_distance_ms(const struct colo *from, const struct colo *to);

#endif
