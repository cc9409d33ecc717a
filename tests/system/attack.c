/* Runs inside a sandbox as its root and tries what must not work there. Prints what went otherwise
 * than it should; exit code 0 when everything was refused. Static, so that it needs nothing. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

static int wrong;

static void expect_refusal(const char *what, long result, bool filtered)
{
    if (result < 0 && (errno == EPERM || (!filtered && errno != ENOENT)))
        return;
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "it worked");
    wrong++;
}

/* Harmless with these arguments even where they are allowed. The filter's word is EPERM. */
static const struct {
    const char *name;
    long number, arguments[5];
} calls[] = {
    {"keyctl", SYS_keyctl, {0, -3, 0}},
    {"add_key", SYS_add_key, {0}},
    {"request_key", SYS_request_key, {0}},
    {"bpf", SYS_bpf, {0, 0, 0}},
    {"perf_event_open", SYS_perf_event_open, {0, 0, -1, -1, 0}},
    {"userfaultfd", SYS_userfaultfd, {0}},
    {"io_uring_setup", SYS_io_uring_setup, {0, 0}},
    {"init_module", SYS_init_module, {0, 0, 0}},
    {"finit_module", SYS_finit_module, {-1, 0, 0}},
    {"delete_module", SYS_delete_module, {0, 0}},
    {"kexec_load", SYS_kexec_load, {0, 0, 0, 0}},
    {"reboot", SYS_reboot, {0, 0, 0, 0}},
    {"swapon", SYS_swapon, {0, 0}},
    {"settimeofday", SYS_settimeofday, {0, 0}},
    {"clock_settime", SYS_clock_settime, {-1, 0}},
    {"syslog", SYS_syslog, {3, 0, 0}},
    {"mount", SYS_mount, {0, 0, 0, 0, 0}},
    {"umount2", SYS_umount2, {0, 0}},
    {"pivot_root", SYS_pivot_root, {0, 0}},
    {"setns", SYS_setns, {-1, 0}},
    {"open_by_handle_at", SYS_open_by_handle_at, {-1, 0, 0}},
    {"acct", SYS_acct, {0}},
    {"quotactl", SYS_quotactl, {0, 0, 0, 0}},
    {"personality: read implies exec", SYS_personality, {0x0400000}},
    {"personality: the top bit", SYS_personality, {0x80100000}},
    {"socket to the hypervisor", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}},
};

static void try_calls(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const long *a = calls[i].arguments;
        expect_refusal(calls[i].name, syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4]), true);
    }
    if (syscall(SYS_personality, 0xffffffff) < 0) {
        printf("asking for the personality: %s\n", strerror(errno));
        wrong++;
    }
}

static void expect_no_child(const char *what, long pid)
{
    if (pid == 0)
        _exit(0);
    expect_refusal(what, pid, false);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
}

static void try_namespaces(void)
{
    uint64_t clone3[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    expect_refusal("unshare a user namespace", unshare(CLONE_NEWUSER), false);
    expect_refusal("unshare a mount namespace", unshare(CLONE_NEWNS), false);
    expect_refusal("unshare a network", unshare(CLONE_NEWNET), false);
    expect_no_child("clone a user namespace",
                    syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
    expect_no_child("clone3 a user namespace", syscall(SYS_clone3, clone3, sizeof clone3));
    /* As a user without any capability, too. */
    pid_t pid = fork();
    if (pid == 0)
        _exit(setuid(33) == 0 && unshare(CLONE_NEWUSER) == 0);
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) {
        printf("a user namespace as another user: it worked\n");
        wrong++;
    }
}

/* The kernel looks at the low 32 bits of a request. */
static void try_terminal(void)
{
    static const unsigned long high[] = {0, 1UL << 32, 0xdeadbeefUL << 32};
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    int unlock = 0, peer = -1;
    char byte = 'x';
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ||
        (peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY)) < 0) {
        printf("no terminal to try with: %s\n", strerror(errno));
        wrong++;
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        ioctl(peer, TIOCSCTTY, 0);
        for (size_t i = 0; i < sizeof high / sizeof high[0]; i++) {
            expect_refusal("TIOCSTI", syscall(SYS_ioctl, peer, TIOCSTI | high[i], &byte), true);
            expect_refusal("TIOCLINUX", syscall(SYS_ioctl, peer, TIOCLINUX | high[i], &byte), true);
        }
        fflush(stdout);
        _exit(wrong);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    wrong += status != 0;
}

static void try_files(void)
{
    static const char *const writable[] = {"/proc/sys/kernel/core_pattern",
                                           "/proc/sys/vm/drop_caches",
                                           "/proc/sysrq-trigger",
                                           "/proc/1/root/etc/passwd",
                                           "/proc/self/exe",
                                           "/proc/irq/default_smp_affinity"};
    static const char *const readable[] = {"/proc/1/environ", "/proc/1/mem", "/proc/1/maps",
                                           "/proc/1/root/etc/passwd", "/proc/kmsg"};
    for (size_t i = 0; i < sizeof writable / sizeof writable[0]; i++) {
        if (access(writable[i], F_OK) == 0)
            expect_refusal(writable[i], open(writable[i], O_WRONLY), false);
    }
    for (size_t i = 0; i < sizeof readable / sizeof readable[0]; i++) {
        if (access(readable[i], F_OK) == 0)
            expect_refusal(readable[i], open(readable[i], O_RDONLY), false);
    }
    expect_refusal("mknod of a disk", mknod("/tmp/disk", S_IFBLK | 0600, makedev(8, 0)), false);
    expect_refusal("mknod of memory", mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)), false);
    char byte;
    int kcore = open("/proc/kcore", O_RDONLY);
    if (kcore >= 0 && read(kcore, &byte, 1) > 0) {
        printf("/proc/kcore has contents\n");
        wrong++;
    }
}

/* Calls of another architecture have other numbers, which a filter by numbers would not know. */
static void try_other_architecture(void)
{
#ifdef __x86_64__
    pid_t pid = fork();
    if (pid == 0)
        _exit(syscall(0x40000000L | SYS_keyctl, 0, -3, 0) < 0 && errno == ENOSYS ? 0 : 1);
    int status = 0;
    waitpid(pid, &status, 0);
    if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) && status != 0) {
        printf("an x32 call: it worked\n");
        wrong++;
    }
#endif
}

int main(int argc, char **argv)
{
    /* A copy of us with the set-user-id bit gains nothing. */
    if (argc > 1 && strcmp(argv[1], "setuid") == 0) {
        printf("%d %d\n", (int)getuid(), (int)geteuid());
        return 0;
    }
    try_calls();
    try_namespaces();
    try_terminal();
    try_files();
    try_other_architecture();
    if (!wrong)
        printf("everything was refused\n");
    return wrong ? 1 : 0;
}
