/* Egress: which program is chosen, how it is called, and what the container's resolver is told. */
#include <errno.h>
#include <fcntl.h>
#include <greatest.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "drivers/network.h"
#include "drivers/network_helper.h"

static char dir[] = "/tmp/sandpit-network-XXXXXX";

static void path_of(const char *name, char *to, size_t size)
{
    snprintf(to, size, "%s/%s", dir, name);
}

static void put(const char *name, mode_t mode)
{
    char path[PATH_MAX];
    path_of(name, path, sizeof path);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    if (fd >= 0)
        fchmod(fd, mode);
}

static void clear(void)
{
    static const char *const names[] = {"pasta", "slirp4netns"};
    char path[PATH_MAX];
    for (size_t i = 0; i < 2; i++) {
        path_of(names[i], path, sizeof path);
        unlink(path);
    }
}

static enum instance_network chosen(const char *word)
{
    enum instance_network network = NETWORK_NONE;
    struct error err = {0};
    return network_choose(word, dir, &network, &err) < 0 ? (enum instance_network) - 1 : network;
}

TEST auto_takes_pasta_then_slirp4netns_then_none(void)
{
    clear();
    ASSERT_EQ(NETWORK_NONE, chosen("auto"));
    put("slirp4netns", 0755);
    ASSERT_EQ(NETWORK_SLIRP4NETNS, chosen("auto"));
    put("pasta", 0755);
    ASSERT_EQ(NETWORK_PASTA, chosen("auto"));
    PASS();
}

TEST a_named_program_must_be_there_and_executable(void)
{
    enum instance_network network;
    struct error err = {0};
    clear();
    put("pasta", 0644);
    ASSERT_EQ(-ENOENT, network_choose("pasta", dir, &network, &err));
    ASSERTm(err.text, strstr(err.text, "apt install passt"));
    ASSERT_EQ(-ENOENT, network_choose("slirp4netns", dir, &network, &err));
    ASSERTm(err.text, strstr(err.text, "apt install slirp4netns"));
    put("slirp4netns", 0755);
    ASSERT_EQ(NETWORK_SLIRP4NETNS, chosen("slirp4netns"));
    PASS();
}

TEST none_is_none_whatever_is_installed(void)
{
    put("pasta", 0755);
    ASSERT_EQ(NETWORK_NONE, chosen("none"));
    PASS();
}

TEST another_word_is_refused(void)
{
    enum instance_network network;
    struct error err = {0};
    ASSERT_EQ(-EINVAL, network_choose("bridge", dir, &network, &err));
    ASSERTm(err.text, strstr(err.text, "not 'bridge'"));
    PASS();
}

TEST only_absolute_directories_of_path_count(void)
{
    char path[PATH_MAX];
    clear();
    put("pasta", 0755);
    snprintf(path, sizeof path, "bin::.:/nowhere:%s", dir);
    CLEANUP_FREE char *found = network_program(NETWORK_PASTA, path);
    char expected[PATH_MAX];
    path_of("pasta", expected, sizeof expected);
    ASSERT(found);
    ASSERT_STR_EQ(expected, found);
    ASSERT_EQ(NULL, network_program(NETWORK_PASTA, "bin:."));
    ASSERT_EQ(NULL, network_program(NETWORK_PASTA, ""));
    ASSERT_EQ(NULL, network_program(NETWORK_PASTA, NULL));
    ASSERT_EQ(NULL, network_program(NETWORK_NONE, dir));
    PASS();
}

/* Where an argument is in a list, or -1. */
static int place(const char *const *argv, const char *argument)
{
    for (int i = 0; argv[i]; i++) {
        if (strcmp(argv[i], argument) == 0)
            return i;
    }
    return -1;
}

static bool pair(const char *const *argv, const char *option, const char *value)
{
    int at = place(argv, option);
    return at >= 0 && argv[at + 1] && strcmp(argv[at + 1], value) == 0;
}

TEST pasta_forwards_no_port_and_maps_no_address_to_this_host(void)
{
    static const char *const directions[] = {"-t", "-u", "-T", "-U"};
    const char *argv[NETWORK_ARGUMENTS];
    network_arguments(NETWORK_PASTA, false, argv);
    ASSERT_STR_EQ("pasta", argv[0]);
    for (size_t i = 0; i < 4; i++)
        ASSERTm(directions[i], pair(argv, directions[i], "none"));
    ASSERT(place(argv, "--no-map-gw") > 0);
    ASSERT(place(argv, "--foreground") > 0);
    ASSERT(pair(argv, "--netns", NETWORK_NAMESPACE));
    ASSERT_EQ(-1, place(argv, "--runas"));
    ASSERT_EQ(1, network_ready_fd(NETWORK_PASTA));
    PASS();
}

TEST pasta_stays_root_only_as_root_of_this_host(void)
{
    const char *argv[NETWORK_ARGUMENTS];
    network_arguments(NETWORK_PASTA, true, argv);
    ASSERT(pair(argv, "--runas", "0:0"));
    ASSERT(place(argv, "--no-map-gw") > 0);
    PASS();
}

TEST slirp4netns_keeps_away_from_loopback_and_confines_itself(void)
{
    const char *argv[NETWORK_ARGUMENTS];
    char ready[32];
    network_arguments(NETWORK_SLIRP4NETNS, true, argv);
    snprintf(ready, sizeof ready, "--ready-fd=%d", network_ready_fd(NETWORK_SLIRP4NETNS));
    ASSERT_STR_EQ("slirp4netns", argv[0]);
    ASSERT(place(argv, "--disable-host-loopback") > 0);
    ASSERT(place(argv, "--enable-sandbox") > 0);
    ASSERT(place(argv, "--enable-seccomp") > 0);
    ASSERT(place(argv, ready) > 0);
    ASSERT(pair(argv, NETWORK_NAMESPACE, "tap0"));
    PASS();
}

TEST the_resolver_is_the_programs_and_nobodys_without_one(void)
{
    ASSERT_STR_EQ("", network_resolv(NETWORK_NONE));
    ASSERT(strstr(network_resolv(NETWORK_PASTA), "nameserver " NETWORK_PASTA_DNS "\n"));
    ASSERT(strstr(network_resolv(NETWORK_SLIRP4NETNS), "nameserver 10.0.2.3\n"));
    const char *argv[NETWORK_ARGUMENTS];
    network_arguments(NETWORK_PASTA, false, argv);
    ASSERT(pair(argv, "--dns-forward", NETWORK_PASTA_DNS));
    PASS();
}

/* What a runtime gives is not believed. */
TEST only_a_foreign_network_namespace_is_attached_to(void)
{
    struct error err = {0};
    CLEANUP_FD int ours = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CLEANUP_FD int other = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    CLEANUP_FD int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(-EINVAL, network_helper_check(ours, &err));
    ASSERTm(err.text, strstr(err.text, "of this host"));
    ASSERT_EQ(-EINVAL, network_helper_check(other, &err));
    ASSERT(network_helper_check(file, &err) < 0);
    PASS();
}

SUITE(network)
{
    RUN_TEST(auto_takes_pasta_then_slirp4netns_then_none);
    RUN_TEST(a_named_program_must_be_there_and_executable);
    RUN_TEST(none_is_none_whatever_is_installed);
    RUN_TEST(another_word_is_refused);
    RUN_TEST(only_absolute_directories_of_path_count);
    RUN_TEST(pasta_forwards_no_port_and_maps_no_address_to_this_host);
    RUN_TEST(pasta_stays_root_only_as_root_of_this_host);
    RUN_TEST(slirp4netns_keeps_away_from_loopback_and_confines_itself);
    RUN_TEST(the_resolver_is_the_programs_and_nobodys_without_one);
    RUN_TEST(only_a_foreign_network_namespace_is_attached_to);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    if (!mkdtemp(dir))
        return 1;
    RUN_SUITE(network);
    clear();
    rmdir(dir);
    GREATEST_MAIN_END();
}
