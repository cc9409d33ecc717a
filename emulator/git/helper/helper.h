/* sandpit-git: one clone, in a process of its own.
 *
 * The first process (main.c) only starts the others and carries descriptors between them. Phase 1
 * talks to the server, or reads a mirror, without capabilities and with nothing but its scratch
 * directory to write to. Phase 2 is inside the container's mounts, without capabilities and
 * network, and holds of this host only the packs that it copies. A path inside the sandbox needs
 * no phase 1.
 *
 * The request is a JSON object on descriptor 0. Answers are JSON objects on descriptor 1, one on a
 * line: progress, created, done, error. Every phase is a one-shot process, so what goes wrong ends
 * it: fatal(). */
#ifndef SANDPIT_GIT_HELPER_H
#define SANDPIT_GIT_HELPER_H

#include <git2.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MOUNTS_FD = 3,     /* the container's mount namespace */
    PACKS_MAX = 100,   /* that are handed on as they are */
    GIT_FATAL = 128,   /* the exit code of git for all that is fatal */
    GIT_GIBIBYTES = 2, /* that a server may send */
    /* Address space of a phase: a small pack can claim to be a very large object. */
    MEMORY_GIBIBYTES = 4,
};

struct request {
    json_t *json;
    const char *url;     /* as given; "" for nothing */
    const char *stored;  /* what becomes remote.origin.url */
    const char *dir;     /* absolute, inside the container */
    const char *shown;   /* how messages name it */
    const char *mirror;  /* a repository of this host instead of the server, or NULL */
    const char *local;   /* an absolute path inside the container, or NULL */
    const char *branch;  /* or NULL */
    const char *scratch; /* a private directory of this host */
    const char *update;  /* only fetch into this bare repository of this host, or NULL */
    int depth;           /* 0 = everything */
    bool agent;          /* the ssh agent may be asked */
};

struct pack {
    char name[80]; /* without ".pack" */
    int pack, idx;
};

/* A repository to be written: `info` is {refs: [[name, oid]…], head?, checkout?: {ref, oid},
 * shallow?: [oid…], single?: name, packs: [name…]}. */
struct source {
    git_repository *repo;
    json_t *info;
    struct pack packs[PACKS_MAX];
    size_t pack_count;
};

/* say.c */
void say(json_t *line); /* takes */
void say_progress(const char *step, uint64_t done, uint64_t total, uint64_t bytes);
/* Undone before fatal() ends the process. */
extern void (*say_undo)(void);
void fatal(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fatal_git(const char *what) __attribute__((noreturn)); /* with libgit2's last error */
const char *last_error(void);

/* confine.c */
void confine_phase(int keep_capability, const char *writable);
void drop_capabilities(int keep_capability); /* -1 = none */

/* enter.c: becomes a process of the container, as its root, without rights and network. */
void enter_container(int mounts);

/* setup.c: libgit2 without any configuration of this host. */
void setup_libgit2(void);
void setup_certificates(void); /* those that the environment names */

/* remote.c: asks the server. */
void remote_source(const struct request *request, struct source *source);
void remote_update(const struct request *request);

/* disk.c: a repository that can be read here. */
void disk_source(const struct request *request, const char *path, struct source *source);
/* Finds packs for all that `info` names; builds into `to` what there are none for. */
void disk_packs(struct source *source, const char *to);
void disk_open_packs(struct source *source, const char *dir);

/* choose.c */
void choose_checkout(const struct request *request, json_t *info, int depth);
const char *info_oid(const json_t *info, const char *name); /* of a reference, or NULL */
json_t *info_new(void);
/* Adds a branch or tag; passes over what else there is. `peeled` may be NULL. */
void info_add(json_t *info, const char *name, const git_oid *oid, const git_oid *peeled);

/* depth.c: packs the last commits into `to` and notes where history is cut. */
void depth_pack(struct source *source, int depth, const char *to);

/* write.c: phase 2. */
void write_check(const struct request *request);
void write_begin(const struct request *request);
void write_repository(const struct request *request, struct source *source);

#endif
