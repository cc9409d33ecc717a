/* What the emulator and PID 1 of a container say to each other over one SOCK_SEQPACKET socket.
 *
 * Each message is a struct rt_head and `size` bytes of payload; descriptors travel beside it with
 * SCM_RIGHTS. The emulator asks, the runtime answers with the same id and op; value is the result
 * (0 or more) or a negative errno. Strings are NUL-terminated and follow the fixed struct in the
 * order named. The runtime says two things unasked, with id 0: RT_HELLO once and RT_EXIT for every
 * process that it spawned on request. Both ends are built from one tree, so structs are native.
 *
 * Paths are resolved by the runtime, inside the container. A relative path starts at the working
 * directory of the process `base_pid` (one that was spawned on request), or /workspace when 0. */
#ifndef SANDPIT_RUNTIME_PROTOCOL_H
#define SANDPIT_RUNTIME_PROTOCOL_H

#include <stdint.h>

enum {
    RT_VERSION = 2,
    RT_MESSAGE_MAX = 160 * 1024, /* below the kernel's default socket buffer */
    RT_FDS_MAX = 8,
    RT_SOCKET_FD = 3, /* where the runtime finds its socket */
    RT_CONTROL_PORT = 3000,
};

/* FIFO pairs: RT_FIFO_DIR "/<number>.1" and ".2", for standard output and standard error; ".3" for
 * what a background command's wrapper tells. */
#define RT_FIFO_DIR "/dev/.sandpit"
#define RT_DEFAULT_DIR "/workspace"

enum rt_op {
    RT_HELLO = 1, /* runtime → emulator: ready; value = RT_VERSION */
    RT_EXIT,      /* runtime → emulator: value = pid, payload struct rt_exit */
    RT_SPAWN, /* struct rt_spawn, cwd, argv…, env… → value = pid, descriptors as the slots say */
    RT_FIFOS,      /* value = 3, else 0 for two → value = number; descriptors: read ends */
    RT_FIFOS_DROP, /* value = number: unlinks them; no answer */
    RT_SIGNAL,     /* struct rt_signal → value = how many processes got it */
    RT_OPEN,       /* struct rt_path, path → payload struct rt_stat; descriptor */
    RT_STAT,       /* struct rt_path, path → payload struct rt_stat */
    RT_LIST,       /* struct rt_path, path → descriptor: pipe of struct rt_entry records */
    RT_MKDIR,      /* struct rt_path, path */
    RT_RENAME,     /* struct rt_path, old, new; as mv: into new when that is a directory */
    RT_REMOVE,     /* struct rt_path, path; a tree only with RT_RECURSIVE (in a forked child) */
    RT_READLINK,   /* struct rt_path, path → payload: the target */
    RT_CONNECT, /* struct rt_connect → descriptor: a non-blocking socket, perhaps in progress */
    RT_END,     /* struct rt_end; answered when all are gone: 0, or -ETIME: by SIGKILL */
};

struct rt_head {
    uint32_t id;
    uint16_t op;
    uint16_t reserved;
    int32_t value;
    uint32_t size;
};

struct rt_exit {
    int32_t code;   /* exit code, or 128 + signal */
    int32_t signal; /* 0 when it exited by itself */
};

/* What a spawned process finds at a descriptor. For kinds marked →, the emulator gets the other end
 * in the answer, in slot order. Anything not named in a slot is closed. */
enum rt_slot_kind {
    RT_SLOT_NULL = 1, /* /dev/null */
    RT_SLOT_IN,    /* → a pipe the process reads; the emulator gets the write end, non-blocking */
    RT_SLOT_OUT,   /* → a pipe the process writes; the emulator gets the read end, non-blocking */
    RT_SLOT_MEMFD, /* → a memfd: both sides share one open file and so one position */
};
struct rt_slot {
    int32_t fd;
    uint32_t kind;
};
enum { RT_SLOTS_MAX = 6 };

enum {
    RT_SPAWN_GROUP = 1,   /* own process group */
    RT_SPAWN_SESSION = 2, /* own session (and group) */
    RT_SPAWN_PTY = 4,     /* 0, 1, 2 are a new pty in an own session; descriptor: the master */
    RT_SPAWN_HOME = 8,    /* when cwd cannot be entered: $HOME of env, else /root, else / */
};
struct rt_spawn {
    uint32_t flags;
    uint32_t uid, gid;
    uint16_t rows, columns; /* of the pty; 0 = 24 × 80 */
    uint16_t argc, envc;
    uint32_t slot_count;
    struct rt_slot slots[RT_SLOTS_MAX];
};

enum {
    RT_SIGNAL_PROCESS = 0,
    RT_SIGNAL_GROUP,
    RT_SIGNAL_TREE, /* leaves first */
    RT_SIGNAL_ALL,  /* everything but PID 1, whatever pid says; answered when none is left */
};
struct rt_signal {
    int32_t pid; /* of a process spawned on request and not yet reported ended, else -ESRCH */
    int32_t signal;
    uint32_t scope;
};

/* Ends a process and all that it started: SIGTERM, parents first, and SIGKILL after the grace. What it
 * started are its descendants, and whoever holds one of two pipes: a daemon has left the tree, but
 * rarely closes its output. -ETIMEDOUT when something is left 5 s after SIGKILL; -ESRCH when it is not
 * there; -EINTR when somebody ended the worker that does it. */
enum { RT_PROOF_FD = 7 };
struct rt_end {
    /* Spawned on request; or, with `proof`, the process whose descriptor RT_PROOF_FD is that FIFO,
     * so that a pid that was given to another process is harmless. 0: only who holds the pipes. */
    int32_t pid;
    uint32_t grace_ms;
    uint64_t device; /* of the inodes */
    uint64_t proof;  /* an inode, or 0 */
    uint64_t pipes[2];
};

enum {
    RT_PARENTS = 1,   /* open and mkdir: make missing parent directories, 0755 */
    RT_NOFOLLOW = 2,  /* stat: the link itself */
    RT_RECURSIVE = 4, /* list, remove */
    RT_EXACT = 8,     /* rename: to this name, as rename(2), also when it is a directory */
};
struct rt_path {
    int32_t base_pid;
    uint32_t flags;      /* RT_PARENTS … */
    uint32_t open_flags; /* O_RDONLY …; O_CLOEXEC, O_NONBLOCK and O_NOCTTY are always added */
    uint32_t mode;       /* of what is created; 0 = 0666 or 0777 less the umask 022 */
};

struct rt_stat {
    uint32_t mode; /* st_mode */
    uint32_t uid, gid;
    uint32_t created; /* open: 1 when it was not there before */
    int64_t size;
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint32_t reserved2;
};

/* One entry of a listing, followed by path_size bytes: the path below the listed directory, no
 * NUL. Links are not followed; order is the directory's. The last record has path_size 0 and the
 * errno that ended the walk, or 0. */
struct rt_entry {
    uint32_t path_size;
    int32_t error;
    struct rt_stat stat;
};

struct rt_connect {
    uint16_t port;
    uint16_t ipv6; /* 0: 127.0.0.1, 1: ::1 */
};

#endif
