/* One helper process (sandpit-git) and what it says. Everything that parses what a server or a
 * repository holds runs there, so that a fault in it is a failed clone and nothing else. */
#ifndef SANDPIT_GIT_CLONE_H
#define SANDPIT_GIT_CLONE_H

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "git/mirror.h"

/* What all clones of the process share; stays valid as long as one runs. */
struct git_settings {
    const char *program; /* the helper */
    const char *run_dir; /* scratch directories are made below it */
    bool ssh_agent;      /* the agent of this process's environment may be used */
    struct git_mirrors mirrors;
};

struct git_clone;

struct git_clone_events {
    /* One line, an object with "type": progress, created, done or error. Borrowed. */
    void (*line)(void *arg, const json_t *line);
    /* The helper and its children are gone and so is the scratch directory. Called once, unless
     * git_clone_stop() came before; the clone is freed afterwards. `why` is NULL when it exited by
     * itself. */
    void (*ended)(void *arg, const char *why);
    void *arg;
};

/* `request` is completed with the scratch directory and what the settings say; `mount_namespace` is
 * the container's, borrowed. */
struct git_clone *git_clone_start(struct loop *loop, const struct git_settings *settings,
                                  json_t *request, int mount_namespace,
                                  struct git_clone_events events, struct error *err);
/* Kills it; ended() follows. */
void git_clone_kill(struct git_clone *clone, const char *why);
/* Kills it, and there is no callback any more. Everything is gone when this returns. */
void git_clone_stop(struct git_clone *clone);

/* For the command line: runs `sandpit-git` with the request and waits. Exit code, or -errno. */
int git_helper_run(const struct git_settings *settings, json_t *request,
                   void (*line)(void *arg, const json_t *line), void *arg, struct error *err);
/* The helper beside this program; malloc'd. */
char *git_helper_program(struct error *err);

#endif
