/* An emulator of our own: on a free port, without state on disk, ended with us. `run` and `demo`
 * have one. */
#ifndef SANDPIT_CLI_PRIVATE_H
#define SANDPIT_CLI_PRIVATE_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum { PRIVATE_ARGUMENTS_MAX = 250 };

struct private_emulator {
    char *arguments[PRIVATE_ARGUMENTS_MAX + 8]; /* its command line */
    int argument_count;
    pid_t pid;
    int pidfd;
    int signals; /* signalfd of those that private_prepare() blocked */
    sigset_t mask, old_mask;
    char url[256]; /* "http://localhost:41234", once it has started */
};

/* Sets the defaults, and blocks SIGINT, SIGTERM, SIGHUP and SIGQUIT, which are then read from
 * `signals`. */
void private_prepare(struct private_emulator *emulator);
/* One more option of `sandpit dev`; later ones win over the defaults. -E2BIG when there are too
 * many. The text must live until private_start(). */
int private_add(struct private_emulator *emulator, char *argument);
/* Answers when it is ready. After an error private_stop() tells its exit status. */
int private_start(struct private_emulator *emulator, struct error *err);
/* SIGTERM, five seconds, SIGKILL. The exit status, or -1 when there is none. */
int private_stop(struct private_emulator *emulator);

int open_pidfd(pid_t pid);

#endif
