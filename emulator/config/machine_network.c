/* Egress of sandboxes, names below localhost, the emulator's port. */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/machine_internal.h"

#define TUN "/dev/net/tun"

void machine_check_egress(const struct machine *machine, struct machine_result *result)
{
    static const struct machine_package package = {"passt", "passt", "passt", "passt"};
    char path[PATH_MAX], install[128];
    bool pasta = machine_program(machine, "pasta", path);
    bool slirp = machine_program(machine, "slirp4netns", path);
    if (!pasta && !slirp) {
        machine_find(result, MACHINE_WARNING,
                     "neither pasta nor slirp4netns is installed: sandboxes reach no network");
        machine_install(machine, &package, 1, install, sizeof install);
        machine_fix(result, "%s (or --network none, if that is what you want)", install);
        return;
    }
    machine_path(machine, TUN, path);
    if (access(path, F_OK) < 0) {
        machine_find(result, MACHINE_WARNING, TUN " is missing: sandboxes reach no network");
        machine_fix(result, "%s",
                    machine_contained(machine) ? "docker run --device " TUN " …"
                                               : "sudo modprobe tun");
    } else if (access(path, R_OK | W_OK) < 0) {
        machine_find(result, MACHINE_WARNING,
                     TUN " is not open to this user: sandboxes reach no network");
        machine_fix(result, "sudo chmod 666 " TUN);
    } else {
        machine_ok(result, "%s and " TUN " are there", pasta ? "pasta" : "slirp4netns");
    }
}

/* --- Names below localhost -------------------------------------------------------------------- */

int machine_try_resolve(const struct machine *machine, const char *name, char *to, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    int code = getaddrinfo(name, NULL, &hints, &list);
    if (code) {
        snprintf(to, size, "%s", gai_strerror(code));
        return -1;
    }
    code =
        getnameinfo(list->ai_addr, list->ai_addrlen, to, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(list);
    return code ? -1 : 0;
}

void machine_check_names(const struct machine *machine, struct machine_result *result)
{
    static const struct machine_package package = {"libnss-myhostname", "systemd-libs", "systemd",
                                                   NULL};
    char address[256], install[128];
    int code = machine->tries->resolve(machine, "x.localhost", address, sizeof address);
    bool loopback = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
    if (code == 0 && loopback) {
        machine_ok(result, "x.localhost is %s", address);
        return;
    }
    if (code == 0)
        machine_find(result, MACHINE_WARNING,
                     "x.localhost is %s, which is not this machine: programs would send what is "
                     "meant for a sandbox there",
                     address);
    else
        machine_find(result, MACHINE_WARNING,
                     "x.localhost has no address (%s): browsers and curl know it, other programs "
                     "do not",
                     address);
    machine_install(machine, &package, 1, install, sizeof install);
    machine_fix(result, "%s%ssend the name as the Host header to 127.0.0.1", install,
                *install ? "; or " : "");
}

/* --- The port --------------------------------------------------------------------------------- */

static int bind_one(const struct sockaddr *address, socklen_t size)
{
    int one = 1;
    CLEANUP_FD int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    return bind(fd, address, size) < 0 || listen(fd, 1) < 0 ? -errno : 0;
}

/* A machine without IPv6 has no ::1, and needs none. */
int machine_try_port(const struct machine *machine, uint16_t port)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    six.sin6_addr = in6addr_loopback;
    int result = bind_one((struct sockaddr *)&four, sizeof four);
    if (result)
        return result;
    result = bind_one((struct sockaddr *)&six, sizeof six);
    return result == -EAFNOSUPPORT || result == -EADDRNOTAVAIL ? 0 : result;
}

/* The inode of the socket that listens on the port, from /proc/net/tcp or tcp6; 0 = none. */
static unsigned long listening_inode(const struct machine *machine, const char *table,
                                     uint16_t port)
{
    enum { LISTEN = 0x0a };
    char path[PATH_MAX], line[512];
    machine_path(machine, table, path);
    CLEANUP_FILE FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        unsigned at, state;
        unsigned long inode;
        if (sscanf(line,
                   " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u "
                   "%lu",
                   &at, &state, &inode) == 3 &&
            at == port && state == LISTEN)
            return inode;
    }
    return 0;
}

static bool holds(const struct machine *machine, const char *pid, const char *socket)
{
    char path[PATH_MAX], link[PATH_MAX + 300], target[64], name[64];
    snprintf(name, sizeof name, "/proc/%.20s/fd", pid);
    machine_path(machine, name, path);
    CLEANUP_DIR DIR *list = opendir(path);
    for (struct dirent *item; list && (item = readdir(list));) {
        snprintf(link, sizeof link, "%s/%s", path, item->d_name);
        ssize_t size = readlink(link, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        if (strcmp(target, socket) == 0)
            return true;
    }
    return false;
}

/* Whose socket that is; 0 when /proc does not tell. */
static int holder_of(const struct machine *machine, unsigned long inode)
{
    char path[PATH_MAX], socket[64];
    snprintf(socket, sizeof socket, "socket:[%lu]", inode);
    machine_path(machine, "/proc", path);
    CLEANUP_DIR DIR *list = inode ? opendir(path) : NULL;
    for (struct dirent *item; list && (item = readdir(list));) {
        if (isdigit((unsigned char)item->d_name[0]) && holds(machine, item->d_name, socket))
            return (int)strtol(item->d_name, NULL, 10);
    }
    return 0;
}

static void port_taken(const struct machine *machine, struct machine_result *result)
{
    char path[64], name[64];
    unsigned long inode = listening_inode(machine, "/proc/net/tcp", machine->port);
    if (!inode)
        inode = listening_inode(machine, "/proc/net/tcp6", machine->port);
    int pid = holder_of(machine, inode);
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    if (pid && machine_read(machine, path, name, sizeof name) > 0)
        machine_find(result, strcmp(name, "sandpit") == 0 ? MACHINE_INFO : MACHINE_WARNING,
                     "port %u is taken by %s (pid %d)", machine->port, name, pid);
    else
        machine_find(result, MACHINE_WARNING, "port %u is taken by another user's process",
                     machine->port);
    machine_fix(result, "sandpit dev --port 0%s", pid ? "" : " (who it is: sudo ss -ltnp)");
    if (pid && result->severity == MACHINE_WARNING)
        machine_fix(result, "sandpit dev --port 0, or end it: kill %d", pid);
}

void machine_check_port(const struct machine *machine, struct machine_result *result)
{
    int error = machine->tries->bind_port(machine, machine->port);
    if (error == 0) {
        machine_ok(result, "%u is free", machine->port);
    } else if (error == -EADDRINUSE) {
        port_taken(machine, result);
    } else {
        machine_find(result, MACHINE_ERROR, "port %u cannot be used: %s", machine->port,
                     strerrordesc_np(-error));
        machine_fix(result, "sandpit dev --port 8787");
    }
}
