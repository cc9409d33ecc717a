/* What the torture test and the tortured emulator share: a page of memory that says which call
 * fails next. The emulator is linked a second time, with its calls of the C library led through
 * torture.c; calls inside shared libraries are not, but for the memory of jansson, which asks the
 * emulator, and of sqlite, which is told to ask torture.c. */
#ifndef SANDPIT_TORTURE_H
#define SANDPIT_TORTURE_H

#include <stdatomic.h>

/* The environment variable with the path of the file that is mapped. */
#define TORTURE_VARIABLE "SANDPIT_TORTURE"

enum torture_kind {
    TORTURE_NONE,
    TORTURE_MEMORY,  /* malloc and friends, and jansson's */
    TORTURE_SQLITE,  /* sqlite's memory */
    TORTURE_OPEN,    /* files and directories */
    TORTURE_CREATE,  /* descriptors of other kinds: pipes, sockets, epoll, memfd, pidfd */
    TORTURE_READ,    /* read, pread */
    TORTURE_WRITE,   /* write, pwrite, ftruncate, lseek */
    TORTURE_SEND,    /* send, sendmsg */
    TORTURE_RECEIVE, /* recv, recvmsg, accept4 */
    TORTURE_WATCH,   /* epoll_ctl that adds or changes */
    TORTURE_FORK,    /* fork, clone */
    TORTURE_SYSTEM,  /* mount, unshare, mkdir and what else makes a container */
    TORTURE_COUNT,
};

enum { TORTURE_FRAMES = 8 };

struct torture {
    atomic_int kind;
    atomic_long left;   /* calls of that kind until the first that fails; 1 = the next */
    atomic_long length; /* how many fail in a row */
    atomic_long failed;
    long where[TORTURE_FRAMES]; /* who called the first that failed, as offsets into the program */
    atomic_long calls[TORTURE_COUNT]; /* made so far, of each kind */
};

#endif
