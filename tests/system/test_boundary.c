/* Attacks from inside a sandbox, as its root, against the real program: with the best boundary that
 * this machine has, and with the fallback for kernels without idmapped mounts. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static bool fallback; /* started with SANDPIT_NO_IDMAP */

/* Runs a command in a box; standard output is in the reply. */
static struct reply run_in(const char *box, const char *command)
{
    char path[64];
    json_t *arguments = json_pack("[s]", command);
    char *body = json_dumps(arguments, 0);
    json_decref(arguments);
    snprintf(path, sizeof path, "/sandbox/%s/exec", box);
    struct reply reply = post(&emulator, path, body);
    free(body);
    return reply;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char *encode(const unsigned char *bytes, size_t size)
{
    char *text = malloc(size * 4 / 3 + 8), *to = text;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned group = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        *to++ = base64_digits[group >> 18];
        *to++ = base64_digits[group >> 12 & 63];
        *to++ = left > 1 ? base64_digits[group >> 6 & 63] : '=';
        *to++ = left > 2 ? base64_digits[group & 63] : '=';
    }
    *to = '\0';
    return text;
}

static unsigned char *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "re");
    unsigned char *bytes = malloc(8 << 20);
    *size = file ? fread(bytes, 1, 8 << 20, file) : 0;
    if (file)
        fclose(file);
    return bytes;
}

/* Puts the attacking program into a box through the file API. */
static bool bring_attack(const char *box)
{
    char path[64], *body = NULL;
    size_t size;
    unsigned char *bytes = read_whole(ATTACK_BINARY, &size);
    char *text = encode(bytes, size);
    if (asprintf(&body, "[\"/tmp/attack\",\"%s\",{\"encoding\":\"base64\"}]", text) < 0)
        abort();
    snprintf(path, sizeof path, "/sandbox/%s/writeFile", box);
    CLEANUP_REPLY struct reply reply = post(&emulator, path, body);
    free(body);
    free(text);
    free(bytes);
    CLEANUP_REPLY struct reply made = run_in(box, "chmod 755 /tmp/attack");
    return size > 0 && reply.status == 200 && number_at(made.json, "exitCode") == 0;
}

TEST root_of_a_sandbox_can_do_nothing_to_the_kernel(void)
{
    ASSERT(bring_attack("attack"));
    CLEANUP_REPLY struct reply reply = run_in("attack", "/tmp/attack");
    ASSERTm(keep(text_at(reply.json, "stdout")),
            strcmp(text_at(reply.json, "stdout"), "everything was refused") == 0);
    ASSERT_EQ(0, number_at(reply.json, "exitCode"));
    PASS();
}

TEST another_user_of_a_sandbox_can_do_nothing_either(void)
{
    if (geteuid() != 0)
        SKIPm("an ordinary user's sandboxes may have one id only");
    ASSERT(bring_attack("attack"));
    CLEANUP_REPLY struct reply reply = run_in(
        "attack", "chmod 1777 /tmp; setpriv --reuid 33 --regid 33 --clear-groups /tmp/attack");
    ASSERTm(keep(text_at(reply.json, "stdout")),
            strcmp(text_at(reply.json, "stdout"), "everything was refused") == 0);
    PASS();
}

TEST a_set_user_id_program_gains_nothing(void)
{
    if (geteuid() != 0)
        SKIPm("an ordinary user's sandboxes may have one id only");
    ASSERT(bring_attack("setuid"));
    CLEANUP_REPLY struct reply reply =
        run_in("setuid", "cp /tmp/attack /workspace/s; chmod 4755 /workspace/s; setpriv --reuid 33 "
                         "--regid 33 --clear-groups /workspace/s setuid");
    ASSERT_STR_EQ("33 33", text_at(reply.json, "stdout"));
    PASS();
}

TEST capabilities_are_dockers_less_three_and_cannot_grow(void)
{
    CLEANUP_REPLY struct reply reply =
        run_in("caps", "awk '/^Cap|^NoNewPrivs|^Seccomp:/ {print $1 $2}' /proc/self/status");
    ASSERT_STR_EQ("CapInh:0000000000000000\nCapPrm:00000000800405fb\nCapEff:00000000800405fb\n"
                  "CapBnd:00000000800405fb\nCapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2",
                  text_at(reply.json, "stdout"));
    PASS();
}

/* The host's pid of the process with this text in its command line, or -1. */
static int host_pid(const char *text)
{
    DIR *proc = opendir("/proc");
    int found = -1;
    for (struct dirent *entry; found < 0 && (entry = readdir(proc));) {
        char path[300], line[256] = "";
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = isdigit((unsigned char)entry->d_name[0]) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t size = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
        if (size > 0 && memmem(line, (size_t)size, text, strlen(text)))
            found = (int)strtol(entry->d_name, NULL, 10);
        if (fd >= 0)
            close(fd);
    }
    closedir(proc);
    return found;
}

static bool is_there(void *text)
{
    return host_pid(text) > 0;
}

/* A number of seconds that nobody else sleeps. */
static const char *unique_seconds(void)
{
    static char text[32];
    static int count;
    snprintf(text, sizeof text, "%d.%d", 100000 + (int)getpid(), ++count);
    return text;
}

TEST root_inside_is_nobody_outside(void)
{
    char command[128], path[64];
    const char *unique = unique_seconds();
    snprintf(command, sizeof command, "sleep %s >/dev/null 2>&1 & cat /proc/self/uid_map", unique);
    CLEANUP_REPLY struct reply reply = run_in("ids", command);
    unsigned inside, outside, count;
    ASSERT_EQ(3, sscanf(text_at(reply.json, "stdout"), "%u %u %u", &inside, &outside, &count));
    ASSERT(eventually(is_there, (void *)unique, 5000));
    snprintf(path, sizeof path, "/proc/%d/status", host_pid(unique));
    size_t size;
    unsigned char *status = read_whole(path, &size);
    status[size] = '\0';
    const char *line = strstr((char *)status, "\nUid:");
    unsigned uid = line ? (unsigned)strtoul(line + 5, NULL, 10) : 0;
    free(status);
    ASSERT_EQ(0, inside);
    if (fallback || geteuid() != 0) {
        ASSERT_EQ(geteuid(), uid);
        PASS();
    }
    ASSERT(outside >= 100000 && count == 65536);
    ASSERT_EQ(outside, uid);
    PASS();
}

TEST files_of_the_host_stay_as_they_are(void)
{
    struct stat before, after;
    ASSERT_EQ(0, stat("/usr/bin/env", &before));
    CLEANUP_REPLY struct reply reply =
        run_in("files", "echo changed > /usr/bin/env; chmod 777 /usr/bin/env; chown 33 "
                        "/usr/bin/env; rm -f /usr/bin/env /usr/lib/os-release; for d in "
                        "$(tr : ' ' <<< \"$PATH\"); do touch $d/canary-of-boundary; done; true");
    ASSERT_EQ(200, reply.status);
    ASSERT_EQ(0, stat("/usr/bin/env", &after));
    ASSERT(before.st_ino == after.st_ino && before.st_size == after.st_size);
    ASSERT(before.st_mode == after.st_mode && before.st_uid == after.st_uid);
    ASSERT(before.st_mtime == after.st_mtime && before.st_ctime == after.st_ctime);
    ASSERT(access("/usr/bin/canary-of-boundary", F_OK) < 0);
    ASSERT(access("/usr/local/bin/canary-of-boundary", F_OK) < 0);
    PASS();
}

TEST sandboxes_do_not_see_each_other(void)
{
    char command[256];
    const char *unique = unique_seconds();
    snprintf(command, sizeof command, "sleep %s >/dev/null 2>&1 & echo secret > /workspace/mine",
             unique);
    CLEANUP_REPLY struct reply one = run_in("one", command);
    ASSERT(eventually(is_there, (void *)unique, 5000));
    snprintf(command, sizeof command,
             "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'slee[p] %s'; ls /workspace; "
             "ls /proc | grep -c '^[0-9]'",
             unique);
    CLEANUP_REPLY struct reply two = run_in("two", command);
    int seen = -1, processes = -1;
    ASSERT_EQ(2, sscanf(text_at(two.json, "stdout"), "%d %d", &seen, &processes));
    ASSERT_EQ(0, seen);
    ASSERT(processes < 12);
    PASS();
}

TEST a_process_has_descriptors_0_1_and_2(void)
{
    CLEANUP_REPLY struct reply reply =
        run_in("fds", "ls -l /proc/self/fd | awk 'NR > 1 {print $9}'");
    /* The fourth is the directory that ls reads. */
    ASSERT_STR_EQ("0\n1\n2\n3", text_at(reply.json, "stdout"));
    CLEANUP_REPLY struct reply kinds = run_in("fds", "readlink /proc/self/fd/0");
    ASSERT_STR_EQ("/dev/null", text_at(kinds.json, "stdout"));
    PASS();
}

TEST a_way_around_the_root_leads_nowhere(void)
{
    CLEANUP_REPLY struct reply reply =
        run_in("ways", "cd /proc/1/root 2>/dev/null && echo entered; cd /proc/1/cwd 2>/dev/null && "
                       "echo entered; ls -d /oldroot /newroot /l /u /w 2>/dev/null; ls "
                       "/proc/self/root/../.. | tr '\\n' ' '; cat /proc/1/mountinfo | grep -c "
                       "sandpit");
    ASSERTm(keep(text_at(reply.json, "stdout")), !strstr(text_at(reply.json, "stdout"), "entered"));
    ASSERT(!strstr(text_at(reply.json, "stdout"), "/oldroot"));
    ASSERT(strstr(text_at(reply.json, "stdout"), " workspace "));
    PASS();
}

TEST package_managers_and_servers_still_work(void)
{
    if (geteuid() != 0)
        SKIPm("an ordinary user's sandboxes may have one id only");
    CLEANUP_REPLY struct reply reply =
        run_in("works", "touch /tmp/f && chown 33:33 /tmp/f && stat -c %u:%g /tmp/f && setpriv "
                        "--reuid 33 --regid 33 --clear-groups id -u && echo x >> /etc/passwd && "
                        "mkdir /usr/share/new && mv /usr/share/new /usr/share/newer && ls -d "
                        "/usr/share/newer");
    ASSERT_STR_EQ("33:33\n33\n/usr/share/newer", text_at(reply.json, "stdout"));
    PASS();
}

static const char make_package[] =
    "( set -e; cd /tmp; mkdir -p p/DEBIAN p/usr/share/sandpit-test p/var/mail; printf 'Package: "
    "sandpit-test\\nVersion: 1\\nArchitecture: all\\nMaintainer: t <t@example.com>\\nDescription: "
    "t\\n' > p/DEBIAN/control; echo data > p/usr/share/sandpit-test/file; chown 0:43 "
    "p/usr/share/sandpit-test/file; dpkg-deb -b p p.deb >/dev/null; dpkg -i p.deb >/dev/null; cat "
    "/usr/share/sandpit-test/file; stat -c %g /usr/share/sandpit-test/file; dpkg -s sandpit-test "
    "| grep ^Status )";

TEST a_package_is_installed_with_the_ids_of_its_files(void)
{
    if (geteuid() != 0)
        SKIPm("dpkg does not work in an ordinary user's sandboxes");
    if (access("/usr/bin/dpkg-deb", X_OK) < 0)
        SKIPm("this host has no dpkg");
    CLEANUP_REPLY struct reply reply = run_in("package", make_package);
    ASSERT_STR_EQm(keep(text_at(reply.json, "stderr")), "data\n43\nStatus: install ok installed",
                   text_at(reply.json, "stdout"));
    PASS();
}

TEST the_fallback_is_told_in_the_banner(void)
{
    size_t size;
    unsigned char *log = read_whole(emulator.log, &size);
    log[size] = '\0';
    bool told = strstr((char *)log, "root in a sandbox is root of this host") != NULL;
    free(log);
    ASSERT_EQ(fallback, told);
    PASS();
}

SUITE(boundary)
{
    RUN_TEST(root_of_a_sandbox_can_do_nothing_to_the_kernel);
    RUN_TEST(another_user_of_a_sandbox_can_do_nothing_either);
    RUN_TEST(a_set_user_id_program_gains_nothing);
    RUN_TEST(capabilities_are_dockers_less_three_and_cannot_grow);
    RUN_TEST(root_inside_is_nobody_outside);
    RUN_TEST(files_of_the_host_stay_as_they_are);
    RUN_TEST(sandboxes_do_not_see_each_other);
    RUN_TEST(a_process_has_descriptors_0_1_and_2);
    RUN_TEST(a_way_around_the_root_leads_nowhere);
    RUN_TEST(package_managers_and_servers_still_work);
    RUN_TEST(a_package_is_installed_with_the_ids_of_its_files);
    if (fallback)
        RUN_TEST(the_fallback_is_told_in_the_banner);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, boundary);
    if (geteuid() == 0) {
        fallback = true;
        setenv("SANDPIT_NO_IDMAP", "1", 1);
        SYSTEM_SUITE(emulator, boundary);
    }
    GREATEST_MAIN_END();
}
