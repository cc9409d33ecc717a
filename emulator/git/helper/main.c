#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/helper/helper.h"

enum { REQUEST_MAX = 1 << 20 };

static const char *text_of(const json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

static void read_request(struct request *request)
{
    CLEANUP_FREE char *text = calloc(1, REQUEST_MAX);
    size_t size = 0;
    ssize_t got = 0;
    while (text && size < REQUEST_MAX &&
           (got = read(STDIN_FILENO, text + size, REQUEST_MAX - size)) > 0)
        size += (size_t)got;
    json_t *json = text ? json_loadb(text, size, 0, NULL) : NULL;
    *request = (struct request){
        .json = json,
        .url = text_of(json, "url"),
        .stored = text_of(json, "stored"),
        .dir = text_of(json, "dir"),
        .shown = text_of(json, "shown"),
        .mirror = text_of(json, "mirror"),
        .local = text_of(json, "local"),
        .branch = text_of(json, "branch"),
        .scratch = text_of(json, "scratch"),
        .update = text_of(json, "update"),
        .depth = (int)json_integer_value(json_object_get(json, "depth")),
        .agent = json_is_true(json_object_get(json, "agent")),
    };
    bool clones = request->dir && request->shown && request->stored && request->scratch;
    if (!request->url || (!request->update && !clones))
        fatal("fatal: the request is not complete");
}

/* --- From phase 1 to phase 2 ------------------------------------------------------------------ */

/* Room for the descriptors of all packs and of `info`. */
union control {
    char bytes[CMSG_SPACE(sizeof(int) * (2 * PACKS_MAX + 1))];
    struct cmsghdr align;
};

static int info_file(const json_t *info)
{
    int fd = memfd_create("sandpit-git-info", MFD_CLOEXEC);
    if (fd < 0 || json_dumpfd(info, fd, JSON_COMPACT) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        fatal("fatal: hand on what was found: %s", strerror(errno));
    return fd;
}

static void send_source(int socket, const struct source *source)
{
    union control control = {0};
    int fds[2 * PACKS_MAX + 1], count = 0;
    struct iovec names = {(void *)source->packs, source->pack_count * sizeof source->packs[0]};
    struct msghdr message = {.msg_iov = &names, .msg_iovlen = 1, .msg_control = control.bytes};
    fds[count++] = info_file(source->info);
    for (size_t i = 0; i < source->pack_count; i++) {
        fds[count++] = source->packs[i].pack;
        fds[count++] = source->packs[i].idx;
    }
    char nothing = 0;
    if (source->pack_count == 0)
        names = (struct iovec){&nothing, 1};
    message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof(int) * (size_t)count), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), fds, sizeof(int) * (size_t)count);
    if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
        fatal("fatal: hand on what was found: %s", strerror(errno));
}

/* Phase 1 read what a server sent, so that nothing it says is believed: the names become files. */
static bool is_name(struct pack *pack)
{
    pack->name[sizeof pack->name - 1] = '\0';
    size_t hex =
        strncmp(pack->name, "pack-", 5) == 0 ? strspn(pack->name + 5, "0123456789abcdef") : 0;
    return (hex == 40 || hex == 64) && pack->name[5 + hex] == '\0';
}

/* False when it ended without: then it has said why. */
static bool receive_source(int socket, struct source *source, int *info)
{
    union control control = {0};
    int fds[2 * PACKS_MAX + 1];
    struct iovec names = {source->packs, sizeof source->packs};
    struct msghdr message = {.msg_iov = &names,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len < CMSG_LEN(sizeof(int)))
        return false;
    size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(head), count * sizeof(int));
    *info = fds[0];
    source->pack_count = size == 1 ? 0 : (size_t)size / sizeof source->packs[0];
    if (count != 1 + 2 * source->pack_count)
        return false;
    for (size_t i = 0; i < source->pack_count; i++) {
        source->packs[i].pack = fds[1 + 2 * i];
        source->packs[i].idx = fds[2 + 2 * i];
        if (!is_name(&source->packs[i]))
            return false;
    }
    return true;
}

/* In phase 2, for the same reason. */
static json_t *load_info(int fd)
{
    CLEANUP_FILE FILE *file = fdopen(fd, "r");
    json_t *info = file ? json_loadf(file, 0, NULL) : NULL;
    json_t *refs = json_object_get(info, "refs"), *ref;
    size_t i;
    git_oid oid;
    if (!json_is_array(refs))
        fatal("fatal: phase 1 handed on nothing");
    json_array_foreach(refs, i, ref)
    {
        const char *name = json_string_value(json_array_get(ref, 0));
        const char *hex = json_string_value(json_array_get(ref, 1));
        int valid = 0;
        if (!name || !hex || git_oid_fromstr(&oid, hex) < 0 ||
            git_reference_name_is_valid(&valid, name) < 0 || !valid ||
            (strncmp(name, "refs/heads/", 11) != 0 && strncmp(name, "refs/tags/", 10) != 0))
            fatal("fatal: phase 1 handed on a strange reference");
    }
    const json_t *checkout = json_object_get(info, "checkout");
    if (checkout && (!text_of(checkout, "ref") || !text_of(checkout, "oid")))
        fatal("fatal: phase 1 handed on a strange reference");
    return info;
}

/* --- Phases ----------------------------------------------------------------------------------- */

static volatile pid_t phase; /* the child that runs, or 0 */

/* Asked to end: the child goes first and is waited for, so that not even a zombie is left to a PID
 * 1 that might not care. */
static void end_all(int signal_number)
{
    if (phase > 0 && kill(phase, SIGKILL) == 0)
        waitpid(phase, NULL, 0);
    _exit(1);
}

static void block_end(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(how, &set, NULL);
}

/* A child that does not outlive this process. Returns 0 in it. */
static int begin_phase(void)
{
    pid_t parent = getpid();
    block_end(SIG_BLOCK);
    int pid = fork();
    if (pid < 0)
        fatal("fatal: fork: %s", strerror(errno));
    phase = pid;
    if (pid == 0)
        signal(SIGTERM, SIG_DFL);
    block_end(SIG_UNBLOCK);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    return 0;
}

/* A change of credentials makes the kernel forget the signal. */
static void stay_bound(pid_t parent)
{
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static void end_phase(int pid)
{
    int status = 0;
    waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT);
    block_end(SIG_BLOCK);
    waitpid(pid, &status, 0);
    phase = 0;
    block_end(SIG_UNBLOCK);
    if (WIFSIGNALED(status))
        fatal("fatal: git was ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        exit(1); /* it has said why */
}

__attribute__((noreturn)) static void fetch(const struct request *request, int socket)
{
    char out[4200];
    struct source source = {0};
    close(MOUNTS_FD);
    /* A mirror may belong to another user of this host. */
    confine_phase(request->mirror ? CAP_DAC_READ_SEARCH : -1, request->scratch);
    if (request->mirror)
        disk_source(request, request->mirror, &source);
    else
        remote_source(request, &source);
    snprintf(out, sizeof out, "%s/out", request->scratch);
    if (mkdir(out, 0700) < 0)
        fatal("fatal: scratch directory: %s", strerror(errno));
    if (json_object_get(source.info, "single"))
        depth_pack(&source, request->depth, out);
    else
        disk_packs(&source, out);
    disk_open_packs(&source, out);
    json_object_del(source.info, "tips");
    send_source(socket, &source);
    _exit(0);
}

/* Before anything is fetched, as git does. */
static void check(const struct request *request)
{
    pid_t parent = getpid();
    int pid = begin_phase();
    if (pid == 0) {
        enter_container(MOUNTS_FD);
        stay_bound(parent);
        write_check(request);
        _exit(0);
    }
    end_phase(pid);
}

static void put(const struct request *request, struct source *source, int info)
{
    pid_t parent = getpid();
    int pid = begin_phase();
    if (pid == 0) {
        enter_container(MOUNTS_FD);
        stay_bound(parent);
        close(MOUNTS_FD);
        if (request->local)
            disk_source(request, request->local, source);
        else
            source->info = load_info(info);
        write_begin(request);
        write_repository(request, source);
        _exit(0);
    }
    end_phase(pid);
}

static void clone_repository(const struct request *request)
{
    struct source source = {0};
    int pair[2], info = -1;
    check(request);
    if (!request->local) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
            fatal("fatal: socket: %s", strerror(errno));
        int pid = begin_phase();
        if (pid == 0)
            fetch(request, pair[1]);
        close(pair[1]);
        bool found = receive_source(pair[0], &source, &info);
        end_phase(pid);
        if (!found)
            fatal("fatal: phase 1 handed on nothing");
        close(pair[0]);
    }
    put(request, &source, info);
}

int main(void)
{
    struct request request;
    signal(SIGTERM, end_all);
#ifndef __SANITIZE_ADDRESS__
    /* The emulator's standard error may be a terminal, and no phase is to have one. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDERR_FILENO);
#endif
    read_request(&request);
    close(STDIN_FILENO);
    /* All of libgit2 is here before a container's root is, and nothing is loaded after. */
    setup_libgit2();
    if (request.update) {
        confine_phase(CAP_DAC_OVERRIDE, request.update);
        remote_update(&request);
    } else {
        clone_repository(&request);
    }
    _exit(0); /* what is left belongs to libgit2, and goes with the process */
}
