/* Offline mirrors: directories of bare repositories that stand for servers. */
#ifndef SANDPIT_GIT_MIRROR_H
#define SANDPIT_GIT_MIRROR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct git_mirror {
    char *prefix; /* of URLs: "https://github.com/" */
    char *dir;    /* absolute; what follows the prefix is a path below it */
};

struct git_mirrors {
    struct git_mirror *items;
    size_t count;
    char *store; /* what `sandpit git mirror` fills when no prefix says otherwise; or NULL */
};

/* A relative `dir` starts at `base`. */
int git_mirrors_add(struct git_mirrors *mirrors, const char *prefix, const char *dir,
                    const char *base, struct error *err);
/* "PREFIX=DIR"; the prefix ends at the last "=" before a path. */
int git_mirrors_parse(struct git_mirrors *mirrors, const char *text, struct error *err);
/* Sets the store to $XDG_DATA_HOME/sandpit/git, else below $HOME; without either there is none. */
int git_mirrors_store(struct git_mirrors *mirrors, struct error *err);
void git_mirrors_free(struct git_mirrors *mirrors);

enum git_mirror_state {
    GIT_MIRROR_NONE,    /* none stands for this URL: ask its server */
    GIT_MIRROR_THERE,   /* the repository is at `path` */
    GIT_MIRROR_LACKING, /* a prefix stands for it, but there is no repository at `path` */
};
/* The longest prefix wins; without one, the store. */
enum git_mirror_state git_mirror_find(const struct git_mirrors *mirrors, const char *url,
                                      char path[PATH_MAX]);
/* Where a mirror of this URL goes, whether it is there or not. */
int git_mirror_place(const struct git_mirrors *mirrors, const char *url, char path[PATH_MAX],
                     struct error *err);

#endif
