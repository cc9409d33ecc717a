#include "cli/networks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/network.h"

int networks_choose(const char *option, const struct project_class *from, struct object_class *to,
                    struct error *err)
{
    bool refused = strcmp(from->network, "none") == 0;
    const char *word = refused ? "none" : option ? option : *from->network ? from->network : "auto";
    const char *why = "neither pasta nor slirp4netns is installed";
    if (refused)
        why = "the configuration says none for its class";
    else if (strcmp(word, "none") == 0)
        why = "the emulator runs with --network none";
    snprintf(to->network_why, sizeof to->network_why, "%s", why);
    int result = network_choose(word, getenv("PATH"), &to->network, err);
    return result < 0 ? error_wrap(err, "network of class %s", from->name) : 0;
}

void networks_text(const struct object_class *classes, size_t count, char *to, size_t size)
{
    size_t used = (size_t)snprintf(to, size, "network: ");
    bool same = true;
    for (size_t i = 1; i < count; i++)
        same = same && classes[i].network == classes[0].network;
    for (size_t i = 0; i < (same ? 1 : count) && used < size; i++)
        used += (size_t)snprintf(to + used, size - used, "%s%s%s%s", i ? ", " : "",
                                 same ? "" : classes[i].name, same ? "" : " ",
                                 network_name(classes[i].network));
    if (same && classes[0].network == NETWORK_NONE && used < size)
        snprintf(to + used, size - used, " (%s)%s", classes[0].network_why,
                 strstr(classes[0].network_why, "installed") ? "; packages: passt or slirp4netns"
                                                             : "");
}
