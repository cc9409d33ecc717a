/* The keys of `sandpit dev` on a terminal: one press, no Enter. */
#ifndef SANDPIT_CLI_KEYS_H
#define SANDPIT_CLI_KEYS_H

#include "base/error.h"
#include "base/loop.h"
#include "clock/clock.h"
#include "objects/objects.h"

struct keys;

struct keys_config {
    struct loop *loop;
    struct clock *clock;
    struct objects *objects;
    const char *url; /* copied */
    void (*reload)(void *arg); /* reads the project again */
    void (*quit)(void *arg);
    void *arg;
};

/* Prints what the keys do and listens to them. NULL, with err->code 0, where standard input or
 * output is no terminal. The terminal is as it was again after keys_free(), at exit, when the
 * process is suspended, and when a signal ends it. */
struct keys *keys_new(const struct keys_config *config, struct error *err);
void keys_free(struct keys *keys);

#endif
