#include "drivers/network.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* Ports: none in either direction. The gateway's address does not stand for this host. */
static const char *const pasta_arguments[] = {
    /* clang-format off */
    "--foreground", "--config-net", "--netns-only", "--netns", NETWORK_NAMESPACE,
    "--no-netns-quit", "--no-map-gw", "--dns-forward", NETWORK_PASTA_DNS,
    "-t", "none", "-u", "none", "-T", "none", "-U", "none",
    /* Written when all is set up. Later versions close what they inherit except 0, 1 and 2. */
    "--quiet", "--pid", "/proc/self/fd/1", NULL,
    /* clang-format on */
};

/* As root of this host pasta would change to nobody and then not get into the namespace. It drops
 * its capabilities when it is set up. */
static const char *const pasta_as_root[] = {"--runas", "0:0", NULL};

/* Of this host's resolver, which may be on loopback, it opens port 53 and no other. */
static const char *const slirp_arguments[] = {
    /* clang-format off */
    "--configure", "--mtu=65520", "--disable-host-loopback",
    "--enable-sandbox", "--enable-seccomp", "--ready-fd=3",
    "--netns-type=path", NETWORK_NAMESPACE, "tap0", NULL,
    /* clang-format on */
};

/* In the order in which auto tries them. */
static const struct tool {
    enum instance_network network;
    const char *name, *package;
    const char *const *as_root; /* or NULL */
    const char *const *arguments;
    int ready_fd;
    const char *resolv;
} tools[] = {
    /* Longer answers by UDP: older versions of pasta do not carry the resolver's TCP. */
    {NETWORK_PASTA, "pasta", "passt", pasta_as_root, pasta_arguments, 1,
     "nameserver " NETWORK_PASTA_DNS "\noptions edns0\n"},
    {NETWORK_SLIRP4NETNS, "slirp4netns", "slirp4netns", NULL, slirp_arguments, 3,
     "nameserver 10.0.2.3\n"},
};

static const struct tool *tool_of(enum instance_network network)
{
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (tools[i].network == network)
            return &tools[i];
    }
    return NULL;
}

const char *network_name(enum instance_network network)
{
    const struct tool *tool = tool_of(network);
    return tool ? tool->name : "none";
}

char *network_program(enum instance_network network, const char *path)
{
    const struct tool *tool = tool_of(network);
    char file[PATH_MAX];
    while (tool && path && *path) {
        size_t size = strcspn(path, ":");
        int length = snprintf(file, sizeof file, "%.*s/%s", (int)size, path, tool->name);
        if (*path == '/' && length < (int)sizeof file && access(file, X_OK) == 0)
            return strdup(file);
        path += size + (path[size] == ':');
    }
    return NULL;
}

static bool is_there(enum instance_network network, const char *path)
{
    CLEANUP_FREE char *program = network_program(network, path);
    return program != NULL;
}

int network_choose(const char *word, const char *path, enum instance_network *network,
                   struct error *err)
{
    bool automatic = strcmp(word, "auto") == 0;
    *network = NETWORK_NONE;
    if (strcmp(word, "none") == 0)
        return 0;
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (!automatic && strcmp(word, tools[i].name) != 0)
            continue;
        if (is_there(tools[i].network, path)) {
            *network = tools[i].network;
            return 0;
        }
        if (!automatic)
            return error_set(err, ENOENT,
                             "%s is not installed: install it, on Debian and Ubuntu with "
                             "'apt install %s'",
                             word, tools[i].package);
    }
    return automatic
               ? 0
               : error_set(err, EINVAL,
                           "a network is auto, none, pasta or slirp4netns, not '%.40s'", word);
}

static size_t add(const char **argv, size_t count, const char *const *list)
{
    for (; list && *list && count + 1 < NETWORK_ARGUMENTS; list++)
        argv[count++] = *list;
    argv[count] = NULL;
    return count;
}

void network_arguments(enum instance_network network, bool root,
                       const char *argv[NETWORK_ARGUMENTS])
{
    const struct tool *tool = tool_of(network);
    argv[0] = network_name(network);
    size_t count = add(argv, 1, tool && root ? tool->as_root : NULL);
    add(argv, count, tool ? tool->arguments : NULL);
}

int network_ready_fd(enum instance_network network)
{
    const struct tool *tool = tool_of(network);
    return tool ? tool->ready_fd : -1;
}

const char *network_resolv(enum instance_network network)
{
    const struct tool *tool = tool_of(network);
    return tool ? tool->resolv : "";
}
