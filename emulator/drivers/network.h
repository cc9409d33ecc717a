/* Egress: which program carries a container's packets, how it is called, and what the container's
 * resolver is told. The process itself is in network_helper.h.
 *
 * pasta and slirp4netns put an interface into a network namespace and speak for it with ordinary
 * sockets of this host, so neither needs a bridge, a route or a firewall rule. Both are told to
 * keep away from this host's loopback and to forward no port inwards. */
#ifndef SANDPIT_DRIVERS_NETWORK_H
#define SANDPIT_DRIVERS_NETWORK_H

#include <stdbool.h>

#include "base/error.h"
#include "drivers/driver.h"

enum { NETWORK_ARGUMENTS = 32 };

/* Where the helper finds the network namespace, in its own mount namespace. A path through
 * /proc/PID would be refused to a helper that dropped capabilities which the container's PID 1 has.
 * Nothing of /sys is used by it. */
#define NETWORK_DIR "/sys"
#define NETWORK_NAMESPACE NETWORK_DIR "/netns"

/* The address at which pasta answers for this host's resolver. */
#define NETWORK_PASTA_DNS "169.254.1.1"

/* "none", "pasta", "slirp4netns". */
const char *network_name(enum instance_network network);

/* What "auto", "none", "pasta" or "slirp4netns" means with these directories as PATH. -EINVAL for
 * another word, -ENOENT for a program that is not there (not for auto, which ends at none). */
int network_choose(const char *word, const char *path, enum instance_network *network,
                   struct error *err);

/* The program's absolute path, or NULL; malloc'd. */
char *network_program(enum instance_network network, const char *path);

/* Fills a NULL-terminated list. `root`: the helper runs as root of this host. */
void network_arguments(enum instance_network network, bool root,
                       const char *argv[NETWORK_ARGUMENTS]);

/* The descriptor on which the helper says that the interface is there. */
int network_ready_fd(enum instance_network network);

/* The container's /etc/resolv.conf; "" with none. */
const char *network_resolv(enum instance_network network);

#endif
