/* Finding a running emulator. Each writes PID.json into one private directory,
 * $XDG_RUNTIME_DIR/sandpit or /tmp/sandpit-UID, and takes it away when it ends. What a killed one
 * left behind is recognised by its process's start time and deleted by the next reader. */
#ifndef SANDPIT_CLI_LOCATOR_H
#define SANDPIT_CLI_LOCATOR_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"

struct locator_entry {
    int pid; /* set by locator_write */
    unsigned long long
        start_time; /* of /proc/PID/stat, in ticks since boot; set by locator_write */
    int port;
    char url[256];            /* "http://localhost:8787" */
    char state_dir[PATH_MAX]; /* "" when there is none */
    char project[PATH_MAX];   /* absolute; "" without a project */
    char token[128];          /* "" without --auth */
};

/* The directory, made 0700 when it is not there. Refused when it is a symlink, belongs to somebody
 * else or is open to others: whoever can write there could answer for the emulator. */
int locator_dir(char to[PATH_MAX], struct error *err);
/* The same without making it: -ENOENT when it is not there. */
int locator_check(char to[PATH_MAX], struct error *err);

/* Announces this process. */
int locator_write(const struct locator_entry *entry, struct error *err);
/* Takes this process's entry and its run directory away. */
void locator_remove(void);

/* The emulator on `port` (0 = any), or for the project directory (NULL = any). With neither: the
 * only one that runs, or the one whose project contains the current directory. -ENOENT when there
 * is none, -EEXIST when several could be meant; err lists them. */
int locator_find(const char *project, int port, struct locator_entry *found, struct error *err);

/* A private directory for this process below locator_dir(), new and empty; those of dead processes
 * are removed first. */
int locator_run_dir(char *to, size_t size, struct error *err);

/* Removes `name` below the directory `dir_fd` and everything in it, without following symlinks or
 * entering mounts. 0 also when it is not there. */
int locator_remove_tree(int dir_fd, const char *name);

#endif
