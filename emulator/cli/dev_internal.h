/* What the files of `sandpit dev` share: what it was asked for, and what it consists of. */
#ifndef SANDPIT_CLI_DEV_INTERNAL_H
#define SANDPIT_CLI_DEV_INTERNAL_H

#include <limits.h>

#include "base/loop.h"
#include "cli/git.h"
#include "cli/limits.h"
#include "cli/platform.h"
#include "cli/whole_file.h"
#include "config/wrangler.h"
#include "drivers/driver.h"
#include "http/http.h"
#include "objects/objects.h"

struct settings {
    const char *dir, *ip, *config, *persist_to, *log_level, *log_format, *default_session, *journal;
    const char *events_file;
    const char *stop_grace, *environment, *expose_check;
    const char *seed, *cwd, *protocol, *deadlines, *network, *rules;
    long port, ready_fd;
    bool ephemeral, auth, local, remote, faithful, interactive;
    struct ready_file ready_file;
    struct limits_options limits;
    struct git_options git;
    struct platform_options platform;
};

struct dev {
    struct settings settings;
    struct project project;
    char state_dir[PATH_MAX];
    char run_dir[PATH_MAX];
    char token[33];
    int lock;
    struct git_settings git;
    struct object_class *classes;
    struct loop *loop;
    struct clock *clock;
    struct driver *driver;
    struct store *store;
    struct buckets *buckets;
    struct objects *objects;
    struct worker *worker;
    struct preview *preview;
    struct control *control;
    struct http_server *http;
    struct keys *keys;
    struct reload *reload;
    bool ending;
    struct timer force;
};

/* dev_options.c */

/* As opt_parse(). */
int dev_parse(struct settings *settings, int argc, char **argv);
/* What counts for the whole process: its directory, log, seed, limits of files and journal. */
int dev_setup(const struct settings *settings, struct error *err);
/* Whether only this machine can reach it. */
bool dev_is_loopback(const char *ip);

/* dev_banner.c: what is said at the start. */
void dev_print_banner(const struct dev *dev);

#endif
